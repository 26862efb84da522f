//! A server that is proxied to, in the test's hands: it notes each request that it sees, by a
//! parser of its own, and answers as the path says, also as no server should.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request as it was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) head: String,
    pub(super) content: Vec<u8>,
}

impl Seen {
    /// The values of a field.
    pub(super) fn field(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value).collect()
    }

    pub(super) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    is_over: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// See the module's text. It ends when it is dropped, with its connections.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Upstream {
    pub(super) fn new() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::<Shared>::default();
        let its = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if its.is_over.load(Ordering::Relaxed) {
                    return;
                }
                its.connections.fetch_add(1, Ordering::Relaxed);
                let again = stream.try_clone().expect("a socket");
                its.open.lock().expect("no panic").push(again);
                let its = its.clone();
                // One that is cut off has nothing more to do.
                thread::spawn(move || {
                    let end = stream.try_clone();
                    let _ = serve(stream, &its);
                    // Others have it, too.
                    let _ = end.and_then(|end| end.shutdown(Shutdown::Both));
                });
            }
        });
        Upstream { address, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it saw, which it forgets.
    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.seen.lock().expect("no panic"))
    }

    /// Connections so far.
    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Cuts all connections off.
    pub(super) fn cut(&self) {
        for stream in self.shared.open.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.cut();
        // Its thread looks.
        let _ = TcpStream::connect(self.address);
    }
}

/// Bytes as they come, a line or a count at a time.
struct Input {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Input {
    fn more(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            n => {
                self.bytes.extend_from_slice(&buffer[..n]);
                Ok(())
            }
        }
    }

    fn until(&mut self, end: &[u8]) -> std::io::Result<Vec<u8>> {
        loop {
            let at = self.bytes.windows(end.len()).position(|it| it == end);
            if let Some(at) = at {
                return Ok(self.bytes.drain(..at + end.len()).collect());
            }
            self.more()?;
        }
    }

    fn count(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        while self.bytes.len() < count {
            self.more()?;
        }
        Ok(self.bytes.drain(..count).collect())
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut input = Input {
        stream,
        bytes: Vec::new(),
    };
    loop {
        let head = String::from_utf8_lossy(&input.until(b"\r\n\r\n")?).into_owned();
        let mut seen = Seen {
            head,
            content: Vec::new(),
        };
        let path = seen.path().to_owned();
        let path = path.split('?').next().unwrap_or_default();
        let path = path.rsplit('/').next().unwrap_or_default().to_owned();
        if path == "unread" {
            // It takes nothing of what follows.
            shared.seen.lock().expect("no panic").push(seen);
            loop {
                thread::sleep(Duration::from_millis(20));
                if shared.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        }
        if path == "early" {
            // It answers before it has all.
            shared.seen.lock().expect("no panic").push(seen);
            out.write_all(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")?;
            return Ok(());
        }
        if let [length] = seen.field("content-length")[..] {
            seen.content = input.count(length.parse().expect("a number"))?;
        } else if let ["chunked"] = seen.field("transfer-encoding")[..] {
            loop {
                let line = String::from_utf8(input.until(b"\r\n")?).expect("text");
                let length = usize::from_str_radix(line.trim(), 16).expect("a length alone");
                seen.content.extend(input.count(length)?);
                assert_eq!(input.count(2)?, b"\r\n");
                if length == 0 {
                    break;
                }
            }
        }
        let content = seen.content.clone();
        let is_head = seen.head.starts_with("HEAD ");
        shared.seen.lock().expect("no panic").push(seen);
        if !answer(&path, &content, is_head, &mut out, &mut input)? {
            return Ok(());
        }
    }
}

/// Whether the connection goes on.
fn answer(
    path: &str,
    content: &[u8],
    is_head: bool,
    out: &mut TcpStream,
    input: &mut Input,
) -> std::io::Result<bool> {
    let whole = match path {
        "length" if is_head => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "length" => {
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-Own\r\nX-Own: 1\r\n\
             Keep-Alive: timeout=5\r\nX-Kept: yes\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\n\
             hello"
        }
        "chunked" => {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             2;a=b;c=\"d\"\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
        }
        "hints" => {
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
        }
        "204" => "HTTP/1.1 204 No\r\n\r\n",
        "304" => "HTTP/1.1 304 No\r\nETag: \"a\"\r\nContent-Length: 77\r\n\r\n",
        _ => "",
    };
    if !whole.is_empty() {
        out.write_all(whole.as_bytes())?;
        return Ok(true);
    }
    match path {
        "echo" => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                content.len()
            );
            out.write_all(head.as_bytes())?;
            out.write_all(content)?;
            return Ok(true);
        }
        "big" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n")?;
            let piece = [b'x'; 100_000];
            for _ in 0..2000 {
                out.write_all(&piece)?;
            }
            return Ok(true);
        }
        "socket" => {
            out.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nwelcome",
            )?;
            loop {
                let some = match input.bytes.is_empty() {
                    true => {
                        input.more()?;
                        std::mem::take(&mut input.bytes)
                    }
                    false => std::mem::take(&mut input.bytes),
                };
                out.write_all(&some)?;
            }
        }
        "deaf-socket" => {
            out.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\n\r\n",
            )?;
            // It takes nothing until it is cut off.
            while matches!(out.peek(&mut [0]), Ok(1..)) {
                thread::sleep(Duration::from_millis(20));
            }
        }
        "interim" => loop {
            out.write_all(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000))?;
        },
        "endless-head" => {
            out.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                out.write_all(&b"A: b\r\n".repeat(1000))?;
            }
        }
        "endless-trailers" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")?;
            loop {
                out.write_all(&b"A: b\r\n".repeat(1000))?;
            }
        }
        "until-close" => out.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello")?,
        "huge-head" => {
            let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100_000));
            out.write_all(head.as_bytes())?;
        }
        "cut-length" => out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")?,
        "cut-chunked" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")?;
            // What came is to be sent on before it is known that the rest does not come.
            thread::sleep(Duration::from_millis(50));
        }
        "nonsense" => out.write_all(b"nonsense\r\n\r\n")?,
        "both" => out.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\
              5\r\nhello\r\n0\r\n\r\n",
        )?,
        "unasked" => out.write_all(b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n")?,
        "behind" => out.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\
              Content-Length: 4\r\n\r\nevil",
        )?,
        "silent" => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")?;
            input.more()?;
        }
        "hang" => input.more()?,
        _ => {}
    }
    Ok(false)
}
