//! Makes a stream: bits of fragments and of runs, one behind the other.

use crate::bits::{BitText, BitWriter, Bits};
use crate::codebook::{Codebook, Part, Prepared};
use crate::huffman::Code;
use crate::symbols::{DISTANCE_MAX, MATCH_MAX};
use crate::tokens::hash;
use std::ops::Range;

/// Places of the table of what runs had: 32 KiB, which fit a core's first cache beside the rest.
const PLACES: usize = 1 << 12;
/// The least that is looked for in runs: as many bytes as are hashed.
const RUN_MATCH_MIN: usize = 4;
/// A match of fewer bytes takes more bits than these, if it is not near.
const SHORT: usize = 6;
/// How near.
const NEAR: u32 = 2048;
/// Fragments that are shorter are given anew where they are given again.
const AGAIN_MIN: usize = 24;
/// Bytes beyond what is needed, for writes of eight.
const SLACK: usize = 64;
/// A longer buffer is given back after use.
const KEPT_MAX: usize = 1 << 20;

/// Makes streams, one after the other; its memory is kept from one to the next.
#[derive(Debug)]
pub struct Stitcher {
    /// The stream so far: `at` bytes, and bits that wait.
    buffer: Vec<u8>,
    at: usize,
    waiting: Bits,
    /// Bytes of the text so far, and their checksum.
    length: u32,
    crc: crc32fast::Hasher,
    /// Where each fragment of the page stood last in the text; beyond `length`: nowhere.
    last: Vec<u32>,
    /// Parts of the run that were given.
    parts: Vec<RunPart>,
    /// By a hash of four bytes of runs: the number of the part that had them last, counted from the
    /// first stream on, and where in the run.
    places: Box<[(u32, u32); PLACES]>,
    /// The number of this stream's first part.
    first_part: u32,
}

/// A part of a run that was given.
#[derive(Clone, Copy, Debug)]
struct RunPart {
    /// Where it ends in the run.
    end: u32,
    /// What is added to a place in the run to have that in the text.
    ahead: u32,
}

impl Default for Stitcher {
    fn default() -> Stitcher {
        Stitcher {
            buffer: Vec::new(),
            at: 0,
            waiting: Bits::default(),
            length: 0,
            crc: crc32fast::Hasher::new(),
            last: Vec::new(),
            parts: Vec::new(),
            places: vec![(0, 0); PLACES]
                .try_into()
                .unwrap_or_else(|_| unreachable!("there are as many")),
            first_part: 1,
        }
    }
}

impl Stitcher {
    /// Begins a stream.
    pub fn begin(&mut self, book: &Codebook) {
        let parts = self.parts.len() as u32;
        self.first_part = match self.first_part.checked_add(parts) {
            // Half of the numbers are left for the parts of this one.
            Some(first) if first < u32::MAX / 2 => first,
            _ => {
                self.places.fill((0, 0));
                1
            }
        };
        self.parts.clear();
        self.last.clear();
        self.last.resize(book.fragments.len(), u32::MAX);
        self.length = 0;
        self.crc.reset();
        self.at = 0;
        self.reserve(8 * book.head.len());
        self.buffer[..book.head.len()].copy_from_slice(&book.head);
        self.at = book.head.len();
        self.waiting = book.head_rest;
    }

    /// Makes room for so many bits.
    fn reserve(&mut self, bits: usize) {
        let wanted = self.at + bits / 8 + SLACK;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted.max(2 * self.buffer.len()), 0);
        }
    }

    /// Gives a fragment of the page.
    ///
    /// # Panics
    /// When it is none of those that the codebook was made of.
    pub fn fragment(&mut self, book: &Codebook, fragment: u32) {
        let (place, prepared) = book.fragment(fragment);
        self.reserve(prepared.bits_max);
        let mut to = BitWriter::new(&mut self.buffer, self.at, self.waiting);
        let (here, before) = (self.length, self.last[place]);
        let is_again = before < here && here - before <= DISTANCE_MAX;
        let length = prepared.text.len();
        if is_again && length >= AGAIN_MIN {
            again(&mut to, &book.code, length, here - before);
        } else {
            give(&mut to, &book.code, prepared, here, &self.last);
        }
        (self.at, self.waiting) = to.stand();
        self.last[place] = here;
        self.length += length as u32;
        let crc = std::mem::take(&mut self.crc).finalize();
        self.crc = crc32fast::Hasher::new_with_initial(prepared.shift.join(crc, prepared.crc));
    }

    /// Gives a part of the answer's run, of which parts are given in their order.
    pub fn run(&mut self, book: &Codebook, run: &[u8], part: Range<usize>) {
        if part.is_empty() {
            return;
        }
        self.reserve(15 * part.len());
        self.crc.update(&run[part.clone()]);
        let ahead = self.length.wrapping_sub(part.start as u32);
        self.length += part.len() as u32;
        self.parts.push(RunPart {
            end: part.end as u32,
            ahead,
        });
        let number = self.first_part + self.parts.len() as u32 - 1;
        let mut to = BitWriter::new(&mut self.buffer, self.at, self.waiting);
        let code = &book.code;
        let (mut at, end) = (part.start, part.end);
        let text = &run[..end];
        while at + RUN_MATCH_MIN <= end {
            let entry = &mut self.places[hash(&text[at..], PLACES)];
            let (of, source) = std::mem::replace(entry, (number, at as u32));
            if of >= self.first_part && of <= number {
                let part = self.parts[(of - self.first_part) as usize];
                // Its bytes end where its part does; in the same part they may overlap these.
                let from = source.wrapping_add(part.ahead);
                let distance = (at as u32).wrapping_add(ahead).wrapping_sub(from);
                let known = &text[source as usize..part.end as usize];
                if let Some(length) = match_length(known, &text[at..], distance) {
                    put_match(&mut to, code, length, distance);
                    at += length;
                    continue;
                }
            }
            let (fragment, source) = book.known(&text[at..]);
            if let Some(&begin) = self.last.get(fragment as usize)
                && begin < self.length
            {
                let distance = (at as u32).wrapping_add(ahead) - (begin + source);
                let known = &book.fragments[fragment as usize].text[source as usize..];
                if let Some(length) = match_length(known, &text[at..], distance) {
                    put_match(&mut to, code, length, distance);
                    at += length;
                    continue;
                }
            }
            to.literal(code.literal(text[at]));
            at += 1;
        }
        for byte in &text[at..] {
            to.literal(code.literal(*byte));
        }
        (self.at, self.waiting) = to.stand();
    }

    /// Ends the stream, and gives it.
    pub fn finish(&mut self, book: &Codebook) -> &[u8] {
        self.reserve(15);
        let mut to = BitWriter::new(&mut self.buffer, self.at, self.waiting);
        let end = book.code.end();
        to.add(end.bits, end.count);
        // The last byte is filled up.
        to.add(0, 7);
        (self.at, _) = to.stand();
        let crc = std::mem::take(&mut self.crc).finalize();
        let tail = &mut self.buffer[self.at..self.at + 8];
        tail[..4].copy_from_slice(&crc.to_le_bytes());
        tail[4..].copy_from_slice(&self.length.to_le_bytes());
        &self.buffer[..self.at + 8]
    }

    /// Gives memory back that only a long stream needed.
    pub fn shrink(&mut self) {
        if self.buffer.len() > KEPT_MAX {
            self.buffer = Vec::new();
        }
    }
}

/// A fragment as a match to where it stood before.
fn again(to: &mut BitWriter<'_>, code: &Code, mut length: usize, distance: u32) {
    while length > 0 {
        // No rest is shorter than a match can be.
        let part = match length {
            0..=MATCH_MAX => length,
            rest if rest < MATCH_MAX + 3 => rest - 3,
            _ => MATCH_MAX,
        };
        put_match(to, code, part, distance);
        length -= part;
    }
}

/// A fragment that begins at `here`.
fn give(to: &mut BitWriter<'_>, code: &Code, prepared: &Prepared, here: u32, last: &[u32]) {
    for part in &prepared.parts {
        match part {
            Part::Bits(bits) => to.text(bits),
            Part::Far {
                fragment,
                at,
                length,
                behind,
                instead,
            } => far(
                to,
                code,
                here + behind,
                (last[*fragment as usize], *at),
                *length,
                instead,
            ),
        }
    }
}

/// A match at `here` to a place in another fragment, if that is there; else what is `instead`.
fn far(
    to: &mut BitWriter<'_>,
    code: &Code,
    here: u32,
    (begin, at): (u32, u32),
    length: usize,
    instead: &BitText,
) {
    let distance = match begin < here {
        true => here - (begin + at).min(here),
        false => 0,
    };
    match distance {
        1..=DISTANCE_MAX => put_match(to, code, length, distance),
        _ => to.text(instead),
    }
}

#[inline(always)]
fn put_match(to: &mut BitWriter<'_>, code: &Code, length: usize, distance: u32) {
    to.flush();
    let length = code.length(length);
    to.add(length.bits, length.count);
    let distance = code.distance(distance);
    to.add(distance.bits, distance.count);
}

/// How many bytes a match at this distance has, if it takes fewer bits than they would.
#[inline(always)]
fn match_length(known: &[u8], text: &[u8], distance: u32) -> Option<usize> {
    // What is too far is not compared: a text could be made of such.
    if distance > DISTANCE_MAX {
        return None;
    }
    let length = equal(known, text);
    let is_worth_it = length >= RUN_MATCH_MIN && (length >= SHORT || distance <= NEAR);
    is_worth_it.then_some(length)
}

/// How many bytes both begin with, of what a match can have.
#[inline(always)]
fn equal(known: &[u8], text: &[u8]) -> usize {
    let most = known.len().min(text.len()).min(MATCH_MAX);
    let (a, b) = (&known[..most], &text[..most]);
    let mut same = 0;
    while let (Some(a), Some(b)) = (a[same..].first_chunk(), b[same..].first_chunk()) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return same + (differ.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    while same < most && a[same] == b[same] {
        same += 1;
    }
    same
}
