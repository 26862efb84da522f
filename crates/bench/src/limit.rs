//! The limit: a server that does nothing but receive, find the end of each request's head, and send
//! one constant page.
//!
//! One thread on bare epoll, with no request parsed, no page rendered and nothing between the
//! system calls that could be left out. What it reaches on a machine is what the kernel leaves for
//! any server on one core with one `recv` and one `send` per request; a real server's figure is
//! given as a ratio to it. It serves HTTP/1.1 requests without a body (GET), also pipelined and
//! split anywhere, and keeps every connection open.

use memchr::memmem::Finder;
use rhythm_net::{ListenOptions, Listener};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// What to serve, and where.
#[derive(Clone, Copy, Debug)]
pub struct LimitOptions {
    /// Where to listen; with port 0, on a free port.
    pub listen: SocketAddr,
    /// The size of the page, in bytes, without the response's head.
    pub page_bytes: usize,
}

impl LimitOptions {
    /// A page as large as Banking's account summary, at `listen`.
    pub fn new(listen: SocketAddr) -> LimitOptions {
        LimitOptions {
            listen,
            page_bytes: 16_213,
        }
    }
}

/// Answers to this many pipelined requests go out in one `send`.
const COPIES: usize = 16;
/// What ends a request's head.
const HEAD_END: &[u8; 4] = b"\r\n\r\n";
const EVENTS_MAX: usize = 1024;
/// When nothing happens.
const STOP_ASKED_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// What stands for the listener.
const LISTENER: u64 = u64::MAX;

/// Serves until `stop` says so, which is asked every 100 ms when nothing happens, and now and then
/// under load. `ready` is told the address once clients can connect.
///
/// # Errors
///
/// When the address cannot be listened on (the error says why), or the system has no descriptors
/// left to start with.
pub fn run(
    options: &LimitOptions,
    ready: impl FnOnce(SocketAddr),
    stop: impl Fn() -> bool,
) -> io::Result<()> {
    rhythm_net::resource::raise_open_files()?;
    let listener =
        Listener::bind(options.listen, &ListenOptions::default()).map_err(io::Error::other)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &epoll,
        &listener,
        EventData::new_u64(LISTENER),
        EventFlags::IN,
    )?;
    ready(listener.local_address());

    let responses = Responses::new(options.page_bytes);
    // By file descriptor.
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    let mut turns = 0u32;
    loop {
        // A busy server must be stoppable, too, but asking may cost a reading of the clock.
        turns = turns.wrapping_add(1);
        if (events.is_empty() || turns.is_multiple_of(64)) && stop() {
            return Ok(());
        }
        events.clear();
        match epoll::wait(
            &epoll,
            rustix::buffer::spare_capacity(&mut events),
            Some(&STOP_ASKED_EVERY),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for Event { data, flags, .. } in events.iter().copied() {
            let data = data.u64();
            if data == LISTENER {
                accept(&listener, &epoll, &mut clients);
                continue;
            }
            let Some(entry) = clients.get_mut(data as usize) else {
                continue;
            };
            let Some(client) = entry else { continue };
            if client.serve(flags, &mut buffer, &responses).is_err() {
                *entry = None;
            }
        }
    }
}

fn accept(listener: &Listener, epoll: &OwnedFd, clients: &mut Vec<Option<Client>>) {
    while let Ok(socket) = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
    {
        let index = socket.as_raw_fd() as usize;
        // Edge-triggered: one registration for a connection's life, and no second look by the
        // kernel at what was read already.
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::add(epoll, &socket, EventData::new_u64(index as u64), interest).is_err() {
            continue;
        }
        if index >= clients.len() {
            clients.resize_with(index + 1, || None);
        }
        clients[index] = Some(Client {
            socket,
            matched: 0,
            owed: 0,
        });
    }
}

/// The constant response, several times in a row.
struct Responses {
    bytes: Vec<u8>,
    /// Of one.
    length: usize,
    /// Finds [`HEAD_END`].
    head_end: Finder<'static>,
}

impl Responses {
    fn new(page_bytes: usize) -> Responses {
        let mut one = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {page_bytes}\r\n\r\n"
        )
        .into_bytes();
        one.extend((0..page_bytes).map(|n| {
            if n % 80 == 79 {
                b'\n'
            } else {
                b'a' + (n % 26) as u8
            }
        }));
        Responses {
            bytes: one.repeat(COPIES),
            length: one.len(),
            head_end: Finder::new(HEAD_END),
        }
    }
}

struct Client {
    socket: OwnedFd,
    /// How much of the end of a head the last bytes received were.
    matched: usize,
    /// Bytes of responses not yet sent.
    owed: usize,
}

/// The connection is over.
struct Over;

impl Client {
    /// Does what `flags` allow. Edge-triggered, so the socket is read until it has no more and
    /// written until it takes no more.
    fn serve(
        &mut self,
        flags: EventFlags,
        buffer: &mut [u8],
        responses: &Responses,
    ) -> Result<(), Over> {
        if self.owed > 0 {
            self.send(responses)?;
        }
        // While the client does not take answers, its requests wait in the kernel.
        while self.owed == 0
            && flags
                .intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
        {
            let received = match net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Over),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => return Err(Over),
            };
            self.owed = self.heads(&buffer[..received], &responses.head_end) * responses.length;
            self.send(responses)?;
            if received < buffer.len() && !flags.contains(EventFlags::RDHUP) {
                break;
            }
        }
        Ok(())
    }

    /// Counts the heads that end in `bytes`, the ends being split between reads anywhere.
    fn heads(&mut self, bytes: &[u8], head_end: &Finder<'_>) -> usize {
        let mut count = 0;
        let mut start = 0;
        while self.matched > 0 && start < bytes.len() {
            self.step(bytes[start]);
            start += 1;
            if self.matched == HEAD_END.len() {
                self.matched = 0;
                count += 1;
            }
        }
        let rest = &bytes[start..];
        let mut end = 0;
        for at in head_end.find_iter(rest) {
            count += 1;
            end = at + HEAD_END.len();
        }
        for byte in &rest[end.max(rest.len().saturating_sub(HEAD_END.len() - 1))..] {
            self.step(*byte);
        }
        count
    }

    /// How much of [`HEAD_END`] is matched after one more byte.
    fn step(&mut self, byte: u8) {
        self.matched = match (self.matched, byte) {
            (0 | 2, b'\r') | (1 | 3, b'\n') => self.matched + 1,
            (_, b'\r') => 1,
            _ => 0,
        };
    }

    /// Sends what is owed, as far as the socket takes it.
    fn send(&mut self, responses: &Responses) -> Result<(), Over> {
        while self.owed > 0 {
            // Where in a response the owed bytes begin; the first copy serves a lone request, so
            // that it stays in the cache.
            let begin = (responses.length - self.owed % responses.length) % responses.length;
            let end = responses.bytes.len().min(begin + self.owed);
            match net::send(
                &self.socket,
                &responses.bytes[begin..end],
                SendFlags::NOSIGNAL,
            ) {
                Ok(sent) => self.owed -= sent,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Over),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Shutdown, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    struct StopOnDrop<'a>(&'a AtomicBool);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Runs `client` against a server with a page of that size.
    fn with_server(page_bytes: usize, client: impl FnOnce(TcpStream)) {
        let stop = AtomicBool::new(false);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let listen = (Ipv4Addr::LOCALHOST, 0).into();
                let options = LimitOptions {
                    page_bytes,
                    ..LimitOptions::new(listen)
                };
                let ready = |address| sender.send(address).expect("the test waits");
                run(&options, ready, || stop.load(Ordering::Relaxed)).expect("a free port");
            });
            // Also when the client's assertions fail: the scope waits for the server.
            let _stopped = StopOnDrop(&stop);
            let address = receiver.recv().expect("the server starts");
            client(TcpStream::connect(address).expect("it listens"));
        });
    }

    fn read_response(stream: &mut TcpStream, response: &[u8]) {
        let mut answer = vec![0; response.len()];
        stream.read_exact(&mut answer).expect("an answer");
        assert!(answer == response);
    }

    #[test]
    fn the_response_says_its_length() {
        let responses = Responses::new(16_213);
        let one = &responses.bytes[..responses.length];
        let head = one.len() - 16_213;
        assert!(one[..head].starts_with(b"HTTP/1.1 200 OK\r\n") && one[..head].ends_with(HEAD_END));
        assert!(
            one[..head]
                .windows(21)
                .any(|bytes| bytes == b"Content-Length: 16213")
        );
        assert_eq!(responses.bytes.len(), COPIES * one.len());
    }

    #[test]
    fn heads_are_counted_however_they_are_split() {
        let finder = Finder::new(HEAD_END);
        let tricky = b"\r\n\r\n\r\r\n\r\nx\r\n\r\r\n\r\n\n\r\n\r";
        let any = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        for bytes in [tricky.as_slice(), &REQUEST.repeat(3)] {
            for size in 1..=bytes.len() {
                let socket = any.try_clone().expect("few files are open").into();
                let mut client = Client {
                    socket,
                    matched: 0,
                    owed: 0,
                };
                let count: usize = bytes
                    .chunks(size)
                    .map(|chunk| client.heads(chunk, &finder))
                    .sum();
                assert_eq!(count, 3, "{size}");
            }
        }
    }

    #[test]
    fn each_request_is_answered_once_split_or_pipelined() {
        let page_bytes = 1_000;
        let responses = Responses::new(page_bytes);
        let one = &responses.bytes[..responses.length];
        with_server(page_bytes, |mut stream| {
            stream.set_nodelay(true).expect("a TCP socket");
            for byte in REQUEST {
                stream.write_all(&[*byte]).expect("the server reads");
            }
            read_response(&mut stream, one);
            stream
                .write_all(&REQUEST.repeat(40))
                .expect("the server reads");
            for _ in 0..40 {
                read_response(&mut stream, one);
            }
            stream
                .shutdown(Shutdown::Write)
                .expect("a connected socket");
            assert_eq!(
                stream.read(&mut [0]).expect("an orderly end"),
                0,
                "nothing beyond"
            );
        });
    }

    #[test]
    fn a_client_that_reads_late_gets_everything() {
        let page_bytes = 100_000;
        let responses = Responses::new(page_bytes);
        with_server(page_bytes, |mut stream| {
            // 30 MB of answers: more than the sockets hold.
            stream
                .write_all(&REQUEST.repeat(300))
                .expect("the server reads");
            stream
                .shutdown(Shutdown::Write)
                .expect("a connected socket");
            for _ in 0..300 {
                read_response(&mut stream, &responses.bytes[..responses.length]);
            }
            assert_eq!(stream.read(&mut [0]).expect("an orderly end"), 0);
        });
    }
}
