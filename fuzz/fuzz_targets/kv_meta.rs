//! No bytes make the parser of meta commands panic, or mean something else in pieces.
#![no_main]

mod kv;

use rhythm_kv::wire::Protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| kv::check(Protocol::Ascii, &[&data[..data.len().min(1)], b"m", data.get(1..).unwrap_or(b"")].concat()));
