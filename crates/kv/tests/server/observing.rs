//! What an operator sees: health and figures, at the admin listener.

use super::{NEVER, Running, expect, here, start};
use rhythm_kv::server::Server;
use rhythm_kv::shared::Settings;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

fn observed() -> Settings {
    Settings {
        admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        admin_hosts: vec!["cache.example".to_owned()],
        ..here()
    }
}

impl Running {
    pub(crate) fn admin(&self) -> SocketAddr {
        let address = self.server.as_ref().and_then(Server::admin_address);
        address.expect("an admin listener")
    }
}

/// The status and the body of the answer to one request by a client of its own.
fn ask(at: SocketAddr, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a time");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a whole answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), body.to_owned())
}

pub(crate) fn get(at: SocketAddr, path: &str) -> (u16, String) {
    ask(at, "GET", path, "127.0.0.1")
}

/// The value of a figure; without labels there are empty braces behind its name.
fn figure(text: &str, name: &str) -> f64 {
    let mut lines = text.lines();
    let value = lines.find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.strip_prefix("{}").unwrap_or(rest).strip_prefix(' ')
    });
    let value = value.unwrap_or_else(|| panic!("{name} is not in {text}"));
    value.parse().expect("a number")
}

/// What is told there, once it says so: a turn is told of when it is over, which may be after its
/// answers have come.
fn until(at: SocketAddr, path: &str, says_so: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let (status, text) = get(at, path);
        assert_eq!(status, 200);
        if says_so(&text) {
            return text;
        }
        assert!(start.elapsed() < NEVER, "{text}");
    }
}

#[test]
fn there_is_no_admin_listener_unless_it_is_asked_for() {
    let running = start(here());
    let server = running.server.as_ref().expect("it runs");
    assert_eq!(server.admin_address(), None);
}

#[test]
fn values_too_large_are_counted_whichever_way_they_come() {
    let running = start(observed());
    let value = "x".repeat(2 << 20);
    let line = format!("set a 0 0 {} noreply\r\n{value}\r\nmn\r\n", value.len());
    expect(&mut running.connect(), &line, "MN\r\n");
    let mut packet = vec![0x80, 1, 0, 1, 8, 0, 0, 0];
    packet.extend((value.len() as u32 + 9).to_be_bytes());
    packet.extend([0; 12 + 8]);
    packet.extend(format!("a{value}").as_bytes());
    let mut stream = running.connect();
    stream.write_all(&packet).expect("it reads");
    let mut answer = [0; 24];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[6..8], [0, 3], "too large");
    let name = "rhythm_kv_sets_refused_total{reason=\"too_large\"}";
    until(running.admin(), "/metrics", |text| {
        figure(text, name) == 2.0
    });
}

#[test]
fn figures_tell_what_clients_did() {
    let running = start(observed());
    let mut client = running.connect();
    let long = "x".repeat(200_000);
    for (sent, answer) in [
        (
            "set a 0 0 1\r\n1\r\nget a b\r\n",
            "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n",
        ),
        (
            "incr a 1\r\ndecr b 1\r\ndelete b\r\n",
            "2\r\nNOT_FOUND\r\nNOT_FOUND\r\n",
        ),
        (
            "touch a 0\r\ncas b 0 0 1 7\r\nx\r\n",
            "TOUCHED\r\nNOT_FOUND\r\n",
        ),
        (&format!("set long 0 0 200000\r\n{long}\r\n"), "STORED\r\n"),
        (
            "stats reset\r\nget a\r\n",
            "RESET\r\nVALUE a 0 1\r\n2\r\nEND\r\n",
        ),
    ] {
        expect(&mut client, sent, answer);
    }
    let text = until(running.admin(), "/metrics", |text| {
        figure(text, "rhythm_kv_cohort_size_sum") == 11.0
    });
    for (name, value) in [
        ("rhythm_kv_commands_total{command=\"get\"}", 3.0),
        ("rhythm_kv_commands_total{command=\"set\"}", 3.0),
        ("rhythm_kv_commands_total{command=\"cas\"}", 1.0),
        ("rhythm_kv_commands_total{command=\"delete\"}", 1.0),
        ("rhythm_kv_keys_total{command=\"get\",outcome=\"hit\"}", 2.0),
        (
            "rhythm_kv_keys_total{command=\"get\",outcome=\"miss\"}",
            1.0,
        ),
        (
            "rhythm_kv_keys_total{command=\"incr\",outcome=\"hit\"}",
            1.0,
        ),
        (
            "rhythm_kv_keys_total{command=\"decr\",outcome=\"miss\"}",
            1.0,
        ),
        (
            "rhythm_kv_keys_total{command=\"touch\",outcome=\"hit\"}",
            1.0,
        ),
        ("rhythm_kv_connections", 1.0),
        ("rhythm_kv_connections_accepted_total", 1.0),
        ("rhythm_kv_items", 2.0),
        ("rhythm_kv_long_value_bytes", 200_000.0),
        ("rhythm_kv_segments{state=\"open\"}", 1.0),
        ("rhythm_kv_segments{state=\"sealed\"}", 0.0),
        ("rhythm_kv_memory_max_bytes", f64::from(64 << 20)),
    ] {
        assert_eq!(figure(&text, name), value, "{name}: {text}");
    }
    let turns = figure(&text, "rhythm_kv_turn_seconds_count");
    assert!(turns >= 4.0, "{text}");
    let took = |command| {
        let name = format!("rhythm_kv_command_seconds_count{{command=\"{command}\"}}");
        figure(&text, &name)
    };
    let all = ["get", "set", "cas", "incr", "decr", "touch", "delete"].map(took);
    assert_eq!(all, [3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0], "{text}");
    let segments = figure(&text, "rhythm_kv_segments{state=\"free\"}");
    let segment = figure(&text, "rhythm_kv_segment_bytes");
    assert!(segments * segment <= f64::from(64 << 20), "{text}");
}

#[test]
fn eviction_is_told_and_where_memory_went() {
    let running = start(Settings {
        memory: 4 << 20,
        ..observed()
    });
    let mut client = running.connect();
    let value = "v".repeat(1000);
    for batch in 0..100 {
        let sets = (0..100).map(|key| format!("set {batch}-{key} 0 0 1000\r\n{value}\r\n"));
        let sets: String = sets.collect();
        expect(&mut client, &sets, &"STORED\r\n".repeat(100));
    }
    let text = until(running.admin(), "/metrics", |text| {
        let evicted = figure(text, "rhythm_kv_evictions_total{fetched=\"no\"}");
        figure(text, "rhythm_kv_items") + evicted == 10_000.0
    });
    let content = |name| {
        figure(
            &text,
            &format!("rhythm_kv_sealed_bytes{{content=\"{name}\"}}"),
        )
    };
    let sealed = figure(&text, "rhythm_kv_segments{state=\"sealed\"}");
    let segment = figure(&text, "rhythm_kv_segment_bytes");
    assert!(sealed > 0.0, "{text}");
    let contents: f64 = ["live", "dead", "unused"].map(content).iter().sum();
    assert_eq!(contents, sealed * segment, "{text}");
    assert!(
        content("live") <= figure(&text, "rhythm_kv_item_bytes"),
        "{text}"
    );
    let used = figure(&text, "rhythm_kv_memory_used_bytes");
    assert!(
        used <= figure(&text, "rhythm_kv_memory_max_bytes"),
        "{text}"
    );
}

#[test]
fn who_does_not_mean_this_machine_is_refused() {
    let running = start(observed());
    let admin = running.admin();
    for (host, status) in [
        ("127.0.0.1:11212", 200),
        ("localhost", 200),
        ("Cache.example:80", 200),
        ("rebound.example", 421),
    ] {
        assert_eq!(ask(admin, "GET", "/healthz", host).0, status, "{host}");
    }
    let (_, why) = ask(admin, "GET", "/metrics", "rebound.example");
    assert!(why.contains("not in --admin-hosts"), "{why}");
    assert_eq!(ask(admin, "POST", "/metrics", "localhost").0, 405);
    assert_eq!(get(admin, "/none").0, 404);
    assert_eq!(get(admin, "/healthz"), (200, "ok\n".to_owned()));
}

#[test]
fn the_dashboard_shows_commands_and_memory() {
    let running = start(observed());
    let admin = running.admin();
    let (status, page) = get(admin, "/");
    assert!(
        status == 200 && page.starts_with("<!doctype html>"),
        "{page}"
    );
    let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).expect("JSON") };
    let hint = read(&get(admin, "/dashboard.json").1)["hint"].to_string();
    assert!(hint.contains("rhythm load memcached://"), "{hint}");
    expect(&mut running.connect(), "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let told = read(&until(admin, "/dashboard.json", |text| {
        read(text)["hint"].is_null()
    }));
    let figure = |panel: &str, label: &str| {
        let panels = told["panels"].as_array().expect("panels");
        let of = panels
            .iter()
            .find(|it| it["id"] == panel)
            .expect("it is shown");
        let figures = of["parts"][0]["figures"].as_array().expect("figures");
        let figure = figures.iter().find(|it| it["label"] == label);
        figure.expect("it is shown")["value"].clone()
    };
    assert_eq!(figure("commands", "Values to store")["rate"], 1.0);
    assert_eq!(figure("memory", "Items")["now"], 1.0);
    let most = &figure("memory", "For items, of -m")["share"][1];
    assert!(most.as_f64() > Some(0.0), "{most}");
}

#[test]
fn silent_and_slow_clients_keep_nobody_from_the_figures() {
    let running = start(observed());
    let admin = running.admin();
    // Three times as many as there are places; some have sent a part, some take no answer.
    let mut crowd = Vec::new();
    for index in 0..3 * rhythm_observe::admin::CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(admin).expect("they wait in the kernel's queue");
        let sent = match index % 3 {
            0 => String::new(),
            1 => "GET /metrics HTTP/1.1\r\nHost: local".to_owned(),
            _ => "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(60),
        };
        // Who lost his place already is not needed any more.
        let _ = stream.write_all(sent.as_bytes());
        crowd.push(stream);
    }
    for _ in 0..3 {
        assert_eq!(get(admin, "/healthz").0, 200);
    }
    // The others noticed nothing.
    expect(&mut running.connect(), "mn\r\n", "MN\r\n");
}

#[test]
fn health_and_figures_are_told_until_the_end() {
    let running = start(observed());
    let admin = running.admin();
    // An answer that is not taken keeps a thread from ending.
    let mut client = running.connect();
    let value = "v".repeat(1_000_000);
    expect(
        &mut client,
        &format!("set a 0 0 1000000\r\n{value}\r\n"),
        "STORED\r\n",
    );
    client
        .write_all(&b"get a\r\n".repeat(100))
        .expect("it reads");
    let mut first = [0];
    client.read_exact(&mut first).expect("an answer begins");
    let handle = running.server.as_ref().expect("it runs").handle();
    handle.end();
    assert_eq!(get(admin, "/healthz"), (200, "ok\n".to_owned()));
    drop(client);
    let mut running = running;
    let server = running.server.take().expect("it runs");
    server.join().expect("its threads were well");
    assert!(
        TcpStream::connect(admin).is_err(),
        "nobody listens any more"
    );
}
