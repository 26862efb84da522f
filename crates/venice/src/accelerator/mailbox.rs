//! A mailbox (the paper's Figure 11): what is where in it, and one at the donor, without I/O.
//!
//! | from | bytes | |
//! |---|---|---|
//! | 0 | 8 | start flag: the number of the job that is to be done, 0 for none |
//! | 64 | 128 | request buffer (`request.rs`) |
//! | 4096 | capacity | input |
//! | completion | 8 | completion flag: the number of the last job that is over |
//! | + 8 | 4 | 0, or why it was not done |
//! | + 16 | 8 | bytes of its output |
//! | completion + 64 | capacity + 16 | output |
//!
//! The completion is where the input ends, at the next multiple of 64. The borrower writes what is
//! before it, and reads anything. A job begins when the start flag is another number than the
//! completion flag. Nothing in a mailbox is believed; all of it is one borrower's, and zeroed when
//! that is gone.

use super::engine::Engine;
use super::request::{Failure, REQUEST_BYTES, Request, TAG_BYTES};
use crate::channel::serve::Memory;

/// Where the request buffer is.
pub(super) const REQUEST_AT: usize = 64;
/// Where the input is.
pub(super) const INPUT_AT: usize = 4096;
/// Bytes from the start flag to the end of the request: they are written together, at last.
pub(super) const START_BYTES: usize = REQUEST_AT + REQUEST_BYTES;
/// Bytes of a completion.
pub(super) const COMPLETION_BYTES: usize = 64;
/// The most that a job's input can have.
pub const CAPACITY_MAX: usize = 4 << 20;

/// What is where in a mailbox for inputs of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    capacity: usize,
}

impl Layout {
    /// None where it is empty, or larger than [`CAPACITY_MAX`].
    pub(super) fn new(capacity: u64) -> Option<Self> {
        let capacity = usize::try_from(capacity).ok()?;
        (1..=CAPACITY_MAX)
            .contains(&capacity)
            .then_some(Self { capacity })
    }

    pub(super) fn capacity(self) -> usize {
        self.capacity
    }

    pub(super) fn completion_at(self) -> usize {
        INPUT_AT + self.capacity.next_multiple_of(COMPLETION_BYTES)
    }

    pub(super) fn output_at(self) -> usize {
        self.completion_at() + COMPLETION_BYTES
    }

    /// Bytes in all.
    pub(super) fn bytes(self) -> usize {
        self.output_at() + self.capacity + TAG_BYTES
    }
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    /// Which it was.
    pub(super) job: u64,
    /// Bytes of its output, or why there is none.
    pub(super) result: Result<u64, Failure>,
}

impl Completion {
    pub(super) fn bytes(self) -> [u8; COMPLETION_BYTES] {
        let mut bytes = [0; COMPLETION_BYTES];
        bytes[..8].copy_from_slice(&self.job.to_le_bytes());
        match self.result {
            Ok(length) => bytes[16..24].copy_from_slice(&length.to_le_bytes()),
            Err(failure) => bytes[8..12].copy_from_slice(&failure.number().to_le_bytes()),
        }
        bytes
    }

    /// None where it is no completion.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        // The word behind it is 0.
        let result = match u32::try_from(number(8)?).ok()? {
            0 => Ok(number(16)?),
            failure => Err(Failure::of(failure)?),
        };
        let job = number(0)?;
        Some(Self { job, result })
    }
}

/// A borrower's mailbox at the donor.
#[derive(Debug)]
pub(super) struct Mailbox {
    layout: Layout,
    bytes: Vec<u8>,
    /// Up to where the borrower wrote.
    written: usize,
    /// Bytes that the longest output had.
    put_out: usize,
}

impl Mailbox {
    /// An empty one. Its memory is the kernel's until it is written.
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            bytes: vec![0; layout.bytes()],
            written: 0,
            put_out: 0,
        }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    fn number(&self, at: usize) -> u64 {
        crate::channel::frame::u64_at(&self.bytes, at)
    }

    /// A job is to be done.
    pub(super) fn is_started(&self) -> bool {
        let start = self.number(0);
        start != 0 && start != self.number(self.layout.completion_at())
    }

    /// Does it: its completion and output are in the mailbox then.
    pub(super) fn execute(&mut self, engine: &mut Engine) -> Completion {
        let job = self.number(0);
        let (before, rest) = self.bytes.split_at_mut(self.layout.completion_at());
        let (completion, output) = rest.split_at_mut(COMPLETION_BYTES);
        let mut buffer = [0; REQUEST_BYTES];
        buffer.copy_from_slice(&before[REQUEST_AT..START_BYTES]);
        let input = &before[INPUT_AT..INPUT_AT + self.layout.capacity];
        let result = Request::parse(&buffer).and_then(|request| {
            let length = usize::try_from(request.input_bytes).map_err(|_| Failure::Length)?;
            let input = input.get(..length).ok_or(Failure::Length)?;
            engine.run(&request, input, output)
        });
        // Also what a job that failed may have put there.
        self.put_out = match result {
            Ok(length) => self.put_out.max(length),
            Err(_) => output.len(),
        };
        let result = result.map(|length| length as u64);
        let done = Completion { job, result };
        completion.copy_from_slice(&done.bytes());
        done
    }

    /// The output of so many bytes.
    pub(super) fn output(&self, bytes: usize) -> Option<&[u8]> {
        self.bytes[self.layout.output_at()..].get(..bytes)
    }
}

impl Memory for Mailbox {
    fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.as_slice().get(start..start.checked_add(length)?)
    }

    /// What is before the completion.
    fn put(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let end = usize::try_from(offset)
            .ok()
            .and_then(|start| start.checked_add(bytes.len()));
        match end {
            Some(end) if end <= self.layout.completion_at() => {
                self.bytes[end - bytes.len()..end].copy_from_slice(bytes);
                self.written = self.written.max(end);
                true
            }
            _ => false,
        }
    }

    fn free(&mut self, _: u64, _: u64) -> bool {
        false
    }
}

impl Drop for Mailbox {
    /// Zeroes what was used.
    fn drop(&mut self) {
        let output = self.layout.completion_at();
        self.bytes[..self.written].fill(0);
        self.bytes[output..output + COMPLETION_BYTES + self.put_out].fill(0);
        // Not left out because nobody reads it.
        std::hint::black_box(&self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{Kind, Operation};
    use super::*;
    use proptest::prelude::*;

    fn started(mailbox: &mut Mailbox, job: u64, request: &Request) {
        let mut start = [0; START_BYTES];
        start[..8].copy_from_slice(&job.to_le_bytes());
        start[REQUEST_AT..].copy_from_slice(&request.bytes());
        assert!(mailbox.put(0, &start));
    }

    #[test]
    fn a_job_is_done_once_and_its_output_is_behind_the_completion() {
        let layout = Layout::new(100).unwrap();
        assert_eq!(
            (layout.completion_at(), layout.bytes()),
            (4224, 4224 + 64 + 116)
        );
        let mut mailbox = Mailbox::new(layout);
        let mut engine = Engine::new(Kind::Aes);
        assert!(!mailbox.is_started());
        let cipher = (&[7; 16][..], &[8; 12]);
        let request = Request::of_cipher(Operation::Seal, cipher, 0, 100).unwrap();
        assert!(mailbox.put(4096, &[9; 100]));
        started(&mut mailbox, 1, &request);
        assert!(mailbox.is_started());
        let done = mailbox.execute(&mut engine);
        let result = Ok(116);
        assert_eq!(done, Completion { job: 1, result });
        assert!(!mailbox.is_started());
        let said = mailbox.get(layout.completion_at() as u64, 64).unwrap();
        assert_eq!(Completion::parse(said), Some(done));
        let sealed = mailbox.output(116).unwrap().to_vec();
        // Another kind of job, and one that is longer than the mailbox.
        started(
            &mut mailbox,
            2,
            &Request::of_transform(Operation::Forward, 8),
        );
        assert_eq!(mailbox.execute(&mut engine).result, Err(Failure::Operation));
        let request = Request::of_cipher(Operation::Seal, cipher, 0, 101).unwrap();
        started(&mut mailbox, 3, &request);
        assert_eq!(mailbox.execute(&mut engine).result, Err(Failure::Length));
        assert_eq!(sealed.len(), 116);
    }

    #[test]
    fn the_borrower_writes_before_the_completion_alone() {
        let layout = Layout::new(64).unwrap();
        let mut mailbox = Mailbox::new(layout);
        let end = layout.completion_at() as u64;
        assert!(mailbox.put(end - 2, b"ab"));
        assert!(!mailbox.put(end - 1, b"ab"));
        assert!(!mailbox.put(u64::MAX, b"ab"));
        assert!(!mailbox.put(end, b"a") && !mailbox.free(0, 4096));
        let all = layout.bytes() as u64;
        assert!(mailbox.get(all - 1, 1).is_some() && mailbox.get(all, 1).is_none());
        assert!(mailbox.get(u64::MAX, 2).is_none() && mailbox.output(usize::MAX).is_none());
        assert_eq!(Layout::new(0), None);
        assert_eq!(Layout::new(CAPACITY_MAX as u64 + 1), None);
        assert_eq!(Layout::new(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn no_garbage_harms(
            writes in prop::collection::vec(
                (0u64..4400, prop::collection::vec(any::<u8>(), 0..200)), 0..20),
            is_fft: bool, operation in 0u8..6, key in prop::sample::select(vec![0u8, 16, 32, 9]),
            length in 0u16..300,
        ) {
            let mut mailbox = Mailbox::new(Layout::new(200).unwrap());
            let mut engine = Engine::new(if is_fft { Kind::Fft } else { Kind::Aes });
            for (at, bytes) in writes {
                let end = at as usize + bytes.len();
                prop_assert_eq!(mailbox.put(at, &bytes), end <= mailbox.layout.completion_at());
            }
            let mut start = [0; 16 + REQUEST_AT];
            start[0] = 1;
            start[REQUEST_AT] = operation;
            start[REQUEST_AT + 4] = key;
            start[REQUEST_AT + 8..REQUEST_AT + 10].copy_from_slice(&length.to_le_bytes());
            mailbox.put(0, &start);
            let done = mailbox.execute(&mut engine);
            prop_assert!(done.result.is_ok_and(|bytes| bytes <= 216) || done.result.is_err());
            prop_assert_eq!(Completion::parse(&done.bytes()), Some(done));
        }

        #[test]
        fn completions_of_any_bytes_are_read_or_refused(bytes in prop::collection::vec(
            prop::sample::select(vec![0u8, 1, 5, 255]), 0..70)) {
            if let Some(done) = Completion::parse(&bytes) {
                prop_assert_eq!(Completion::parse(&done.bytes()), Some(done));
            }
        }
    }
}
