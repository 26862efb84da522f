//! `rhythm venice lend`: memory of this machine for programs of others.

use super::{common, key};
use crate::logs;
use crate::output::print_line;
use anyhow::{Context, Result, ensure};
use rhythm_engine::settings::LogFormat;
use rhythm_net::signal::{self, Signal};
use rhythm_venice::memory::donor::Donor;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

/// Lend memory of this machine to programs that `rhythm venice run` starts.
///
/// Each program gets a loan of its own for as long as it runs; what it wrote is zeroed then, and
/// nobody else reads it. Memory is taken when it is written. It ends with SIGTERM or Ctrl-C, and
/// programs that have memory here end with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where borrowers connect to
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,

    /// A Unix socket at which programs of this machine that use the library (RemoteMemory) share
    /// memory with the donor instead of a connection; its folder says who may
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// How much is lent in all, such as 4G
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    memory: u64,

    /// The secret that borrowers show: 64 hexadecimal digits; made where there is no such file
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,

    /// Listen to other machines, although pages and key are not encrypted on their way
    #[arg(long)]
    plain_network: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logs::start(LogFormat::Text)?;
    ensure!(
        args.listen.ip().is_loopback() || args.plain_network,
        "{} is reached by other machines, and nothing is encrypted: listen on 127.0.0.1, or, on a \
         network that is yours alone, give --plain-network",
        args.listen
    );
    ensure!(args.memory >= 4096, "--memory is less than a page");
    let key = key::read_or_make(&args.key_file)?;
    let (sender, ended) = mpsc::channel();
    let _watch = signal::watch(move |signal| {
        if matches!(signal, Signal::Terminate | Signal::Interrupt) {
            let _ = sender.send(());
        }
    })?;
    let mut donor = Donor::start(args.listen, args.memory)
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    if let Some(socket) = &args.socket {
        donor
            .listen_locally(socket)
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
    }
    donor.offer(key);
    for address in donor.addresses() {
        print_line(format_args!(
            "lends {} MiB on {address}, key in {}",
            args.memory >> 20,
            args.key_file.display()
        ))?;
    }
    // The sender is gone only with its thread: then nothing can end this orderly, either.
    let _ = ended.recv();
    Ok(ExitCode::SUCCESS)
}
