//! One borrower after the other: who it is, an interface for it, and its frames.

use super::onward::{Onward, Options};
use crate::channel::queue::Queue;
use crate::channel::transport::Transport;
use crate::guests::{Guest, Guests};
use crate::nic::error::NicError;
use crate::nic::figures::Figures;
use crate::nic::frames::{Address, Answer, HELLO_TIME, Hello, QUEUE};
use crate::nic::ip::{self, ip};
use crate::nic::network::is_host_in;
use crate::nic::relay::{message, relay};
use crate::nic::stop::Stop;
use crate::nic::tap::Tap;
use rhythm_net::clock;
use rhythm_net::sparse::Sparse;
use std::collections::HashSet;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The names of borrowers' interfaces here.
pub(super) const NAMES: &str = "vnic%d";
/// How long a borrower that was refused has to take the reason.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// How long an address is waited for that another borrower has: one that was killed and began anew
/// comes before what it had is gone; and how often it is looked.
const PLACE_TIME: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Lender {
    pub(super) options: Options,
    pub(super) mtu: u32,
    pub(super) stop: Stop,
    pub(super) guests: Arc<Guests>,
    /// Addresses of borrowers, where it routes.
    pub(super) lent: Mutex<HashSet<Ipv4Addr>>,
    /// Of lines about who cannot be served.
    pub(super) refused: Mutex<Sparse>,
}

/// An address that nobody else has until this is dropped.
struct Lent<'a>(&'a Lender, Option<Ipv4Addr>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(address) = self.1 {
            self.0.addresses().remove(&address);
        }
    }
}

impl Lender {
    fn addresses(&self) -> MutexGuard<'_, HashSet<Ipv4Addr>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line about who came and does not become a borrower, where there are not too many.
    pub(super) fn not_served(&self, peer: &str, error: &io::Error) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = refused.line(clock::monotonic()) {
            warn!(left_out, "{peer} cannot be served: {error}");
        }
    }

    /// Serves a borrower until it or the donor ends.
    pub(super) fn serve(&self, transport: Box<dyn Transport>, peer: &str, guest: &Guest) {
        let mut queue = Queue::new(transport, QUEUE, HELLO_TIME).lends();
        let ended = self.lend(&mut queue, peer, guest);
        match ended {
            Ok(()) => {}
            Err(NicError::Lost(lost)) => guest.gone(peer, &lost),
            Err(error) => {
                let reason = match error {
                    NicError::Refused(reason) => reason,
                    error => error.to_string(),
                };
                guest.refused(peer, &reason);
                let answer = Answer::Refused(reason).message();
                queue.last_words(&answer, REFUSAL_TIME);
            }
        }
    }

    fn lend(
        &self,
        queue: &mut Queue<Box<dyn Transport>>,
        peer: &str,
        guest: &Guest,
    ) -> Result<(), NicError> {
        if guest.is_refused {
            let reason = "this donor has as many borrowers as it may: try later";
            return Err(NicError::Refused(reason.into()));
        }
        let until = Instant::now() + HELLO_TIME;
        let Some(hello) = message(queue, &self.stop, until)? else {
            return Ok(());
        };
        let hello = Hello::parse(&hello)?;
        if !self.options.key.is_same(&hello.key) {
            return Err(NicError::Refused("its key is another".into()));
        }
        guest.stay();
        let lent = self.reserve(hello.address)?;
        let tap = Tap::make(NAMES, self.options.offload)?;
        let gateway = self.set_up(&tap, lent.1)?;
        let mtu = self.mtu;
        queue.try_send(&Answer::Welcome { mtu, gateway }.message())?;
        let name = tap.name();
        info!(interface = name, address = ?lent.1, "{peer} has a NIC");
        let figures = Figures::default();
        let ended = relay(queue, &tap, &self.stop, &figures, lent.1);
        let dropped = ip::number(name, "/stats64/tx/dropped").unwrap_or(0);
        info!(interface = name, "{peer}: {}", figures.counted(dropped));
        ended
    }

    /// Has an address be a borrower's alone.
    fn reserve(&self, address: Option<Address>) -> Result<Lent<'_>, NicError> {
        let Onward::Route { address: own, .. } = &self.options.onward else {
            return Ok(Lent(self, None));
        };
        let refused = |reason: String| Err(NicError::Refused(reason));
        let (gateway, prefix) = own.v4().ok_or(NicError::NotV4(own.address))?;
        match address {
            None => refused(format!(
                "this donor routes: take an address in the network of {own}"
            )),
            Some((address, bits)) if bits != prefix || !is_host_in(address, gateway, prefix) => {
                refused(format!(
                    "{address}/{bits} is no address of a machine in the network of {own}"
                ))
            }
            Some((address, _)) if address == gateway => {
                refused(format!("{address} is the donor's own address"))
            }
            Some((address, _)) => match self.take(address) {
                true => Ok(Lent(self, Some(address))),
                false => refused(format!(
                    "another borrower has {address}; if it died, its place is free in seconds"
                )),
            },
        }
    }

    /// Takes an address that nobody has, or gives back soon.
    fn take(&self, address: Ipv4Addr) -> bool {
        let until = Instant::now() + PLACE_TIME;
        loop {
            if self.addresses().insert(address) {
                return true;
            }
            if self.stop.is_due() || Instant::now() >= until {
                return false;
            }
            thread::sleep(LOOK);
        }
    }

    /// Has the interface's frames go on; the address by which the borrower reaches what is behind.
    fn set_up(&self, tap: &Tap, lent: Option<Ipv4Addr>) -> Result<Option<Address>, NicError> {
        let (name, mtu) = (tap.name(), self.mtu);
        match (&self.options.onward, lent) {
            (Onward::Route { address, .. }, Some(lent)) => {
                // IPv4 alone is routed; what else may come, the relay looks at.
                ip::set_v6(name, "disable_ipv6", 1)?;
                for setting in ["proxy_arp", "forwarding"] {
                    ip::set(name, setting)?;
                }
                let own = address.address;
                ip(&format!("address add {own} peer {lent}/32 dev {name}"))?;
                ip(&format!(
                    "link set dev {name} addrgenmode none mtu {mtu} up"
                ))?;
                Ok(address.v4())
            }
            (Onward::Bridge(bridge), _) => {
                let settings = format!("addrgenmode none mtu {mtu} master {bridge} up");
                ip(&format!("link set dev {name} {settings}"))?;
                Ok(None)
            }
            (Onward::Route { address, .. }, None) => Err(NicError::NotV4(address.address)),
        }
    }
}
