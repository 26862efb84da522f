//! The server as programs that others wrote use it: libmemcached's own tests of a server, and its
//! load generator.

use super::{Running, here, start};
use rhythm_kv::shared::Settings;
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Command;

/// What a program says that has to succeed.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{program}: {error}; it comes with libmemcached-tools, which this test needs")
    });
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {text}");
    text
}

/// A server that has one port over TCP and UDP, as the load generator wants it.
fn with_one_port() -> Running {
    // The system chooses one of TCP's, which UDP has free, too, nearly always.
    let port = loop {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = tcp.local_addr().expect("it has an address");
        if UdpSocket::bind(at).is_ok() {
            break at.port();
        }
    };
    start(Settings {
        port: Some(port),
        udp_port: Some(port),
        ..here()
    })
}

#[test]
fn memccapable_is_content() {
    let running = start(here());
    let port = running.at.port().to_string();
    let text = said("memccapable", &["-h", "127.0.0.1", "-p", &port]);
    let passed = text.matches("[pass]").count();
    assert!(passed >= 54 && text.contains("All tests passed"), "{text}");
}

/// What is loaded: the keys, values and commands of the microservers' paper.
struct Mix(PathBuf);

impl Mix {
    fn new() -> Mix {
        let unique = format!("rhythm-kv-memcaslap-{}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        let mix = "key\n16 16 1\nvalue\n512 512 1\ncmd\n0 0.1\n1 0.9\n";
        std::fs::write(&path, mix).expect("a temporary folder");
        Mix(path)
    }
}

impl Drop for Mix {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A number of the load generator's report; 0 where it has none of this name.
fn reported(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.strip_prefix(": "));
    number.map_or(0, |number| number.trim().parse().expect("a number"))
}

#[test]
fn memcaslap_finds_no_mistake() {
    let running = with_one_port();
    let (at, mix) = (running.at.to_string(), Mix::new());
    let mix = mix.0.to_str().expect("a path in UTF-8");
    let with = ["-s", &at, "-T", "1", "-c", "8", "-t", "1s", "-F", mix];
    for more in [&["-v", "1"][..], &["-v", "1", "-B"], &["-d", "16"], &["-U"]] {
        let text = said("memcaslap", &[&with[..], more].concat());
        // A datagram that is late counts as a miss, and as out of order.
        let names = match more.contains(&"-U") {
            true => &["verify_failed"][..],
            false => &[
                "verify_failed",
                "get_misses",
                "verify_misses",
                "packet_disorder",
            ],
        };
        for name in names {
            assert_eq!(reported(&text, name), 0, "{name} with {more:?}: {text}");
        }
        assert!(reported(&text, "cmd_get") > 100, "{more:?}: {text}");
        assert!(reported(&text, "cmd_set") > 10, "{more:?}: {text}");
    }
}
