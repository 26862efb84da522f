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

/// A set of ASCII characters of which no two have the same low nibble, so that one look-up decides
/// what takes two for a [`ByteSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistinctSet {
    /// The member with each low nibble; where there is none, a byte with another.
    pub(super) by_low_nibble: [u8; 16],
}

impl DistinctSet {
    /// The set of `members`.
    ///
    /// # Panics
    /// If a member is not ASCII, or two have the same low nibble; meant for constants, where that
    /// is a compile error.
    #[must_use]
    pub const fn new(members: &[u8]) -> DistinctSet {
        let mut by_low_nibble = [0; 16];
        by_low_nibble[0] = 1;
        let mut i = 0;
        while i < members.len() {
            let (byte, nibble) = (members[i], (members[i] & 15) as usize);
            assert!(byte < 0x80, "members are ASCII");
            assert!(
                by_low_nibble[nibble] & 15 != nibble as u8,
                "low nibbles are distinct"
            );
            by_low_nibble[nibble] = byte;
            i += 1;
        }
        DistinctSet { by_low_nibble }
    }

    /// Whether `byte` is a member.
    #[inline(always)]
    #[must_use]
    pub const fn contains(&self, byte: u8) -> bool {
        self.by_low_nibble[(byte & 15) as usize] == byte
    }
}

/// Letters and digits.
pub const ALPHANUMERIC: ByteSet = ByteSet::range(b'0', b'9')
    .or(ByteSet::range(b'A', b'Z'))
    .or(ByteSet::range(b'a', b'z'));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_its_members_only() {
        for members in [&b"<>&\"'/"[..], b"0", b"a", b""] {
            let set = DistinctSet::new(members);
            for byte in 0..=255u8 {
                assert_eq!(set.contains(byte), members.contains(&byte), "{byte}");
            }
        }
        for byte in 0..=255u8 {
            assert_eq!(ALPHANUMERIC.contains(byte), byte.is_ascii_alphanumeric());
            assert_eq!(
                ByteSet::range(0x21, 0x7e).without(b"#").contains(byte),
                byte.is_ascii_graphic() && byte != b'#'
            );
        }
    }
}
