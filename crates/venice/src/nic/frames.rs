//! What borrower and donor of a NIC say over their QPair, without I/O.
//!
//! First the borrower shows its key and says which address it takes ([`Hello`]), and the donor
//! answers with what its interface is like, or why not ([`Answer`]). From then on both send frames:
//! each a length (4 bytes, little-endian) and a virtio-net header with an Ethernet frame, as a TAP
//! has them. Frames lie one behind the other in as many messages as they fill, cut anywhere, so
//! that small ones share a message and large ones need no form of their own. An empty message says
//! that its sender lives.

use crate::channel::frame::legible;
use crate::channel::messages::{Credits, QueueSettings};
use crate::loan::LoanKey;
use std::net::Ipv4Addr;
use std::time::Duration;
use thiserror::Error;

/// Bytes of a message, at most.
pub(super) const MESSAGE_BYTES: usize = 64 * 1024;
/// The queues: 4 MiB each way at most, where every message is full.
pub(super) const QUEUE: QueueSettings = QueueSettings {
    messages: 64,
    message_bytes: MESSAGE_BYTES as u32,
    credits: Credits::Crma,
    credit_every: 8,
};
/// Bytes of the header that a TAP puts before a frame (`struct virtio_net_hdr`).
pub(super) const HEADER_BYTES: usize = 10;
/// An Ethernet header, with a tag of a VLAN.
const ETHERNET_BYTES: usize = 14 + 4;
/// The longest frame, with its header: the longest packet of IP.
pub(super) const FRAME_BYTES_MAX: usize = HEADER_BYTES + ETHERNET_BYTES + 65_535;
/// The shortest.
const FRAME_BYTES_MIN: usize = HEADER_BYTES + 14;
/// Frames wait for a message while there are fewer bytes of them.
const WAITING_BYTES: usize = MESSAGE_BYTES;
const LENGTH_BYTES: usize = 4;

/// How long what is said first may take.
pub(super) const HELLO_TIME: Duration = Duration::from_secs(5);

const MAGIC: [u8; 4] = *b"RVN1";
const HELLO_BYTES: usize = 4 + 32 + ADDRESS_BYTES;
/// Whether there is one, the address, the bits of its network.
const ADDRESS_BYTES: usize = 6;
/// A reason is cut behind so many bytes.
const REASON_BYTES_MAX: usize = 512;
/// What the MTU of a TAP can be.
pub(super) const MTU: std::ops::RangeInclusive<u32> = 68..=65_521;

/// What the other end said is not of this protocol; the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotFrames {
    /// Another protocol, or another version of it.
    #[error("what it says first is not of lenders of NICs, or of another version of them")]
    Hello,
    /// A length that no frame has.
    #[error("a frame of {0} bytes: with its header it has {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX}")]
    Length(u32),
}

/// An IPv4 address and the bits of its network.
pub(super) type Address = (Ipv4Addr, u8);

fn put_address(out: &mut Vec<u8>, address: Option<Address>) {
    let (ip, prefix) = address.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
    out.push(address.is_some().into());
    out.extend_from_slice(&ip.octets());
    out.push(prefix);
}

fn address(bytes: &[u8]) -> Result<Option<Address>, NotFrames> {
    match *bytes {
        [0, ..] => Ok(None),
        [1, a, b, c, d, prefix] if prefix <= 32 => Ok(Some((Ipv4Addr::new(a, b, c, d), prefix))),
        _ => Err(NotFrames::Hello),
    }
}

/// What a borrower says first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) key: LoanKey,
    /// What its interface has, if it has an address of IPv4.
    pub(super) address: Option<Address>,
}

impl Hello {
    pub(super) fn message(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.key.0);
        put_address(&mut out, self.address);
        out
    }

    pub(super) fn parse(message: &[u8]) -> Result<Self, NotFrames> {
        if message.len() != HELLO_BYTES || !message.starts_with(&MAGIC) {
            return Err(NotFrames::Hello);
        }
        let mut key = [0; 32];
        key.copy_from_slice(&message[4..36]);
        Ok(Self {
            key: LoanKey(key),
            address: address(&message[36..])?,
        })
    }
}

/// What the donor answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Frames may come.
    Welcome {
        /// Of the donor's interface: bytes of the longest packet.
        mtu: u32,
        /// The donor's address on the link, if it routes.
        gateway: Option<Address>,
    },
    /// No, and why.
    Refused(String),
}

impl Answer {
    pub(super) fn message(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        match self {
            Self::Welcome { mtu, gateway } => {
                out.push(1);
                out.extend_from_slice(&mtu.to_le_bytes());
                put_address(&mut out, *gateway);
            }
            Self::Refused(reason) => {
                out.push(0);
                out.extend(reason.bytes().take(REASON_BYTES_MAX));
            }
        }
        out
    }

    pub(super) fn parse(message: &[u8]) -> Result<Self, NotFrames> {
        match message.strip_prefix(&MAGIC) {
            Some([0, reason @ ..]) if reason.len() <= REASON_BYTES_MAX => {
                Ok(Self::Refused(legible(reason)))
            }
            Some([1, a, b, c, d, gateway @ ..]) if gateway.len() == ADDRESS_BYTES => {
                let mtu = u32::from_le_bytes([*a, *b, *c, *d]);
                let gateway = address(gateway)?;
                let welcome = Self::Welcome { mtu, gateway };
                let is_one = MTU.contains(&mtu);
                is_one.then_some(welcome).ok_or(NotFrames::Hello)
            }
            _ => Err(NotFrames::Hello),
        }
    }
}

/// Frames on their way into messages.
#[derive(Debug)]
pub(super) struct Packer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            bytes: vec![0; WAITING_BYTES + LENGTH_BYTES + FRAME_BYTES_MAX],
            start: 0,
            end: 0,
        }
    }
}

impl Packer {
    /// One more frame may be taken.
    pub(super) fn has_room(&self) -> bool {
        self.end - self.start < WAITING_BYTES
    }

    /// Where the next frame is put; it is there once [`put`](Self::put) says how long it is. None
    /// where as much waits as may.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        if !self.has_room() {
            return None;
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let from = self.end + LENGTH_BYTES;
        self.bytes.get_mut(from..from + FRAME_BYTES_MAX)
    }

    /// A frame of so many bytes was put into the room; one of another length than frames have is
    /// left out.
    pub(super) fn put(&mut self, bytes: usize) -> bool {
        let is_one = (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&bytes);
        if is_one {
            let length = (bytes as u32).to_le_bytes();
            self.bytes[self.end..self.end + LENGTH_BYTES].copy_from_slice(&length);
            self.end += LENGTH_BYTES + bytes;
        }
        is_one
    }

    /// The next message; empty where nothing waits.
    pub(super) fn message(&self) -> &[u8] {
        let end = self.end.min(self.start + MESSAGE_BYTES);
        &self.bytes[self.start..end]
    }

    /// It is sent.
    pub(super) fn sent(&mut self) {
        self.start += self.message().len();
    }
}

/// Frames out of messages.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    /// The beginning of one.
    part: Vec<u8>,
}

/// The length that begins a frame, if it is there.
fn length(bytes: &[u8]) -> Result<Option<usize>, NotFrames> {
    let Some(&[a, b, c, d]) = bytes.get(..LENGTH_BYTES) else {
        return Ok(None);
    };
    let length = u32::from_le_bytes([a, b, c, d]);
    match (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&(length as usize)) {
        true => Ok(Some(length as usize)),
        false => Err(NotFrames::Length(length)),
    }
}

impl Unpacker {
    /// Takes a message, and gives the frames that are whole with it.
    ///
    /// # Errors
    /// [`NotFrames`]: nothing behind is a frame.
    pub(super) fn take(
        &mut self,
        message: &[u8],
        mut give: impl FnMut(&[u8]),
    ) -> Result<(), NotFrames> {
        let mut rest = message;
        while !rest.is_empty() {
            if self.part.is_empty()
                && let Some(length) = length(rest)?
                && let Some(frame) = rest.get(LENGTH_BYTES..LENGTH_BYTES + length)
            {
                give(frame);
                rest = &rest[LENGTH_BYTES + length..];
                continue;
            }
            // What is missing of its length, or then of the frame.
            let whole = length(&self.part)?.map_or(LENGTH_BYTES, |bytes| LENGTH_BYTES + bytes);
            let (more, behind) = rest.split_at(rest.len().min(whole - self.part.len()));
            self.part.extend_from_slice(more);
            rest = behind;
            if let Some(bytes) = length(&self.part)?
                && self.part.len() == LENGTH_BYTES + bytes
            {
                give(&self.part[LENGTH_BYTES..]);
                self.part.clear();
            }
        }
        Ok(())
    }
}

/// Whether a borrower may send a frame where its donor routes: ARP, or IPv4 from its own address.
/// Of all else the donor's kernel would take what is meant for networks that it is in.
pub(super) fn is_from(frame: &[u8], address: Ipv4Addr) -> bool {
    match frame.get(HEADER_BYTES + 12..) {
        Some([0x08, 0x06, ..]) => true,
        Some([0x08, 0x00, packet @ ..]) => packet.get(12..16) == Some(&address.octets()[..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(number: usize, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 7 + number) as u8).collect()
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(
            lengths in prop::collection::vec(
                prop_oneof![FRAME_BYTES_MIN..200, FRAME_BYTES_MIN..=FRAME_BYTES_MAX],
                0..40,
            ),
            drains in prop::collection::vec(any::<bool>(), 40),
            cut in 1usize..70_000,
        ) {
            let (mut packer, mut sent) = (Packer::default(), Vec::new());
            let frames: Vec<_> = lengths.iter().enumerate().map(|(n, l)| frame(n, *l)).collect();
            let drain = |packer: &mut Packer, sent: &mut Vec<u8>| {
                while !packer.message().is_empty() {
                    assert!(packer.message().len() <= MESSAGE_BYTES);
                    sent.extend_from_slice(packer.message());
                    packer.sent();
                }
            };
            for (frame, must) in frames.iter().zip(&drains) {
                if *must || packer.room().is_none() {
                    drain(&mut packer, &mut sent);
                }
                packer.room().expect("it is drained")[..frame.len()].copy_from_slice(frame);
                prop_assert!(packer.put(frame.len()));
            }
            drain(&mut packer, &mut sent);
            let (mut unpacker, mut came) = (Unpacker::default(), Vec::new());
            for message in sent.chunks(cut) {
                unpacker.take(message, |frame| came.push(frame.to_vec())).expect("frames");
            }
            prop_assert_eq!(came, frames);
        }

        #[test]
        fn garbage_is_refused_and_never_kept(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..20)
        ) {
            let mut unpacker = Unpacker::default();
            for message in &messages {
                let mut longest = 0;
                let taken = unpacker.take(message, |frame| longest = longest.max(frame.len()));
                prop_assert!(longest <= FRAME_BYTES_MAX);
                prop_assert!(unpacker.part.len() <= LENGTH_BYTES + FRAME_BYTES_MAX);
                if taken.is_err() {
                    break;
                }
            }
            for message in &messages {
                prop_assert!(Hello::parse(message).is_err());
                let _ = Answer::parse(message);
            }
        }
    }

    #[test]
    fn lengths_that_no_frame_has_are_refused() {
        for length in [
            0,
            1,
            FRAME_BYTES_MIN - 1,
            FRAME_BYTES_MAX + 1,
            u32::MAX as usize,
        ] {
            let length = length as u32;
            for cut in [1, 4] {
                let mut unpacker = Unpacker::default();
                let mut taken = Ok(());
                for part in length.to_le_bytes().chunks(cut) {
                    taken = taken.and_then(|()| unpacker.take(part, |_| panic!("a frame")));
                }
                assert_eq!(taken, Err(NotFrames::Length(length)));
            }
        }
        assert!(!Packer::default().put(FRAME_BYTES_MIN - 1));
        assert!(!Packer::default().put(FRAME_BYTES_MAX + 1));
    }

    #[test]
    fn frames_of_others_are_told_from_a_borrowers_own() {
        let own = Ipv4Addr::new(10, 9, 0, 2);
        let framed = |kind: &[u8], packet: &[u8]| {
            let frame = [&[0; HEADER_BYTES + 12], kind, packet].concat();
            is_from(&frame, own)
        };
        let from = |address: [u8; 4]| [&[0x45][..], &[0; 11], &address, &[0; 4]].concat();
        assert!(framed(&[8, 0], &from([10, 9, 0, 2])));
        assert!(!framed(&[8, 0], &from([10, 9, 0, 3])));
        assert!(!framed(&[8, 0], &from([10, 9, 0, 2])[..15]));
        assert!(framed(&[8, 6], &[0; 28]));
        // IPv6, a VLAN's tag before what would be right, a length in place of a kind.
        assert!(!framed(&[0x86, 0xdd], &from([10, 9, 0, 2])));
        let tagged = [&[0, 1, 8, 0][..], &from([10, 9, 0, 2])].concat();
        assert!(!framed(&[0x81, 0], &tagged));
        assert!(!framed(&[0, 28], &from([10, 9, 0, 2])));
        assert!(!is_from(&[0; HEADER_BYTES + 13], own));
    }

    #[test]
    fn what_is_said_first_is_read_as_it_is_written() {
        for address in [None, Some((Ipv4Addr::new(10, 9, 0, 2), 24))] {
            let key = LoanKey([7; 32]);
            let hello = Hello { key, address };
            assert_eq!(Hello::parse(&hello.message()), Ok(hello));
            let (mtu, gateway) = (9000, address);
            let welcome = Answer::Welcome { mtu, gateway };
            let mut message = welcome.message();
            assert_eq!(Answer::parse(&message), Ok(welcome));
            message[5..9].copy_from_slice(&65_522u32.to_le_bytes());
            assert_eq!(Answer::parse(&message), Err(NotFrames::Hello));
        }
        let refused = Answer::Refused("no".repeat(1000)).message();
        assert_eq!(
            Answer::parse(&refused),
            Ok(Answer::Refused("no".repeat(256)))
        );
        assert_eq!(
            Answer::parse(b"RVN1\0no\nyes"),
            Ok(Answer::Refused("no\u{fffd}yes".into()))
        );
        assert_eq!(Answer::parse(b""), Err(NotFrames::Hello));
        assert_eq!(Answer::parse(b"RVN1"), Err(NotFrames::Hello));
    }
}
