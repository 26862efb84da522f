//! Nodes and front ends over sockets of this machine.

use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::{Executor, LaneLimits, conformance};
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_net::{Peer, Waker};
use rhythm_protocol::scan::Level;
use rhythm_remote::{
    Alone, Bundle, Bundles, ExecutorFactory, Figures, LinkOptions, Node, NodeOptions, Remote,
};
use rhythm_server::backend::kinds;
use rhythm_venice::secret::Secret;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn host(limits: LaneLimits) -> Box<dyn Executor> {
    Box::new(HostExecutor::new(limits, Level::active()))
}

/// A node that ends with the test.
struct Lent {
    node: Option<Node>,
    address: SocketAddr,
}

impl Lent {
    fn start(key: Option<&[u8]>) -> Lent {
        let factory: ExecutorFactory = Arc::new(|limits, _: Waker| Ok(host(limits)));
        let options = NodeOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            threads: 1,
            key: key.map(Secret::of),
            in_flight: 4,
            connections_max: 16,
            held_max: 256 << 20,
        };
        let node = Node::start(&options, factory).expect("it starts");
        Lent {
            address: node.address(),
            node: Some(node),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stopper()();
            node.join().expect("it ends as it was told");
        }
    }
}

/// The files below a folder that end so, by their paths within `root`.
fn files(root: &Path, below: &str, ending: &str, each: &mut dyn FnMut(String, PathBuf)) {
    let Ok(entries) = fs::read_dir(root.join(below)) else {
        return;
    };
    for entry in entries {
        let entry = entry.expect("it can be read");
        let name = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => files(root, &name, ending, each),
            false if name.ends_with(ending) => each(name, entry.path()),
            false => {}
        }
    }
}

/// A service of this repository.
fn sources(name: &str) -> Sources {
    let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services");
    let root = services.join(name);
    let mut sources = Sources {
        folder: root.clone(),
        ..Sources::default()
    };
    let text = fs::read_to_string(root.join("service.toml")).expect("a service");
    sources.files.insert("service.toml".to_owned(), text);
    for below in ["pages", "templates"] {
        files(&root, below, ".html", &mut |name, path| {
            let text = fs::read_to_string(path).expect("a text");
            sources.files.insert(name, text);
        });
    }
    files(&root, "static", "", &mut |name, _| {
        let name = name["static/".len()..].to_owned();
        sources.static_files.insert(name);
    });
    sources
}

/// A service that is served, and who serves it.
struct FrontEnd {
    service: Arc<Service>,
    figures: Arc<Figures>,
    alone: Alone,
}

/// A service that is compiled, for front ends.
struct Served {
    service: Arc<Service>,
    bundles: Arc<Bundles>,
    limits: LaneLimits,
}

impl Served {
    fn of(sources: &Sources) -> Served {
        let service = Arc::new(compile(sources, &kinds()).expect("it compiles"));
        let limits = LaneLimits::of(&service.config.limits);
        let bundles = Arc::new(Bundles::default());
        bundles.add(&service, Bundle::new(sources, limits).expect("it is small"));
        Served {
            service,
            bundles,
            limits,
        }
    }

    fn front_end(&self, at: &[SocketAddr], key: Option<&[u8]>) -> FrontEnd {
        let nodes: Vec<Peer> = at.iter().map(|at| Peer::tcp("node", *at)).collect();
        let figures = Arc::new(Figures::new(&nodes));
        let options = LinkOptions {
            key: key.map(Secret::of),
            timeout: Duration::from_secs(20),
            in_flight_max: 8,
        };
        let local = host(self.limits);
        let bundles = Arc::clone(&self.bundles);
        let link = Remote::new(&nodes, options, bundles, figures.clone(), local);
        FrontEnd {
            service: Arc::clone(&self.service),
            figures,
            alone: Alone::new(link).expect("there are files"),
        }
    }
}

fn front_end(sources: &Sources, at: &[SocketAddr], key: Option<&[u8]>) -> FrontEnd {
    Served::of(sources).front_end(at, key)
}

impl FrontEnd {
    fn wait_ready(&mut self, most: Duration) -> bool {
        let ready = self.alone.wait_ready(&self.service, most);
        ready.expect("it can wait")
    }
}

#[test]
fn every_byte_of_every_page_is_the_references() {
    let node = Lent::start(None);
    for name in ["banking", "fortunes", "bookstore", "notes"] {
        let mut front = front_end(&sources(name), &[node.address], None);
        assert!(
            front.wait_ready(PATIENCE),
            "{name}: {:?}",
            front.figures.said()
        );
        let limits = LaneLimits::of(&front.service.config.limits);
        for page in 0..front.service.pages.len() {
            for lanes in [1, 7, 256] {
                let (alone, service) = (&mut front.alone, &front.service);
                let checked = conformance::check(alone, service, page, lanes, 42, limits);
                assert_eq!(checked, Ok(()), "{name}");
            }
        }
        let (done, here) = (front.figures.done(), front.figures.here());
        assert!(done > 0 && front.figures.lost() == 0, "{name}: {done}");
        // Stages whose lanes have all ended before have nothing to send.
        assert!(here * 2 < done, "{name}: {here} here, {done} there");
    }
}

#[test]
fn who_has_another_key_or_none_is_not_used_and_is_told_why() {
    const KEY: &[u8] = b"0123456789abcdef";
    let node = Lent::start(Some(KEY));
    let open = Lent::start(None);
    let sources = sources("fortunes");
    let wait = Duration::from_millis(600);
    for (at, key, told) in [
        (node.address, None, "--device-key"),
        (
            node.address,
            Some(&b"0123456789abcdeg"[..]),
            "does not have this node's key",
        ),
        (open.address, Some(KEY), "it has no key"),
    ] {
        let mut front = front_end(&sources, &[at], key);
        assert!(!front.wait_ready(wait));
        let said = front.figures.said().concat();
        assert!(said.contains(told), "{said}");
    }
    let mut front = front_end(&sources, &[node.address], Some(KEY));
    assert!(front.wait_ready(PATIENCE));
}

/// Somebody who listens, and does with each connection what `act` does.
fn listener(act: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("it is bound");
    let act = Arc::new(act);
    // It ends with the process: it has nothing that would outlive it.
    thread::spawn(move || {
        for stream in socket.incoming().map_while(Result::ok) {
            let act = Arc::clone(&act);
            thread::spawn(move || act(stream));
        }
    });
    address
}

#[test]
fn who_says_anything_else_is_not_used_and_nothing_is_lost() {
    let garbage = listener(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 100]);
    });
    let huge = listener(|mut stream| {
        let _ = stream.write_all(&[0xff; 64]);
        let _ = stream.read(&mut [0; 100]);
    });
    let cut = listener(|mut stream| drop(stream.write_all(&[100, 0, 0, 0, 1])));
    let node = Lent::start(None);
    let at = [garbage, huge, cut, node.address];
    let mut front = front_end(&sources("fortunes"), &at, None);
    assert!(front.wait_ready(PATIENCE));
    let limits = LaneLimits::of(&front.service.config.limits);
    let checked = conformance::check(&mut front.alone, &front.service, 0, 7, 1, limits);
    assert_eq!(checked, Ok(()));
    assert!(front.figures.done() > 0);
    assert_eq!(front.figures.said().len(), 3);
}

/// Goes between front ends and a node, and changes a bit in one of so many pieces, either way.
fn changing(node: SocketAddr, one_in: usize) -> SocketAddr {
    fn carry(mut from: TcpStream, mut to: TcpStream, one_in: usize, mut dice: Dice) {
        let mut piece = [0; 2048];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if dice.below(one_in) == 0 {
                piece[dice.below(length)] ^= 1 << dice.below(8);
            }
            if to.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
    let seeds = AtomicU64::new(1);
    listener(move |front| {
        let back = TcpStream::connect(node).expect("the node listens");
        let (from, to) = (back.try_clone(), front.try_clone());
        let (from, to) = (from.expect("a socket"), to.expect("a socket"));
        let seed = seeds.fetch_add(2, Ordering::Relaxed);
        let back_again = thread::spawn(move || carry(from, to, one_in, Dice::new(seed)));
        carry(front, back, one_in, Dice::new(seed + 1));
        back_again.join().expect("it ends");
    })
}

#[test]
fn bits_that_are_changed_on_the_way_cost_nobody_a_page() {
    let node = Lent::start(None);
    let at = changing(node.address, 20);
    let served = Served::of(&sources("bookstore"));
    let (mut corrupt, mut done, mut used) = (0, 0, 0);
    for trial in 0..200 {
        // Anew, since whoever has met a changed bit leaves the node alone for a while.
        let mut front = served.front_end(&[at], None);
        used += usize::from(front.wait_ready(Duration::from_secs(5)));
        let page = trial % served.service.pages.len();
        let (alone, service) = (&mut front.alone, &front.service);
        let seed = trial as u64;
        let checked = conformance::check(alone, service, page, 60, seed, served.limits);
        assert_eq!(checked, Ok(()), "trial {trial}");
        corrupt += front.figures.corrupt();
        done += front.figures.done();
    }
    // It was used, and not all of what went was as it was said.
    assert!(
        corrupt > 20 && used > 20 && done > 20,
        "{corrupt} {used} {done}"
    );
}

#[test]
fn a_node_of_another_version_is_not_used_and_it_is_said_what_helps() {
    let old = listener(|mut stream| {
        // The greeting of protocol 2: no checksums yet.
        let mut body = b"\x01RhythmD\0\x02\0\x05\0\0\x000.0.9".to_vec();
        body.extend_from_slice(&[0; 35]);
        let length = (body.len() as u32).to_le_bytes();
        let _ = stream.write_all(&[&length[..], &body].concat());
        let _ = stream.read(&mut [0; 100]);
    });
    let mut front = front_end(&sources("fortunes"), &[old], None);
    assert!(!front.wait_ready(PATIENCE));
    let said = front.figures.said().concat();
    assert!(said.contains("(protocol 2)"), "{said}");
    assert!(said.contains("update that end and start it anew"), "{said}");
}
