//! Workers of which one hangs.

use rhythm_net::workers::{Entrance, Inbox, Worker, WorkerOptions, start};
use rhythm_net::{Handler, Port, Time};
use rhythm_observe::hangs::Hangs;
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Does nothing, or what it is told.
struct Idle;

impl Handler for Idle {}

/// Says that it hangs, and hangs until that is over.
struct Hang(Sender<()>, Receiver<()>);

impl Worker for Idle {
    type Command = Hang;

    fn obey(&mut self, _: &mut dyn Port, Hang(hangs, over): Hang, _: Time) {
        hangs.send(()).expect("the test waits");
        over.recv().expect("the test ends it");
    }
}

#[test]
fn the_one_that_hangs_is_named_until_it_goes_on() {
    let options = WorkerOptions {
        threads: 2,
        ..WorkerOptions::default()
    };
    let entrances: Vec<Entrance> = Vec::new();
    let started = start::<Idle, Infallible, _>(&options, entrances, |_| Ok(Idle));
    let workers = started.expect("they start");
    let inboxes: &[Inbox<Hang>] = workers.inboxes();
    let hangs = Hangs::default();
    let looks = || (0..11).for_each(|_| hangs.look(inboxes));
    looks();
    assert_eq!(hangs.ailment(inboxes), None);
    let ((says, said), (ends, over)) = (channel(), channel());
    inboxes[1].send(Hang(says, over));
    said.recv().expect("it hangs");
    assert_eq!(hangs.ailment(inboxes), None);
    looks();
    let ailment = hangs.ailment(inboxes).expect("one hangs");
    assert!(ailment.starts_with("worker 1 hangs"), "{ailment}");
    // It is over: the next command is obeyed in another turn.
    ends.send(()).expect("it waits");
    let ((says, said), (ends, over)) = (channel(), channel());
    inboxes[1].send(Hang(says, over));
    said.recv().expect("it goes on");
    hangs.look(inboxes);
    ends.send(()).expect("it waits");
    assert_eq!(hangs.ailment(inboxes), None);
    workers.stop();
    workers.join().expect("they end");
}
