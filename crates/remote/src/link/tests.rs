//! A worker's link to a node that the test plays.

use super::node::{LATER_AFTER, Node};
use super::{LinkOptions, Phase, Remote};
use crate::bundle::{Bundle, Bundles, digest_of};
use crate::figures::Figures;
use crate::places::{Place, Places, Slot};
use crate::wire::bytes::Bounded;
use crate::wire::frame::Incoming;
use crate::wire::message::{self, Digest, MESSAGE_MAX, Message, VERSION};
use crate::wire::{columns, outcome};
use rhythm_engine::cohort::{LaneState, Pass};
use rhythm_engine::device::conformance::{Dice, make_cohort, make_service};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::{Executor, LaneLimits, Work};
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_net::testing::TestPort;
use rhythm_net::{ConnectionId, Peer, Time};
use rhythm_protocol::scan::Level;
use rhythm_server::{ConnectionOwner, DeviceLink};
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(1);

/// What a front end says to a node that knows it.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Offer(Digest),
    Sources,
    Work(u64),
}

/// The link, and the node's end of its connection.
struct Played {
    port: TestPort,
    /// What the link has said on its connection.
    input: Incoming,
    link: Remote,
    bundles: Arc<Bundles>,
    now: Time,
}

fn place() -> Place {
    let peer = Peer::tcp("node", ([127, 0, 0, 1], 7300).into());
    Place { peer, key: None }
}

/// A service of two pages, with sources that go by this name.
fn serve(bundles: &Bundles, name: &str) -> (Arc<Service>, Digest) {
    let made = make_service(1);
    let service = Arc::new(Service {
        pages: vec![made.pages[0].clone(), made.pages[0].clone()],
        fragments: made.fragments.clone(),
        ..Service::default()
    });
    let mut sources = Sources::default();
    sources.files.insert(name.to_owned(), String::new());
    let bundle = Bundle::new(&sources, LaneLimits::default()).expect("it is small");
    let digest = bundle.digest;
    bundles.add(&service, bundle);
    (service, digest)
}

fn work(service: &Arc<Service>, page: usize) -> Work {
    Work {
        service: Arc::clone(service),
        page,
        cohort: make_cohort(&service.pages[page], 2, &mut Dice::new(1)),
        token: 0,
    }
}

impl Played {
    fn new(bundles: Arc<Bundles>) -> Played {
        let options = LinkOptions {
            timeout: TIMEOUT,
            in_flight_max: 8,
        };
        let figures = Arc::new(Figures::new(vec!["node".to_owned()]));
        let places = Places::fixed(vec![place()]);
        let local = Box::new(HostExecutor::new(LaneLimits::default(), Level::active()));
        let mut played = Played {
            port: TestPort::default(),
            input: Incoming::default(),
            link: Remote::new(&places, options, Arc::clone(&bundles), figures, local),
            bundles,
            now: Time::ZERO,
        };
        played.greet();
        played
    }

    fn connection(&self) -> ConnectionId {
        ConnectionId::new(self.port.connects, 0)
    }

    /// The link connects, and both ends are known to each other.
    fn greet(&mut self) {
        self.link.tick(&mut self.port, self.now);
        let id = self.connection();
        self.port.at(id).open = true;
        self.link.connected(&mut self.port, id, self.now);
        self.say(Message::Greeting {
            version: VERSION,
            nonce: [0; 32],
            has_key: false,
            in_flight: 8,
        });
        let hello = std::mem::take(&mut self.port.at(id).sent);
        self.input = Incoming::default();
        self.input.extend(&hello);
        let hello = message::next(&mut self.input, MESSAGE_MAX);
        assert!(
            matches!(hello, Ok(Some(Message::Hello { .. }))),
            "{hello:?}"
        );
        self.say(Message::Welcome { proof: [0; 32] });
    }

    /// The node says something.
    fn say(&mut self, message: Message<'_>) {
        let mut bytes = Vec::new();
        message::put(message, &mut bytes);
        let id = self.connection();
        self.link.received(&mut self.port, id, &bytes, self.now);
    }

    /// What the link has said since it was asked last.
    fn said(&mut self) -> Vec<Said> {
        let id = self.connection();
        let sent = std::mem::take(&mut self.port.at(id).sent);
        self.input.extend(&sent);
        let mut all = Vec::new();
        while let Some(message) = message::next(&mut self.input, MESSAGE_MAX).expect("messages") {
            all.push(match message {
                Message::Offer { digest } => Said::Offer(digest),
                Message::Sources { .. } => Said::Sources,
                Message::Work { token, .. } => Said::Work(token),
                other => panic!("{other:?}"),
            });
        }
        self.input.tidy();
        assert_eq!(self.input.len(), 0);
        all
    }

    /// The node takes the service that it is offered, which it has compiled.
    fn accept(&mut self, service: &Service, digest: Digest) {
        assert_eq!(self.said(), [Said::Offer(digest)]);
        let programs = digest_of(service);
        self.say(Message::Ready { digest, programs });
    }

    /// The node says something, of which a bit is changed on its way.
    fn say_changed(&mut self, message: Message<'_>, at: usize) {
        let mut bytes = Vec::new();
        message::put(message, &mut bytes);
        bytes[at] ^= 4;
        let id = self.connection();
        self.link.received(&mut self.port, id, &bytes, self.now);
    }

    fn submit(&mut self, work: Work) {
        let taken = self.link.submit(&mut self.port, work, self.now);
        taken.expect("there is room");
    }

    /// So much later, and the link looks.
    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.link.tick(&mut self.port, self.now);
    }

    /// The node runs the work that it was sent, but so many of its lanes at most. How many came.
    fn run(&mut self, service: &Arc<Service>, most: usize) -> usize {
        let id = self.connection();
        let sent = std::mem::take(&mut self.port.at(id).sent);
        self.input.extend(&sent);
        let message = message::next(&mut self.input, MESSAGE_MAX);
        let Ok(Some(Message::Work { token, cohort, .. })) = message else {
            panic!("{message:?}");
        };
        let (page, mut cohort) = columns::take(service, cohort).expect("a cohort");
        let came = cohort.len();
        (cohort.lanes.iter_mut().skip(most)).for_each(|state| *state = LaneState::Later);
        let mut node = HostExecutor::new(LaneLimits::default(), Level::active());
        let work = Work {
            service: Arc::clone(service),
            page,
            cohort,
            token,
        };
        Executor::submit(&mut node, work).expect("it is idle");
        let mut done = Vec::new();
        Executor::poll(&mut node, &mut done);
        let work = done.pop().expect("it was run");
        let mut bytes = Vec::new();
        let put = |to: &mut Bounded<'_>| outcome::put(work.program(), &work.cohort, to);
        assert!(message::put_done(token, &mut bytes, put));
        self.link.received(&mut self.port, id, &bytes, self.now);
        came
    }

    fn done(&mut self) -> usize {
        let mut done = Vec::new();
        self.link.poll(&mut done);
        done.len()
    }
}

#[test]
fn a_service_that_works_were_declined_for_is_offered_once() {
    let bundles = Arc::new(Bundles::default());
    let (service, digest) = serve(&bundles, "a");
    let mut played = Played::new(bundles);
    played.accept(&service, digest);
    (0..3).for_each(|_| played.submit(work(&service, 0)));
    assert_eq!(played.said(), [0, 1, 2].map(Said::Work));
    // It was evicted for others.
    for token in 0..2 {
        played.say(Message::Declined {
            token,
            is_unknown: true,
        });
    }
    assert_eq!(played.said(), [Said::Offer(digest)]);
    played.say(Message::Send { digest });
    played.say(Message::Declined {
        token: 2,
        is_unknown: true,
    });
    assert_eq!(played.said(), [Said::Sources]);
    let programs = digest_of(&service);
    played.say(Message::Ready { digest, programs });
    played.submit(work(&service, 0));
    assert_eq!(played.said(), [Said::Work(3)]);
    assert!(played.port.aborted.is_empty());
    assert_eq!(played.done(), 3, "run here");
}

#[test]
fn a_node_may_answer_of_a_service_that_is_served_no_more() {
    let bundles = Arc::new(Bundles::default());
    let (first, of_first) = serve(&bundles, "a");
    let mut played = Played::new(bundles);
    assert_eq!(played.said(), [Said::Offer(of_first)]);
    // Two reloads, before the node says anything.
    let (second, of_second) = serve(&played.bundles, "b");
    drop(first);
    played.submit(work(&second, 0));
    assert_eq!(played.said(), [Said::Offer(of_second)]);
    played.say(Message::Send { digest: of_first });
    assert_eq!(played.said(), [Said::Sources]);
    let (third, of_third) = serve(&played.bundles, "c");
    drop(second);
    played.submit(work(&third, 0));
    assert_eq!(played.said(), [Said::Offer(of_third)]);
    played.say(Message::Unfit {
        digest: of_first,
        why: "no",
    });
    played.say(Message::Ready {
        digest: of_second,
        programs: [0; 32],
    });
    assert!(played.port.aborted.is_empty(), "it did nothing wrong");
}

#[test]
fn what_is_refused_for_now_is_offered_again() {
    let bundles = Arc::new(Bundles::default());
    let (service, digest) = serve(&bundles, "a");
    let mut played = Played::new(bundles);
    assert_eq!(played.said(), [Said::Offer(digest)]);
    let why = "too much to do";
    played.say(Message::Later { digest, why });
    assert!(!played.link.has_none(), "it may come");
    played.submit(work(&service, 0));
    assert_eq!(played.said(), []);
    assert_eq!(played.done(), 1);
    played.now += LATER_AFTER;
    played.submit(work(&service, 0));
    assert!(!played.link.has_none(), "it is offered again");
    played.accept(&service, digest);
    played.submit(work(&service, 0));
    assert_eq!(played.said(), [Said::Work(0)]);
    // Only of what it was offered.
    played.say(Message::Later { digest, why });
    assert_eq!(played.port.aborted.len(), 1);
}

#[test]
fn what_is_not_what_was_said_costs_the_connection_and_is_counted() {
    let bundles = Arc::new(Bundles::default());
    let (service, digest) = serve(&bundles, "a");
    let mut played = Played::new(bundles);
    let declined = Message::Declined {
        token: 0,
        is_unknown: false,
    };
    // A changed length, checksum, kind and token; and what the node says of what it was told.
    for (round, at) in [0, 5, 12, 14, usize::MAX].into_iter().enumerate() {
        played.accept(&service, digest);
        played.submit(work(&service, 0));
        assert_eq!(played.said(), [Said::Work(round as u64)]);
        match at {
            usize::MAX => played.say(Message::Corrupt),
            at => played.say_changed(declined, at),
        }
        assert_eq!(played.port.aborted.len(), round + 1);
        assert_eq!(played.link.figures.corrupt(), round as u64 + 1);
        let said = played.link.figures.said().concat();
        let why = ["checksum", "what it was told"][usize::from(at == usize::MAX)];
        assert!(said.contains(why), "{said}");
        assert_eq!(played.done(), 1, "run here");
        // It does what it cannot: that is not tried again at once.
        played.now += Duration::from_secs(4);
        played.link.tick(&mut played.port, played.now);
        assert_eq!(played.port.connects as usize, round + 1);
        played.now += Duration::from_secs(1);
        played.greet();
    }
}

#[test]
fn a_stage_that_is_late_again_and_again_stays_here() {
    let bundles = Arc::new(Bundles::default());
    let (service, digest) = serve(&bundles, "a");
    let mut played = Played::new(bundles);
    for round in 0..2 {
        played.accept(&service, digest);
        // What waits behind it is late, too, for no fault of its own.
        played.submit(work(&service, 0));
        played.submit(work(&service, 1));
        assert_eq!(played.said().len(), 2, "{round}");
        played.wait(TIMEOUT);
        assert_eq!(played.port.aborted.len(), round + 1);
        played.now += Duration::from_secs(1);
        played.greet();
    }
    played.accept(&service, digest);
    assert_eq!(played.done(), 4, "run here");
    played.submit(work(&service, 0));
    assert_eq!(played.said(), []);
    assert_eq!(played.done(), 1);
    played.submit(work(&service, 1));
    assert_eq!(played.said(), [Said::Work(4)]);
    // Not for ever.
    played.now += Duration::from_secs(5);
    played.submit(work(&service, 0));
    assert_eq!(played.said(), [Said::Work(5)]);
}

#[test]
fn no_more_lanes_go_with_a_pass_than_twice_those_that_the_last_one_ran() {
    let bundles = Arc::new(Bundles::default());
    let (service, digest) = serve(&bundles, "a");
    let mut played = Played::new(bundles);
    played.accept(&service, digest);
    let mut work = work(&service, 0);
    work.cohort = make_cohort(&service.pages[0], 64, &mut Dice::new(1));
    work.cohort.lanes.fill(LaneState::Active);
    let mut went = Vec::new();
    loop {
        played.submit(work);
        // Others take the node's time, and then they do not.
        let most = [2, 3, 1][..].get(went.len()).copied();
        went.push(played.run(&service, most.unwrap_or(usize::MAX)));
        let mut done = Vec::new();
        played.link.poll(&mut done);
        work = done.pop().expect("its answer came");
        if work.cohort.next_pass() == Pass::Over {
            break;
        }
        assert!(went.len() < 64, "{went:?}");
    }
    assert_eq!(went, [64, 4, 6, 2, 4, 8, 16, 28]);
    assert_eq!(played.link.figures.here(), 0);
}

#[test]
fn a_node_is_forgiven_once_it_was_there_for_a_while() {
    let mut port = TestPort::default();
    let mut node = Node::new(Slot {
        since: 0,
        place: Some(place()),
    });
    let mut now = Time::ZERO;
    let mut lost_after = |good: Duration| {
        now += good;
        node.did_well(now);
        node.leave(&mut port, false, now);
        match node.phase {
            Phase::Away { until } => until.since(now),
            other => panic!("{other:?}"),
        }
    };
    let second = Duration::from_secs(1);
    let waits = [second, second, second, 10 * second].map(&mut lost_after);
    assert_eq!(waits.map(|wait| wait.as_millis()), [100, 200, 400, 100]);
}
