//! Compiles the emulation where it is asked for.
fn main() {}
