//! The executor of Rhythm that runs cohorts on an NVIDIA GPU (paper, sections 3 to 6).
//!
//! - [`gpu`]: a GPU: the driver loaded at run time, or the emulation on a CPU;
//! - [`layout`]: the layouts that answers are made in;
//! - [`abi`]: the structs that host and kernels exchange;
//! - [`case`]: the tables by which kernels change case;
//! - [`program`]: a page's stage programs as the kernels read them;
//! - [`executor`]: the [`Executor`](rhythm_engine::device::Executor) on it;
//! - [`sessions`], [`besim`], [`parser`]: the parts of the server that the paper puts on the device
//!   beside the stages;
//! - [`resident`]: all of them together, requests in device memory to answers in device memory.

pub mod abi;
pub mod besim;
pub mod case;
mod cohort;
pub mod executor;
pub mod gpu;
pub mod launch;
pub mod layout;
pub mod parser;
pub mod program;
pub mod resident;
pub mod sessions;
