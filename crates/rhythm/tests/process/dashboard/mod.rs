//! The dashboard, as people see it: in a real browser, under load, and where things fail.
//!
//! Needs Debian's `chromium` and `chromium-driver`; each test has a browser of its own.

mod browser;
mod kv;
mod others;
mod seen;

use super::redis::Keeper;
use super::server::{NEVER, Server, service};
use super::site::Site;
use browser::Browser;
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs this again and again on some threads, while something else is done; one that fails is run
/// anew.
fn meanwhile<T>(again: impl Fn() -> Option<()> + Sync, what: impl FnOnce() -> T) -> T {
    /// However it ends, the others do.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = End(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = again();
                }
            });
        }
        let told = what();
        drop(end);
        told
    })
}

/// Asks for these pages, again and again, while something is done.
fn under_load<T>(server: &Server, paths: &[&str], what: impl FnOnce() -> T) -> T {
    let visit = || {
        let mut client = server.client();
        for path in paths.iter().cycle().take(60) {
            client.ask("GET", path, "").ok()?;
            thread::sleep(Duration::from_millis(5));
        }
        Some(())
    };
    meanwhile(visit, what)
}

/// A script that returns the number that a figure shows, of a panel, by its label.
fn figure(panel: &str, label: &str) -> String {
    format!(
        "const all = [...document.querySelectorAll('#{panel} dl > div')]; \
         const of = all.find((it) => it.querySelector('dt').textContent === '{label}'); \
         return of?.querySelector('dd span').textContent ?? ''"
    )
}

/// A script that returns the lowest and the highest point of a chart's first line, or nothing.
fn line(panel: &str) -> String {
    format!(
        "const points = document.querySelector('#{panel} .plot polyline')?.getAttribute('points');\
         const heights = points?.split(' ').map((point) => Number(point.split(',')[1])) ?? [];\
         return heights.length > 2 ? [Math.min(...heights), Math.max(...heights)] : null"
    )
}

fn is_above_zero(told: &Value) -> bool {
    let number = told.as_str().and_then(|text| text.split(' ').next());
    number.is_some_and(|number| number.chars().any(|digit| ('1'..='9').contains(&digit)))
}

fn open(server: &Server, test: &str) -> Browser {
    let browser = Browser::start(test);
    browser.open(&format!("http://{}/", server.admin));
    browser
}

#[test]
fn what_is_asked_moves_the_charts() {
    let server = Server::start(&service("dashboard_load"), &[]);
    let browser = open(&server, "dashboard_load");
    let hint = browser.until_shown("#hint", "No request has come yet");
    assert!(hint.contains(&server.address.to_string()), "{hint}");
    browser.until_shown("#calm", "Nothing needs attention");
    browser.until(&figure("requests", "Requests"), |told| told == "0 /s");
    under_load(&server, &["/hello"], || {
        for (panel, label) in [
            ("requests", "Requests"),
            ("latency", "Whole time, mean"),
            ("latency", "Answering, p99"),
            ("cohorts", "Requests a cohort"),
            ("queue", "Connections"),
            ("machine", "CPU a request"),
        ] {
            browser.until(&figure(panel, label), is_above_zero);
        }
        // Points are the higher the less they are from above.
        let moves = |told: &Value| {
            let heights = told
                .as_array()
                .map(|both| [both[0].as_f64(), both[1].as_f64()]);
            matches!(heights, Some([Some(least), Some(most)]) if most - least > 10.0)
        };
        browser.until(&line("requests"), moves);
        let words = "return document.querySelector('#requests .plot svg').ariaLabel";
        browser.until(words, |told| {
            let told = told.as_str().unwrap_or_default();
            told.contains("Requests answered, last 3 minutes. pages: now ")
        });
        browser.until_shown("#pages tbody th", "hello");
        browser.until_shown("#cohorts .bars", " %");
    });
    browser.until("return document.getElementById('hint').hidden", |told| {
        *told == true
    });
    // When nobody asks any more, it says so.
    browser.until(&figure("requests", "Requests"), |told| told == "0 /s");
    assert_eq!(
        browser.said(),
        [""; 0],
        "no error, and nothing against the policy"
    );
}

#[test]
fn a_page_that_is_paused_asks_for_nothing() {
    let server = Server::start(&service("dashboard_pause"), &[]);
    let browser = open(&server, "dashboard_pause");
    browser.until(&figure("requests", "Since the start"), |told| told == "0");
    // It asks for one thing at a time: when this is asked for, what was before has come.
    browser.run(
        "const before = window.fetch; \
         [window.asked, window.underWay] = [0, 0]; \
         window.fetch = async (...asked) => { \
             window.asked += 1; \
             window.underWay += 1; \
             try { \
                 return Response.json(await (await before(...asked)).json()); \
             } finally { \
                 window.underWay -= 1; \
             } \
         }",
    );
    let asked = "return window.asked";
    browser.until(asked, |told| told.as_u64() > Some(0));
    browser.run("document.getElementById('pause').click()");
    browser.until("return window.underWay", |told| *told == 0);
    let before = browser.run(asked);
    assert!(server.client().ask("GET", "/hello", "").is_ok());
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(browser.run(asked), before);
    assert_eq!(browser.run(&figure("requests", "Since the start")), "0");
    browser.run("document.getElementById('pause').click()");
    browser.until(&figure("requests", "Since the start"), |told| told == "1");
}

#[test]
fn a_server_that_is_gone_is_told_of_until_it_is_back() {
    let folder = service("dashboard_gone");
    // The admin listener's socket is this process's, so that the next server has it, too.
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let start = || {
        let script = "LISTEN_FDS=1 LISTEN_FDNAMES=admin LISTEN_PID=$$ \
                      exec \"$0\" \"$@\" 3<&0 0</dev/null";
        let socket = socket.try_clone().expect("a file");
        Server::start_by(script, OwnedFd::from(socket).into(), &folder, &[])
    };
    let server = start();
    assert!(server.client().ask("GET", "/hello", "").is_ok());
    let browser = open(&server, "dashboard_gone");
    browser.until(&figure("requests", "Since the start"), |told| told == "1");
    server.signal(Signal::KILL);
    assert!(!server.ended().success());
    browser.until_shown("[role=alert]", "The server does not answer");
    let title = browser.run("return document.title");
    assert!(
        title
            .as_str()
            .is_some_and(|title| title.starts_with('\u{26a0}')),
        "{title}"
    );
    let server = start();
    browser.until_shown("#calm", "Nothing needs attention");
    // What it counts begins anew.
    browser.until(&figure("requests", "Since the start"), |told| told == "0");
    assert!(server.client().ask("GET", "/hello", "").is_ok());
    browser.until(&figure("requests", "Since the start"), |told| told == "1");
}

/// A script that has the page be told this way from now on: with a change of `told`.
fn told_with(change: &str) -> String {
    format!(
        "const before = window.fetch; \
         window.fetch = async (...asked) => {{ \
             const told = await (await before(...asked)).json(); \
             {change}; \
             return Response.json(told); \
         }}"
    )
}

#[test]
fn what_a_page_cannot_show_is_no_absence_and_another_version_has_its_own_page() {
    let server = Server::start(&service("dashboard_upgrade"), &[]);
    let browser = open(&server, "dashboard_upgrade");
    browser.until_shown("#calm", "Nothing needs attention");
    // Of one whose threads do not answer, what it told before stays to be seen.
    browser.run(&told_with(
        "if (window.hangs) { [told.panels, told.alarms] = [[], ['it hangs']]; }",
    ));
    browser.run("window.hangs = true");
    browser.until_shown("[role=alert]", "it hangs");
    let figures = "return document.querySelectorAll('.stale main > section dd').length";
    browser.until(figures, |told| told.as_u64() > Some(10));
    browser.run("window.hangs = false");
    browser.until_shown("#calm", "Nothing needs attention");
    let stale = "return document.querySelectorAll('.stale').length";
    assert_eq!(browser.run(stale), 0);
    browser.run(&told_with("told.panels[0].parts.push({ novel: 1 })"));
    browser.until_shown("[role=alert]", "cannot show what the server tells");
    browser.run(&told_with("told.version = 'of tomorrow'"));
    // A page that is loaded anew has nothing of all this.
    let is_anew = "return window.fetch.toString().includes('native')";
    browser.until(is_anew, |told| *told == true);
    browser.until_shown("#calm", "Nothing needs attention");
}

#[test]
fn figures_are_of_the_last_seconds_whenever_the_page_was_seen_before() {
    let server = Server::start(&service("dashboard_gaps"), &[]);
    let browser = open(&server, "dashboard_gaps");
    // When it is told, of how many requests; half of these in a histogram's first bucket. What is
    // late is told from 4001 on.
    browser.run(
        "import('/dashboard/values.js').then(({ Samples }) => { \
             const samples = new Samples(); \
             const counted = [[0, 0], [1, 10], [4000, 90000], [4001, 90020], [4002, 90030]]; \
             window.seen = counted.map(([at, count]) => { \
                 const figures = [ \
                     { label: 'rate', value: { rate: count } }, \
                     { label: 'most', value: { most: 100 / (at + 1) } }, \
                     { label: 'half', value: { quantile: [0.5, 'sizes'] } }, \
                     { label: 'late', value: at > 4000 ? { rate: count } : { text: '' } }, \
                 ]; \
                 const panels = [{ id: 'of', parts: [{ figures }] }]; \
                 const histograms = { sizes: [[1024, count, 0]] }; \
                 samples.add({ at, started: 1, panels, histograms }); \
                 return figures.map(({ label }) => samples.number(`of/0/${label}`)); \
             }); \
         })",
    );
    let seen = browser.until("return window.seen ?? null", |told| !told.is_null());
    let wanted = serde_json::json!([
        [null, 100, null, null],
        [10, 100, 512, null],
        [null, 100, null, null],
        [20, 100, 512, null],
        [15, 100, 512, 10],
    ]);
    assert_eq!(seen, wanted);
}

/// Waits until no process has this in its command line.
fn until_gone(words: &str) {
    let start = Instant::now();
    loop {
        let all = std::fs::read_dir("/proc").expect("it is Linux").flatten();
        let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        if !lines
            .into_iter()
            .any(|line| String::from_utf8_lossy(&line).contains(words))
        {
            return;
        }
        assert!(start.elapsed() < NEVER, "{words} lives on");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_backend_that_is_killed_is_down_and_comes_back() {
    let mut keeper = Keeper::start("dashboard_redis", &[]);
    let settings = format!("kind = \"redis\"\nurl = \"{}\"\n", keeper.url());
    let site = Site::new("dashboard_backend", &settings);
    // What comes from a page's file is shown as it is, too.
    site.write(
        "pages/a&<i>b.html",
        "+++\nroute = \"GET /asked\"\n[[step]]\ncall = \"asked\"\n\
         command = [\"INCR\", \"n\"]\nrow = \"n(count:int)\"\n+++\n{{ n.count }}",
    );
    let server = Server::start(&site.folder, &[]);
    let browser = open(&server, "dashboard_backend");
    let health = "#backends .state";
    under_load(&server, &["/asked"], || {
        let up = browser.until_shown(health, "up");
        assert!(!up.contains("down"));
        browser.until_shown("#errors", "No page has failed.");
        keeper.kill();
        browser.until_shown(health, "down");
        let ill = "return document.querySelector('#backends .state').classList.contains('ill')";
        browser.until(ill, |told| *told == true);
        browser.until_shown("[role=alert]", "backend asked is down");
        browser.until_shown("[role=alert]", "page a&<i>b fails");
        let errors = browser.until_shown("#errors tbody", "asked (");
        assert!(errors.contains("a&<i>b"), "{errors}");
        keeper.start_again();
        browser.until_shown(health, "up");
        browser.until_shown("#calm", "Nothing needs attention");
    });
    assert_eq!(browser.said(), [""; 0]);
    drop(browser);
    until_gone("dashboard_backend-browser");
}
