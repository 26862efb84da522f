//! Numbers and texts in bytes, little-endian: what nodes send, and what they write.

/// Appends to bytes.
pub(crate) trait Put {
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

/// Takes from the front of bytes; `None` where they end too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        Some(self.u8()? != 0)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// What [`Put::put_bytes`] appended.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    /// Some bytes, behind their length in one.
    pub(crate) fn key(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }
}
