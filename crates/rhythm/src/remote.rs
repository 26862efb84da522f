//! `--device remote=HOST:PORT`: cohorts that other machines run.

use crate::device::Device;
use anyhow::{Context, Result, bail, ensure};
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use rhythm_engine::device::{Executor, LaneLimits};
use rhythm_engine::program::Service;
use rhythm_engine::settings::duration;
use rhythm_engine::source::Sources;
use rhythm_net::Peer;
use rhythm_remote::{Alone, Bundle, Bundles, Figures, LinkOptions, Remote};
use rhythm_venice::secret::Secret;
use std::ffi::OsStr;
use std::fmt;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What `--device` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// This machine's.
    Here(Device),
    /// Those of `rhythm device` at these places.
    Remote(Vec<String>),
}

/// What stands before the places.
const REMOTE: &str = "remote=";
/// Most nodes.
const NODES_MAX: usize = 64;

impl DeviceChoice {
    /// The device of this machine, which runs what no other does.
    pub(crate) fn here(&self) -> Device {
        match self {
            DeviceChoice::Here(device) => *device,
            DeviceChoice::Remote(_) => Device::Host,
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Here(device) => device.fmt(f),
            DeviceChoice::Remote(places) => write!(f, "{REMOTE}{}", places.join(",")),
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
        let places: Vec<String> = places.split(',').map(str::to_owned).collect();
        let is_place = |place: &String| {
            let parts = place.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if places.len() > NODES_MAX || !places.iter().all(is_place) {
            let text = format!(
                "--device {REMOTE}HOST:PORT[,HOST:PORT...]: each is the address and the port of a \
                 `rhythm device`, {NODES_MAX} at most\n"
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
        Some(Box::new(here.into_iter().chain([remote])))
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
    peers: Vec<Peer>,
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
        let DeviceChoice::Remote(places) = choice else {
            let given = [
                ("--device-key", self.device_key.is_some()),
                ("--device-timeout", self.device_timeout.is_some()),
                ("--device-cohorts", self.device_cohorts.is_some()),
            ];
            if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
                let text = format!(
                    "{flag} is for --device {REMOTE}HOST:PORT; add it, or leave this flag out\n"
                );
                bail!(clap::Error::raw(ErrorKind::ArgumentConflict, text));
            }
            return Ok(None);
        };
        let key = self.device_key.as_deref().map(Secret::read).transpose()?;
        let peers = places.iter().map(|place| find(place, key.is_some()));
        let peers = peers.collect::<Result<Vec<_>>>()?;
        Ok(Some(Nodes {
            figures: Arc::new(Figures::new(&peers)),
            peers,
            options: LinkOptions {
                key,
                timeout: self.device_timeout.unwrap_or(Duration::from_secs(2)),
                in_flight_max: self.device_cohorts.unwrap_or(16).into(),
            },
            bundles: Arc::default(),
            limits: Arc::default(),
        }))
    }
}

/// Where a node is.
fn find(place: &str, has_key: bool) -> Result<Peer> {
    let found = place.to_socket_addrs();
    let mut found =
        found.with_context(|| format!("--device {REMOTE}{place}: its name leads nowhere"))?;
    let address = found.next();
    let address =
        address.with_context(|| format!("--device {REMOTE}{place}: its name has no address"))?;
    ensure!(
        has_key || address.ip().is_loopback(),
        "--device {REMOTE}{place}: it is on another machine, where anybody could be in its place; \
         give the key that it has by --device-key FILE (docs/devices.md)"
    );
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    Ok(Peer::tcp(host, address))
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
        Remote::bytes_max(self.peers.len())
    }

    /// What becomes of cohorts.
    pub(crate) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// A thread's way to them, beside its own executor.
    pub(crate) fn link(&self, local: Box<dyn Executor>) -> Remote {
        let (bundles, figures) = (Arc::clone(&self.bundles), Arc::clone(&self.figures));
        Remote::new(&self.peers, self.options.clone(), bundles, figures, local)
    }

    /// A way to them for who has no event loop, on which they take cohorts of a service.
    ///
    /// # Errors
    /// None of them does.
    pub(crate) fn alone(&self, service: &Arc<Service>, local: Box<dyn Executor>) -> Result<Alone> {
        let mut alone = Alone::new(self.link(local)).context("cannot wait for a device")?;
        let patience = self.options.timeout + Duration::from_secs(10);
        if !alone.wait_ready(service, patience)? {
            let why = self.figures.said();
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
