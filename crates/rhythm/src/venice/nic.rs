//! `rhythm venice nic`: an interface here whose frames go out by another machine's.

use super::run::{resolve, sealing};
use super::{common, key};
use crate::logs;
use crate::output::{complain, print_line};
use anyhow::{Context, Result, anyhow};
use rhythm_engine::settings::LogFormat;
use rhythm_net::signal::{self, Signal};
use rhythm_venice::name::NodeName;
use rhythm_venice::nic::borrower::{Nic, Options};
use rhythm_venice::nic::network::Network;
use rhythm_venice::nic::{NicError, Stop};
use rhythm_venice::remote::Place;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Borrow a NIC of another machine: an interface here whose frames go out by its.
///
/// `rhythm venice lend-nic` is the other end. The interface is there until this ends (SIGTERM,
/// Ctrl-C, or however it does), with its addresses and routes. Where the donor is lost, it has no
/// carrier, and its routes are not used, until the donor is there again. Frames that the donor does
/// not take fast enough are dropped, as by any NIC (`ip -s link show`).
///
/// It needs /dev/net/tun, CAP_NET_ADMIN and the program `ip`. To use it beside the NIC that this
/// machine has, see docs/venice.md, *A NIC of another machine*.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rhythm venice nic --key-file /run/nic.key --donor 10.0.0.7:7080 --identity /etc/rhythm/venice \\
      --donor-node right --address 10.9.0.2/24 --route 192.0.2.0/24
  rhythm venice nic --key-file /run/nic.key --donor 10.0.0.7:7080 --plain-network
      (of a bridge; then dhclient)")]
pub(crate) struct Args {
    /// Where `rhythm venice lend-nic` listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7080")]
    donor: String,

    /// The donor's Unix socket, if it is on this machine (--socket there): both share memory then
    #[arg(long, value_name = "PATH", conflicts_with = "donor")]
    socket: Option<PathBuf>,

    /// The secret that the donor has
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,

    /// Who this machine is (`rhythm venice join`), for a donor that speaks TLS
    #[arg(long, value_name = "DIR", conflicts_with = "socket")]
    identity: Option<PathBuf>,

    /// The node that is to be at --donor, by its certificate; with --identity
    #[arg(long, value_name = "NODE", requires = "identity")]
    donor_node: Option<NodeName>,

    /// Borrow of another machine that does not speak TLS, although frames and key are not encrypted
    /// on their way
    #[arg(long, conflicts_with_all = ["identity", "socket"])]
    plain_network: bool,

    /// The interface that is made here
    #[arg(long, value_name = "NAME", default_value = "venice0")]
    tap: String,

    /// An address of it, such as 10.9.0.2/24; several may be given. A donor that routes takes the
    /// first of IPv4, which is to be in its network
    #[arg(long, value_name = "ADDR/BITS")]
    address: Vec<Network>,

    /// A network to be reached by it, such as 192.0.2.0/24; several may be given
    #[arg(long, value_name = "ADDR/BITS")]
    route: Vec<Network>,

    /// Who sends on what goes to --route; the donor, if it routes and nobody else is named
    #[arg(long, value_name = "ADDR", requires = "route")]
    gateway: Option<IpAddr>,

    /// Cut TCP's data into packets and compute checksums here, not at the donor's interface: slower
    #[arg(long)]
    no_offload: bool,
}

/// Where the donor is reached over TCP, in TLS where this machine has an identity.
fn place(args: &Args) -> Result<Place> {
    let donor = resolve(&args.donor)?;
    let sealing = sealing(args.identity.as_deref(), args.donor_node.as_ref())?;
    common::may_borrow(donor, sealing.is_some(), args.plain_network)?;
    Ok(match sealing {
        Some(sealing) => Place::Sealed(donor, sealing),
        None => Place::Tcp(donor),
    })
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logs::start(LogFormat::Text)?;
    let stop = Stop::new().context("cannot wait for signals")?;
    let ended = stop.clone();
    let _watch = signal::watch(move |signal| {
        if matches!(signal, Signal::Terminate | Signal::Interrupt) {
            ended.end();
        }
    })?;
    let (donor, name) = match args.socket {
        Some(path) => (Place::Local(path.clone()), path.display().to_string()),
        None => (place(&args)?, args.donor),
    };
    let options = Options {
        donor,
        key: key::read(&args.key_file)?,
        interface: args.tap,
        addresses: args.address,
        routes: args.route,
        gateway: args.gateway,
        offload: !args.no_offload,
    };
    let addresses = options.addresses.iter();
    let said: String = addresses.map(|address| format!("({address}) ")).collect();
    let mut nic = Nic::connect(options, stop).map_err(|error| {
        let hint = match error {
            NicError::Lost(_) => " (is `rhythm venice lend-nic` running there?)",
            _ => "",
        };
        anyhow!("no NIC of donor {name}: {error}{hint}")
    })?;
    let behind = match nic.gateway() {
        Some(gateway) => format!("gateway {gateway}"),
        None => "a bridge".to_owned(),
    };
    let (interface, mtu) = (nic.interface(), nic.mtu());
    print_line(format_args!(
        "{interface} {said}is a NIC of {name}: {behind}, MTU {mtu}"
    ))?;
    nic.run()?;
    complain(format_args!("rhythm venice: {}", nic.counted()));
    Ok(ExitCode::SUCCESS)
}
