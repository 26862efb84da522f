// Written by `cargo xtask kernels`.
const IMAGES: &[(&str, &[u8])] = &[
];
const SOURCES: &[(&str, &str)] = &[
    ("abi.cuh", include_str!("../abi.cuh")),
    ("device.cuh", include_str!("../device.cuh")),
];
