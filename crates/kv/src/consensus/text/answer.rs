//! Answers of the node, as clients are told them.

use crate::consensus::keyspace::{Item, Outcome};
use crate::consensus::node::Answer;
use crate::wire::Verb;
use std::io::Write;

/// How a node's answer is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// A key of `get` or `gets`.
    Get {
        /// Which.
        key: Vec<u8>,
        /// Its revision is told.
        with_cas: bool,
        /// It is the last of its command's.
        is_last: bool,
    },
    /// A line of ASCII.
    Line {
        /// The client wants none.
        quiet: bool,
    },
    /// A line of a meta command's.
    Meta {
        /// Which command.
        verb: Verb,
        /// Its key.
        key: Vec<u8>,
        /// Its flags, as they were written.
        flags: Vec<Vec<u8>>,
        /// Of the value that is stored.
        length: usize,
    },
    /// A lease that begins.
    Open,
    /// To this lease.
    Attach(u64),
    /// A sign of life of a lease.
    KeepAlive,
    /// A lease that ends.
    End,
    /// What begins so.
    Watch(Vec<u8>),
}

/// What is said where nothing was executed.
fn mishap(answer: &Answer) -> Option<&'static str> {
    Some(match answer {
        Answer::NothingDone => "SERVER_ERROR most nodes are out of reach, nothing was done\r\n",
        Answer::PerhapsDone => "SERVER_ERROR most nodes are out of reach, it may be done yet\r\n",
        Answer::DiskFull => "SERVER_ERROR the disk of this node is full, nothing was done\r\n",
        _ => return None,
    })
}

/// What is said of an outcome that is an error in every form.
fn refusal(outcome: Outcome) -> Option<&'static str> {
    Some(match outcome {
        Outcome::TooLong => "SERVER_ERROR object too large for cache\r\n",
        Outcome::Full => "SERVER_ERROR out of memory storing object\r\n",
        Outcome::LeaseOver => "SERVER_ERROR the lease is over, nothing was done\r\n",
        Outcome::NotANumber => "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        _ => return None,
    })
}

fn line(outcome: Outcome) -> String {
    let said = match outcome {
        Outcome::Stored(_) => "STORED",
        Outcome::NotStored => "NOT_STORED",
        Outcome::Exists => "EXISTS",
        Outcome::NotFound => "NOT_FOUND",
        Outcome::Deleted => "DELETED",
        Outcome::Number(number, _) => return format!("{number}\r\n"),
        other => return refusal(other).unwrap_or("ERROR\r\n").into(),
    };
    format!("{said}\r\n")
}

impl How {
    /// Says an answer. `in_error`: a key of the same `get` could not be read, so the rest of it is
    /// left out.
    pub fn say(&self, answer: &Answer, in_error: &mut bool, out: &mut Vec<u8>) {
        let mut put = |text: &str| out.extend_from_slice(text.as_bytes());
        if let How::Get { is_last, .. } = self
            && std::mem::replace(in_error, *in_error && !is_last)
        {
            return;
        }
        // Nobody awaits anything: it would be taken for the answer to what is asked next.
        if matches!(self, How::Line { quiet: true }) {
            return;
        }
        if let Some(said) = mishap(answer) {
            *in_error = matches!(self, How::Get { is_last: false, .. });
            return put(said);
        }
        match (self, answer) {
            (
                How::Get {
                    key,
                    with_cas,
                    is_last,
                },
                Answer::Item(item),
            ) => {
                if let Some(item) = item {
                    value(key, item, *with_cas, out);
                }
                if *is_last {
                    out.extend_from_slice(b"END\r\n");
                }
            }
            (How::Line { .. }, Answer::Done(outcome)) => put(&line(*outcome)),
            (
                How::Meta {
                    verb,
                    key,
                    flags,
                    length,
                },
                answer,
            ) => meta(*verb, key, flags, *length, answer, out),
            (How::Open, Answer::Done(Outcome::Alive(lease))) => {
                put(&format!("LEASE {lease}\r\n"));
            }
            (How::Attach(_), Answer::Done(Outcome::Alive(_))) => put("ATTACHED\r\n"),
            (How::KeepAlive, Answer::Done(Outcome::Alive(_))) => put("ALIVE\r\n"),
            (How::End, Answer::Done(Outcome::Ended)) => put("ENDED\r\n"),
            (How::Watch(_), Answer::Revision(revision)) => put(&format!("WATCHING {revision}\r\n")),
            (_, Answer::Done(outcome)) => put(&line(*outcome)),
            _ => debug_assert!(false, "{self:?} is not answered by {answer:?}"),
        }
    }
}

fn value(key: &[u8], item: &Item, with_cas: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    // Writing to memory does not fail.
    let _ = write!(out, " {} {}", item.flags, item.value.len());
    if with_cas {
        let _ = write!(out, " {}", item.revision);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&item.value);
    out.extend_from_slice(b"\r\n");
}

fn meta(
    verb: Verb,
    key: &[u8],
    flags: &[Vec<u8>],
    length: usize,
    answer: &Answer,
    out: &mut Vec<u8>,
) {
    let has = |letter: u8| flags.iter().any(|flag| flag[0] == letter);
    let number;
    let (code, item) = match answer {
        Answer::Item(None) => ("EN", None),
        Answer::Item(Some(item)) => {
            let part = (item.flags, item.value.len(), item.revision);
            let value = has(b'v').then_some(&item.value[..]);
            ("HD", Some((part, value)))
        }
        Answer::Done(Outcome::Stored(revision)) => ("HD", Some(((0, length, *revision), None))),
        Answer::Done(Outcome::Number(new, revision)) => {
            number = new.to_string();
            let value = has(b'v').then_some(number.as_bytes());
            ("HD", Some(((0, number.len(), *revision), value)))
        }
        Answer::Done(Outcome::Deleted) => ("HD", None),
        Answer::Done(Outcome::NotStored) => ("NS", None),
        Answer::Done(Outcome::Exists) => ("EX", None),
        Answer::Done(Outcome::NotFound) => ("NF", None),
        Answer::Done(outcome) => return out.extend_from_slice(line(*outcome).as_bytes()),
        _ => return,
    };
    // As memcached has it: what is usual is left out, a number that is asked for, too.
    let usual = if verb == Verb::Get { "EN" } else { "HD" };
    if has(b'q') && code == usual {
        return;
    }
    let value = item.and_then(|(_, value)| value);
    match value {
        Some(value) => {
            let _ = write!(out, "VA {}", value.len());
        }
        None => out.extend_from_slice(code.as_bytes()),
    }
    for flag in flags {
        let part = item.map(|(part, _)| part);
        match (flag[0], part) {
            (b'O', _) => {
                out.push(b' ');
                out.extend_from_slice(flag);
            }
            (b'k', _) => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(key);
            }
            (b'f', Some((flags, ..))) => drop(write!(out, " f{flags}")),
            (b's', Some((_, length, _))) => drop(write!(out, " s{length}")),
            (b'c', Some((.., revision))) => drop(write!(out, " c{revision}")),
            (b't', Some(_)) => out.extend_from_slice(b" t-1"),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if let Some(value) = value {
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}
