//! Numbers and texts in bytes, little-endian, and back: nothing is believed before it was checked.

/// What came is no message, or not one that may come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(pub(crate) &'static str);

/// Appends to bytes.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, number: u8) {
        self.put(&[number]);
    }

    fn put_u16(&mut self, number: u16) {
        self.put(&number.to_le_bytes());
    }

    fn put_u32(&mut self, number: u32) {
        self.put(&number.to_le_bytes());
    }

    fn put_u64(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }

    /// A text behind its length, of 32 bits.
    fn put_text(&mut self, text: &[u8]) {
        self.put_u32(text.len() as u32);
        self.put(text);
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends to bytes that become no longer than they may: behind the first that finds no room
/// nothing is appended any more.
#[derive(Debug)]
pub(crate) struct Bounded<'b> {
    bytes: &'b mut Vec<u8>,
    length_max: usize,
    has_room: bool,
}

impl<'b> Bounded<'b> {
    pub(crate) fn new(bytes: &'b mut Vec<u8>, length_max: usize) -> Bounded<'b> {
        Bounded {
            bytes,
            length_max,
            has_room: true,
        }
    }

    /// Whether all has found room.
    pub(crate) fn has_all(self) -> bool {
        self.has_room
    }
}

impl Put for Bounded<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.has_room &= bytes.len() <= self.length_max.saturating_sub(self.bytes.len());
        if self.has_room {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// Takes from bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker<'a>(pub(crate) &'a [u8]);

const SHORT: Wrong = Wrong("a message ends too early");

impl<'a> Taker<'a> {
    pub(crate) fn slice(&mut self, length: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        self.slice(N)?.try_into().map_err(|_| SHORT)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Wrong> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Wrong> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Wrong> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Wrong> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text behind its length, UTF-8.
    pub(crate) fn text(&mut self) -> Result<&'a str, Wrong> {
        let length = self.u32()? as usize;
        utf8(self.slice(length)?)
    }

    /// So many numbers of 32 bits, where they lie.
    pub(crate) fn u32s(
        &mut self,
        count: usize,
    ) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, Wrong> {
        let bytes = self.slice(count.checked_mul(4).ok_or(SHORT)?)?;
        let (numbers, _) = bytes.as_chunks::<4>();
        Ok(numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)))
    }

    /// So many of 64 bits.
    pub(crate) fn u64s(
        &mut self,
        count: usize,
    ) -> Result<impl Iterator<Item = u64> + Clone + use<'a>, Wrong> {
        let bytes = self.slice(count.checked_mul(8).ok_or(SHORT)?)?;
        let (numbers, _) = bytes.as_chunks::<8>();
        Ok(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)))
    }

    /// So many texts, behind the lengths of all, each UTF-8.
    pub(crate) fn texts(&mut self, count: usize) -> Result<Vec<&'a str>, Wrong> {
        let lengths = self.u32s(count)?;
        // There are as many lengths as bytes for them were there.
        let mut texts = Vec::with_capacity(count);
        for length in lengths {
            texts.push(utf8(self.slice(length as usize)?)?);
        }
        Ok(texts)
    }

    /// There is to be nothing more.
    pub(crate) fn end(self) -> Result<(), Wrong> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Wrong("a message has more than belongs to it")),
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Wrong> {
    std::str::from_utf8(bytes).map_err(|_| Wrong("a text is not UTF-8"))
}
