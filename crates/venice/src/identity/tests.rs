//! Two ends over sockets, with certificates as the authority makes them.

use super::authority::Authority;
use super::own::Identity;
use super::token::Fingerprint;
use super::wire::{Sealing, Wire};
use rcgen::{CertificateParams, KeyPair};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

fn authority() -> (tempfile::TempDir, Authority) {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::open(folder.path()).expect("an authority");
    (folder, authority)
}

fn request(key: &KeyPair) -> Vec<u8> {
    let request = CertificateParams::default().serialize_request(key);
    request.expect("a request").der().to_vec()
}

/// A node's identity, whose certificate is good for so many days.
fn node(authority: &Authority, name: &str, days: u32) -> Arc<Identity> {
    let named = name.parse().expect("a name");
    let token = authority.give_token(&named, NEVER).expect("a token");
    let key = KeyPair::generate().expect("a key");
    let redeemed = authority.redeem(&token.secret, &request(&key), days);
    let (_, certificate) = redeemed.expect("a certificate");
    let identity = Identity::of_pem(&certificate, &key.serialize_pem(), authority.pem());
    Arc::new(identity.expect("an identity"))
}

/// A donor that does this with its one connection.
fn donor<T: Send + 'static>(
    identity: &Identity,
    serve: impl FnOnce(Wire) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<io::Result<T>>) {
    let config = identity.server(false).expect("a configuration");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let serves = move || {
        let (socket, _) = listener.accept()?;
        let until = Instant::now() + NEVER;
        Ok(serve(Wire::accept(socket, &config, until)?))
    };
    (address, thread::spawn(serves))
}

fn connect(to: SocketAddr, identity: &Arc<Identity>, donor: &str) -> io::Result<Wire> {
    let sealing = Sealing {
        identity: Arc::clone(identity),
        donor: donor.parse().expect("a name"),
    };
    Wire::connect(to, Some(&sealing), NEVER)
}

#[test]
fn an_authority_is_made_once_and_a_request_that_is_none_costs_no_token() {
    let (folder, authority) = authority();
    let again = Authority::open(folder.path()).expect("it is there");
    assert_eq!(again.fingerprint(), authority.fingerprint());
    assert_eq!(again.probe_key(), authority.probe_key());
    let name = "left".parse().expect("a name");
    let token = authority.give_token(&name, NEVER).expect("a token");
    let said = authority.redeem(&token.secret, b"no request", 1);
    assert!(said.is_err_and(|error| error.to_string().contains("cannot be signed")));
    // Signed by another key than the one in it.
    let key = KeyPair::generate().expect("a key");
    let mut forged = request(&key);
    *forged.last_mut().expect("a signature") ^= 1;
    assert!(authority.redeem(&token.secret, &forged, 1).is_err());
    let (node, _) = authority
        .redeem(&token.secret, &request(&key), 1)
        .expect("it is good");
    assert_eq!(node, name);
    let said = authority.redeem(&token.secret, &request(&key), 1);
    assert!(said.is_err_and(|error| error.to_string().contains("was used")));
    // Who reads the folder of tokens finds none.
    let token = authority.give_token(&name, NEVER).expect("a token");
    let kept = std::fs::read_dir(folder.path().join("tokens")).expect("a folder");
    let kept: Vec<_> = kept
        .map(|entry| entry.expect("a file").file_name())
        .collect();
    assert_eq!(kept.len(), 1);
    let text = token.to_string();
    let secret = text.split('.').next().expect("a part");
    assert!(!kept[0].to_string_lossy().contains(secret));
    assert_ne!(authority.fingerprint(), Fingerprint::of(b""));
}

#[test]
fn what_has_expired_is_not_believed_on_either_side() {
    let (_folder, authority) = authority();
    let (good, over) = (node(&authority, "left", 1), node(&authority, "right", 0));
    // Good until this second.
    thread::sleep(Duration::from_millis(1100));
    let (address, donor_ends) = donor(&over, drop);
    let error = connect(address, &good, "right").expect_err("it has expired");
    let said = error.to_string();
    assert!(
        said.contains("has expired") && said.contains("join again"),
        "{said}"
    );
    assert!(donor_ends.join().expect("no panic").is_err());
    let (address, donor_ends) = donor(&good, drop);
    // In TLS 1.3 it has greeted before the other end has looked.
    let read = connect(address, &over, "left").and_then(|mut wire| wire.read(&mut [0]));
    let said = read.expect_err("it has expired").to_string();
    assert!(
        said.contains("does not believe this end's certificate"),
        "{said}"
    );
    let said = donor_ends
        .join()
        .expect("no panic")
        .expect_err("it has expired");
    assert!(said.to_string().contains("has expired"), "{said}");
}

/// More than both ends' buffers hold, each way at once, with sockets that do not wait: all comes,
/// in order, and an end that has nothing more to write is told when the rest goes.
#[test]
fn nothing_is_lost_where_sockets_do_not_wait() {
    const BYTES: usize = 12 << 20;
    fn exchange(mut wire: Wire) {
        wire.socket().set_nonblocking(true).expect("a socket");
        let byte = |at: usize| (at * 7 + at / 4096) as u8;
        let (mut written, mut read) = (0, 0);
        let (mut part, mut came) = (vec![0; 100_000], vec![0; 77_777]);
        let start = Instant::now();
        while written < BYTES || read < BYTES || wire.owes() {
            assert!(start.elapsed() < NEVER, "{written} {read} {}", wire.owes());
            let mut some = false;
            let count = part.len().min(BYTES - written);
            for (at, to) in part[..count].iter_mut().enumerate() {
                *to = byte(written + at);
            }
            match wire.write(&part[..count]) {
                _ if count == 0 => {}
                Ok(wrote) => (written, some) = (written + wrote, true),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            match wire.flush() {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            match wire.read(&mut came) {
                Ok(0) => panic!("it has ended at {read}"),
                Ok(count) => {
                    assert!((0..count).all(|at| came[at] == byte(read + at)));
                    (read, some) = (read + count, true);
                }
                // The other end has all, and is gone.
                Err(_) if read == BYTES => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            if !some && (read < BYTES || wire.owes()) {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, wire.owes());
                let second = Duration::from_secs(1).try_into().expect("a time");
                poll(&mut [PollFd::new(&wire, flags)], Some(&second)).expect("a poll");
            }
        }
    }
    let (_folder, authority) = authority();
    let (left, right) = (node(&authority, "left", 1), node(&authority, "right", 1));
    let (address, donor_ends) = donor(&right, exchange);
    exchange(connect(address, &left, "right").expect("it greets"));
    donor_ends.join().expect("no panic").expect("it greets");
}
