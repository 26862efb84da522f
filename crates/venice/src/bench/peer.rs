//! The other process of the benchmark: a donor, and the barest servers there can be of pages and
//! bytes, over each transport. It ends when its standard input does, so that it never outlives the
//! benchmark.

use super::options::{Error, PATIENCE};
use super::relay;
use super::talk::{self, Talk};
use crate::accelerator::donor::{self as accelerators, Accelerators};
use crate::accelerator::request::Kind;
use crate::channel::broken::Lost;
use crate::channel::queue::Queue;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use crate::channel::transport::{Transport, Wait};
use crate::loan::LoanKey;
use crate::memory::donor::Donor;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

/// Bytes that the donor lends at most.
const DONOR_BYTES: u64 = 1 << 30;
/// Accelerators of each kind: as many as one comparison has.
const ACCELERATORS: usize = 12;
/// What the bare servers are asked with: how many bytes are wanted, and then nothing.
pub(super) const ASK_BYTES: usize = 16;

/// Where all of it is.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Places {
    pub(super) donor: SocketAddr,
    pub(super) donor_socket: PathBuf,
    /// The bare server, over TCP.
    pub(super) raw: SocketAddr,
    /// The same over shared memory.
    pub(super) raw_socket: PathBuf,
    pub(super) talk: SocketAddr,
    pub(super) talk_socket: PathBuf,
    /// The donor and the one that talks, with a relay before them.
    pub(super) donor_relay: SocketAddr,
    pub(super) talk_relay: SocketAddr,
    pub(super) accelerators: SocketAddr,
    pub(super) accelerators_socket: PathBuf,
}

/// Runs the other process. The key and a folder for sockets come on its standard input, in a line;
/// where all of it is goes out likewise.
///
/// # Errors
/// [`Error`]: it cannot begin.
pub fn serve() -> Result<(), Error> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let (key, folder): ([u8; 32], PathBuf) =
        serde_json::from_str(&line).map_err(|error| Error::Peer(error.to_string()))?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut donor = Donor::start(any, DONOR_BYTES)?;
    donor.offer(LoanKey(key));
    let donor_socket = folder.join("donor");
    donor.listen_locally(&donor_socket)?;
    let (raw, raw_socket) = listen(
        any,
        &folder.join("raw"),
        |mut stream| answer_stream(&mut stream),
        answer_ring,
    )?;
    let (talk, talk_socket) = listen(any, &folder.join("talk"), talk_tcp, talk_shared)?;
    let options = accelerators::Options {
        listen: any,
        accelerators: Kind::ALL.map(|kind| (kind, ACCELERATORS)).to_vec(),
        memory: DONOR_BYTES,
        connections: 64,
        offer: Some(LoanKey(key)),
    };
    let mut lent = Accelerators::start(&options)?;
    let accelerators_socket = folder.join("accelerators");
    lent.listen_locally(&accelerators_socket)?;
    let places = Places {
        donor_relay: relay::start(donor.addresses()[0])?,
        talk_relay: relay::start(talk)?,
        donor: donor.addresses()[0],
        donor_socket,
        raw,
        raw_socket,
        talk,
        talk_socket,
        accelerators: lent.address(),
        accelerators_socket,
    };
    let text = serde_json::to_string(&places).map_err(|error| Error::Peer(error.to_string()))?;
    // Where nobody reads it, the benchmark is gone, and so is what comes on standard input.
    let _ = writeln!(io::stdout(), "{text}");
    // Nothing more is said there: it ends with the benchmark.
    let ended = io::stdin().read_to_end(&mut Vec::new());
    drop((donor, lent));
    // Also where the benchmark was killed.
    for socket in [&places.raw_socket, &places.talk_socket] {
        let _ = fs::remove_file(socket);
    }
    let _ = fs::remove_dir(&folder);
    ended?;
    Ok(())
}

/// Serves each connection on a thread, over TCP and over a Unix socket. A connection that fails is
/// the benchmark's to notice.
fn listen(
    any: SocketAddr,
    path: &Path,
    tcp: fn(TcpStream) -> Result<(), Lost>,
    local: fn(UnixStream) -> Result<(), Lost>,
) -> io::Result<(SocketAddr, PathBuf)> {
    let listener = TcpListener::bind(any)?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || tcp(stream));
        }
    });
    let listener = UnixListener::bind(path)?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || local(stream));
        }
    });
    Ok((address, path.to_owned()))
}

/// Answers each question with as many bytes as it wants.
fn answer_stream(stream: &mut TcpStream) -> Result<(), Lost> {
    stream.set_nodelay(true)?;
    let answer = vec![7; 1 << 20];
    let mut ask = [0; ASK_BYTES];
    loop {
        stream.read_exact(&mut ask)?;
        let mut left = wanted(&ask);
        while left > 0 {
            let part = left.min(answer.len());
            stream.write_all(&answer[..part])?;
            left -= part;
        }
    }
}

fn answer_ring(stream: UnixStream) -> Result<(), Lost> {
    let mut ring = Shared::offer(stream)?;
    let answer = vec![7; 1 << 20];
    let mut ask = [0; ASK_BYTES];
    loop {
        read_exact(&mut ring, &mut ask)?;
        let mut left = wanted(&ask);
        while left > 0 {
            let part = left.min(answer.len());
            write_all(&mut ring, &answer[..part])?;
            left -= part;
        }
    }
}

fn wanted(ask: &[u8; ASK_BYTES]) -> usize {
    let mut number = [0; 8];
    number.copy_from_slice(&ask[..8]);
    u64::from_le_bytes(number) as usize
}

/// Reads so many bytes from a transport that has nothing but bytes.
pub(super) fn read_exact(from: &mut impl Transport, into: &mut [u8]) -> Result<(), Lost> {
    let mut filled = 0;
    while filled < into.len() {
        match from.read(&mut into[filled..])? {
            Some(read) => filled += read,
            None => {
                let wait = Wait {
                    bytes: true,
                    ..Wait::default()
                };
                from.wait(wait, PATIENCE)?;
            }
        }
    }
    Ok(())
}

/// Writes them.
pub(super) fn write_all(to: &mut impl Transport, bytes: &[u8]) -> Result<(), Lost> {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..])? {
            Some(wrote) => written += wrote,
            None => {
                let wait = Wait {
                    room: true,
                    ..Wait::default()
                };
                to.wait(wait, PATIENCE)?;
            }
        }
    }
    Ok(())
}

fn talk_tcp(mut stream: TcpStream) -> Result<(), Lost> {
    let settings = talk::settings_of(&mut stream)?;
    Talk(Queue::new(Tcp::of(stream)?, settings, PATIENCE)).answer()
}

fn talk_shared(mut stream: UnixStream) -> Result<(), Lost> {
    let settings = talk::settings_of(&mut stream)?;
    Talk(Queue::new(Shared::offer(stream)?, settings, PATIENCE)).answer()
}
