//! Nodes and front ends over sockets of this machine.

use rhythm_engine::cohort::{Cohort, Pass};
use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::host::{HostExecutor, PASS_WORK_MAX};
use rhythm_engine::device::{Executor, LaneLimits, Work, conformance};
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_net::{Peer, Waker};
use rhythm_protocol::scan::Level;
use rhythm_remote::{
    Access, Alone, BorrowOptions, Bundle, Bundles, ExecutorFactory, Figures, LinkOptions, Node,
    NodeOptions, Place, Places, Remote, StageMax, borrow_nodes,
};
use rhythm_server::backend::kinds;
use rhythm_venice::agent::{self, Lender, Lenders};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::monitor::{self, policy::ByDistanceAndLoad};
use rhythm_venice::resource::{Kind, Share};
use rhythm_venice::secret::Secret;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// What runs stages, so much of one in a pass.
fn host(limits: LaneLimits, work_max: usize) -> Box<dyn Executor> {
    Box::new(HostExecutor::new(limits, Level::active()).in_passes_of(work_max))
}

/// A node that ends with the test.
struct Lent {
    node: Option<Node>,
    address: SocketAddr,
}

fn node(access: Access) -> Node {
    node_in_passes_of(PASS_WORK_MAX, access)
}

fn node_in_passes_of(work_max: usize, access: Access) -> Node {
    let factory: ExecutorFactory = Arc::new(move |limits, _: Waker| Ok(host(limits, work_max)));
    let options = NodeOptions {
        listen: any_port(),
        threads: 1,
        access,
        in_flight: 4,
        connections_max: 16,
        held_max: 256 << 20,
        stage_max: StageMax::default(),
    };
    Node::start(&options, factory).expect("it starts")
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Lent {
    fn start(key: Option<&[u8]>) -> Lent {
        Lent::of(node(
            key.map_or(Access::Anybody, |key| Access::Key(Secret::of(key))),
        ))
    }

    fn of(node: Node) -> Lent {
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
        let place = |at: &SocketAddr| Place {
            peer: Peer::tcp("node", *at),
            key: key.map(Secret::of),
        };
        self.front_end_of(&Places::fixed(at.iter().map(place).collect()))
    }

    fn front_end_of(&self, places: &Arc<Places>) -> FrontEnd {
        let names = (0..places.count()).map(|index| format!("node {index}"));
        let figures = Arc::new(Figures::new(names.collect()));
        let options = LinkOptions {
            timeout: Duration::from_secs(20),
            in_flight_max: 8,
        };
        let local = host(self.limits, PASS_WORK_MAX);
        let bundles = Arc::clone(&self.bundles);
        let link = Remote::new(places, options, bundles, figures.clone(), local);
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
    // Cohorts in a pass, and in many.
    for work_max in [PASS_WORK_MAX, 64 << 10] {
        let node = Lent::of(node_in_passes_of(work_max, Access::Anybody));
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
}

/// A page of so many turns for each request, of which it shows little.
fn slow(turns: usize) -> Sources {
    let mut sources = Sources::default();
    let page = format!(
        "+++\nroute = \"GET /slow\"\n+++\n{{% for i in range({turns}) %}}{{% if i % 10007 == 5 %}}\
         {{{{ i }}}}{{% endif %}}{{% endfor %}}"
    );
    for (name, text) in [("service.toml", String::new()), ("pages/slow.html", page)] {
        sources.files.insert(name.to_owned(), text);
    }
    sources
}

impl FrontEnd {
    /// A cohort of the first page, of so many lanes that have no fields, or what is left of one.
    fn submit(&mut self, cohort: Box<Cohort>) {
        let work = Work {
            service: Arc::clone(&self.service),
            page: 0,
            cohort,
            token: 0,
        };
        self.alone.submit(work).expect("there is room");
    }

    fn cohort(&self, lanes: usize) -> Box<Cohort> {
        let mut cohort = Box::<Cohort>::default();
        cohort.reset(&self.service.pages[0]);
        for _ in 0..lanes {
            cohort.push_lane();
        }
        cohort
    }

    /// Waits for what was submitted. None: it takes longer than that.
    fn wait_done(&mut self, most: Duration) -> Option<Box<Cohort>> {
        let (start, mut done) = (Instant::now(), Vec::new());
        while done.is_empty() && start.elapsed() < most {
            self.alone.poll(&mut done);
        }
        done.pop().map(|work| work.cohort)
    }
}

#[test]
fn who_has_much_to_do_keeps_nobody_waiting_and_no_loan_for_longer_than_it_is() {
    // Sooner than front ends give a node up, and much less than all of the cohort takes.
    const SOON: Duration = Duration::from_secs(10);
    let mut node = node(Access::Loans);
    let (stop, address) = (node.stopper(), node.address());
    let served = Served::of(&slow(120_000));
    let [mut busy, mut other] = [1, 2].map(|loan| {
        let share = Share::of_one(Kind::Device, false);
        let key = [loan as u8; 32];
        let granted = node.grant(LoanId(loan), share, &LoanKey(key));
        granted.expect("it is lent");
        let mut front = served.front_end(&[address], Some(&key));
        assert!(front.wait_ready(PATIENCE), "{:?}", front.figures.said());
        front
    });
    // One of some minutes, pass by pass.
    let mut cohort = busy.cohort(1 << 16);
    for pass in 1..5 {
        busy.submit(cohort);
        let one = other.cohort(1);
        other.submit(one);
        let one = other.wait_done(SOON).expect("others have their turn");
        assert!(!one.has_active());
        assert_eq!(other.figures.done(), pass, "it is run there");
        cohort = busy.wait_done(SOON).expect("a pass is over soon");
        assert_eq!(cohort.next_pass(), Pass::Again);
        assert_eq!((busy.figures.done(), busy.figures.here()), (pass, 0));
    }
    node.revoke(LoanId(1));
    let start = Instant::now();
    while busy.figures.said().is_empty() {
        assert!(start.elapsed() < SOON, "it goes on with its loan over");
        busy.submit(cohort);
        cohort = busy.wait_done(SOON).expect("it is run here in the end");
        assert_ne!(cohort.next_pass(), Pass::Over);
    }
    let one = other.cohort(1);
    other.submit(one);
    assert!(other.wait_done(SOON).is_some());
    assert_eq!(other.figures.done(), 5);
    drop((busy, other));
    stop();
    node.join().expect("it ends as it was told");
}

#[test]
fn what_may_take_longer_than_a_node_lets_it_is_run_here_and_it_is_said() {
    let node = Lent::start(None);
    let mut sources = slow(1000);
    let config = "[limits]\nstage_turns_max = 200000\n".to_owned();
    sources.files.insert("service.toml".to_owned(), config);
    let mut front = front_end(&sources, &[node.address], None);
    assert!(!front.wait_ready(PATIENCE));
    let said = front.figures.said().concat();
    assert!(
        said.contains("stage_turns_max` is 200000") && said.contains("--stage-turns"),
        "{said}"
    );
    let limits = LaneLimits::of(&front.service.config.limits);
    let checked = conformance::check(&mut front.alone, &front.service, 0, 7, 1, limits);
    assert_eq!(checked, Ok(()));
    assert_eq!(front.figures.done(), 0);
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

#[test]
fn a_loan_lets_its_front_end_in_until_it_is_over() {
    let mut node = node(Access::Loans);
    let (stop, address) = (node.stopper(), node.address());
    let (sources, share) = (sources("fortunes"), Share::of_one(Kind::Device, false));
    let wait = Duration::from_millis(600);
    let mut stranger = front_end(&sources, &[address], Some(&[7; 32]));
    assert!(!stranger.wait_ready(wait));
    let said = stranger.figures.said().concat();
    assert!(said.contains("no loan"), "{said}");
    let key = LoanKey([7; 32]);
    let at = node.grant(LoanId(1), share, &key).expect("it is lent");
    assert_eq!((at, node.lent()), (address, vec![(LoanId(1), share)]));
    assert!(node.grant(LoanId(2), Share::memory(1), &key).is_err());
    let mut front = front_end(&sources, &[address], Some(&[7; 32]));
    assert!(front.wait_ready(PATIENCE), "{:?}", front.figures.said());
    let check = |front: &mut FrontEnd| {
        let limits = LaneLimits::of(&front.service.config.limits);
        let (alone, service) = (&mut front.alone, &front.service);
        assert_eq!(conformance::check(alone, service, 0, 7, 1, limits), Ok(()));
        front.figures.done()
    };
    let done = check(&mut front);
    assert!(done > 0);
    node.revoke(LoanId(1));
    assert_eq!(node.lent(), []);
    // Pages are right all the same, and soon none is of the node.
    let start = Instant::now();
    while front.figures.said().is_empty() {
        check(&mut front);
        assert!(start.elapsed() < PATIENCE, "it is let go");
    }
    let done = check(&mut front);
    assert_eq!(check(&mut front), done);
    drop(front);
    stop();
    node.join().expect("it ends as it was told");
}

/// An agent, with its socket in a folder.
fn agent(
    monitor: SocketAddr,
    folder: &Path,
    name: &str,
    device: Option<Node>,
) -> agent::server::Server {
    let lends = device
        .iter()
        .map(|_| Share::of_all(Kind::Device, 1))
        .collect();
    let lenders = device.into_iter().fold(Lenders::default(), |all, node| {
        all.and(&[Kind::Device], Box::new(node))
    });
    let options = agent::server::Options {
        monitors: vec![monitor],
        trust: agent::server::Trust::Secret(Secret::of(b"a secret of this test")),
        settings: agent::Settings {
            name: name.parse().expect("a name"),
            monitors: 1,
            place: String::new(),
            probe: any_port(),
            lends,
            keep_free: 0,
            reclaim_within: Duration::from_secs(5),
            borrow_within: Duration::from_secs(10),
        },
        socket: folder.join(format!("{name}.sock")),
        socket_mode: 0o600,
        admin: None,
        admin_hosts: Vec::new(),
    };
    agent::server::Server::start(options, lenders).expect("an agent")
}

#[test]
fn a_monitor_finds_a_node_and_another_one_when_that_leaves() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = monitor::server::Options {
        listen: any_port(),
        state: monitor::server::StatePlace::Folder(folder.path().join("state")),
        trust: monitor::server::Trust::Secret(Secret::of(b"a secret of this test")),
        settings: monitor::Settings::default(),
        policy: Box::new(ByDistanceAndLoad),
        admin: None,
        admin_hosts: Vec::new(),
    };
    let monitor = monitor::server::Server::start(options).expect("a monitor");
    let at = monitor.address();
    let borrower = agent(at, folder.path(), "front", None);
    let nodes = [(); 2].map(|()| node(Access::Loans));
    let stops = [0, 1].map(|index: usize| nodes[index].stopper());
    let mut names = ["one", "other"].into_iter();
    let mut lenders = nodes.map(|node| {
        let name = names.next().expect("there are two");
        Some(agent(at, folder.path(), name, Some(node)))
    });
    let places = Places::vacant(1);
    let options = BorrowOptions {
        agent: folder.path().join("front.sock"),
        is_alone: true,
    };
    borrow_nodes(options, &places).expect("a thread");
    let served = Served::of(&sources("fortunes"));
    let mut front = served.front_end_of(&places);
    let mut goes_on = |what: &str| {
        let (start, before) = (Instant::now(), front.figures.done());
        while front.figures.done() == before {
            assert!(start.elapsed() < PATIENCE, "{what}: {:?}", places.trouble());
            front.wait_ready(Duration::from_millis(200));
            let (alone, service) = (&mut front.alone, &front.service);
            let checked = conformance::check(alone, service, 0, 7, 1, served.limits);
            assert_eq!(checked, Ok(()));
        }
    };
    goes_on("one is borrowed");
    // Each leaves once, and what it lent is had of the other; then that comes back.
    for (index, stop) in stops.into_iter().enumerate() {
        let leaves = lenders[index].take().expect("it runs");
        leaves.handle().leave();
        leaves.join().expect("it ends well");
        stop();
        if index == 0 {
            goes_on("the other's is borrowed");
            let again =
                Some(node(Access::Loans)).map(|node| agent(at, folder.path(), "again", Some(node)));
            lenders[0] = again;
        } else {
            goes_on("the first is there again");
        }
    }
    drop(front);
    for agent in lenders.into_iter().flatten().chain([borrower]) {
        agent.handle().stop();
        agent.join().expect("it ends well");
    }
    monitor.handle().stop();
    monitor.join().expect("it ends well");
}
