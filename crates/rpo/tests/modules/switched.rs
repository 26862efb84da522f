//! The controller beside nginx itself: told by our module or by nginx's access log, it classifies
//! what nginx is asked, and switches nginx's processes by the paper's rule.
//!
//! One CPU stands against all, so that it needs no simultaneous multithreading.

use crate::nginx::{LOG, Nginx};
use crate::told::{ask, until};
use rhythm_rpo::classifier::Classifier;
use rhythm_rpo::collector::Form;
use rhythm_rpo::cpus::CpuSet;
use rhythm_rpo::daemon::{self, Parts, Status};
use rhythm_rpo::policy::Majority;
use rhythm_rpo::switcher::{Affinity, Switcher};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A batch of the paper.
const BATCH: u32 = 20;

/// A controller in this process, which knows TPC-W's classes.
struct Controller {
    all: CpuSet,
    one: CpuSet,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<String>>,
}

impl Controller {
    /// None where there is one CPU.
    fn start(nginx: &Nginx, rings: Vec<PathBuf>, logs: Vec<PathBuf>) -> Option<Controller> {
        let pid = nginx.pid().as_raw_nonzero().get().unsigned_abs();
        let switcher = Affinity::open(pid).expect("nginx runs");
        let all = switcher.full().clone();
        if all.len() < 2 {
            eprintln!("not tried: one CPU");
            return None;
        }
        let one: CpuSet = all.iter().take(1).collect();
        let classifier = Classifier::tpcw();
        let logs = logs.into_iter().map(|path| (path, 0o666, Form::AccessLog));
        let parts = Parts {
            switcher: Box::new(switcher),
            fewer: one.clone(),
            choose: None,
            policy: Box::new(Majority::with_batch(classifier.table(), BATCH)),
            classifier,
            rings,
            datagrams: logs.collect(),
            counting: Vec::new(),
            hardware: None,
            only_watches: false,
            told: Status::default(),
            state: None,
            claim: None,
            admin: None,
        };
        let is_ending = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_ending);
        let run = move || daemon::run(parts, &told).expect("it ends in order");
        Some(Controller {
            all,
            one,
            is_ending,
            thread: Some(std::thread::spawn(run)),
        })
    }

    /// Ends it; its last status.
    fn end(&mut self) -> Option<String> {
        self.is_ending.store(true, Ordering::Relaxed);
        // A panic of it is the test's.
        self.thread.take()?.join().ok()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.end();
    }
}

/// The CPUs of nginx's master and its workers.
fn have(nginx: &Nginx, cpus: &CpuSet) -> bool {
    let workers = nginx.workers();
    let set_of = |pid: Pid| -> Option<CpuSet> {
        let set = rustix::thread::sched_getaffinity(Some(pid)).ok()?;
        let most = rustix::thread::CpuSet::MAX_CPU;
        Some((0..most).filter(|&cpu| set.is_set(cpu)).collect())
    };
    workers.len() == 2
        && std::iter::once(nginx.pid())
            .chain(workers)
            .all(|pid| set_of(pid).as_ref() == Some(cpus))
}

fn batch(nginx: &Nginx, method: &str, path: &str) {
    for _ in 0..BATCH {
        ask(nginx.port, method, path).expect("it answers");
    }
}

fn heavy(nginx: &Nginx) {
    batch(nginx, "POST", "/cart");
}

fn light(nginx: &Nginx) {
    batch(nginx, "GET", "/item/7?from=home");
}

#[test]
fn nginx_is_switched_by_what_its_module_tells() {
    let nginx = Nginx::start("rpo_ring AT/ring 1024;");
    let ring = nginx.dir.path().join("ring");
    let Some(mut controller) = Controller::start(&nginx, vec![ring], Vec::new()) else {
        return;
    };
    let (all, one) = (controller.all.clone(), controller.one.clone());
    // What came before it looked into the ring, it does not know of.
    until("one a core", || {
        heavy(&nginx);
        have(&nginx, &one)
    });
    light(&nginx);
    light(&nginx);
    until("all threads", || have(&nginx, &all));
    heavy(&nginx);
    heavy(&nginx);
    until("one a core again", || have(&nginx, &one));
    // Who comes instead of a killed worker, or after a reload, has what its master has.
    let killed = nginx.workers()[0];
    kill_process(killed, Signal::KILL).expect("it runs");
    until("another worker", || {
        !nginx.workers().contains(&killed) && have(&nginx, &one)
    });
    nginx.reload();
    until("one a core after a reload", || have(&nginx, &one));
    light(&nginx);
    light(&nginx);
    until("all threads after a reload", || have(&nginx, &all));
    heavy(&nginx);
    heavy(&nginx);
    until("one a core after a reload", || have(&nginx, &one));
    let status = controller.end().expect("it ends in order");
    assert!(have(&nginx, &all), "what it found is put back");
    assert!(status.contains("0 lost, 0 garbage"), "{status}");
}

#[test]
fn nginx_is_switched_by_its_access_log() {
    let nginx = Nginx::start(LOG);
    let log = nginx.dir.path().join("log.sock");
    // The second finds that nginx had the socket of the first.
    for _ in 0..2 {
        let Some(mut controller) = Controller::start(&nginx, Vec::new(), vec![log.clone()]) else {
            return;
        };
        let (all, one) = (controller.all.clone(), controller.one.clone());
        until("one a core", || {
            heavy(&nginx);
            have(&nginx, &one)
        });
        until("all threads", || {
            light(&nginx);
            have(&nginx, &all)
        });
        until("one a core again", || {
            heavy(&nginx);
            have(&nginx, &one)
        });
        let status = controller.end().expect("it ends in order");
        assert!(have(&nginx, &all), "what it found is put back");
        assert!(status.contains(" 0 garbage"), "{status}");
    }
}
