//! A connection that is waited for, for whoever loads a site: it asks what a statement is.

use super::access::Access;
use super::answer;
use super::greeting::{Greeter, Refusal};
use super::messages::{self, Fields, ServerError};
use super::scan::ANSWER_MAX;
use crate::backend::http_client::UrlPlace;
use crate::backend::wire::Unreadable;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long opening a connection and asking may take.
const PATIENCE: Duration = Duration::from_secs(2);

trait Stream: Read + Write {
    fn wait_at_most(&self, time: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Stream for UnixStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// An open connection.
pub(super) struct Client {
    stream: Box<dyn Stream>,
    until: Instant,
    /// What has come and is not read.
    input: Vec<u8>,
}

/// What a statement is.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub(super) parameters: usize,
    /// The types of its columns; none where it returns nothing.
    pub(super) columns: Vec<u32>,
}

fn of_system(why: io::Error) -> Refusal {
    Refusal {
        cause: match why.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => why.to_string(),
        },
        cure: "start it, or mend `url`",
    }
}

fn connect(place: &UrlPlace) -> io::Result<Box<dyn Stream>> {
    match place {
        UrlPlace::Socket(path) => Ok(Box::new(UnixStream::connect(path)?)),
        UrlPlace::Port { host, port } => {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in (&**host, *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, PATIENCE) {
                    Ok(stream) => return Ok(Box::new(stream)),
                    Err(why) => last = why,
                }
            }
            Err(last)
        }
    }
}

impl Client {
    /// Opens one.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn open(access: &Access) -> Result<Client, Refusal> {
        let stream = connect(&access.address.place).map_err(of_system)?;
        stream.wait_at_most(PATIENCE).map_err(of_system)?;
        let until = Instant::now() + PATIENCE;
        let mut client = Client {
            stream,
            until,
            input: Vec::new(),
        };
        let (mut greeter, mut out, mut input) = (Greeter::default(), Vec::new(), Vec::new());
        loop {
            let ready = greeter.go_on(access, &input, &mut out)?;
            client.stream.write_all(&out).map_err(of_system)?;
            out.clear();
            if let Some(used) = ready {
                client.input = input.split_off(used);
                return Ok(client);
            }
            input.clear();
            client.read(&mut input).map_err(of_system)?;
        }
    }

    fn read(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.wait_at_most(left)?;
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                input.extend_from_slice(&bytes[..count]);
                Ok(())
            }
        }
    }

    /// What a statement is, or what is wrong with it.
    ///
    /// # Errors
    /// The connection fails.
    pub(super) fn describe(
        mut self,
        types: impl ExactSizeIterator<Item = u32>,
        statement: &[u8],
    ) -> Result<Result<Described, ServerError>, Refusal> {
        let mut out = Vec::new();
        messages::parse(b"", types, &mut out, |out| out.extend_from_slice(statement));
        messages::of_statement(b'D', b"", &mut out);
        messages::sync(&mut out);
        self.stream.write_all(&out).map_err(of_system)?;
        let (mut described, mut at) = (Ok(Described::default()), 0);
        loop {
            while let Some((message, used)) = messages::first(&self.input[at..], ANSWER_MAX)? {
                at += used;
                match (message.tag, &mut described) {
                    (b'Z', _) => return Ok(described),
                    (b'E', _) => described = Err(ServerError::read(message.body)?),
                    (b't', Ok(described)) => {
                        described.parameters = usize::from(Fields(message.body).u16()?);
                    }
                    (b'T', Ok(described)) => {
                        answer::columns(Fields(message.body), &mut described.columns)?;
                    }
                    _ => {}
                }
            }
            if self.input.len() > 2 * ANSWER_MAX {
                return Err(Unreadable.into());
            }
            let mut input = std::mem::take(&mut self.input);
            let read = self.read(&mut input);
            self.input = input;
            read.map_err(of_system)?;
        }
    }
}
