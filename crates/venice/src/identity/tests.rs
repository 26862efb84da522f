//! Two ends over sockets, with certificates as the authority makes them.

use super::authority::{Authority, AuthorityError};
use super::own::Identity;
use super::token::Fingerprint;
use super::wire::{Sealing, Wire, hear_out};
use rcgen::{CertificateParams, KeyPair};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
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
fn a_key_that_is_there_is_never_replaced() {
    let (folder, authority) = authority();
    let path = |name: &str| folder.path().join(name);
    let (key, pem) = (path("key.pem"), path("authority.pem"));
    let kept = fs::read(&key).expect("a key");
    let refused = || {
        let said = Authority::open(folder.path()).expect_err("it is damaged");
        assert!(matches!(said, AuthorityError::Damaged(..)), "{said}");
        said.to_string()
    };
    let open = || Authority::open(folder.path()).map(|it| it.fingerprint());
    // It ended just before the last name was given.
    fs::rename(&pem, path("authority.pem.new")).expect("another name");
    assert_eq!(open().expect("it goes on"), authority.fingerprint());
    // The certificate was lost.
    fs::rename(&pem, path("away")).expect("another name");
    assert!(refused().contains("restore"));
    // What another began is not its own.
    let (other, _authority) = self::authority();
    let others = |name: &str| other.path().join(name);
    fs::copy(others("authority.pem"), path("authority.pem.new")).expect("a copy");
    refused();
    fs::copy(others("authority.pem"), &pem).expect("a copy");
    assert!(refused().contains("not its own"));
    assert_eq!(fs::read(&key).expect("a key"), kept);
    fs::rename(path("away"), &pem).expect("the old name");
    assert_eq!(open().expect("it is back"), authority.fingerprint());
    fs::remove_file(&key).expect("a key");
    refused();
    assert!(!key.exists());
}

#[test]
fn tokens_of_an_authority_go_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("authority");
    let authority = Authority::open(&folder).expect("an authority");
    let name = "left".parse().expect("a name");
    let token = authority.give_token(&name, NEVER).expect("a token");
    fs::remove_dir_all(&folder).expect("it is removed");
    let other = Authority::open(&folder).expect("another");
    let request = request(&KeyPair::generate().expect("a key"));
    assert!(other.redeem(&token.secret, &request, 1).is_err());
}

/// Root gives a token first, and the service is to begin with what was made; where the service's
/// user has put a link, what it leads to is left as it is.
#[test]
fn what_root_makes_in_a_folder_of_another_is_that_users() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let (user, group) = (61_234, 61_235);
    chown(state.path(), Some(user), Some(group)).expect("a folder of another");
    let folder = state.path().join("authority");
    let authority = Authority::open(&folder).expect("an authority");
    let name = "left".parse().expect("a name");
    authority.give_token(&name, NEVER).expect("a token");
    let mut count = 0;
    for folder in [&folder, &folder.join("tokens")] {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("a file");
            let found = entry.metadata().expect("it is there");
            assert_eq!((found.uid(), found.gid()), (user, group), "{entry:?}");
            count += 1;
        }
    }
    assert!(count >= 4);
    let of_root = tempfile::tempdir().expect("a folder");
    let other = state.path().join("other");
    symlink(of_root.path(), &other).expect("a link");
    lchown(&other, Some(user), Some(group)).expect("a link of another");
    assert!(Authority::open(&other).is_err());
    assert!(
        fs::read_dir(of_root.path())
            .expect("a folder")
            .next()
            .is_none()
    );
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

/// Sends a byte of this each time, until the other end is gone.
fn drip(mut socket: &TcpStream, bytes: impl Iterator<Item = u8>) {
    for byte in bytes {
        thread::sleep(Duration::from_millis(20));
        if socket.write_all(&[byte]).is_err() {
            return;
        }
    }
}

#[test]
fn a_time_is_for_all_that_comes_in_it() {
    let within = Duration::from_millis(300);
    let (_folder, authority) = authority();
    let (left, right) = (node(&authority, "left", 1), node(&authority, "right", 1));
    for peeks in [false, true] {
        let (address, donor_ends) = donor(&right, move |mut wire| {
            let start = Instant::now();
            let until = Some(start + within);
            wire.wait_until(until).expect("a time");
            let came = match peeks {
                false => wire.read(&mut [0; 8]),
                true => wire.peek(&mut [0; 8]),
            };
            (came.map_err(|error| error.kind()), start.elapsed())
        });
        let wire = connect(address, &left, "right").expect("it greets");
        // A record that takes half a minute.
        let record = [23, 3, 3, 16, 0].into_iter().chain([0; 1500]);
        drip(wire.socket(), record);
        let (came, took) = donor_ends.join().expect("no panic").expect("it greets");
        let is_late = matches!(came, Err(ErrorKind::TimedOut | ErrorKind::WouldBlock));
        assert!(
            is_late && took < Duration::from_secs(10),
            "{came:?} {took:?}"
        );
    }
}

#[test]
fn what_is_peeked_at_is_whole_and_still_read() {
    let (_folder, authority) = authority();
    let (left, right) = (node(&authority, "left", 1), node(&authority, "right", 1));
    let (address, donor_ends) = donor(&right, |mut wire| {
        let (mut peeked, mut read) = ([0; 5], [0; 6]);
        wire.wait_until(Some(Instant::now() + NEVER))
            .expect("a time");
        let count = wire.peek(&mut peeked).expect("it comes");
        let again = wire.peek(&mut [0; 2]).expect("it is there");
        wire.read_exact(&mut read).expect("it is there still");
        let ends = wire.peek(&mut [0; 1]).unwrap_or(0);
        (count, again, peeked, read, ends)
    });
    let mut wire = connect(address, &left, "right").expect("it greets");
    for part in [b"ab", b"cd", b"ef"] {
        wire.write_all(part).expect("it is sent");
        wire.flush().expect("it is sent");
        thread::sleep(Duration::from_millis(20));
    }
    drop(wire);
    let seen = donor_ends.join().expect("no panic").expect("it greets");
    assert_eq!(seen, (5, 2, *b"abcde", *b"abcdef", 0));
}

#[test]
fn who_is_refused_is_not_heard_out_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let socket = TcpStream::connect(address).expect("it listens");
    let says = thread::spawn(move || drip(&socket, std::iter::repeat_n(0, 1500)));
    let (socket, _) = listener.accept().expect("somebody comes");
    let start = Instant::now();
    hear_out(&socket, start + Duration::from_millis(200));
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    drop(socket);
    says.join().expect("no panic");
}
