//! Tokens and who has them.

use super::{Monitor, NEVER};
use rhythm_venice::identity::{Identity, Party, join};
use rhythm_venice::secret::Secret;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn a_token_is_used_once_and_not_for_long() {
    let monitor = Monitor::start();
    let token = monitor.token("left", NEVER);
    let at = |name: &str| monitor.identity_folder(name);
    let joined = join::join(monitor.address, &token, &at("left")).expect("it joins");
    assert_eq!(
        *joined.party(),
        Party::Node("left".parse().expect("a name"))
    );
    let days = joined.left().as_secs() / 86_400;
    assert!((700..=730).contains(&days), "{days}");
    let mode = fs::metadata(at("left").join("key.pem"))
        .expect("a key")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);

    let refused = |token, name| {
        let said = join::join(monitor.address, &token, &at(name)).expect_err("refused");
        assert!(!at(name).join("key.pem").exists(), "nothing is left");
        said.to_string()
    };
    let said = refused(token, "again");
    assert!(
        said.contains("was used") && said.contains("rhythm venice token"),
        "{said}"
    );
    let said = refused(monitor.token("late", Duration::ZERO), "late");
    assert!(said.contains("has expired"), "{said}");
    // What is there is not overwritten, and costs no token.
    let token = monitor.token("left", NEVER);
    let error = join::join(monitor.address, &token, &at("left")).expect_err("refused");
    assert!(error.to_string().contains("is not overwritten"), "{error}");
    join::join(monitor.address, &token, &at("other")).expect("it joins");
}

#[test]
fn a_token_is_told_to_its_own_monitor_alone() {
    let (monitor, other) = (Monitor::start(), Monitor::start());
    let folder = monitor.identity_folder("left");
    let token = monitor.token("left", NEVER);
    let error = join::join(other.address, &token, &folder).expect_err("another monitor");
    assert!(
        error
            .to_string()
            .contains("the authority that the token names"),
        "{error}"
    );
    // Who does not speak TLS hears nothing of it.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let text = token.to_string();
    let listens = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        let mut heard = [0; 4096];
        let count = stream.read(&mut heard).expect("a greeting");
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let secret = text.split('.').next().expect("a part");
        let bytes: Vec<u8> = (0..secret.len() / 2)
            .map(|at| u8::from_str_radix(&secret[2 * at..2 * at + 2], 16).expect("digits"))
            .collect();
        assert!(
            !heard[..count]
                .windows(bytes.len())
                .any(|part| part == bytes)
        );
    });
    let error = join::join(address, &token, &folder).expect_err("no monitor");
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
    listens.join().expect("nothing was heard");
    join::join(monitor.address, &token, &folder).expect("the token is good still");
}

#[test]
fn a_monitor_without_tls_is_joined_by_nobody_and_it_is_said_why() {
    let (monitor, plain) = (
        Monitor::start(),
        Monitor::plain(Secret::of(b"a secret of the test")),
    );
    let folder = monitor.identity_folder("left");
    let token = monitor.token("left", NEVER);
    let error = join::join(plain.address, &token, &folder).expect_err("it has no authority");
    let said = error.to_string();
    assert!(
        said.contains("--key-file") && said.contains("needs no joining"),
        "{said}"
    );
    join::join(monitor.address, &token, &folder).expect("the token is good still");
}

/// Two join into one folder at a time: who does not leaves what the other has made.
#[test]
fn who_does_not_join_removes_its_own_files_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let at = |name: &str| folder.path().join(name);
    let (key, others) = (at("key.pem"), at("certificate.pem"));
    let monitor = Monitor::start();
    let token = monitor.token("left", NEVER);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _connection = listener.accept().expect("somebody comes");
            assert!(key.exists());
            fs::write(&others, "another's").expect("a file");
        });
        join::join(address, &token, folder.path()).expect_err("it is no monitor");
    });
    assert!(others.exists() && !key.exists());
}

#[test]
fn an_identity_that_others_can_read_is_none() {
    let monitor = Monitor::start();
    monitor.join("left");
    let folder = monitor.identity_folder("left");
    let key = folder.join("key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("permissions");
    let said = Identity::open(&folder).expect_err("refused").to_string();
    assert!(said.contains("chmod 600"), "{said}");
    // Of another node: the key is not the certificate's.
    monitor.join("right");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("permissions");
    let right = monitor.identity_folder("right").join("certificate.pem");
    fs::copy(right, folder.join("certificate.pem")).expect("a copy");
    assert!(Identity::open(&folder).is_err());
}

/// A greeting that never ends has as long as any, and then its connection is closed.
#[test]
fn who_never_ends_its_greeting_is_closed() {
    let monitor = Monitor::start();
    let mut stream = TcpStream::connect(monitor.address).expect("the monitor");
    stream.set_read_timeout(Some(NEVER)).expect("a socket");
    // The beginning of a record of 512 bytes, that does not come.
    stream
        .write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3])
        .expect("sent");
    let start = Instant::now();
    let ended = stream.read(&mut [0; 100]);
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    let took = start.elapsed();
    assert!((3..15).contains(&took.as_secs()), "{took:?}");
    monitor.join("left");
}
