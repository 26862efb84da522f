//! A node, and front ends that the test plays.

use super::{ExecutorFactory, Node, NodeOptions};
use crate::bundle::Bundle;
use crate::wire::bytes::Put;
use crate::wire::message::{self, Digest, MESSAGE_MAX, Message, PROTOCOL, VERSION};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::source::Sources;
use rhythm_net::Waker;
use rhythm_protocol::scan::Level;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

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
            key: None,
            in_flight: 4,
            connections_max: CONNECTIONS_MAX,
            held_max,
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

struct Front(TcpStream);

impl Front {
    /// One that the node knows, or will not within this time.
    fn connect(at: SocketAddr, patience: Duration) -> io::Result<Front> {
        let stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(patience))?;
        let mut front = Front(stream);
        front.hear()?;
        front.say(Message::Hello {
            protocol: PROTOCOL,
            version: VERSION,
            nonce: [0; 32],
            proof: [0; 32],
        });
        front.hear()?;
        Ok(front)
    }

    fn say(&mut self, message: Message<'_>) {
        let mut bytes = Vec::new();
        message::put(message, &mut bytes);
        self.0.write_all(&bytes).expect("the node reads");
    }

    /// The next message, as it came.
    fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4];
        self.0.read_exact(&mut bytes)?;
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes.resize(4 + length as usize, 0);
        self.0.read_exact(&mut bytes[4..])?;
        Ok(bytes)
    }

    /// A stage of a page that reads nothing.
    fn send_work(&mut self, token: u64, digest: Digest, page: u32) {
        let mut cohort = Vec::new();
        // Of the long one 40 MB, which is more than sockets have room for.
        let lanes = if page == LONG { 8 } else { 256 };
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
        heard(&self.hear().expect("it says what comes of it"))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Ready,
    Later(String),
    Done(u64),
    Other(String),
}

fn heard(bytes: &[u8]) -> Heard {
    match message::take(bytes, MESSAGE_MAX) {
        Ok(Some((Message::Ready { .. }, _))) => Heard::Ready,
        Ok(Some((Message::Later { why, .. }, _))) => Heard::Later(why.to_owned()),
        Ok(Some((Message::Done { token, .. }, _))) => Heard::Done(token),
        other => Heard::Other(format!("{other:?}")),
    }
}

/// Two pages: one of much text, and one of much work.
const LONG: u32 = 0;
const SLOW: u32 = 1;

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
fn nobody_has_a_turn_while_answers_take_the_memory() {
    let node = Lent::start(8 << 20);
    let bundle = bundle(LaneLimits::default());
    let mut fronts = [(); 3].map(|()| Front::connect(node.address(), PATIENCE).expect("room"));
    let [slow, deaf, other] = &mut fronts;
    assert_eq!(slow.offer(&bundle), Heard::Ready);
    slow.send_work(0, bundle.digest, SLOW);
    thread::sleep(Duration::from_millis(50));
    // While that is run these come, and are taken together.
    deaf.send_work(1, bundle.digest, LONG);
    other.send_work(2, bundle.digest, LONG);
    assert_eq!(heard(&slow.hear().expect("an answer")), Heard::Done(0));
    let short = Some(Duration::from_secs(2));
    other.0.set_read_timeout(short).expect("a socket");
    let early = other.hear().map(|bytes| heard(&bytes));
    assert!(
        early.is_err(),
        "{early:?}: its turn is when the other has taken its answer"
    );
    other.0.set_read_timeout(Some(PATIENCE)).expect("a socket");
    assert_eq!(heard(&deaf.hear().expect("an answer")), Heard::Done(1));
    assert_eq!(heard(&other.hear().expect("an answer")), Heard::Done(2));
}

#[test]
fn what_passes_is_told_as_such() {
    let node = Lent::start(64 << 20);
    let mut front = Front::connect(node.address(), PATIENCE).expect("room");
    for turns_max in 1..=4 {
        let limits = LaneLimits {
            turns_max,
            ..LaneLimits::default()
        };
        assert_eq!(front.offer(&bundle(limits)), Heard::Ready);
    }
    match front.offer(&bundle(LaneLimits::default())) {
        Heard::Later(why) => assert!(why.contains("[limits]"), "{why}"),
        other => panic!("{other:?}"),
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
