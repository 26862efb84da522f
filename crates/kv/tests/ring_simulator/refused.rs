//! Nodes whose files differ, and two nodes of one name: who is to be refused is, knows it, and does
//! not begin to serve; who served before goes on. Frames go to where the sender's file has a node,
//! and a refusal comes back on the way that the refused one took.

use rhythm_kv::ring::{Effects, Local, Node, Options, Placement, Roster, SESSIONS, Terms, View};
use rhythm_kv::ring::{Status, wire};
use rhythm_kv::store::{Store, StoreOptions, Worker};
use rhythm_net::Time;
use std::sync::Arc;

/// A step, in milliseconds.
const STEP: u64 = 10;
const FILE: [&str; 3] = ["n1 here:1", "n2 here:2", "n3 here:3"];
const LONGER: [&str; 4] = ["n1 here:1", "n2 here:2", "n3 here:3", "n4 here:4"];

/// A process.
struct Process {
    node: Node,
    store: Worker,
    me: usize,
    /// Where it listens, and where its file has the others.
    at: &'static str,
    places: Vec<&'static str>,
    effects: Effects,
    /// Who sent what it has not read; and what it is told on its own connections.
    came: Vec<(&'static str, Vec<u8>)>,
    answers: Vec<Vec<u8>>,
}

impl Process {
    fn new(file: &[&'static str], me: usize, at: &'static str, now: u64) -> Process {
        let parts = file.iter().map(|line| line.split_once(' ').expect("two"));
        let (names, places): (Vec<_>, Vec<_>) = parts.unzip();
        let told = (file.iter().enumerate())
            .map(|(index, line)| (format!("node {}", index + 1), line.to_string()));
        let placement = Placement::new(names.iter().map(|name| (*name, 4711)));
        let options = Options {
            replicas: 1,
            acked: true,
            ..Options::default()
        };
        let store = Store::new(StoreOptions {
            memory: 1 << 20,
            ..StoreOptions::default()
        });
        Process {
            node: Node::new(
                Terms::new(names[me], told),
                (now + 1) * SESSIONS,
                options,
                Arc::new(View::new(placement, me)),
                Roster::round(file.len(), file.len()),
                Time::from_nanos(now * 1_000_000),
            ),
            store: Store::worker(&Arc::new(store.expect("memory"))).expect("a seat"),
            me,
            at,
            places,
            effects: Effects::default(),
            came: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn with(&mut self, now: Time, act: impl FnOnce(&mut Node, &mut Local<'_, '_>, &mut Effects)) {
        let mut pinned = self.store.pin();
        let mut local = Local::new(&mut pinned, 100 + (now.as_nanos() / 1_000_000_000) as u32);
        act(&mut self.node, &mut local, &mut self.effects);
        if let Some(fence) = self.effects.fence.take() {
            self.node.fenced(fence, now, &mut self.effects);
        }
    }

    /// What it serves: the ranges, by who is to have them.
    fn serves(&self) -> Vec<usize> {
        let is_mine = |range: &usize| {
            let claim = self.node.claim(*range);
            let is_complete = self.node.complete() & 1 << range != 0;
            claim.epoch > 0 && usize::from(claim.node) == self.me && is_complete
        };
        (0..self.places.len()).filter(is_mine).collect()
    }
}

#[derive(Default)]
struct World {
    now: u64,
    processes: Vec<Process>,
    /// Stands still.
    still: Option<&'static str>,
}

impl World {
    fn of_three() -> World {
        let mut world = World::default();
        for (me, at) in ["here:1", "here:2", "here:3"].into_iter().enumerate() {
            world.begin(&FILE, me, at);
        }
        world.pass(5000);
        assert_eq!(world.at("here:1").serves(), [0]);
        world
    }

    fn begin(&mut self, file: &[&'static str], me: usize, at: &'static str) {
        self.processes.push(Process::new(file, me, at, self.now));
    }

    fn kill(&mut self, at: &str) {
        self.processes.retain(|process| process.at != at);
    }

    fn at(&self, at: &str) -> &Process {
        let mut all = self.processes.iter();
        all.find(|process| process.at == at).expect("it runs")
    }

    fn status(&self, at: &str) -> Status {
        let now = Time::from_nanos(self.now * 1_000_000);
        self.at(at).node.status(now)
    }

    /// Asserts that a node serves nothing, and says why.
    fn is_kept(&self, at: &str, why: &str) {
        assert_eq!(self.at(at).node.complete(), 0, "{at}");
        let said = self.status(at).is_kept_by.unwrap_or_default();
        assert!(said.contains(why), "{at}: {said}");
    }

    fn pass(&mut self, time: u64) {
        for _ in 0..time / STEP {
            self.now += STEP;
            let now = Time::from_nanos(self.now * 1_000_000);
            for index in 0..self.processes.len() {
                if self.still != Some(self.processes[index].at) {
                    self.turn(index, now);
                }
            }
        }
    }

    fn turn(&mut self, index: usize, now: Time) {
        let process = &mut self.processes[index];
        process.with(now, |node, local, out| node.tick(local, now, out));
        for answer in std::mem::take(&mut process.answers) {
            process.node.answered(&answer, now);
        }
        let mut refusals = Vec::new();
        for (from, frame) in std::mem::take(&mut process.came) {
            process.with(now, |node, local, out| node.frame(&frame, local, now, out));
            let refusal = std::mem::take(&mut process.effects.refusal);
            if !refusal.is_empty() {
                refusals.push((from, refusal));
            }
        }
        process.with(now, |node, _, out| node.flush(now, out));
        let (at, places) = (process.at, process.places.clone());
        let frames = std::mem::take(&mut process.effects.frames);
        for (to, mut frames) in places.into_iter().zip(frames) {
            let mut all = self.processes.iter_mut();
            let Some(to) = all.find(|process| process.at == to) else {
                continue;
            };
            while let Ok(Some(length)) = wire::length(&frames, usize::MAX) {
                let rest = frames.split_off(length);
                to.came.push((at, std::mem::replace(&mut frames, rest)));
            }
        }
        for (to, refusal) in refusals {
            let mut all = self.processes.iter_mut();
            if let Some(to) = all.find(|process| process.at == to) {
                to.answers.push(refusal);
            }
        }
    }
}

#[test]
fn a_node_that_the_others_do_not_know_is_told_that_it_is_refused() {
    let mut world = World::of_three();
    world.begin(&LONGER, 3, "here:4");
    world.pass(10_000);
    world.is_kept("here:4", "node 4 is n4 here:4 here, and nothing there");
    for (node, at) in ["here:1", "here:2", "here:3"].into_iter().enumerate() {
        assert_eq!(world.at(at).serves(), [node]);
        assert_eq!(world.status(at).is_kept_by, None);
    }
    // They go on without one that dies, whoever else is refused.
    world.kill("here:2");
    world.pass(3000);
    assert_eq!(world.at("here:3").serves(), [1, 2]);
    world.begin(&FILE, 1, "here:2");
    world.pass(5000);
    assert_eq!(world.at("here:2").serves(), [1]);
    world.is_kept("here:4", "was told something else");
    // When nobody refuses it any more, it begins.
    for at in ["here:1", "here:2", "here:3"] {
        world.kill(at);
    }
    world.pass(6000);
    assert_eq!(world.at("here:4").serves(), [0, 1, 2, 3]);
}

#[test]
fn two_nodes_that_agree_do_not_begin_beside_others_that_were_told_otherwise() {
    let mut world = World::of_three();
    world.kill("here:3");
    world.begin(&LONGER, 2, "here:3");
    world.begin(&LONGER, 3, "here:4");
    world.pass(10_000);
    for at in ["here:3", "here:4"] {
        world.is_kept(at, "node 4 is n4 here:4 here, and nothing there");
    }
    // One that serves nothing keeps nobody from taking what was its.
    assert_eq!(world.at("here:1").serves().len(), 2);
    assert_eq!(world.at("here:2").serves(), [1]);
}

#[test]
fn a_node_whose_own_place_is_another_in_its_file_does_not_begin() {
    let mut world = World::of_three();
    world.kill("here:3");
    world.begin(&["n1 here:1", "n2 here:2", "n3 here:9"], 2, "here:9");
    world.pass(10_000);
    world.is_kept("here:9", "node 3 is n3 here:9 here, and n3 here:3 there");
}

#[test]
fn a_second_node_of_a_name_is_refused_and_harms_nobody() {
    let mut world = World::of_three();
    world.begin(&FILE, 0, "there:1");
    for _ in 0..400 {
        world.pass(STEP);
        for (node, at) in ["here:1", "here:2", "here:3"].into_iter().enumerate() {
            assert_eq!(world.at(at).serves(), [node], "at {}", world.now);
            assert_eq!(world.at(at).node.alive(), 0b111, "at {}", world.now);
        }
    }
    world.is_kept("there:1", "another node called 0 is there");
    world.kill("there:1");
    world.pass(5000);
    assert_eq!(world.at("here:2").node.alive(), 0b111);
    assert_eq!(world.status("here:1").is_kept_by, None);
}

/// It listens elsewhere than its file says. Having taken nothing for long, it is not taken to be
/// there, and is told as before.
#[test]
fn a_node_that_is_heard_and_not_reached_never_begins() {
    let mut world = World::of_three();
    world.kill("here:3");
    world.pass(3000);
    world.begin(&FILE, 2, "there:3");
    for _ in 0..15 {
        world.pass(1000);
        world.is_kept("there:3", "hears this node, and does not reach it");
    }
}

/// What it says they cannot read: it may serve what nobody else does.
#[test]
fn a_node_does_not_begin_beside_one_of_another_version() {
    let mut world = World::default();
    world.begin(&FILE, 0, "here:1");
    let hears = |world: &mut World| {
        world.pass(STEP);
        let now = Time::from_nanos(world.now * 1_000_000);
        world.processes[0].node.speaks_otherwise(2, 6, now);
    };
    (0..1000).for_each(|_| hears(&mut world));
    world.is_kept(
        "here:1",
        "2 speaks version 6 of the nodes' protocol, and this node",
    );
    let refused = world.status("here:1").refused;
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&2]);
    // Who serves goes on.
    world.pass(5000);
    assert_eq!(world.status("here:1").refused.len(), 0);
    assert_eq!(world.at("here:1").serves(), [0, 1, 2]);
    (0..1000).for_each(|_| hears(&mut world));
    assert_eq!(world.at("here:1").serves(), [0, 1, 2]);
}

/// The others hear the second one only, for a while, and take it for the first.
#[test]
fn a_node_that_is_there_again_is_not_shut_out_by_a_second_of_its_name() {
    for ends in [false, true] {
        let mut world = World::of_three();
        world.begin(&FILE, 0, "there:1");
        world.still = Some("here:1");
        world.pass(1500);
        world.still = None;
        if ends {
            world.kill("there:1");
        }
        world.pass(15_000);
        for (node, at) in ["here:1", "here:2", "here:3"].into_iter().enumerate() {
            assert_eq!(world.at(at).serves(), [node], "{ends}");
            assert_eq!(world.at(at).node.alive(), 0b111, "{ends}");
        }
        if !ends {
            world.is_kept("there:1", "another node called 0 is there");
        }
    }
}
