//! A node, and front ends that the test plays.

use super::{Access, ExecutorFactory, Node, NodeOptions};
use crate::bundle::{Bundle, StageMax};
use crate::wire::bytes::Put;
use crate::wire::frame::Incoming;
use crate::wire::message::{self, Digest, MESSAGE_MAX, Message, VERSION};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::source::Sources;
use rhythm_net::Waker;
use rhythm_protocol::scan::Level;
use sha2::{Digest as _, Sha256};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const CONNECTIONS_MAX: usize = 16;
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that ends with the test.
struct Lent(Option<Node>);

impl Lent {
    fn start(held_max: usize) -> Lent {
        let factory: ExecutorFactory = Arc::new(|limits: LaneLimits, _: Waker| {
            Ok(Box::new(HostExecutor::new(limits, Level::active())))
        });
        let options = NodeOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            threads: 1,
            access: Access::Anybody,
            in_flight: 4,
            connections_max: CONNECTIONS_MAX,
            held_max,
            stage_max: StageMax::default(),
        };
        Lent(Some(Node::start(&options, factory).expect("it starts")))
    }

    fn address(&self) -> SocketAddr {
        self.0.as_ref().expect("it runs").address()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(node) = self.0.take() {
            node.stopper()();
            node.join().expect("it ends as it was told");
        }
    }
}

struct Front {
    stream: TcpStream,
    input: Incoming,
}

impl Front {
    /// One that has said this, and was answered within this time.
    fn saying(
        hello: Message<'_>,
        at: SocketAddr,
        patience: Duration,
    ) -> io::Result<(Front, Heard)> {
        let stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(patience))?;
        let input = Incoming::default();
        let mut front = Front { stream, input };
        front.hear()?;
        front.say(hello);
        let heard = front.hear()?;
        Ok((front, heard))
    }

    /// One that the node knows, or will not within this time.
    fn connect(at: SocketAddr, patience: Duration) -> io::Result<Front> {
        let hello = Message::Hello {
            version: VERSION,
            nonce: [0; 32],
            proof: [0; 32],
        };
        Ok(Front::saying(hello, at, patience)?.0)
    }

    fn say(&mut self, message: Message<'_>) {
        let mut bytes = Vec::new();
        message::put(message, &mut bytes);
        self.stream.write_all(&bytes).expect("the node reads");
    }

    /// The next message.
    fn hear(&mut self) -> io::Result<Heard> {
        let mut bytes = vec![0; 64 << 10];
        loop {
            if let Some(message) = message::next(&mut self.input, MESSAGE_MAX).expect("a message") {
                return Ok(heard(message));
            }
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.input.extend(&bytes[..length]),
            }
        }
    }

    /// A stage of a page that reads nothing.
    fn send_work(&mut self, token: u64, digest: Digest, page: u32, lanes: u32) {
        let mut cohort = Vec::new();
        [page, 0, lanes]
            .into_iter()
            .for_each(|it| cohort.put_u32(it));
        self.say(Message::Work {
            token,
            digest,
            cohort: &cohort,
        });
    }

    /// What the node makes of a service, in its first word.
    fn offer(&mut self, bundle: &Bundle) -> Heard {
        self.say(Message::Sources {
            bytes: &bundle.bytes,
        });
        self.hear().expect("it says what comes of it")
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Ready,
    Send(Digest),
    Later(String),
    Unfit(String),
    Done(u64),
    Refused(String),
    Corrupt,
    Other(String),
}

fn heard(message: Message<'_>) -> Heard {
    match message {
        Message::Ready { .. } => Heard::Ready,
        Message::Send { digest } => Heard::Send(digest),
        Message::Later { why, .. } => Heard::Later(why.to_owned()),
        Message::Unfit { why, .. } => Heard::Unfit(why.to_owned()),
        Message::Done { token, .. } => Heard::Done(token),
        Message::Refused { why } => Heard::Refused(why.to_owned()),
        Message::Corrupt => Heard::Corrupt,
        other => Heard::Other(format!("{other:?}")),
    }
}

/// Two pages: one of much text, 5 MB a lane, and one of much work.
const LONG: u32 = 0;
const SLOW: u32 = 1;
/// So many answers of much text are more than sockets have room for.
const MANY: u32 = 8;

fn bundle(limits: LaneLimits) -> Bundle {
    let mut sources = Sources::default();
    for (name, text) in [
        ("service.toml", ""),
        (
            "pages/long.html",
            "+++\nroute = \"GET /long\"\n+++\n\
             {% for i in range(120000) %}{{ i }} and so on, as long as lines are\n{% endfor %}",
        ),
        (
            "pages/slow.html",
            "+++\nroute = \"GET /slow\"\n+++\n\
             {% for i in range(120000) %}{% if i % 10007 == 5 %}{{ i }}{% endif %}{% endfor %}",
        ),
    ] {
        sources.files.insert(name.to_owned(), text.to_owned());
    }
    Bundle::new(&sources, limits).expect("it is small")
}

#[test]
fn who_does_not_take_its_answers_makes_way_for_others() {
    let node = Lent::start(8 << 20);
    let bundle = bundle(LaneLimits::default());
    let mut fronts = [(); 3].map(|()| Front::connect(node.address(), PATIENCE).expect("room"));
    let [slow, deaf, other] = &mut fronts;
    assert_eq!(slow.offer(&bundle), Heard::Ready);
    slow.send_work(0, bundle.digest, SLOW, 256);
    thread::sleep(Duration::from_millis(50));
    // While that is run these come, and are taken together.
    deaf.send_work(1, bundle.digest, LONG, MANY);
    other.send_work(2, bundle.digest, LONG, 1);
    assert_eq!(slow.hear().expect("an answer"), Heard::Done(0));
    // It begins to be answered, and takes no more than that.
    deaf.stream.read_exact(&mut [0]).expect("an answer begins");
    let start = Instant::now();
    assert_eq!(other.hear().expect("an answer"), Heard::Done(2));
    // Well before it is ended for what it does not take, and before the other gives the node up.
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
    let mut rest = Vec::new();
    let ended = deaf.stream.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.len() < 32 << 20, "{ended:?}");
}

#[test]
fn who_takes_its_answers_is_waited_for() {
    let node = Lent::start(2 << 20);
    let bundle = bundle(LaneLimits::default());
    let mut slow = Front::connect(node.address(), PATIENCE).expect("room");
    let mut fronts = [(); 3].map(|()| Front::connect(node.address(), PATIENCE).expect("room"));
    assert_eq!(slow.offer(&bundle), Heard::Ready);
    slow.send_work(0, bundle.digest, SLOW, 256);
    thread::sleep(Duration::from_millis(50));
    // While that is run these come, and are taken together: each answer is more than the memory.
    for front in &mut fronts {
        front.send_work(1, bundle.digest, LONG, 2);
    }
    assert_eq!(slow.hear().expect("an answer"), Heard::Done(0));
    thread::scope(|scope| {
        for front in &mut fronts {
            scope.spawn(|| assert_eq!(front.hear().expect("an answer"), Heard::Done(1)));
        }
    });
}

#[test]
fn what_is_not_what_was_said_is_told_and_not_done() {
    let node = Lent::start(64 << 20);
    let bundle = bundle(LaneLimits::default());
    let mut front = Front::connect(node.address(), PATIENCE).expect("room");
    assert_eq!(front.offer(&bundle), Heard::Ready);
    let mut cohort = Vec::new();
    [LONG, 0, 1].into_iter().for_each(|it| cohort.put_u32(it));
    let mut bytes = Vec::new();
    let work = Message::Work {
        token: 1,
        digest: bundle.digest,
        cohort: &cohort,
    };
    message::put(work, &mut bytes);
    // Another token: by what it says, it is a work as any.
    let at = bytes.len() - cohort.len() - bundle.digest.len() - 1;
    bytes[at] ^= 1;
    front.stream.write_all(&bytes).expect("the node reads");
    assert_eq!(front.hear().expect("it says why"), Heard::Corrupt);
    assert!(front.hear().is_err(), "it has ended the connection");
}

#[test]
fn who_is_of_another_version_is_told_what_helps() {
    let node = Lent::start(64 << 20);
    let (nonce, proof, older) = ([0; 32], [0; 32], "0.0.1");
    for (hello, told) in [
        (
            Message::Hello {
                version: older,
                nonce,
                proof,
            },
            "update the older one",
        ),
        (
            Message::Foreign {
                protocol: 2,
                version: older,
            },
            "(protocol 2)",
        ),
    ] {
        let said = Front::saying(hello, node.address(), PATIENCE);
        match said.expect("it answers").1 {
            Heard::Refused(why) => {
                assert!(why.contains("same version") && why.contains(told), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The service with limits of its own: another one, and another set of limits.
fn bundle_of(turns_max: usize) -> Bundle {
    bundle(LaneLimits {
        turns_max,
        ..LaneLimits::default()
    })
}

#[test]
fn what_passes_is_told_as_such() {
    let node = Lent::start(64 << 20);
    let mut front = Front::connect(node.address(), PATIENCE).expect("room");
    for turns_max in 1..=4 {
        assert_eq!(front.offer(&bundle_of(turns_max)), Heard::Ready);
    }
    let refused = |front: &mut Front, turns_max| match front.offer(&bundle_of(turns_max)) {
        Heard::Later(why) => assert!(why.contains("[limits]"), "{why}"),
        other => panic!("{other:?}"),
    };
    refused(&mut front, 5);
    // Others have their share of them, up to what is fair.
    let mut other = Front::connect(node.address(), PATIENCE).expect("room");
    for turns_max in 6..=7 {
        assert_eq!(other.offer(&bundle_of(turns_max)), Heard::Ready);
    }
    refused(&mut other, 8);
    refused(&mut front, 9);
}

#[test]
fn one_service_of_a_front_end_is_compiled_at_a_time() {
    let node = Lent::start(64 << 20);
    let bundles = [1, 2, 3].map(bundle_of);
    let mut front = Front::connect(node.address(), PATIENCE).expect("room");
    for Bundle { digest, .. } in &bundles {
        front.say(Message::Offer { digest: *digest });
    }
    for bundle in &bundles {
        let asked = front.hear().expect("it is asked");
        assert_eq!(asked, Heard::Send(bundle.digest));
        assert_eq!(front.offer(bundle), Heard::Ready);
    }
    // Who sends more than it was asked for is told to come later.
    let mut both = Vec::new();
    for bundle in [10, 11].map(bundle_of) {
        let bytes = &bundle.bytes;
        message::put(Message::Sources { bytes }, &mut both);
    }
    let mut other = Front::connect(node.address(), PATIENCE).expect("room");
    other.stream.write_all(&both).expect("the node reads");
    let heard = [(); 2].map(|()| other.hear().expect("it is told"));
    assert!(
        matches!(&heard, [Heard::Later(why), Heard::Ready] if why.contains("compiled")),
        "{heard:?}"
    );
}

#[test]
fn that_a_service_is_not_fit_is_found_out_once() {
    let node = Lent::start(64 << 20);
    let bytes: &[u8] = b"no service";
    let digest: Digest = Sha256::digest(bytes).into();
    let mut front = Front::connect(node.address(), PATIENCE).expect("room");
    front.say(Message::Offer { digest });
    assert_eq!(front.hear().expect("it is asked"), Heard::Send(digest));
    front.say(Message::Sources { bytes });
    let Heard::Unfit(why) = front.hear().expect("it is told") else {
        panic!("it is no service");
    };
    let mut other = Front::connect(node.address(), PATIENCE).expect("room");
    for front in [&mut front, &mut other] {
        front.say(Message::Offer { digest });
        let heard = front.hear().expect("it is told, and not asked");
        assert_eq!(heard, Heard::Unfit(why.clone()));
    }
}

#[test]
fn who_shows_nothing_keeps_nobody_out() {
    let node = Lent::start(64 << 20);
    let idle = [(); CONNECTIONS_MAX].map(|()| TcpStream::connect(node.address()));
    assert!(idle.iter().all(Result::is_ok));
    // Sooner than the node ends those by itself.
    let mut front = Front::connect(node.address(), Duration::from_secs(3)).expect("room");
    front.say(Message::Ping);
    assert!(front.hear().is_ok());
    // Those who have shown that they may be here keep their places.
    let more = [(); 2 * CONNECTIONS_MAX].map(|()| TcpStream::connect(node.address()));
    front.say(Message::Ping);
    assert!(front.hear().is_ok());
    drop((idle, more));
}
