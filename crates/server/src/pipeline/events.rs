//! Events: what each that the driver tells of sets going in the pipeline.

use super::Pipeline;
use crate::owner::ConnectionOwner;
use rhythm_http::Hosts;
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Port, Time, Token};

impl Handler for Pipeline {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        self.begin_event(port, now);
        self.metrics.accepted.add(1);
        self.clients.opened(accepted, now);
    }

    fn crowded(&mut self, port: &mut dyn Port, now: Time) {
        self.begin_event(port, now);
        let yielded = self.clients.make_room(port, now);
        self.metrics.yielded.add(yielded as u64);
    }

    fn listeners_closed(&mut self) {
        self.ending.nobody_comes = true;
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.begin_event(port, now);
        if self.read(port, now, |clients| clients.read(id, bytes)) {
            self.launch_full(port, now);
        } else if self.is_owners(|owner| owner.received(port, id, bytes, now)) {
            // A backend's, or the device's.
        } else if let Some(host) = self.host_path.hosts.owner(id) {
            self.host_event(port, now, |hosts, event| {
                hosts.received(host, event, id, bytes);
            });
        } else if !self.clients.has(id) {
            // Nobody's: of a pipeline before this one, that panicked. A client's else, which takes
            // no more requests: what it sends is of no interest.
            port.abort(id);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.begin_event(port, now);
        if self.clients.ended(port, id, how, now) {
            // A client's.
        } else if self.is_owners(|owner| owner.ended(port, id, how, now)) {
            // A backend's, or the device's.
        } else if let Some(host) = self.host_path.hosts.owner(id) {
            self.host_event(port, now, |hosts, event| hosts.ended(host, event, id, how));
        } else {
            port.abort(id);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.begin_event(port, now);
        if self.clients.writable(port, id, now) {
            // A client's.
        } else if self.is_owners(|owner| owner.writable(port, id, now)) {
            // A backend's, or the device's.
        } else if let Some(host) = self.host_path.hosts.owner(id) {
            self.host_event(port, now, |hosts, event| hosts.writable(host, event, id));
        }
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.begin_event(port, now);
        if self.is_owners(|owner| owner.connected(port, id, now)) {
            // A backend's, or the device's.
        } else if let Some(host) = self.host_path.hosts.owner(id) {
            self.host_event(port, now, |hosts, event| hosts.connected(host, event, id));
        }
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        self.begin_event(port, now);
        // If a device has finished something, `idle` looks.
        self.host_event(port, now, |hosts, event| hosts.notified(event, token));
    }

    fn tick(&mut self, port: &mut dyn Port, heard: Time) {
        self.begin(port, heard);
        self.turn.heard = heard;
        if self.due_at().is_some_and(|at| at <= heard) {
            self.gauges.touch();
        }
        let mut expired = Vec::new();
        self.clients.expire(port, heard, &mut expired);
        for id in expired {
            let part = self.clients.part(id);
            let epoch = self.epochs.of_part(part);
            self.responder.keep_part(
                epoch.map(|epoch| epoch.index),
                part,
                self.clients.came_by(id),
            );
            let site = epoch.map(|epoch| &*epoch.site);
            (self.responder).refuse(port, &mut self.clients, site, id, 408.into(), heard);
        }
        self.backends.tick(port, heard);
        self.device.tick(port, heard);
        self.host_event(port, heard, Hosts::tick);
        // What begins now has its time from now on.
        let now = self.turn.now;
        self.work(port, now);
        self.check_waiting(port, now);
        self.ending.tick(port, &mut self.clients, now);
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.begin(port, now);
        loop {
            self.answer_due(port, now);
            // Who asked for one thing in this turn, and is answered by now, did not wait for these.
            if !self.take_up(port, now) {
                break;
            }
        }
        (self.former).forget_gone(self.clients.open(), |id| self.clients.has(id));
        self.set_gauges(port, now);
    }

    fn turn_ended(&mut self, end: Time) {
        self.responder.turn_ended(&self.clients, end);
        self.responder.tell_slow(&self.clients, end);
        self.heavy.turn_ended();
        let took = self.turn.ended(end, &self.metrics);
        self.clients.turn_is_over(took);
    }

    fn wake_at(&self) -> Option<Time> {
        [self.due_at(), self.gauges.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    fn finished(&self) -> bool {
        let requests = self.cohorts.requests();
        (self.ending).is_over(&self.clients, requests, self.turn.now)
    }
}

impl Pipeline {
    /// The start of an event that others set going: whatever comes of it, gauges may show it, and
    /// the log may tell of it.
    fn begin_event(&mut self, port: &mut dyn Port, now: Time) {
        self.begin(port, now);
        self.gauges.touch();
    }

    /// When something is due, gauges aside.
    fn due_at(&self) -> Option<Time> {
        let forming = match self.device.ready() {
            0 if self.heavy.is_waiting(&self.cohorts) => Some(self.turn.now),
            0 => self.former.wake_at(&self.cohorts),
            _ => None,
        };
        let waiting = self.cohorts.wait_until(self.device.in_flight() == 0);
        [
            self.clients.wake_at(),
            forming,
            waiting,
            self.cohorts.short_until(),
            self.backends.wake_at(),
            self.device.wake_at(),
            self.host_path.hosts.wake_at(),
            self.ending.wake_at(&self.clients),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Tells the backends and the link to the device of an event until one says that it is its own.
    /// Whether one does.
    fn is_owners(&mut self, mut tell: impl FnMut(&mut dyn ConnectionOwner) -> bool) -> bool {
        self.backends.owners().any(&mut tell) || tell(self.device.owner())
    }
}
