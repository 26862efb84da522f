//! The channels beside each other: accesses by size, as the paper's Figure 17 compares them, and
//! credits by messages and by CRMA, as its Figure 18 does.

use super::options::{Error, Options};
use super::peers::{Peer, TRANSPORTS};
use super::report::{Against, Contender, Report, Row};
use super::talk::Talk;
use crate::channel::broken::Lost;
use crate::channel::qpair::Credits;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use crate::remote::Channel;
use std::cell::RefCell;
use std::time::Instant;

/// Sizes of accesses.
const ACCESSES: [usize; 7] = [64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Sizes of messages one way, the last being the longest that there is.
const MESSAGES: [usize; 5] = [64, 512, 4 << 10, 16 << 10, 64 << 10];
/// Sizes of messages whose credits are compared.
const CREDITED: [usize; 6] = [4, 64, 256, 1 << 10, 4 << 10, 16 << 10];
/// A turn moves so many bytes, or makes so many accesses if that is less.
const TURN_BYTES: usize = 4 << 20;
const TURN_MAX: usize = 200;
/// Messages of a turn, at most.
const TURN_MESSAGES_MAX: usize = 4000;

/// A QPair over either transport.
enum AnyTalk {
    Tcp(Talk<Tcp>),
    Shared(Talk<Shared>),
}

impl AnyTalk {
    fn begin(peer: &Peer, transport: &str, credits: Credits) -> Result<Self, Lost> {
        Ok(match transport == TRANSPORTS[0] {
            true => Self::Tcp(Talk::tcp(peer.places.talk, credits)?),
            false => Self::Shared(Talk::shared(&peer.places.talk_socket, credits)?),
        })
    }

    fn ask(&mut self, into: &mut [u8]) -> Result<(), Lost> {
        match self {
            Self::Tcp(talk) => talk.ask(into),
            Self::Shared(talk) => talk.ask(into),
        }
    }

    fn send(&mut self, count: usize, bytes: usize) -> Result<(), Lost> {
        match self {
            Self::Tcp(talk) => talk.send(count as u64, bytes),
            Self::Shared(talk) => talk.send(count as u64, bytes),
        }
    }

    fn exchange(&mut self, count: usize, bytes: usize) -> Result<(), Lost> {
        match self {
            Self::Tcp(talk) => talk.exchange(count as u64, bytes),
            Self::Shared(talk) => talk.exchange(count as u64, bytes),
        }
    }
}

/// The mean time of one of `count`, in microseconds.
fn mean(count: usize, mut act: impl FnMut(usize) -> Result<(), Lost>) -> Result<f64, Error> {
    let start = Instant::now();
    for which in 0..count {
        act(which)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
}

/// Reads of each size, one after the other.
pub(super) fn accesses(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    for transport in TRANSPORTS {
        let (fixed, base) = peer.memory(transport, 64 << 20)?;
        let fixed = RefCell::new(fixed);
        let (adaptive, adaptive_base) = peer.memory(transport, 64 << 20)?;
        let adaptive = RefCell::new(adaptive);
        let talk = RefCell::new(AnyTalk::begin(peer, transport, Credits::Crma)?);
        for bytes in ACCESSES {
            let count = (TURN_BYTES / bytes).clamp(4, TURN_MAX);
            let at = |which: usize| (which * 7919 * 4096 % (63 << 20)) as u64;
            let over = |channel| {
                let fixed = &fixed;
                let mut into = vec![0; bytes];
                move || {
                    mean(count, |which| {
                        let mut memory = fixed.borrow_mut();
                        memory.read_over(channel, base + at(which), &mut into)
                    })
                }
            };
            let (mut asked, mut chosen) = (vec![0; bytes], vec![0; bytes]);
            let by_messages = || mean(count, |_| talk.borrow_mut().ask(&mut asked));
            let by_choice = || {
                mean(count, |which| {
                    let address = adaptive_base + at(which);
                    adaptive.borrow_mut().read(address, &mut chosen)
                })
            };
            let contenders: Vec<Contender<'_>> = vec![
                ("CRMA".into(), Box::new(over(Channel::Crma))),
                ("RDMA".into(), Box::new(over(Channel::Rdma))),
                ("QPair".into(), Box::new(by_messages)),
                ("adaptive".into(), Box::new(by_choice)),
            ];
            let what = ("read (Figure 17)", transport, Some(bytes), "us");
            let rounds = (options.rounds, Against::LastWithLeast);
            report.compare(what, rounds, contenders, told)?;
        }
    }
    Ok(())
}

/// Bytes to the other end, without waiting for each: messages to a program, writes to memory.
pub(super) fn one_way(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    for transport in TRANSPORTS {
        let (memory, base) = peer.memory(transport, 64 << 20)?;
        let memory = RefCell::new(memory);
        let talk = RefCell::new(AnyTalk::begin(peer, transport, Credits::Crma)?);
        for bytes in MESSAGES {
            let count = (TURN_BYTES / bytes).clamp(8, TURN_MESSAGES_MAX);
            let over = |channel| {
                let (memory, text) = (&memory, vec![7; bytes]);
                move || {
                    let start = Instant::now();
                    let mut memory = memory.borrow_mut();
                    for which in 0..count {
                        let at = (which * bytes % (32 << 20)) as u64;
                        memory.write_over(channel, base + at, &text)?;
                    }
                    memory.sync()?;
                    Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
                }
            };
            let messages = || {
                let start = Instant::now();
                talk.borrow_mut().send(count, bytes)?;
                Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
            };
            let contenders: Vec<Contender<'_>> = vec![
                ("QPair".into(), Box::new(messages)),
                ("CRMA".into(), Box::new(over(Channel::Crma))),
                ("RDMA".into(), Box::new(over(Channel::Rdma))),
            ];
            let what = ("one way (Figure 17)", transport, Some(bytes), "us");
            let rounds = (options.rounds, Against::First);
            report.compare(what, rounds, contenders, told)?;
        }
    }
    Ok(())
}

/// Messages by a QPair whose credits go either way: to one side, and to both at once.
pub(super) fn credits(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    for transport in TRANSPORTS {
        for (part, both) in [
            ("one way (Figure 18)", false),
            ("both ways (Figure 18)", true),
        ] {
            for bytes in CREDITED {
                let count = (TURN_BYTES / bytes).clamp(8, TURN_MESSAGES_MAX);
                let moved = (count * bytes) as f64 * if both { 2.0 } else { 1.0 };
                let by = |credits| -> Result<Contender<'_>, Error> {
                    let mut talk = AnyTalk::begin(peer, transport, credits)?;
                    let turn = move || {
                        let start = Instant::now();
                        match both {
                            true => talk.exchange(count, bytes)?,
                            false => talk.send(count, bytes)?,
                        }
                        Ok(moved / start.elapsed().as_secs_f64() / 1e6)
                    };
                    let what = match credits {
                        Credits::Message => "credits by messages",
                        Credits::Crma => "credits by CRMA",
                    };
                    Ok((what.to_owned(), Box::new(turn)))
                };
                let contenders = vec![by(Credits::Message)?, by(Credits::Crma)?];
                let what = (part, transport, Some(bytes), "MB/s");
                let rounds = (options.rounds, Against::First);
                report.compare(what, rounds, contenders, told)?;
            }
        }
    }
    Ok(())
}
