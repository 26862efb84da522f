//! An address with the length of its network's prefix, such as `10.9.0.2/24`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use thiserror::Error;

/// An address in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// Bits that the network's addresses have in common.
    pub prefix: u8,
}

/// It is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an address and the bits of its network are wanted, such as 10.9.0.2/24")]
pub struct NoNetwork;

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, prefix) = text.split_once('/').ok_or(NoNetwork)?;
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let prefix: u8 = prefix.parse().map_err(|_| NoNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let network = Self { address, prefix };
        (prefix <= most).then_some(network).ok_or(NoNetwork)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// An IPv4 address in its network, if it is one.
    pub(crate) fn v4(self) -> Option<(Ipv4Addr, u8)> {
        match self.address {
            IpAddr::V4(address) => Some((address, self.prefix)),
            IpAddr::V6(_) => None,
        }
    }
}

/// Whether both are in the network of so many bits, as addresses of machines: neither the
/// network's own nor that which all of it listen to.
pub(crate) fn is_host_in(address: Ipv4Addr, of: Ipv4Addr, prefix: u8) -> bool {
    let hosts = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
    let (address, of) = (address.to_bits(), of.to_bits());
    let in_network = (address ^ of) & !hosts == 0;
    in_network && (prefix >= 31 || (address & hosts != 0 && address & hosts != hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_they_are_written() {
        for text in ["10.9.0.2/24", "0.0.0.0/0", "fd00::2/64"] {
            let network: Network = text.parse().expect("a network");
            assert_eq!(network.to_string(), text);
        }
        for wrong in [
            "",
            "10.9.0.2",
            "10.9.0/24",
            "10.9.0.2/33",
            "a/8",
            "1.2.3.4/-1",
        ] {
            assert_eq!(wrong.parse::<Network>(), Err(NoNetwork), "{wrong:?}");
        }
    }

    #[test]
    fn hosts_are_in_their_network_alone() {
        let is_in = |address: [u8; 4], prefix| {
            is_host_in(address.into(), Ipv4Addr::new(10, 9, 0, 1), prefix)
        };
        assert!(is_in([10, 9, 0, 2], 24) && is_in([10, 9, 0, 254], 24));
        assert!(!is_in([10, 9, 1, 2], 24) && is_in([10, 9, 1, 2], 16));
        assert!(!is_in([10, 9, 0, 0], 24) && !is_in([10, 9, 0, 255], 24));
        assert!(is_in([10, 9, 0, 0], 31) && !is_in([10, 9, 0, 2], 31));
        assert!(is_in([1, 2, 3, 4], 0) && !is_in([10, 9, 0, 2], 32));
    }
}
