//! Accelerators of other machines (the paper's section 5.2.2): a job is put into a *mailbox*, which
//! is memory of the donor, and executed there.
//!
//! - `mailbox.rs`: what is where in it; `request.rs`: what is asked for, and what became of it;
//! - `engine.rs`: what executes a job: `fft.rs` and `crypt.rs`;
//! - `units.rs`: the accelerators of one kind, and the line in which shared ones are waited for;
//! - [`donor`]: serves mailboxes to who has the key;
//! - [`borrower`]: [`Accelerator`](borrower::Accelerator), what a program uses; `entry.rs` is how a
//!   connection begins, and `job.rs` what it has done.
//!
//! There are two ways to a mailbox, as in the paper. One that is *shared* is reached by messages
//! (QPair): they have what belongs where in it, and its thread waits in line for an accelerator.
//! One that has an accelerator *exclusively* is a window that the borrower writes and reads itself
//! (CRMA and RDMA): the job is executed by whom its start flag comes to, and the completion flag
//! and the output are read behind it, without another thread or message between.

pub mod borrower;
mod crypt;
pub mod donor;
mod engine;
mod entry;
pub mod fft;
mod job;
pub mod mailbox;
pub mod request;
mod units;
