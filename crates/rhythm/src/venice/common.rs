//! What the commands of `rhythm venice` have in common: how values are read, and which addresses
//! are refused.

use crate::exits::wrong;
use anyhow::{Context, Result, ensure};
use rhythm_protocol::http::uri::is_host_name;
use rhythm_venice::identity::Identity;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where a monitor has its state, and a machine its identity, unless flags say otherwise.
pub(super) const STATE: &str = "/var/lib/rhythm-venice";
pub(super) const IDENTITY: &str = "/etc/rhythm/venice";

/// A time, such as `500ms`, `2s` or `1m`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time, such as 500ms, 2s or 1m, of 10 ms to an hour".to_owned();
    let digits = text
        .find(|char: char| !char.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        _ => None,
    };
    let millis = millis.filter(|millis| (10..=3_600_000).contains(millis));
    millis.map(Duration::from_millis).ok_or_else(wrong)
}

/// Parses an amount of memory: a number, and what it counts.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().find(|(_, char)| !char.is_ascii_digit()) {
        Some((at, _)) => text.split_at(at),
        None => (text, ""),
    };
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err("a number of bytes is wanted, such as 256M or 4G".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "a number of bytes is wanted, such as 256M or 4G".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "that is more than there is anywhere".to_owned())
}

/// An address and a port; with port 0, a free one is taken.
pub(super) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let address = text.parse().ok();
    address.ok_or("an address and a port, such as 127.0.0.1:7200 or [::1]:7200")
}

/// A name by which the admin listener may be asked.
pub(super) fn host_name(text: &str) -> Result<String, &'static str> {
    match is_host_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name of a host, without a port"),
    }
}

/// How long an address of several may take to be connected to before the next is tried.
const REACHED_WITHIN: Duration = Duration::from_secs(2);

/// The address of somebody who is named: of several the first that is reached, as a name may have
/// one (of IPv6, say) at which nobody listens.
pub(super) fn resolve(named: &str, who: &str, example: &str) -> Result<SocketAddr> {
    let addresses = named.to_socket_addrs().ok();
    let addresses: Vec<SocketAddr> = addresses.into_iter().flatten().collect();
    let reached = reached(&addresses);
    reached.with_context(|| format!("there is no {who} {named}: give HOST:PORT, such as {example}"))
}

fn reached(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let is_reached = |at: &&SocketAddr| TcpStream::connect_timeout(at, REACHED_WITHIN).is_ok();
    let reached = match addresses {
        // Who uses it says why it is not reached.
        [only] => Some(only),
        several => several.iter().find(is_reached).or(several.first()),
    };
    reached.copied()
}

/// An identity, whose owner is told where it is over soon.
pub(super) fn identity(folder: &Path) -> Result<Arc<Identity>> {
    let identity = Identity::open(folder)?;
    if identity.expires_soon() {
        let days = identity.left().as_secs() / 86_400;
        tracing::warn!(
            folder = %folder.display(), days,
            "the certificate is soon over: join again (rhythm venice token, rhythm venice join)"
        );
    }
    Ok(Arc::new(identity))
}

/// How borrowers are spoken with, behind an address.
pub(super) fn in_tls(identity: Option<&Identity>) -> String {
    identity.map_or_else(String::new, |own| format!(" in TLS as {}", own.party()))
}

/// Refuses an address that others reach, unless they may.
pub(super) fn may_be_plain(flag: &str, address: SocketAddr, may: bool) -> Result<()> {
    ensure!(
        may || address.ip().is_loopback(),
        wrong(format_args!(
            "{flag} {address}: what goes there is neither encrypted nor protected from being \
             changed on its way, keys of loans among it. Give each machine an identity instead of \
             --key-file (rhythm venice token, rhythm venice join), and all is encrypted; or, on a \
             network of which all machines are trusted, say --plain-network"
        ))
    );
    ensure!(
        !address.ip().is_unspecified(),
        wrong(format_args!(
            "{flag} {address}: name the address at which other machines reach this one"
        ))
    );
    Ok(())
}

/// Refuses a donor that the key, and all that follows, would go to in the clear by a network of
/// which nobody has said that it is trusted.
pub(super) fn may_borrow(donor: SocketAddr, is_sealed: bool, plain_network: bool) -> Result<()> {
    ensure!(
        is_sealed || plain_network || donor.ip().is_loopback(),
        "donor {donor}: what goes there would be neither encrypted nor protected from being \
         changed on its way, the key among it. Give both machines an identity (rhythm venice \
         join), the donor's command --identity DIR, and this one --identity DIR --donor-node NODE; \
         or, on a network of which all machines are trusted, say --plain-network"
    );
    Ok(())
}

/// Where the authority of a monitor is that has its state in a folder.
pub(super) fn authority_of(state: &Path) -> PathBuf {
    state.join("authority")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn of_several_addresses_one_is_taken_at_which_somebody_listens() {
        let [gone, there] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let [first, second] = [&gone, &there].map(|it| it.local_addr().expect("it is bound"));
        drop(gone);
        assert_eq!(reached(&[]), None);
        assert_eq!(reached(&[first]), Some(first));
        assert_eq!(reached(&[first, second]), Some(second));
        drop(there);
        assert_eq!(reached(&[first, second]), Some(first));
    }

    #[test]
    fn times_and_bytes_have_units() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("1m"), Ok(Duration::from_secs(60)));
        for wrong in [
            "",
            "1",
            "s",
            "5ms",
            "2h",
            "-1s",
            "99999999999999999999s",
            "61m",
        ] {
            assert!(time(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(
            (bytes("0"), bytes("3k"), bytes("2G")),
            (Ok(0), Ok(3072), Ok(2 << 30))
        );
        for wrong in ["", "G", "1.5G", "-1", "99999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn amounts_have_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("256M"), Ok(256 << 20));
        assert_eq!(bytes("4gib"), Ok(4 << 30));
        for wrong in ["", "M", "1.5G", "-1", "10X", "99999999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_network_is_plain_only_when_somebody_says_so() {
        let at = |text: &str| text.parse().expect("an address");
        assert!(may_be_plain("--listen", at("127.0.0.1:1"), false).is_ok());
        let error = may_be_plain("--listen", at("10.0.0.1:1"), false).expect_err("refused");
        assert!(error.to_string().contains("--plain-network"), "{error}");
        assert!(may_be_plain("--listen", at("10.0.0.1:1"), true).is_ok());
        assert!(may_be_plain("--listen", at("0.0.0.0:1"), true).is_err());
        assert!(may_borrow(at("127.0.0.1:1"), false, false).is_ok());
        let error = may_borrow(at("10.0.0.1:1"), false, false).expect_err("refused");
        assert!(error.to_string().contains("--plain-network"), "{error}");
        assert!(may_borrow(at("10.0.0.1:1"), true, false).is_ok());
        assert!(may_borrow(at("10.0.0.1:1"), false, true).is_ok());
    }
}
