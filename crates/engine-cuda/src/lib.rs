//! The executor of Rhythm that runs cohorts on an NVIDIA GPU (paper, sections 3 to 6).
//!
//! - [`gpu`]: a GPU: the driver loaded at run time, or the emulation on a CPU; its memory and what
//!   is put into its streams;
//! - [`layout`]: the layouts that answers are made in;
//! - [`plain`], [`abi`], `upload`: what crosses between host and kernels, and how it gets there;
//! - [`case`]: the tables by which kernels change case;
//! - `program`, `service`: a page's stage programs as the kernels read them, and on the device;
//! - `cohort`: a cohort in the device's memory, and the launches that take it through a stage;
//! - [`executor`]: the [`Executor`](rhythm_engine::device::Executor) on it;
//! - [`sessions`], [`besim`], [`parser`]: the parts of the server that the paper puts on the device
//!   beside the stages;
//! - [`resident`]: all of them together, requests in device memory to answers in device memory;
//! - [`bandwidth`]: how fast the memory is that all of it is measured against.

pub mod abi;
pub mod bandwidth;
pub mod besim;
pub mod case;
mod cohort;
pub mod executor;
pub mod gpu;
pub mod layout;
pub mod parser;
pub mod plain;
mod program;
pub mod resident;
mod service;
pub mod sessions;
mod upload;

pub use abi::Columns;
