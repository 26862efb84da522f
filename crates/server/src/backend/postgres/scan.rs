//! Where an answer ends, and what is done with one that is too long.

use super::messages::{self, ServerError};
use crate::backend::wire::Unreadable;

/// Most bytes of an answer.
pub(super) const ANSWER_MAX: usize = 1 << 20;

/// How far an answer was looked at for its end.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Bytes of whole messages.
    pub(super) at: usize,
    /// How often the server was ready.
    ready: usize,
}

/// What is known of an answer's end.
#[derive(Debug)]
pub(super) enum End {
    /// It ends here.
    At(usize),
    /// It has not come.
    NotYet,
    /// The answer is longer than it may be. What stands behind [`Scan::at`] is to be passed over.
    TooLong(Passing),
}

impl Scan {
    /// Where an answer ends that ends when the server was ready so often. `fatal` is told of what
    /// ends the connection.
    pub(super) fn end(
        &mut self,
        bytes: &[u8],
        ready: usize,
        mut fatal: impl FnMut(&ServerError),
    ) -> Result<End, Unreadable> {
        while self.at <= ANSWER_MAX {
            let message = messages::first(&bytes[self.at..], ANSWER_MAX);
            let (message, used) = match message {
                Ok(Some(message)) => message,
                Ok(None) if bytes.len() <= ANSWER_MAX + messages::HEADER => return Ok(End::NotYet),
                Ok(None) | Err(Unreadable) => break,
            };
            self.at += used;
            match message.tag {
                b'Z' => self.ready += 1,
                b'E' => {
                    let error = ServerError::read(message.body)?;
                    if error.is_fatal {
                        fatal(&error);
                    }
                }
                _ => {}
            }
            if self.ready == ready {
                return Ok(End::At(std::mem::take(self).at));
            }
        }
        Ok(End::TooLong(Passing {
            head: Vec::new(),
            left: 0,
            passed: 0,
            ready: ready - self.ready,
        }))
    }
}

/// Most bytes of an answer that are passed over: who sends more costs more than a connection.
const PASSED_MAX: usize = 64 << 20;

/// An answer that is passed over to its end.
#[derive(Debug)]
pub(super) struct Passing {
    /// The beginning of a message: its tag and its length, as far as they have come.
    head: Vec<u8>,
    /// Bytes of it that are to come.
    left: usize,
    passed: usize,
    /// How often the server is to be ready yet.
    ready: usize,
}

impl Passing {
    /// Passes over these bytes, of which all are done with, or so many.
    pub(super) fn go_on(&mut self, bytes: &[u8]) -> Result<Option<usize>, Unreadable> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let used = match self.head.len() < messages::HEADER {
                true => {
                    let used = rest.len().min(messages::HEADER - self.head.len());
                    self.head.extend_from_slice(&rest[..used]);
                    if let Some((_, length)) = messages::head(&self.head)? {
                        self.left = length;
                    }
                    used
                }
                false => {
                    let used = rest.len().min(self.left);
                    self.left -= used;
                    used
                }
            };
            at += used;
            self.passed += used;
            if self.passed + self.left > PASSED_MAX {
                return Err(Unreadable);
            }
            if self.head.len() == messages::HEADER && self.left == 0 {
                let is_ready = self.head[0] == b'Z';
                self.head.clear();
                self.ready -= usize::from(is_ready);
                if self.ready == 0 {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }
}
