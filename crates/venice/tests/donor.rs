//! A donor, seen by borrowers that do what they should and by some that do not.

use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::memory::donor::{Donor, NoRoom};
use rhythm_venice::memory::wire::{Answer, Hello, Request, parse_answer};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

fn key(byte: u8) -> LoanKey {
    LoanKey([byte; 32])
}

fn donor(memory: u64) -> Donor {
    Donor::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), memory).expect("a port")
}

struct Borrower {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Borrower {
    fn new(donor: &Donor) -> Self {
        let stream = TcpStream::connect(donor.addresses()[0]).expect("it listens");
        stream.set_read_timeout(Some(NEVER)).expect("a socket");
        Self {
            stream,
            input: Vec::new(),
        }
    }

    fn send(&mut self, request: &Request<'_>) {
        let mut bytes = Vec::new();
        request.put(1, &mut bytes);
        // Where the donor closed, the answer tells.
        let _ = self.stream.write_all(&bytes);
    }

    /// The next answer, as text; empty where the donor closed.
    fn answer(&mut self) -> String {
        let mut part = [0; 4096];
        loop {
            if let Some((answer, _, used)) = parse_answer(&self.input).expect("an answer") {
                let text = match answer {
                    Answer::Data(bytes) => format!("data {bytes:?}"),
                    Answer::Welcome { bytes, .. } => format!("welcome {bytes}"),
                    Answer::Done => "done".to_owned(),
                    Answer::Refused(reason) => format!("refused {reason}"),
                };
                self.input.drain(..used);
                return text;
            }
            match self.stream.read(&mut part) {
                Ok(0) | Err(_) => return String::new(),
                Ok(read) => self.input.extend_from_slice(&part[..read]),
            }
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> String {
        self.send(request);
        self.answer()
    }

    fn enter(&mut self, loan: u64, key: LoanKey, session: u64, bytes: u64) -> String {
        self.ask(&Request::Hello(Hello {
            loan: LoanId(loan),
            key,
            session,
            bytes,
        }))
    }

    fn read(&mut self, offset: u64, length: u32) -> String {
        self.ask(&Request::Read { offset, length })
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> String {
        self.ask(&Request::Write { offset, bytes })
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < NEVER, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_loan_has_what_was_written_and_nothing_beyond() {
    let donor = donor(4 * MIB);
    donor.grant(LoanId(7), MIB, key(1)).expect("there is room");
    let mut borrower = Borrower::new(&donor);
    assert_eq!(borrower.enter(7, key(1), 5, MIB), format!("welcome {MIB}"));
    assert_eq!(borrower.write(MIB - 2, b"ab"), "done");
    assert_eq!(borrower.read(MIB - 3, 3), "data [0, 97, 98]");
    assert_eq!(donor.lent(), [(LoanId(7), MIB, 4096)]);
    let free = Request::Free {
        offset: MIB - 4096,
        length: 4096,
    };
    assert_eq!(borrower.ask(&free), "done");
    assert_eq!(borrower.read(MIB - 3, 3), "data [0, 0, 0]");
    assert_eq!(donor.lent(), [(LoanId(7), MIB, 0)]);
    assert!(borrower.read(MIB - 3, 4).contains("not within loan 7"));
    assert_eq!(borrower.answer(), "", "the connection is over");
}

#[test]
fn who_has_not_the_key_learns_nothing() {
    let donor = donor(4 * MIB);
    donor.grant(LoanId(7), MIB, key(1)).expect("there is room");
    let mut reasons = Vec::new();
    for (loan, key) in [(7, key(2)), (8, key(1)), (0, key(1))] {
        reasons.push(Borrower::new(&donor).enter(loan, key, 5, MIB));
    }
    assert!(reasons[0].starts_with("refused"));
    assert!(
        reasons.iter().all(|reason| *reason == reasons[0]),
        "{reasons:?}"
    );
    let mut rude = Borrower::new(&donor);
    assert!(rude.read(0, 1).contains("begins with a key"));
    let mut other = Borrower::new(&donor);
    other
        .stream
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("a connection");
    assert!(other.answer().contains("not messages of rhythm venice"));
    // All of that costs the others nothing.
    let mut borrower = Borrower::new(&donor);
    assert!(borrower.enter(7, key(1), 5, MIB).starts_with("welcome"));
}

#[test]
fn nobody_reads_what_another_wrote() {
    let donor = donor(4 * MIB);
    donor.grant(LoanId(7), MIB, key(1)).expect("there is room");
    let mut first = Borrower::new(&donor);
    first.enter(7, key(1), 5, MIB);
    assert_eq!(first.write(0, b"secret"), "done");
    let mut second = Borrower::new(&donor);
    assert!(
        second
            .enter(7, key(1), 6, MIB)
            .contains("in use by another")
    );
    // Its own second connection sees the same.
    let mut also_first = Borrower::new(&donor);
    also_first.enter(7, key(1), 5, MIB);
    assert_eq!(also_first.read(0, 1), "data [115]");
    drop((first, also_first));
    until("the loan is free", || donor.lent() == [(LoanId(7), MIB, 0)]);
    let mut second = Borrower::new(&donor);
    assert!(second.enter(7, key(1), 6, MIB).starts_with("welcome"));
    assert_eq!(second.read(0, 6), "data [0, 0, 0, 0, 0, 0]");
}

#[test]
fn a_loan_that_is_revoked_is_gone_when_that_returns() {
    let donor = donor(4 * MIB);
    donor
        .grant(LoanId(7), 3 * MIB, key(1))
        .expect("there is room");
    let no_room = NoRoom {
        wanted: 2 * MIB,
        left: MIB,
        all: 4 * MIB,
    };
    assert_eq!(donor.grant(LoanId(8), 2 * MIB, key(1)), Err(no_room));
    let mut borrower = Borrower::new(&donor);
    borrower.enter(7, key(1), 5, MIB);
    borrower.write(0, b"x");
    assert!(donor.revoke(LoanId(7)));
    assert!(!donor.revoke(LoanId(7)));
    assert!(donor.lent().is_empty());
    let last = borrower.read(0, 1);
    assert!(last.is_empty() || last.contains("taken back"), "{last}");
    donor
        .grant(LoanId(8), 4 * MIB, key(1))
        .expect("there is room again");
}

/// Its memory is zeroed first, and that its process died is heard a moment later: who comes
/// meanwhile waits.
#[test]
fn all_that_a_borrower_had_who_has_just_left_is_had_by_the_next() {
    let memory = 32 * MIB;
    let donor = donor(memory);
    donor.offer(key(3));
    for session in 1..=3 {
        let mut borrower = Borrower::new(&donor);
        let entered = borrower.enter(0, key(3), session, memory);
        assert_eq!(entered, format!("welcome {memory}"), "session {session}");
        for offset in (0..memory).step_by(64 << 10) {
            assert_eq!(borrower.write(offset, b"x"), "done");
        }
    }
}

#[test]
fn an_offer_is_shared_as_long_as_there_is_room() {
    let donor = donor(4 * MIB);
    donor.offer(key(3));
    let mut first = Borrower::new(&donor);
    assert_eq!(
        first.enter(0, key(3), 1, 3 * MIB),
        format!("welcome {}", 3 * MIB)
    );
    let mut second = Borrower::new(&donor);
    assert!(second.enter(0, key(3), 2, 2 * MIB).contains("not lent yet"));
    let mut third = Borrower::new(&donor);
    assert!(third.enter(0, key(3), 3, MIB).starts_with("welcome"));
    first.write(0, b"first");
    assert_eq!(third.read(0, 1), "data [0]");
    // Nobody comes into another's share by its number, nor by a session that none has yet.
    for (loan, bytes, _) in donor.lent() {
        let said = Borrower::new(&donor).enter(loan.0, key(3), 1, bytes);
        assert!(said.contains("no such loan"), "{said}");
    }
    assert!(
        Borrower::new(&donor)
            .enter(0, key(3), 0, MIB)
            .contains("not lent yet")
    );
    drop(first);
    until("its share is free", || donor.lent().len() == 1);
    let mut second = Borrower::new(&donor);
    assert!(second.enter(0, key(3), 2, 2 * MIB).starts_with("welcome"));
}

#[test]
fn requests_are_answered_in_order_however_many_are_sent_at_once() {
    let donor = donor(4 * MIB);
    donor.offer(key(3));
    let mut borrower = Borrower::new(&donor);
    borrower.enter(0, key(3), 1, MIB);
    let mut bytes = Vec::new();
    for page in 0..256u64 {
        let content = [page as u8; 4096];
        let offset = page * 4096;
        Request::Write {
            offset,
            bytes: &content,
        }
        .put(page, &mut bytes);
        Request::Read { offset, length: 1 }.put(page, &mut bytes);
    }
    let mut sender = borrower.stream.try_clone().expect("a descriptor");
    let sent = std::thread::spawn(move || sender.write_all(&bytes));
    for page in 0..256 {
        assert_eq!(borrower.answer(), "done");
        assert_eq!(borrower.answer(), format!("data [{page}]"));
    }
    sent.join().expect("it sends").expect("a connection");
}

#[test]
fn much_memory_that_is_taken_back_is_not_lent_anew_before_it_is_zeroed() {
    let bytes = 96 * MIB;
    let donor = donor(bytes);
    donor
        .grant(LoanId(7), bytes, key(1))
        .expect("there is room");
    let mut borrower = Borrower::new(&donor);
    borrower.enter(7, key(1), 5, bytes);
    for page in 0..bytes / 65536 {
        assert_eq!(borrower.write(page * 65536, &[1; 65536]), "done");
    }
    assert!(donor.revoke(LoanId(7)));
    assert!(donor.lent().is_empty());
    until("it is zeroed", || {
        donor.grant(LoanId(8), bytes, key(1)).is_ok()
    });
    let mut borrower = Borrower::new(&donor);
    borrower.enter(8, key(1), 6, bytes);
    assert_eq!(borrower.read(bytes - 3, 3), "data [0, 0, 0]");
}

#[test]
fn who_connects_and_says_nothing_keeps_nobody_out() {
    let donor = donor(4 * MIB);
    donor.grant(LoanId(7), MIB, key(1)).expect("there is room");
    let mut first = Borrower::new(&donor);
    assert!(first.enter(7, key(1), 5, MIB).starts_with("welcome"));
    let mut strangers: Vec<_> = (0..255).map(|_| Borrower::new(&donor)).collect();
    let mut second = Borrower::new(&donor);
    assert!(second.enter(7, key(1), 5, MIB).starts_with("welcome"));
    assert_eq!(strangers[0].answer(), "", "it made room");
    assert_eq!(first.write(0, b"a"), "done", "who has a loan does not");
    // Borrowers are as many as may be, and no more.
    for stranger in &mut strangers[1..] {
        assert!(stranger.enter(7, key(1), 5, MIB).starts_with("welcome"));
    }
    assert_eq!(Borrower::new(&donor).answer(), "");
    drop(second);
    until("there is room again", || {
        let said = Borrower::new(&donor).enter(7, key(1), 5, MIB);
        said.starts_with("welcome")
    });
}

#[test]
fn who_says_his_key_byte_by_byte_is_not_waited_for() {
    let donor = donor(4 * MIB);
    donor.grant(LoanId(7), MIB, key(1)).expect("there is room");
    let mut hello = Vec::new();
    Request::Hello(Hello {
        loan: LoanId(7),
        key: key(1),
        session: 5,
        bytes: MIB,
    })
    .put(1, &mut hello);
    let mut slow = Borrower::new(&donor);
    let start = Instant::now();
    // Which protocol it speaks is seen from what comes first, within the same time.
    slow.stream.write_all(&hello[..2]).expect("a connection");
    std::thread::sleep(Duration::from_secs(4));
    for byte in &hello[2..hello.len() - 1] {
        if slow.stream.write_all(std::slice::from_ref(byte)).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(slow.answer(), "", "the connection is over");
    // By far not the time that all of it would take.
    assert!(hello.len() > 40 && start.elapsed() < Duration::from_secs(30));
}
