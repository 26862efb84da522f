//! A donor's memory in a program that knows of it, over both transports, and donors and borrowers
//! that do what they should not.

use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::memory::donor::Donor;
use rhythm_venice::remote::{Broken, Lost, Place, RemoteMemory};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

fn key(byte: u8) -> LoanKey {
    LoanKey([byte; 32])
}

/// A donor, both ways to it, and the folder of its socket.
fn donor(memory: u64) -> (Donor, [Place; 2], tempfile::TempDir) {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut donor = Donor::start(any, memory).expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("donor.sock");
    donor.listen_locally(&path).expect("a socket");
    let places = [Place::Tcp(donor.addresses()[0]), Place::Local(path)];
    (donor, places, folder)
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < NEVER, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn accesses_of_all_sizes_are_as_on_an_array() {
    let (donor, places, _folder) = donor(16 * MIB);
    donor.offer(key(1));
    for (seed, place) in (7..).zip(&places) {
        let bytes = 5 * MIB as usize;
        let mut plain = vec![0; bytes];
        let mut memory = RemoteMemory::connect(place).expect("it is reached");
        let base = memory.map(LoanId(0), &key(1), bytes as u64).expect("room");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut got = Vec::new();
        for step in 0..1500 {
            let most = 1 << random.usize(0..23);
            let length = random.usize(1..=most).min(bytes);
            let at = random.usize(..=bytes - length);
            let address = base + at as u64;
            match random.u32(..10) {
                0..4 => {
                    let byte = random.u8(..);
                    let text: Vec<u8> = (0..length).map(|i| byte.wrapping_add(i as u8)).collect();
                    memory.write(address, &text).expect("it is there");
                    plain[at..at + length].copy_from_slice(&text);
                }
                4..8 => {
                    got.resize(length, 0);
                    memory.read(address, &mut got).expect("it is there");
                    assert!(got == plain[at..at + length], "step {step}");
                }
                8 => {
                    let at = at / 8 * 8;
                    let place = &mut plain[at..at + 8];
                    let there = u64::from_le_bytes(place.try_into().expect("eight bytes"));
                    let expected = there ^ u64::from(random.bool());
                    let was = memory.compare_and_swap(base + at as u64, expected, 77);
                    assert_eq!(was.expect("it is there"), there);
                    if there == expected {
                        place.copy_from_slice(&77u64.to_le_bytes());
                    }
                }
                _ => memory.prefetch(address, length).expect("it is there"),
            }
        }
        memory.free(base, MIB).expect("whole pages");
        memory.sync().expect("it is there");
        got.resize(bytes, 0);
        memory.read(base, &mut got).expect("it is there");
        plain[..MIB as usize].fill(0);
        assert!(got == plain);
    }
}

#[test]
fn a_loan_is_zeroed_when_its_borrower_leaves() {
    let (donor, places, _folder) = donor(4 * MIB);
    donor.grant(LoanId(5), 2 * MIB, key(5)).expect("room");
    for place in &places {
        let mut memory = RemoteMemory::connect(place).expect("it is reached");
        let base = memory.map(LoanId(5), &key(5), 0).expect("the loan");
        let mut there = [1; 16];
        memory.read(base + 9, &mut there).expect("it is there");
        assert_eq!(there, [0; 16], "nobody's bytes");
        memory.write(base + 9, b"what was written").expect("there");
        memory.sync().expect("it is there");
        assert_eq!(donor.lent(), [(LoanId(5), 2 * MIB, 4096)]);
        let mut second = RemoteMemory::connect(place).expect("it is reached");
        let refused = second.map(LoanId(5), &key(5), 0).expect_err("one borrower");
        assert!(
            refused.to_string().contains("another borrower"),
            "{refused}"
        );
        drop(memory);
        until("it is zeroed", || donor.lent() == [(LoanId(5), 2 * MIB, 0)]);
    }
}

#[test]
fn what_is_beyond_a_window_is_refused_and_the_rest_goes_on() {
    let (donor, places, _folder) = donor(4 * MIB);
    donor.offer(key(1));
    for place in &places {
        let mut memory = RemoteMemory::connect(place).expect("it is reached");
        let base = memory.map(LoanId(0), &key(1), MIB).expect("room");
        let second = memory.map(LoanId(0), &key(1), MIB).expect("the same loan");
        assert!(second > base + MIB);
        memory.write(second, b"seen").expect("it is there");
        let mut two = [0; 2];
        for address in [0, base - 1, base + MIB - 1, u64::MAX] {
            let lost = memory.read(address, &mut two).expect_err("beyond");
            let is_named = matches!(lost, Lost::Broken(Broken::OutOfWindow(_)));
            assert!(is_named, "{lost}");
            assert!(memory.write(address, &two).is_err());
            assert!(memory.compare_and_swap(address, 0, 0).is_err());
            assert!(memory.prefetch(address, 2).is_err());
            assert!(memory.free(address, 4096).is_err());
        }
        assert!(
            memory.compare_and_swap(base + 4, 0, 0).is_err(),
            "no multiple of 8"
        );
        let mut four = [0; 4];
        memory
            .read(base, &mut four)
            .expect("the connection goes on");
        assert_eq!(&four, b"seen", "two windows on one loan");
        let refused = memory.map(LoanId(0), &key(2), MIB).expect_err("the key");
        assert!(
            refused.to_string().contains("its key is another"),
            "{refused}"
        );
        assert!(memory.read(base, &mut four).is_err(), "then it is over");
    }
}

#[test]
fn a_loan_that_is_taken_back_is_lost_at_once() {
    let (donor, places, _folder) = donor(4 * MIB);
    for place in &places {
        donor.grant(LoanId(5), MIB, key(5)).expect("room");
        let mut memory = RemoteMemory::connect(place).expect("it is reached");
        let base = memory.map(LoanId(5), &key(5), 0).expect("the loan");
        memory.write(base, b"abc").expect("it is there");
        let start = Instant::now();
        assert!(donor.revoke(LoanId(5)));
        let mut three = [0; 3];
        assert!(memory.read(base, &mut three).is_err());
        assert!(memory.write(base, &three).is_err() || memory.sync().is_err());
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    let (_, places, folder) = donor_that_ends();
    for place in &places {
        assert!(RemoteMemory::connect(place).is_err());
    }
    assert!(folder.path().read_dir().expect("a folder").next().is_none());
}

#[test]
fn only_a_dead_donors_socket_is_replaced() {
    let (donor, places, folder) = donor(MIB);
    let Place::Local(path) = &places[1] else {
        panic!("the second is a socket")
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut second = Donor::start(any, MIB).expect("a port");
    assert!(second.listen_locally(path).is_err(), "somebody listens");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("a file");
    assert!(second.listen_locally(&file).is_err(), "no socket");
    assert_eq!(std::fs::read(&file).expect("it is there"), b"text");
    let left = folder.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&left).expect("a socket"));
    second.listen_locally(&left).expect("nobody listens");
    drop((second, donor));
    assert!(!left.exists() && !path.exists());
}

fn donor_that_ends() -> ((), [Place; 2], tempfile::TempDir) {
    let (donor, places, folder) = donor(MIB);
    drop(donor);
    let Place::Tcp(address) = places[0] else {
        panic!("the first is TCP")
    };
    until("nobody listens", || TcpStream::connect(address).is_err());
    ((), places, folder)
}

#[test]
fn donors_that_lie_are_refused() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it has one");
    for (answer, wanted) in [
        (&b""[..], "closed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not frames"),
        (
            b"RVC1\xff\xff\xff\xff____________________________",
            "unknown kind",
        ),
    ] {
        let its = thread::spawn({
            let listener = listener.try_clone().expect("a descriptor");
            move || {
                let (mut stream, _) = listener.accept().expect("a borrower");
                let mut hello = [0; 88];
                stream.read_exact(&mut hello).expect("it asks");
                stream.write_all(answer).expect("it is there");
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read(&mut hello);
            }
        });
        let mut memory = RemoteMemory::connect(&Place::Tcp(address)).expect("it is reached");
        let lost = memory.map(LoanId(0), &key(1), 1).expect_err("it lies");
        assert!(lost.to_string().contains(wanted), "{lost}");
        drop(memory);
        its.join().expect("no panic");
    }
}

#[test]
fn borrowers_that_talk_nonsense_cost_only_themselves() {
    let (donor, places, _folder) = donor(MIB);
    donor.offer(key(1));
    let Place::Tcp(address) = places[0] else {
        panic!("the first is TCP")
    };
    for nonsense in [
        &b"R"[..],
        b"RVC",
        b"RVC1",
        b"RVC1\x01\0\0\0",
        b"RVC1\x02\0\0\0____________________________",
    ] {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(nonsense).expect("it is there");
        stream.shutdown(Shutdown::Write).expect("it is there");
        stream.set_read_timeout(Some(NEVER)).expect("a socket");
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty() || said.starts_with(b"RV"), "{said:?}");
    }
    let mut memory = RemoteMemory::connect(&places[0]).expect("it is reached");
    let base = memory.map(LoanId(0), &key(1), MIB).expect("room");
    memory.write(base, b"a").expect("it is there");
    memory.sync().expect("it is there");
}
