//! Accelerators where one end keeps the other waiting: borrowers that show no key, and donors that
//! give no result.

use rhythm_venice::accelerator::borrower::{Accelerator, Error, Job, Sharing};
use rhythm_venice::accelerator::donor::{Accelerators, Options};
use rhythm_venice::accelerator::request::Kind;
use rhythm_venice::channel::messages::{Credits, Messages, QueueSettings};
use rhythm_venice::loan::LoanKey;
use rhythm_venice::remote::Place;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);
const BOTH: [Sharing; 2] = [Sharing::Shared, Sharing::Exclusive];
const KEY: LoanKey = LoanKey([1; 32]);
/// Bytes of an input, and of its output, which takes three messages.
const BYTES: usize = 1 << 17;

/// A donor with so many places, both ways to it, and the folder of its socket.
fn donor(connections: usize) -> (Accelerators, SocketAddr, [Place; 2], tempfile::TempDir) {
    let options = Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        accelerators: vec![(Kind::Fft, 2)],
        memory: 64 << 20,
        connections,
        offer: Some(KEY),
    };
    let mut donor = Accelerators::start(&options).expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("accelerators.sock");
    donor.listen_locally(&path).expect("a socket");
    let address = donor.address();
    (
        donor,
        address,
        [Place::Tcp(address), Place::Local(path)],
        folder,
    )
}

fn connect(place: &Place, sharing: Sharing) -> Result<Accelerator, Error> {
    Accelerator::connect(place, &KEY, Kind::Fft, sharing, BYTES)
}

fn transform() -> Job<'static> {
    let inverse = false;
    let points = &[0; BYTES];
    Job::Transform { inverse, points }
}

#[test]
fn who_shows_no_key_keeps_nobody_out() {
    let (donor, address, places, _folder) = donor(4);
    let tcp = || OwnedFd::from(TcpStream::connect(address).expect("the donor"));
    for (place, sharing) in places.iter().zip(BOTH) {
        // As many as there are places.
        let stranger = || match place {
            Place::Tcp(_) | Place::Sealed(..) => tcp(),
            Place::Local(path) => UnixStream::connect(path).expect("the donor").into(),
        };
        let strangers: Vec<_> = (0..4).map(|_| stranger()).collect();
        let mut fft = connect(place, sharing).expect("an accelerator");
        // It stays while others come.
        let more: Vec<_> = (0..8).map(|_| tcp()).collect();
        assert_eq!(fft.run(&transform()).expect("it is done").len(), BYTES);
        drop((strangers, more));
    }
    assert!(donor.borrowers() <= 4);
}

/// What is said a little at a time gives no more time than silence.
#[test]
fn a_key_that_never_comes_is_not_waited_for() {
    let (_donor, address, _places, _folder) = donor(4);
    // The beginnings of a message and of a chunk, of which all the rest is to come.
    let beginnings = [(1u8, 16u32), (2, 7)];
    let stays: Vec<_> = beginnings
        .into_iter()
        .map(|(way, kind)| {
            thread::spawn(move || {
                let mut said =
                    [&b"RVA2"[..], &[way, 0, 0, 0], b"RVC1", &kind.to_le_bytes()].concat();
                said.extend([0; 16]);
                said.extend((1u32 << 16).to_le_bytes());
                let mut stream = TcpStream::connect(address).expect("the donor");
                let pause = Some(Duration::from_millis(150));
                stream.set_read_timeout(pause).expect("a time");
                let start = Instant::now();
                let bytes = said.into_iter().chain(std::iter::repeat(0));
                for byte in bytes.take_while(|_| start.elapsed() < NEVER) {
                    let over = stream.write_all(&[byte]).and_then(|()| {
                        match stream.read(&mut [0; 1000]) {
                            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
                            _ => Ok(()),
                        }
                    });
                    if over.is_err() {
                        break;
                    }
                }
                start.elapsed()
            })
        })
        .collect();
    for stay in stays {
        let stay = stay.join().expect("it ends");
        assert!(stay < NEVER / 2, "{stay:?}");
    }
}

#[test]
fn who_finds_no_place_is_told_so_on_every_way() {
    let (_donor, _, places, _folder) = donor(1);
    let _first = connect(&places[0], Sharing::Shared).expect("an accelerator");
    for _ in 0..20 {
        for (place, sharing) in places.iter().flat_map(|place| BOTH.map(|way| (place, way))) {
            let refused = connect(place, sharing).expect_err("there is one place");
            let refused = refused.to_string();
            let wanted = "as many connections as it may";
            assert!(refused.contains(wanted), "{place:?} {sharing:?}: {refused}");
        }
    }
}

/// A donor that has a job, and says that it waits in line, then its result in these parts.
fn says(parts: &[usize]) -> Result<Vec<u8>, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let place = Place::Tcp(listener.local_addr().expect("it is bound"));
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().expect("a borrower");
            stream.read_exact(&mut [0; 8]).expect("which way");
            let settings = QueueSettings {
                messages: 4,
                message_bytes: 1 << 16,
                credits: Credits::Crma,
                credit_every: 2,
            };
            let mut messages = Messages::new(stream, settings, NEVER).expect("a connection");
            let mut said = Vec::new();
            messages.receive(&mut said).expect("its key");
            messages.send(&[1]).expect("room");
            // The input, and at last what is where the start flag is.
            while said.get(..8) != Some(&[0; 8][..]) {
                messages.receive(&mut said).expect("a part");
            }
            let mut completion = [0; 64];
            completion[0] = 1;
            completion[16..24].copy_from_slice(&(BYTES as u64).to_le_bytes());
            for _ in 0..9 {
                messages.send(&[3]).expect("room");
            }
            let mut head = completion.to_vec();
            for part in parts {
                let bytes = vec![7; *part];
                messages
                    .send(&[&[1][..], &head, &bytes].concat())
                    .expect("room");
                head.clear();
            }
            // Until the borrower is content, or not.
            let _ = messages.receive(&mut said);
        });
        connect(&place, Sharing::Shared)
            .expect("an accelerator")
            .run(&transform())
    })
}

#[test]
fn a_donor_that_keeps_waiting_is_left_and_one_that_is_busy_is_not() {
    let first = (1 << 16) - 8 - 1 - 64;
    let second = (1 << 16) - 8;
    let output = says(&[first, second, BYTES - first - second]).expect("it is done");
    assert!(output == [7; BYTES]);
    for parts in [&[1][..], &[first, 1], &[first, 0], &[first, second, second]] {
        let error = says(parts).expect_err("no donor cuts it so").to_string();
        let last = parts[parts.len() - 1];
        let wanted = format!("is lost: a part of {last} bytes");
        assert!(error.contains(&wanted), "{error}");
    }
}
