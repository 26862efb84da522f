//! Reading files on threads of their own, one for each volume: what hangs on one volume (a disk
//! that is gone, a network's file system) keeps nobody waiting but those who want files of it.
//!
//! ```text
//!   worker: Files --- Read ---> thread of its volume --- Read, done ---> waker, Files
//! ```
//!
//! A thread is begun when something of its volume is read first. What is on its way is bounded by
//! those who ask. A thread that hangs when the server ends is left behind.

use crate::site::static_file::StreamedFile;
use rhythm_http::AnswerSlot;
use rhythm_net::{Time, Waker};
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A piece of a file, to be read, and afterwards read.
#[derive(Debug)]
pub struct Read {
    pub(crate) slot: AnswerSlot,
    pub(crate) ticket: (Time, u64),
    pub(crate) file: Arc<StreamedFile>,
    pub(crate) at: u64,
    /// As long as the piece.
    pub(crate) buffer: Vec<u8>,
    pub(crate) failed: Option<io::Error>,
}

impl Read {
    /// Reads it, on whatever thread this is called, which goes on whatever the source does.
    pub fn run(&mut self) {
        let read = || self.file.source.read(self.at, &mut self.buffer);
        let panicked = |_| Err(io::Error::other("its source has panicked"));
        self.failed = catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(panicked)
            .err();
    }

    /// It cannot be read.
    pub fn fail(&mut self, error: io::Error) {
        self.failed = Some(error);
    }
}

/// What files are read by. A read that is done wakes the hosts of the thread that it is for.
pub trait Disk {
    /// Has a piece be read. It comes back by [`Disk::next`], however long that takes.
    fn read(&mut self, read: Read);

    /// A piece that is done.
    fn next(&mut self) -> Option<Read>;
}

/// No disk: nothing is ever read.
impl Disk for () {
    fn read(&mut self, _: Read) {}

    fn next(&mut self) -> Option<Read> {
        None
    }
}

/// A piece on its way, and where it goes when it is done.
struct Order {
    read: Read,
    done: Sender<Read>,
    waker: Waker,
}

/// The threads of all volumes. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    threads: Arc<Mutex<HashMap<u64, Sender<Order>>>>,
}

impl Readers {
    /// A worker's way to them.
    pub(crate) fn disk(&self, waker: Waker) -> Box<dyn Disk> {
        let (done, taken) = channel();
        Box::new(WorkersDisk {
            readers: self.clone(),
            done,
            taken,
            waker,
        })
    }

    /// Where pieces of a volume are left.
    fn thread(&self, volume: u64) -> io::Result<Sender<Order>> {
        let mut threads = (self.threads.lock()).unwrap_or_else(PoisonError::into_inner);
        if let Some(orders) = threads.get(&volume) {
            return Ok(orders.clone());
        }
        let (orders, waiting) = channel::<Order>();
        let run = move || {
            for Order {
                mut read,
                done,
                waker,
            } in waiting
            {
                read.run();
                // Nobody waits for it where a worker has started anew.
                if done.send(read).is_ok() {
                    waker.wake();
                }
            }
        };
        let name = format!("files-{}", threads.len());
        std::thread::Builder::new().name(name).spawn(run)?;
        threads.insert(volume, orders.clone());
        Ok(orders)
    }
}

/// See [`Readers::disk`].
struct WorkersDisk {
    readers: Readers,
    done: Sender<Read>,
    taken: Receiver<Read>,
    waker: Waker,
}

impl Disk for WorkersDisk {
    fn read(&mut self, read: Read) {
        let (done, waker) = (self.done.clone(), self.waker.clone());
        let failed = match self.readers.thread(read.file.volume) {
            Ok(thread) => {
                let order = Order { read, done, waker };
                let gone = |order: Order| (order.read, io::Error::other("its reader has ended"));
                thread.send(order).map_err(|error| gone(error.0))
            }
            Err(error) => Err((read, error)),
        };
        if let Err((mut read, error)) = failed {
            read.fail(error);
            let told = self.done.send(read);
            debug_assert!(told.is_ok(), "the other end is this one's");
            self.waker.wake();
        }
    }

    fn next(&mut self) -> Option<Read> {
        self.taken.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::static_file::FileSource;
    use rhythm_net::ConnectionId;

    /// Has a mistake in it.
    #[derive(Debug)]
    struct Fragile;

    impl FileSource for Fragile {
        fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
            assert_ne!(at, 1, "a planted mistake");
            into.fill(7);
            Ok(())
        }
    }

    #[test]
    fn a_source_that_panics_fails_its_piece_alone() {
        let file = Arc::new(StreamedFile {
            path: "long".to_owned(),
            length: 3,
            volume: 1,
            source: Arc::new(Fragile),
        });
        let read = |at| {
            let mut read = Read {
                slot: AnswerSlot {
                    connection: ConnectionId::new(0, 0),
                    ordinal: 0,
                },
                ticket: (Time::ZERO, at),
                file: file.clone(),
                at,
                buffer: vec![0],
                failed: None,
            };
            read.run();
            (read.failed.is_some(), read.buffer)
        };
        assert_eq!(
            [0, 1, 2].map(read),
            [(false, vec![7]), (true, vec![0]), (false, vec![7])]
        );
    }
}
