//! The borrower of a NIC: an interface here whose frames go out by a donor's.
//!
//! Where the donor is lost, the interface has no carrier, as if its cable were pulled, and routes
//! by it are not used; it is connected to again each second. Frames of meanwhile are dropped.

use super::error::NicError;
use super::figures::{Counted, Figures};
use super::frames::{Address, Answer, HELLO_TIME, Hello, QUEUE};
use super::ip::{self, ip};
use super::network::Network;
use super::relay::{message, relay};
use super::stop::Stop;
use super::tap::Tap;
use crate::channel::queue::Queue;
use crate::channel::transport::Transport;
use crate::loan::LoanKey;
use crate::remote::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// How long between two tries to find a donor again.
const AGAIN: Duration = Duration::from_secs(1);

type Line = Queue<Box<dyn Transport>>;

/// What is borrowed, and how it looks here.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the donor is.
    pub donor: Place,
    /// The secret that it has.
    pub key: LoanKey,
    /// The interface's name; one that ends in `%d` gets a number.
    pub interface: String,
    /// Its addresses. A donor that routes is told the first of IPv4.
    pub addresses: Vec<Network>,
    /// Networks that are reached by it.
    pub routes: Vec<Network>,
    /// Who sends on what goes there; none: the donor itself, where it routes.
    pub gateway: Option<IpAddr>,
    /// Frames may be long, and their checksums missing, up to the donor's interface.
    pub offload: bool,
}

/// A NIC of a donor's. Its interface is removed when it is dropped.
#[derive(Debug)]
pub struct Nic {
    options: Options,
    tap: Tap,
    stop: Stop,
    figures: Figures,
    line: Option<Line>,
    mtu: u32,
    gateway: Option<Address>,
}

impl Nic {
    /// Makes the interface, connects it to the donor, and sets its addresses and routes; `stop` has
    /// that end early, and [`run`](Self::run).
    ///
    /// # Errors
    /// [`NicError`]; nothing is left then.
    pub fn connect(options: Options, stop: Stop) -> Result<Self, NicError> {
        let tap = Tap::make(&options.interface, options.offload)?;
        let mut nic = Self {
            options,
            tap,
            stop,
            figures: Figures::default(),
            line: None,
            mtu: 0,
            gateway: None,
        };
        if let Some((line, mtu, gateway)) = nic.greet()? {
            nic.line = Some(line);
            nic.gateway = gateway;
            nic.set_mtu(mtu)?;
            nic.set_up()?;
        }
        Ok(nic)
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        self.tap.name()
    }

    /// The longest packet's bytes: what the donor's interface has.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The donor's address on the link, if it routes.
    pub fn gateway(&self) -> Option<IpAddr> {
        self.gateway.map(|(address, _)| address.into())
    }

    /// What went through it so far.
    pub fn counted(&self) -> Counted {
        let dropped = ip::number(self.interface(), "/stats64/tx/dropped");
        self.figures.counted(dropped.unwrap_or(0))
    }

    /// Connects, and shows the key; none where it is to stop.
    fn greet(&self) -> Result<Option<(Line, u32, Option<Address>)>, NicError> {
        let transport = self.options.donor.connect()?;
        let mut line = Queue::new(transport, QUEUE, HELLO_TIME);
        let mut addresses = self.options.addresses.iter();
        let hello = Hello {
            key: self.options.key.clone(),
            address: addresses.find_map(|address| address.v4()),
        };
        line.try_send(&hello.message())?;
        let until = Instant::now() + HELLO_TIME;
        let Some(answer) = message(&mut line, &self.stop, until)? else {
            return Ok(None);
        };
        match Answer::parse(&answer)? {
            Answer::Welcome { mtu, gateway } => Ok(Some((line, mtu, gateway))),
            Answer::Refused(reason) => Err(NicError::Refused(reason)),
        }
    }

    /// Whether it was another.
    fn set_mtu(&mut self, mtu: u32) -> Result<bool, NicError> {
        let is_new = mtu != self.mtu;
        if is_new {
            ip(&format!("link set dev {} mtu {mtu}", self.interface()))?;
            self.mtu = mtu;
        }
        Ok(is_new)
    }

    /// Adds addresses, or replaces them.
    fn set_addresses(&self, how: &str) -> Result<(), NicError> {
        let name = self.interface();
        // A donor that routes has nothing to say of IPv6.
        if self.gateway.is_some()
            && let Err(error) = ip::set_v6(name, "accept_ra", 0)
        {
            warn!("the donor may give {name} addresses and routes of IPv6: {error}");
        }
        for address in &self.options.addresses {
            ip(&format!("address {how} {address} dev {name}"))?;
        }
        Ok(())
    }

    /// Adds routes, or replaces them.
    fn set_routes(&self, how: &str) -> Result<(), NicError> {
        let name = self.interface();
        for route in &self.options.routes {
            let gateway = self.options.gateway.or(self.gateway());
            let gateway = gateway.ok_or(NicError::NoGateway)?;
            ip(&format!("route {how} {route} via {gateway} dev {name}"))?;
        }
        Ok(())
    }

    fn set_up(&self) -> Result<(), NicError> {
        let name = self.interface();
        self.set_addresses("add")?;
        ip(&format!("link set dev {name} up"))?;
        if let Err(error) = ip::set(name, "ignore_routes_with_linkdown") {
            debug!("routes by {name} are used also while the donor is lost: {error}");
        }
        self.set_routes("add")?;
        if let Place::Tcp(donor) | Place::Sealed(donor, _) = &self.options.donor {
            let donor = donor.ip();
            let way = ip(&format!("-o route get {donor}"))?;
            let name = name.to_owned();
            let mut words = way.split_whitespace();
            if words.any(|word| word == "dev") && words.next() == Some(name.as_str()) {
                return Err(NicError::Circle { donor, name });
            }
        }
        Ok(())
    }

    /// Has frames go through it until `stop` is due.
    ///
    /// # Errors
    /// [`NicError::Gone`]: someone removed the interface. Where the donor is lost it is connected
    /// to again.
    pub fn run(&mut self) -> Result<(), NicError> {
        while let Some(mut line) = self.line.take() {
            match relay(&mut line, &self.tap, &self.stop, &self.figures, None) {
                Ok(()) => return Ok(()),
                Err(gone @ NicError::Gone { .. }) => return Err(gone),
                Err(error) => {
                    let name = self.interface();
                    warn!("{name} has no carrier, and tries to have one again: {error}");
                }
            }
            drop(line);
            self.tap.set_carrier(false);
            self.line = self.find_again()?;
        }
        Ok(())
    }

    /// Connects again, and has the interface be as the donor's is now.
    fn greet_again(&mut self) -> Result<Option<(Line, Option<Address>)>, NicError> {
        let Some((line, mtu, gateway)) = self.greet()? else {
            return Ok(None);
        };
        if self.set_mtu(mtu)? {
            // With an MTU below 1280 the kernel takes what is of IPv6 away, for good.
            let set = self.set_addresses("replace");
            if let Err(error) = set.and_then(|()| self.set_routes("replace")) {
                warn!("with an MTU of {mtu} not all is as it was: {error}");
            }
        }
        Ok(Some((line, gateway)))
    }

    /// Connects again, as soon as the donor lets it; none where it is to stop.
    fn find_again(&mut self) -> Result<Option<Line>, NicError> {
        let mut told = String::new();
        loop {
            // Before each try, so that a donor that lets it in and goes costs no more than that.
            let mut fds = [PollFd::from_borrowed_fd(self.stop.event(), PollFlags::IN)];
            // Where it is disturbed, the next try comes sooner.
            let _ = poll(&mut fds, Timespec::try_from(AGAIN).ok().as_ref());
            if self.stop.is_due() {
                return Ok(None);
            }
            match self.greet_again() {
                Ok(Some((line, gateway))) => {
                    if gateway != self.gateway {
                        warn!("the donor's address is another: addresses and routes here are not");
                    }
                    self.tap.set_carrier(true);
                    info!("{} has a carrier again", self.interface());
                    return Ok(Some(line));
                }
                Ok(None) => return Ok(None),
                Err(error) => {
                    let error = error.to_string();
                    if error != told {
                        warn!("the donor cannot be had: {error}");
                    }
                    told = error;
                }
            }
        }
    }
}
