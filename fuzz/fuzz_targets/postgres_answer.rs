//! What a PostgreSQL server might say, greeting and answers: nothing panics, and each query is told
//! of exactly once.
#![no_main]

mod backend;

use backend::{Place, call};
use libfuzzer_sys::fuzz_target;
use rhythm_engine::program::{Asking, CallResult};
use std::sync::LazyLock;

static AT: LazyLock<Place> = LazyLock::new(|| {
    let own = [
        ("url", "postgres://me@127.0.0.1/shop"),
        ("password_file", ""),
        ("application_name", "fuzz"),
    ];
    Place::new("postgres", &own)
});

/// A server that wants no password, and is ready.
const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\0\0\0\0\0Z\0\0\0\x05I";

/// The first answer: an int and a text, of a statement that was prepared with it.
const FIRST: &[u8] = b"1\0\0\0\x04t\0\0\0\x0a\0\x01\0\0\0\x14T\0\0\0\x2e\0\x02\
    a\0\0\0\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\0\
    b\0\0\0\0\0\0\0\0\0\0\x19\0\0\0\0\0\0\0\0\
    2\0\0\0\x04D\0\0\0\x0f\0\x02\0\0\0\x01\x37\xff\xff\xff\xff\
    C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// Messages of these bytes: a tag, a length, and so much of what follows.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let [tag, length, rest @ ..] = bytes {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        all.push(*tag);
        all.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        all.extend_from_slice(body);
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
    let mut said = Vec::new();
    if how & 2 != 0 {
        said.extend_from_slice(READY);
    }
    if how & 4 != 0 {
        said.extend_from_slice(FIRST);
    }
    let framed = if how & 8 != 0 {
        framed(bytes)
    } else {
        bytes.to_vec()
    };
    let pieces = said
        .chunks(64 + usize::from(cut))
        .chain(framed.chunks(1 + usize::from(cut)));
    let call = call(b"select ", b"", asking, CallResult::Rows(0));
    AT.says(&call, pieces);
});
