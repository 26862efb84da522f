//! What the ring tells of many tickets at once.

use super::super::super::held::Until;
use super::*;

/// Nothing was confirmed for a while, and each turn had answers for each of these.
#[test]
fn a_connection_is_looked_at_once_however_many_of_its_tickets_are_released_or_broken() {
    const TURNS: usize = 30_000;
    let options = WorkerOptions::default();
    let make = |_: workers::WorkerThread<'_, RingOrder>| Ok::<_, String>(Deaf);
    let backbone: Workers<RingOrder> = workers::start(&options, Vec::new(), make).expect("one");
    let view = Arc::new(View::new(Placement::whole(), 0));
    let inbox = backbone.inboxes()[0].clone();
    let how = (Scheme::Ring, Classes::ALL);
    let mut ring = Ring::new(view, inbox, 0, how, Time::ZERO);
    let ids = [0, 1, 2, 3, 4, 5, 6, 7].map(|slot| ConnectionId::new(slot, 0));
    let mut tickets = Vec::new();
    for _ in 0..TURNS {
        for id in ids {
            let Until::Released(ticket) = ring.holds(id) else {
                panic!("it waits for a ticket");
            };
            tickets.push(ticket);
        }
        ring.turn_ended(crate::ring::Written::default(), Time::ZERO);
    }
    tickets.dedup();
    assert_eq!(tickets.len(), TURNS);
    let broken: Vec<u64> = tickets.iter().copied().step_by(2).collect();
    assert_eq!(ring.broken(&broken), ids);
    assert_eq!(ring.broken(&broken), []);
    let last = tickets[TURNS - 1];
    assert_eq!(ring.released(tickets[1]), ids);
    assert_eq!(ring.released(last), ids);
    assert_eq!(ring.released(last), []);
    // Nobody is told that what is broken was confirmed, and when.
    let confirmed = std::iter::from_fn(|| ring.waited_since(last));
    assert_eq!(confirmed.count(), TURNS / 2);
    backbone.stop();
    backbone.join().expect("it is told to");
}
