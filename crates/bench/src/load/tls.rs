//! What connections of a run speak TLS by, tried once before a thousand sessions do.

use super::options::LoadOptions;
use super::target::Target;
use rhythm_net::Codec;
use rhythm_net::tls::{Begins, Connector, Failure, TlsCodec, Trusted};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// Why TLS is not spoken with a server.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The options say of certificates what has no meaning in the clear.
    #[error("{url}: certificates are checked with https:// only")]
    Clear {
        /// The server's URL.
        url: String,
    },
    /// It cannot be, or not with what the options name.
    #[error("TLS with {host}: {why}")]
    Failed {
        /// The server.
        host: String,
        /// Why, and what helps.
        why: String,
    },
}

/// What the server is asked for by ALPN (RFC 7301).
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// The connector for a run, where its URL says that TLS is spoken; it has greeted the server over
/// `socket`.
pub(super) fn connector(
    options: &LoadOptions,
    target: &Target,
    socket: TcpStream,
) -> Result<Option<Arc<Connector>>, TlsError> {
    let is_told = options.ca.is_some() || options.insecure;
    if !target.is_tls {
        return match is_told {
            true => Err(TlsError::Clear {
                url: options.url.clone(),
            }),
            false => Ok(None),
        };
    }
    let why = |why: String| TlsError::Failed {
        host: target.host.clone(),
        why,
    };
    let connector = Arc::new(made(options, target).map_err(why)?);
    greet(&connector, socket, options).map_err(why)?;
    Ok(Some(connector))
}

fn made(options: &LoadOptions, target: &Target) -> Result<Connector, String> {
    if options.insecure {
        return Connector::unchecked(target.name(), &PROTOCOLS);
    }
    let trusted = match &options.ca {
        Some(path) => {
            let pem = std::fs::read(path);
            let pem = pem.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
            Trusted::from_pem(&pem).map_err(|why| format!("{}: {why}", path.display()))?
        }
        None => Trusted::of_system()
            .map_err(|why| format!("{why}; or name the file of the server's by --ca"))?,
    };
    Connector::new(target.name(), &trusted, None, &PROTOCOLS, Begins::AtOnce)
}

/// Greets the server, and hangs up.
fn greet(
    connector: &Arc<Connector>,
    mut socket: TcpStream,
    options: &LoadOptions,
) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("the connection failed: {why}");
    socket
        .set_read_timeout(Some(options.timeout))
        .map_err(failed)?;
    socket
        .set_write_timeout(Some(options.timeout))
        .map_err(failed)?;
    let mut codec = TlsCodec::connecting(connector);
    let (mut plain, mut out, mut input) = (Vec::new(), Vec::new(), [0; 4096]);
    let mut length = 0;
    loop {
        let taken = codec.take_in(&input[..length], &mut plain, &mut out);
        // What is wrong is told to the server, too.
        let sent = socket.write_all(&out);
        out.clear();
        taken.map_err(told)?;
        sent.map_err(failed)?;
        if codec.is_ready() {
            codec.end(&mut out);
            // It is over, whatever the server makes of it.
            let _ = socket.write_all(&out);
            return Ok(());
        }
        length = match socket.read(&mut input).map_err(failed)? {
            0 => return Err("the server hung up".to_owned()),
            length => length,
        };
    }
}

/// Why a greeting failed, with what helps.
fn told(why: Failure) -> String {
    let helps = match why.is_of_certificate() {
        true => {
            "; name the file of the certificate that signs it (or of its own) by --ca, or check \
             none with --insecure"
        }
        false => "; does it speak TLS at this port?",
    };
    format!("{why}{helps}")
}
