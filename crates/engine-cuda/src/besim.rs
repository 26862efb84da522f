//! BeSim on the device (paper, section 5.3.2, Titan B): [`rhythm_besim::Bank::answer`] for all
//! requests of a cohort, in the cohort's arena.
//!
//! The kernel computes; the words it needs are uploaded from [`rhythm_besim::names`], so that they
//! are said once.

#![allow(unsafe_code)]

use crate::gpu::{
    Address, Arguments, DeviceBuffer, GpuError, Grid, Kernel, PinnedBuffer, SharedGpu, Stream,
    launch,
};
use rhythm_besim::names::{CITIES, FIRST_NAMES, MEMOS, PAYEES, STREETS};
use rhythm_besim::{Bank, MAX_ACCOUNTS, MAX_BILLS, MAX_PAYMENTS};

/// The most bytes an answer takes, in whole words of 8 as the kernel stores them.
pub const ANSWER_BYTES: u32 = {
    // Accounts in a summary: ten digits, two, and five amounts, each with what separates it;
    // amounts are below 100,000.00.
    let accounts = MAX_ACCOUNTS * (11 + 2 + 5 * 9 + 1);
    // Bills and payments: seven digits, a date, an amount.
    let payments = (if MAX_BILLS < MAX_PAYMENTS {
        MAX_PAYMENTS
    } else {
        MAX_BILLS
    }) * (8 + 10 + 9 + 1);
    // An address: house and street, city, state, ZIP code, e-mail, telephone.
    let address = 4 + TEXT + 1 + TEXT + 1 + 2 + 1 + 5 + 1 + TEXT + 1 + 10 + 12 + 1 + 14 + 1;
    // A check: amount, payee, date, memo, two pictures.
    let check = 8 + 4 + TEXT + 4 + 10 + 5 + TEXT + 1 + 18 + 1 + 17 + 1;
    // Everything else is one or two short rows.
    let other = 64;
    let mut rows = accounts;
    let all = [payments, address, check, other];
    let mut index = 0;
    while index < all.len() {
        if rows < all[index] {
            rows = all[index];
        }
        index += 1;
    }
    // "<pre>\n0\n", rows, "</pre>\n".
    (8 + rows + 7).next_multiple_of(8)
};

/// Bytes of a word at most.
const TEXT: u32 = 24;

/// A word as the kernel reads it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Word {
    text: [u8; TEXT as usize],
    length: u8,
    state: [u8; 2],
    padding: u8,
    number: u32,
}

impl Word {
    /// The word; too long a one is not compiled.
    const fn new(text: &str) -> Word {
        let bytes = text.as_bytes();
        assert!(bytes.len() <= TEXT as usize, "the word is too long");
        let mut word = Word {
            text: [0; TEXT as usize],
            length: bytes.len() as u8,
            state: [0; 2],
            padding: 0,
            number: 0,
        };
        let mut index = 0;
        while index < bytes.len() {
            word.text[index] = bytes[index];
            index += 1;
        }
        word
    }

    fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..24].copy_from_slice(&self.text);
        bytes[24] = self.length;
        bytes[25..27].copy_from_slice(&self.state);
        bytes[28..].copy_from_slice(&self.number.to_ne_bytes());
        bytes
    }
}

const fn words<const N: usize>(texts: &[&str; N]) -> [Word; N] {
    let mut words = [Word::new(""); N];
    let mut index = 0;
    while index < N {
        words[index] = Word::new(texts[index]);
        index += 1;
    }
    words
}

const fn city_words() -> [Word; CITIES.len()] {
    let mut words = [Word::new(""); CITIES.len()];
    let mut index = 0;
    while index < words.len() {
        let (city, state, zip_start) = CITIES[index];
        let state = state.as_bytes();
        assert!(state.len() == 2, "a state has two letters");
        words[index] = Word {
            state: [state[0], state[1]],
            number: zip_start,
            ..Word::new(city)
        };
        index += 1;
    }
    words
}

/// The tables in their order in memory.
static TABLES: [&[Word]; 5] = [
    &words(&STREETS),
    &city_words(),
    &words(&FIRST_NAMES),
    &words(&PAYEES),
    &words(&MEMOS),
];

/// A table's place among the words.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct WordsOf {
    first: u32,
    count: u32,
}

/// The kernel's struct; see `kernels/besim.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct BesimArguments {
    words: Address,
    tables: [WordsOf; 5],
    users: u32,
    lanes: u32,
    results: Address,
    requests: Address,
    answers: Address,
    arena: Address,
    request_stride: u32,
    answer_base: u32,
    answer_stride: u32,
    padding: u32,
}

// SAFETY: as `BesimArgs` in kernels/besim.cu, field by field.
unsafe impl Arguments for BesimArguments {
    const KERNEL: Kernel = Kernel::Besim;
}

/// Threads of a block.
const THREADS: u32 = 128;

/// A bank on a device.
#[derive(Debug)]
pub struct BesimTables {
    words: DeviceBuffer,
    tables: [WordsOf; 5],
    users: u32,
}

/// What is to be answered: the requests of a cohort.
#[derive(Clone, Copy, Debug)]
pub struct BesimCohort {
    /// Its lanes.
    pub lanes: u32,
    /// A [`LaneResult`](crate::abi::LaneResult) a lane: the requests of active ones are answered,
    /// `request_count` of them.
    pub results: Address,
    /// Places for a lane's requests.
    pub request_stride: u32,
    /// A [`View`](rhythm_engine::cohort::View) into the arena for each of these places.
    pub requests: Address,
    /// A view for each of them: the answer; of length [`NO_TEXT`](crate::abi::NO_TEXT) where
    /// nothing was asked, or where the answer has no room.
    pub answers: Address,
    /// The cohort's arena, 16-byte aligned.
    pub arena: Address,
    /// Where in the arena the answers go, a multiple of 16.
    pub answer_base: u32,
    /// Bytes an answer may take, a multiple of 8; [`ANSWER_BYTES`] is enough for any.
    pub answer_stride: u32,
}

impl BesimCohort {
    /// Bytes of the answers' region.
    #[must_use]
    pub fn answers_bytes(&self) -> u64 {
        let slots = u64::from(self.lanes) * u64::from(self.request_stride);
        slots * u64::from(self.answer_stride)
    }
}

impl BesimTables {
    /// Uploads what the kernel needs.
    ///
    /// # Errors
    /// There is no room, or the device failed.
    pub fn new(gpu: &SharedGpu, bank: Bank) -> Result<BesimTables, GpuError> {
        let bytes: Vec<u8> = TABLES
            .iter()
            .flat_map(|table| table.iter())
            .flat_map(|word| word.to_bytes())
            .collect();
        let mut staging = PinnedBuffer::new(gpu, bytes.len())?;
        let words = DeviceBuffer::new(gpu, bytes.len())?;
        // SAFETY: the buffer is new; no stream knows it.
        unsafe { staging.bytes_mut()[..bytes.len()].copy_from_slice(&bytes) };
        let stream = gpu.stream()?;
        // SAFETY: both buffers are so large, and alive until the stream has been waited for.
        unsafe { gpu.copy(stream, words.address(), staging.address(), bytes.len())? };
        gpu.synchronize(stream)?;
        let mut first = 0;
        let tables = TABLES.map(|table| {
            let count = table.len() as u32;
            first += count;
            WordsOf {
                first: first - count,
                count,
            }
        });
        Ok(BesimTables {
            words,
            tables,
            users: bank.users(),
        })
    }

    /// Answers a cohort's requests.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] if views cannot address so many answers (4 GiB), or the device
    /// failed.
    ///
    /// # Safety
    /// The addresses are of such arrays, alive and left alone by others until the stream has done
    /// it: `lanes` results, `lanes * request_stride` requests and answers, an arena that has
    /// [`BesimCohort::answers_bytes`] from `answer_base` on. Requests lie in the arena, outside of
    /// that region. Base and stride are the multiples they must be.
    pub unsafe fn launch(
        &self,
        gpu: &SharedGpu,
        stream: Stream,
        cohort: &BesimCohort,
    ) -> Result<(), GpuError> {
        let slots = u64::from(cohort.lanes) * u64::from(cohort.request_stride);
        let bytes = cohort.answers_bytes();
        if u64::from(cohort.answer_base) + bytes > u64::from(u32::MAX)
            || slots > u64::from(u32::MAX)
        {
            return Err(GpuError::OutOfMemory(bytes as usize));
        }
        let arguments = BesimArguments {
            words: self.words.address(),
            tables: self.tables,
            users: self.users,
            lanes: cohort.lanes,
            results: cohort.results,
            requests: cohort.requests,
            answers: cohort.answers,
            arena: cohort.arena,
            request_stride: cohort.request_stride,
            answer_base: cohort.answer_base,
            answer_stride: cohort.answer_stride,
            padding: 0,
        };
        let grid = Grid::over(slots as usize, THREADS);
        // SAFETY: the struct is the kernel's; the rest is the caller's promise.
        unsafe { launch(&**gpu, stream, grid, &arguments) }
    }
}

const _: () = assert!(size_of::<BesimArguments>() == 104 && size_of::<Word>() == 32);

#[cfg(all(test, feature = "emulation"))]
mod tests {
    use super::*;
    use crate::gpu::emulated::Emulated;

    #[test]
    fn the_kernel_takes_the_same_struct() {
        let size = Emulated::arguments_size(Kernel::Besim);
        assert_eq!(size, Some(size_of::<BesimArguments>()));
    }
}
