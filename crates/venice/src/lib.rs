//! Machines lend each other what they do not use: the system of *Venice: Exploring Server
//! Architectures for Effective Resource Sharing* (HPCA 2016, "the paper"), in software.
//!
//! - [`monitor`]: who has what and lends it to whom (the paper's Monitor Node, section 5.3);
//! - [`agent`]: what runs on each machine: reports, lends, takes back;
//! - [`memory`]: memory of donors in the address space of a program;
//! - [`channel`]: the paper's CRMA, RDMA and QPair;
//! - [`nic`]: interfaces whose frames go out by another machine's;
//! - [`identity`]: who a party is, by certificates, and connections in TLS;
//! - [`remote`]: the same memory for programs that know of it, over the paper's channels;
//! - [`accelerator`]: jobs that a donor's accelerators do, by mailboxes;
//! - [`mod@bench`]: what all that costs, beside the least that it could;
//! - [`loan`]: what all of them call a loan, and [`resource`] what it is of.

pub mod accelerator;
pub mod agent;
mod ask;
pub mod bench;
pub mod channel;
mod guests;
pub mod identity;
mod incoming;
pub mod loan;
pub mod memory;
pub mod monitor;
pub mod name;
pub mod nic;
pub mod random;
pub mod remote;
pub mod resource;
pub mod secret;
mod units;
pub mod wire;
