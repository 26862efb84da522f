//! A GPU: memory, streams, kernels, and a call when a stream has come to a point.
//!
//! - [`Gpu`]: the trait. [`driver`] is a real one, through the CUDA driver loaded at run time;
//!   `emulated` runs the same kernels on the CPU. The code above knows only the trait, so what the
//!   tests drive is what a GPU gets;
//! - [`DeviceBuffer`], [`PinnedBuffer`]: memory that gives itself back; [`Extent`] and [`Slice`]: a
//!   typed part of it, planned and borrowed;
//! - [`Kernel`]: the kernels by name; [`images`]: what they are compiled to; [`Launch`]: what they
//!   take;
//! - [`Queue`]: copies and launches put into a stream, of borrowed memory only; [`scope`] and
//!   [`Lent`] see to it that what is borrowed stays until the stream has done its work;
//! - [`power`]: what a device draws meanwhile; [`Stopwatch`]: how long each kernel takes.
//!
//! Memory and launches are unsafe by nature: `unsafe` is here, and nowhere else but for the
//! promises about what crosses (`plain`, `abi/declare.rs`).

#![allow(unsafe_code)]

pub mod driver;
#[cfg(feature = "emulation")]
pub mod emulated;
mod extent;
pub mod images;
mod interface;
mod kernel;
mod lent;
mod memory;
pub mod power;
mod queue;
mod signature;
mod stopwatch;

pub(crate) use extent::Extents;
pub use extent::{Extent, Slice};
pub use interface::{Address, Completion, DeviceId, Gpu, GpuError, Grid, Mark, SharedGpu, Stream};
pub use kernel::{Kernel, MODULES};
pub use lent::Lent;
pub(crate) use memory::grown;
pub use memory::{Buffer, DeviceBuffer, Home, PinnedBuffer};
pub use queue::{Queue, Scope, scope};
pub(crate) use signature::Pointer;
pub use signature::{Count, Field, Launch};
pub use stopwatch::Stopwatch;
