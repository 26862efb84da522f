//! Clients that speak TLS and take their time.

mod common;

use common::*;
use rhythm_net::tls::Certificate;
use rhythm_server::{Server, SiteSettings, Statics};
use rustix::net::sockopt;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A certificate for `localhost`, and what a client is that knows it.
fn certificate() -> (Certificate, Arc<ClientConfig>) {
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a name");
    let key = made.signing_key.serialize_pem();
    let shown = Certificate::from_pem(made.cert.pem().as_bytes(), key.as_bytes());
    let mut roots = RootCertStore::empty();
    let own: CertificateDer<'static> = made.cert.der().clone();
    roots.add(own).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("some");
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    (shown.expect("one another's"), Arc::new(config))
}

/// Asks for so many bytes of a file, as the last of a connection, and stands still for so long
/// before the last so many of them. All that came, the head and what was asked for.
fn read(
    (address, config): (SocketAddr, &Arc<ClientConfig>),
    length: usize,
    (left, pause): (usize, Duration),
) -> io::Result<Vec<u8>> {
    let socket = TcpStream::connect(address)?;
    // What is on its way to it is little.
    sockopt::set_socket_recv_buffer_size(&socket, 16 * 1024)?;
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let mut client = StreamOwned::new(connection, socket);
    let last = length - 1;
    let head = format!(
        "GET /static/big.bin HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-{last}\r\n\
         Connection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    let mut answer = vec![0; length - left];
    client.read_exact(&mut answer)?;
    thread::sleep(pause);
    client.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Of an answer that was handed over, the last record waits until much of what is before it is
/// taken.
#[test]
fn who_stands_still_near_the_end_of_an_answer_has_all_of_it() {
    const MOST: usize = 2_900_000;
    const SEALED: usize = 32 * 1024;
    const PAUSE: Duration = Duration::from_secs(6);
    let service = service_of(PAGES, SERVICE);
    let options = rhythm_server::ServerOptions {
        tls_listen: vec![any_port()],
        listen: Vec::new(),
        ..options_of(&service)
    };
    let settings = SiteSettings::of(&service);
    let files = Statics::new(&service.config.statics.mount, statics());
    let site = rhythm_server::Site::new(Arc::new(service), files, settings);
    let (shown, config) = certificate();
    let site = Arc::new(site.expect("a sound site").showing(Some(shown)));
    let parts = parts(site, Box::new(|| Err("no".into())));
    let server = Server::start(options, parts).expect("it starts");
    let place = (server.local_addr(), &config);
    let all = read(place, MOST, (0, Duration::ZERO)).expect("it is there");
    let head = all.len() - MOST;
    thread::scope(|scope| {
        // Where the end of what is sealed at once is left over depends on how long they are.
        for length in (61..77).map(|count| count * SEALED - head) {
            for left in [200_000, 230_000] {
                scope.spawn(move || {
                    let came = read(place, length, (left, PAUSE)).map(|all| all.len() - head);
                    assert!(came.as_ref().is_ok_and(|came| *came == length), "{came:?}");
                });
            }
        }
    });
    stop(server);
}
