//! What is kept beside the items of a memory file: how its heap is cut, the clock, and where items
//! are. It is text, a name and numbers a line, and the last line is the checksum of all others.

use super::flush::Flushed;
use super::segments::{AtRest, Layout};
use crate::checksum::checksum;
use std::fmt::Write;
use std::io;

/// The way in which items lie in their segments, which another version may change.
const FORM: u64 = 1;
/// Numbers in items have this byte order.
const BYTE_ORDER: u64 = if cfg!(target_endian = "little") { 1 } else { 0 };
const POINTER_BITS: u64 = usize::BITS as u64;
const KEY: [u64; 2] = [0x6d65_7461_6461_7461, 0x6f66_2072_6879_7468];

/// Why a server finds no items in its memory file, and begins with none.
#[derive(Debug, thiserror::Error)]
pub enum Unkept {
    /// The file is new.
    #[error("it is new")]
    New,
    /// There is no metadata.
    #[error("the last server did not end in order, or was killed while it started")]
    NotLeft,
    /// Another version or machine wrote it.
    #[error("another version of rhythm, or another kind of machine, has written it")]
    Form,
    /// The server is started with other options.
    #[error("{option} was {then}, and is {now} now: items are kept where it stays as it is")]
    Option {
        /// Which.
        option: &'static str,
        /// With this one it was left.
        then: u64,
        /// This one is asked for.
        now: u64,
    },
    /// It is started with so much more or less memory that the file cannot be cut as it was.
    #[error(
        "-m was {then} bytes, and is {now} now: the items of this file are kept where -m is from \
         {least} to {most} bytes"
    )]
    Size {
        /// With so much it was left.
        then: u64,
        /// So much is asked for.
        now: u64,
        /// The least with which it can be used.
        least: u64,
        /// And the most.
        most: u64,
    },
    /// It is started with less memory.
    #[error(
        "what was in it takes {needs} bytes of memory, and -m has {has}: items are kept where -m \
         is no less than that"
    )]
    Room {
        /// Bytes of all segments up to the last one that is used.
        needs: u64,
        /// Bytes of those that there are.
        has: u64,
    },
    /// It is not what was written.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// There is no memory for the table, or for long values.
    #[error("the system has no memory for what is beside it")]
    Memory,
    /// The system.
    #[error("it cannot be read: {0}")]
    System(#[from] io::Error),
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) layout: Layout,
    /// `-m`
    pub(super) memory: u64,
    /// `-I`
    pub(super) item_max: u64,
    /// Not `-C`
    pub(super) has_cas: bool,
    /// What the clock showed, and the second of the calendar.
    pub(super) now: u32,
    pub(super) unix: u64,
    /// The last CAS id.
    pub(super) cas: u64,
    pub(super) flushed: Flushed,
    pub(super) rest: Rest,
}

/// Where items are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// How many there are.
    pub(super) items: u64,
    /// Bytes of long values, and their checksum.
    pub(super) long: (u64, u64),
    /// The segments, with their checksums.
    pub(super) segments: Vec<(AtRest, u64)>,
}

impl Meta {
    /// As it is written.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, numbers: &[u64]| {
            text.push_str(name);
            for number in numbers {
                // Text takes whatever comes.
                let _ = write!(text, " {number}");
            }
            text.push('\n');
        };
        line("form", &[FORM, BYTE_ORDER, POINTER_BITS]);
        let Layout { unit, capacity } = self.layout;
        line("layout", &[unit.into(), capacity.into()]);
        line("memory", &[self.memory]);
        line("item_max", &[self.item_max]);
        line("cas_ids", &[self.has_cas.into(), self.cas]);
        line("clock", &[self.now.into(), self.unix]);
        let Flushed { until, cas, next } = self.flushed;
        line("flushed", &[until.into(), cas, next.into()]);
        let Rest {
            items,
            long,
            segments,
        } = &self.rest;
        line("items", &[*items]);
        line("long_values", &[long.0, long.1]);
        line("segments", &[segments.len() as u64]);
        for (of, checksum) in segments {
            let (group, is_open) = (of.group as u64, of.is_open.into());
            let numbers = [of.index.into(), of.used.into(), group, is_open, *checksum];
            line("segment", &numbers);
        }
        let sum = checksum(KEY, text.as_bytes());
        text + &format!("checksum {sum}\n")
    }

    /// Reads what was written.
    pub(super) fn read(bytes: &[u8]) -> Result<Meta, Unkept> {
        let damaged = Unkept::Damaged("its metadata");
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(damaged);
        };
        let mut lines = Lines(text);
        // First, as a later version may have any lines.
        if lines.next("form")? != [FORM, BYTE_ORDER, POINTER_BITS] {
            return Err(Unkept::Form);
        }
        let [unit, capacity] = lines.next("layout")?;
        let layout = Layout {
            unit: narrow(unit)?,
            capacity: narrow(capacity)?,
        };
        let [memory] = lines.next("memory")?;
        let [item_max] = lines.next("item_max")?;
        let [has_cas, cas] = lines.next("cas_ids")?;
        let [now, unix] = lines.next("clock")?;
        let [until, flushed, next] = lines.next("flushed")?;
        let [items] = lines.next("items")?;
        let long = lines.next("long_values")?;
        let [count] = lines.next("segments")?;
        let segment = |_| {
            let [index, used, group, is_open, checksum] = lines.next("segment")?;
            let of = AtRest {
                index: narrow(index)?,
                used: narrow(used)?,
                group: narrow::<u32>(group)? as usize,
                is_open: is_open != 0,
            };
            Ok((of, checksum))
        };
        // As many as are said to come, and no more than do.
        let segments = (0..count).map(segment).collect::<Result<_, Unkept>>()?;
        let summed = text.len() - lines.0.len();
        let [sum] = lines.next("checksum")?;
        if sum != checksum(KEY, &bytes[..summed]) || !lines.0.is_empty() {
            return Err(damaged);
        }
        Ok(Meta {
            layout,
            memory,
            item_max,
            has_cas: has_cas != 0,
            now: narrow(now)?,
            unix,
            cas,
            flushed: Flushed {
                until: narrow(until)?,
                cas: flushed,
                next: narrow(next)?,
            },
            rest: Rest {
                items,
                long: long.into(),
                segments,
            },
        })
    }
}

/// Lines that are to be read yet.
struct Lines<'t>(&'t str);

impl Lines<'_> {
    /// The numbers of the next line, which has this name.
    fn next<const N: usize>(&mut self, name: &str) -> Result<[u64; N], Unkept> {
        let numbers = self.0.split_once('\n').and_then(|(line, rest)| {
            self.0 = rest;
            let mut words = line.split(' ');
            let mut numbers = [0; N];
            let is_named = words.next() == Some(name);
            for number in &mut numbers {
                *number = words.next()?.parse().ok()?;
            }
            (is_named && words.next().is_none()).then_some(numbers)
        });
        numbers.ok_or(Unkept::Damaged("its metadata"))
    }
}

fn narrow<T: TryFrom<u64>>(number: u64) -> Result<T, Unkept> {
    T::try_from(number).map_err(|_| Unkept::Damaged("its metadata"))
}
