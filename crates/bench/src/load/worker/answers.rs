//! What a worker does with the answers that arrive.

use super::super::client::{Awaited, Client};
use super::super::walk::{Answer, Fault, Kind, Walk, clip};
use super::{PAUSE, Worker};
use rhythm_net::Port;
use rhythm_net::clock::monotonic;
use std::sync::atomic::Ordering;

impl<W: Walk> Worker<W> {
    /// Takes the answers out of what arrived. `ended` says that no more will.
    pub(super) fn take_in(&mut self, port: &mut dyn Port, index: usize, bytes: &[u8], ended: bool) {
        let connection = self.clients[index].connection;
        let Some(mut reader) = self.clients[index].reader.take() else {
            return;
        };
        let mut stored = std::mem::take(&mut reader.stored);
        let data = if stored.is_empty() {
            bytes
        } else {
            stored.extend_from_slice(bytes);
            &stored
        };
        let mut at = 0;
        let mut fault = None;
        loop {
            let client = &self.clients[index];
            let Some(pending) = client.pending.front() else {
                if at < data.len() {
                    fault = Some("bytes that nobody asked for".to_owned());
                }
                break;
            };
            let next = match W::INFLATES {
                true => reader.next(&data[at..], pending.is_head, ended),
                false => reader.next_as_sent(&data[at..], pending.is_head, ended),
            };
            match next {
                Ok(Some(whole)) => {
                    if reader.head.status() >= 200 {
                        let keeps = reader.head.keep_alive() && !ended;
                        let body = match whole.body {
                            Some(range) => &data[at..][range],
                            None => &reader.decoded,
                        };
                        let answer = Answer {
                            head: &reader.head,
                            bytes: &data[at..],
                            body,
                        };
                        self.clients[index].is_used = true;
                        if !keeps {
                            self.close_after(port, index);
                        }
                        self.answered(port, index, &answer, whole.total);
                    }
                    at += whole.total;
                }
                Ok(None) => break,
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
            if self.clients[index].connection != connection {
                break;
            }
        }
        if self.clients[index].connection == connection {
            reader.stored = if stored.is_empty() {
                stored.extend_from_slice(&bytes[at..]);
                stored
            } else {
                stored.drain(..at);
                stored
            };
        } else {
            reader.clear();
        }
        self.clients[index].reader = Some(reader);
        match fault {
            Some(fault) => self.give_up(port, index, &fault),
            None => self.flush(port, index),
        }
    }

    /// The server closes the connection after the answer to the first request; others in the
    /// pipeline are asked again.
    fn close_after(&mut self, port: &mut dyn Port, index: usize) {
        if let Some(connection) = self.disconnected(index) {
            port.close(connection);
        }
        let others = self.clients[index].pending.drain(1..);
        self.counts.retries += others.len() as u64;
        self.spare.extend(others.map(|pending| pending.expected));
    }

    fn answered(&mut self, port: &mut dyn Port, index: usize, answer: &Answer<'_>, total: usize) {
        let Some(pending) = self.clients[index].pending.pop_front() else {
            return;
        };
        let now = monotonic();
        // What was asked for (in open loop: due) in the measurement counts whenever it is answered:
        // else the longest waits, those that outlast it, would be in no figure.
        let measuring = self.is_measuring(pending.started);
        if measuring {
            self.counts.requests += 1;
            self.counts.bytes += total as u64;
        }
        let Awaited { ask, expected, .. } = &pending;
        let (ask, kind) = (*ask, self.walk.kind(*ask));
        let verdict = (self.walk).judge(ask, expected, answer, &mut self.clients[index].visit);
        let is_right = verdict.is_ok();
        match verdict {
            Ok(()) => self.right(index, &pending, answer, measuring),
            Err(Fault::Error(reason)) => self.error(&reason),
            Err(Fault::Invalid {
                kind,
                reason,
                offset,
            }) => {
                self.live.invalid.fetch_add(1, Ordering::Relaxed);
                let start = offset.saturating_sub(100);
                let excerpt = clip(answer.body.get(start..).unwrap_or_default(), 300);
                let asked = self.walk.describe(ask);
                self.counts.invalid(&asked, &kind, &reason, excerpt);
            }
        }
        if let (Kind::Page(page), 200) = (kind, answer.head.status()) {
            self.live.pages.fetch_add(1, Ordering::Relaxed);
            if measuring {
                let latency = now.since(pending.started);
                self.counts.page(page, answer.body.len(), latency);
            }
        } else if measuring && !is_right {
            self.counts.refused(kind);
        }
        self.spare.push(pending.expected);
        let client = &mut self.clients[index];
        if kind == Kind::SignOut {
            self.leave(port, index, now);
        } else if self.walk.goes_on(ask, is_right, &mut client.visit) {
            self.proceed(port, index, now);
        } else if client.pending.is_empty() {
            client.queue.clear();
            self.walk.given_up(&mut client.visit);
            self.wait(index, None, now + PAUSE);
        }
    }

    /// After a right answer: counts it and queues what belongs to it.
    fn right(&mut self, index: usize, pending: &Awaited<W>, answer: &Answer<'_>, measuring: bool) {
        let counts = &mut self.counts;
        match self.walk.kind(pending.ask) {
            Kind::SignOut if measuring => counts.sign_outs += 1,
            Kind::Refusal if measuring => counts.refusals += 1,
            Kind::File if measuring => {
                let is_whole = answer.head.status() == 200;
                *(if is_whole {
                    &mut counts.files.whole
                } else {
                    &mut counts.files.not_modified
                }) += 1;
                counts.files.bytes += answer.body.len() as u64;
            }
            Kind::Step => self.clients[index].since = Some(pending.started),
            _ => {}
        }
        if self.is_stopping {
            return;
        }
        let Client {
            visit, rng, queue, ..
        } = &mut self.clients[index];
        let Awaited { ask, expected, .. } = pending;
        (self.walk).follow(*ask, expected, answer, visit, rng, queue);
    }
}
