//! What the emulation says of a struct that is not the kernel's. That those which are sent are, the
//! crate's own tests see.
#![allow(unsafe_code)]

use rhythm_engine_cuda::gpu::emulated::Emulated;
use rhythm_engine_cuda::gpu::{Address, DeviceId, Field, Grid, Kernel, Launch, scope};

/// A struct that is too short for its kernel.
#[derive(Clone, Copy)]
struct Short;

impl Field for Short {
    type Raw = Address;
    type Counted = Self;

    fn counted(self) -> Self {
        self
    }

    fn lower(self, _: DeviceId) -> Address {
        Address(0)
    }
}

// SAFETY: it is not the kernel's struct, which the emulation finds out before it reads it.
unsafe impl Launch<'_> for Short {
    fn kernel(&self) -> Kernel {
        Kernel::WriteBytes
    }

    fn grid(&self) -> Grid {
        Grid::over(1, 32)
    }
}

#[test]
fn a_struct_of_another_size_is_not_launched() {
    let gpu = Emulated::new(Default::default());
    let stream = gpu.stream().expect("a stream");
    let why = scope(&*gpu, &[stream], |queue| queue.launch(Short));
    let why = why.expect_err("it takes 24 bytes").to_string();
    assert!(
        why.contains("write_bytes takes 24 bytes of arguments, not 8"),
        "{why}"
    );
}
