//! What `kernels/bandwidth.cu` is given: stretches of memory.

use crate::gpu::Address;

structs! {
    /// Arguments of `copy_bytes`.
    pub(crate) struct CopyBytes {
        pub(crate) to: Address,
        pub(crate) from: Address,
        /// A multiple of 16.
        pub(crate) bytes: u64,
    }

    /// Arguments of `write_bytes`.
    pub(crate) struct WriteBytes {
        pub(crate) to: Address,
        /// A multiple of 16.
        pub(crate) bytes: u64,
        pub(crate) value: u32,
        pub(crate) unused: u32,
    }
}

arguments! {
    CopyBytes = CopyBytes,
    WriteBytes = WriteBytes,
}
