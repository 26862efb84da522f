//! All nodes stand still at once, as where they share a disk that does.

use super::World;
use crate::random::Random;
use rhythm_kv::consensus::Node;
use rhythm_net::Time;
use std::time::Duration;

/// How long nodes need to find who leads, to execute something, and stand still: longer than a
/// lease lives.
const SETTLED: Duration = Duration::from_secs(5);
const EXECUTED: Duration = Duration::from_millis(500);
const STILL: Duration = Duration::from_secs(4);

/// Whether a lease is still held whose holder's next sign of life came while all stood still.
pub(crate) fn holds_a_lease_over_a_standstill(seed: u64) -> bool {
    let mut world = World::new(3, Random::new(seed));
    world.until(Time::ZERO + SETTLED);
    let follows = |node: &Option<Node<_>>| node.as_ref().is_some_and(|node| !node.leads());
    let follower = world.seats.iter().position(|seat| follows(&seat.node));
    let follower = follower.expect("one leads, and no more");
    world.sign_of_life(follower);
    let wait = EXECUTED + world.millis(0, 1500);
    world.until(world.now + wait);
    let until = world.now + STILL;
    for seat in &mut world.seats {
        seat.still_until = until;
    }
    world.until(until);
    // It lay in the follower's socket.
    world.sign_of_life(follower);
    world.until(world.now + EXECUTED);
    world.clients.holds_lease()
}

impl World {
    fn sign_of_life(&mut self, at: usize) {
        let (ticket, request) = self.clients.sign_of_life(at, self.now);
        let node = self.seats[at].node.as_mut().expect("it is there");
        node.ask(ticket, request, self.now);
        self.flush(at);
    }
}
