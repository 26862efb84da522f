//! What the emulation says of a struct that is not the kernel's. That those which are sent are, the
//! crate's own tests see.
#![allow(unsafe_code)]

use rhythm_engine_cuda::gpu::emulated::Emulated;
use rhythm_engine_cuda::gpu::{Address, Arguments, Grid, Kernel, Queue};

/// A struct that is too short for its kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct Short {
    to: Address,
}

// SAFETY: it is not the kernel's struct, which the test wants found out before the kernel runs.
unsafe impl Arguments for Short {
    const KERNEL: Kernel = Kernel::WriteBytes;
}

#[test]
fn a_struct_of_another_size_is_not_launched() {
    let gpu = Emulated::new(Default::default());
    let stream = gpu.stream().expect("a stream");
    let grid = Grid::over(1, 32);
    let arguments = Short { to: Address(0) };
    // SAFETY: the emulation compares sizes before it reads.
    let launched = unsafe { Queue::new(&*gpu, stream).launch(grid, &arguments) };
    let why = launched.and_then(|()| gpu.synchronize(stream));
    let why = why.expect_err("it takes 24 bytes").to_string();
    assert!(
        why.contains("write_bytes takes 24 bytes of arguments, not 8"),
        "{why}"
    );
}
