//! Answers on their way out, each in its turn.
//!
//! An answer whose turn has come is written into the one buffer that all connections share. What
//! follows for the same connection joins it, and it is sent when another connection's turn comes,
//! when it is full, or when there is no more to do. A long body that nothing can join is sent at
//! once, from where it lies. Only an answer that is too early, or that the socket does not take, is
//! kept in its connection.

use crate::answer::body::Body;
use crate::answer::{AnswerShape, AnswerSlot};
use crate::clients::Clients;
use crate::clients::at_hand::AtHand;
use crate::clients::connection::{Pending, Progress};
use crate::clients::outbox::{COPIED_MAX, Gathered, OUTBOX_BYTES, Outbox};
use rhythm_net::{ConnectionId, Flushed, Port, Time};
use rhythm_protocol::http::response::CONTINUE;

impl Clients {
    /// Gives a whole answer: `write` gets the form of it, appends its head and gives its body.
    /// Where the client is gone, or this answer was given or begun before, it is not called.
    /// Whether it was.
    #[inline]
    pub fn answer<'b>(
        &mut self,
        port: &mut dyn Port,
        slot: AnswerSlot,
        shape: AnswerShape,
        now: Time,
        write: impl FnOnce(AnswerShape, &mut Vec<u8>) -> Body<'b>,
    ) -> bool {
        let AnswerSlot {
            connection: to,
            ordinal,
        } = slot;
        let Some(mut at) = self.at_hand(to) else {
            return false;
        };
        let draining = at.upkeep.drain.is_some();
        let connection = &mut *at.connection;
        if !connection.is_unanswered(ordinal) {
            return false;
        }
        let shape = connection.shape_now(ordinal, shape, draining);
        let added = connection.take_added(ordinal);
        let write = |shape: AnswerShape, out: &mut Vec<u8>| {
            let start = out.len();
            let body = write(shape, out);
            if let Some(lines) = added {
                add_to_head(out, start, &lines);
            }
            body
        };
        let is_plain = connection.pending.is_empty() && connection.continue_at.is_none();
        if connection.next_answer != ordinal {
            let mut bytes = Vec::new();
            let body = write(shape, &mut bytes);
            let close = connection.drop_content(ordinal) | shape.close;
            let early = match bytes.try_reserve_exact(body.length()) {
                Ok(()) => {
                    body.write(&mut bytes);
                    Pending::new(ordinal, Progress::Finished, bytes, close)
                }
                // Without memory for it, the connection ends in its place.
                Err(_) => {
                    connection.last_taken = true;
                    Pending::new(ordinal, Progress::Abandoned, Vec::new(), true)
                }
            };
            match connection.position(ordinal) {
                Some(index) => connection.pending[index] = early,
                None => connection.pending.push(early),
            }
            at.held.take_back(at.connection, ordinal);
            at.count();
            self.relieve(port, to);
            return true;
        }
        if !is_plain && let Some(index) = connection.position(ordinal) {
            connection.pending.swap_remove(index);
        }
        let close = connection.drop_content(ordinal) | shape.close;
        connection.turn_over(close);
        if !connection.outgoing.is_empty() {
            let body = connection.outgoing.write(|out| write(shape, out));
            if let Body::Own(buffer, length) = body {
                let mut bytes = buffer.take();
                bytes.truncate(length);
                bytes.shrink_to_fit();
                connection.outgoing.push_own(bytes);
            } else {
                if !matches!(body, Body::File(..)) {
                    connection.outgoing.make_room(body.length());
                }
                body.each(&mut |part| connection.outgoing.push_part(part));
            }
            at.count();
        } else {
            // What follows for the same connection joins the outbox, unless it is long.
            let is_alone = connection.under_way() == 0;
            let is_last = is_alone && !connection.more && connection.stall.is_none();
            if at.outbox.is_for_another(to) {
                at = self.with_outbox(port, to, now);
            }
            at.outbox.to = Some(to);
            let body = write(shape, &mut at.outbox.bytes);
            let is_long = matches!(body, Body::Own(..))
                || body.length() >= COPIED_MAX && Outbox::is_too_long(&body);
            let is_over = if is_long {
                at.send_at_once(port, &body, now)
            } else if !at.outbox.has_memory(&body) {
                port.abort(to);
                true
            } else if is_alone || body.length() >= OUTBOX_BYTES / 2 {
                let gathered = at.outbox.gather(&body);
                let is_due = is_last || !gathered.is_empty() || at.outbox.is_full();
                is_due && at.send(port, &gathered, now)
            } else {
                body.write(&mut at.outbox.bytes);
                at.outbox.is_full() && at.send(port, &Gathered::NONE, now)
            };
            if is_over {
                self.remove(to);
            }
        }
        if !is_plain {
            self.catch_up(port, to, now);
        }
        self.relieve(port, to);
        true
    }

    /// Sends `100 Continue` for the request that is to be taken next, once all answers before its
    /// own are written.
    pub fn send_continue(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.continue_at = Some(connection.requests);
            self.catch_up(port, id, now);
        }
    }

    /// As [`Clients::send_continue`], for a request that was taken and whose content comes in
    /// pieces.
    pub(crate) fn continue_with(&mut self, port: &mut dyn Port, slot: AnswerSlot, now: Time) {
        if let Some(connection) = self.connections.get_mut(slot.connection)
            && connection.receiving == Some(slot.ordinal)
        {
            connection.continue_at = Some(slot.ordinal);
            self.catch_up(port, slot.connection, now);
        }
    }

    /// Appends so many bytes at most to what a connection is sent. Where the system has no memory
    /// for them, the connection is dropped.
    #[inline]
    pub(crate) fn write(
        &mut self,
        port: &mut dyn Port,
        to: ConnectionId,
        now: Time,
        most: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(mut at) = self.at_hand(to) else {
            return;
        };
        let outgoing = &mut at.connection.outgoing;
        if !outgoing.is_empty() {
            if outgoing.make_room(most) {
                outgoing.write(write);
            }
            return at.count();
        }
        if at.outbox.is_for_another(to) {
            at = self.with_outbox(port, to, now);
        }
        at.outbox.to = Some(to);
        if at.outbox.bytes.try_reserve(most).is_err() {
            port.abort(to);
            return self.remove(to);
        }
        write(&mut at.outbox.bytes);
        if at.outbox.is_full() && at.send(port, &Gathered::NONE, now) {
            self.remove(to);
        }
    }

    /// A connection that there is, when what the outbox held for another is sent.
    #[cold]
    fn with_outbox(&mut self, port: &mut dyn Port, to: ConnectionId, now: Time) -> AtHand<'_> {
        self.send(port, now);
        let at = self.at_hand(to);
        at.expect("who is sent something else than the outbox stays")
    }

    /// What follows when a connection's next answer has been written: those that were too early,
    /// `100 Continue`.
    #[cold]
    pub(crate) fn catch_up(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        while let Some(connection) = self.connections.get_mut(id) {
            let position = connection.position(connection.next_answer);
            if connection.continue_at == Some(connection.next_answer) {
                connection.continue_at = None;
                // Not once its answer is begun.
                let progress = position.map(|index| connection.pending[index].progress);
                if matches!(progress, None | Some(Progress::Awaited(_))) {
                    let write = |out: &mut Vec<u8>| out.extend_from_slice(CONTINUE);
                    self.write(port, id, now, CONTINUE.len(), write);
                    continue;
                }
            }
            let Some(index) = position else {
                break;
            };
            let pending = &mut connection.pending[index];
            let mut bytes = std::mem::take(&mut pending.bytes);
            // A long one is not copied: that would take as much memory again.
            let moves = bytes.len() >= OUTBOX_BYTES / 2;
            if !bytes.is_empty()
                && let Some(framing) = pending.framing_mut()
            {
                match (connection.outgoing.is_empty(), self.outbox.is_for(id)) {
                    _ if moves => framing.decide(&mut bytes),
                    (true, true) => framing.moved(self.outbox.bytes.len()),
                    (true, false) => {}
                    // It goes behind what is being sent.
                    (false, _) => framing.decide(&mut bytes),
                }
            }
            let is_whole = match connection.pending[index].progress {
                Progress::Finished => true,
                Progress::Awaited(_) | Progress::Begun(_) => false,
                Progress::Abandoned => {
                    self.send(port, now);
                    port.abort(id);
                    self.remove(id);
                    return;
                }
            };
            if is_whole {
                let early = connection.pending.swap_remove(index);
                connection.turn_over(early.close);
            }
            if moves {
                self.send_long(port, id, bytes, now);
            } else {
                let write = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
                self.write(port, id, now, bytes.len(), write);
            }
            if !is_whole {
                break;
            }
        }
        if let Some(connection) = self.connections.get_mut(id)
            && connection.pending.is_empty()
        {
            // Its memory too: an idle connection has none.
            connection.pending = Vec::new();
        }
        self.count(id);
    }

    /// Sends what the outbox holds.
    #[inline]
    pub fn flush(&mut self, port: &mut dyn Port, now: Time) {
        let last = self.outbox.to;
        self.send(port, now);
        if self.held.is_over()
            && let Some(id) = last.or_else(|| self.fastest())
        {
            self.relieve(port, id);
        }
    }

    /// Sends what the outbox holds.
    #[inline]
    fn send(&mut self, port: &mut dyn Port, now: Time) {
        let Some(id) = self.outbox.to else {
            return;
        };
        let Some(mut at) = self.at_hand(id) else {
            unreachable!("what is removed is not sent");
        };
        if at.send(port, &Gathered::NONE, now) {
            self.remove(id);
        }
    }

    /// Sends what the outbox holds, and these bytes behind what of it is for their connection.
    fn send_long(&mut self, port: &mut dyn Port, to: ConnectionId, mut bytes: Vec<u8>, now: Time) {
        if self.outbox.is_for_another(to) {
            self.send(port, now);
        }
        self.outbox.to = Some(to);
        let length = bytes.len();
        if let Some(mut at) = self.at_hand(to)
            && at.send_with(port, &Gathered::NONE, (&mut bytes, length), now)
        {
            self.remove(to);
        }
    }

    /// The socket takes bytes again. Whether it is that of an open connection of a client.
    pub fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) -> bool {
        let Some(mut at) = self.at_hand(id) else {
            return false;
        };
        let connection = &mut *at.connection;
        let before = connection.outgoing.sent_total();
        let flushed = connection.outgoing.writable(port, id);
        let taken = connection.outgoing.sent_total() - before;
        connection.took(taken, now);
        connection.since = at.upkeep.limits.credited(connection.since, taken, now);
        let is_over = match flushed {
            Flushed::Gone => true,
            Flushed::All | Flushed::Some => at.settle(port, now),
        };
        if is_over {
            self.remove(id);
        }
        true
    }
}

/// Puts whole lines behind the status line of a head that begins there. How many bytes it grew by.
pub(crate) fn add_to_head(out: &mut Vec<u8>, start: usize, lines: &[u8]) -> usize {
    let Some(end) = out[start..].windows(2).position(|pair| pair == b"\r\n") else {
        return 0;
    };
    let at = start + end + 2;
    out.splice(at..at, lines.iter().copied());
    lines.len()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::answer::body::Pieces;
    use crate::clients::input::Next;
    use crate::limits::{ClientLimits, RequestLimits};
    use rhythm_net::testing::TestPort;
    use rhythm_net::{Accepted, Client, Role};
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;

    pub(crate) const ID: ConnectionId = ConnectionId::new(0, 1);

    /// A client with a connection of this name.
    pub(crate) fn accepted(connection: ConnectionId) -> Accepted {
        Accepted {
            connection,
            role: Role::default(),
            peer: Client::At(([127, 0, 0, 1], 1).into()),
        }
    }

    struct Page<'a>(&'a [&'a [u8]]);

    impl Pieces for Page<'_> {
        fn length(&self) -> usize {
            self.0.iter().map(|piece| piece.len()).sum()
        }
        fn each<'a>(&'a self, give: &mut dyn FnMut(&'a [u8])) {
            self.0.iter().for_each(|piece| give(piece));
        }
    }

    /// Takes so many requests of a connection, and answers them with one body.
    fn answered(port: &mut TestPort, clients: &mut Clients, requests: usize, body: &Body<'_>) {
        let now = Time::ZERO;
        let input = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(requests);
        let limits = RequestLimits::default();
        let mut owed = Vec::new();
        clients.turn_is_over(Duration::ZERO);
        let mut reader = clients.read(ID, &input).unwrap();
        while reader.next(port, &limits, now) == Next::Request {
            owed.push(reader.reading.owed());
            reader.reading.taken();
        }
        let left = reader.leave(port, now);
        clients.read_done(port, left);
        assert_eq!(owed.len(), requests);
        for owed in owed {
            clients.answer(port, owed.slot, owed.shape, now, |_, out| {
                out.extend_from_slice(b"head ");
                body.clone()
            });
        }
        clients.flush(port, now);
    }

    #[test]
    fn a_long_body_is_copied_once_or_not_at_all() {
        const LONG: usize = COPIED_MAX + 1000;
        let words = vec![b'x'; 1000];
        let many = vec![&words[..]; LONG / 1000];
        let page = Page(&many);
        let buffer = RefCell::new(vec![b'x'; LONG + 5000]);
        for body in [Body::Stitched(&page), Body::Own(&buffer, page.length())] {
            let is_own = matches!(body, Body::Own(..));
            // The last is kept, and its buffer with it.
            for room in [usize::MAX, 3, 1000] {
                let limits = ClientLimits::within(Duration::from_secs(1));
                let mut clients = Clients::new(limits, Time::ZERO);
                clients.opened(accepted(ID), Time::ZERO);
                let mut port = TestPort::with(ID, room);
                if is_own && room != usize::MAX {
                    *buffer.borrow_mut() = vec![b'x'; LONG + 5000];
                }
                let place = buffer.borrow().as_ptr();
                answered(&mut port, &mut clients, 1, &body);
                let is_taken = buffer.borrow().is_empty();
                assert_eq!(is_taken, is_own && room != usize::MAX, "{room}");
                assert!(clients.outbox.bytes.capacity() < LONG);
                let first = port.at(ID).slices[0].clone();
                assert_eq!((first.len(), first[1].1), (2, page.length()));
                assert!(!is_own || first[1].0 == place);
                port.at(ID).room = usize::MAX;
                clients.writable(&mut port, ID, Time::ZERO);
                let rest = port.at(ID).slices.last().expect("some").clone();
                let end = first[1].0.wrapping_add(page.length());
                let (rest, length) = rest[rest.len() - 1];
                assert_eq!(rest.wrapping_add(length), end, "it was copied");
                let mut whole = b"head ".to_vec();
                whole.resize(5 + page.length(), b'x');
                assert!(port.at(ID).sent == whole);
                clients.check().unwrap();
            }
        }
    }

    #[test]
    fn long_parts_are_sent_from_where_they_lie_unless_answers_join() {
        let long: Arc<[u8]> = vec![b'x'; 9000].into();
        let pieces = [&b"run "[..], &long, b"", b"between ", &long, b"end"];
        let page = Page(&pieces);
        let start = long.as_ptr();
        for (body, places) in [
            (
                Body::Stitched(&page),
                &[(9, None), (9000, Some(start)), (8, None)][..],
            ),
            (
                Body::File(&long, 100..9000),
                &[(5, None), (8900, Some(start.wrapping_add(100)))],
            ),
            (Body::Bytes(&long[..4000]), &[(4005, None)]),
        ] {
            for requests in [1, 3] {
                let mut whole = b"head ".to_vec();
                body.write(&mut whole);
                let limits = ClientLimits::within(Duration::from_secs(1));
                let mut clients = Clients::new(limits, Time::ZERO);
                clients.opened(accepted(ID), Time::ZERO);
                // And when the socket takes less than all, wherever it stops.
                for room in [usize::MAX, 3, 10, 4500, 9020] {
                    let mut port = TestPort::with(ID, room);
                    answered(&mut port, &mut clients, requests, &body);
                    if requests == 1 {
                        for (sent, (length, place)) in port.at(ID).slices[0].iter().zip(places) {
                            assert_eq!(sent.1, *length);
                            assert!(place.is_none_or(|place| place == sent.0));
                        }
                    } else if room == usize::MAX {
                        // All but the last lie in the outbox.
                        assert!(port.at(ID).slices.len() < requests, "they were joined");
                    }
                    port.at(ID).room = usize::MAX;
                    clients.writable(&mut port, ID, Time::ZERO);
                    let whole = whole.repeat(requests);
                    assert!(port.at(ID).sent == whole, "{body:?} {room}");
                    while clients.next_unstalled(Time::ZERO).is_some() {
                        let reader = clients.proceed(ID, false).unwrap();
                        let left = reader.leave(&mut port, Time::ZERO);
                        clients.read_done(&mut port, left);
                    }
                }
            }
        }
    }
}
