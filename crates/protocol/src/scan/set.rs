//! Sets of ASCII characters in the form the shuffle instructions want: for each low nibble, a byte
//! whose bit h says whether the character with high nibble h is a member. No set has members above
//! 0x7f.

/// A set of ASCII characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSet {
    pub(super) by_low_nibble: [u8; 16],
}

impl ByteSet {
    /// The set of `members`.
    ///
    /// # Panics
    /// If a member is not ASCII; meant for constants, where that is a compile error.
    #[must_use]
    pub const fn new(members: &[u8]) -> ByteSet {
        let mut by_low_nibble = [0; 16];
        let mut i = 0;
        while i < members.len() {
            let byte = members[i];
            assert!(byte < 0x80, "members are ASCII");
            by_low_nibble[(byte & 15) as usize] |= 1 << (byte >> 4);
            i += 1;
        }
        ByteSet { by_low_nibble }
    }

    /// This set without `members`.
    #[must_use]
    pub const fn without(mut self, members: &[u8]) -> ByteSet {
        let other = ByteSet::new(members);
        let mut i = 0;
        while i < 16 {
            self.by_low_nibble[i] &= !other.by_low_nibble[i];
            i += 1;
        }
        self
    }

    /// All from `first` to `last`.
    #[must_use]
    pub const fn range(first: u8, last: u8) -> ByteSet {
        let mut set = ByteSet::new(&[]);
        let mut byte = first;
        while byte <= last {
            set.by_low_nibble[(byte & 15) as usize] |= 1 << (byte >> 4);
            byte += 1;
        }
        set
    }

    /// Members of either.
    #[must_use]
    pub const fn or(mut self, other: ByteSet) -> ByteSet {
        let mut i = 0;
        while i < 16 {
            self.by_low_nibble[i] |= other.by_low_nibble[i];
            i += 1;
        }
        self
    }

    /// Whether `byte` is a member.
    #[inline(always)]
    #[must_use]
    pub const fn contains(&self, byte: u8) -> bool {
        (self.by_low_nibble[(byte & 15) as usize] as u32 >> (byte >> 4)) & 1 != 0
    }
}

/// Letters and digits.
pub(crate) const ALPHANUMERIC: ByteSet = ByteSet::range(b'0', b'9')
    .or(ByteSet::range(b'A', b'Z'))
    .or(ByteSet::range(b'a', b'z'));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_its_members_only() {
        for byte in 0..=255u8 {
            assert_eq!(ALPHANUMERIC.contains(byte), byte.is_ascii_alphanumeric());
            assert_eq!(
                ByteSet::range(0x21, 0x7e).without(b"#").contains(byte),
                byte.is_ascii_graphic() && byte != b'#'
            );
        }
    }
}
