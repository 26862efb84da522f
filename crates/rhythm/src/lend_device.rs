//! `rhythm device`: lends this machine's device to front ends on others.

use crate::device::{CudaArgs, Device, take_all_queues};
use crate::ending::{ENDING_MAX, exit_after};
use crate::exits::wrong;
use crate::logs;
use anyhow::{Context, Result, ensure};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::program::Service;
use rhythm_engine::settings::LogFormat;
use rhythm_net::Waker;
use rhythm_net::signal::{self, Signal};
use rhythm_remote::{Access, ExecutorFactory, Node, NodeOptions, StageMax};
use rhythm_venice::secret::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Lend this machine's device to front ends on others: `rhythm serve --device remote=HOST:PORT`.
///
/// With an agent and a monitor of `rhythm venice`, `rhythm venice agent --lend-device` lends it to
/// front ends with `--device remote=venice`, which need no address and no key.
///
/// Front ends send their services and then cohorts, whose stages are run here; sessions, backends
/// and clients stay theirs. Both ends must be the same version. What no node runs, a front end runs
/// itself, so one may end at any time: SIGTERM and Ctrl-C end it at once. docs/devices.md has the
/// rest.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Where front ends connect; beyond this machine only with --key and --plain-network
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,

    /// What is lent
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    device: Device,

    /// The key that front ends have, too (--device-key): a file that its owner alone can read, of
    /// 16 to 4096 bytes
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Listen where other machines reach this one, though what goes there is neither encrypted nor
    /// protected from being changed on its way
    #[arg(long, requires = "key")]
    plain_network: bool,

    /// Threads, each with an executor of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// Cohorts that a connection may have here at a time; each thread of a front end has one
    #[arg(long, value_name = "N", default_value_t = COHORTS)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    cohorts: u16,

    /// Connections of each thread at most
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,

    /// MiB that each thread keeps of cohorts that wait, and of answers on their way; more is for
    /// the front ends to run
    #[arg(long, value_name = "MIB", default_value_t = MEMORY)]
    #[arg(value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    memory: u32,

    /// Turns of loops that a page may take for a request in a stage: services whose `[limits]
    /// stage_turns_max` is more are for the front ends to run
    #[arg(long, value_name = "N", default_value_t = StageMax::default().turns as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    stage_turns: u32,

    /// Bytes of text that it may make for one: likewise, of `stage_text_bytes_max`
    #[arg(long, value_name = "BYTES", default_value_t = StageMax::default().text_bytes as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..=1 << 30))]
    stage_text: u32,

    #[command(flatten)]
    cuda: CudaArgs,
}

/// Cohorts that a connection may have at a node, connections of each of its threads, and MiB that
/// each keeps, unless flags say otherwise.
const COHORTS: u16 = 4;
const CONNECTIONS: u16 = 64;
const MEMORY: u32 = 512;

/// How a node is run that nothing more is said of: on one thread, for anybody.
pub(crate) fn options(listen: SocketAddr) -> NodeOptions {
    NodeOptions {
        listen,
        threads: 1,
        access: Access::Anybody,
        in_flight: COHORTS.into(),
        connections_max: CONNECTIONS.into(),
        held_max: (MEMORY as usize) << 20,
        stage_max: StageMax::default(),
    }
}

/// Opens a device to be lent: what it is called, and what makes its executors.
///
/// # Errors
/// Why it cannot be used, and what to do.
pub(crate) fn open(device: Device, cuda: &CudaArgs) -> Result<(String, ExecutorFactory)> {
    ensure!(
        device != Device::Scalar,
        wrong(
            "scalar is what other devices are compared with, and runs a cohort in one go: lend host"
        )
    );
    let opened = device.open(cuda, &[&Service::default()])?;
    let shown = opened.to_string();
    let factory: ExecutorFactory = Arc::new(move |limits: LaneLimits, waker: Waker| {
        opened.lent(limits, Arc::new(move || waker.wake()))
    });
    Ok((shown, factory))
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.cuda.check(&[args.device])?;
    take_all_queues(args.device);
    let is_near = args.listen.ip().is_loopback();
    ensure!(
        is_near || args.key.is_some(),
        wrong(format_args!(
            "--listen {}: without a key anybody who reaches this address could use the device; \
             make one with `(umask 077; openssl rand -hex 32 > KEY)`, give it here by --key KEY, \
             and to front ends by --device-key",
            args.listen
        ))
    );
    ensure!(
        is_near || args.plain_network,
        wrong(format_args!(
            "--listen {}: what goes there, what users see among it, is neither encrypted nor \
             protected from being changed on its way. On a network of which all machines are \
             trusted, say --plain-network",
            args.listen
        ))
    );
    let key = args.key.as_deref().map(Secret::read).transpose()?;
    logs::start(LogFormat::Text)?;
    let has_key = key.is_some();
    let (shown, factory) = open(args.device, &args.cuda)?;
    let options = NodeOptions {
        listen: args.listen,
        threads: args.threads.into(),
        access: key.map_or(Access::Anybody, Access::Key),
        in_flight: args.cohorts.into(),
        connections_max: args.connections.into(),
        held_max: (args.memory as usize) << 20,
        stage_max: StageMax {
            turns: args.stage_turns as usize,
            text_bytes: args.stage_text as usize,
        },
    };
    let node = Node::start(&options, factory)?;
    let stop = node.stopper();
    let _watch = signal::watch(move |signal| match signal {
        Signal::Terminate | Signal::Interrupt => {
            stop();
            // A thread that waits for a device which hangs does not hear of it.
            exit_after(ENDING_MAX);
        }
        Signal::Reload | Signal::User1 => {}
    })
    .context("cannot watch for signals")?;
    tracing::info!(
        address = %node.address(),
        device = shown,
        threads = args.threads,
        has_key,
        "lending the device"
    );
    node.join()?;
    tracing::info!("done");
    Ok(ExitCode::SUCCESS)
}
