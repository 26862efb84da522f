//! Why a NIC is not borrowed or lent, or not any more.

use super::frames::NotFrames;
use super::ip::NotSet;
use super::tap::NoTap;
use crate::channel::broken::Lost;
use std::io;
use std::net::IpAddr;
use thiserror::Error;

/// What is wrong.
#[derive(Debug, Error)]
pub enum NicError {
    /// There is no interface.
    #[error(transparent)]
    Tap(#[from] NoTap),
    /// Its addresses and routes cannot be set.
    #[error(transparent)]
    Set(#[from] NotSet),
    /// The connection is over.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The other end says what is not of the protocol.
    #[error("the other end does not keep to the protocol: {0}")]
    NotFrames(#[from] NotFrames),
    /// The donor does not want this borrower.
    #[error("the donor refuses: {0}")]
    Refused(String),
    /// Someone removed the interface.
    #[error("interface {name} is no more: {error}")]
    Gone {
        /// Which.
        name: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// A route goes to a network, and nobody said by whom.
    #[error(
        "a route needs a gateway, and the donor, which is a bridge, is none: name the router of \
         its network"
    )]
    NoGateway,
    /// Frames to the donor would go by the interface that needs them.
    #[error(
        "the way to the donor {donor} would lead through {name} itself: first give it a route of \
         its own, by the interface that leads there now (ip route add {donor} via GATEWAY)"
    )]
    Circle {
        /// The donor's address.
        donor: IpAddr,
        /// The interface.
        name: String,
    },
    /// An interface that is named and not there.
    #[error("there is no {what} {name} here: `ip link` says which there are")]
    NoInterface {
        /// What it was to be.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The kernel does not send on what comes in there.
    #[error(
        "what comes in by {0} is not sent on to borrowers: sysctl -w net.ipv4.conf.{0}.forwarding=1"
    )]
    NotForwarding(String),
    /// An MTU that cannot be.
    #[error("an MTU of {0} bytes cannot be: 68 at least")]
    Mtu(u64),
    /// The donor's own address is not for IPv4.
    #[error("{0} is not of IPv4: donors route that alone; a bridge takes what there is")]
    NotV4(IpAddr),
    /// What the system says of something else.
    #[error("{what}: {error}")]
    System {
        /// What was done.
        what: String,
        /// What the system says.
        error: io::Error,
    },
}
