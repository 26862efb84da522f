//! Numbers and texts in bytes, little-endian.

/// Appends to bytes.
pub(in crate::consensus) trait Put {
    fn put_u32(&mut self, number: u32);
    fn put_u64(&mut self, number: u64);
    /// A text, behind its length.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u32(&mut self, number: u32) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn put_u64(&mut self, number: u64) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
}

/// Takes from bytes; `None` where they end too early.
#[derive(Clone, Copy, Debug)]
pub(in crate::consensus) struct Taker<'a>(pub(in crate::consensus) &'a [u8]);

impl<'a> Taker<'a> {
    pub(in crate::consensus) fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(in crate::consensus) fn u8(&mut self) -> Option<u8> {
        Some(self.slice(1)?[0])
    }

    pub(in crate::consensus) fn bool(&mut self) -> Option<bool> {
        Some(self.u8()? != 0)
    }

    pub(in crate::consensus) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.slice(4)?.try_into().ok()?))
    }

    pub(in crate::consensus) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.slice(8)?.try_into().ok()?))
    }

    pub(in crate::consensus) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.slice(len as usize)
    }
}
