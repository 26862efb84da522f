//! What `kernels/besim.cu` is given: the words of answers, and a cohort's queries.

use super::LaneResult;
use crate::gpu::{Count, Slice};
use rhythm_engine::cohort::View;

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

}

impl Words {
    /// Behind its last word.
    fn end(self) -> Count {
        Count::from(self.first) + u64::from(self.count)
    }
}

signatures! {
    /// Arguments of `answer_besim`.
    pub(crate) struct BesimArgs<'m> {
        words: Slice<'m, Word>
            [[streets, cities, first_names, payees, memos].map(Words::end).into_iter().max()
                .unwrap_or(Count::from(0u32))],
        streets: Words,
        cities: Words,
        first_names: Words,
        payees: Words,
        memos: Words,
        users: u32,
        lanes: u32,
        results: Slice<'m, LaneResult> [lanes],
        queries: Slice<'m, View> [lanes * query_stride],
        answers: Slice<'m, View> [lanes * query_stride],
        arena: Slice<'m, u8> [lanes * query_stride * answer_stride + answer_base],
        query_stride: u32,
        /// A multiple of 16.
        answer_base: u32,
        /// A multiple of 8.
        answer_stride: u32,
        padding: u32,
    }
    where {
        answer_base.get().is_multiple_of(16) && answer_stride.get().is_multiple_of(8),
    }
    launch Besim => (lanes * query_stride).over(128);
}
