//! The load generator of memcached servers: it must find nothing wrong with right ones (our own,
//! and Debian's memcached where it is installed), and each wrong thing in one that lies.

mod liar;
mod servers;

use liar::{Lie, start};
use rhythm_bench::memcached::{
    MemcachedError, MemcachedOptions, MemcachedProgress, MemcachedReport, Sizes, Words, run,
};
use servers::{Memcached, Ours};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

fn brief() -> MemcachedOptions {
    MemcachedOptions {
        connections: 4,
        keys: 200,
        writes: 30.0,
        duration: Duration::from_millis(400),
        slices: 2,
        warmup: Duration::from_millis(20),
        ..MemcachedOptions::default()
    }
}

fn load(options: MemcachedOptions) -> MemcachedReport {
    run(options, &mut |_| {}).unwrap()
}

/// The ways to ask that every server must answer.
fn ways() -> Vec<(&'static str, MemcachedOptions)> {
    let meta = MemcachedOptions {
        words: Words::Meta,
        ..brief()
    };
    vec![
        ("one at a time", brief()),
        ("meta", meta.clone()),
        (
            "in flight, by Zipf's law, long and short",
            MemcachedOptions {
                depth: 16,
                threads: 2,
                zipf: Some(0.99),
                value_bytes: "16-65536".parse().unwrap(),
                ..brief()
            },
        ),
        (
            "many keys",
            MemcachedOptions {
                batch: 20,
                depth: 3,
                ..brief()
            },
        ),
        (
            "binary",
            MemcachedOptions {
                words: Words::Binary,
                ..brief()
            },
        ),
        (
            "many keys, binary",
            MemcachedOptions {
                words: Words::Binary,
                batch: 20,
                depth: 3,
                ..brief()
            },
        ),
        (
            "many keys, meta",
            MemcachedOptions {
                batch: 20,
                depth: 3,
                ..meta
            },
        ),
        (
            "open loop",
            MemcachedOptions {
                rate: Some(1000.0),
                ..brief()
            },
        ),
    ]
}

/// Nothing is wrong, lost or missing.
fn is_right(way: &str, report: &MemcachedReport) {
    assert!(report.passed(), "{way}: {report}");
    for server in &report.servers {
        assert!(server.hits > 0 && server.writes > 0, "{way}: {report}");
        assert!(server.slices.len() == 2 && server.latency.p50 > 0.0);
        // Sent by datagram a key may be lost when the server is filled.
        let is_whole = server.misses == 0 || report.options.udp;
        assert!(
            is_whole && server.never_sent <= server.hits,
            "{way}: {report}"
        );
    }
}

fn every_way(tcp: &str, udp: &str) {
    for (way, options) in ways() {
        let url = format!("memcached://{tcp}");
        is_right(way, &load(MemcachedOptions { url, ..options }));
    }
    for (batch, words) in [
        (1, Words::Ascii),
        (1, Words::Meta),
        (1, Words::Binary),
        (8, Words::Ascii),
    ] {
        let report = load(MemcachedOptions {
            url: format!("memcached://{udp}"),
            udp: true,
            batch,
            words,
            // Answers of several datagrams.
            value_bytes: "16:1,3000:1".parse().unwrap(),
            // Nothing is lost here because the machine is slow.
            timeout: Some(Duration::from_secs(5)),
            ..brief()
        });
        is_right("UDP", &report);
    }
}

#[test]
fn nothing_is_wrong_with_our_own_server() {
    let ours = Ours::start();
    every_way(&ours.tcp.to_string(), &ours.udp.to_string());
    let report = load(MemcachedOptions {
        url: format!("memcached://{}", ours.unix.display()),
        ..brief()
    });
    is_right("Unix socket", &report);
}

#[test]
fn nothing_is_wrong_with_memcached_and_both_are_compared() {
    let Some(theirs) = Memcached::start() else {
        eprintln!("not tried: there is no memcached");
        return;
    };
    every_way(&theirs.at(), &theirs.at());
    let ours = Ours::start();
    let mut told = 0;
    let options = MemcachedOptions {
        url: format!("memcached://{},{}", theirs.at(), ours.tcp),
        server_pids: vec![vec![theirs.pid()], vec![std::process::id()]],
        ..brief()
    };
    let report = run(options, &mut |progress| {
        told += u64::from(matches!(progress, MemcachedProgress::Loading { .. }));
    });
    let report = report.unwrap();
    is_right("both", &report);
    assert!(told > 0);
    let ratio = report.ratios[0].operations_per_s;
    assert!(report.ratios.len() == 1 && ratio.is_some_and(|ratio| ratio > 0.0));
    assert!(report.servers.iter().all(|server| server.cpu_us.is_some()));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["options"]["value_bytes"], "512");
    assert!(json["servers"][1]["slices"][0]["latency"]["p999"].is_number());
    for histogram in ["read_histogram", "write_histogram"] {
        let bucket = &json["servers"][1][histogram][0];
        assert!(
            bucket["until"].is_number() && bucket["count"].is_u64(),
            "{bucket}"
        );
    }
}

#[test]
fn every_lie_is_found() {
    for (lie, wrong) in [
        (Lie::AnotherKeysValue, "the value of another key"),
        (
            Lie::AnotherKey,
            "a key that was not asked for, or is answered already",
        ),
        (Lie::OldValue, "a value older than the one acknowledged"),
        (Lie::BitFlipped, "a torn or damaged value"),
        (Lie::Torn, "a torn or damaged value"),
        (Lie::CutShort, "a value of another length than was written"),
    ] {
        let report = load(MemcachedOptions {
            url: start(lie),
            ..brief()
        });
        let server = &report.servers[0];
        assert!(!report.passed() && server.hits > 0, "{lie:?}: {report}");
        let kinds: Vec<&str> = server.wrong.keys().map(String::as_str).collect();
        assert_eq!(kinds, [wrong], "{lie:?}: {report}");
        assert!(server.wrong[wrong].key.starts_with("k0"), "{report}");
    }
    let report = load(MemcachedOptions {
        url: start(Lie::SwappedAnswers),
        depth: 8,
        ..brief()
    });
    let wrong = &report.servers[0].wrong;
    assert!(
        wrong.keys().any(|kind| kind.starts_with("a key that")),
        "{report}"
    );
}

#[test]
fn a_right_server_of_the_same_kind_is_not_accused() {
    let report = load(MemcachedOptions {
        url: start(Lie::None),
        depth: 8,
        ..brief()
    });
    is_right("no lie", &report);
}

#[test]
fn connections_that_are_lost_cost_requests_and_nothing_is_taken_for_another() {
    let report = load(MemcachedOptions {
        url: start(Lie::HangsUp),
        depth: 8,
        ..brief()
    });
    let server = &report.servers[0];
    assert!(!report.passed() && server.wrong.is_empty(), "{report}");
    assert!(
        server
            .errors
            .keys()
            .all(|kind| kind.starts_with("connection ")),
        "{report}"
    );
    assert!(server.hits > 0 && server.connections > 8, "{report}");
}

#[test]
fn what_is_gone_is_missing_or_wrong_where_servers_are_to_keep_everything() {
    for (lie, keeps) in [
        (Lie::None, true),
        (Lie::Forgets, false),
        (Lie::Forgets, true),
    ] {
        let report = load(MemcachedOptions {
            url: start(lie),
            keeps,
            ..brief()
        });
        let server = &report.servers[0];
        let is_gone = lie == Lie::Forgets;
        assert_eq!(server.misses > 0, is_gone, "{report}");
        assert_eq!(report.passed(), !(is_gone && keeps), "{report}");
        let gone = "a key that was stored is not there";
        assert_eq!(
            server.wrong.contains_key(gone),
            is_gone && keeps,
            "{report}"
        );
    }
}

#[test]
fn nonsense_and_refusals_are_errors_in_the_servers_words() {
    for (lie, error) in [
        (Lie::Nonsense, "no answer of memcached: \"250 OK\""),
        (Lie::Refuses, "SERVER_ERROR out of memory storing object"),
        (Lie::Silent, "no answer in time"),
    ] {
        let report = load(MemcachedOptions {
            url: start(lie),
            timeout: Some(Duration::from_millis(100)),
            ..brief()
        });
        let server = &report.servers[0];
        assert!(!report.passed() && server.wrong.is_empty(), "{report}");
        assert!(server.errors.contains_key(error), "{report}");
    }
}

#[test]
fn a_refusal_of_one_key_of_several_is_no_answer_to_another_request() {
    let report = load(MemcachedOptions {
        url: start(Lie::Refuses),
        words: Words::Meta,
        batch: 4,
        depth: 4,
        ..brief()
    });
    let server = &report.servers[0];
    let errors: Vec<&str> = server.errors.keys().map(String::as_str).collect();
    assert_eq!(
        errors,
        ["SERVER_ERROR out of memory writing a value"],
        "{report}"
    );
    assert!(server.hits > 0 && server.wrong.is_empty(), "{report}");
}

#[test]
fn a_server_that_answers_no_datagram_is_given_up_and_failed() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        // It says who it is, and no more.
        let mut buffer = [0; 2048];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            if buffer[..length].ends_with(b"version\r\n") {
                let answer = [&buffer[..2], &[0, 0, 0, 1, 0, 0], b"VERSION 1\r\n"].concat();
                let _ = socket.send_to(&answer, peer);
            }
        }
    });
    let report = load(MemcachedOptions {
        url: format!("memcached://{at}"),
        udp: true,
        keys: 100_000,
        timeout: Some(Duration::from_millis(5)),
        ..brief()
    });
    let server = &report.servers[0];
    assert!(!report.passed() && server.lost < 10_000, "{report}");
    let kinds = [
        "a slice in which no datagram was answered",
        "no datagram is answered: the keys are not stored",
    ];
    assert!(server.errors.keys().eq(kinds), "{report}");
}

#[test]
fn keys_of_a_node_that_owns_none_are_not_sought_for_ever() {
    let nodes = [Ours::start(), Ours::start()].map(|node| (node.tcp.to_string(), node));
    let of_first = |first: usize, second: usize| {
        run(
            MemcachedOptions {
                url: format!("memcached://{}+{}", nodes[first].0, nodes[second].0),
                keys: 1,
                of_first: true,
                ..brief()
            },
            &mut |_| {},
        )
    };
    let both = [of_first(0, 1), of_first(1, 0)];
    let refused = both.iter().filter_map(|run| run.as_ref().err());
    let refused: Vec<String> = refused.map(ToString::to_string).collect();
    assert_eq!(
        refused,
        ["the first node of a ring owns none of so few keys"]
    );
}

#[test]
fn an_open_loop_charges_a_server_for_what_it_kept_waiting() {
    // Each of the 4 clients waits 20 ms for each answer: 200 a second, and 2000 are due.
    let report = load(MemcachedOptions {
        url: start(Lie::Slow),
        rate: Some(2000.0),
        // What fell due before the measurement would be answered first, and take all of it.
        warmup: Duration::ZERO,
        ..brief()
    });
    let server = &report.servers[0];
    assert!(server.never_sent > 0 && report.passed(), "{report}");
    assert!(server.latency.p99 > 60_000.0, "{report}");
}

#[test]
fn who_is_not_there_or_no_memcached_is_said_clearly() {
    let error = |url: String, udp| {
        let options = MemcachedOptions {
            url,
            udp,
            ..brief()
        };
        run(options, &mut |_| {}).unwrap_err()
    };
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for udp in [false, true] {
        let nobody = error(format!("memcached://{free}"), udp);
        let is_this = match udp {
            true => matches!(nobody, MemcachedError::Datagram { .. }),
            false => matches!(nobody, MemcachedError::Connect { .. }),
        };
        assert!(
            is_this && nobody.to_string().contains(&free.to_string()),
            "{nobody}"
        );
    }
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = web.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = web.accept().unwrap();
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let other = error(format!("memcached://{at}"), false).to_string();
    answers.join().unwrap();
    assert!(
        other.ends_with("it says \"HTTP/1.1 400 Bad Request\\r\\n\""),
        "{other}"
    );
    for (wrong, text) in [
        (
            MemcachedOptions {
                depth: 0,
                ..brief()
            },
            "at least one request",
        ),
        (
            MemcachedOptions {
                key_bytes: 3,
                ..brief()
            },
            "too few for so many",
        ),
        (
            MemcachedOptions {
                rate: Some(1e-30),
                ..brief()
            },
            "0.001 to",
        ),
        (
            MemcachedOptions {
                rate: Some(1e12),
                ..brief()
            },
            "0.001 to",
        ),
        (
            MemcachedOptions {
                server_pids: vec![vec![1], vec![2]],
                ..brief()
            },
            "a process for each",
        ),
        (
            MemcachedOptions {
                udp: true,
                value_bytes: Sizes::fixed(70_000),
                ..brief()
            },
            "has to fit one datagram",
        ),
    ] {
        let said = run(wrong, &mut |_| {}).unwrap_err().to_string();
        assert!(said.contains(text), "{said}");
    }
}
