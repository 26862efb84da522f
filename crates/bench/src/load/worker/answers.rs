//! What a worker does with the answers that arrive.

use super::super::chain::Page;
use super::super::client::Awaited;
use super::super::judge::{Answer, Fault};
use super::super::reader::AnswerReader;
use super::super::validate::clip;
use super::super::visit::{Ask, Probe};
use super::{PAUSE, Worker};
use rhythm_net::Port;
use rhythm_net::clock::monotonic;
use std::sync::atomic::Ordering;

impl Worker {
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
            match reader.next(&data[at..], pending.ask == Ask::SignOut, ended) {
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
            reader = Box::new(AnswerReader::default());
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
        let client = &mut self.clients[index];
        if let Some(connection) = client.disconnected() {
            port.close(connection);
        }
        let others = client.pending.drain(1..);
        self.counts.retries += others.len() as u64;
        self.spare.extend(others.map(|pending| pending.expected));
    }

    fn answered(&mut self, port: &mut dyn Port, index: usize, answer: &Answer<'_>, total: usize) {
        let Some(pending) = self.clients[index].pending.pop_front() else {
            return;
        };
        let now = monotonic();
        let measuring = self.is_measuring(now);
        if measuring {
            self.counts.requests += 1;
            self.counts.bytes += total as u64;
        }
        let verdict = self
            .judge
            .judge(&pending, answer, &mut self.clients[index].visit);
        let is_right = verdict.is_ok();
        match verdict {
            Ok(()) => self.right(index, &pending, answer, measuring),
            Err(Fault::Error(kind)) => {
                self.error(&kind);
                self.clients[index].visit.signed_in = false;
            }
            Err(Fault::Invalid {
                kind,
                reason,
                offset,
            }) => {
                self.live.invalid.fetch_add(1, Ordering::Relaxed);
                let start = offset.saturating_sub(100);
                let excerpt = clip(answer.body.get(start..).unwrap_or_default(), 300);
                self.counts
                    .invalid(&self.judge.describe(&pending), &kind, &reason, excerpt);
            }
        }
        if let (Ask::Page(page), 200) = (pending.ask, answer.head.status()) {
            self.live.pages.fetch_add(1, Ordering::Relaxed);
            if measuring {
                self.counts
                    .page(page, answer.body.len(), now.since(pending.started));
            }
        }
        let ask = pending.ask;
        self.spare.push(pending.expected);
        let client = &mut self.clients[index];
        if ask == Ask::Page(Page::Logout) {
            client.visit.signed_in = false;
        }
        if ask == Ask::SignOut {
            self.leave(port, index, now);
        } else if client.visit.signed_in || is_right {
            self.proceed(port, index, now);
        } else if client.pending.is_empty() {
            client.queue.clear();
            self.wait(index, None, now + PAUSE);
        }
    }

    /// After a right answer: counts it and queues what belongs to it.
    fn right(&mut self, index: usize, pending: &Awaited, answer: &Answer<'_>, measuring: bool) {
        let options = &self.setup.options;
        let client = &mut self.clients[index];
        let counts = &mut self.counts;
        match pending.ask {
            Ask::SignOut if measuring => counts.sign_outs += 1,
            Ask::Probe(_) if measuring => counts.refusals += 1,
            Ask::Static(_) if measuring => {
                let is_whole = answer.head.status() == 200;
                *(if is_whole {
                    &mut counts.files.whole
                } else {
                    &mut counts.files.not_modified
                }) += 1;
                counts.files.bytes += answer.body.len() as u64;
            }
            _ => {}
        }
        let Ask::Page(page) = pending.ask else {
            return;
        };
        if options.page.is_some() || self.is_stopping {
            return;
        }
        if options.files && page != Page::CheckDetailImage {
            for file in self.judge.files.of_page(pending.expected.page, answer.body) {
                let bit = 1 << file;
                if client.visit.seen & bit == 0 {
                    client.visit.seen |= bit;
                    client.queue.push_back(Ask::Static(*file));
                }
            }
        }
        let probe = match page {
            Page::Logout if client.rng.one_in(8) => Probe::OldCookie,
            Page::AccountSummary if client.rng.one_in(64) => Probe::UnknownCheck,
            _ => return,
        };
        if options.refusals {
            client.queue.push_back(Ask::Probe(probe));
        }
    }
}
