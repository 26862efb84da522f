//! RPO: chooses between all hardware threads and one a core for a server, by the mix of requests it
//! is asked (Musabbir, Krishnamurthy, Casale: *RPO: Runtime Web Server Optimization Under
//! Simultaneous Multithreading*; "the paper" here).
//!
//! ```text
//! server ─▶ collector ──records─▶ classifier ──classes─▶ controller ──setting─▶ switcher
//!           how they reach us     which class each is    what is best now      the server's CPUs
//! ```
//!
//! The classifier and the controller do no I/O and read no clock: time is what the calls say it is,
//! so the same code runs against a simulated server.
#![forbid(unsafe_code)]

pub mod classifier;
pub mod collector;
pub mod controller;
pub mod cpus;
pub mod daemon;
pub mod model;
pub mod policy;
pub mod probe;
pub mod report;
pub mod setting;
pub mod switcher;
pub mod topology;

pub use classifier::ClassId;
pub use controller::Controller;
pub use setting::Setting;
