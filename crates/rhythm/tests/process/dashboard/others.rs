//! The dashboards of other servers than `rhythm serve`, and what runs in its process: one scenario
//! each, in a real browser.

use super::browser::Browser;
use super::seen::is_for_everybody;
use super::{figure, is_above_zero, under_load};
#[cfg(feature = "consensus")]
use crate::keyspace::Nodes;
use crate::rpo::{self, Controller, Idle};
use crate::server::{NEVER, Server, service};
use rhythm_etcd::testing::free_places;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Opens a page, and waits until it shows something.
fn open(admin: &str, test: &str) -> Browser {
    let browser = Browser::start(test);
    // Whoever was started just now may not listen yet.
    let start = Instant::now();
    while std::net::TcpStream::connect(admin).is_err() {
        assert!(start.elapsed() < NEVER, "nobody listens at {admin}");
        thread::sleep(Duration::from_millis(20));
    }
    browser.open(&format!("http://{admin}/"));
    let is_shown = "return document.querySelector('main > section') !== null";
    browser.until(is_shown, |told| *told == true);
    browser
}

#[test]
fn a_controller_shows_what_is_in_force_and_why() {
    let Some(all) = rpo::all_cpus() else { return };
    let (folder, server) = (rpo::folder("dashboard"), Idle::start());
    let process = server.0.id().to_string();
    let controller = Controller::start(&folder, all[0], &["--pid", &process]);
    let browser = open(&controller.admin(), "dashboard_rpo");
    browser.until_shown("#hint", "No request was told of yet");
    browser.until(&figure("setting", "In force"), |told| {
        *told == "all threads"
    });
    controller.heavy();
    browser.until(&figure("setting", "In force"), |told| *told == "one a core");
    browser.until(&figure("decisions", "Switches"), |told| *told == "1");
    browser.until_shown("#setting .note", "Why: ");
    browser.until_shown("#decisions tbody", "one a core: 0 of the last 20 requests");
    let chart = "return document.querySelector('#decisions .plot svg').ariaLabel";
    browser.until(chart, |told| {
        told.as_str()
            .is_some_and(|words| words.contains("to one a core: now 1"))
    });
    browser.until_shown("#calm", "Nothing needs attention");
    is_for_everybody(&browser, "rpo");
}

#[test]
fn a_server_shows_what_its_controller_does() {
    let Some(all) = rpo::all_cpus() else { return };
    let flags = [
        "--rpo=one-per-core",
        "--rpo-fewer-cpus",
        &all[0].to_string(),
    ];
    let server = Server::start(&service("dashboard_own_rpo"), &flags);
    let browser = open(&server.admin.to_string(), "dashboard_own_rpo");
    browser.until(&figure("rpo", "In force"), |told| *told == "one a core");
    browser.until_shown("#rpo", "No request was answered yet.");
    under_load(&server, &["/hello"], || {
        // The page is a class, and its share of the answers is all of them.
        let row = "return [...document.querySelectorAll('#rpo tbody tr')]\
                   .find((row) => row.cells[0].textContent === '/hello')?.innerText ?? ''";
        browser.until(row, |told| {
            told.as_str().is_some_and(|words| words.contains("100 %"))
        });
    });
    is_for_everybody(&browser, "own-rpo");
}

#[cfg(feature = "consensus")]
#[test]
fn a_node_of_a_keyspace_shows_who_leads_and_who_is_away() {
    let admin = free_places(1)[0].to_string();
    let mut nodes = Nodes::start("dashboard_keyspace");
    let leader = nodes.leader();
    // Of a node that does not lead, begun anew with an admin listener.
    let (shown, other) = ((leader + 1) % 3, (leader + 2) % 3);
    nodes.kill(shown);
    nodes.begin(shown, &["--admin", &admin]);
    let browser = open(&admin, "dashboard_keyspace");
    browser.until(&figure("nodes", "Nodes reached"), |told| *told == "3");
    browser.until_shown("#nodes tbody", "leads");
    browser.until_shown("#calm", "Nothing needs attention");
    nodes.kill(other);
    let name = ["a", "b", "c"][other];
    browser.until_shown("[role=alert]", &format!("not reached: {name}"));
    browser.until_shown("#nodes .state.ill", "not reached");
    is_for_everybody(&browser, "keyspace");
}

/// A process of `rhythm venice`, killed when dropped.
struct Venice(Child);

impl Venice {
    fn start(folder: &Path, args: &[&str]) -> Venice {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command.arg("venice").args(args);
        command.arg("--key-file").arg(folder.join("key"));
        let child = command.stderr(Stdio::null()).spawn();
        Venice(child.expect("it starts"))
    }
}

impl Drop for Venice {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_monitor_and_an_agent_show_the_rack() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("key"), "a secret of the test\n").expect("a file");
    fs::set_permissions(path("key"), Permissions::from_mode(0o600)).expect("its user's");
    let places = free_places(4);
    let [listen, of_monitor, of_left, of_right] =
        [0, 1, 2, 3].map(|index| places[index].to_string());
    let state = path("state");
    let args = [
        "monitor",
        "--listen",
        &listen,
        "--admin",
        &of_monitor,
        "--state",
        &state,
        // Who is killed is shown as gone until it is taken for dead: for longer than a page takes.
        "--dead-after",
        "60s",
        "--gone-after",
        "60s",
    ];
    let _monitor = Venice::start(folder.path(), &args);
    let browser = open(&of_monitor, "dashboard_venice");
    browser.until_shown("#hint", "No node has come yet");
    let agent = |name: &str, admin: &str, lends: &[&str]| {
        let socket = path(&format!("{name}.sock"));
        let args = [
            "agent",
            "--monitor",
            &listen,
            "--admin",
            admin,
            "--socket",
            &socket,
        ];
        let args = [&args[..], &["--name", name, "--keep-free", "0"], lends].concat();
        Venice::start(folder.path(), &args)
    };
    let _left = agent(
        "left",
        &of_left,
        &["--lend", "64M", "--lend-accelerators", "aes=2"],
    );
    let right = agent("right", &of_right, &["--lend", "1M"]);
    browser.until(&figure("rack", "Nodes connected"), |told| *told == "2");
    browser.until_shown("#nodes tbody", "64 MiB");
    browser.until_shown("#nodes", "aes of left");
    browser.until_shown("#loans", "Nothing is lent now.");
    // They test the link between them, each way and each in its own time.
    browser.until_shown("#links tbody", "left to right");
    browser.until_shown("#links tbody", "right to left");
    browser.until(&figure("rack", "Memory idle"), is_above_zero);
    is_for_everybody(&browser, "monitor");
    browser.open(&format!("http://{of_left}/"));
    browser.until(&figure("node", "Node"), |told| *told == "left");
    browser.until_shown("#links tbody", "right");
    browser.until_shown("#calm", "Nothing needs attention");
    is_for_everybody(&browser, "agent");
    drop(right);
    browser.open(&format!("http://{of_monitor}/"));
    browser.until_shown("[role=alert]", "not connected: right");
}
