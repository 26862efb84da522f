//! How a run ends: the server is told to, or everybody is done; then nothing is left.

use super::Run;
use crate::world::SECOND;
use rhythm_net::Handler;
use rhythm_server::{Drain, DrainOptions};
use std::time::Duration;

impl Run<'_> {
    pub(super) fn drain(&mut self) {
        self.shared.draining = true;
        self.world.note("drain", 0, 0);
        let options = DrainOptions {
            delay: Duration::from_nanos(self.config.drain_delay),
            grace: Duration::from_nanos(self.config.drain_grace),
            timeout: Duration::from_nanos(self.config.drain_limit),
        };
        let now = self.world.time();
        let drain = match self.drain {
            None => Drain::begin(options, now),
            Some(mut drain) => {
                drain.hasten(now);
                drain
            }
        };
        self.drain = Some(drain);
        self.shared.drain = (drain.idle_until.as_nanos(), drain.until.as_nanos());
        self.pipeline.drain(&mut self.world, now, drain);
    }

    /// When all clients are done, everything is given back.
    pub(super) fn quiesce(&mut self) {
        let until = self.world.now + 200 * SECOND;
        self.world.turn_at(until);
        while self.ok() && self.world.now < until {
            self.turn(until, u64::MAX);
        }
        let books = &self.shared.books;
        let live = self.sessions.live() as i64;
        let (least, most) = (books.live - books.fading, books.live + books.unknown);
        let expire = self.shared.explains.sessions_expire;
        if !expire && !(least..=most).contains(&live) || expire && live != 0 {
            self.world
                .fail(format!("{live} sessions instead of {least} to {most}"));
        }
        self.check_empty();
    }

    fn check_empty(&mut self) {
        let pipeline = &self.pipeline;
        let [free, forming, full, busy] = pipeline.contexts();
        let left = pipeline.requests_under_way();
        let open = pipeline.connections();
        if forming + full + busy != 0 || free != self.config.contexts + self.config.waiting {
            self.world
                .fail(format!("contexts left: {:?}", [free, forming, full, busy]));
        }
        if left != 0 {
            self.world.fail(format!("{left} requests left"));
        }
        let files = pipeline.files_under_way();
        if files != 0 {
            self.world.fail(format!("{files} files left"));
        }
        if self.host_owes.get() != 0 {
            let owed = self.host_owes.get();
            self.world.fail(format!("a host owes {owed} answers"));
        }
        let (links, outgoing) = self.world.open_links();
        // A server that ends leaves its own connections to the system.
        if open != 0 || links != 0 || outgoing != 0 && !self.shared.draining {
            let links = format!("{links} and {outgoing} in the world");
            self.world.fail(format!("{open} connections left, {links}"));
        }
    }

    /// The server ends.
    pub(super) fn finish(&mut self) {
        if !self.shared.draining {
            self.drain();
        }
        let until = self.world.now + self.config.drain_limit + 10 * SECOND;
        self.world.turn_at(until);
        while self.ok() && !self.pipeline.finished() {
            if self.world.now >= until {
                return self.stuck("draining does not end");
            }
            self.turn(until, u64::MAX);
        }
        // What is left past the limit is left.
        if self.ok() && self.world.now < self.shared.drain.1 {
            self.check_empty();
        }
    }
}
