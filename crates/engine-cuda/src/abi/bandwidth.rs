//! What `kernels/bandwidth.cu` is given: stretches of memory.

use crate::gpu::{Grid, Slice};

/// Threads of a block.
const THREADS: u32 = 512;

signatures! {
    /// Arguments of `copy_bytes`.
    pub(crate) struct CopyBytes<'m> {
        to: Slice<'m, u8> [bytes],
        from: Slice<'m, u8> [bytes],
        /// A multiple of 16.
        bytes: u64,
    }
    beside {
        blocks: u32,
    }
    where { bytes.get().is_multiple_of(16) }
    launch CopyBytes => Grid::blocks(blocks.get(), THREADS);

    /// Arguments of `write_bytes`.
    pub(crate) struct WriteBytes<'m> {
        to: Slice<'m, u8> [bytes],
        /// A multiple of 16.
        bytes: u64,
        value: u32,
        unused: u32,
    }
    beside {
        blocks: u32,
    }
    where { bytes.get().is_multiple_of(16) }
    launch WriteBytes => Grid::blocks(blocks.get(), THREADS);
}
