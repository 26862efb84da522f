//! `rhythm venice lend-nic`: an interface of this machine for others.

use super::{common, key};
use crate::exits::wrong;
use crate::logs;
use crate::output::print_line;
use anyhow::{Context, Result};
use rhythm_engine::settings::LogFormat;
use rhythm_net::signal::{self, Signal};
use rhythm_venice::nic::donor::{Donor, Onward, Options};
use rhythm_venice::nic::network::Network;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

/// Lend a NIC of this machine to others, which `rhythm venice nic` is run on.
///
/// What they send goes out by it in one of two ways. With --interface it is routed: each borrower
/// takes an address in the network of --address, and who is behind the interface needs a route to
/// that network by this machine, or --masquerade. With --bridge each borrower is as if it were
/// plugged into the bridge, of which the real interface is a port.
///
/// A borrower that has the key reaches what this machine reaches, as far as its firewall lets it.
/// It ends with SIGTERM or Ctrl-C; what was made for borrowers is removed, also where it is killed.
/// It needs /dev/net/tun, CAP_NET_ADMIN and the program `ip`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rhythm venice lend-nic --key-file /run/nic.key --interface eth0 --address 10.9.0.1/24 --masquerade
  rhythm venice lend-nic --key-file /run/nic.key --bridge br0")]
pub(crate) struct Args {
    /// Where borrowers connect to
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7080",
          value_parser = common::address)]
    listen: SocketAddr,

    /// A Unix socket, too, at which borrowers of this machine (containers) get memory that both
    /// share instead of a connection; its folder says who may
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// The secret that borrowers show: 64 hexadecimal digits; made where there is no such file
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,

    /// Who this machine is, as `rhythm venice join` has made it: borrowers are spoken with in TLS,
    /// and must have an identity of the same monitor, too (nic --identity)
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,

    /// Route: the interface by which borrowers' packets go on; its MTU is theirs
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "bridge",
        requires = "address"
    )]
    interface: Option<String>,

    /// Route: this machine's address in the network of the borrowers, such as 10.9.0.1/24
    #[arg(long, value_name = "ADDR/BITS", requires = "interface")]
    address: Option<Network>,

    /// Route: borrowers' packets leave with this machine's address (a rule of iptables)
    #[arg(long, requires = "interface")]
    masquerade: bool,

    /// Bridge: one that there is
    #[arg(long, value_name = "NAME", conflicts_with = "interface")]
    bridge: Option<String>,

    /// Cut what goes to borrowers into packets and compute checksums here: slower
    #[arg(long)]
    no_offload: bool,

    /// Listen to other machines, although frames and key are not encrypted on their way
    #[arg(long, conflicts_with = "identity")]
    plain_network: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logs::start(LogFormat::Text)?;
    let may = args.plain_network || args.identity.is_some();
    common::may_be_plain("--listen", args.listen, may)?;
    let identity = args.identity.as_deref().map(common::identity).transpose()?;
    let (onward, what) = match (args.interface, args.address, args.bridge) {
        (Some(interface), Some(address), None) => {
            let what = format!("{interface}, routed for the network of {address},");
            let masquerade = args.masquerade;
            let onward = Onward::Route {
                interface,
                address,
                masquerade,
            };
            (onward, what)
        }
        (_, _, Some(bridge)) => {
            let what = format!("bridge {bridge}");
            (Onward::Bridge(bridge), what)
        }
        _ => anyhow::bail!(wrong("--interface with --address is needed, or --bridge")),
    };
    let options = Options {
        key: key::read_or_make(&args.key_file)?,
        onward,
        offload: !args.no_offload,
    };
    let (sender, ended) = mpsc::channel();
    let _watch = signal::watch(move |signal| {
        if matches!(signal, Signal::Terminate | Signal::Interrupt) {
            let _ = sender.send(());
        }
    })?;
    let (listen, socket) = (args.listen, args.socket.as_deref());
    let donor = match &identity {
        Some(identity) => Donor::start_sealed(options, listen, socket, identity),
        None => Donor::start(options, listen, socket),
    }
    .context("the NIC cannot be lent")?;
    print_line(format_args!(
        "lends {what} on {}{}, key in {}",
        donor.address(),
        common::in_tls(identity.as_deref()),
        args.key_file.display()
    ))?;
    // The sender is gone only with its thread: then nothing can end this orderly, either.
    let _ = ended.recv();
    Ok(ExitCode::SUCCESS)
}
