//! Requests, cut at every place: the head, and content in chunks behind it, must come out as they
//! do whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_protocol::http::body::{BodyError, ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{
    Framing, HeadLimits, RequestError, RequestHead, parse_head_with,
};
use rhythm_protocol::http::uri;
use rhythm_protocol::scan::Level;

const HEAD_LIMITS: HeadLimits = HeadLimits {
    head_max: 1024,
    target_max: 128,
    headers_max: 16,
};
const CHUNK_LIMITS: ChunkLimits = ChunkLimits {
    body_max: 256,
    extensions_max: 32,
    trailers_max: 64,
};

/// What a complete head says, in a form that can be compared.
type Said = (usize, Framing, bool, bool, Vec<(Vec<u8>, Vec<u8>)>, Vec<u8>);

fn parse(level: Level, head: &mut RequestHead, bytes: &[u8]) -> Result<Option<Said>, RequestError> {
    let Progress::Complete { head_len } = parse_head_with(level, head, bytes, &HEAD_LIMITS)? else {
        return Ok(None);
    };
    let headers = head.headers().iter().map(|header| {
        (
            header.name.of(bytes).to_vec(),
            header.value.of(bytes).to_vec(),
        )
    });
    let mut path = head.path(bytes).to_vec();
    path.extend_from_slice(head.query().of(bytes));
    Ok(Some((
        head_len,
        head.framing(),
        head.keep_alive(),
        head.expect_continue(),
        headers.collect(),
        path,
    )))
}

fn decode(parts: [&[u8]; 2]) -> Result<(Vec<u8>, usize, bool), BodyError> {
    let mut decoder = ChunkedDecoder::new(&CHUNK_LIMITS);
    let (mut out, mut consumed) = (Vec::new(), 0);
    for part in parts {
        if !decoder.is_done() {
            consumed += decoder.decode(part, &mut out)?.consumed;
        }
    }
    Ok((out, consumed, decoder.is_done()))
}

fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(2048)];
    let whole = parse(Level::PORTABLE, &mut RequestHead::new(), bytes);
    for level in Level::all() {
        let mut by_byte = RequestHead::new();
        let mut grown = Ok(None);
        for cut in 0..=bytes.len() {
            if grown == Ok(None) {
                grown = parse(level, &mut by_byte, &bytes[..cut]);
            }
        }
        assert_eq!(grown, whole);
        for cut in 0..=bytes.len() {
            let mut head = RequestHead::new();
            let mut result = parse(level, &mut head, &bytes[..cut]);
            if result == Ok(None) {
                result = parse(level, &mut head, bytes);
            }
            assert_eq!(result, whole);
        }
    }
    let body = match &whole {
        Ok(Some((head_len, _, _, _, headers, path))) => {
            let mut out = Vec::new();
            let _ = uri::decode(path, &mut out);
            let _ = uri::file_path(path, &mut out);
            for (_, value) in headers {
                uri::cookies(value).for_each(drop);
            }
            &bytes[*head_len..]
        }
        _ => bytes,
    };
    let whole = decode([body, b""]);
    for cut in 0..=body.len() {
        assert_eq!(decode([&body[..cut], &body[cut..]]), whole);
    }
    let mut buffer = body.to_vec();
    let in_place = ChunkedDecoder::new(&CHUNK_LIMITS)
        .decode_in_place(&mut buffer)
        .map(|decoded| {
            (
                buffer[..decoded.written].to_vec(),
                decoded.consumed,
                decoded.done,
            )
        });
    assert_eq!(in_place, whole);
});
