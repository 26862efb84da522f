//! Pages, fetched one by one before anything is measured.

use crate::load::{AnswerReader, BODY_MAX};
use rhythm_net::Codec;
use rhythm_net::tls::{Begins, Connector, TlsCodec, Trusted};
use rhythm_protocol::http::head::Known;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes that are read at a time.
const READ: usize = 64 * 1024;

/// An answer, its content as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) status: u16,
    pub(super) is_gzip: bool,
    /// What its `Set-Cookie` say, as `Cookie` is to say it.
    pub(super) cookies: Vec<String>,
    pub(super) content: Vec<u8>,
}

/// A connection to a server.
pub(super) struct Fetcher {
    socket: TcpStream,
    codec: Option<TlsCodec>,
    /// What came and is in no answer yet.
    plain: Vec<u8>,
    reader: AnswerReader,
}

impl Fetcher {
    /// Over TLS where the certificate is given.
    pub(super) fn connect(address: SocketAddr, trusted: Option<&Path>) -> Result<Fetcher, String> {
        let socket = TcpStream::connect(address).map_err(told)?;
        let patience = Some(PATIENCE);
        (socket.set_read_timeout(patience)).map_err(told)?;
        (socket.set_write_timeout(patience)).map_err(told)?;
        socket.set_nodelay(true).map_err(told)?;
        let mut fetcher = Fetcher {
            socket,
            codec: None,
            plain: Vec::new(),
            reader: AnswerReader::new(BODY_MAX),
        };
        if let Some(path) = trusted {
            fetcher.codec = Some(greeting(address, path)?);
            while !fetcher.codec.as_ref().is_some_and(TlsCodec::is_ready) {
                fetcher.read()?;
            }
        }
        Ok(fetcher)
    }

    /// The answer to a request.
    pub(super) fn fetch(&mut self, request: &[u8]) -> Result<Fetched, String> {
        self.write(request)?;
        let mut ended = false;
        loop {
            let next = self.reader.next_as_sent(&self.plain, false, ended)?;
            if let Some(whole) = next {
                let head = &self.reader.head;
                let encoding = head.known(Known::ContentEncoding);
                let encoding = encoding.map_or(&b""[..], |span| span.of(&self.plain));
                let cookie = |value: &[u8]| {
                    let value = String::from_utf8_lossy(value);
                    value
                        .split(';')
                        .next()
                        .unwrap_or_default()
                        .trim()
                        .to_owned()
                };
                let fetched = Fetched {
                    status: head.status(),
                    is_gzip: encoding.eq_ignore_ascii_case(b"gzip"),
                    cookies: head.values(&self.plain, "set-cookie").map(cookie).collect(),
                    content: match whole.body {
                        Some(range) => self.plain[range].to_owned(),
                        None => self.reader.decoded.clone(),
                    },
                };
                self.plain.drain(..whole.total);
                if fetched.status >= 200 {
                    return Ok(fetched);
                }
                continue;
            }
            if ended {
                return Err("the server hung up before it had answered".to_owned());
            }
            ended = self.read()? == 0;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(codec) = &mut self.codec else {
            return self.socket.write_all(bytes).map_err(told);
        };
        let (mut rest, mut out) = (bytes, Vec::new());
        while !rest.is_empty() {
            match codec.seal(&[IoSlice::new(rest)], &mut out) {
                0 => return Err("TLS takes no more".to_owned()),
                taken => rest = &rest[taken..],
            }
        }
        self.socket.write_all(&out).map_err(told)
    }

    /// Takes in what comes; 0 where nothing will any more.
    fn read(&mut self) -> Result<usize, String> {
        let mut input = [0; READ];
        let mut length = 0;
        let Some(codec) = &mut self.codec else {
            let length = self.socket.read(&mut input).map_err(told)?;
            self.plain.extend_from_slice(&input[..length]);
            return Ok(length);
        };
        // The first greeting is made of nothing.
        if codec.is_ready() {
            length = self.socket.read(&mut input).map_err(told)?;
        }
        let mut out = Vec::new();
        loop {
            let taken = codec.take_in(&input[..length], &mut self.plain, &mut out);
            self.socket.write_all(&out).map_err(told)?;
            out.clear();
            taken.map_err(|why| why.to_string())?;
            if codec.is_ready() || codec.has_ended() {
                return Ok(if codec.has_ended() { 0 } else { length });
            }
            length = match self.socket.read(&mut input).map_err(told)? {
                0 => return Err("the server hung up".to_owned()),
                length => length,
            };
        }
    }
}

fn greeting(address: SocketAddr, path: &Path) -> Result<TlsCodec, String> {
    let pem = std::fs::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let trusted = Trusted::from_pem(&pem)?;
    let name = address.ip().to_string();
    let connector = Connector::new(&name, &trusted, None, &[b"http/1.1"], Begins::AtOnce)?;
    Ok(TlsCodec::connecting(&Arc::new(connector)))
}

fn told(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => format!("no answer within {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    }
}
