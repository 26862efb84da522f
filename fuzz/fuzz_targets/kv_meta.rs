//! No bytes make the parser of meta commands panic, or mean something else in pieces.
#![no_main]

mod kv;

use rhythm_kv::wire::Protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((at, rest)) = data.split_first() {
        kv::check(Protocol::Ascii, &[&[*at], &b"m"[..], rest].concat());
    }
});
