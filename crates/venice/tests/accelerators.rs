//! Accelerators of a donor, over both transports and both ways to a mailbox, with donors and
//! borrowers that do what they should not.

use rhythm_venice::accelerator::borrower::{Accelerator, Cipher, Error, Job, Sharing};
use rhythm_venice::accelerator::donor::{Accelerators, Options};
use rhythm_venice::accelerator::fft::{Complex, from_bytes, to_bytes};
use rhythm_venice::accelerator::request::{Failure, Kind};
use rhythm_venice::channel::messages::{Credits, Messages, QueueSettings};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::remote::{Place, RemoteMemory};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const KIB: usize = 1 << 10;
/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);
const BOTH: [Sharing; 2] = [Sharing::Shared, Sharing::Exclusive];

fn key(byte: u8) -> LoanKey {
    LoanKey([byte; 32])
}

fn options(fft: usize, aes: usize) -> Options {
    Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        accelerators: vec![(Kind::Fft, fft), (Kind::Aes, aes)],
        memory: 256 << 20,
        connections: 128,
        offer: Some(key(1)),
    }
}

/// A donor, both ways to it, and the folder of its socket.
fn donor(options: &Options) -> (Accelerators, [Place; 2], tempfile::TempDir) {
    let mut donor = Accelerators::start(options).expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("accelerators.sock");
    donor.listen_locally(&path).expect("a socket");
    let places = [Place::Tcp(donor.address()), Place::Local(path)];
    (donor, places, folder)
}

/// Connects, as soon as the donor has noticed who is gone.
fn connect(place: &Place, kind: Kind, sharing: Sharing, bytes: usize) -> Accelerator {
    let start = Instant::now();
    loop {
        match Accelerator::connect(place, &key(1), kind, sharing, bytes) {
            Err(Error::Refused { reason, .. }) => assert!(start.elapsed() < NEVER, "{reason}"),
            connected => return connected.expect("an accelerator"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < NEVER, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn cipher<'a>(associated: &'a [u8], text: &'a [u8]) -> Cipher<'a> {
    Cipher {
        key: &[7; 32],
        nonce: &[9; 12],
        associated,
        text,
    }
}

#[test]
fn results_are_those_of_this_machine() {
    let (_donor, places, _folder) = donor(&options(2, 2));
    let mut random = fastrand::Rng::with_seed(11);
    let most = 512 * KIB;
    let mut own_fft = Accelerator::local(Kind::Fft, most).expect("it is allowed");
    let mut own_aes = Accelerator::local(Kind::Aes, most).expect("it is allowed");
    for place in &places {
        for sharing in BOTH {
            let mut fft = connect(place, Kind::Fft, sharing, most);
            for points in [1, 2, 15, 512, 1000, 8191, 60_000] {
                let mut part = || random.f32() - 0.5;
                let numbers: Vec<_> = (0..points).map(|_| Complex::new(part(), part())).collect();
                let points = to_bytes(&numbers);
                let inverse = false;
                let forward = Job::Transform {
                    inverse,
                    points: &points,
                };
                let there = fft.run(&forward).expect("it is done");
                assert!(there == own_fft.run(&forward).expect("it is done"));
                // There and back is what it was, times their count.
                let back = Job::Transform {
                    inverse: true,
                    points: &there,
                };
                let back = from_bytes(&fft.run(&back).expect("it is done"));
                for (was, is) in numbers.iter().zip(&back) {
                    let is = is / numbers.len() as f32;
                    assert!((is - was).norm() < 1e-4, "{was} became {is}");
                }
            }
            let mut aes = connect(place, Kind::Aes, sharing, most);
            for (associated, text) in [(0, 0), (5, 1), (0, 4096), (70_000, 9), (13, 400_000)] {
                let bytes: Vec<u8> = (0..associated + text).map(|_| random.u8(..)).collect();
                let (associated, text) = bytes.split_at(associated);
                let seal = Job::Seal(cipher(associated, text));
                let mut sealed = aes.run(&seal).expect("it is done");
                assert!(sealed == own_aes.run(&seal).expect("it is done"));
                let open = |aes: &mut Accelerator, sealed: &[u8]| {
                    aes.run(&Job::Open(cipher(associated, sealed)))
                };
                assert!(open(&mut aes, &sealed).expect("it is done") == text);
                sealed[0] ^= 1;
                let opened = open(&mut aes, &sealed);
                let failed = Error::Failed(Failure::NotAuthentic).to_string();
                assert_eq!(opened.expect_err("it is forged").to_string(), failed);
            }
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason_and_the_rest_goes_on() {
    let (of_all, places, _folder) = donor(&options(1, 1));
    for place in &places {
        for sharing in BOTH {
            let refused = |key: &LoanKey, bytes: usize| {
                let refused = Accelerator::connect(place, key, Kind::Aes, sharing, bytes);
                refused.expect_err("it is refused").to_string()
            };
            assert!(refused(&key(2), KIB).contains("the key is another"));
            assert!(refused(&key(1), 0).contains("are allowed"));
            assert!(refused(&key(1), 5 << 20).contains("are allowed"));
            let mut aes = connect(place, Kind::Aes, sharing, KIB);
            let long = [0; KIB + 1];
            let error = aes.run(&Job::Seal(cipher(&[], &long)));
            assert!(matches!(error, Err(Error::TooLong { bytes: 1025, .. })));
            let points = &[0; 8];
            let inverse = false;
            let error = aes.run(&Job::Transform { inverse, points });
            assert!(matches!(error, Err(Error::OtherKind(Kind::Aes))));
            let error = aes.run(&Job::Open(cipher(&[], &[0; 15])));
            assert!(matches!(error, Err(Error::Failed(Failure::Length))));
            let mut short = cipher(&[], &[]);
            short.key = &[0; 24];
            let error = aes.run(&Job::Seal(short));
            assert!(matches!(error, Err(Error::Failed(Failure::Key))));
            let sealed = aes.run(&Job::Seal(cipher(b"a", b"text")));
            assert_eq!(sealed.expect("it is done").len(), 20);
            drop(aes);
            until("it is free", || of_all.borrowers() == 0);
        }
    }
    let few = Options {
        accelerators: vec![(Kind::Fft, 1)],
        // Enough for a large mailbox and a small one.
        memory: 7 << 19,
        ..options(1, 1)
    };
    let (donor, [place, _], _folder) = donor(&few);
    let refused = |kind, bytes| {
        let refused = Accelerator::connect(&place, &key(1), kind, Sharing::Shared, bytes);
        refused.expect_err("it is refused").to_string()
    };
    assert!(refused(Kind::Aes, KIB).contains("no accelerator for aes here, but fft"));
    let first = connect(&place, Kind::Fft, Sharing::Shared, 512 * KIB);
    assert!(refused(Kind::Fft, 512 * KIB).contains("are left"));
    let all = Accelerator::connect(&place, &key(1), Kind::Fft, Sharing::Exclusive, KIB);
    let all = all.expect_err("it is shared").to_string();
    assert!(all.contains("1 borrowers share the last of 1"), "{all}");
    drop(first);
    until("its memory is free", || donor.borrowers() == 0);
    connect(&place, Kind::Fft, Sharing::Exclusive, 512 * KIB);
}

#[test]
fn a_hundred_borrowers_of_one_accelerator_all_have_their_results() {
    let options = Options {
        connections: 100,
        ..options(1, 1)
    };
    let (donor, [place, _], _folder) = donor(&options);
    let gate = std::sync::Barrier::new(101);
    thread::scope(|scope| {
        for number in 0..100u8 {
            let (place, gate) = (&place, &gate);
            scope.spawn(move || {
                let mut aes = connect(place, Kind::Aes, Sharing::Shared, 32 * KIB);
                gate.wait();
                let mut own = Accelerator::local(Kind::Aes, 32 * KIB).expect("it is allowed");
                for round in 0..20 {
                    let text = vec![number ^ round; 30 * KIB + usize::from(number)];
                    let associated = [number];
                    let seal = Job::Seal(cipher(&associated, &text));
                    let sealed = aes.run(&seal).expect("it is done");
                    assert!(sealed == own.run(&seal).expect("it is done"), "{number}");
                }
                gate.wait();
            });
        }
        gate.wait();
        assert_eq!(donor.borrowers(), 100);
        let refused = Accelerator::connect(&place, &key(1), Kind::Aes, Sharing::Shared, KIB);
        let refused = refused.expect_err("there are too many").to_string();
        assert!(
            refused.contains("as many connections as it may"),
            "{refused}"
        );
        gate.wait();
    });
    until("all are gone", || donor.borrowers() == 0);
}

/// A borrower of the library's memory, of the accelerators of a number: it writes and reads its
/// mailbox as it likes.
fn window(place: SocketAddr, kind: u64, key: &LoanKey, bytes: u64) -> (RemoteMemory, u64) {
    // What begins a connection is said by a proxy, so that the library may go on.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it has one");
    thread::spawn(move || {
        let (mut near, _) = listener.accept().expect("a connection");
        let mut far = TcpStream::connect(place).expect("the donor");
        far.write_all(b"RVA2\x02\0\0\0").expect("room");
        let (mut near_read, mut far_write) = (near.try_clone(), far.try_clone());
        thread::spawn(move || {
            if let (Ok(from), Ok(to)) = (&mut near_read, &mut far_write) {
                let _ = std::io::copy(from, to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            }
        });
        let _ = std::io::copy(&mut far, &mut near);
        let _ = near.shutdown(std::net::Shutdown::Both);
    });
    let mut memory = RemoteMemory::connect(&Place::Tcp(address)).expect("it is reached");
    let base = memory.map(LoanId(kind), key, bytes).expect("a mailbox");
    (memory, base)
}

#[test]
fn nobody_finds_what_another_had() {
    let (donor, places, _folder) = donor(&options(1, 2));
    let Place::Tcp(address) = places[0] else {
        unreachable!("the first is over TCP");
    };
    let secret = vec![0x5a; 256 * KIB];
    for sharing in BOTH {
        for place in &places {
            let mut aes = connect(place, Kind::Aes, sharing, 256 * KIB);
            aes.run(&Job::Seal(cipher(&[], &secret)))
                .expect("it is done");
            // Beside it, and after it.
            for _ in 0..2 {
                let (mut memory, base) = window(address, 2, &key(1), 256 << 10);
                let mut all = vec![1; 2 * 256 * KIB + 4096 + 64 + 16];
                memory.read(base, &mut all).expect("it is its own");
                assert!(all.iter().all(|byte| *byte == 0));
                // Nothing is beyond, and nothing can be written where the output is.
                assert!(memory.read(base + all.len() as u64, &mut [0]).is_err());
                let completion = base + 4096 + (256 << 10);
                let written = memory.write(completion, &[1]).and_then(|()| memory.sync());
                let refused = written.expect_err("it is the donor's").to_string();
                assert!(refused.contains("cannot be used so"), "{refused}");
                drop(memory);
                drop(std::mem::replace(
                    &mut aes,
                    Accelerator::local(Kind::Aes, 1).expect("it is allowed"),
                ));
                until("they are gone", || donor.borrowers() == 0);
            }
        }
    }
}

/// Who has it next does not wait for what another has asked for, and takes no more.
#[test]
fn jobs_that_have_not_begun_when_their_borrower_is_gone_are_not_done() {
    let (donor, places, _folder) = donor(&options(1, 1));
    let Place::Tcp(address) = places[0] else {
        unreachable!("the first is over TCP");
    };
    // A transform of a prime number of points takes long.
    let bytes = 524_287 * 8;
    let mut request = [0; 16];
    request[0] = 1;
    request[8..].copy_from_slice(&u64::to_le_bytes(bytes));
    let loan = LoanId(1);
    for is_revoked in [true, false] {
        let alone = (Kind::Fft, Sharing::Exclusive);
        donor.grant(loan, alone, key(3)).expect("there is one");
        let (mut memory, base) = window(address, 1, &key(3), bytes);
        memory.write(base + 64, &request).expect("it is its own");
        // The second is planned, and is one job alone.
        let times = [1, 2].map(|job| {
            let start = Instant::now();
            memory.write(base, &[job]).expect("it is its own");
            memory.sync().expect("it is done");
            start.elapsed()
        });
        for job in [1, 2].repeat(256) {
            memory.write(base, &[job]).expect("it is its own");
        }
        thread::sleep(2 * times[1]);
        let start = Instant::now();
        match is_revoked {
            true => assert!(donor.revoke(loan)),
            false => drop(memory),
        }
        until("it is gone", || donor.borrowers() == 0);
        let took = start.elapsed();
        // All of them take eight times as long.
        let soon = Duration::from_secs(5).max(64 * times[1]);
        assert!(took < soon, "{took:?}, of {times:?} each");
        donor.revoke(loan);
    }
}

#[test]
fn garbage_and_cut_connections_cost_others_nothing() {
    let (donor, [place, local], _folder) = donor(&options(1, 1));
    let Place::Tcp(address) = place else {
        unreachable!("it is over TCP");
    };
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..60 {
        let mut stream = TcpStream::connect(address).expect("the donor");
        let begins: &[u8] = match round % 4 {
            0 => b"RVA2\x01\0\0\0",
            1 => b"RVA2\x02\0\0\0",
            2 => b"RVA2\x01\0\0\0RVC1\x13\0\0\0",
            _ => b"GET / HTTP/1.1\r\n\r\n",
        };
        let _ = stream.write_all(begins);
        let garbage: Vec<u8> = (0..random.usize(..5000)).map(|_| random.u8(..)).collect();
        let _ = stream.write_all(&garbage);
        if round % 2 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    // A borrower by the rules of messages that lies in them.
    for lie in [
        vec![],
        vec![1; 7],
        u64::MAX.to_le_bytes().to_vec(),
        [&u64::MAX.to_le_bytes()[..], &[1; 9]].concat(),
        [&5000u64.to_le_bytes()[..], &[1; 9000]].concat(),
    ] {
        let mut stream = TcpStream::connect(address).expect("the donor");
        stream.write_all(b"RVA2\x01\0\0\0").expect("room");
        let settings = QueueSettings {
            messages: 4,
            message_bytes: 1 << 16,
            credits: Credits::Message,
            credit_every: 1,
        };
        let mut messages = Messages::new(stream, settings, NEVER).expect("a connection");
        let hello = [&2u64.to_le_bytes()[..], &4096u64.to_le_bytes(), &[1; 32]].concat();
        messages.send(&hello).expect("room");
        let mut said = Vec::new();
        messages.receive(&mut said).expect("an answer");
        assert_eq!(said, [1]);
        messages.send(&lie).expect("room");
        let told = messages.receive(&mut said).map(|()| said.clone());
        let told = told.expect("why not");
        assert!(told == b"\x02that is not within the mailbox", "{told:?}");
    }
    // Cut in the middle of an input.
    for sharing in BOTH {
        for _ in 0..10 {
            drop(connect(&place, Kind::Aes, sharing, 64 * KIB));
        }
    }
    until("all are gone", || donor.borrowers() == 0);
    for place in [&place, &local] {
        let mut aes = connect(place, Kind::Aes, Sharing::Exclusive, KIB);
        aes.run(&Job::Seal(cipher(&[], b"text")))
            .expect("it is done");
        drop(aes);
        until("it is gone", || donor.borrowers() == 0);
    }
}

#[test]
fn a_donor_that_ends_or_lies_is_named() {
    for sharing in BOTH {
        let (donor, places, _folder) = donor(&options(2, 2));
        let mut borrowers: Vec<_> = places
            .iter()
            .map(|place| (place, connect(place, Kind::Fft, sharing, KIB)))
            .collect();
        drop(donor);
        for (place, fft) in &mut borrowers {
            let inverse = false;
            let points = &[0; 64];
            let mut ask = || fft.run(&Job::Transform { inverse, points });
            // What is at hand when it ends may be done yet.
            let begun = Instant::now();
            while ask().is_ok() {
                assert!(begun.elapsed() < NEVER, "its donor is gone");
            }
            for _ in 0..2 {
                let error = ask().expect_err("its donor is gone").to_string();
                let name = match place {
                    Place::Tcp(address) | Place::Sealed(address, _) => address.to_string(),
                    Place::Local(path) => path.display().to_string(),
                };
                let wanted = format!("the accelerator fft of {name} is lost");
                assert!(error.contains(&wanted), "{error}");
            }
        }
    }
    // One that says anything at all.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let place = Place::Tcp(listener.local_addr().expect("it has one"));
    for sharing in BOTH {
        let lies = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a borrower");
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                let _ = stream.read(&mut [0; 1000]);
            });
            Accelerator::connect(&place, &key(1), Kind::Fft, sharing, KIB)
        });
        let lies = lies.expect_err("it lies").to_string();
        assert!(lies.contains("is lost: these are not frames"), "{lies}");
    }
}
