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
//! An answer holds a piece or two, and none is read before its turn, or while its client has yet to
//! take the one before; the more answers there are, and the less room is left for what connections
//! hold, the smaller are their pieces: slow clients, however many, leave some to others. What waits
//! for one volume waits for no other.

use crate::host::disk::{Disk, Read};
use crate::site::static_file::StreamedFile;
use crate::site::statics::READ_BYTES_MAX;
use rhythm_http::{AnswerShape, AnswerSlot, Answers, Flow, Host, HostId, Hosts, Request};
use rhythm_net::sparse::Sparse;
use rhythm_net::{Time, Token};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a piece, at least and at most, while there is room for them.
const PIECE_BYTES: Range<usize> = 16 << 10..256 << 10;

/// Bytes of a piece at least where there is no room: enough to go on.
const LEAST_BYTES: usize = 1 << 10;

/// The part of what connections may hold that is shared out for pieces where there is no room.
const LEAST_PART: usize = 8;

/// Bytes of a piece of each answer under way, together, but for the least of each.
const PIECES_BYTES_MAX: usize = 4 << 20;

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

impl FileStream {
    /// Bytes of memory that it takes until it is over, its pieces aside.
    pub(crate) fn memory(&self) -> usize {
        let tickets = 2 * size_of::<(Ticket, AnswerSlot)>();
        // A table has twice the places that it needs, at most.
        2 * (size_of::<(AnswerSlot, Stream)>() + tickets) + self.fields.capacity()
    }
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
    /// Bytes of a piece of each answer where there is no room, together.
    least_sum: usize,
    /// Memory of pieces, to be used again.
    spare: Vec<Vec<u8>>,
    failures: Sparse,
}

impl Files {
    /// None yet, for connections that may hold so many bytes together.
    pub(crate) fn new(disk: Box<dyn Disk>, held_max: usize) -> Files {
        Files {
            disk,
            streams: HashMap::new(),
            volumes: HashMap::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
            least_sum: held_max / LEAST_PART,
            spare: Vec::new(),
            failures: Sparse::default(),
        }
    }

    /// Is to answer with a file, of which nothing is read yet. Whoever calls has the answer be this
    /// host's, and says when its turn has come.
    pub(crate) fn open(&mut self, slot: AnswerSlot, answer: FileStream) {
        let stream = Stream {
            answer,
            has_begun: false,
            reading: None,
        };
        let known = self.streams.insert(slot, stream);
        debug_assert!(known.is_none(), "an answer is given once");
    }

    /// Has the next piece of an answer be read, where connections have so much room.
    fn read(&mut self, slot: AnswerSlot, room: usize, now: Time) {
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
        self.go_on(id, room);
    }

    /// Reads what waits for a volume, as much as may be read at a time.
    fn go_on(&mut self, id: u64, room: usize) {
        let Some(volume) = self.volumes.get_mut(&id) else {
            return;
        };
        while volume.reads < READS_MAX
            && let Some((ticket, slot)) = volume.waiting.pop_first()
        {
            let stream = &self.streams[&slot];
            let Range { start, end } = stream.answer.rest;
            let share = PIECES_BYTES_MAX / self.streams.len();
            let share = share.clamp(PIECE_BYTES.start, PIECE_BYTES.end);
            // All that are read at a time fit the room together, if there is any.
            let least = (self.least_sum / self.streams.len()).max(LEAST_BYTES);
            let piece = share.min(least.max(room / READS_MAX));
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
        self.go_on(id, answers.room());
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
            Flow::More => self.read(slot, answers.room(), answers.now()),
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
    /// Files that are read by this disk, for connections that may hold so many bytes together; none
    /// yet.
    pub(crate) fn new(disk: Box<dyn Disk>, held_max: usize) -> SharedFiles {
        SharedFiles(Rc::new(RefCell::new(Files::new(disk, held_max))))
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
    pub(crate) fn open(&self, slot: AnswerSlot, answer: FileStream) {
        self.0.borrow_mut().open(slot, answer);
    }

    /// [`Files::read`].
    pub(crate) fn read(&self, slot: AnswerSlot, room: usize, now: Time) {
        self.0.borrow_mut().read(slot, room, now);
    }
}

impl Host for SharedFiles {
    /// Its answers are opened.
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        answers.error(request.slot, request.shape, 404, "");
    }

    fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        (self.0.borrow_mut()).read(slot, answers.room(), answers.now());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::static_file::FileSource;
    use rhythm_net::ConnectionId;
    use std::cell::Cell;
    use std::io;

    /// A disk that never answers, and counts what it is asked for.
    struct Hangs(Rc<Cell<usize>>);

    impl Disk for Hangs {
        fn read(&mut self, _: Read) {
            self.0.set(self.0.get() + 1);
        }

        fn next(&mut self) -> Option<Read> {
            None
        }
    }

    #[derive(Debug)]
    struct Nothing;

    impl FileSource for Nothing {
        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_volume_that_hangs_has_so_many_buffers_and_no_more() {
        let asked = Rc::new(Cell::new(0));
        let mut files = Files::new(Box::new(Hangs(asked.clone())), 1 << 30);
        for volume in 1..=2 {
            let file = Arc::new(StreamedFile {
                path: "long".to_owned(),
                length: 1 << 20,
                volume,
                source: Arc::new(Nothing),
            });
            for ordinal in 0..100 {
                let slot = AnswerSlot {
                    connection: ConnectionId::new(volume as u32, 0),
                    ordinal,
                };
                let answer = FileStream {
                    status: 200,
                    shape: AnswerShape::default(),
                    fields: Vec::new(),
                    file: file.clone(),
                    rest: 0..file.length,
                    patience: Duration::from_secs(1),
                };
                files.open(slot, answer);
                files.read(slot, 1 << 30, Time::ZERO);
            }
            assert_eq!(asked.get(), volume as usize * READS_MAX);
        }
    }
}
