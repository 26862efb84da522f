//! `--device remote=HOST:PORT`, or `remote=venice`: cohorts that other machines run.

use crate::device::Device;
use crate::exits::wrong;
use anyhow::{Context, Result, bail, ensure};
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_engine::program::Service;
use rhythm_engine::settings::duration;
use rhythm_engine::source::Sources;
use rhythm_net::Peer;
use rhythm_remote::{
    Alone, BorrowOptions, Bundle, Bundles, Figures, LinkOptions, Place, Places, Remote,
    borrow_nodes,
};
use rhythm_venice::secret::Secret;
use std::ffi::OsStr;
use std::fmt;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where an agent is asked, unless a flag says another place.
const AGENT: &str = "/run/rhythm-venice/agent.sock";

/// What `--device` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// This machine's.
    Here(Device),
    /// Those of `rhythm device` at these places.
    Remote(Vec<String>),
    /// Those that venice's monitor finds.
    Venice,
}

/// What stands before the places.
const REMOTE: &str = "remote=";
/// What stands for places where venice's monitor finds them.
const VENICE: &str = "venice";
/// Most nodes.
const NODES_MAX: usize = 64;

impl DeviceChoice {
    /// The device of this machine, which runs what no other does.
    pub(crate) fn here(&self) -> Device {
        match self {
            DeviceChoice::Here(device) => *device,
            DeviceChoice::Remote(_) | DeviceChoice::Venice => Device::Host,
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Here(device) => device.fmt(f),
            DeviceChoice::Remote(places) => write!(f, "{REMOTE}{}", places.join(",")),
            DeviceChoice::Venice => write!(f, "{REMOTE}{VENICE}"),
        }
    }
}

/// Reads a [`DeviceChoice`]: a device's name, or `remote=` and places.
#[derive(Clone, Debug)]
pub(crate) struct ChoiceParser;

impl TypedValueParser for ChoiceParser {
    type Value = DeviceChoice;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<DeviceChoice, clap::Error> {
        let Some(places) = value.to_str().and_then(|text| text.strip_prefix(REMOTE)) else {
            let parser = EnumValueParser::<Device>::new();
            return parser
                .parse_ref(command, arg, value)
                .map(DeviceChoice::Here);
        };
        if places == VENICE {
            return Ok(DeviceChoice::Venice);
        }
        let places: Vec<String> = places.split(',').map(str::to_owned).collect();
        let is_place = |place: &String| {
            let parts = place.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if places.len() > NODES_MAX || !places.iter().all(is_place) {
            let text = format!(
                "--device {REMOTE}HOST:PORT[,HOST:PORT...]: each is the address and the port of a \
                 `rhythm device`, {NODES_MAX} at most; or {REMOTE}{VENICE}, and the agent of this \
                 machine finds one\n"
            );
            return Err(clap::Error::raw(ErrorKind::ValueValidation, text));
        }
        Ok(DeviceChoice::Remote(places))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let here = EnumValueParser::<Device>::new();
        let here: Vec<PossibleValue> = here.possible_values()?.collect();
        let help = "The device of other machines, each with a `rhythm device`; with a comma \
                    between, several. What none of them runs, this one does";
        let remote = PossibleValue::new("remote=HOST:PORT").help(help);
        let help = "The device of another machine, which the agent of this one borrows \
                    (docs/venice-monitor.md), and another when that is gone";
        let venice = PossibleValue::new("remote=venice").help(help);
        Some(Box::new(here.into_iter().chain([remote, venice])))
    }
}

/// How nodes are reached.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of --device remote")]
pub(crate) struct RemoteArgs {
    /// The key that the nodes have, too: a file that its owner alone can read. Nodes that are not
    /// on this machine must have one
    #[arg(long, value_name = "FILE")]
    device_key: Option<PathBuf>,

    /// How long a node may take for a stage of a cohort, until it is run elsewhere [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    device_timeout: Option<Duration>,

    /// Cohorts that a node has at a time, of each thread of this server; no more than the node
    /// takes [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    device_cohorts: Option<u16>,

    /// With remote=venice: the Unix socket of this machine's agent [default:
    /// /run/rhythm-venice/agent.sock]
    #[arg(long, value_name = "PATH")]
    device_agent: Option<PathBuf>,

    /// With remote=venice: how many devices are borrowed, each of another machine [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    device_nodes: Option<u8>,

    /// With remote=venice: have each of them alone, instead of in turn with other front ends
    #[arg(long)]
    device_alone: bool,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration::parse(text)?;
    match (Duration::from_millis(10)..=Duration::from_secs(600)).contains(&timeout) {
        true => Ok(timeout),
        false => Err("a duration from 10ms to 10m".to_owned()),
    }
}

/// The nodes of a server, for all of its threads.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    places: Arc<Places>,
    options: LinkOptions,
    bundles: Arc<Bundles>,
    figures: Arc<Figures>,
    /// Those of the whole server, from its start on.
    limits: Arc<OnceLock<LaneLimits>>,
}

impl RemoteArgs {
    /// Finds the nodes, if other machines are the device.
    ///
    /// # Errors
    /// A wrong flag, a name that leads nowhere, or a key that cannot be read.
    pub(crate) fn open(&self, choice: &DeviceChoice) -> Result<Option<Nodes>> {
        self.check(choice)?;
        let (names, places) = match choice {
            DeviceChoice::Here(_) => return Ok(None),
            DeviceChoice::Remote(places) => {
                let key = self.device_key.as_deref().map(Secret::read).transpose()?;
                let found = places.iter().map(|place| find(place, key.clone()));
                let found = found.collect::<Result<Vec<_>>>()?;
                let names = found.iter().map(|place| place.peer.to_string()).collect();
                (names, Places::fixed(found))
            }
            DeviceChoice::Venice => {
                let places = Places::vacant(self.device_nodes.unwrap_or(1).into());
                let agent = self.device_agent.clone();
                let options = BorrowOptions {
                    agent: agent.unwrap_or_else(|| AGENT.into()),
                    is_alone: self.device_alone,
                };
                borrow_nodes(options, &places).context("cannot borrow devices")?;
                // Loans come and go: figures are of the places for them.
                let names = (1..=places.count()).map(|place| format!("{VENICE}-{place}"));
                (names.collect(), places)
            }
        };
        Ok(Some(Nodes {
            figures: Arc::new(Figures::new(names)),
            places,
            options: LinkOptions {
                timeout: self.device_timeout.unwrap_or(Duration::from_secs(2)),
                in_flight_max: self.device_cohorts.unwrap_or(16).into(),
            },
            bundles: Arc::default(),
            limits: Arc::default(),
        }))
    }

    /// Sees that flags are given only where they say something.
    fn check(&self, choice: &DeviceChoice) -> Result<()> {
        let is_remote = !matches!(choice, DeviceChoice::Here(_));
        let is_venice = *choice == DeviceChoice::Venice;
        let is_named = is_remote && !is_venice;
        let (named, any, venice) = ("HOST:PORT", "HOST:PORT", VENICE);
        for (flag, is_given, is_meant, of) in [
            ("--device-key", self.device_key.is_some(), is_named, named),
            (
                "--device-timeout",
                self.device_timeout.is_some(),
                is_remote,
                any,
            ),
            (
                "--device-cohorts",
                self.device_cohorts.is_some(),
                is_remote,
                any,
            ),
            (
                "--device-agent",
                self.device_agent.is_some(),
                is_venice,
                venice,
            ),
            (
                "--device-nodes",
                self.device_nodes.is_some(),
                is_venice,
                venice,
            ),
            ("--device-alone", self.device_alone, is_venice, venice),
        ] {
            if is_given && !is_meant {
                bail!(wrong(format_args!(
                    "{flag} is for --device {REMOTE}{of}; add it, or leave this flag out"
                )));
            }
        }
        Ok(())
    }
}

/// Where a node is.
fn find(place: &str, key: Option<Secret>) -> Result<Place> {
    let found = place.to_socket_addrs();
    let mut found =
        found.with_context(|| format!("--device {REMOTE}{place}: its name leads nowhere"))?;
    let address = found.next();
    let address =
        address.with_context(|| format!("--device {REMOTE}{place}: its name has no address"))?;
    ensure!(
        key.is_some() || address.ip().is_loopback(),
        wrong(format_args!(
            "--device {REMOTE}{place}: it is on another machine, where anybody could be in its \
             place; give the key that it has by --device-key FILE (docs/devices.md)"
        ))
    );
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let peer = Peer::tcp(host, address);
    Ok(Place { peer, key })
}

impl Nodes {
    /// A service is served that was made of these sources.
    pub(crate) fn add(&self, service: &Arc<Service>, sources: &Sources) {
        let limits = self
            .limits
            .get_or_init(|| LaneLimits::of(&service.config.limits));
        match Bundle::new(sources, *limits) {
            Ok(bundle) => self.bundles.add(service, bundle),
            Err(why) => tracing::warn!(
                service = service.config.service.name,
                why,
                "no device node can have a service: its pages are rendered here"
            ),
        }
    }

    /// Most memory, in bytes, that a thread's way to them has for what goes there and comes back.
    pub(crate) fn bytes_max(&self) -> usize {
        Remote::bytes_max(self.places.count())
    }

    /// What becomes of cohorts.
    pub(crate) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// A thread's way to them, beside its own executor.
    pub(crate) fn link(&self, local: Box<dyn Executor>) -> Remote {
        let (bundles, figures) = (Arc::clone(&self.bundles), Arc::clone(&self.figures));
        Remote::new(&self.places, self.options.clone(), bundles, figures, local)
    }

    /// A way to them for who has no event loop, on which they take cohorts of a service.
    ///
    /// # Errors
    /// None of them does.
    pub(crate) fn alone(&self, service: &Arc<Service>, local: Box<dyn Executor>) -> Result<Alone> {
        let mut alone = Alone::new(self.link(local)).context("cannot wait for a device")?;
        let patience = self.options.timeout + Duration::from_secs(10);
        if !alone.wait_ready(service, patience)? {
            let why: Vec<String> = (self.figures.said().into_iter())
                .chain(self.places.trouble())
                .collect();
            bail!(
                "no device node takes the pages of this service: {}",
                match why.is_empty() {
                    true => format!("none has answered within {patience:?}"),
                    false => why.join("; "),
                }
            );
        }
        Ok(alone)
    }
}
