//! Accelerators for a program: [`Accelerator`].

use super::engine::Engine;
use super::entry::{FIRST_PART_BYTES, HAS, Hello, PART_BYTES, REFUSES, SETTINGS, WAITS, preface};
pub use super::job::{Cipher, Job};
use super::mailbox::{
    CAPACITY_MAX, COMPLETION_BYTES, Completion, INPUT_AT, Layout, REQUEST_AT, START_BYTES,
};
use super::request::{Failure, Kind};
pub use super::units::Sharing;
use crate::channel::broken::{Broken, Lost};
use crate::channel::frame::{CRMA_BYTES_MAX, legible};
use crate::channel::queue::Queue;
use crate::channel::transport::Transport;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use crate::identity::Wire;
use crate::loan::{LoanId, LoanKey};
use crate::remote::{Channel, Place, RemoteMemory};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a donor may take to be connected to.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long it may not say what it is waited for.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How long it may say that a job is in the line.
const LINE_TIME: Duration = Duration::from_secs(600);

/// Why there is no result.
#[derive(Debug, Error)]
pub enum Error {
    /// The connection is over, and with it the accelerator: have another.
    #[error("the accelerator {kind} of {donor} is lost: {lost}")]
    Lost {
        /// What it was for.
        kind: Kind,
        /// Whose it was.
        donor: String,
        /// How.
        lost: Lost,
    },
    /// The donor does not lend it so.
    #[error("{donor} does not lend an accelerator {kind}: {reason}")]
    Refused {
        /// What it is for.
        kind: Kind,
        /// Who refuses.
        donor: String,
        /// Why.
        reason: String,
    },
    /// A mailbox that cannot be.
    #[error("a mailbox for inputs of {0} bytes: 1 to {CAPACITY_MAX} are allowed")]
    Capacity(usize),
    /// The job is for another kind of accelerator.
    #[error("this accelerator is for {0}")]
    OtherKind(Kind),
    /// The input does not fit in the mailbox.
    #[error("an input of {bytes} bytes, in a mailbox for {capacity}: connect with a larger one")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Those that fit.
        capacity: usize,
    },
    /// It was not done. The accelerator is as it was.
    #[error("the job was not done: {0}")]
    Failed(#[from] Failure),
}

/// An accelerator: of this machine, or of a donor, in turn with others or alone. It does one job at
/// a time; a program that has several uses each from a thread of its own.
#[derive(Debug)]
pub struct Accelerator {
    kind: Kind,
    donor: String,
    layout: Layout,
    line: Line,
    /// The last job's number.
    job: u64,
    is_lost: bool,
}

/// The way to it.
#[derive(Debug)]
enum Line {
    Here(Engine),
    Messages(Box<Queue<Box<dyn Transport>>>),
    /// Its mailbox begins there.
    Window(Box<RemoteMemory>, u64),
}

impl Accelerator {
    /// One of this machine, without a donor.
    ///
    /// # Errors
    /// [`Error::Capacity`].
    pub fn local(kind: Kind, capacity: usize) -> Result<Self, Error> {
        let layout = Layout::new(capacity as u64).ok_or(Error::Capacity(capacity))?;
        Ok(Self {
            kind,
            donor: "this process".to_owned(),
            layout,
            line: Line::Here(Engine::new(kind)),
            job: 0,
            is_lost: false,
        })
    }

    /// One of a donor, with a mailbox there for inputs of `capacity` bytes. It is had until this
    /// is dropped. Unless the place is [`Place::Sealed`] nothing is encrypted on the way, keys and
    /// texts of jobs neither.
    ///
    /// # Errors
    /// [`enum@Error`]: the donor is not reached, or refuses.
    pub fn connect(
        place: &Place,
        key: &LoanKey,
        kind: Kind,
        sharing: Sharing,
        capacity: usize,
    ) -> Result<Self, Error> {
        let mut accelerator = Self::local(kind, capacity)?;
        accelerator.donor = place.to_string();
        match enter(place, key, kind, sharing, capacity as u64) {
            Ok(Ok(line)) => {
                accelerator.line = line;
                Ok(accelerator)
            }
            Ok(Err(reason)) => Err(accelerator.refused(reason)),
            Err(Lost::Broken(Broken::Refused(reason))) => Err(accelerator.refused(reason)),
            Err(lost) => Err(accelerator.lost(lost)),
        }
    }

    fn refused(self, reason: String) -> Error {
        let (kind, donor) = (self.kind, self.donor);
        Error::Refused {
            kind,
            donor,
            reason,
        }
    }

    fn lost(&mut self, lost: Lost) -> Error {
        self.is_lost = true;
        Error::Lost {
            kind: self.kind,
            donor: self.donor.clone(),
            lost,
        }
    }

    /// Has a job done: its output.
    ///
    /// # Errors
    /// [`enum@Error`]. After [`Error::Lost`] there is nothing but that; after others it goes on.
    pub fn run(&mut self, job: &Job<'_>) -> Result<Vec<u8>, Error> {
        if job.operation().kind() != self.kind {
            return Err(Error::OtherKind(self.kind));
        }
        let (bytes, capacity) = (job.input_bytes(), self.layout.capacity());
        if bytes > capacity {
            return Err(Error::TooLong { bytes, capacity });
        }
        let request = job.request()?;
        if self.is_lost {
            return Err(self.lost(Lost::Closed));
        }
        self.job += 1;
        let mut start = [0; START_BYTES];
        start[..8].copy_from_slice(&self.job.to_le_bytes());
        start[REQUEST_AT..].copy_from_slice(&request.bytes());
        let most = job.output_bytes();
        let ran = match &mut self.line {
            Line::Here(engine) => {
                let input = job.input().concat();
                let mut output = vec![0; most];
                let length = engine.run(&request, &input, &mut output)?;
                output.truncate(length);
                return Ok(output);
            }
            Line::Messages(queue) => by_messages(queue, job, &start, (self.job, most)),
            Line::Window(memory, base) => {
                let completion = *base + self.layout.completion_at() as u64;
                let places = (*base, completion);
                by_window(memory, places, job, &start, (self.job, most))
            }
        };
        match ran {
            Ok(output) => Ok(output?),
            Err(lost) => Err(self.lost(lost)),
        }
    }
}

/// Connects, and asks for a mailbox. The inner error is the donor's reason why not.
fn enter(
    place: &Place,
    key: &LoanKey,
    kind: Kind,
    sharing: Sharing,
    capacity: u64,
) -> Result<Result<Line, String>, Lost> {
    let preface = preface(sharing);
    let transport: Box<dyn Transport> = match place {
        Place::Tcp(address) => {
            let mut wire = Wire::connect(*address, None, CONNECT_TIME)?;
            wire.write_all(&preface)?;
            Box::new(Tcp::over(wire)?)
        }
        Place::Sealed(address, sealing) => {
            let mut wire = Wire::connect(*address, Some(sealing), CONNECT_TIME)?;
            wire.write_all(&preface)?;
            wire.flush()?;
            Box::new(Tcp::over(wire)?)
        }
        Place::Local(path) => {
            let mut stream = UnixStream::connect(path)?;
            stream.write_all(&preface)?;
            Box::new(Shared::accept(stream)?)
        }
    };
    if sharing == Sharing::Exclusive {
        let mut memory = RemoteMemory::over(transport);
        return Ok(match memory.map(LoanId(kind.number()), key, capacity) {
            Ok(base) => Ok(Line::Window(Box::new(memory), base)),
            Err(Lost::Broken(Broken::Refused(reason))) => Err(reason),
            Err(lost) => return Err(lost),
        });
    }
    let mut queue = Queue::new(transport, SETTINGS, ANSWER_TIME);
    queue.send(&Hello::new(kind, capacity, key).bytes())?;
    let mut message = Vec::new();
    queue.receive(&mut message)?;
    Ok(match said(&message)? {
        Ok(_) => Ok(Line::Messages(Box::new(queue))),
        Err(reason) => Err(reason),
    })
}

/// What a donor's message has, or the reason that it refuses for.
fn said(message: &[u8]) -> Result<Result<&[u8], String>, Lost> {
    match message.split_first() {
        Some((&HAS, bytes)) => Ok(Ok(bytes)),
        Some((&REFUSES, reason)) => Ok(Err(legible(reason))),
        _ => Err(Broken::NotDue("such a message".to_owned()).into()),
    }
}

/// What is left of a completion that should be of a job: bytes of its output.
fn over(completion: &[u8], (job, most): (u64, usize)) -> Result<Result<usize, Failure>, Lost> {
    let done = Completion::parse(completion).filter(|done| done.job == job);
    let done = done.ok_or(Broken::Unasked)?;
    Ok(match done.result {
        Ok(bytes) if bytes == most as u64 => Ok(most),
        Ok(_) => return Err(Broken::Unasked.into()),
        Err(failure) => Err(failure),
    })
}

type Output = Result<Vec<u8>, Failure>;

/// Sends what belongs in the mailbox, and takes what comes back.
fn by_messages(
    queue: &mut Queue<Box<dyn Transport>>,
    job: &Job<'_>,
    start: &[u8; START_BYTES],
    due: (u64, usize),
) -> Result<Output, Lost> {
    let mut message = Vec::new();
    let mut put = |at: usize, bytes: &[u8]| {
        message.clear();
        message.extend_from_slice(&(at as u64).to_le_bytes());
        message.extend_from_slice(bytes);
        queue.send(&message)
    };
    let mut at = INPUT_AT;
    for part in job.input() {
        for bytes in part.chunks(PART_BYTES) {
            put(at, bytes)?;
            at += bytes.len();
        }
    }
    put(0, start)?;
    let in_line = Instant::now();
    let mut take = || {
        loop {
            queue.receive(&mut message)?;
            if message != [WAITS] {
                break;
            }
            if in_line.elapsed() >= LINE_TIME {
                return Err(Lost::Silent(LINE_TIME));
            }
        }
        let bytes = said(&message)?.map_err(Broken::Refused)?;
        Ok::<_, Lost>(bytes.to_vec())
    };
    let mut part = take()?;
    let completion = part.get(..COMPLETION_BYTES).unwrap_or_default();
    let bytes = match over(completion, due)? {
        Ok(bytes) => bytes,
        Err(failure) => return Ok(Err(failure)),
    };
    part.drain(..COMPLETION_BYTES);
    let (mut output, mut most) = (Vec::with_capacity(bytes), FIRST_PART_BYTES);
    loop {
        // As much as fits: smaller ones could go on for ever.
        if part.len() != most.min(bytes - output.len()) {
            let what = format!("a part of {} bytes", part.len());
            return Err(Broken::NotDue(what).into());
        }
        output.extend_from_slice(&part);
        if output.len() == bytes {
            return Ok(Ok(output));
        }
        (part, most) = (take()?, PART_BYTES);
    }
}

/// Writes what belongs in the mailbox, and reads what is there then. All of it is asked for before
/// anything is waited for.
fn by_window(
    memory: &mut RemoteMemory,
    (base, completion): (u64, u64),
    job: &Job<'_>,
    start: &[u8; START_BYTES],
    due: (u64, usize),
) -> Result<Output, Lost> {
    // What is known here of how long it takes is the job's time, too: no choice by measurement.
    let channel = |bytes: usize| match bytes <= CRMA_BYTES_MAX {
        true => Channel::Crma,
        false => Channel::Rdma,
    };
    let mut at = base + INPUT_AT as u64;
    for part in job.input() {
        memory.write_over(channel(part.len()), at, part)?;
        at += part.len() as u64;
    }
    memory.write_over(Channel::Crma, base, start)?;
    let mut output = vec![0; COMPLETION_BYTES + due.1];
    memory.read_over(channel(output.len()), completion, &mut output)?;
    Ok(match over(&output[..COMPLETION_BYTES], due)? {
        Ok(_) => {
            output.drain(..COMPLETION_BYTES);
            Ok(output)
        }
        Err(failure) => Err(failure),
    })
}
