//! The three channels of the paper (section 5.1.2) in software, over a stream of bytes each way.
//!
//! - CRMA (`crma.rs`): small reads, writes and compare-and-swap of another machine's memory, each
//!   one frame and one answer, many under way at a time;
//! - RDMA (`rdma.rs`): bulk transfers in chunks, one request and one end for all of them;
//! - QPair (`qpair.rs`): two queues of messages, one each way, in order and without loss also where
//!   the connection breaks and another takes its place; credits keep the receiver's buffers from
//!   overflowing, and go as messages or, as section 5.1.3 of the paper has it, past them.
//!
//! None of these does I/O or reads a clock. `borrow.rs` joins the first two at the borrower's end,
//! `serve.rs` at the donor's, where `ramt.rs` says which addresses there are, and `windows.rs`
//! drives it over a transport (`transport/`): TCP, or memory that two processes share. `queue.rs`
//! drives a QPair so. What they say is in `frame.rs`, and what ends a connection in `broken.rs`.

pub(crate) mod borrow;
pub(crate) mod broken;
pub(crate) mod crma;
pub(crate) mod frame;
pub mod messages;
pub(crate) mod qpair;
pub(crate) mod queue;
pub(crate) mod ramt;
pub(crate) mod rdma;
pub(crate) mod serve;
pub(crate) mod transport;
pub(crate) mod windows;
