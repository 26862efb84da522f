//! `rhythm venice lend`: memory and accelerators of this machine for programs of others.

use super::{common, key};
use crate::exits::wrong;
use crate::logs;
use crate::output::print_line;
use anyhow::{Context, Result, ensure};
use rhythm_engine::settings::LogFormat;
use rhythm_net::signal::{self, Signal};
use rhythm_venice::accelerator::donor::{Accelerators, Options};
use rhythm_venice::accelerator::request::Kind;
use rhythm_venice::identity::Identity;
use rhythm_venice::loan::LoanKey;
use rhythm_venice::memory::donor::Donor;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

/// The most accelerators of a kind.
const ACCELERATORS_MAX: usize = 256;

/// Lend memory of this machine to programs that `rhythm venice run` starts, or accelerators.
///
/// Each program gets a loan of its own for as long as it runs; what it wrote is zeroed then, and
/// nobody else reads it. Memory is taken when it is written. It ends with SIGTERM or Ctrl-C, and
/// programs that have memory here end with it.
///
/// Accelerators do jobs of programs that use the library (accelerator::borrower::Accelerator): fft
/// is Fourier transforms, aes is AES-GCM. A borrower shares one in turn with others, or has one
/// exclusively; its mailbox is zeroed when it is gone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where borrowers of memory connect to
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,

    /// A Unix socket at which programs of this machine that use the library (RemoteMemory) share
    /// memory with the donor instead of a connection; its folder says who may
    #[arg(long, value_name = "PATH", requires = "memory")]
    socket: Option<PathBuf>,

    /// How much memory is lent in all, such as 4G; it may be left out where accelerators are lent
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    #[arg(required_unless_present = "accelerators")]
    memory: Option<u64>,

    /// Which accelerators are lent, and how many of each, such as fft,aes=2: so many jobs are done
    /// at a time, each on a thread
    #[arg(long, value_name = "KIND[=N],...", value_delimiter = ',', value_parser = offer)]
    accelerators: Vec<(Kind, usize)>,

    /// Where borrowers of accelerators connect to
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7071")]
    #[arg(requires = "accelerators")]
    accelerators_listen: SocketAddr,

    /// A Unix socket for borrowers of accelerators on this machine: mailboxes are reached by memory
    /// that both share; its folder says who may
    #[arg(long, value_name = "PATH", requires = "accelerators")]
    accelerators_socket: Option<PathBuf>,

    /// How much the mailboxes of all borrowers take at most; one takes twice its longest input and
    /// about a mebibyte
    #[arg(long, value_name = "BYTES", default_value = "512M", value_parser = common::bytes)]
    #[arg(requires = "accelerators")]
    accelerators_memory: u64,

    /// The secret that borrowers show: 64 hexadecimal digits; made where there is no such file
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,

    /// Who this machine is, as `rhythm venice join` has made it: borrowers are spoken with in TLS,
    /// and must have an identity of the same monitor, too (run --identity)
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,

    /// Listen to other machines, although pages, jobs and key are not encrypted on their way
    #[arg(long, conflicts_with = "identity")]
    plain_network: bool,
}

/// A kind of accelerators, and how many.
pub(super) fn offer(text: &str) -> Result<(Kind, usize), String> {
    let (kind, count) = text.split_once('=').unwrap_or((text, "1"));
    let kind = kind.parse().map_err(|error| format!("{error}"))?;
    let count = count.parse().ok();
    let count = count.filter(|count| (1..=ACCELERATORS_MAX).contains(count));
    let count = count.ok_or_else(|| format!("1 to {ACCELERATORS_MAX} accelerators of a kind"))?;
    Ok((kind, count))
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logs::start(LogFormat::Text)?;
    let lent = [
        args.memory.map(|_| ("--listen", args.listen)),
        (!args.accelerators.is_empty())
            .then_some(("--accelerators-listen", args.accelerators_listen)),
    ];
    for (flag, listen) in lent.into_iter().flatten() {
        ensure!(
            listen.ip().is_loopback() || args.plain_network || args.identity.is_some(),
            wrong(format_args!(
                "{flag} {listen} is reached by other machines, and nothing is encrypted: give \
             --identity (rhythm venice join), listen on 127.0.0.1, or, on a network that is yours \
             alone, give --plain-network"
            ))
        );
    }
    ensure!(
        args.memory.is_none_or(|memory| memory >= 4096),
        wrong("--memory is less than a page")
    );
    for (at, (kind, _)) in args.accelerators.iter().enumerate() {
        let is_new = args.accelerators[..at]
            .iter()
            .all(|(other, _)| other != kind);
        ensure!(
            is_new,
            wrong(format_args!(
                "--accelerators has {kind} twice: say how many by {kind}=N"
            ))
        );
    }
    let identity = args.identity.as_deref().map(common::identity).transpose()?;
    let key = key::read_or_make(&args.key_file)?;
    let (sender, ended) = mpsc::channel();
    let _watch = signal::watch(move |signal| {
        if matches!(signal, Signal::Terminate | Signal::Interrupt) {
            let _ = sender.send(());
        }
    })?;
    let _memory = match args.memory {
        Some(memory) => Some(lend_memory(&args, memory, &key, identity.as_deref())?),
        None => None,
    };
    let _accelerators = match args.accelerators.is_empty() {
        true => None,
        false => Some(lend_accelerators(&args, key, identity.as_deref())?),
    };
    // The sender is gone only with its thread: then nothing can end this orderly, either.
    let _ = ended.recv();
    Ok(ExitCode::SUCCESS)
}

fn lend_memory(
    args: &Args,
    memory: u64,
    key: &LoanKey,
    identity: Option<&Identity>,
) -> Result<Donor> {
    let mut donor = match identity {
        Some(identity) => Donor::start_sealed(args.listen, memory, identity),
        None => Donor::start(args.listen, memory),
    }
    .with_context(|| format!("cannot listen on {}", args.listen))?;
    if let Some(socket) = &args.socket {
        donor
            .listen_locally(socket)
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
    }
    donor.offer(key.clone());
    for address in donor.addresses() {
        print_line(format_args!(
            "lends {} MiB on {address}{}, key in {}",
            memory >> 20,
            common::in_tls(identity),
            args.key_file.display()
        ))?;
    }
    Ok(donor)
}

fn lend_accelerators(
    args: &Args,
    key: LoanKey,
    identity: Option<&Identity>,
) -> Result<Accelerators> {
    let listen = args.accelerators_listen;
    let options = Options {
        listen,
        accelerators: args.accelerators.clone(),
        memory: args.accelerators_memory,
        connections: 256,
        offer: Some(key),
    };
    let mut donor = match identity {
        Some(identity) => Accelerators::start_sealed(&options, identity),
        None => Accelerators::start(&options),
    }
    .with_context(|| format!("cannot listen on {listen}"))?;
    if let Some(socket) = &args.accelerators_socket {
        donor
            .listen_locally(socket)
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
    }
    let lent: Vec<_> = args
        .accelerators
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    print_line(format_args!(
        "lends accelerators ({}) on {}{}, key in {}",
        lent.join(", "),
        donor.address(),
        common::in_tls(identity),
        args.key_file.display()
    ))?;
    Ok(donor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_are_named_and_counted() {
        assert_eq!(offer("fft"), Ok((Kind::Fft, 1)));
        assert_eq!(offer("aes=16"), Ok((Kind::Aes, 16)));
        for wrong in ["", "gpu", "fft=", "fft=0", "aes=257", "fft=-1"] {
            assert!(offer(wrong).is_err(), "{wrong}");
        }
    }
}
