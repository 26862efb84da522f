//! How an item lies in its segment, and what can be seen of it.
//!
//! ```text
//!   byte 0       4          8         12              20            +4    +key        +value
//!        | marks | accessed | expires | CAS id, halves | client's    | key | value, or |
//!        |       |          |         |                | flags, if   |     | address   |
//!        |       |          |         |                | not 0       |     | of Large  |
//! ```
//!
//! The first three words are atomics, which change while the item is seen; all else is written
//! before it is and never again. `marks` has the lengths of key and value as well (see the
//! constants below).
#![allow(unsafe_code)]

mod left;

pub(crate) use left::GONE;

use super::large::Large;
use crate::store::atomic::{AtomicU32, Ordering};
use crate::store::change::Marks;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// What an item begins with.
#[repr(C, align(4))]
pub(super) struct Header {
    marks: AtomicU32,
    accessed: AtomicU32,
    expires: AtomicU32,
    cas: [u32; 2],
}

/// The most bytes of a value that lies in a segment.
pub(crate) const VALUE_MAX: usize = (1 << KEY_SHIFT) - 1;
/// The most bytes of a key.
const KEY_MAX: usize = 255;

const KEY_SHIFT: u32 = 17;
const KEY: u32 = 0xff << KEY_SHIFT;
/// The client's flags are there.
const FLAGS: u32 = 1 << 25;
/// The value lies elsewhere.
const LARGE: u32 = 1 << 26;
/// It was invalidated.
const STALE: u32 = 1 << 27;
/// A client has won the right to renew it.
const WON: u32 = 1 << 28;
/// Its key came in base64.
const ENCODED: u32 = 1 << 29;
/// How often it was fetched, in the bits from here on: see below.
const HEAT_SHIFT: u32 = 30;
/// It was never fetched.
const NEVER: u32 = 0;
/// It was fetched, and not since it was written to where it lies.
const COLD: u32 = 1;
/// It was fetched since, or once more often than it was moved.
const WARM: u32 = 2;
/// The same, at least twice.
const HOT: u32 = 3;

/// The words of an item that is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) expires: u32,
    pub(crate) accessed: u32,
    pub(crate) marks: Marks,
}

/// The value of an item that is written.
pub(crate) enum Body<'a> {
    /// Two parts, and blanks behind them.
    Here([&'a [u8]; 2], usize),
    /// In memory of its own.
    Large(Arc<Large>),
}

impl Body<'_> {
    fn length(&self) -> usize {
        match self {
            Body::Here(parts, blanks) => parts[0].len() + parts[1].len() + blanks,
            Body::Large(_) => size_of::<*const Large>(),
        }
    }

    /// Bytes that lie elsewhere.
    pub(crate) fn elsewhere(&self) -> u64 {
        match self {
            Body::Here(..) => 0,
            Body::Large(large) => large.len() as u64,
        }
    }
}

/// Bytes of an item in its segment, by the length of its key.
pub(crate) fn bytes(key: usize, flags: u32, body: &Body<'_>) -> usize {
    length(flags != 0, key, body.length())
}

fn length(flags: bool, key: usize, value: usize) -> usize {
    size_of::<Header>() + if flags { 4 } else { 0 } + key + value
}

/// Writes an item.
///
/// # Safety
/// At `at` are as many bytes as [`bytes`] tells, aligned to 4, which no other thread uses. Where
/// the body is large, its count goes with the item: [`Item::take_large`] gives it back.
pub(super) unsafe fn write(at: NonNull<u8>, key: &[u8], words: &Words, body: Body<'_>) {
    assert!(key.len() <= KEY_MAX && body.length() <= VALUE_MAX);
    let mut marks = (key.len() as u32) << KEY_SHIFT;
    let marked = [
        (words.flags != 0, FLAGS),
        (words.marks.stale, STALE),
        (words.marks.won, WON),
        (words.marks.encoded, ENCODED),
        (words.marks.fetched, COLD << HEAT_SHIFT),
        (matches!(body, Body::Large(_)), LARGE),
    ];
    for (_, mark) in marked.iter().filter(|(set, _)| *set) {
        marks |= mark;
    }
    if let Body::Here(..) = body {
        marks |= body.length() as u32;
    }
    let header = Header {
        marks: AtomicU32::new(marks),
        accessed: AtomicU32::new(words.accessed),
        expires: AtomicU32::new(words.expires),
        cas: [words.cas as u32, (words.cas >> 32) as u32],
    };
    // SAFETY: the header comes first, and there is room for it, aligned.
    unsafe { at.cast::<Header>().write(header) };
    let mut end = size_of::<Header>();
    let mut push = |bytes: &[u8]| {
        // SAFETY: all that is pushed is what `bytes` counted, and the source, which is not ours
        // alone, is no part of the room.
        unsafe {
            at.add(end)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        };
        end += bytes.len();
    };
    if words.flags != 0 {
        push(&words.flags.to_ne_bytes());
    }
    push(key);
    match body {
        Body::Here(parts, blanks) => {
            parts.into_iter().for_each(&mut push);
            // SAFETY: as in `push`: `bytes` counted them, too.
            unsafe { at.add(end).write_bytes(b' ', blanks) };
        }
        Body::Large(large) => push(&Arc::into_raw(large).expose_provenance().to_ne_bytes()),
    }
}

/// An item that was found, readable as long as the guard it was found under.
#[derive(Clone, Copy)]
pub struct Item<'p> {
    at: NonNull<Header>,
    guard: PhantomData<&'p Header>,
}

impl<'p> Item<'p> {
    /// The item at an address.
    ///
    /// # Safety
    /// There is one, written and seen by this thread, and its memory is not used for anything else
    /// as long as `'p` lasts.
    #[inline]
    pub(super) unsafe fn at(at: NonNull<u8>) -> Item<'p> {
        Item {
            at: at.cast(),
            guard: PhantomData,
        }
    }

    #[inline]
    fn header(&self) -> &'p Header {
        // SAFETY: who made `self` has promised that an item is here for `'p`, and of its header
        // nothing but atomics ever changes.
        unsafe { self.at.as_ref() }
    }

    #[inline]
    fn bits(&self) -> u32 {
        self.header().marks.load(Ordering::Relaxed)
    }

    /// A part of what follows the header.
    #[inline]
    fn part(&self, from: usize, length: usize) -> &'p [u8] {
        // SAFETY: the lengths in the header are those that were written, so this is inside the
        // item; it is initialized, and never changes for `'p`.
        unsafe {
            let at = self.at.cast::<u8>().add(size_of::<Header>() + from);
            NonNull::slice_from_raw_parts(at, length).as_ref()
        }
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> &'p [u8] {
        let marks = self.bits();
        self.part(flags_length(marks), key_length(marks))
    }

    /// Its value.
    #[inline]
    pub fn value(&self) -> &'p [u8] {
        let marks = self.bits();
        if marks & LARGE != 0 {
            // SAFETY: the item has a count of it, which is given up when nobody finds the item any
            // more and all guards are dropped that might have found it.
            return unsafe { &*self.large_address() };
        }
        let from = flags_length(marks) + key_length(marks);
        self.part(from, (marks & VALUE_MAX as u32) as usize)
    }

    /// Does its value lie in its segment?
    #[inline]
    pub fn is_here(&self) -> bool {
        self.bits() & LARGE == 0
    }

    /// The value, if it is a long one: it can be kept beyond the guard, such as by a connection
    /// that sends it slowly. Its memory counts until it is dropped.
    pub fn large(&self) -> Option<Arc<Large>> {
        (self.bits() & LARGE != 0).then(|| {
            let address = self.large_address();
            // SAFETY: it came from an `Arc`, of which the item has a count for as long as `'p`.
            unsafe { Arc::increment_strong_count(address) };
            // SAFETY: the count just made is ours.
            unsafe { Arc::from_raw(address) }
        })
    }

    /// The item's own count of its long value.
    ///
    /// # Safety
    /// Called once for an item and all its copies. The count is kept until nobody can read the item
    /// any more.
    pub(super) unsafe fn take_large(&self) -> Option<Arc<Large>> {
        // SAFETY: `write` put the count there, and by contract it is taken once.
        (self.bits() & LARGE != 0).then(|| unsafe { Arc::from_raw(self.large_address()) })
    }

    fn large_address(&self) -> *const Large {
        let marks = self.bits();
        debug_assert!(marks & LARGE != 0, "the value lies here");
        let from = flags_length(marks) + key_length(marks);
        let mut address = [0; size_of::<usize>()];
        address.copy_from_slice(self.part(from, size_of::<usize>()));
        std::ptr::with_exposed_provenance(usize::from_ne_bytes(address))
    }

    /// The client's flags.
    pub fn flags(&self) -> u32 {
        let length = flags_length(self.bits());
        let mut flags = [0; 4];
        flags[..length].copy_from_slice(self.part(0, length));
        u32::from_ne_bytes(flags)
    }

    /// Its CAS id.
    pub fn cas(&self) -> u64 {
        let [low, high] = self.header().cas;
        u64::from(low) | u64::from(high) << 32
    }

    /// The second at which it expires; 0: never.
    #[inline]
    pub fn expires(&self) -> u32 {
        self.header().expires.load(Ordering::Relaxed)
    }

    /// For who holds the locks of its key, lest it be moved meanwhile.
    pub(crate) fn set_expires(&self, expires: u32) {
        self.header().expires.store(expires, Ordering::Relaxed);
    }

    /// The second at which it was last accessed: stored, or fetched since.
    #[inline]
    pub fn last_access(&self) -> u32 {
        self.header().accessed.load(Ordering::Relaxed)
    }

    /// Was it ever fetched?
    pub fn is_fetched(&self) -> bool {
        heat_of(self.bits()) != NEVER
    }

    /// Did its key come in base64?
    pub fn is_encoded(&self) -> bool {
        self.bits() & ENCODED != 0
    }

    /// All that is noted of it, as an item in its place may have it.
    pub fn marks(&self) -> Marks {
        Marks {
            stale: self.is_stale(),
            won: self.is_won(),
            fetched: self.is_fetched(),
            encoded: self.is_encoded(),
        }
    }

    /// Was it invalidated?
    pub(crate) fn is_stale(&self) -> bool {
        self.bits() & STALE != 0
    }

    /// Has some client won the right to renew it?
    pub fn is_won(&self) -> bool {
        self.bits() & WON != 0
    }

    /// Some client has won; for who holds the locks of its key, lest it be moved meanwhile.
    pub(crate) fn set_won(&self) {
        self.header().marks.fetch_or(WON, Ordering::Relaxed);
    }

    /// Notes that it is fetched now, for `last_access`, `is_fetched`, and the choice of what is
    /// evicted. Where an item is moved at the same moment, that may be lost.
    #[inline]
    pub fn access(&self, now: u32) {
        // Nothing is stored that is there already, lest cores take the line from each other.
        let header = self.header();
        if header.accessed.load(Ordering::Relaxed) != now {
            header.accessed.store(now, Ordering::Relaxed);
        }
        let mut marks = header.marks.load(Ordering::Relaxed);
        while heat_of(marks) != HOT {
            let warmer = with_heat(marks, (heat_of(marks) + 1).max(WARM));
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            match (header.marks).compare_exchange_weak(marks, warmer, order.0, order.1) {
                Ok(_) => return,
                Err(now) => marks = now,
            }
        }
    }

    /// Notes that a client dealt with it now, for `last_access` alone.
    pub fn renew(&self, now: u32) {
        self.header().accessed.store(now, Ordering::Relaxed);
    }

    /// How often it was fetched of late: 0, 1, or 2 for more.
    pub(crate) fn heat(&self) -> u32 {
        heat_of(self.bits()).saturating_sub(COLD)
    }

    /// Bytes in its segment.
    pub(crate) fn length(&self) -> usize {
        let marks = self.bits();
        let value = match marks & LARGE {
            0 => (marks & VALUE_MAX as u32) as usize,
            _ => size_of::<*const Large>(),
        };
        length(marks & FLAGS != 0, key_length(marks), value)
    }

    /// Bytes of its value that lie elsewhere.
    pub(crate) fn elsewhere(&self) -> u64 {
        match self.bits() & LARGE {
            0 => 0,
            _ => self.value().len() as u64,
        }
    }

    /// The bytes it takes, with what it costs beside key and value.
    pub fn size(&self) -> usize {
        self.length() + self.elsewhere() as usize
    }

    /// Copies it, a degree colder.
    ///
    /// # Safety
    /// At `to` are [`length`](Self::length) bytes, aligned to 4, which no other thread uses. Either
    /// the item or the copy takes the long value in the end.
    pub(super) unsafe fn copy_to(&self, to: NonNull<u8>) {
        let header = self.header();
        let marks = header.marks.load(Ordering::Relaxed);
        let heat = heat_of(marks);
        let colder = heat.saturating_sub(1).max(heat.min(COLD));
        let copy = Header {
            marks: AtomicU32::new(with_heat(marks, colder)),
            accessed: AtomicU32::new(header.accessed.load(Ordering::Relaxed)),
            expires: AtomicU32::new(header.expires.load(Ordering::Relaxed)),
            cas: header.cas,
        };
        // SAFETY: by contract there is room for the header, aligned.
        unsafe { to.cast::<Header>().write(copy) };
        let rest = self.part(0, self.length() - size_of::<Header>());
        // SAFETY: ... and for the rest, in which no other item lies.
        unsafe {
            let to = to.add(size_of::<Header>());
            to.copy_from_nonoverlapping(NonNull::from(rest).cast(), rest.len());
        }
    }
}

fn flags_length(marks: u32) -> usize {
    if marks & FLAGS != 0 { 4 } else { 0 }
}

fn heat_of(marks: u32) -> u32 {
    marks >> HEAT_SHIFT
}

fn with_heat(marks: u32, heat: u32) -> u32 {
    marks & !(HOT << HEAT_SHIFT) | heat << HEAT_SHIFT
}

fn key_length(marks: u32) -> usize {
    ((marks & KEY) >> KEY_SHIFT) as usize
}
