//! Files that are read while they are sent: too long to be kept in memory.
//!
//! ```text
//!   open --> queue of its volume --> Disk --> piece --> begin, append ... finish
//!               ^                                          |
//!               +------- room <--- the client's pace ------+
//! ```
//!
//! Reading may take for ever, on a disk that is gone as on a network's file system: it happens on
//! another thread ([`Disk`]), and each time is waited for no longer than the site says. An answer
//! is begun when its first piece is there, so that until then a request can be refused with 503;
//! what fails later ends its connection, since nothing else tells the client. A source gives bytes
//! of one version of its file alone, so an answer is never made of two.
//!
//! An answer holds a piece or two, and none is read while its client has yet to take the one
//! before; the more answers there are, the smaller are their pieces. What waits for one volume
//! waits for no other.

use crate::host::disk::{Disk, Read};
use crate::observe::sparse::Sparse;
use crate::site::statics::{READ_BYTES_MAX, StreamedFile};
use rhythm_http::{AnswerShape, AnswerSlot, Answers, Flow, Host, HostId, Hosts, Request};
use rhythm_net::{Time, Token};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a piece, at least and at most.
const PIECE_BYTES: Range<usize> = 16 << 10..256 << 10;

/// Bytes of a piece of each answer under way, together, but for the least of each.
const PIECES_BYTES: usize = 4 << 20;

/// Pieces of one volume that are being read for one thread, or are read and not taken yet.
const READS_MAX: usize = READ_BYTES_MAX / PIECE_BYTES.end;

/// Bytes that an answer is expected to have under way: one that waits for its turn has a piece.
pub(crate) const STREAM_BYTES_EXPECTED: usize = 64 << 10;

/// An answer with a file that is yet to be read.
#[derive(Debug)]
pub(crate) struct FileStream {
    pub(crate) status: u16,
    pub(crate) shape: AnswerShape,
    /// Lines of the head.
    pub(crate) fields: Vec<u8>,
    pub(crate) file: Arc<StreamedFile>,
    /// What of the file is to be sent, or is left.
    pub(crate) rest: Range<u64>,
    /// How long a piece of it is waited for.
    pub(crate) patience: Duration,
}

/// An answer under way.
struct Stream {
    answer: FileStream,
    has_begun: bool,
    /// What is being read for it, or is to be.
    reading: Option<Ticket>,
}

/// Names a piece to be read; none for longer than until its time is over.
type Ticket = (Time, u64);

/// What is read of one volume.
#[derive(Default)]
struct Volume {
    waiting: BTreeMap<Ticket, AnswerSlot>,
    reads: usize,
}

/// See the module's text.
pub(crate) struct Files {
    disk: Box<dyn Disk>,
    streams: HashMap<AnswerSlot, Stream>,
    volumes: HashMap<u64, Volume>,
    /// The pieces that are waited for, in the order in which their time is over.
    tickets: BTreeMap<Ticket, AnswerSlot>,
    last_ticket: u64,
    /// Memory of pieces, to be used again.
    spare: Vec<Vec<u8>>,
    failures: Sparse,
}

impl Files {
    /// None yet.
    pub(crate) fn new(disk: Box<dyn Disk>) -> Files {
        Files {
            disk,
            streams: HashMap::new(),
            volumes: HashMap::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
            spare: Vec::new(),
            failures: Sparse::default(),
        }
    }

    /// Begins to answer with a file. Whoever calls has the answer be this host's.
    pub(crate) fn open(&mut self, slot: AnswerSlot, answer: FileStream, now: Time) {
        let stream = Stream {
            answer,
            has_begun: false,
            reading: None,
        };
        let known = self.streams.insert(slot, stream);
        debug_assert!(known.is_none(), "an answer is given once");
        self.read(slot, now);
    }

    /// Has the next piece of an answer be read.
    fn read(&mut self, slot: AnswerSlot, now: Time) {
        let Some(stream) = self.streams.get_mut(&slot) else {
            return;
        };
        if stream.reading.is_some() {
            return;
        }
        self.last_ticket += 1;
        let ticket = (now + stream.answer.patience, self.last_ticket);
        stream.reading = Some(ticket);
        self.tickets.insert(ticket, slot);
        let id = stream.answer.file.volume;
        let volume = self.volumes.entry(id).or_default();
        volume.waiting.insert(ticket, slot);
        self.go_on(id);
    }

    /// Reads what waits for a volume, as much as may be read at a time.
    fn go_on(&mut self, id: u64) {
        let Some(volume) = self.volumes.get_mut(&id) else {
            return;
        };
        while volume.reads < READS_MAX
            && let Some((ticket, slot)) = volume.waiting.pop_first()
        {
            let stream = &self.streams[&slot];
            let Range { start, end } = stream.answer.rest;
            let share = PIECES_BYTES / self.streams.len();
            let piece = share.clamp(PIECE_BYTES.start, PIECE_BYTES.end);
            let bytes = (end - start).min(piece as u64) as usize;
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.resize(bytes, 0);
            volume.reads += 1;
            self.disk.read(Read {
                slot,
                ticket,
                file: stream.answer.file.clone(),
                at: start,
                buffer,
                failed: None,
            });
        }
        if volume.reads == 0 {
            // Nothing waits then.
            self.volumes.remove(&id);
        }
    }

    /// A piece was read, or could not be.
    fn take(&mut self, answers: &mut Answers<'_>, read: Read) {
        let id = read.file.volume;
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.reads -= 1;
        }
        let stream = self.streams.get_mut(&read.slot);
        if let Some(stream) = stream.filter(|stream| stream.reading == Some(read.ticket)) {
            stream.reading = None;
            self.tickets.remove(&read.ticket);
            match &read.failed {
                Some(error) => self.fail(answers, read.slot, &error.to_string()),
                None => self.append(answers, read.slot, &read.buffer),
            }
        }
        if self.spare.len() < READS_MAX {
            self.spare.push(read.buffer);
        }
        self.go_on(id);
    }

    fn append(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot, piece: &[u8]) {
        let Some(stream) = self.streams.get_mut(&slot) else {
            return;
        };
        let answer = &mut stream.answer;
        if !std::mem::replace(&mut stream.has_begun, true) {
            let length = answer.rest.end - answer.rest.start;
            let fields = &answer.fields;
            answers.begin(slot, answer.shape, answer.status, Some(length), |head| {
                head.lines(fields);
            });
        }
        answer.rest.start += piece.len() as u64;
        let is_all = answer.rest.is_empty();
        // With anything unsent, the socket has enough for now.
        match answers.append_within(slot, piece, 1) {
            Flow::Gone => drop(self.forget(slot)),
            Flow::More | Flow::Wait if is_all => {
                self.forget(slot);
                answers.finish(slot);
            }
            Flow::More => self.read(slot, answers.now()),
            Flow::Wait => {}
        }
    }

    /// An answer is over. What is being read for it comes back, and is of no use then.
    fn forget(&mut self, slot: AnswerSlot) -> Option<Stream> {
        let stream = self.streams.remove(&slot)?;
        if let Some(ticket) = stream.reading {
            self.tickets.remove(&ticket);
            if let Some(volume) = self.volumes.get_mut(&stream.answer.file.volume) {
                volume.waiting.remove(&ticket);
            }
        }
        Some(stream)
    }

    /// An answer cannot be gone on with.
    fn fail(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot, error: &str) {
        let Some(stream) = self.forget(slot) else {
            return;
        };
        if let Some(left_out) = self.failures.line(answers.now()) {
            let (path, cut_off) = (&*stream.answer.file.path, stream.has_begun);
            tracing::warn!(
                path,
                cut_off,
                left_out,
                "a static file cannot be sent: {error}"
            );
        }
        match stream.has_begun {
            true => answers.abandon(slot),
            false => answers.error(slot, stream.answer.shape, 503, ""),
        }
    }
}

/// The files of a pipeline: it opens them, and what they wait for is told as to any host.
#[derive(Clone)]
pub(crate) struct SharedFiles(Rc<RefCell<Files>>);

impl SharedFiles {
    /// Files that are read by this disk; none yet.
    pub(crate) fn new(disk: Box<dyn Disk>) -> SharedFiles {
        SharedFiles(Rc::new(RefCell::new(Files::new(disk))))
    }

    /// These files among hosts, before the others: what they are called there.
    pub(crate) fn among(&self, mut hosts: Vec<(String, Box<dyn Host>)>) -> (Hosts, HostId) {
        const NAME: &str = "files";
        hosts.insert(0, (NAME.to_owned(), Box::new(self.clone())));
        let hosts = Hosts::new(hosts);
        let id = hosts.find(NAME).expect("it was just put in");
        (hosts, id)
    }

    /// How many are being sent.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().streams.len()
    }

    /// [`Files::open`].
    pub(crate) fn open(&self, slot: AnswerSlot, answer: FileStream, now: Time) {
        self.0.borrow_mut().open(slot, answer, now);
    }
}

impl Host for SharedFiles {
    /// Its answers are opened.
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        answers.error(request.slot, request.shape, 404, "");
    }

    fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        self.0.borrow_mut().read(slot, answers.now());
    }

    fn gone(&mut self, slot: AnswerSlot) {
        self.0.borrow_mut().forget(slot);
    }

    fn notified(&mut self, answers: &mut Answers<'_>, _: Token) {
        let files = &mut *self.0.borrow_mut();
        while let Some(read) = files.disk.next() {
            files.take(answers, read);
        }
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        let files = &mut *self.0.borrow_mut();
        while let Some((&(until, _), &slot)) = files.tickets.first_key_value()
            && until <= answers.now()
        {
            files.fail(answers, slot, "reading it takes too long");
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let files = self.0.borrow();
        files
            .tickets
            .first_key_value()
            .map(|((until, _), _)| *until)
    }
}
