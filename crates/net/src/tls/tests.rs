//! A client of rustls on the other end, without sockets.

use super::*;
use crate::layer::{Codec, Codecs, Layer};
use crate::outgoing::{Flushed, Outgoing, Part};
use crate::port::{Accepted, Client, ConnectionId, Handler, Peer, Port, Role, Time};
use crate::testing::TestPort;
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;
use std::time::Duration;

const TLS: Role = Role(1);

/// A certificate that signs itself, and its key, as PEM.
fn pem(names: &[&str]) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let params = CertificateParams::new(names).expect("names of hosts");
    let certificate = params.self_signed(&key).expect("it can be signed");
    (certificate.pem(), key.serialize_pem())
}

fn certificate((chain, key): &(String, String)) -> Certificate {
    Certificate::from_pem(chain.as_bytes(), key.as_bytes()).expect("they are good")
}

/// A client that trusts these.
fn config(trusted: &[&(String, String)]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for (chain, _) in trusted {
        let der = CertificateDer::from_pem_slice(chain.as_bytes()).expect("a certificate");
        roots.add(der).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_root_certificates(roots);
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::in_memory_sessions(8);
    Arc::new(config)
}

fn client(config: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    ClientConnection::new(config.clone(), name).expect("a client")
}

fn accepted(role: Role) -> Accepted {
    Accepted {
        connection: ConnectionId::new(0, 0),
        role,
        peer: Client::Unix,
    }
}

fn codec(acceptor: &Arc<Acceptor>) -> TlsCodec {
    let mut tls = Tls::new(TLS, Some(acceptor.clone()), Arc::default());
    tls.accepted(&accepted(TLS)).expect("its role")
}

fn acceptor(certificates: &[Certificate]) -> Arc<Acceptor> {
    Arc::new(Acceptor::new(certificates, &[b"http/1.1"]).expect("random numbers"))
}

/// What a client has to send.
fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).expect("memory");
    }
    bytes
}

/// Brings bytes to a client, and gives what is in them.
fn take(client: &mut ClientConnection, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).expect("memory");
        let state = client.process_new_packets()?;
        let before = plain.len();
        plain.resize(before + state.plaintext_bytes_to_read(), 0);
        client
            .reader()
            .read_exact(&mut plain[before..])
            .expect("as much as there is");
    }
    Ok(plain)
}

/// Lets both greet each other, so many bytes at a time, and gives what the codec opened meanwhile.
fn greet(
    client: &mut ClientConnection,
    codec: &mut TlsCodec,
    step: usize,
) -> Result<Vec<u8>, rustls::Error> {
    let mut plain = Vec::new();
    loop {
        let bytes = sent(client);
        if bytes.is_empty() {
            return Ok(plain);
        }
        for part in bytes.chunks(step) {
            let mut out = Vec::new();
            let opened = codec.open(part, &mut plain, &mut out);
            opened.expect("nothing is wrong");
            take(client, &out)?;
        }
    }
}

#[test]
fn records_come_whole_however_they_are_cut() {
    let pem = pem(&["localhost"]);
    let (acceptor, config) = (acceptor(&[certificate(&pem)]), config(&[&pem]));
    for step in [1, 2, 7, 1000, usize::MAX] {
        let (mut client, mut codec) = (client(&config, "localhost"), codec(&acceptor));
        assert_eq!(codec.seal(&[IoSlice::new(b"early")], &mut Vec::new()), 0);
        client
            .writer()
            .write_all(b"with the greeting")
            .expect("memory");
        let plain = greet(&mut client, &mut codec, step).expect("both are right");
        assert_eq!(plain, b"with the greeting");
        assert!(codec.is_ready() && !codec.has_ended());
        assert_eq!(client.alpn_protocol(), Some(&b"http/1.1"[..]));
        let long: Vec<u8> = (0..100_000_u32).map(|byte| byte as u8).collect();
        let (mut rest, mut got) = (&long[..], Vec::new());
        while !rest.is_empty() {
            let mut record = Vec::new();
            let taken = codec.seal(&[IoSlice::new(rest)], &mut record);
            assert!(taken > 0 && taken <= 2 << 14 && record.len() > taken);
            rest = &rest[taken..];
            for part in record.chunks(step) {
                got.extend(take(&mut client, part).expect("records"));
            }
        }
        assert_eq!(got, long);
        let (mut plain, mut rest) = (Vec::new(), &long[..]);
        while !rest.is_empty() {
            let taken = client.writer().write(rest).expect("memory");
            rest = &rest[taken..];
            for part in sent(&mut client).chunks(step) {
                let opened = codec.open(part, &mut plain, &mut Vec::new());
                opened.expect("records");
            }
        }
        assert_eq!(plain, long);
        client.send_close_notify();
        let bytes = sent(&mut client);
        codec
            .open(&bytes, &mut plain, &mut Vec::new())
            .expect("a farewell");
        assert!(codec.has_ended());
        let mut farewell = Vec::new();
        codec.end(&mut farewell);
        take(&mut client, &farewell).expect("a farewell");
        assert!(
            client
                .process_new_packets()
                .is_ok_and(|state| state.peer_has_closed())
        );
    }
}

#[test]
fn what_is_no_record_ends_the_connection_with_an_alert() {
    let pem = pem(&["localhost"]);
    let (acceptor, config) = (acceptor(&[certificate(&pem)]), config(&[&pem]));
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let opened = codec(&acceptor).open(request, &mut plain, &mut out);
    assert_eq!(opened, Err(ErrorKind::InvalidData));
    let (mut client, mut codec) = (client(&config, "localhost"), codec(&acceptor));
    greet(&mut client, &mut codec, usize::MAX).expect("both are right");
    client
        .writer()
        .write_all(b"changed on its way")
        .expect("memory");
    let mut bytes = sent(&mut client);
    *bytes.last_mut().expect("a record") ^= 1;
    out.clear();
    let opened = codec.open(&bytes, &mut plain, &mut out);
    assert_eq!(opened, Err(ErrorKind::InvalidData));
    assert!(plain.is_empty());
    let told = take(&mut client, &out).expect_err("an alert");
    assert!(matches!(told, rustls::Error::AlertReceived(_)), "{told}");
}

#[test]
fn a_name_chooses_the_certificate_and_the_first_is_for_all_others() {
    let [first, below, named] =
        [&["a.test", "127.0.0.1"][..], &["*.b.test"], &["x.b.test"]].map(pem);
    let acceptor = acceptor(&[&first, &below, &named].map(certificate));
    for (name, expected) in [
        ("a.test", &first),
        ("127.0.0.1", &first),
        ("y.b.test", &below),
        ("X.B.test", &named),
    ] {
        let mut client = client(&config(&[expected]), name);
        let greeted = greet(&mut client, &mut codec(&acceptor), usize::MAX);
        greeted.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    // There is none for it: what is shown is the first, which the client does not take.
    let mut client = client(&config(&[&first]), "c.test");
    assert!(greet(&mut client, &mut codec(&acceptor), usize::MAX).is_err());
}

#[test]
fn other_listeners_do_not_speak_it() {
    let acceptor = acceptor(&[certificate(&pem(&["localhost"]))]);
    let mut tls = Tls::new(TLS, Some(acceptor), Arc::default());
    assert!(tls.accepted(&accepted(Role::default())).is_none());
}

#[test]
fn tickets_outlive_certificates() {
    let [before, behind] = [(); 2].map(|()| pem(&["localhost"]));
    let acceptor = acceptor(&[certificate(&before)]);
    let trusting = config(&[&before]);
    let greeted = |expected| {
        let (mut client, mut codec) = (client(&trusting, "localhost"), codec(&acceptor));
        greet(&mut client, &mut codec, usize::MAX)?;
        assert_eq!(client.handshake_kind(), Some(expected));
        Ok::<_, rustls::Error>(())
    };
    greeted(HandshakeKind::Full).expect("the first");
    greeted(HandshakeKind::Resumed).expect("with its ticket");
    acceptor
        .replace(&[certificate(&behind)])
        .expect("it can be");
    greeted(HandshakeKind::Resumed).expect("the ticket of before");
    let mut new = client(&config(&[&behind]), "localhost");
    greet(&mut new, &mut codec(&acceptor), usize::MAX).expect("the other one");
}

#[test]
fn files_that_are_no_use_are_told_apart() {
    let (chain, key) = pem(&["localhost"]);
    let (other, _) = pem(&["localhost"]);
    let error = |chain: &str, key: &str| {
        Certificate::from_pem(chain.as_bytes(), key.as_bytes()).expect_err("no use")
    };
    assert_eq!(error("", &key), CertificateError::NoCertificate);
    assert_eq!(error(&key, &key), CertificateError::NoCertificate);
    assert_eq!(error(&chain, ""), CertificateError::NoKey);
    assert_eq!(error(&chain, &chain), CertificateError::NoKey);
    assert_eq!(error(&key, &chain), CertificateError::Swapped);
    assert_eq!(error(&other, &key), CertificateError::NotItsKey);
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert_eq!(error(&chain, &encrypted), CertificateError::Encrypted);
    let no_x509 = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let told = error(no_x509, &key);
    assert!(matches!(told, CertificateError::Unreadable(_)), "{told}");
    let shown = format!("{:?}", certificate(&(chain, key)));
    assert_eq!(shown, "Certificate { names: [\"localhost\"], .. }");
}

/// What asks a server for TLS, and what agrees.
const ASKED: Begins = Begins::Asked {
    request: b"TLS?",
    agrees: b'S',
};

fn connector(name: &str, trusted: &(String, String), begins: Begins) -> Arc<Connector> {
    let trusted = Trusted::from_pem(trusted.0.as_bytes()).expect("a certificate");
    let connector = Connector::new(name, &trusted, None, &[b"http/1.1"], begins);
    Arc::new(connector.expect("a name"))
}

/// Lets a connection of ours and one of a client's talk, so many bytes at a time, until both are
/// ready; what came of it at our end.
fn talk(ours: &mut TlsCodec, theirs: &mut TlsCodec, step: usize) -> Result<(), Failure> {
    let mut to_them = Vec::new();
    ours.take_in(b"", &mut Vec::new(), &mut to_them)?;
    while !to_them.is_empty() {
        let mut to_us = Vec::new();
        for part in to_them.chunks(step) {
            // What they make of an alert is theirs.
            let _ = theirs.take_in(part, &mut Vec::new(), &mut to_us);
        }
        to_them.clear();
        for part in to_us.chunks(step) {
            ours.take_in(part, &mut Vec::new(), &mut to_them)?;
        }
    }
    Ok(())
}

#[test]
fn servers_are_greeted_however_the_bytes_are_cut() {
    let pem = pem(&["db.test"]);
    let acceptor = acceptor(&[certificate(&pem)]);
    let connector = connector("db.test", &pem, Begins::AtOnce);
    for step in [1, 3, 1000, usize::MAX] {
        let (mut ours, mut theirs) = (TlsCodec::connecting(&connector), codec(&acceptor));
        assert_eq!(ours.seal(&[IoSlice::new(b"early")], &mut Vec::new()), 0);
        talk(&mut ours, &mut theirs, step).expect("it is whom it says");
        assert!(ours.is_ready() && theirs.is_ready());
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut ours, &mut theirs];
            let (mut record, mut plain) = (Vec::new(), Vec::new());
            assert_eq!(
                ends[from].seal(&[IoSlice::new(b"select 1")], &mut record),
                8
            );
            ends[to]
                .open(&record, &mut plain, &mut Vec::new())
                .expect("a record");
            assert_eq!(plain, b"select 1");
        }
    }
}

#[test]
fn who_is_not_whom_we_ask_gets_nothing_from_us() {
    let [right, other] = [&["db.test"], &["elsewhere.test"]].map(|names| pem(names));
    for (shown, trusted, name) in [
        (&other, &other, "db.test"),
        (&right, &other, "db.test"),
        (&right, &right, "127.0.0.1"),
    ] {
        let acceptor = acceptor(&[certificate(shown)]);
        let mut ours = TlsCodec::connecting(&connector(name, trusted, Begins::AtOnce));
        let told = talk(&mut ours, &mut codec(&acceptor), usize::MAX);
        let is_certificate = matches!(
            told,
            Err(Failure::Tls(rustls::Error::InvalidCertificate(_)))
        );
        assert!(is_certificate, "{name}: {told:?}");
        assert!(!ours.is_ready());
        assert_eq!(ours.seal(&[IoSlice::new(b"secret")], &mut Vec::new()), 0);
    }
}

#[test]
fn a_server_is_asked_first_where_it_wants_to_be() {
    let pem = pem(&["db.test"]);
    let acceptor = acceptor(&[certificate(&pem)]);
    let connector = connector("db.test", &pem, ASKED);
    let (mut ours, mut theirs) = (TlsCodec::connecting(&connector), codec(&acceptor));
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    ours.take_in(b"", &mut plain, &mut out).expect("it asks");
    assert_eq!((&out[..], ours.is_ready()), (&b"TLS?"[..], false));
    out.clear();
    ours.take_in(b"S", &mut plain, &mut out)
        .expect("it is agreed");
    let mut answer = Vec::new();
    theirs
        .take_in(&out, &mut plain, &mut answer)
        .expect("a greeting");
    out.clear();
    ours.take_in(&answer, &mut plain, &mut out)
        .expect("a greeting");
    assert!(ours.is_ready());
    for answer in [&b"N"[..], b"E", b"no"] {
        let mut ours = TlsCodec::connecting(&connector);
        ours.take_in(b"", &mut plain, &mut out).expect("it asks");
        let told = ours.take_in(answer, &mut plain, &mut out);
        assert_eq!(told, Err(Failure::Refused));
        assert_eq!(ours.seal(&[IoSlice::new(b"secret")], &mut Vec::new()), 0);
    }
    // What was put behind the answer is no TLS.
    let mut ours = TlsCodec::connecting(&connector);
    ours.take_in(b"", &mut plain, &mut out).expect("it asks");
    let told = ours.take_in(b"SR\0\0\0\x08\0\0\0\0", &mut plain, &mut out);
    assert!(matches!(told, Err(Failure::Tls(_))), "{told:?}");
    assert!(plain.is_empty());
}

#[test]
fn what_is_sealed_goes_nowhere_unsealed() {
    let pem = pem(&["db.test"]);
    let connector = connector("db.test", &pem, Begins::AtOnce);
    let address = "127.0.0.1:1".parse().expect("an address");
    let peer = Peer::tcp("db.test", address).sealed(Some(connector.seal()));
    let mut tls = Tls::new(TLS, None, Arc::default());
    assert!(tls.connecting(&peer).is_some());
    assert!(tls.connecting(&peer.clone().sealed(None)).is_none());
    assert!(tls.accepted(&accepted(TLS)).is_none());
    assert_eq!(peer, peer.clone());
    assert_ne!(peer, peer.clone().sealed(None));
}

/// Answers whatever it is asked with these parts.
struct Answering {
    parts: Vec<Vec<u8>>,
    outgoing: Outgoing,
}

impl Answering {
    fn flushed(&self, port: &mut dyn Port, id: ConnectionId, flushed: Flushed) {
        assert_ne!(flushed, Flushed::Gone);
        if flushed == Flushed::All {
            port.close(id);
        }
    }
}

impl Handler for Answering {
    fn opened(&mut self, _: &mut dyn Port, _: Accepted, _: Time) {}

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, _: &[u8], _: Time) {
        let parts: Vec<Part<'_>> = self.parts.iter().map(|part| Part::Lent(part)).collect();
        let flushed = self.outgoing.gather(port, id, &parts);
        self.flushed(port, id, flushed);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        let flushed = self.outgoing.writable(port, id);
        self.flushed(port, id, flushed);
    }
}

/// What a client opens that takes `first` bytes of the answer, then `step` at a time; and in how
/// many sendings the layer had it.
fn answered(
    acceptor: &Arc<Acceptor>,
    config: &Arc<ClientConfig>,
    parts: &[Vec<u8>],
    (first, step): (usize, usize),
) -> (Vec<u8>, u32) {
    let answering = Answering {
        parts: parts.to_vec(),
        outgoing: Outgoing::new(),
    };
    let (now, accepted) = (Time::ZERO, accepted(TLS));
    let id = accepted.connection;
    let tls = Tls::new(TLS, Some(acceptor.clone()), Arc::default());
    let mut layer = Layer::new(answering, tls, Duration::from_secs(9), now);
    let (mut port, mut client) = (TestPort::with(id, usize::MAX), client(config, "localhost"));
    layer.opened(&mut port, accepted, now);
    loop {
        let bytes = sent(&mut client);
        if bytes.is_empty() {
            break;
        }
        layer.received(&mut port, id, &bytes, now);
        let answer = std::mem::take(&mut port.at(id).sent);
        take(&mut client, &answer).expect("both are right");
    }
    client.writer().write_all(b"a request").expect("memory");
    port.at(id).room = first;
    port.sends = 0;
    layer.received(&mut port, id, &sent(&mut client), now);
    let mut plain = Vec::new();
    loop {
        let (is_closed, connection) = match port.connections.get_mut(&id) {
            Some(connection) => (false, connection),
            None => (true, port.closed.last_mut().expect("it was closed")),
        };
        let bytes = std::mem::take(&mut connection.sent);
        plain.extend(take(&mut client, &bytes).expect("records"));
        if is_closed {
            return (plain, port.sends);
        }
        assert!(connection.blocked, "who is not told to go on does not");
        (connection.blocked, connection.room) = (false, step);
        layer.writable(&mut port, id, now);
    }
}

/// A part of this length, unlike others.
fn part(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + length) as u8).collect()
}

#[test]
fn a_page_of_many_parts_leaves_in_one_sending() {
    let pem = pem(&["localhost"]);
    let (acceptor, config) = (acceptor(&[certificate(&pem)]), config(&[&pem]));
    for (lengths, sendings) in [
        (&[200, 16_000, 0, 30][..], 1),
        (&[200, 5000, 4096, 9000, 12_000], 1),
        (&[32_768], 1),
        (&[200, 32_768], 2),
        (&[4096; 20], 3),
    ] {
        let parts: Vec<Vec<u8>> = lengths.iter().map(|length| part(*length)).collect();
        let (plain, sends) = answered(&acceptor, &config, &parts, (usize::MAX, 1));
        assert_eq!(plain, parts.concat());
        // And the farewell.
        assert_eq!(sends, sendings + 1, "{lengths:?}");
    }
}

#[test]
fn parts_arrive_whole_wherever_the_socket_is_full() {
    let pem = pem(&["localhost"]);
    let (acceptor, config) = (acceptor(&[certificate(&pem)]), config(&[&pem]));
    let parts = [part(200), Vec::new(), part(301)];
    // With what is around the record, and the farewell.
    for first in 0..560 {
        for step in [1, 100] {
            let (plain, _) = answered(&acceptor, &config, &parts, (first, step));
            assert!(plain == parts.concat(), "at {first}, then {step} each");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_arrive_whole_however_the_peer_takes_them(
        lengths in prop::collection::vec(prop_oneof![0_usize..40, 4000..20_000_usize], 1..20),
        first in 0_usize..50_000,
        step in prop_oneof![300_usize..2000, 2000..40_000_usize],
    ) {
        let pem = pem(&["localhost"]);
        let (acceptor, config) = (acceptor(&[certificate(&pem)]), config(&[&pem]));
        let parts: Vec<Vec<u8>> = lengths.iter().map(|length| part(*length)).collect();
        let (plain, _) = answered(&acceptor, &config, &parts, (first, step));
        prop_assert!(plain == parts.concat());
    }
}
