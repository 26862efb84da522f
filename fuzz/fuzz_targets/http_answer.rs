//! What a server of HTTP might say, heads, framing and JSON: nothing panics, and each query is told
//! of exactly once.
#![no_main]

mod backend;

use backend::{Place, call};
use libfuzzer_sys::fuzz_target;
use rhythm_engine::program::{
    Asking, Call, CallResult, Document, DocumentColumn, DocumentPath, Type,
};
use std::sync::LazyLock;

static AT: LazyLock<Place> = LazyLock::new(|| {
    Place::new(
        "http",
        &[("url", "http://127.0.0.1:80/base"), ("token_file", "")],
    )
});

/// Where rows are.
const ROWS: [&str; 4] = ["$", "$.a", "$[1]", "$.a.b[0]"];

/// A call whose rows are there.
fn asked(rows: usize, asking: Asking, result: CallResult) -> Call {
    let column = |name: &str, kind, path: &str, may_lack| DocumentColumn {
        name: name.into(),
        kind,
        path: path.parse().expect("a path"),
        may_lack,
    };
    let document = Document {
        rows: ROWS[rows].parse::<DocumentPath>().expect("a path"),
        columns: [
            column("a", Type::Int, "$.a", true),
            column("b", Type::Text, "$.b[0].a", true),
        ]
        .into(),
    };
    Call {
        document: Some(Box::new(document)),
        ..call(b"GET /items/", b" ", asking, result)
    }
}

/// An answer of this content, by its length or in chunks.
fn framed(content: &[u8], chunk: usize) -> Vec<u8> {
    let mut all = b"HTTP/1.1 200 OK\r\n".to_vec();
    if chunk == 0 {
        all.extend_from_slice(format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes());
        all.extend_from_slice(content);
        return all;
    }
    all.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    for piece in content.chunks(chunk) {
        all.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        all.extend_from_slice(piece);
        all.extend_from_slice(b"\r\n");
    }
    all.extend_from_slice(b"0\r\n\r\n");
    all
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (how, cut, bytes) = input;
    let (asking, result) = match how & 1 {
        0 => (Asking::Query, CallResult::Rows(0)),
        _ => (Asking::Exec, CallResult::Row(vec![0, 1])),
    };
    let said = match how & 2 {
        0 => bytes.to_vec(),
        _ => framed(bytes, usize::from(how >> 4)),
    };
    let call = asked(usize::from(how >> 2 & 3), asking, result);
    AT.says(&call, said.chunks(1 + usize::from(cut)));
});
