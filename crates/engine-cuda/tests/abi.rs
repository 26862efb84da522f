//! The structs that kernels take, in Rust and in C++. Those that their modules keep to themselves
//! are tested there, and by every launch: the emulation runs no kernel with a struct of another
//! size.

use rhythm_engine_cuda::gpu::emulated::Emulated;
use rhythm_engine_cuda::gpu::{Address, Arguments, Grid, Kernel, launch};
use rhythm_engine_cuda::launch::{
    ColumnArgs, DecodeArgs, OffsetsArgs, RowArgs, SpilledStageArgs, StageArgs, TextsArgs,
    TransposeArgs,
};

fn size<A: Arguments>() -> (Kernel, usize) {
    (A::KERNEL, size_of::<A>())
}

#[test]
fn the_kernels_take_the_same_structs() {
    let ours = [
        size::<StageArgs>(),
        size::<SpilledStageArgs>(),
        size::<DecodeArgs>(),
        size::<OffsetsArgs>(),
        size::<TextsArgs>(),
        size::<RowArgs>(),
        size::<ColumnArgs>(),
        size::<TransposeArgs>(),
    ];
    for (kernel, size) in ours {
        assert_eq!(Emulated::arguments_size(kernel), Some(size), "{kernel:?}");
    }
    // No kernel of these modules is left out.
    let theirs =
        (Kernel::ALL.iter()).filter(|kernel| ["stage", "layout"].contains(&kernel.module()));
    assert_eq!(theirs.count(), ours.len());
}

/// A struct that is too short for its kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct Short {
    to: Address,
}

// SAFETY: it is not the kernel's struct, which the test wants found out before the kernel runs.
#[allow(unsafe_code)]
unsafe impl Arguments for Short {
    const KERNEL: Kernel = Kernel::WriteBytes;
}

#[test]
#[allow(unsafe_code)]
fn a_struct_of_another_size_is_not_launched() {
    let gpu = Emulated::new(Default::default());
    let stream = gpu.stream().expect("a stream");
    let grid = Grid::over(1, 32);
    let arguments = Short { to: Address(0) };
    // SAFETY: the emulation compares sizes before it reads.
    let launched = unsafe { launch(&*gpu, stream, grid, &arguments) };
    let why = launched.and_then(|()| gpu.synchronize(stream));
    let why = why.expect_err("it takes 24 bytes").to_string();
    assert!(
        why.contains("write_bytes takes 24 bytes of arguments, not 8"),
        "{why}"
    );
}
