//! When all is quiet again, everything has to be well.

use super::{Counts, QUIET, Seat, World};
use crate::clients::Clients;
use crate::random::Random;
use rhythm_kv::consensus::Node;
use rhythm_net::Time;
use std::time::Duration;

/// How long nodes on a network on which everything takes long need to find who leads.
const SETTLED: Duration = Duration::from_secs(15);
/// How long they take at most to answer then: who waits so long is told that they are out of reach,
/// and not before.
const ANSWERED: Duration = Duration::from_secs(5);
/// How often each is asked.
const ASKED: u64 = 3;

impl World {
    pub(super) fn end_trouble(&mut self) {
        self.has_trouble = false;
        self.deaf.clear();
        (self.lost, self.repeated) = (0, 0);
        for seat in &mut self.seats {
            seat.disk.set_well();
        }
    }

    /// All is well, and was.
    pub(super) fn check(mut self) -> Counts {
        let mut keyspaces = Vec::new();
        let mut statuses = Vec::new();
        for seat in &mut self.seats {
            let node = seat.node.as_mut().expect("all are there again");
            let status = node.status();
            assert_eq!(status.applied, status.committed, "{status:?}");
            statuses.push((status.leader, status.term, status.applied));
            keyspaces.push(node.keyspace().clone());
        }
        assert!(statuses[0].0 > 0, "one leads when all is quiet");
        assert!(
            statuses.windows(2).all(|two| two[0] == two[1]),
            "{statuses:?}"
        );
        assert!(
            keyspaces.windows(2).all(|two| two[0] == two[1]),
            "nodes differ"
        );
        const { assert!(Clients::ttl().as_secs() * 3 < QUIET.as_secs()) };
        let own = keyspaces[0].get(Clients::own());
        assert_eq!(own, None, "the lease that it was stored with is over");
        self.clients.check();
        self.counts
    }

    /// Also where everything takes long, everything is answered.
    pub(super) fn serve_slowly(&mut self) {
        self.seats.iter().for_each(|seat| seat.disk.live_on());
        // Who replaces a node waits for the others several times.
        for _ in 0..3 {
            self.until(self.now + SETTLED);
            if self.replacement.is_none() {
                break;
            }
        }
        self.until(self.now + SETTLED);
        // A node that is sent a snapshot cannot tell what came of its writes, and says so.
        let answered = |counts: &Counts| counts.changed + counts.read + counts.perhaps;
        let before = answered(&self.counts);
        for at in 0..self.seats.len() {
            for _ in 0..ASKED {
                let (ticket, request) = self.clients.ask(at, &mut self.random);
                let node = self.seats[at].node.as_mut().expect("all are there again");
                node.ask(ticket, request, self.now);
            }
            self.flush(at);
        }
        self.until(self.now + ANSWERED);
        let asked = ASKED * self.seats.len() as u64;
        assert_eq!(answered(&self.counts) - before, asked, "{:?}", self.counts);
        self.counts.slow += 1;
        self.is_slow = false;
    }
}

/// How long nobody's writes are executed when who leads is told to end, or dies, while all else is
/// well.
pub(crate) fn without_leader(seed: u64, dies: bool) -> Duration {
    let mut world = World::new(3, Random::new(seed));
    world.until(Time::ZERO + SETTLED);
    let leads = |seat: &Seat| seat.node.as_ref().is_some_and(Node::leads);
    let leader = world.seats.iter().position(leads).expect("one leads");
    let start = world.now;
    match dies {
        true => world.die(leader),
        false => world.leave(leader),
    }
    world.clients.unconfirm();
    let other = (leader + 1) % 3;
    let (ticket, request) = world.clients.confirm(other);
    let node = world.seats[other].node.as_mut().expect("it is there");
    node.ask(ticket, request, start);
    world.flush(other);
    while !world.clients.is_confirmed() {
        world.until(world.now + Duration::from_millis(1));
        assert!(world.now.since(start) < QUIET, "nobody leads");
    }
    world.now.since(start)
}
