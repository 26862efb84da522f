//! A datagram's commands are executed, and answered in datagrams. It cannot be told to wait: what
//! would take too long is left out, as if it had been lost on the way: what comes behind 1 MiB of
//! answers, 256 of them, or 2 MiB of values that were made for it.

use super::super::udp::Datagrams;
use super::lane::{UNSENT_MAX, is_stats};
use super::work::{self, WORK_MAX};
use crate::class::{Class, Counts};
use crate::cohort::Cohort;
use crate::execute::Turn;
use crate::store::Store;
use crate::wire::{END, Kind, udp};
use rhythm_net::{DatagramId, Port};
use std::net::SocketAddr;

/// Requests of one datagram that are answered: an answer is a datagram of its own, or several, and
/// a request may be a single byte. (Of one for several keys, each has as many.)
pub(super) const ANSWERS_MAX: usize = 256;
/// What is said where an answer is longer than what a datagram is answered.
const TOO_LONG: &[u8] = b"SERVER_ERROR too long for datagrams, ask over TCP\r\n";

/// A datagram whose commands are executed.
pub(super) struct DatagramLane<'a> {
    pub(super) port: &'a mut dyn Port,
    pub(super) datagrams: &'a mut Datagrams,
    pub(super) out: &'a mut Vec<u8>,
    /// The turn's commands.
    pub(super) classes: &'a mut Counts,
}

impl DatagramLane<'_> {
    /// Executes a datagram's part of the cohort, and answers: to a socket's peer, and how that
    /// calls its request. What that cost.
    pub(super) fn run(
        &mut self,
        cohort: &mut Cohort,
        index: usize,
        (socket, peer, id): (DatagramId, SocketAddr, u16),
        store: &Store,
        turn: &mut Turn<'_>,
    ) -> usize {
        let (mut is_first, mut answers, mut answered) = (true, 0, 0);
        let (mut pieces, mut of_stats) = (0, 0);
        let before = turn.work();
        for at in cohort.part(index).commands.clone() {
            let made = turn.work() - before + of_stats;
            if answered >= UNSENT_MAX || answers >= ANSWERS_MAX || made > WORK_MAX {
                break;
            }
            cohort.prepare(at, store, turn);
            pieces += 1;
            let part = cohort.part(index);
            let command = &cohort.commands().list[at];
            let hash = cohort.hash_of(at);
            (self.classes).add(Class::of(command.kind, cohort.commands()));
            self.out.clear();
            turn.execute(cohort.parsed(part), command, hash, self.out);
            let long = turn.take_long();
            let length = self.out.len() + long.as_ref().map_or(0, |(_, long)| long.len());
            let mut most = udp::ANSWER_MAX;
            if is_stats(cohort.commands(), at) {
                of_stats += work::of_stats(length);
                most = UNSENT_MAX;
            }
            if length > most {
                self.out.clear();
                // A packet would need to say whose answer it is, and is lost.
                if !matches!(command.kind, Kind::Binary { .. }) {
                    self.out.extend_from_slice(TOO_LONG);
                }
            } else if let Some((at, long)) = long {
                self.out.splice(at..at, long.iter().copied());
            }
            let answer = &self.out[..];
            answered += answer.len();
            if has_datagram(&command.kind, answer, is_first) {
                (self.datagrams).push(self.port, socket, peer, id, answer);
                is_first = false;
                pieces += 1;
                // Keys are bounded by the length of a datagram, and their values by their own.
                answers += usize::from(!is_amid_keys(&command.kind));
            }
            is_first |= is_sent_at_once(&command.kind, answer);
            turn.make_way();
        }
        turn.work() - before + of_stats + work::of_datagram(pieces, answered)
    }
}

/// Whether a command in a datagram is answered by one. A key that is not there, and a quiet
/// request, are answered by a frame with nothing behind it, but only in front of all others.
fn has_datagram(kind: &Kind, answer: &[u8], is_first: bool) -> bool {
    let may_be_empty = matches!(kind, Kind::Get { .. } | Kind::Binary { .. });
    !answer.is_empty() || may_be_empty && is_first
}

/// Whether what is answered is a key behind which others of its request may come.
fn is_amid_keys(kind: &Kind) -> bool {
    matches!(kind, Kind::Get { is_last: false, .. })
}

/// Whether memcached sends the answers that are ready behind this one, so that those that follow
/// have a first again.
fn is_sent_at_once(kind: &Kind, answer: &[u8]) -> bool {
    match kind {
        Kind::Get { is_last, .. } => *is_last,
        Kind::Stats(_) => true,
        Kind::Say(text) => matches!(*text, "MN\r\n" | END),
        // An error, unless it tells the key; and NOOP.
        Kind::Binary { .. } => match answer {
            [_, opcode, 0, 0, _, _, status @ ..] => *opcode == 0x0a || !status.starts_with(&[0, 0]),
            _ => false,
        },
        _ => false,
    }
}
