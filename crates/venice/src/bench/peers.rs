//! The benchmark's side of its other process.

use super::options::{Error, Options, PATIENCE};
use super::peer::{ASK_BYTES, Places, read_exact, write_all};
use crate::accelerator::borrower::{Accelerator, Sharing};
use crate::accelerator::request::Kind;
use crate::channel::transport::Transport;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use crate::loan::{LoanId, LoanKey};
use crate::random;
use crate::remote::{Place, RemoteMemory};
use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The transports, in the order in which they are told.
pub(super) const TRANSPORTS: [&str; 2] = ["tcp", "shared memory"];

/// Started, and ended when it is dropped.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    folder: PathBuf,
    pub(super) key: [u8; 32],
    pub(super) places: Places,
}

impl Peer {
    pub(super) fn start(options: &Options) -> Result<Self, Error> {
        let key = random::numbers();
        let name: String = random::numbers()[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let folder = std::env::temp_dir().join(format!("rhythm-venice-{name}"));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let child = Command::new(&options.program)
            .args(["venice", "bench", "--peer"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let child = child.inspect_err(|_| {
            let _ = fs::remove_dir(&folder);
        })?;
        let mut peer = Self {
            child,
            folder,
            key,
            // Until it has said them.
            places: Places {
                donor: ([0; 4], 0).into(),
                donor_socket: PathBuf::new(),
                raw: ([0; 4], 0).into(),
                raw_socket: PathBuf::new(),
                talk: ([0; 4], 0).into(),
                talk_socket: PathBuf::new(),
                donor_relay: ([0; 4], 0).into(),
                talk_relay: ([0; 4], 0).into(),
                accelerators: ([0; 4], 0).into(),
                accelerators_socket: PathBuf::new(),
            },
        };
        let wrong = |error: String| Error::Peer(error);
        let asked =
            serde_json::to_string(&(key, &peer.folder)).map_err(|e| wrong(e.to_string()))?;
        if let Some(input) = peer.child.stdin.as_mut() {
            writeln!(input, "{asked}")?;
        }
        let output = peer.child.stdout.take();
        let output = output.ok_or_else(|| wrong("it has no output".into()))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        peer.places = serde_json::from_str(&line).map_err(|e| wrong(e.to_string()))?;
        Ok(peer)
    }

    /// A file with the key, for `rhythm venice run`.
    pub(super) fn key_file(&self) -> Result<PathBuf, Error> {
        let path = self.folder.join("key");
        let digits: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        writeln!(file, "{digits}")?;
        Ok(path)
    }

    /// Memory of its donor over a transport, and where it begins.
    pub(super) fn memory(&self, transport: &str, bytes: u64) -> Result<(RemoteMemory, u64), Error> {
        let place = match transport == TRANSPORTS[0] {
            true => Place::Tcp(self.places.donor),
            false => Place::Local(self.places.donor_socket.clone()),
        };
        let mut memory = RemoteMemory::connect(&place)?;
        let base = memory.map(LoanId(0), &LoanKey(self.key), bytes)?;
        Ok((memory, base))
    }

    /// An accelerator of its over a transport.
    pub(super) fn accelerator(
        &self,
        transport: &str,
        kind: Kind,
        sharing: Sharing,
        capacity: usize,
    ) -> Result<Accelerator, Error> {
        let place = match transport == TRANSPORTS[0] {
            true => Place::Tcp(self.places.accelerators),
            false => Place::Local(self.places.accelerators_socket.clone()),
        };
        let key = LoanKey(self.key);
        Ok(Accelerator::connect(&place, &key, kind, sharing, capacity)?)
    }

    /// Its bare server over a transport.
    pub(super) fn raw(&self, transport: &str) -> Result<Raw, Error> {
        Ok(match transport == TRANSPORTS[0] {
            true => Raw::Tcp(Tcp::connect(self.places.raw)?),
            false => {
                let stream = UnixStream::connect(&self.places.raw_socket)?;
                Raw::Shared(Shared::accept(stream)?)
            }
        })
    }
}

/// The bare server: asks, and takes what it answers.
#[derive(Debug)]
pub(super) enum Raw {
    Tcp(Tcp),
    Shared(Shared),
}

impl Raw {
    /// Asks for as many bytes as there is room for.
    pub(super) fn ask(&mut self, into: &mut [u8]) -> Result<(), Error> {
        self.stream(into.len(), into)
    }

    /// Asks for bytes once, and takes them a part after the other, in the same place.
    pub(super) fn stream(&mut self, bytes: usize, into: &mut [u8]) -> Result<(), Error> {
        fn stream(
            transport: &mut impl Transport,
            bytes: usize,
            into: &mut [u8],
        ) -> Result<(), Error> {
            let mut ask = [0; ASK_BYTES];
            ask[..8].copy_from_slice(&(bytes as u64).to_le_bytes());
            write_all(transport, &ask)?;
            let mut left = bytes;
            while left > 0 {
                let part = left.min(into.len());
                read_exact(transport, &mut into[..part])?;
                left -= part;
            }
            Ok(())
        }
        match self {
            Self::Tcp(tcp) => stream(tcp, bytes, into),
            Self::Shared(shared) => stream(shared, bytes, into),
        }
    }
}

impl Drop for Peer {
    /// It ends by itself when nothing can come from here any more.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = fs::remove_file(self.folder.join("key"));
        let start = Instant::now();
        while start.elapsed() < PATIENCE / 10 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir(&self.folder);
    }
}
