//! The `rhythm` binary.
fn main() {}
