//! A thread that answers what comes over one connection of a pool.

use super::carry_out::{Deadline, answer, answer_failed};
use super::database;
use super::file::Opened;
use super::frames::{self, HELLO, Outcome};
use super::query::Query;
use super::writer::Writer;
use crate::backend::words::Words;
use rhythm_net::local;
use rusqlite::Error;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much is read at a time.
const READ: usize = 64 << 10;

/// A database that threads have open.
pub(super) struct Shared {
    pub(super) path: PathBuf,
    /// How long a statement may take.
    pub(super) timeout: Duration,
    pub(super) writer: Writer,
    pub(super) words: Words,
}

/// Says that it is there, and answers what comes until the connection ends.
pub(super) fn run(mut stream: UnixStream, shared: &Shared) {
    if stream.write_all(&[HELLO]).is_err() {
        return;
    }
    let stream = Arc::new(stream);
    let mut reader = None;
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut piece = vec![0; READ];
    loop {
        match (&*stream).read(&mut piece) {
            Ok(0) => return,
            Ok(read) => input.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        let (mut used, came) = (0, Instant::now());
        let mut frames = Vec::new();
        while let Some((frame, length)) = frames::first(&input[used..]) {
            frames.push(frame);
            used += length;
        }
        if local::is_gone(&stream) {
            // It was given up while it waited for this thread, say.
            return;
        }
        let asked = (&*frames, came);
        if answer_all(asked, &stream, &mut reader, shared, &mut output).is_err() {
            return;
        }
        drop(frames);
        input.drain(..used);
        input.shrink_to(READ);
    }
}

/// Answers queries that came together, at this time. What they read is of one moment, later than
/// the last of them, but for what one that changes something has done before it.
fn answer_all(
    (frames, came): (&[&[u8]], Instant),
    asker: &Arc<UnixStream>,
    reader: &mut Option<(Opened, Deadline)>,
    shared: &Shared,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    // Another file may be in the place of what it has open.
    *reader = reader.take().filter(|(opened, _)| opened.is_current());
    for frame in frames {
        if out.len() > READ {
            send(asker, out)?;
        }
        let Some(query) = Query::read(frame) else {
            answer_failed(Outcome::Failed, out);
            continue;
        };
        if query.changes {
            end_reading(reader);
            shared
                .writer
                .carry_out((frame, came), asker, &shared.words, out);
            continue;
        }
        let (connection, deadline) = match reader {
            Some(opened) => opened,
            None => match open(shared, asker) {
                Ok(opened) => reader.insert(opened),
                Err(why) => {
                    answer_failed(shared.words.unopened(&shared.path, &why), out);
                    continue;
                }
            },
        };
        if frames.len() > 1 && connection.is_autocommit() {
            // Where it fails, each is read for itself.
            let _ = connection.execute_batch("begin");
        }
        deadline.begin(came);
        match deadline.is_over(came) {
            // Those that came with it took all of its time.
            true => answer_failed(Outcome::Late, out),
            false => answer(connection, &query, deadline, &shared.words, out),
        }
        deadline.end();
    }
    end_reading(reader);
    send(asker, out)
}

/// Sends answers; what large ones took is given back.
fn send(mut stream: &UnixStream, out: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(out)?;
    out.clear();
    out.shrink_to(READ);
    Ok(())
}

fn open(shared: &Shared, asker: &Arc<UnixStream>) -> Result<(Opened, Deadline), Error> {
    let connection = database::open_to_read(&shared.path, shared.timeout)?;
    let deadline = Deadline::of(&connection, shared.timeout, Some(asker.clone()))?;
    Ok((connection, deadline))
}

/// Ends the transaction that reads, if there is one.
fn end_reading(reader: &mut Option<(Opened, Deadline)>) {
    if let Some((connection, _)) = reader
        && !connection.is_autocommit()
        && connection.execute_batch("commit").is_err()
    {
        // Opened anew, it is at nothing.
        *reader = None;
    }
}
