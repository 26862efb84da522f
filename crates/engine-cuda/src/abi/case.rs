//! The tables that `kernels/case.cuh` reads.

/// Characters of a block, which the first level of the tables finds.
pub(crate) const BLOCK: usize = 64;
/// Characters the tables know: those below this one,
pub(crate) const LOW_END: u32 = 0x2_0000;
/// and from this one on
pub(crate) const HIGH_START: u32 = 0xe_0000;
/// so many.
pub(crate) const HIGH_COUNT: u32 = 0x200;
/// Where in a mapping's words the number of bytes is.
pub(crate) const COUNT_SHIFT: u32 = 56;
/// Where in the word for lower case the class is.
pub(crate) const CLASS_SHIFT: u32 = 60;

numbers! {
    /// What a character is to the rule by which `str::to_lowercase` finds the sigmas that end a
    /// word.
    pub(crate) enum Class: u8 {
        Other,
        /// Passed over: `Case_Ignorable`.
        Ignorable,
        /// A cased letter that is not passed over.
        Cased,
    }
}

structs! {
    /// What begins the tables; offsets in bytes.
    pub(crate) struct CaseHeader {
        pub(crate) entries: u32,
        pub(crate) mappings: u32,
        pub(crate) unused: [u32; 2],
    }

    /// What becomes of a character; all zeros where it stays.
    #[derive(PartialEq, Eq, Hash)]
    pub(crate) struct CaseMapping {
        pub(crate) upper: u64,
        pub(crate) lower: u64,
    }
}
