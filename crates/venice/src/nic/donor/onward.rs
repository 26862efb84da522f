//! What is lent, and where its frames go on.

use crate::loan::LoanKey;
use crate::nic::error::NicError;
use crate::nic::frames::{Address, MTU};
use crate::nic::ip::{self, ip};
use crate::nic::network::Network;

/// How frames of borrowers go on.
#[derive(Clone, Debug)]
pub enum Onward {
    /// They are routed.
    Route {
        /// The real interface: its MTU is theirs.
        interface: String,
        /// The donor's address on all links to borrowers, and the network of theirs.
        address: Network,
        /// They bear the donor's address on the real interface, so that nobody needs a route back.
        masquerade: bool,
    },
    /// Their interfaces are ports of this bridge.
    Bridge(String),
}

/// What is lent, and to whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// The secret that borrowers show.
    pub key: LoanKey,
    /// How frames go on.
    pub onward: Onward,
    /// Frames to borrowers may be long, and their checksums missing.
    pub offload: bool,
}

/// Whether frames can go on so; the MTU.
pub(super) fn look_at(onward: &Onward) -> Result<u32, NicError> {
    let (what, name) = match onward {
        Onward::Route { interface, .. } => ("interface", interface),
        Onward::Bridge(bridge) => ("bridge", bridge),
    };
    let none = || NicError::NoInterface {
        what,
        name: name.clone(),
    };
    if !ip::is_name(name) || name.contains('%') {
        return Err(none());
    }
    let kind = if what == "bridge" { " type bridge" } else { "" };
    let links = ip(&format!("-o link show{kind}"))?;
    let is_there = |line: &str| line.split([' ', ':', '@']).any(|word| word == name);
    if !links.lines().any(is_there) {
        return Err(none());
    }
    if let Onward::Route { address, .. } = onward {
        let _: Address = address.v4().ok_or(NicError::NotV4(address.address))?;
        if !ip::is_forwarding(name) {
            return Err(NicError::NotForwarding(name.clone()));
        }
    }
    let mtu = ip::number(name, "/mtu").ok_or_else(none)?;
    let most = mtu.min((*MTU.end()).into());
    let most = u32::try_from(most).ok().filter(|mtu| MTU.contains(mtu));
    most.ok_or(NicError::Mtu(mtu))
}
