//! Numbers, texts and addresses in bytes, little-endian.

use crate::loan::LoanId;
use crate::name::NodeName;
use crate::resource::{Kind, Offer, Share};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Appends to bytes.
pub(crate) trait Put {
    fn put_u16(&mut self, number: u16);
    fn put_u32(&mut self, number: u32);
    fn put_u64(&mut self, number: u64);
    /// A text of at most 65,535 bytes, behind its length.
    fn put_text(&mut self, text: &str);
    /// Loans, behind how many there are.
    fn put_loans(&mut self, loans: &[LoanId]);
    /// So much of a kind.
    fn put_share(&mut self, share: Share);
    /// What a node lends of each kind, in their order.
    fn put_offers(&mut self, offers: &[Offer]);
    /// An address: IPv4 as IPv6 (RFC 4291 section 2.5.5.2).
    fn put_address(&mut self, address: SocketAddr);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, number: u16) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn put_u32(&mut self, number: u32) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn put_u64(&mut self, number: u64) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn put_text(&mut self, text: &str) {
        debug_assert!(
            text.len() <= usize::from(u16::MAX),
            "bounded where it is made"
        );
        self.put_u16(text.len() as u16);
        self.extend_from_slice(text.as_bytes());
    }

    fn put_loans(&mut self, loans: &[LoanId]) {
        self.put_u32(loans.len() as u32);
        loans.iter().for_each(|loan| self.put_u64(loan.0));
    }

    fn put_share(&mut self, share: Share) {
        self.push(share.kind as u8);
        self.put_u64(share.amount);
    }

    fn put_offers(&mut self, offers: &[Offer]) {
        self.put_u32(offers.len() as u32);
        for offer in offers {
            self.push(offer.kind as u8);
            self.put_u64(offer.size);
            self.put_u64(offer.idle);
        }
    }

    fn put_address(&mut self, address: SocketAddr) {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        self.extend_from_slice(&ip.octets());
        self.put_u16(address.port());
    }
}

/// Takes from bytes; `None` where they end too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker<'a>(pub(crate) &'a [u8]);

impl<'a> Taker<'a> {
    pub(crate) fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn loan(&mut self) -> Option<LoanId> {
        self.u64().map(LoanId)
    }

    fn kind(&mut self) -> Option<Kind> {
        Kind::ALL.get(usize::from(self.u8()?)).copied()
    }

    pub(crate) fn share(&mut self) -> Option<Share> {
        let (kind, amount) = (self.kind()?, self.u64()?);
        Some(Share { kind, amount })
    }

    /// Of each kind one at most, in their order.
    pub(crate) fn offers(&mut self) -> Option<Vec<Offer>> {
        let offers = self.list(17, |from| {
            let (kind, size, idle) = (from.kind()?, from.u64()?, from.u64()?);
            Some(Offer { kind, size, idle })
        })?;
        let is_in_order = offers.windows(2).all(|two| two[0].kind < two[1].kind);
        is_in_order.then_some(offers)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.slice(length.into())?).ok()
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A node's name, or no letters for none.
    pub(crate) fn name(&mut self) -> Option<Option<NodeName>> {
        match self.text()? {
            "" => Some(None),
            name => name.parse().ok().map(Some),
        }
    }

    pub(crate) fn address(&mut self) -> Option<SocketAddr> {
        let ip = Ipv6Addr::from(self.array::<16>()?).to_canonical();
        Some(SocketAddr::new(ip, self.u16()?))
    }

    /// As many as a number in front says, of at least `size` bytes each: nothing is allocated for
    /// more than what is there.
    pub(crate) fn list<T>(
        &mut self,
        size: usize,
        mut take: impl FnMut(&mut Taker<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > self.0.len() / size {
            return None;
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(take(self)?);
        }
        Some(list)
    }
}
