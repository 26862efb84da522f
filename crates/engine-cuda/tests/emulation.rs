//! The emulation does what CUDA does, and sees mistakes.
#![allow(unsafe_code)]

use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder, run};
use rhythm_engine_cuda::gpu::{Grid, PinnedBuffer};

const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(7),
];

#[test]
fn a_missing_barrier_shows() {
    let reverse = |order, with_barrier: u32| {
        let gpu = Emulated::new(order);
        let mut values = PinnedBuffer::new(&gpu, 4 * 512).unwrap();
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes
                .chunks_exact(4)
                .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
                .collect()
        };
        // SAFETY: no work is under way.
        let bytes = unsafe { values.bytes_mut() };
        for (i, word) in bytes.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&(i as u32).to_le_bytes());
        }
        let mut arguments = Vec::new();
        arguments.extend(values.address().0.to_le_bytes());
        arguments.extend(with_barrier.to_le_bytes());
        arguments.extend([0; 4]);
        // SAFETY: the values are alive.
        unsafe { run("reverse", Grid::over(512, 256), &arguments, order).unwrap() };
        // SAFETY: no work is under way.
        let got = words(unsafe { values.bytes() });
        (0..512).all(|i| got[i] == (i / 256 * 256 + 255 - i % 256) as u32)
    };
    assert!(ORDERS.iter().all(|order| reverse(*order, 1)));
    assert!(!ORDERS.iter().all(|order| reverse(*order, 0)));
}
