//! Memory and accelerators of donors that speak TLS.

use super::relay::Relay;
use super::{Monitor, NEVER, any_port};
use rhythm_venice::accelerator::borrower::{Accelerator, Job, Sharing};
use rhythm_venice::accelerator::donor::{Accelerators, Options};
use rhythm_venice::accelerator::request::Kind;
use rhythm_venice::identity::{Identity, Sealing};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::memory::donor::Donor;
use rhythm_venice::remote::{Place, RemoteMemory};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEY: LoanKey = LoanKey([9; 32]);
const MIB: u64 = 1 << 20;

/// Memory that is lent in TLS, or plain.
fn donor(identity: Option<&Identity>) -> (Donor, SocketAddr) {
    let donor = match identity {
        Some(identity) => Donor::start_sealed(any_port(), 16 * MIB, identity),
        None => Donor::start(any_port(), 16 * MIB),
    };
    let donor = donor.expect("a port");
    donor.offer(KEY);
    let address = donor.addresses()[0];
    (donor, address)
}

fn sealed(address: SocketAddr, identity: &Arc<Identity>, donor: &str) -> Place {
    let sealing = Sealing {
        identity: Arc::clone(identity),
        donor: donor.parse().expect("a name"),
    };
    Place::Sealed(address, sealing)
}

fn map(place: &Place) -> Result<(RemoteMemory, u64), String> {
    let mut memory = RemoteMemory::connect(place).map_err(|lost| lost.to_string())?;
    let start = memory.map(LoanId(0), &KEY, 8 * MIB);
    start
        .map(|start| (memory, start))
        .map_err(|lost| lost.to_string())
}

/// What was written is read back, by small accesses and by large ones.
fn use_memory(place: &Place, pattern: &[u8]) {
    let (mut memory, start) = map(place).expect("it is lent");
    memory.write(start + 5, pattern).expect("it is written");
    let long = pattern.repeat((3 << 20) / pattern.len());
    memory.write(start + 8192, &long).expect("it is written");
    memory.sync().expect("it is there");
    let mut back = vec![0; pattern.len()];
    memory.read(start + 5, &mut back).expect("it is read");
    assert_eq!(back, pattern);
    let mut back = vec![0; long.len()];
    memory.read(start + 8192, &mut back).expect("it is read");
    assert!(back == long);
    assert_eq!(
        memory.compare_and_swap(start + 4096, 0, 1).expect("it is"),
        0
    );
}

#[test]
fn who_is_on_the_way_reads_nothing_in_tls_and_all_without() {
    let monitor = Monitor::start();
    let (left, right) = (monitor.join("left"), monitor.join("right"));
    let pattern = b"what nobody on the way is to read";
    let (_donor, address) = donor(Some(&right));
    let relay = Relay::to(address);
    use_memory(&sealed(relay.address, &left, "right"), pattern);
    let (bytes, has) = relay.heard(pattern);
    assert!(bytes > 6 << 20 && !has, "{bytes}");
    assert!(!relay.heard(&KEY.0).1, "the key is not read, either");
    // So it would be seen.
    let (_donor, address) = donor(None);
    let relay = Relay::to(address);
    use_memory(&Place::Tcp(relay.address), pattern);
    assert!(relay.heard(pattern).1 && relay.heard(&KEY.0).1);
}

#[test]
fn accelerators_are_used_in_tls_both_ways() {
    let monitor = Monitor::start();
    let (left, right) = (monitor.join("left"), monitor.join("right"));
    let options = Options {
        listen: any_port(),
        accelerators: vec![(Kind::Fft, 2)],
        memory: 64 << 20,
        connections: 4,
        offer: Some(KEY),
    };
    let accelerators = Accelerators::start_sealed(&options, &right).expect("a port");
    let points: Vec<u8> = b"a number".repeat(1 << 12);
    let job = Job::Transform {
        inverse: false,
        points: &points,
    };
    let here = Accelerator::local(Kind::Fft, points.len()).expect("one");
    let wanted = { here }.run(&job).expect("it is done");
    for sharing in [Sharing::Shared, Sharing::Exclusive] {
        let relay = Relay::to(accelerators.address());
        let place = sealed(relay.address, &left, "right");
        let connected = Accelerator::connect(&place, &KEY, Kind::Fft, sharing, points.len());
        let mut fft = connected.expect("an accelerator");
        assert!(fft.run(&job).expect("it is done") == wanted);
        let (bytes, has) = relay.heard(b"a numbera number");
        assert!(bytes > 2 * points.len() && !has);
    }
    let plain = Place::Tcp(accelerators.address());
    for sharing in [Sharing::Shared, Sharing::Exclusive] {
        let connected = Accelerator::connect(&plain, &KEY, Kind::Fft, sharing, points.len());
        let said = connected.map(drop).expect_err("refused").to_string();
        assert!(said.contains("speaks TLS"), "{said}");
    }
}

#[test]
fn who_is_another_is_told_what_helps() {
    let (monitor, other) = (Monitor::start(), Monitor::start());
    let (left, right) = (monitor.join("left"), monitor.join("right"));
    let (stranger, plain) = (other.join("left"), donor(None));
    let (_donor, address) = donor(Some(&right));
    let refused = |place: &Place| map(place).map(drop).expect_err("refused");
    // The donor is another node than it is to be; the name is compared to the letter.
    for named in ["left", "Right", "monitor"] {
        let said = refused(&sealed(address, &left, named));
        assert!(
            said.contains(&format!("node {named} was to answer there")),
            "{said}"
        );
    }
    // The borrower believes another authority; the donor would not believe it, either.
    let said = refused(&sealed(address, &stranger, "right"));
    assert!(said.contains("another authority"), "{said}");
    // One of both speaks TLS.
    let said = refused(&Place::Tcp(address));
    assert!(
        said.contains("speaks TLS") && said.contains("--identity"),
        "{said}"
    );
    let said = refused(&sealed(plain.1, &left, "right"));
    assert!(said.contains("does not speak TLS"), "{said}");
    use_memory(&sealed(address, &left, "right"), b"and who is right has it");
}

/// Strangers that greet for ever are so many at a time, and not for long; they keep nobody out.
#[test]
fn greetings_that_never_end_keep_nobody_out() {
    let monitor = Monitor::start();
    let (left, right) = (monitor.join("left"), monitor.join("right"));
    let (_donor, address) = donor(Some(&right));
    let strangers: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("the donor");
            let begins = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
            // One that has made way is closed.
            let _ = stream.write_all(&begins);
            stream
        })
        .collect();
    let start = Instant::now();
    use_memory(&sealed(address, &left, "right"), b"who is no stranger");
    for mut stream in strangers {
        stream.set_read_timeout(Some(NEVER)).expect("a socket");
        // Whatever it is told, its end comes.
        while matches!(stream.read(&mut [0; 100]), Ok(1..)) {}
    }
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}
