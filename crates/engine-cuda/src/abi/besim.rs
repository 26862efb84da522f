//! What `kernels/besim.cu` is given: the words of answers, and a cohort's queries.

use crate::gpu::Address;

structs! {
    /// A word; of a city also its state and the first digits of its ZIP codes.
    pub(crate) struct Word {
        /// Zero-padded.
        pub(crate) text: [u64; 3],
        pub(crate) length: u8,
        pub(crate) state: [u8; 2],
        pub(crate) padding: u8,
        pub(crate) number: u32,
    }

    /// A table's place among the words.
    pub(crate) struct Words {
        pub(crate) first: u32,
        pub(crate) count: u32,
    }

    /// Arguments of `answer_besim`.
    pub(crate) struct BesimArgs {
        pub(crate) words: Address,
        pub(crate) streets: Words,
        pub(crate) cities: Words,
        pub(crate) first_names: Words,
        pub(crate) payees: Words,
        pub(crate) memos: Words,
        pub(crate) users: u32,
        pub(crate) lanes: u32,
        pub(crate) results: Address,
        pub(crate) queries: Address,
        pub(crate) answers: Address,
        pub(crate) arena: Address,
        pub(crate) query_stride: u32,
        pub(crate) answer_base: u32,
        pub(crate) answer_stride: u32,
        pub(crate) padding: u32,
    }
}

arguments! {
    BesimArgs = Besim,
}
