//! What an agent's machine lends, and by which flags.

use super::common;
use super::lend::offer;
use crate::device::{CudaArgs, Device, take_all_queues};
use crate::exits::wrong;
use crate::lend_device;
use anyhow::{Context, Result, ensure};
use rhythm_remote::{Access, Node, NodeOptions, StageMax};
use rhythm_venice::accelerator::donor::{Accelerators, Options};
use rhythm_venice::accelerator::request::Kind as Mailbox;
use rhythm_venice::agent::Lenders;
use rhythm_venice::identity::Identity;
use rhythm_venice::memory::donor::Donor;
use rhythm_venice::resource::{Kind, Share};
use std::net::SocketAddr;

/// Borrowers of accelerators that are connected at a time.
const BORROWERS_MAX: usize = 256;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is lent")]
pub(super) struct Lends {
    /// Lend so much of this machine's memory at most [default: none]
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    #[arg(default_value = "0", hide_default_value = true)]
    lend: u64,

    /// Where borrowers of other machines reach what is lent of memory
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    #[arg(default_value = "127.0.0.1:0")]
    donor: SocketAddr,

    /// Lend accelerators, and how many of each, such as fft=2,aes: each is a thread, which one
    /// borrower has alone, or up to 16 have in turn [default: none]
    #[arg(long, value_name = "KIND[=N],...", value_delimiter = ',', value_parser = offer)]
    lend_accelerators: Vec<(Mailbox, usize)>,

    /// Where borrowers of other machines reach them
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    #[arg(default_value = "127.0.0.1:0", requires = "lend_accelerators")]
    accelerators_listen: SocketAddr,

    /// How much the mailboxes of their borrowers take at most
    #[arg(long, value_name = "BYTES", value_parser = common::bytes)]
    #[arg(default_value = "512M", requires = "lend_accelerators")]
    accelerators_memory: u64,

    /// Lend this machine's device, as `rhythm device` does: front ends have it by `rhythm serve
    /// --device remote=venice`, one alone, or up to 16 in turn [default: none]
    #[arg(long, value_name = "DEVICE")]
    lend_device: Option<Device>,

    /// Where front ends of other machines reach it. What goes there is not encrypted
    #[arg(long, value_name = "ADDR:PORT", value_parser = common::address)]
    #[arg(default_value = "127.0.0.1:0", requires = "lend_device")]
    device_listen: SocketAddr,

    /// Its threads, each with an executor of its own
    #[arg(long, value_name = "N", default_value_t = 1, requires = "lend_device")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    device_threads: u16,

    /// Turns of loops that a page may take there for a request in a stage: services whose `[limits]
    /// stage_turns_max` is more are for the front ends to run
    #[arg(long, value_name = "N", default_value_t = StageMax::default().turns as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 30), requires = "lend_device")]
    device_stage_turns: u32,

    /// Bytes of text that it may make for one: likewise, of `stage_text_bytes_max`
    #[arg(long, value_name = "BYTES", default_value_t = StageMax::default().text_bytes as u32)]
    #[arg(value_parser = clap::value_parser!(u32).range(1024..=1 << 30), requires = "lend_device")]
    device_stage_text: u32,

    #[command(flatten)]
    cuda: CudaArgs,
}

impl Lends {
    /// What is to be done before anything else.
    ///
    /// # Errors
    /// A flag that says nothing here.
    pub(super) fn begin(&self) -> Result<()> {
        self.cuda.check(self.lend_device.as_slice())?;
        if let Some(device) = self.lend_device {
            take_all_queues(device);
        }
        Ok(())
    }

    /// Each that is lent, the flag that says so, and that of where it is, and where.
    fn listens(&self) -> impl Iterator<Item = (&'static str, &'static str, SocketAddr)> {
        let all = [
            (self.lend > 0, "--lend", "--donor", self.donor),
            (
                !self.lend_accelerators.is_empty(),
                "--lend-accelerators",
                "--accelerators-listen",
                self.accelerators_listen,
            ),
            (
                self.lend_device.is_some(),
                "--lend-device",
                "--device-listen",
                self.device_listen,
            ),
        ];
        let there = all.into_iter().filter(|(is_lent, ..)| *is_lent);
        there.map(|(_, lend, listen, at)| (lend, listen, at))
    }

    /// Refuses addresses that others reach unless all there is encrypted, or the network is said to
    /// be trusted; and to lend where borrowers of other machines would be sent to their own.
    ///
    /// # Errors
    /// Which flag, and what helps.
    pub(super) fn check(
        &self,
        monitors: &[SocketAddr],
        has_identity: bool,
        plain_network: bool,
    ) -> Result<()> {
        for (_, listen, at) in self.listens() {
            if listen == "--device-listen" {
                // An identity would be of no help.
                ensure!(
                    plain_network || at.ip().is_loopback(),
                    wrong(format_args!(
                        "{listen} {at}: what goes to a device, what users see among it, is neither \
                     encrypted nor protected from being changed on its way. On a network of which \
                     all machines are trusted, say --plain-network"
                    ))
                );
            }
            common::may_be_plain(listen, at, has_identity || plain_network)?;
        }
        ensure!(
            self.lend_device.is_none() || !has_identity || plain_network,
            wrong(
                "--lend-device: what goes to a device is not encrypted, and this machine has an \
             identity: on a network of which all machines are trusted, say --plain-network, here \
             and to the agents of the front ends"
            )
        );
        let elsewhere = |monitor: &&SocketAddr| !monitor.ip().is_loopback();
        let near = self.listens().find(|(.., at)| at.ip().is_loopback());
        if let (Some(monitor), Some((lend, listen, at))) = (monitors.iter().find(elsewhere), near) {
            anyhow::bail!(wrong(format_args!(
                "{lend}: say {listen} ADDR:PORT, too, an address of this machine that others \
                 reach: the monitor at {monitor} is not this machine's alone, and tells borrowers \
                 where the donor is; {at} would be their own machine"
            )));
        }
        for (at, (kind, _)) in self.lend_accelerators.iter().enumerate() {
            let mut before = self.lend_accelerators[..at].iter();
            ensure!(
                before.all(|(other, _)| other != kind),
                wrong(format_args!(
                    "--lend-accelerators has {kind} twice: say how many by {kind}=N"
                ))
            );
        }
        Ok(())
    }

    /// How much there is of each kind.
    pub(super) fn shares(&self) -> Vec<Share> {
        let memory = (self.lend > 0).then_some(Share::memory(self.lend));
        let accelerators = self.lend_accelerators.iter();
        let accelerators =
            accelerators.map(|(kind, count)| Share::of_all(kind.resource(), *count as u64));
        let device = self.lend_device.map(|_| Share::of_all(Kind::Device, 1));
        memory
            .into_iter()
            .chain(accelerators)
            .chain(device)
            .collect()
    }

    /// Starts what serves borrowers; in TLS where there is an identity, but for the device.
    ///
    /// # Errors
    /// An address that cannot be listened on, or a device that is not there.
    pub(super) fn start(&self, identity: Option<&Identity>) -> Result<Lenders> {
        let mut lenders = Lenders::default();
        if self.lend > 0 {
            let donor = match identity {
                Some(identity) => Donor::start_sealed(self.donor, self.lend, identity),
                None => Donor::start(self.donor, self.lend),
            };
            let donor = donor
                .with_context(|| format!("--donor {}: it cannot be listened on", self.donor))?;
            lenders = lenders.and(&[Kind::Memory], Box::new(donor));
        }
        if !self.lend_accelerators.is_empty() {
            let kinds = self.lend_accelerators.iter();
            let kinds: Vec<Kind> = kinds.map(|(kind, _)| kind.resource()).collect();
            lenders = lenders.and(&kinds, Box::new(self.start_accelerators(identity)?));
        }
        if let Some(device) = self.lend_device {
            lenders = lenders.and(&[Kind::Device], Box::new(self.start_device(device)?));
        }
        Ok(lenders)
    }

    fn start_accelerators(&self, identity: Option<&Identity>) -> Result<Accelerators> {
        let listen = self.accelerators_listen;
        let options = Options {
            listen,
            accelerators: self.lend_accelerators.clone(),
            memory: self.accelerators_memory,
            connections: BORROWERS_MAX,
            offer: None,
        };
        match identity {
            Some(identity) => Accelerators::start_sealed(&options, identity),
            None => Accelerators::start(&options),
        }
        .with_context(|| format!("--accelerators-listen {listen}: it cannot be listened on"))
    }

    fn start_device(&self, device: Device) -> Result<Node> {
        let (shown, factory) = lend_device::open(device, &self.cuda)?;
        let options = NodeOptions {
            threads: self.device_threads.into(),
            access: Access::Loans,
            stage_max: StageMax {
                turns: self.device_stage_turns as usize,
                text_bytes: self.device_stage_text as usize,
            },
            ..lend_device::options(self.device_listen)
        };
        let node = Node::start(&options, factory)?;
        tracing::info!(
            address = %node.address(), device = shown, threads = self.device_threads,
            "the device is there for loans"
        );
        Ok(node)
    }
}
