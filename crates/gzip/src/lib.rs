//! gzip streams (RFC 1952) stitched from fragments, texts that are known beforehand, and runs,
//! which are not.
//!
//! A server that knows its pages knows most of each answer before it is asked. So most of the work
//! of a compressor is done once, when pages are loaded:
//!
//! ```text
//! fragments of a page ──tokens──▶ literals and matches ──counts──▶ one Huffman code of the page
//!                                        └───────────encoded by──────────┘
//!                                                        ▼
//!                                  Codebook: bits of each fragment, ready to be joined
//! ```
//!
//! and little is left to do for an answer ([`Stitcher`]): the bits of fragments are joined, shifted
//! to where the stream stands; one that was given before, as in a loop, is a match to that; bytes
//! of runs are literals, or matches to runs before, which one probe of a table finds. All of it is
//! one block of dynamic Huffman codes (RFC 1951, section 3.2.7), whose head is bits, too. The
//! checksum is put together from those of fragments.
//!
//! A match in a fragment to another one that came before it has a distance that depends on what
//! stands between: it is put in when the stream is made, or, where the other is not in this answer
//! or too far away, bits that need none are taken instead.
#![forbid(unsafe_code)]

mod bits;
mod codebook;
mod crc;
mod huffman;
mod length_limit;
mod stitcher;
mod symbols;
mod tokens;

pub use codebook::{Codebook, Fragment};
pub use stitcher::Stitcher;
