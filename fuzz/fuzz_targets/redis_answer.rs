//! What a Redis server might say, greeting and replies: nothing panics, and each query is told of
//! exactly once.
#![no_main]

mod backend;

use backend::{Place, call};
use libfuzzer_sys::fuzz_target;
use rhythm_engine::program::{Asking, CallResult};
use std::sync::LazyLock;

static AT: LazyLock<Place> = LazyLock::new(|| {
    let own = [("url", "redis://127.0.0.1/3"), ("password_file", "")];
    Place::new("redis", &own)
});

/// A server that wants no password, and has the database.
const READY: &[u8] = b"%1\r\n+proto\r\n:3\r\n+OK\r\n";

/// The first reply.
const FIRST: &[u8] = b"*2\r\n*2\r\n$1\r\na\r\n,1.5\r\n%1\r\n_\r\n#t\r\n";

/// Values of these bytes: each a kind, and a count, a length or what it says.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let [kind, number, rest @ ..] = bytes {
        let kind = b"+-:$*_,#(!=%~>|"[usize::from(*kind) % 15];
        all.push(kind);
        let is_bulk = b"$!=".contains(&kind);
        let held = match is_bulk {
            true => rest.len().min(usize::from(*number)),
            false => 0,
        };
        match kind {
            b'_' => {}
            b'#' => all.push(if number & 1 == 0 { b't' } else { b'f' }),
            b'$' | b'!' | b'=' => all.extend_from_slice(held.to_string().as_bytes()),
            _ => all.extend_from_slice((number % 8).to_string().as_bytes()),
        }
        all.extend_from_slice(b"\r\n");
        let (body, rest) = rest.split_at(held);
        if is_bulk {
            all.extend_from_slice(body);
            all.extend_from_slice(b"\r\n");
        }
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
    let result = if how & 16 == 0 {
        CallResult::Rows(0)
    } else {
        CallResult::Row(vec![0, 2])
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
    AT.says(&call(b"HGETALL user%3A", b"", asking, result), pieces);
});
