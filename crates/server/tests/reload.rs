//! What a reload replaces goes when the last request that needs it is answered.

mod common;

use common::*;
use rhythm_cohort::Policy;
use rhythm_net::{Port, Time};
use rhythm_server::backend::{Backend, BackendCounts, Batch, Tell};
use rhythm_server::{ConnectionOwner, Server, ServerParts, Site};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An [`Echo`] that sends each request twice and is counted while it is there.
struct Counted {
    echo: Echo,
    retries: u64,
    alive: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl ConnectionOwner for Counted {
    fn wake_at(&self) -> Option<Time> {
        self.echo.wake_at()
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.echo.tick(port, now);
    }
}

impl Backend for Counted {
    fn submit(&mut self, port: &mut dyn Port, batch: Batch<'_>, now: Time) {
        self.retries += batch.asks.len() as u64;
        self.echo.submit(port, batch, now);
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        self.echo.poll(tell);
    }

    fn counts(&self) -> BackendCounts {
        BackendCounts {
            retries: self.retries,
            ..BackendCounts::default()
        }
    }

    fn close(&mut self, _: &mut dyn Port) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn old_sites_and_backends_go_and_their_figures_stay() {
    const RELOADS: usize = 4;
    // Each of another time-out, so that no backend is as the one before.
    let mut sites: VecDeque<Arc<Site>> = (0..=RELOADS)
        .map(|version| {
            let settings = SERVICE.replace("30s", &format!("{}s", 30 + version));
            site_of(service_of(PAGES, &settings))
        })
        .collect();
    let watched: Vec<Weak<Site>> = sites.iter().map(Arc::downgrade).collect();
    let first = sites.pop_front().expect("the first");
    let options = options_of(first.service());
    let loader = Box::new(move || sites.pop_front().ok_or_else(|| "no more".to_owned()));
    let [made, alive, closed] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = [made.clone(), alive.clone(), closed.clone()];
    let parts = ServerParts {
        backends: Arc::new(move |_, _| {
            let [made, alive, closed] = counts.clone();
            made.fetch_add(1, Ordering::Relaxed);
            alive.fetch_add(1, Ordering::Relaxed);
            Box::new(Counted {
                echo: Echo::default(),
                retries: 0,
                alive,
                closed,
            })
        }),
        ..parts(first, loader)
    };
    let server = Server::start(options, parts).expect("it starts");
    let mut client = client(&server);
    for reload in 0..RELOADS {
        assert_eq!(client.get("/ask?q=a").text(), "[a]");
        // Still under way when the service is replaced.
        client.send("GET /ask?q=late HTTP/1.1\r\nHost: h\r\n\r\n");
        let metrics = server.metrics().worker(0).backend("echo");
        let asked = 2 * (reload as u64 + 1);
        eventually("it is asked", || metrics.requests.get() == asked);
        server.reload().expect("the next version");
        assert_eq!(client.response(false).text(), "[late]");
    }
    assert_eq!(client.get("/ask?q=a").text(), "[a]");
    assert_eq!(made.load(Ordering::Relaxed), RELOADS + 1);
    eventually("old backends are dropped", || {
        alive.load(Ordering::Relaxed) == 1
    });
    assert_eq!(closed.load(Ordering::Relaxed), RELOADS);
    eventually("old sites are dropped", || {
        watched
            .iter()
            .filter(|site| site.strong_count() > 0)
            .count()
            == 1
    });
    let metrics = server.metrics().worker(0).backend("echo");
    let retries = 2 * RELOADS as u64 + 1;
    eventually("all are counted", || metrics.retries.get() == retries);
    stop(server);
}

#[test]
fn figures_of_a_page_that_is_gone_go() {
    let (gone, left): (Vec<_>, Vec<_>) = PAGES.iter().partition(|(name, _)| *name == "gone.html");
    assert_eq!(gone.len(), 1);
    let without = site_of(service_of(&left, SERVICE));
    let first = site_of(service_of(PAGES, SERVICE));
    let options = options_of(first.service());
    let loader = Box::new(move || Ok(without.clone()));
    let server = Server::start(options, parts(first, loader)).expect("it starts");
    let mut client = client(&server);
    assert_eq!(client.get("/gone").status, 303);
    assert_eq!(client.get("/hello").status, 200);
    let shows = |page: &str| {
        let text = server.metrics().encode().expect("it can be written");
        text.contains(&format!("page=\"{page}\""))
    };
    eventually("figures of both", || shows("gone") && shows("hello"));
    server.reload().expect("the next version");
    eventually("one is forgotten", || !shows("gone"));
    assert!(shows("hello"), "the other is served on");
    stop(server);
}

#[test]
fn what_has_formed_when_a_reload_comes_waits_for_nobody() {
    let [first, next] = [(); 2].map(|()| site_of(service_of(PAGES, SERVICE)));
    let mut options = options_of(first.service());
    // Launched when it is full, and not within this test's time otherwise.
    options.pipeline.formation.policy = Policy::Fixed;
    options.pipeline.formation.delay = Duration::from_secs(600);
    let loader = Box::new(move || Ok(next.clone()));
    let server = Server::start(options, parts(first, loader)).expect("it starts");
    let mut client = client(&server);
    client.send("GET /hello?name=b HTTP/1.1\r\nHost: x\r\n\r\n");
    let metrics = server.metrics().worker(0);
    eventually("it is taken", || metrics.page("hello").requests.get() == 1);
    server.reload().expect("the next version");
    assert_eq!(client.response(false).text(), "<p>Hello b!</p>");
    stop(server);
}
