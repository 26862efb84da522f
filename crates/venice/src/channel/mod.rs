//! The three channels of the paper (section 5.1.2) in software, over a stream of bytes each way.
//!
//! - CRMA ([`crma`]): small reads, writes and compare-and-swap of another machine's memory, each
//!   one frame and one answer, many under way at a time;
//! - RDMA ([`rdma`]): bulk transfers in chunks, one request and one end for all of them;
//! - QPair ([`qpair`]): two queues of messages, one each way, in order and without loss also where
//!   the connection breaks and another takes its place; credits keep the receiver's buffers from
//!   overflowing, and go as messages or, as section 5.1.3 of the paper has it, past them.
//!
//! None of these does I/O or reads a clock. [`borrow`] joins the first two at the borrower's end,
//! [`serve`] at the donor's, where the [`ramt`] says which addresses there are; [`queue`] drives a
//! QPair over a [`transport`]: TCP, or memory that two processes share.

pub(crate) mod borrow;
pub(crate) mod broken;
pub(crate) mod crma;
pub(crate) mod frame;
pub(crate) mod qpair;
pub(crate) mod queue;
pub(crate) mod ramt;
pub(crate) mod rdma;
pub(crate) mod serve;
pub(crate) mod transport;
