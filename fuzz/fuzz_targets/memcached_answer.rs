//! What a memcached server might say, greeting and answers: nothing panics, and each query is told
//! of exactly once.
#![no_main]

mod backend;

use backend::{Place, call};
use libfuzzer_sys::fuzz_target;
use rhythm_engine::program::{Asking, CallResult};
use std::sync::LazyLock;

static AT: LazyLock<Place> =
    LazyLock::new(|| Place::new("memcached", &[("url", "memcached://127.0.0.1")]));

/// What is asked, before and behind a number. The last cannot be.
const ASKED: [(&[u8], &[u8]); 4] = [
    (b"get user%3A", b""),
    (b"set user ", b" 0"),
    (b"incr user ", b"  0"),
    (b"touch user 1", b"%20"),
];

/// A server that knows what is to come.
const READY: &[u8] = b"MN\r\n";

/// Answers of these bytes: each a letter, and of a value its length and so much of what follows.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let [kind, length, rest @ ..] = bytes {
        let lines = [
            "HD",
            "NS",
            "EN",
            "NF",
            "MN",
            "EX",
            "CLIENT_ERROR x",
            "SERVER_ERROR x",
        ];
        let (body, rest) = match lines.get(usize::from(*kind) % 10) {
            Some(line) => {
                all.extend_from_slice(line.as_bytes());
                (&b""[..], rest)
            }
            None => {
                let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
                all.extend_from_slice(format!("VA {}\r\n", body.len()).as_bytes());
                (body, rest)
            }
        };
        all.extend_from_slice(body);
        all.extend_from_slice(b"\r\n");
        bytes = rest;
    }
    all
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (how, cut, bytes) = input;
    let asking = if how & 1 == 0 {
        Asking::Query
    } else {
        Asking::Exec
    };
    let (before, after) = ASKED[usize::from(how >> 6)];
    let mut said = Vec::new();
    if how & 2 != 0 {
        said.extend_from_slice(READY);
    }
    let framed = if how & 8 != 0 {
        framed(bytes)
    } else {
        bytes.to_vec()
    };
    let pieces = said
        .chunks(64 + usize::from(cut))
        .chain(framed.chunks(1 + usize::from(cut)));
    AT.says(&call(before, after, asking, CallResult::Rows(0)), pieces);
});
