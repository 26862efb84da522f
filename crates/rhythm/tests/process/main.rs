//! The server's process, from outside: how it ends, what it inherits, and what it does where the
//! system gives it less than it wants.

mod acme;
mod admin;
mod begin;
mod bookstore;
mod dashboard;
mod etcd;
mod fortunes;
mod hosts;
mod http;
mod http2;
#[cfg(feature = "consensus")]
mod keyspace;
mod kv;
mod managed;
mod members;
mod memcached;
mod memory_file;
mod names;
mod namespaces;
mod postgres;
mod proxy;
mod redis;
mod remote_device;
mod reproduce;
mod ring;
mod ring_floods;
mod rpo;
mod secured;
mod server;
mod sessions;
mod site;
mod sqlite;
mod tls;
mod traces;
mod transactions;
mod tutorial;
mod unix;
mod wire;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use server::{Client, NEVER, Server, service};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Clients that ask again and again, each in its way.
const CLIENTS: usize = 100;

/// What one does in its turn.
fn ask(client: &mut Client, index: usize, turn: usize) -> std::io::Result<server::Answer> {
    // Each waits another time between two requests.
    thread::sleep(Duration::from_micros(
        ((index * 7919 + turn * 104_729) % 5000) as u64,
    ));
    let name = format!("{index}-{turn}");
    let answer = match (index + turn) % 2 {
        0 => client.ask("GET", &format!("/hello?name={name}"), ""),
        _ => client.ask("POST", "/hello", &format!("name={name}")),
    }?;
    match answer.status == 200 && answer.body == format!("<h1>Hello, {name}</h1>") {
        true => Ok(answer),
        false => Err(std::io::Error::new(ErrorKind::InvalidData, answer.body)),
    }
}

/// `RHYTHM_STOPS=100` has it stop so often.
#[test]
fn a_stop_loses_no_request_of_busy_connections() {
    let folder = service("stop");
    for round in 0..number("RHYTHM_STOPS").unwrap_or(3) {
        let server = Server::start(&folder, &[]);
        let (answered, lost) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for index in 0..CLIENTS {
                let (mut client, answered, lost) = (server.client(), &answered, &lost);
                scope.spawn(move || {
                    for turn in 0.. {
                        match ask(&mut client, index, turn) {
                            Ok(answer) => {
                                answered.fetch_add(1, Ordering::Relaxed);
                                if answer.closes {
                                    assert!(client.closed());
                                    return;
                                }
                            }
                            Err(_) => {
                                lost.fetch_add(1, Ordering::Relaxed);
                                return;
                            }
                        }
                    }
                });
            }
            let start = Instant::now();
            while answered.load(Ordering::Relaxed) < 10 * CLIENTS && start.elapsed() < NEVER {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis((round % 10) as u64));
            server.signal(Signal::TERM);
        });
        assert_eq!(lost.into_inner(), 0, "lost in round {round}");
        assert!(server.ended().success());
    }
}

#[test]
fn an_idle_connection_may_ask_until_the_grace_period_is_over() {
    let server = Server::start(&service("grace"), &["--drain-grace", "5s"]);
    let [mut asking, mut idle] = [server.client(), server.client()];
    for client in [&mut asking, &mut idle] {
        assert!(!client.ask("GET", "/hello", "").expect("an answer").closes);
    }
    assert_eq!(server.ask_admin("/readyz"), (200, "ok\n".to_owned()));
    server.signal(Signal::TERM);
    server.said("shutting down");
    assert_eq!(server.ask_admin("/readyz"), (503, "draining\n".to_owned()));
    assert_eq!(server.ask_admin("/healthz"), (200, "ok\n".to_owned()));
    let last = asking
        .ask("POST", "/hello", "name=last")
        .expect("an answer");
    assert!(last.closes && last.body.contains("last") && asking.closed());
    assert!(idle.closed());
    assert!(server.ended().success());
}

#[test]
fn more_signals_wait_for_less() {
    let flags = ["--drain-grace", "100s", "--drain-timeout", "200s"];
    let server = Server::start(&service("hasten"), &flags);
    let [mut idle, mut busy] = [server.client(), server.client()];
    idle.ask("GET", "/hello", "").expect("an answer");
    let head = "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n";
    busy.send(head).expect("it reads");
    assert_eq!(busy.answer().expect("it wants more").status, 100);
    server.signal(Signal::TERM);
    server.said("what still comes");
    server.signal(Signal::TERM);
    assert!(idle.closed());
    server.signal(Signal::TERM);
    assert!(busy.closed(), "it was under way, and nothing is waited for");
    assert!(server.ended().success());
}

#[test]
fn while_balancers_move_away_clients_are_let_in() {
    let server = Server::start(&service("delay"), &["--drain-delay", "100s"]);
    server.signal(Signal::TERM);
    server.said("shutting down");
    assert_eq!(server.ask_admin("/readyz").0, 503);
    assert!(
        !server
            .client()
            .ask("GET", "/hello", "")
            .expect("an answer")
            .closes
    );
    let address = server.address;
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(TcpStream::connect(address).is_err());
}

/// Asks on new connections, each for as many requests as it lasts for, or ten; counts what is lost.
fn ask_until(is_over: &AtomicBool, address: SocketAddr, index: usize) -> (usize, usize) {
    let (mut answered, mut lost) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let Ok(stream) = TcpStream::connect(address) else {
            lost += 1;
            continue;
        };
        let mut client = Client::of(stream);
        for turn in 0..10 {
            match ask(&mut client, index, turn) {
                Ok(answer) => {
                    answered += 1;
                    if answer.closes {
                        break;
                    }
                }
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::WouldBlock, "it is never answered");
                    lost += 1;
                    break;
                }
            }
        }
    }
    (answered, lost)
}

#[test]
fn a_server_takes_over_from_the_one_before_and_nothing_is_lost() {
    let folder = service("upgrade");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("it is bound");
    let is_over = AtomicBool::new(false);
    let mut server = Server::start_with(&socket, &folder, &[]);
    let config: serde_json::Value =
        serde_json::from_str(&server.ask_admin("/config").1).expect("JSON");
    assert_eq!(config["settings"]["server"]["listen"], address.to_string());
    assert_eq!(config["from"]["server"]["listen"], "inherited");
    assert_eq!(config["from"]["server"]["admin"], "flag");
    assert_eq!(server.address, address, "it has no other");
    let counts = thread::scope(|scope| {
        let clients: Vec<_> = (0..20)
            .map(|index| {
                let is_over = &is_over;
                scope.spawn(move || ask_until(is_over, address, index))
            })
            .collect();
        for round in 0..number("RHYTHM_UPGRADES").unwrap_or(4) {
            thread::sleep(Duration::from_millis(100));
            // The next one beside it, or when it has gone: clients wait in the queue meanwhile.
            if round % 2 == 0 {
                let next = Server::start_with(&socket, &folder, &[]);
                server.signal(Signal::TERM);
                assert!(server.ended().success());
                server = next;
            } else {
                server.signal(Signal::TERM);
                assert!(server.ended().success());
                server = Server::start_with(&socket, &folder, &[]);
            }
        }
        thread::sleep(Duration::from_millis(100));
        is_over.store(true, Ordering::Relaxed);
        let counts = clients
            .into_iter()
            .map(|client| client.join().expect("no panic"));
        counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
    });
    assert!(
        counts.0 > 100 && counts.1 == 0,
        "{counts:?} answered and lost"
    );
}

/// What a server says that is passed sockets in a way that it refuses.
fn refused(test: &str, script: &str, input: Stdio) -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_rhythm"), "serve"])
        .arg(service(test))
        .stdin(input)
        .output()
        .expect("there is a shell");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_socket_that_does_not_listen_is_refused() {
    let script = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\" 3</dev/null";
    let said = refused("no-listener", script, Stdio::null());
    assert!(said.contains("LISTEN_FDS"), "{said}");
}

#[test]
fn two_sockets_for_the_admin_listener_are_refused() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let script = "LISTEN_FDS=2 LISTEN_FDNAMES=admin:admin LISTEN_PID=$$ \
                  exec \"$0\" \"$@\" 3<&0 4<&0";
    let said = refused("two-admins", script, OwnedFd::from(socket).into());
    assert!(said.contains("named admin"), "{said}");
}

#[test]
fn clients_do_not_take_the_files_that_others_need() {
    let folder = service("files");
    let script = "ulimit -n 256; exec \"$0\" \"$@\"";
    let server = Server::start_by(script, Stdio::null(), &folder, &[]);
    let warning = server.said("open files: one a connection");
    let warning = warning["fields"]["message"].as_str().expect("words");
    assert!(
        warning.contains("16384") && warning.contains("256"),
        "{warning}"
    );
    // More than there is room for: the queue has the rest.
    let idle: Vec<TcpStream> = (0..400)
        .map(|_| TcpStream::connect(server.address).expect("the queue has room"))
        .collect();
    server.said("clients wait");
    let admins: Vec<Client> = (0..70).map(|_| Client::new(server.admin)).collect();
    assert_eq!(server.ask_admin("/healthz"), (200, "ok\n".to_owned()));
    assert!(
        server
            .ask_admin("/config")
            .1
            .contains("\"connections_max\": 16384")
    );
    server.signal(Signal::HUP);
    server.said("is reloaded");
    // Silent ones make room for those who ask, one after the other.
    let start = Instant::now();
    let answer = server.client().ask("GET", "/hello", "").expect("an answer");
    assert_eq!(answer.status, 200);
    assert!(start.elapsed() < NEVER);
    drop((idle, admins));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

/// A page of 7 MB.
const LONG: &str = "+++\nroute = \"GET /long\"\n+++\n{% for i in range(100000) %}\
                    <td>{{ i }} of a hundred thousand lines that nobody may ever read to their end\
                    {% endfor %}";

#[test]
fn where_the_system_has_no_memory_for_a_page_the_server_goes_on() {
    const MORE_BYTES: u64 = 40 << 20;
    let folder = service("no_memory");
    let settings = "[limits]\nworker_bytes_max = 2147483648\n";
    std::fs::write(folder.join("service.toml"), settings).expect("a file can be written");
    std::fs::write(folder.join("pages/long.html"), LONG).expect("a file can be written");
    let server = Server::start(&folder, &[]);
    let get = |path: &str| server.client().ask("GET", path, "").expect("an answer");
    assert_eq!((get("/hello").status, get("/long").status), (200, 200));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let has: u64 = 1024 * kilobytes.unwrap_or_else(|| panic!("no size: {status}"));
    // As by `ulimit -v`, with what the process has by now.
    let most = Rlimit {
        current: Some(has + MORE_BYTES),
        maximum: Some(has + MORE_BYTES),
    };
    prlimit(Pid::from_raw(server.pid() as i32), Resource::As, most).expect("it runs");
    let long = b"GET /long HTTP/1.1\r\nHost: h\r\n\r\n";
    // What the system's allocator has reserved for its threads is not of the limit.
    let dead: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).expect("it listens");
            stream.write_all(long).expect("it reads");
            stream
        })
        .collect();
    let line = server.said("no memory is left for its data");
    assert_eq!(line["fields"]["status"], 503);
    assert_eq!(get("/hello").status, 200);
    drop(dead);
    let start = Instant::now();
    while get("/long").status != 200 {
        assert!(start.elapsed() < NEVER, "there is memory again");
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn the_log_says_of_what_finds_no_room_in_a_cohort_what_helps() {
    let folder = service("no_room");
    let settings = "[limits]\nbody_bytes_max = 10000000\n\
                    [cohort]\narena_bytes_max = 16777216\n";
    std::fs::write(folder.join("service.toml"), settings).expect("a file can be written");
    let server = Server::start(&folder, &[]);
    let form = format!("name={}", "x".repeat(9_000_000));
    let answer = server.client().ask("POST", "/hello", &form);
    assert_eq!(answer.expect("an answer").status, 413);
    let line = server.said("it finds no room in a cohort, even alone");
    let fields = &line["fields"];
    assert_eq!(
        (&fields["path"], &fields["status"]),
        (&"/hello".into(), &413.into())
    );
    let message = fields["message"].as_str().unwrap_or_default();
    assert!(message.contains("`cohort.arena_bytes_max`"), "{message}");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}
