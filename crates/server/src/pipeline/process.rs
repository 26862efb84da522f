//! Process: from cohorts that are formed to their answers (paper, sections 3.2 and 4.1).
//!
//! A cohort that is launched goes through n + 1 process stages on the device
//! (`flight/device.rs`) and the n backend stages between them (`flight/backends.rs`); whoever is
//! finished is answered after each. A cohort of a page that takes long has its stages run a pass at
//! a time, each when its page has its turn (`flight/heavy.rs`).
//!
//! ```text
//!   launch --> run_stage --> stage_done --> answer --> ask --> go_on --> run_stage ...
//!                  ^             |                      |
//!                  +-- again, when there is memory <----+
//! ```

use super::Pipeline;
use crate::flight::backends::Asked;
use crate::flight::cohorts::{CohortKey, NextPass};
use crate::flight::former::Outlook;
use crate::flight::heavy::HeavyTurn;
use crate::flight::timeline::Doing;
use rhythm_cohort::{ContextId, LaunchReason};
use rhythm_engine::cohort::LaneError;
use rhythm_http::{Hosts, LONG_BYTES};
use rhythm_net::{ConnectionId, Port, Time};

impl Pipeline {
    /// Does what can be done without more input: all that is due, with what follows from it.
    pub(super) fn answer_due(&mut self, port: &mut dyn Port, now: Time) {
        loop {
            self.launch_due(port, now);
            let told = self.backends.turn_ends(port, now);
            self.clients.flush(port, now);
            if !told && !self.clients.hosts_have_news() {
                return;
            }
        }
    }

    /// Takes up connections whose stall is over, as many as it may before those are answered and
    /// the clock has told what they cost. Whether there was any.
    pub(super) fn take_up(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let mut any = false;
        (self.clients).next_slice(|| self.turn.took(port.clock(now)));
        while let Some(id) = self.clients.next_unstalled(now) {
            self.proceed(port, id, false, now);
            any = true;
        }
        any
    }

    /// Goes on with what devices and backends have finished, and with what found no memory or no
    /// context before.
    pub(super) fn work(&mut self, port: &mut dyn Port, now: Time) {
        loop {
            let mut any = false;
            self.device.poll();
            while let Some(id) = self.device.next_done(&mut self.cohorts) {
                self.stage_done(port, id, now);
                any = true;
            }
            any |= self.backends.poll(port, &mut self.cohorts, now);
            while let Some(answer) = self.backends.next_answer_of_store() {
                (self.responder).store_answered(port, &mut self.clients, &answer, now);
                self.open_files(port, now);
            }
            while let Some(id) = self.backends.next_complete() {
                self.go_on(port, id, now);
            }
            for _ in 0..self.device.ready() {
                if let Some(id) = self.device.next_ready() {
                    self.submit(port, id, now);
                }
            }
            if self.clients.hosts_have_news() {
                any |= self.host_event(port, now, Hosts::follow);
            }
            while let Some(id) = self.cohorts.next_with_memory(now) {
                self.try_again(port, id, now);
                any = true;
            }
            if self.cohorts.take_freed() {
                any |= self.admit(port, now);
            }
            if !any {
                break;
            }
        }
    }

    /// Lets waiting connections try again, in their order: those that wait for memory, where there
    /// is more of it, until one still finds none, and beside them the others until one still finds
    /// no context.
    fn admit(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let mut any = false;
        loop {
            let is_open = |id| self.clients.has(id);
            let lent = || self.cohorts.lent_to_busy();
            let Some(id) = self.former.next_short(lent, is_open, now) else {
                break;
            };
            let before = self.former.short();
            self.proceed(port, id, true, now);
            self.former.taken();
            any = true;
            if self.former.short() > before {
                break;
            }
        }
        for heavy in [false, true] {
            for _ in 0..self.former.waiting_of(heavy) {
                let Some(id) = self.former.next_waiter(heavy) else {
                    break;
                };
                let before = self.former.waiting_of(heavy);
                self.proceed(port, id, true, now);
                any = true;
                if self.former.waiting_of(heavy) > before {
                    self.former.first_again(heavy);
                    break;
                }
            }
        }
        any
    }

    /// A connection's stall is over: takes up its input again.
    fn proceed(&mut self, port: &mut dyn Port, id: ConnectionId, waited: bool, now: Time) {
        self.read(port, now, |clients| clients.proceed(id, waited));
    }

    /// Launches the cohorts that are full, however much more there is to read: nothing is gained by
    /// waiting, and their columns are still in the caches.
    #[inline]
    pub(super) fn launch_full(&mut self, port: &mut dyn Port, now: Time) {
        while self.device.ready() == 0
            && let Some(id) = (self.former).next_full(&self.cohorts, |key| !self.heavy.has(key))
        {
            self.launch(port, id, LaunchReason::Full, now);
            self.work(port, now);
        }
    }

    /// Launches the cohorts that are to be launched now.
    pub(super) fn launch_due(&mut self, port: &mut dyn Port, now: Time) {
        loop {
            self.work(port, now);
            if self.device.ready() > 0 {
                // It has no slot: until it has one, what is forming may as well grow.
                return;
            }
            // The device is free: it is first for those who have waited for it and for stragglers.
            if self.device.in_flight() == 0
                && self.backends.unanswered() > 0
                && self.check_waiting(port, now)
            {
                continue;
            }
            match self.next_launch(|key| !self.heavy.has(key), now) {
                Some((id, reason)) => self.launch(port, id, reason, now),
                None if self.heavy_turn(port, now) => {}
                None => return,
            }
        }
    }

    /// A cohort to be launched now, of those that `may` be.
    fn next_launch(
        &self,
        may: impl Fn(CohortKey) -> bool,
        now: Time,
    ) -> Option<(ContextId, LaunchReason)> {
        let outlook = Outlook {
            epochs: &self.epochs,
            draining: self.clients.is_draining(),
            idle: self.device.in_flight() == 0,
        };
        self.former.next_launch(&self.cohorts, outlook, now, may)
    }

    /// Gives a heavy page its turn. Whether it had something to run.
    fn heavy_turn(&mut self, port: &mut dyn Port, now: Time) -> bool {
        while let Some(turn) = self.heavy.next(&self.cohorts) {
            match turn {
                HeavyTurn::Resume(id) => {
                    self.submit(port, id, now);
                    return true;
                }
                HeavyTurn::Launch(page) => {
                    if let Some((id, reason)) = self.next_launch(|key| page.is_of(key), now) {
                        self.heavy.had_turn();
                        self.launch(port, id, reason, now);
                        return true;
                    }
                    let mut forming = self.cohorts.pool.forming();
                    if !forming.any(|id| page.is_of(self.cohorts.pool.key(id))) {
                        self.heavy.forget(page);
                    }
                }
            }
        }
        false
    }

    /// Launches a cohort that was forming: looks up its sessions and runs its first stage.
    fn launch(&mut self, port: &mut dyn Port, id: ContextId, reason: LaunchReason, now: Time) {
        self.cohorts.pool.launch(id);
        let page = self.cohorts.pool.key(id).page;
        if !self.is_wanted(id) {
            return self.over(port, id, now);
        }
        let (cohort, flight) = self.cohorts.pair_mut(id);
        flight.launched = now;
        let metrics = flight.epoch().metrics(page);
        metrics.launches[reason as usize].add(1);
        metrics.cohort_size.record(cohort.len() as u64, 1);
        (self.responder).look_up_sessions(cohort, flight, page, now);
        if self.watches {
            self.responder.begin_cohort(flight, || port.clock(now));
        }
        let expected = flight.epoch().sizes(page).expected();
        if expected.is_none_or(|expected| expected.bytes > LONG_BYTES) {
            // Whose answers are ready is not to wait for these.
            self.clients.flush(port, now);
        }
        self.submit(port, id, now);
    }

    /// Has a cohort's next stage run: now, or, of a page that is heavy, in its turn.
    fn run_stage(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        match self.heavy.has(self.cohorts.pool.key(id)) {
            true => self.heavy.put_off(&mut self.cohorts, id),
            false => self.submit(port, id, now),
        }
    }

    /// Whether a cohort has requests left, when those are given back that nobody waits for.
    #[inline]
    fn is_wanted(&mut self, id: ContextId) -> bool {
        let clients = &self.clients;
        let is_here = |connection| clients.has(connection);
        self.cohorts.is_wanted(id, clients.deserted(), is_here)
    }

    /// Gives a cohort to the device for its next stage, or for the next pass of one.
    fn submit(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        // They may have left while it waited for its turn, for memory or for a slot.
        if !self.is_wanted(id) {
            return self.over(port, id, now);
        }
        self.note(port, id, Doing::Process, now);
        let hurries = self.heavy.has(self.cohorts.pool.key(id));
        self.cohorts.pool.cohort_mut(id).hurries = hurries;
        let submitted = (self.device).submit(port, &mut self.cohorts, id, now);
        if submitted.is_err() {
            self.fail(port, id, now);
        }
    }

    /// A stage is done: answers the lanes that have their answer, and asks the backend for the
    /// others.
    fn stage_done(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        let cohort = self.cohorts.pool.cohort(id);
        if let Some(stage) = cohort.stage.checked_sub(1) {
            let is_whole = !cohort.yields && !cohort.is_between_passes();
            (self.heavy).ran(self.cohorts.pool.key(id), stage, cohort.yields, is_whole);
        }
        while self.answer(port, id, now) {
            match self.cohorts.next_pass(id) {
                NextPass::Over => return self.ask(port, id, now),
                NextPass::Yield => {
                    self.metrics.long_passes.add(1);
                    return self.run_stage(port, id, now);
                }
                NextPass::Again => return self.run_stage(port, id, now),
                NextPass::Wait => return self.wait_for_memory(port, id, now),
                // They are answered.
                NextPass::GivenUp => {}
            }
        }
    }

    /// From now on a cohort does this. Where traces alone ask for it, most cohorts have no request
    /// that is recorded, and to look at the clock for each stage of theirs is not for nothing.
    #[inline]
    fn note(&mut self, port: &dyn Port, id: ContextId, doing: Doing, now: Time) {
        if !self.watches {
            return;
        }
        let stage = self.cohorts.pool.key(id).stage;
        let flight = self.cohorts.flight_mut(id);
        if self.watches_all || flight.span.is_some() {
            flight.timeline.mark(doing, stage, port.clock(now));
        }
    }

    /// A cohort waits for memory that others have.
    fn wait_for_memory(&mut self, port: &dyn Port, id: ContextId, now: Time) {
        self.metrics.memory_waits.add(1);
        self.note(port, id, Doing::Memory, now);
        self.cohorts.wait_for_memory(id, now);
    }

    /// A cohort that waited for memory goes on where it was.
    fn try_again(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        match self.cohorts.pool.cohort(id).is_between_passes() {
            true => self.run_stage(port, id, now),
            false => self.ask(port, id, now),
        }
    }

    /// Asks the backend for the lanes of a cohort that are left.
    fn ask(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        if !self.cohorts.may_ask(id, now) {
            return self.wait_for_memory(port, id, now);
        }
        self.cohorts.found_memory(id);
        self.note(port, id, Doing::Call, now);
        match self.backends.ask(port, &mut self.cohorts, id, now) {
            Asked::Answered => {
                self.take_sessions(id, now);
                self.run_stage(port, id, now);
            }
            // After the next stage nothing would tell that it was the call that failed them.
            Asked::SomeFailed => {
                self.take_sessions(id, now);
                if self.answer(port, id, now) {
                    self.run_stage(port, id, now);
                }
            }
            Asked::Waiting => {}
            // The last stage finishes all lanes; one that is left is the executor's mistake.
            Asked::NoCall => self.fail(port, id, now),
        }
    }

    /// Gives up queries past their deadline, and lets cohorts go on without their stragglers.
    /// Whether any goes on.
    pub(super) fn check_waiting(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let (mut any, mut index) = (false, 0);
        while let Some(&id) = self.cohorts.waiting().get(index) {
            let idle = self.device.in_flight() == 0;
            let heard = self.turn.heard;
            if (self.backends).look_after(&mut self.cohorts, id, idle, heard, now) {
                self.go_on(port, id, now);
                any = true;
            }
            // If it waits no more, the next has its place.
            index += usize::from(self.cohorts.waiting().get(index) == Some(&id));
        }
        any
    }

    /// A cohort waits for no more answers: its next stage.
    fn go_on(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        // Stragglers of several cohorts form one that may still be taking more.
        self.cohorts.launch(id);
        self.backends.wait_over(&mut self.cohorts, id, now);
        self.take_sessions(id, now);
        if self.answer(port, id, now) {
            self.run_stage(port, id, now);
        }
    }

    /// A cohort's call is over: if it was that which asks for sessions, they are known now.
    fn take_sessions(&mut self, id: ContextId, now: Time) {
        let page = self.cohorts.pool.key(id).page;
        let (cohort, flight) = self.cohorts.pair_mut(id);
        if cohort.stage == 1 {
            self.responder.take_sessions(cohort, flight, page, now);
        }
    }

    /// Answers the lanes of a cohort that are finished or failed, and frees its context if none is
    /// left. Whether any is.
    fn answer(&mut self, port: &mut dyn Port, id: ContextId, now: Time) -> bool {
        let (clients, cohorts) = (&mut self.clients, &mut self.cohorts);
        let left = (self.responder).answer_lanes(port, clients, cohorts, id, now);
        if !self.responder.tellings().is_empty() {
            let epoch = cohorts.flight(id).epoch();
            (self.backends).tell_store(port, epoch, self.responder.tellings(), now);
        }
        self.open_files(port, now);
        self.pass_on(port, id, now);
        if !left {
            self.over(port, id, now);
        }
        left
    }

    /// No lane of a cohort is left.
    fn over(&mut self, port: &dyn Port, id: ContextId, now: Time) {
        (self.responder).cohort_over(&self.cohorts, id, || port.clock(now));
        self.cohorts.free(id);
        self.gauges.touch();
    }

    /// Fails the lanes of a cohort that are left.
    fn fail(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        self.cohorts.fail_all(id, LaneError::DeviceFailed);
        let left = self.answer(port, id, now);
        assert!(!left, "a lane that has failed is answered");
    }
}
