//! The admin listener, all of whose places are taken.

use rhythm_net::{ListenOptions, Listener};
use rhythm_observe::admin::{Admin, CONNECTIONS_MAX, Names, Observed, Told};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to mean never.
const NEVER: Duration = Duration::from_secs(20);

struct Well;

impl Observed for Well {
    const PATHS: &str = "/healthz";

    fn tell(&self, path: &[u8]) -> Option<Told> {
        (path == b"/healthz").then(|| Told::health(None))
    }
}

fn start() -> Admin {
    let at = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(at, &ListenOptions::default()).expect("a port");
    Admin::start(listener, Names::default(), Well).expect("it starts")
}

fn connected(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(Some(NEVER)).expect("a duration");
    stream
}

/// What is answered; nothing where the connection has ended.
fn asked(mut stream: &TcpStream) -> io::Result<String> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let (mut answer, mut piece) = (String::new(), [0; 1024]);
    while !answer.ends_with("\r\n\r\nok\n") {
        let read = stream.read(&mut piece)?;
        answer.push_str(&String::from_utf8_lossy(&piece[..read]));
        if read == 0 {
            break;
        }
    }
    Ok(answer)
}

#[test]
fn a_connection_ends_after_some_requests_and_says_so() {
    let admin = start();
    let stream = connected(admin.address());
    let answers: Vec<String> = std::iter::from_fn(|| asked(&stream).ok())
        .take_while(|answer| !answer.is_empty())
        .take(100)
        .collect();
    let (last, others) = answers.split_last().expect("it answers");
    assert!(last.contains("\r\nConnection: close\r\n"), "{last}");
    assert!(others.len() >= 8, "{}", others.len());
    assert!(others.iter().all(|answer| !answer.contains("close")));
    admin.stop();
}

#[test]
fn those_who_ask_without_a_pause_keep_nobody_out() {
    const THREADS: usize = 4;
    let admin = start();
    let (to, answered, is_over) = (admin.address(), AtomicUsize::new(0), AtomicBool::new(false));
    // Each asks on all of its connections in turn, and opens those again that end.
    let lively = || {
        let open = || connected(to);
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS_MAX / THREADS).map(|_| open()).collect();
        while !is_over.load(Ordering::Relaxed) {
            for stream in &mut streams {
                match asked(stream) {
                    Ok(answer) if !answer.is_empty() => {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    _ => *stream = open(),
                }
            }
        }
    };
    let worst = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(lively);
        }
        // However this ends, they end.
        let _over = Over(&is_over);
        while answered.load(Ordering::Relaxed) < 2 * CONNECTIONS_MAX {
            thread::sleep(Duration::from_millis(1));
        }
        let mut worst = Duration::ZERO;
        for _ in 0..3 {
            let began = Instant::now();
            // Who is slow to ask, on a busy machine, has lost his place by then.
            let is_told = || asked(&connected(to)).is_ok_and(|it| it.starts_with("HTTP/1.1 200 "));
            while began.elapsed() < NEVER && !is_told() {}
            worst = worst.max(began.elapsed());
        }
        worst
    });
    // Probes wait for a second, often; a busy machine is given more.
    assert!(worst < NEVER / 2, "{worst:?}");
    admin.stop();
}

/// Says that it is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
