//! No bytes make the parser of the binary protocol panic, or mean something else in pieces.
#![no_main]

mod kv;

use rhythm_kv::wire::Protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| kv::check(Protocol::Binary, data));
