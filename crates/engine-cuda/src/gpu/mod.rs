//! A GPU: memory, streams, kernels, and a call when a stream has come to a point.
//!
//! - [`Gpu`]: the trait. [`driver`] is a real one, through the CUDA driver loaded at run time;
//!   `emulated` runs the same kernels on the CPU. The code above knows only the trait, so what the
//!   tests drive is what a GPU gets;
//! - [`DeviceBuffer`], [`PinnedBuffer`]: memory that gives itself back; [`Extent`] and [`Slice`]: a
//!   typed part of it, planned and borrowed;
//! - [`Queue`]: copies and launches put into a stream, of borrowed memory only;
//! - [`Kernel`]: the kernels by name; [`images`]: what they are compiled to;
//! - [`power`]: what a device draws meanwhile.
//!
//! Memory and launches are unsafe by nature: `unsafe` is here, and where a kernel's struct is put
//! together.

#![allow(unsafe_code)]

pub mod driver;
#[cfg(feature = "emulation")]
pub mod emulated;
mod extent;
pub mod images;
mod interface;
mod kernel;
mod memory;
pub mod power;
mod queue;

pub use extent::{Extent, Slice};
pub(crate) use extent::{Extents, address_or_null};
pub use interface::{Address, Completion, Gpu, GpuError, Grid, Mark, SharedGpu, Stream};
pub use kernel::{Arguments, Kernel, MODULES};
pub use memory::{DeviceBuffer, PinnedBuffer};
pub use queue::Queue;
