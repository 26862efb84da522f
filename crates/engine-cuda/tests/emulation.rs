//! The emulation does what CUDA does, and sees mistakes. Its kernels are in `emulation/tests/`.
#![allow(unsafe_code)]

use std::process::Command;
use std::sync::mpsc::channel;

use rhythm_engine_cuda::bandwidth;
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder, Options, run};
use rhythm_engine_cuda::gpu::{
    Address, DeviceBuffer, GpuError, Grid, Kernel, PinnedBuffer, Queue, SharedGpu, scope,
};

const ORDERS: [LaneOrder; 4] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(1),
    LaneOrder::Shuffled(2),
];

/// Runs a test kernel on some values; what they are afterwards, or its error.
fn try_kernel(
    name: &str,
    grid: Grid,
    order: LaneOrder,
    variant: u32,
    values: &[u32],
) -> Result<Vec<u32>, String> {
    let gpu = Emulated::new(order);
    let mut buffer = PinnedBuffer::new(&gpu, 4 * values.len()).unwrap();
    for (word, value) in buffer.host().chunks_exact_mut(4).zip(values) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    let arguments = arguments(buffer.address(), variant);
    // SAFETY: the values are alive; a kernel that overruns them is run in a process of its own.
    unsafe { run(name, grid, &arguments, order)? };
    let words = buffer.host().chunks_exact(4).take(values.len());
    Ok(words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect())
}

/// The bytes of the test kernels' `Values`.
fn arguments(values: Address, variant: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&values.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&variant.to_le_bytes());
    bytes
}

fn numbers(count: u32) -> Vec<u32> {
    (0..count).collect()
}

#[test]
fn a_missing_barrier_shows() {
    let reversed: Vec<u32> = (0..512).map(|i| i / 256 * 256 + 255 - i % 256).collect();
    let in_warps: Vec<u32> = (0..512).map(|i| i ^ 31).collect();
    for (name, expected) in [("reverse", reversed), ("reverse_warps", in_warps)] {
        let right = |order, variant| {
            let grid = Grid::over(512, 256).with_shared(1024);
            try_kernel(name, grid, order, variant, &numbers(512)).unwrap() == expected
        };
        assert!(ORDERS.iter().all(|order| right(*order, 0)), "{name}");
        assert!(!ORDERS.iter().all(|order| right(*order, 1)), "{name}");
    }
}

#[test]
fn an_update_that_is_not_atomic_shows() {
    let sum = |order, variant| {
        try_kernel("sum", Grid::over(512, 256), order, variant, &[0; 2]).unwrap()[0]
    };
    assert!(
        ORDERS
            .iter()
            .all(|order| sum(*order, 0) == 2 * (255 * 256 / 2))
    );
    assert!(
        ORDERS
            .iter()
            .any(|order| sum(*order, 1) != 2 * (255 * 256 / 2))
    );
}

#[test]
fn shared_memory_begins_as_garbage() {
    for order in ORDERS {
        let grid = Grid::over(3 * 32, 32).with_shared(128);
        let found = try_kernel("find_shared", grid, order, 0, &[0; 96]).unwrap();
        assert!(found.iter().all(|word| *word != 0), "{order:?}: {found:?}");
    }
}

#[test]
fn threads_wait_for_stores() {
    let hand_over =
        |order, variant| try_kernel("hand_over", Grid::over(128, 128), order, variant, &[999]);
    for order in ORDERS {
        for waiting_by in 0..3 {
            assert_eq!(hand_over(order, waiting_by), Ok(vec![0]), "{order:?}");
        }
        let error = hand_over(order, 3).unwrap_err();
        assert!(error.contains("a store that does not come"), "{error}");
    }
}

#[test]
fn misuse_is_reported() {
    let misuse =
        |order, variant| try_kernel("misuse", Grid::over(128, 128), order, variant, &[0; 128]);
    for order in ORDERS {
        let values = misuse(order, 0).unwrap();
        assert_eq!(values[..8], [0xad; 8], "{order:?}");
        assert_eq!(values[8..16], [3; 8], "{order:?}");
        assert_eq!(values[16..32], [19; 16], "{order:?}");
        for (variant, expected) in [
            (
                1,
                "__shfl_sync with mask 7fffffff, which does not name the caller (planted.cu:",
            ),
            (2, "lane"),
            (
                3,
                "no thread can go on; 4 of 128 live threads wait at __syncthreads (planted.cu:",
            ),
            (4, "__ballot_sync with mask"),
            (5, "_sync with mask ffffffff, while lanes"),
            (
                6,
                "__shfl_sync reads lane 8, which mask 000000ff does not name",
            ),
            (7, "__shfl_down_sync with width 12"),
            (8, "__syncthreads, while"),
            (9, "at __syncwarp (planted.cu:"),
            (10, "an atomic access of 4 bytes at"),
            (
                11,
                "kernel misuse, block 0, thread 70 (lane 6 of warp 2): __trap() (planted.cu:",
            ),
            (
                12,
                "49600 bytes of SHARED_ARRAYs and 0 of dynamic shared memory are too much",
            ),
        ] {
            let error = misuse(order, variant).unwrap_err();
            assert!(error.contains(expected), "{order:?}, {variant}: {error}");
        }
        // The same stacks serve again.
        misuse(order, 0).unwrap();
    }
}

#[test]
fn a_lane_that_has_ended_is_named_whoever_comes_first() {
    let error =
        |order| try_kernel("misuse", Grid::over(128, 128), order, 2, &[0; 128]).unwrap_err();
    let late = error(LaneOrder::Ascending);
    assert!(late.contains("for lane 5, which has ended"), "{late}");
    let early = error(LaneOrder::Descending);
    assert!(early.contains("for lane 5, which has ended"), "{early}");
    // A block of a warp and a quarter: the second warp's other lanes never were.
    let grid = Grid::over(40, 40);
    let absent = try_kernel("exchange", grid, LaneOrder::Ascending, 0, &[0; 1200]).unwrap_err();
    assert!(
        absent.contains("names lanes ffffff00 that have ended or never were"),
        "{absent}"
    );
}

#[test]
fn primitives_give_what_cuda_gives() {
    let value = |lane: u32| lane * 3 + 1;
    let all = 0..32u32;
    let below = |lane: u32| lane as i32 - 7;
    type Row<'a> = Box<dyn Fn(u32) -> u32 + 'a>;
    let rows: Vec<Row> = vec![
        Box::new(|lane| value((lane + 1) % 32)),
        Box::new(|_| value(31)),
        Box::new(|lane| value(lane / 8 * 8 + 5)),
        Box::new(|lane| value(lane / 8 * 8 + 5)),
        Box::new(|lane| value(if lane < 3 { lane } else { lane - 3 })),
        Box::new(|lane| value(if lane % 8 < 3 { lane } else { lane - 3 })),
        Box::new(|lane| value(if lane % 16 > 10 { lane } else { lane + 5 })),
        Box::new(|lane| value(lane ^ 9)),
        // Earlier groups may be read, later ones not.
        Box::new(|lane| value(if lane & 8 != 0 { lane ^ 8 } else { lane })),
        Box::new(|lane| value((lane + 1).min(31)) * 2),
        Box::new(|_| below(0) as u32),
        Box::new(|_| 0x4924_9249),
        Box::new(|_| 0),
        Box::new(|_| 1),
        Box::new(|_| 0),
        Box::new(|_| 1),
        Box::new(|lane| {
            (all.clone().filter(|other| other / 5 == lane / 5))
                .map(|l| 1 << l)
                .sum()
        }),
        Box::new(|lane| 0x5555_5555 << (lane & 1)),
        Box::new(|_| all.clone().map(value).sum()),
        Box::new(|_| -7i32 as u32),
        Box::new(|_| 0),
        Box::new(|_| 24),
        Box::new(|_| -1i32 as u32),
        Box::new(|_| 0x100),
        Box::new(|_| 0x7f),
        Box::new(|_| all.clone().map(value).fold(0, |a, b| a ^ b)),
        Box::new(|lane| match lane & 1 {
            1 => all.clone().filter(|lane| lane & 1 == 1).map(value).sum(),
            _ => value(6),
        }),
        Box::new(|_| 22),
        Box::new(|_| 1),
        Box::new(|_| 0),
    ];
    for order in ORDERS {
        let length = rows.len() * 64;
        let got = try_kernel("exchange", Grid::over(64, 64), order, 0, &vec![0; length]).unwrap();
        for (row, expected) in rows.iter().enumerate() {
            let expected: Vec<u32> = (0..64).map(|thread| expected(thread % 32)).collect();
            assert_eq!(got[row * 64..][..64], expected, "{order:?}, row {row}");
        }
    }
}

#[test]
fn functions_of_bits_give_what_cuda_gives() {
    let (a, b) = (0x8123_4567u32, 0x0fed_cb00u32);
    let wide = u64::from(a) << 32 | u64::from(b);
    let mut values = vec![a, b];
    values.resize(2 + 24, 0);
    let got = try_kernel("bits", Grid::over(1, 1), LaneOrder::Ascending, 0, &values).unwrap();
    let expected = [
        a.count_ones(),
        wide.count_ones(),
        0,
        32,
        64,
        9,
        0,
        41,
        a.reverse_bits(),
        a.reverse_bits(),
        0xedcb_0081,
        0x0081_2345,
        0x0f00_4567,
        // The sign of byte 3, 0x81, then byte 0 three times.
        0x6767_67ff,
        ((u64::from(a) * u64::from(b)) >> 32) as u32,
        ((u128::from(wide) * u128::from(wide)) >> 64) as u32,
        9,
        9,
        7,
        7,
        2,
        14,
        6,
        7,
    ];
    assert_eq!(got[2..], expected);
}

#[test]
fn what_cannot_be_launched_is_reported() {
    let launch = |name: &str, grid: Grid, bytes: &[u8]| {
        // SAFETY: nothing is run.
        unsafe { run(name, grid, bytes, LaneOrder::Ascending) }.unwrap_err()
    };
    let grid = Grid::over(1, 32);
    assert_eq!(
        launch("no_such", grid, &[0; 16]),
        "there is no kernel no_such"
    );
    assert_eq!(
        launch("reverse", grid, &[0; 8]),
        "kernel reverse takes 16 bytes of arguments, not 8"
    );
    assert_eq!(
        launch("reverse", Grid::over(1, 288), &[0; 16]),
        "kernel reverse takes up to 256 threads a block, not 1 blocks of 288"
    );
    assert_eq!(
        launch("reverse", grid.with_shared(227 * 1024 + 1), &[0; 16]),
        "kernel reverse: 232449 bytes of shared memory are too much"
    );
}

/// Runs a test of this file by itself in a process of its own; its standard error, where it did not
/// end well.
fn in_child(test: &str, variant: u32) -> Option<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("RHYTHM_PLANTED", variant.to_string())
        .output()
        .unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Run by [`the_sanitizers_see_memory_that_is_not_the_kernels`].
#[test]
#[ignore = "ends its process where the kernel has a mistake"]
fn overrun() {
    let Ok(variant) = std::env::var("RHYTHM_PLANTED") else {
        return;
    };
    let variant = variant.parse().unwrap();
    // One word more than the threads', but for the variant that overruns it.
    let values = if variant == 3 { 64 } else { 68 };
    let grid = Grid::over(64, 64).with_shared(if variant == 2 { 256 } else { 260 });
    let order = LaneOrder::Ascending;
    try_kernel("overrun", grid, order, variant, &vec![0; values]).unwrap();
}

#[test]
fn the_sanitizers_see_memory_that_is_not_the_kernels() {
    if !cfg!(emulation_sanitized) {
        eprintln!("skipped: built without RHYTHM_EMULATION_SANITIZE=1");
        return;
    }
    assert_eq!(in_child("overrun", 0), None);
    for (variant, expected) in [
        // An array of a fixed size, through a pointer.
        (1, "AddressSanitizer: heap-buffer-overflow"),
        (2, "AddressSanitizer: heap-buffer-overflow"),
        // Global memory.
        (3, "AddressSanitizer: heap-buffer-overflow"),
        (4, "runtime error: member access within misaligned address"),
        (5, "runtime error: signed integer overflow"),
    ] {
        let error = in_child("overrun", variant).expect("the mistake is seen");
        assert!(error.contains(expected), "{variant}: {error}");
        assert!(error.contains("planted.cu"), "{variant}: {error}");
    }
}

/// Fills a buffer by a kernel.
fn write<'m>(
    gpu: &SharedGpu,
    queue: &Queue<'m>,
    to: &'m DeviceBuffer,
    value: u32,
) -> Result<u64, GpuError> {
    bandwidth::write_bytes(&**gpu, queue, to.first(to.len()), value)
}

fn bytes_of(gpu: &SharedGpu, from: &DeviceBuffer) -> Vec<u8> {
    let stream = gpu.stream().unwrap();
    let mut to = PinnedBuffer::new(gpu, from.len()).unwrap();
    let (all, copied) = (from.first(from.len()), to.first(from.len()));
    scope(&**gpu, &[stream], |queue| queue.copy(copied, all)).unwrap();
    to.host().to_vec()
}

#[test]
fn copies_fills_and_launches_go_through_the_trait() {
    assert_eq!(Emulated::arguments_size(Kernel::CopyBytes), Some(24));
    assert_eq!(Emulated::arguments_size(Kernel::WriteBytes), Some(24));
    for order in ORDERS {
        let gpu = Emulated::new(order);
        let stream = gpu.stream().unwrap();
        let (from, to) = (gpu.mark().unwrap(), gpu.mark().unwrap());
        let one = DeviceBuffer::new(&gpu, 100_000).unwrap();
        let other = DeviceBuffer::new(&gpu, 100_000).unwrap();
        assert!(gpu.elapsed_ms(from, to).is_err());
        let work = scope(&*gpu, &[stream], |queue| {
            gpu.record(stream, from).unwrap();
            let written = write(&gpu, queue, &one, 0x0403_0201).unwrap();
            assert_eq!(written, 100_000);
            let (source, target) = (one.first(100_000), other.first(100_000));
            queue.fill(source.part(16..19), 9).unwrap();
            let moved = bandwidth::copy_bytes(&*gpu, queue, target, source).unwrap();
            assert_eq!(moved, 200_000);
            gpu.record(stream, to)
        });
        work.unwrap();
        assert!(gpu.elapsed_ms(from, to).unwrap() >= 0.0);
        let mut expected = [1, 2, 3, 4].repeat(25_000);
        expected[16..19].fill(9);
        assert_eq!(bytes_of(&gpu, &other), expected);
    }
}

#[test]
fn launches_of_several_threads_run_beside_each_other() {
    let gpu = Emulated::new(LaneOrder::Shuffled(3));
    let mut counts = PinnedBuffer::new(&gpu, 16).unwrap();
    let arguments = arguments(counts.address(), 0);
    std::thread::scope(|scope| {
        for order in ORDERS {
            scope.spawn(move || {
                // SAFETY: the counts are alive, and the kernel adds atomically.
                unsafe { run("sum", Grid::over(2560, 256), &arguments, order).unwrap() };
            });
        }
    });
    let sum = u32::from_le_bytes(counts.host()[..4].try_into().unwrap());
    assert_eq!(sum, 4 * 10 * (255 * 256 / 2));
}

#[test]
fn a_failure_takes_the_device() {
    let gpu = Emulated::with(Options {
        fail_launch: Some(1),
        ..Options::default()
    });
    let stream = gpu.stream().unwrap();
    let buffer = DeviceBuffer::new(&gpu, 64).unwrap();
    let failed = Err(GpuError::Failed("launch 1 was to fail".to_owned()));
    let written = scope(&*gpu, &[stream], |queue| write(&gpu, queue, &buffer, 1));
    assert_eq!(written, Ok(64));
    let waited = scope(&*gpu, &[stream], |queue| {
        // As on a GPU, the launch itself does not tell.
        write(&gpu, queue, &buffer, 2).unwrap();
        assert_eq!(queue.fill(buffer.first(64), 0), failed);
        Ok(())
    });
    assert_eq!(waited, failed);
    assert_eq!(
        gpu.on_completion(stream, Box::new(|_| panic!("there is no call"))),
        failed
    );
    assert!(DeviceBuffer::new(&gpu, 64).is_err());
}

#[test]
fn memory_ends() {
    let gpu = Emulated::with(Options {
        memory: 256,
        ..Options::default()
    });
    let first = DeviceBuffer::new(&gpu, 160).unwrap();
    let error = PinnedBuffer::new(&gpu, 112).unwrap_err();
    assert_eq!(error, GpuError::OutOfMemory(112));
    drop(first);
    PinnedBuffer::new(&gpu, 112).unwrap();
}

#[test]
fn memory_that_is_not_the_devices_is_not_copied() {
    let gpu = Emulated::new(LaneOrder::Ascending);
    let stream = gpu.stream().unwrap();
    let buffer = DeviceBuffer::new(&gpu, 64).unwrap();
    // SAFETY: nothing is copied.
    unsafe {
        gpu.copy(stream, buffer.address(), buffer.address().plus(32), 48)
            .unwrap();
    }
    let error = gpu.synchronize(stream).unwrap_err().to_string();
    assert!(error.contains("which are not all allocated"), "{error}");
}

#[test]
fn completions_can_be_deferred() {
    let gpu = Emulated::with(Options {
        deferred: true,
        fail_launch: Some(1),
        ..Options::default()
    });
    let stream = gpu.stream().unwrap();
    let buffer = DeviceBuffer::new(&gpu, 64).unwrap();
    let (sender, receiver) = channel();
    let complete = || {
        let sender = sender.clone();
        let here = std::thread::current().id();
        let call = move |outcome| {
            assert_ne!(std::thread::current().id(), here);
            sender.send(outcome).unwrap();
        };
        gpu.on_completion(stream, Box::new(call))
    };
    let failed = Err(GpuError::Failed("launch 1 was to fail".to_owned()));
    let waited = scope(&*gpu, &[stream], |queue| {
        let write = || write(&gpu, queue, &buffer, 1);
        write().unwrap();
        complete().unwrap();
        assert_eq!(receiver.recv().unwrap(), Ok(()));
        write().unwrap();
        // Nobody knows yet.
        write().unwrap();
        complete().unwrap();
        assert_eq!(receiver.recv().unwrap(), failed);
        assert!(write().is_err());
        assert_eq!(complete(), failed);
        Ok(())
    });
    assert_eq!(waited, failed);
}
