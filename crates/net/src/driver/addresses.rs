//! How many connections each client's address has, over all workers.
//!
//! They are counted when a connection is let in and when it is gone, not in between: workers meet
//! at the lock no more often than that, and not at all where nothing bounds the connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections by address, of which each may have so many.
#[derive(Debug)]
pub struct Addresses {
    max: u32,
    /// Those that have any.
    open: Mutex<HashMap<IpAddr, u32>>,
}

/// A connection's place among those of its address; dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    /// No connections yet; each address may have `max`.
    pub fn new(max: u32) -> Addresses {
        Addresses {
            max,
            open: Mutex::default(),
        }
    }

    /// The most connections of one address.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// A place for a connection of a client there, if there is one left.
    pub(crate) fn enter(self: &Arc<Addresses>, client: IpAddr) -> Option<Place> {
        let address = network(client);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        let addresses = Arc::clone(self);
        Some(Place { addresses, address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = &self.addresses.open;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// What counts as one address: of IPv6, the network of 64 bits that a client has to itself.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_places_and_gets_them_back() {
        let addresses = Arc::new(Addresses::new(2));
        let enter = |text: &str| addresses.enter(text.parse().expect("an address"));
        let first = enter("192.0.2.1").expect("a place");
        let _second = enter("::ffff:192.0.2.1").expect("a place");
        assert!(enter("192.0.2.1").is_none());
        let _other = enter("192.0.2.2").expect("a place of another");
        drop(first);
        let _third = enter("192.0.2.1").expect("the first one's place");
        assert!(enter("192.0.2.1").is_none());
        // Networks of 64 bits: the rest is the client's to choose.
        let net: Vec<_> = (0..2)
            .filter_map(|n| enter(&format!("2001:db8::{n}")))
            .collect();
        assert_eq!(net.len(), 2);
        assert!(enter("2001:db8::1:2:3:4").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
        drop(net);
        let open = addresses.open.lock().expect("nobody panicked");
        assert_eq!(open.len(), 2, "addresses without connections are forgotten");
    }
}
