//! Donors that do not do what they should: a program never reads what it did not write.

use super::{Ended, MIB, donor, is_possible, paged, program, text};
use rhythm_venice::memory::wire::{Answer, parse_answer};
use std::io::{Read, Write, copy};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread::{self, JoinHandle};

/// Answers that carry pages before it begins.
const HONEST: usize = 50;

/// What a donor makes of an answer: what it puts into place of it.
type Lie = fn(&Answer<'_>, u64, &mut Vec<u8>);

/// Something between a borrower and a donor that changes a page's answer, once.
fn between(donor: &str, lie: Lie) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it has one").to_string();
    let donor = donor.to_owned();
    let thread = thread::spawn(move || {
        let (borrower, _) = listener.accept().expect("a borrower");
        let donor = TcpStream::connect(donor).expect("it listens");
        let ends = [&borrower, &donor].map(|end| end.try_clone().expect("a descriptor"));
        let requests = thread::spawn(move || {
            let [mut borrower, mut donor] = ends;
            let _ = copy(&mut borrower, &mut donor);
            let _ = donor.shutdown(Shutdown::Both);
        });
        // Ends when either end does.
        let _ = pass_on(&donor, &borrower, lie);
        let _ = borrower.shutdown(Shutdown::Both);
        let _ = donor.shutdown(Shutdown::Both);
        requests.join().expect("it copies");
    });
    (address, thread)
}

fn pass_on(mut from: &TcpStream, mut to: &TcpStream, lie: Lie) -> std::io::Result<()> {
    let (mut input, mut part, mut pages) = (Vec::new(), [0; 8192], 0);
    loop {
        let mut output = Vec::new();
        while let Some((answer, id, used)) = parse_answer(&input).expect("an answer") {
            pages += usize::from(matches!(answer, Answer::Data(_)));
            if pages == HONEST && matches!(answer, Answer::Data(_)) {
                lie(&answer, id, &mut output);
            } else {
                answer.put(id, &mut output);
            }
            input.drain(..used);
        }
        to.write_all(&output)?;
        match from.read(&mut part)? {
            0 => return Ok(()),
            read => input.extend_from_slice(&part[..read]),
        }
    }
}

fn another_page(answer: &Answer<'_>, id: u64, out: &mut Vec<u8>) {
    if let Answer::Data(bytes) = answer {
        let mut bytes = bytes.to_vec();
        bytes[4000] ^= 1;
        Answer::Data(&bytes).put(id, out);
    }
}

fn zeros(_: &Answer<'_>, id: u64, out: &mut Vec<u8>) {
    Answer::Data(&[0; 4096]).put(id, out);
}

fn less(answer: &Answer<'_>, id: u64, out: &mut Vec<u8>) {
    if let Answer::Data(bytes) = answer {
        Answer::Data(&bytes[1..]).put(id, out);
    }
}

fn nothing_of_it(_: &Answer<'_>, id: u64, out: &mut Vec<u8>) {
    Answer::Done.put(id, out);
}

fn of_another_request(answer: &Answer<'_>, id: u64, out: &mut Vec<u8>) {
    answer.put(id + 1, out);
}

fn twice(answer: &Answer<'_>, id: u64, out: &mut Vec<u8>) {
    answer.put(id, out);
    answer.put(id, out);
}

fn garbage(_: &Answer<'_>, _: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\n\r\n");
}

fn damage(answer: &Answer<'_>, id: u64, out: &mut Vec<u8>) {
    answer.put(id, out);
    if let Some(last) = out.last_mut() {
        *last ^= 1;
    }
}

#[test]
fn a_program_ends_whose_donor_does_not_answer_what_was_asked() {
    if !is_possible() {
        return;
    }
    let lies: [(&str, Lie, &str); 8] = [
        ("another page", another_page, "otherwise than it was sent"),
        ("zeros", zeros, "otherwise than it was sent"),
        ("less", less, "answers what was not asked"),
        ("nothing", nothing_of_it, "answers what was not asked"),
        ("another", of_another_request, "answers what was not asked"),
        ("twice", twice, "answers what was not asked"),
        ("garbage", garbage, "does not keep to the protocol"),
        ("damage", damage, "does not keep to the protocol"),
    ];
    for (name, lie, why) in lies {
        let (_donor, address) = donor(64 * MIB);
        let (address, thread) = between(&address, lie);
        let mut command = paged(&address, MIB, 64 * MIB, program(), &["spin", "8"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut ended = Ended(command.spawn().expect("it runs"));
        let status = ended.wait();
        let mut said = String::new();
        let output = ended.0.stderr.as_mut().expect("it is a pipe");
        output.read_to_string(&mut said).expect("text");
        assert_eq!(status.code(), Some(128 + 7), "{name}: {said}");
        assert!(said.contains("memory of this program is lost"), "{name}");
        assert!(said.contains(why), "{name}: {said}");
        thread.join().expect("it passes on");
        // Where another has what it has, nothing is lost.
        let ((_liar, liar), (_other, other)) = (donor(64 * MIB), donor(64 * MIB));
        let (liar, thread) = between(&liar, lie);
        let donors = format!("{liar},{other}");
        let output = paged(&donors, MIB, 64 * MIB, program(), &["busy", "8"])
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let said = text(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        assert!(said.contains("1 donors lost"), "{name}: {said}");
        thread.join().expect("it passes on");
    }
}
