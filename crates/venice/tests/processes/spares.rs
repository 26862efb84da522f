//! Two monitors that share their state in etcd: the one that leads is killed or stopped, and etcd
//! is, while programs borrow. No loan that stands is lost, none is given twice, and it says how
//! long nothing was lent.

use super::cluster::{NAMES, PATIENCE, Process, get, kills, list};
use super::parts::{LEASE, SIZE};
use rhythm_etcd::testing::Members;
use rhythm_venice::agent::client::{BorrowError, Borrowed, Client, Event};
use rhythm_venice::identity::Authority;
use rhythm_venice::loan::LoanId;
use rhythm_venice::monitor::Settings;
use rhythm_venice::monitor::policy::ByDistance;
use rhythm_venice::monitor::server::{Options, Server, StatePlace, Trust};
use rhythm_venice::resource::Share;
use rhythm_venice::wire::NotLent;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const ALL: [(&str, fn()); 3] = [
    (
        "a_monitor_that_is_no_spare_of_the_leader_ends_and_says_so",
        a_monitor_that_is_no_spare_of_the_leader_ends_and_says_so,
    ),
    (
        "a_spare_takes_over_from_a_leader_that_is_killed_or_stopped",
        a_spare_takes_over_from_a_leader_that_is_killed_or_stopped,
    ),
    (
        "a_spare_or_its_leader_goes_on_without_a_member_of_etcd",
        a_spare_or_its_leader_goes_on_without_a_member_of_etcd,
    ),
];

struct Spares {
    folder: TempDir,
    etcd: Members,
    monitors: Vec<Option<Process>>,
    /// Where agents reach each.
    addresses: Vec<String>,
    agents: Vec<Process>,
}

impl Spares {
    fn start(members: usize) -> Spares {
        let folder = tempfile::tempdir().expect("a folder");
        let etcd = Members::start(&folder.path().join("etcd"), members);
        let key = folder.path().join("key");
        fs::write(&key, "a secret of the test").expect("a file");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("permissions");
        let mut spares = Spares {
            folder,
            etcd,
            monitors: vec![None, None],
            addresses: vec!["127.0.0.1:0".to_owned(); 2],
            agents: Vec::new(),
        };
        (0..2).for_each(|monitor| spares.begin(monitor));
        let (key, monitors) = (spares.path("key"), spares.addresses.join(","));
        for name in NAMES {
            let socket = spares.path(&format!("{name}.sock"));
            let agent = Process::start(&["agent", name, &monitors, &socket, &key]);
            spares.agents.push(agent);
        }
        spares.until_led("all agents are there", |status| {
            let idle = list(status, "rrt").iter();
            idle.filter(|node| node["idle"] == SIZE).count() == NAMES.len()
        });
        spares
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn socket(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("{}.sock", NAMES[index]))
    }

    /// Starts a monitor, at the place where it was before.
    fn begin(&mut self, monitor: usize) {
        let key = self.path("key");
        let state = format!("etcd://{}", self.etcd.place("venice"));
        let process = Process::start(&["monitor", &self.addresses[monitor], &state, &key]);
        let address = process.said.split(' ').next().expect("an address");
        self.addresses[monitor] = address.to_owned();
        self.monitors[monitor] = Some(process);
    }

    fn ask(&self, monitor: usize, path: &str) -> String {
        let process = self.monitors[monitor].as_ref().expect("it runs");
        let admin = process.said.split(' ').nth(1).expect("an address");
        get(admin, path)
    }

    fn status(&self, monitor: usize) -> Value {
        // While it waits for etcd it says that it does not answer.
        serde_json::from_str(&self.ask(monitor, "/status")).unwrap_or_default()
    }

    /// Waits until one of these monitors leads, and its tables are so.
    fn until_led_by(&self, of: &[usize], what: &str, is: impl Fn(&Value) -> bool) -> usize {
        let start = Instant::now();
        loop {
            for monitor in of {
                let status = self.status(*monitor);
                if status["leads"] == true && is(&status) {
                    return *monitor;
                }
                assert!(start.elapsed() < PATIENCE, "{what}: {status:#}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn until_led(&self, what: &str, is: impl Fn(&Value) -> bool) -> usize {
        self.until_led_by(&[0, 1], what, is)
    }

    /// Waits until a monitor says that it is a spare, and who leads.
    fn until_spare(&self, monitor: usize, leader: usize) {
        let start = Instant::now();
        loop {
            let status = self.status(monitor);
            if status["leads"] == false
                && status["leader"]["agents"] == self.addresses[leader].as_str()
            {
                let ready = self.ask(monitor, "/readyz");
                assert!(ready.contains("is a spare"), "{ready}");
                assert_eq!(self.ask(monitor, "/healthz"), "ok\n");
                return;
            }
            assert!(start.elapsed() < PATIENCE, "it is no spare: {status:#}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Nothing is lent any more, by what the leader and all agents know.
    fn until_all_is_back(&self) {
        self.until_led("all is back", |status| {
            let idle = list(status, "rrt").iter();
            list(status, "rat").is_empty()
                && idle.filter(|node| node["idle"] == SIZE).count() == NAMES.len()
        });
        for agent in &self.agents {
            let status: Value =
                serde_json::from_str(&get(&agent.said, "/status")).expect("an agent's status");
            let none = &[][..];
            assert_eq!(
                (list(&status, "lent"), list(&status, "borrowed")),
                (none, none)
            );
        }
    }
}

/// Every loan that was ever lent.
type Seen = Arc<Mutex<BTreeSet<LoanId>>>;

/// Borrows; none: nobody led for too long.
fn borrow(client: &Client, seen: &Seen) -> Option<Borrowed> {
    match client.borrow(Share::memory(4096), PATIENCE) {
        Ok(loan) => {
            let is_new = seen.lock().expect("nobody panics").insert(loan.loan);
            assert!(is_new, "{} is given twice", loan.loan);
            Some(loan)
        }
        Err(BorrowError::NotLent(NotLent::NoMonitor)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// A borrower that takes and gives back all the time; how often it did.
fn borrows(client: &Client, seen: &Seen, is_over: &AtomicBool) -> u64 {
    let mut count = 0;
    while !is_over.load(Ordering::Acquire) {
        if let Some(loan) = borrow(client, seen) {
            assert!(client.renew(loan.loan, PATIENCE).expect("an answer"));
            count += 1;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let lost = client.events().try_recv().ok();
    assert_eq!(lost, None::<Event>, "a loan is lost");
    count
}

fn a_spare_takes_over_from_a_leader_that_is_killed_or_stopped() {
    let mut spares = Spares::start(1);
    let (seen, is_over) = (Seen::default(), Arc::new(AtomicBool::new(false)));
    let connect = |index| Client::connect(&spares.socket(index)).expect("an agent");
    let holder = connect(0);
    let held: Vec<Borrowed> = (0..3)
        .map(|_| borrow(&holder, &seen).expect("one leads"))
        .collect();
    let borrowers: Vec<_> = (0..NAMES.len())
        .map(|index| {
            let client = connect(index);
            let (seen, is_over) = (Arc::clone(&seen), Arc::clone(&is_over));
            thread::spawn(move || borrows(&client, &seen, &is_over))
        })
        .collect();
    let mut gaps = Vec::new();
    for round in 0..kills(3) {
        let leader = spares.until_led("one leads", |_| true);
        let other = 1 - leader;
        spares.until_spare(other, leader);
        // Of three rounds one kills it, one stops it, and one kills etcd.
        let harm = round % 3;
        let start = Instant::now();
        match harm {
            0 => spares.monitors[leader].take().expect("it runs").kill(),
            1 => {
                let process = spares.monitors[leader].as_ref().expect("it runs");
                process.signal(Signal::STOP);
            }
            _ => {
                spares.etcd.kill(0);
                thread::sleep(Duration::from_millis(500 * (round as u64 % 10)));
                spares.etcd.begin(0);
                spares.etcd.until_well();
            }
        }
        // What was asked for after that.
        let loan = std::iter::repeat_with(|| borrow(&holder, &seen))
            .flatten()
            .next();
        let gap = start.elapsed();
        drop(loan);
        println!("round {round}, harm {harm}: nothing was lent for {gap:?}");
        match harm {
            0 => {
                spares.begin(leader);
                gaps.push(gap);
            }
            1 => {
                let process = spares.monitors[leader].as_ref().expect("it runs");
                process.signal(Signal::CONT);
                spares.until_spare(leader, other);
                gaps.push(gap);
            }
            _ => {}
        }
    }
    is_over.store(true, Ordering::Release);
    let lent = borrowers.into_iter().map(|thread| thread.join());
    let lent: u64 = lent.map(|count| count.expect("no loan is lost")).sum();
    gaps.sort();
    println!(
        "{lent} loans; after {} leaders nothing was lent for {:?} (median), {:?} (most)",
        gaps.len(),
        gaps.get(gaps.len() / 2),
        gaps.last()
    );
    assert!(lent > 0);
    for loan in &held {
        assert!(holder.renew(loan.loan, PATIENCE).expect("an answer"));
    }
    assert_eq!(holder.events().try_recv().ok(), None, "a loan is lost");
    // All of these stand in the table of who leads now, and at their donors.
    spares.until_led("the loans are there", |status| {
        let rows = list(status, "rat").iter();
        let live = rows.filter(|row| row["standing"] == "live");
        let live: BTreeSet<u64> = live.filter_map(|row| row["loan"].as_u64()).collect();
        held.iter().all(|loan| live.contains(&loan.loan.0))
    });
    drop(held);
    spares.until_all_is_back();
    // One that ends by itself gives up its lease: nobody waits for that.
    let leader = spares.until_led("one leads", |_| true);
    let start = Instant::now();
    spares.monitors[leader].take().expect("it runs").end();
    spares.until_led_by(&[1 - leader], "the other one leads", |_| true);
    println!(
        "after an end the other one leads within {:?}",
        start.elapsed()
    );
}

fn a_spare_or_its_leader_goes_on_without_a_member_of_etcd() {
    let mut spares = Spares::start(3);
    let seen = Seen::default();
    let client = Client::connect(&spares.socket(0)).expect("an agent");
    let held = borrow(&client, &seen).expect("one leads");
    for round in 0..kills(3) {
        let member = round % 3;
        spares.etcd.kill(member);
        let start = Instant::now();
        let loan = std::iter::repeat_with(|| borrow(&client, &seen))
            .flatten()
            .next();
        println!("member {member} is gone: lent after {:?}", start.elapsed());
        drop(loan);
        let lost = client.events().try_recv().ok();
        assert_eq!(lost, None, "a loan is lost in round {round}");
        spares.etcd.begin(member);
        spares.etcd.until_well();
    }
    assert!(client.renew(held.loan, PATIENCE).expect("an answer"));
    assert_eq!(client.events().try_recv().ok(), None, "a loan is lost");
    drop(held);
    spares.until_all_is_back();
}

/// One whose agents show certificates, at the keys of those whose agents have a secret.
fn a_monitor_that_is_no_spare_of_the_leader_ends_and_says_so() {
    let spares = Spares::start(1);
    let state = format!("etcd://{}", spares.etcd.place("venice"));
    let authority = Authority::open(&spares.folder.path().join("authority"));
    let authority = authority.expect("an authority");
    let fingerprint = authority.fingerprint().to_string();
    let server = Server::start(Options {
        listen: ([127, 0, 0, 1], 0).into(),
        state: StatePlace::new(&state, LEASE).expect("a place"),
        trust: Trust::Authority(Box::new(authority)),
        settings: Settings::default(),
        policy: Box::new(ByDistance),
        admin: None,
        admin_hosts: Vec::new(),
    });
    let ended = server
        .expect("it starts")
        .join()
        .expect_err("it is no spare");
    let said = ended.to_string();
    let wanted = ["no spare", "--key-file", &fingerprint];
    assert!(wanted.iter().all(|text| said.contains(text)), "{said}");
    // The others go on.
    spares.until_led("nobody noticed", |status| {
        list(status, "rrt").len() == NAMES.len()
    });
}
