//! What has come is executed, as much of it as a turn has room for; and what waits goes on.

use super::backlog::{Left, TOGETHER};
use super::datagram::DatagramLane;
use super::lane::{Lane, SEND_BYTES, UNSENT_MAX};
use super::{Worker, recount, work};
use crate::cohort::{PART_COMMANDS, Source};
use crate::execute::Turn;
use crate::shared::Counter;
use crate::wire::Stream;
use rhythm_net::{Port, Time};
use std::sync::Arc;

/// Whose commands a cohort has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Those of who came just now.
    Came,
    /// Those of connections that waited for their turn: for whom there is no room stays before the
    /// others.
    Line,
    /// And those of datagrams.
    Backlog,
}

impl Worker {
    pub(super) fn run_if_full(&mut self, port: &mut dyn Port, now: Time) {
        if self.cohort.is_full() {
            self.run(port, now);
        }
    }

    /// Executes what has come.
    pub(super) fn run(&mut self, port: &mut dyn Port, now: Time) {
        self.execute(Whose::Came, port, now);
    }

    /// Has those go on who wait in line before `end`, as many as the turn has room for, and one in
    /// any case.
    pub(super) fn go_on(&mut self, port: &mut dyn Port, end: u64, now: Time) {
        debug_assert!(self.cohort.is_empty(), "who came is before them");
        let mut expected = 0;
        let mut is_owed = !std::mem::replace(&mut self.work.has_owed, true);
        while !self.cohort.is_full() {
            let owed = std::mem::take(&mut is_owed).then(|| self.line.first(end));
            let owed = owed.flatten();
            self.work.owes |= owed.is_some();
            let has_room = |is_light| self.work.has_room(is_light, expected);
            let Some(id) = owed.or_else(|| self.line.next(end, has_room)) else {
                break;
            };
            let Some(client) = self.clients.get_mut(id) else {
                continue;
            };
            client.is_in_line = false;
            if client.is_stalled && !client.in_cohort {
                self.turn_began.get_or_insert(now);
                client.in_cohort = true;
                expected += client.took;
                let (stream, most) = (client.stream, client.commands_max);
                let input = std::mem::take(&mut client.input);
                (self.cohort).add_own(Source::Connection(id), stream, most, input);
            }
        }
        self.execute(Whose::Line, port, now);
        self.work.owes = false;
    }

    /// Has datagrams go on that a turn had no room for.
    pub(super) fn go_on_with_datagrams(&mut self, port: &mut dyn Port, now: Time) {
        if self.backlog.is_empty() || !self.work.has_room_for_datagrams() {
            return;
        }
        self.turn_began.get_or_insert(now);
        let mut together = 0..TOGETHER;
        while !self.cohort.is_full()
            && together.next().is_some()
            && let Some(Left { source, bytes }) = self.backlog.next()
        {
            (self.cohort).add(source, Stream::of_datagram(), PART_COMMANDS, &bytes);
        }
        self.execute(Whose::Backlog, port, now);
        self.backlog.resume_if_empty(port);
    }

    fn execute(&mut self, whose: Whose, port: &mut dyn Port, now: Time) {
        if self.cohort.is_empty() {
            return;
        }
        let held_max = self.held_max();
        let counters = self.shared.counters(self.index);
        counters.add(Counter::Cohorts, 1);
        let mut size = 0;
        let store = Arc::clone(&self.shared.store);
        let clock = self.shared.clock(now);
        let mut turn = Turn::new(self.store.pin(), clock, &self.shared, counters);
        if let Some(ring) = &mut self.ring {
            self.written = ring.take_written();
            turn = turn
                .noting(&mut self.written)
                .announcing(ring.announces())
                .writing_if(ring.may_write());
        }
        let mut batch = 0..0;
        // Whom there was no room for, of those who had come to the front.
        let (mut left, mut datagrams_left) = (Vec::new(), Vec::new());
        loop {
            let Some(index) = batch.next() else {
                let is_over = match whose {
                    Whose::Came => false,
                    Whose::Line => !self.work.has_room(true, 0) && !self.work.owes,
                    Whose::Backlog => !self.work.has_room_for_datagrams(),
                };
                if is_over {
                    // The others are not parsed in vain.
                    break;
                }
                batch = self.cohort.parse(&self.rules);
                if batch.is_empty() {
                    break;
                }
                continue;
            };
            turn.make_way();
            let part = self.cohort.part(index);
            let source = part.source;
            let mut executed = part.commands.len();
            match source {
                Source::Connection(id) => {
                    let Some(client) = self.clients.get_mut(id) else {
                        continue;
                    };
                    let was_stalled = client.is_stalled;
                    let limit = match self.held > held_max / 2 {
                        true => 0,
                        false => UNSENT_MAX,
                    };
                    let is_owed = std::mem::take(&mut self.work.owes);
                    let has_room = self.work.has_room(work::is_light(client.took), 0);
                    let before = turn.work();
                    let mut lane = Lane {
                        port,
                        id,
                        client,
                        out: &mut self.out,
                        ring: self.ring.as_mut(),
                        now,
                        has_written: false,
                        written: 0,
                        limit,
                        is_left: !has_room && !is_owed,
                        yields: false,
                        left: 0,
                        of_stats: 0,
                        classes: &mut self.classes,
                    };
                    let is_there = lane.run(&mut self.cohort, index, &store, &mut turn);
                    counters.add(Counter::BytesWritten, lane.written);
                    // Those that are left are parsed again.
                    executed -= lane.left;
                    let took = turn.work() - before + lane.written as usize + lane.of_stats;
                    let (yields, is_left) = (lane.yields, lane.is_left);
                    let waits_on = is_left && whose == Whose::Line;
                    if yields && !waits_on {
                        counters.add(Counter::Yields, 1);
                    } else if !yields && client.is_stalled && (executed > 0 || !was_stalled) {
                        // One that was looked at again and found no room waits on.
                        counters.add(Counter::Stalls, 1);
                    }
                    self.work.add(took);
                    if executed > 0 {
                        client.took = took;
                    }
                    client.moved = now;
                    let waits = client.waits_for_room || !client.owes_nothing();
                    if client.is_stalled && !waits {
                        match waits_on {
                            true => left.push(id),
                            false => self.line.push(id, client),
                        }
                    }
                    recount(&mut self.held, client);
                    if !is_there {
                        self.held -= client.counted;
                        self.clients.remove(id);
                    }
                }
                Source::Datagram { socket, .. } if !self.work.has_room_for_datagrams() => {
                    let bytes = self.cohort.bytes_of(part).to_vec();
                    let waits = Left { source, bytes };
                    match whose {
                        Whose::Came => self.backlog.push(port, socket, waits),
                        Whose::Line | Whose::Backlog => datagrams_left.push(waits),
                    }
                    executed = 0;
                }
                Source::Datagram { socket, peer, id } => {
                    let mut lane = DatagramLane {
                        port,
                        datagrams: &mut self.datagrams,
                        out: &mut self.out,
                        classes: &mut self.classes,
                    };
                    let to = (socket, peer, id);
                    let took = lane.run(&mut self.cohort, index, to, &store, &mut turn);
                    self.work.add_datagram(took);
                }
            }
            size += executed as u64;
        }
        counters.add(Counter::Commands, size);
        drop(turn);
        while let Some((source, input)) = self.cohort.take_back() {
            match source {
                Source::Connection(id) => {
                    if let Some(client) = self.clients.get_mut(id) {
                        client.in_cohort = false;
                        client.input = input;
                        self.line.put_back(id, client);
                    }
                }
                Source::Datagram { .. } => {
                    let bytes = input.rest().to_vec();
                    self.backlog.put_back(vec![Left { source, bytes }]);
                }
            }
        }
        for id in left.into_iter().rev() {
            if let Some(client) = self.clients.get_mut(id) {
                self.line.put_back(id, client);
            }
        }
        self.backlog.put_back(datagrams_left);
        if let Some(ring) = &mut self.ring {
            ring.turn_ended(std::mem::take(&mut self.written), now);
        }
        self.shared.figures(self.index).cohort_size.record(size, 1);
        counters.add(Counter::BytesWritten, self.datagrams.flush(port));
        self.cohort.clear();
        self.out.clear();
        self.out.shrink_to(2 * SEND_BYTES);
        self.relieve_if_needed(port, now);
    }
}
