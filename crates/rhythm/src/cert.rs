//! `rhythm cert self-signed`: a certificate to try TLS with.

use crate::output;
use anyhow::{Context, Result, bail};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use time::{Duration, OffsetDateTime};

/// Make certificates.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    SelfSigned(SelfSigned),
}

/// Make a certificate that nobody but its owner vouches for, to try TLS.
///
/// It writes cert.pem and key.pem (which its owner alone may read) into a folder, where none are
/// yet. Browsers warn of it; curl takes it with --cacert cert.pem. For a public site a certificate
/// comes from an authority, by an ACME client such as certbot or lego.
#[derive(Debug, clap::Args)]
struct SelfSigned {
    /// The folder; it is made where it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// A name or an address that it is for; may be said several times
    #[arg(long = "name", value_name = "NAME", default_values = ["localhost", "127.0.0.1", "::1"])]
    names: Vec<String>,

    /// For how many days it is good
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=825))]
    days: u32,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Command::SelfSigned(args) = &args.command;
    let (certificate, key) = make(&args.names, args.days)?;
    let folder = &args.folder;
    let shown = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}"))?;
    let [certificate_file, key_file] = ["cert.pem", "key.pem"].map(|name| folder.join(name));
    write(&[
        (&key_file, 0o600, &key),
        (&certificate_file, 0o644, &certificate),
    ])?;
    output::print(format_args!(
        "{} and {}: for {}, for {} days\n\
         rhythm serve DIR --tls-listen 127.0.0.1:8443 --tls-certificate {} --tls-key {}\n",
        certificate_file.display(),
        key_file.display(),
        args.names.join(", "),
        args.days,
        certificate_file.display(),
        key_file.display(),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// A certificate and its key, as PEM.
fn make(names: &[String], days: u32) -> Result<(String, String)> {
    if let Some(wrong) = names.iter().find(|name| !is_name(name)) {
        bail!("`{wrong}` is no name of a host, nor an address: such as example.com");
    }
    let key = KeyPair::generate().context("cannot make a key")?;
    let params = CertificateParams::new(names);
    let mut params = params.context("a name is no name of a host, nor an address")?;
    params.distinguished_name = DistinguishedName::new();
    if let Some(first) = names.first() {
        params.distinguished_name.push(DnType::CommonName, first);
    }
    let now = OffsetDateTime::now_utc();
    // Clocks differ.
    params.not_before = now - Duration::DAY;
    params.not_after = now + Duration::days(days.into());
    let certificate = params.self_signed(&key);
    let certificate = certificate.context("cannot sign the certificate")?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Whether a certificate can be for it: an address, or a name of hosts (RFC 1123, section 2.1),
/// perhaps of all below one.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len())
            && label.bytes().all(is_of_label)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let host = name.strip_prefix("*.").unwrap_or(name);
    name.parse::<IpAddr>().is_ok() || name.len() <= 253 && host.split('.').all(is_label)
}

/// Writes files that are not there yet: all of them, or none.
fn write(files: &[(&Path, u32, &str)]) -> Result<()> {
    let mut made = Vec::new();
    let written = files.iter().try_for_each(|(path, mode, text)| {
        let mut new = OpenOptions::new();
        let new = new.write(true).create_new(true).mode(*mode).open(path);
        if let Err(why) = &new
            && why.kind() == ErrorKind::AlreadyExists
        {
            bail!(
                "{} is there already, and is not overwritten: remove it, or name another folder",
                path.display()
            );
        }
        let written = new.and_then(|mut file| {
            made.push(path);
            file.write_all(text.as_bytes())
        });
        written.with_context(|| format!("cannot write {}", path.display()))
    });
    if written.is_err() {
        for path in made {
            let _ = std::fs::remove_file(path);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_a_host_nor_an_address_has_no_certificate() {
        for name in ["localhost", "127.0.0.1", "::1", "*.example.com", "a-1.b_c"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "not a name",
            "a..b",
            "-a.b",
            "https://a.b",
            "*.",
            "a.*.b",
        ] {
            assert!(!is_name(name), "{name}");
            assert!(make(&[name.to_owned()], 1).is_err(), "{name}");
        }
    }
}
