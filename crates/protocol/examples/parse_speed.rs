//! How long a request head takes to parse with each SIMD level of this CPU, and how long where it
//! is like the one before:
//! `cargo run --release -p rhythm-protocol --example parse_speed`.
//!
//! The best of many rounds, so that other work on the machine disturbs little.

use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{
    HeadLimits, HeadTemplate, RequestError, RequestHead, parse_head_like_with, parse_head_with,
};
use rhythm_protocol::scan::Level;
use std::hint::black_box;
use std::time::Instant;

/// A browser's GET: 466 bytes, 9 headers.
const REQUEST: &[u8] = b"GET /bank/account_summary.php HTTP/1.1\r\n\
    Host: bank.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Connection: keep-alive\r\n\
    Referer: http://bank.example.com/bank/login.php\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Cookie: rhythm_session=0000000000000000000000000000000000000000000000\r\n\r\n";

const ROUNDS: u32 = 50;
const REQUESTS_PER_ROUND: u32 = 20_000;

fn main() {
    let limits = HeadLimits::default();
    println!("{} bytes", REQUEST.len());
    for level in Level::all() {
        let mut head = RequestHead::new();
        let parsed = best_ns(|| parse_head_with(level, &mut head, black_box(REQUEST), &limits));
        let mut template = HeadTemplate::default();
        let like = best_ns(|| {
            let request = black_box(REQUEST);
            parse_head_like_with(level, &mut template, &mut head, request, &limits)
        });
        let name = level.name();
        println!("{name:>8} {parsed:6.1} ns, like the one before {like:6.1} ns");
    }
}

/// Of the best round.
fn best_ns(mut parse: impl FnMut() -> Result<Progress, RequestError>) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..REQUESTS_PER_ROUND {
            assert!(black_box(parse()).is_ok());
        }
        let ns = start.elapsed().as_nanos() as f64;
        best = best.min(ns / f64::from(REQUESTS_PER_ROUND));
    }
    best
}
