//! A node that a front end's cohorts go to says whatever it likes, behind right checksums: nothing
//! panics, each stage comes back exactly once, and from what is believed of it a page goes on, to
//! answers that are as long as they say.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_engine::cohort::{Cohort, LaneState};
use rhythm_engine::device::conformance::{Dice, answer, asked, make_cohort, make_service};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::{LaneLimits, Work};
use rhythm_engine::program::{PageProgram, Service};
use rhythm_engine::source::Sources;
use rhythm_net::testing::TestPort;
use rhythm_net::{ConnectionId, Peer, Time};
use rhythm_protocol::scan::Level;
use rhythm_remote::{Bundle, Bundles, Figures, LinkOptions, Place, Places, Remote};
use rhythm_server::{ConnectionOwner, DeviceLink};
use sha2::{Digest, Sha256};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Services, each with what says to what it was compiled.
type Services = Vec<(Arc<Service>, [u8; 32])>;

/// What is served, and all of it as nodes get it.
static SERVED: LazyLock<(Services, Arc<Bundles>)> = LazyLock::new(|| {
    let bundles = Bundles::default();
    let service = |seed: u64| {
        let service = make_service(seed);
        let mut sources = Sources::default();
        sources.files.insert(seed.to_string(), String::new());
        let bundle = Bundle::new(&sources, LaneLimits::default()).expect("it is small");
        bundles.add(&service, bundle);
        let programs = format!("{:?}{:?}", service.pages, service.fragments);
        (service, Sha256::digest(programs).into())
    };
    ((1..9).map(service).collect(), Arc::new(bundles))
});

/// The version of the crates: both ends have the same.
fn version() -> &'static str {
    let manifest = include_str!("../../Cargo.toml");
    let version = manifest.split_once("\nversion = \"");
    let version = version.and_then(|(_, rest)| rest.split_once('"'));
    version.expect("there is one").0
}

/// A message in a frame.
fn frame(body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut all = (body.len() as u32).to_le_bytes().to_vec();
    all.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    all.extend_from_slice(&crc32fast::hash(&all).to_le_bytes());
    all.extend_from_slice(&body);
    all
}

/// The link, and what is under way.
struct World {
    port: TestPort,
    link: Remote,
    now: Time,
    /// Works that are at their pages' ends.
    over: usize,
}

impl World {
    fn new() -> World {
        let options = LinkOptions {
            timeout: Duration::from_secs(1),
            in_flight_max: 8,
        };
        let peer = Peer::tcp("node", ([127, 0, 0, 1], 7300).into());
        let places = Places::fixed(vec![Place { peer, key: None }]);
        let figures = Arc::new(Figures::new(vec!["node".to_owned()]));
        let local = Box::new(HostExecutor::new(LaneLimits::default(), Level::active()));
        World {
            port: TestPort::default(),
            link: Remote::new(&places, options, Arc::clone(&SERVED.1), figures, local),
            now: Time::ZERO,
            over: 0,
        }
    }

    /// The node says this, if there is a connection.
    fn say(&mut self, bytes: &[u8]) {
        let id = ConnectionId::new(self.port.connects, 0);
        if self.port.connections.contains_key(&id) {
            self.link.received(&mut self.port, id, bytes, self.now);
        }
        self.go_on();
    }

    /// Time passes. On a new connection the node greets, and takes the services that it is offered.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.link.tick(&mut self.port, self.now);
        let id = ConnectionId::new(self.port.connects, 0);
        let there = self.port.connections.get_mut(&id).filter(|it| !it.open);
        let Some(connection) = there else {
            return self.go_on();
        };
        connection.open = true;
        self.link.connected(&mut self.port, id, self.now);
        let version = version();
        let length = (version.len() as u32).to_le_bytes();
        let said = [
            &b"\x01RhythmD\0\x03\0"[..],
            &length,
            version.as_bytes(),
            &[0; 33],
            b"\x08\0",
        ];
        let said = said.concat();
        let said = [&(said.len() as u32).to_le_bytes()[..], &said].concat();
        self.say(&[&said[..], &crc32fast::hash(&said).to_le_bytes()].concat());
        self.port.at(id).sent.clear();
        self.say(&frame(&[&[3], &[0; 32]]));
        let offers = std::mem::take(&mut self.port.at(id).sent);
        assert_eq!(
            offers.len(),
            45 * SERVED.0.len(),
            "each has a head, kind and digest"
        );
        for (offer, (_, programs)) in offers.chunks(45).zip(&SERVED.0) {
            self.say(&frame(&[&[8], &offer[13..], programs]));
        }
    }

    fn submit(&mut self, work: Work) {
        let taken = self.link.submit(&mut self.port, work, self.now);
        assert!(taken.is_ok(), "there is room");
    }

    /// What has come back goes on with its page.
    fn go_on(&mut self) {
        let mut done = Vec::new();
        self.link.poll(&mut done);
        while let Some(mut work) = done.pop() {
            let service = Arc::clone(&work.service);
            let (program, cohort) = (&service.pages[work.page], &mut *work.cohort);
            check(program, cohort, &service);
            // What is left for another pass goes on elsewhere.
            let is_over = cohort.stage >= program.stages.len();
            if is_over || cohort.lanes.contains(&LaneState::Later) {
                self.over += 1;
                continue;
            }
            if cohort.stage <= program.calls.len() {
                answer(program, cohort, &mut Dice::new(work.token));
            }
            self.submit(work);
            self.link.poll(&mut done);
        }
    }
}

/// A front end can use what it has of a cohort.
fn check(program: &PageProgram, cohort: &Cohort, service: &Service) {
    let output = &cohort.output;
    for (lane, own) in output.lanes.iter().enumerate() {
        if cohort.lanes[lane] == LaneState::Finished {
            let mut body = Vec::new();
            output.stitch(lane, &service.fragments, &mut body);
            assert_eq!(body.len(), own.body_length as usize);
            assert!((100..600).contains(&own.status));
            own.file.map(|file| cohort.arena.get(file));
        }
    }
    assert!(output.headers.is_sorted_by_key(|(lane, ..)| *lane));
    for (_, aside, value) in &output.headers {
        assert!(usize::from(*aside) < program.asides.len());
        cohort.arena.get(*value);
    }
    asked(program, cohort);
}

/// What a node says, how, with a number, and more.
type Said<'a> = (u8, u8, &'a [u8]);

fuzz_target!(|input: ([(u8, u8); 3], Vec<Said<'_>>)| {
    let (works, said) = input;
    let mut world = World::new();
    world.pass(Duration::ZERO);
    for (token, (which, lanes)) in (0..).zip(works) {
        let (service, _) = &SERVED.0[usize::from(which) % SERVED.0.len()];
        let dice = &mut Dice::new(which.into());
        world.submit(Work {
            service: Arc::clone(service),
            page: 0,
            cohort: make_cohort(&service.pages[0], 1 + usize::from(lanes % 4), dice),
            token,
        });
    }
    for (kind, number, bytes) in said {
        let token = u64::from(number).to_le_bytes();
        match kind % 6 {
            0..=2 => world.say(&frame(&[&[11], &token, bytes])),
            3 => world.say(&frame(&[&[12], &token, &[kind & 1]])),
            4 => world.say(&frame(&[&[number], bytes])),
            _ => world.pass(Duration::from_millis(u64::from(number) * 20)),
        }
    }
    // A node that is silent is late with all that it has.
    for _ in 0..64 {
        if world.over < works.len() {
            world.pass(Duration::from_secs(2));
        }
    }
    assert_eq!((world.over, world.link.in_flight()), (works.len(), 0));
});
