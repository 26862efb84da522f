//! Places of clients, and those who wait for one.

use super::Worker;
use crate::shared::{Counter, Place};
use rhythm_net::{ConnectionId, Port, Time};
use std::time::Duration;

/// How often it is seen whether another thread's client has left its place to one who waits.
const PLACES_EVERY: Duration = Duration::from_millis(20);

impl Worker {
    /// A place for a client, if there is one.
    pub(super) fn place(&self) -> Option<Place> {
        let most = self.shared.settings.connections_max as usize;
        self.shared.connected.enter(most)
    }

    /// A client waits for a place.
    pub(super) fn wait_for_place(&mut self, id: ConnectionId, now: Time) {
        self.waiting.push_back(id);
        self.look_for_places_at = Some(now + PLACES_EVERY);
        self.note_waiting(now);
    }

    /// Lets clients in who wait, as long as there are places.
    pub(super) fn let_waiting_in(&mut self, port: &mut dyn Port, now: Time) {
        let mut count = 0;
        while !self.waiting.is_empty()
            && let Some(place) = self.place()
            && let Some(id) = self.waiting.pop_front()
        {
            self.let_in(id, place, now);
            port.resume(id);
            count += 1;
        }
        if count > 0 && self.ends_at.is_some() {
            // What they sent while they waited is not read yet.
            self.look_again(count);
        }
        let waits = !self.waiting.is_empty();
        self.look_for_places_at = waits.then_some(now + PLACES_EVERY);
        self.note_waiting(now);
    }

    /// Clients came to wait, or do so no more.
    pub(super) fn note_waiting(&mut self, now: Time) {
        if self.waiting.is_empty() {
            if let Some((since, _)) = self.waits.take() {
                let micros = now.since(since).as_micros() as u64;
                self.count(Counter::ListenDisabledTime, micros);
            }
        } else if self.waits.is_none() {
            self.count(Counter::ListenDisabled, 1);
            self.waits = Some((now, self.shared.connected.wait()));
        }
    }
}
