//! Compressed forms of static files, made when these are loaded.
//!
//! Of texts, and what else is known to gain, gzip and brotli are made, as small as they can be:
//! they are sent as often as is asked, and made once. What gains too little is left as it is. The
//! forms of a file that has not changed are those of the load before, so a reload costs what has
//! changed alone.
//!
//! Making them takes as long as the site says and no longer, within one file's time: gzip of all
//! files comes first, since it takes little time beside brotli and gains most of it; then brotli,
//! the short files first. What there was no time for is made by the next reload.

use super::gzip::is_text;
use brotli::enc::{BrotliEncoderParams, StandardAlloc};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::Compression;
use flate2::write::GzEncoder;
use rhythm_protocol::http::encoding::Encoding;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Bytes of a file that is worth it, at least: a shorter one is one packet with its head anyway.
const LENGTH_MIN: usize = 512;

/// Bytes of a file that brotli takes its time for, at most.
const SLOW_LENGTH_MAX: usize = 128 << 10;

/// Levels of brotli (of 11), for files up to [`SLOW_LENGTH_MAX`] and longer ones, of which the
/// highest would take too long.
const BROTLI_LEVELS: [i32; 2] = [11, 9];

/// Media types that gain beside texts. Fonts of the web, images, sound and archives are compressed
/// already.
const GAIN: [&str; 5] = [
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/otf",
    "font/ttf",
    "image/x-icon",
];

/// Whether files of this type gain by being compressed.
pub(crate) fn gains(content_type: &str) -> bool {
    is_text(content_type) || GAIN.contains(&content_type)
}

/// Whether a form of `length` bytes is worth having beside the smallest that there is.
fn is_worth_it(length: usize, smallest: usize, encoding: Encoding) -> bool {
    let hundredths = match encoding {
        Encoding::Brotli => 95,
        Encoding::Gzip | Encoding::Identity => 90,
    };
    length as u64 * 100 <= smallest as u64 * hundredths
}

/// A file's bytes in an encoding, if that is worth it beside the smallest form there is.
pub(crate) fn encode(bytes: &[u8], encoding: Encoding, smallest: usize) -> Option<Vec<u8>> {
    if bytes.len() < LENGTH_MIN {
        return None;
    }
    let encoded = match encoding {
        Encoding::Identity => return None,
        Encoding::Gzip => gzip(bytes)?,
        Encoding::Brotli => brotli(bytes)?,
    };
    is_worth_it(encoded.len(), smallest, encoding).then_some(encoded)
}

/// Nothing of the world is asked, so nothing is expected to fail; without a stream the file is sent
/// as it is.
fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

fn brotli(bytes: &[u8]) -> Option<Vec<u8>> {
    let [slow, fast] = BROTLI_LEVELS;
    let params = BrotliEncoderParams {
        quality: match bytes.len() <= SLOW_LENGTH_MAX {
            true => slow,
            false => fast,
        },
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    let mut encoded = Vec::new();
    brotli::BrotliCompress(&mut &*bytes, &mut encoded, &params).ok()?;
    Some(encoded)
}

/// Whether these bytes, the first of a file or, where they are whole, all of it, may be the
/// beginning of its brotli form: that has no mark to know it by, so it is decoded.
pub(crate) fn begins_as_brotli(bytes: &[u8], is_whole: bool) -> bool {
    /// Bytes that are looked for, at most.
    const DECODED_MAX: usize = 4 << 10;
    let [of_bytes, of_words, of_codes] = [(); 3].map(|()| StandardAlloc::default());
    let mut state = BrotliState::new_strict(of_bytes, of_words, of_codes);
    let (mut left, mut at) = (bytes.len(), 0);
    let (mut decoded, mut room, mut end, mut all) = ([0; DECODED_MAX], DECODED_MAX, 0, 0);
    let result = BrotliDecompressStream(
        &mut left,
        &mut at,
        bytes,
        &mut room,
        &mut end,
        &mut decoded,
        &mut all,
        &mut state,
    );
    match result {
        BrotliResult::ResultSuccess => is_whole && left == 0,
        // Of a long text's beginning that may be before anything was decoded: codes come first.
        BrotliResult::NeedsMoreInput => !is_whole,
        BrotliResult::NeedsMoreOutput => true,
        BrotliResult::ResultFailure => false,
    }
}

/// How long a load may go on making forms.
#[derive(Debug)]
pub(crate) struct TimeLeft {
    until: Option<Instant>,
}

impl TimeLeft {
    /// From now on.
    pub(crate) fn of(time: Duration) -> TimeLeft {
        let until = Instant::now().checked_add(time);
        TimeLeft { until }
    }

    /// Whether there is none.
    pub(crate) fn is_over(&self) -> bool {
        (self.until).is_some_and(|until| Instant::now() >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many bytes, some of which repeat.
    fn text(length: usize) -> Vec<u8> {
        let lines = (0..).map(|n| format!(".class-{n} {{ width: {}px; color: red }}\n", n * n));
        lines.flat_map(String::into_bytes).take(length).collect()
    }

    /// Bytes without any order.
    fn noise(length: usize) -> Vec<u8> {
        let next = |x: &u32| Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let all = std::iter::successors(Some(1), next);
        all.map(|x| (x >> 24) as u8).take(length).collect()
    }

    #[test]
    fn every_form_inflates_to_what_it_was_made_of() {
        for length in [512, 513, 4096, 70_000, SLOW_LENGTH_MAX, SLOW_LENGTH_MAX + 1] {
            let plain = text(length);
            let encoded = encode(&plain, Encoding::Gzip, length).expect("it is worth it");
            let mut inflated = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&*encoded);
            decoder.read_to_end(&mut inflated).expect("sound");
            assert!(inflated == plain, "{length}");
            let encoded = encode(&plain, Encoding::Brotli, encoded.len()).expect("so is it");
            let mut inflated = Vec::new();
            let mut decoder = brotli::Decompressor::new(&*encoded, 4096);
            decoder.read_to_end(&mut inflated).expect("sound");
            assert!(inflated == plain, "{length}");
            assert!(begins_as_brotli(&encoded, true), "{length}");
            for part in (1..encoded.len().min(4 << 10)).step_by(61) {
                assert!(
                    begins_as_brotli(&encoded[..part], false),
                    "{part} of {length}"
                );
            }
        }
    }

    #[test]
    fn what_gains_little_is_left_as_it_is() {
        for encoding in [Encoding::Gzip, Encoding::Brotli] {
            assert_eq!(encode(&text(511), encoding, 511), None);
            assert_eq!(encode(&noise(40_000), encoding, 40_000), None);
        }
        assert!(is_worth_it(90, 100, Encoding::Gzip));
        assert!(!is_worth_it(91, 100, Encoding::Gzip));
        for is in [
            "text/css; charset=utf-8",
            "image/svg+xml",
            "application/wasm",
            "application/json; charset=utf-8",
        ] {
            assert!(gains(is), "{is}");
        }
        for is_not in ["image/png", "font/woff2", "application/zip", "video/mp4"] {
            assert!(!gains(is_not), "{is_not}");
        }
    }

    #[test]
    fn what_is_no_brotli_is_told_from_it() {
        let css = text(4096);
        for none in [
            &css[..],
            b"<html>",
            b"\x1f\x8bgzip, as it were",
            b"",
            &[0xff; 99],
        ] {
            assert!(!begins_as_brotli(none, true), "{none:?}");
        }
        assert!(!begins_as_brotli(&css, false));
        // It is cut, or something is behind it.
        let mut short = encoded(&css[..600], 9);
        assert!(begins_as_brotli(&short, true));
        assert!(!begins_as_brotli(&short[..short.len() - 1], true));
        short.push(0);
        for is_whole in [false, true] {
            assert!(!begins_as_brotli(&short, is_whole));
        }
    }

    /// By another's hand.
    fn encoded(text: &[u8], quality: i32) -> Vec<u8> {
        let params = BrotliEncoderParams {
            quality,
            ..BrotliEncoderParams::default()
        };
        let mut encoded = Vec::new();
        brotli::BrotliCompress(&mut &*text, &mut encoded, &params).expect("it is encoded");
        encoded
    }

    #[test]
    fn a_long_text_whose_beginning_is_codes_alone_is_brotli() {
        let random = noise(4 << 20);
        let words = random.chunks_exact(4).map(|random| {
            let [kind, random @ ..] = random else {
                return String::new();
            };
            let number = random
                .iter()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            match kind % 4 {
                0 => format!("{number:x} "),
                1 => format!("\"{}\": ", number % 5000),
                2 => format!("{:?}\n", char::from_u32(number % 0x3000)),
                _ => format!("<p class=\"c-{}\">", number % 700),
            }
        });
        let text: Vec<u8> = words.flat_map(String::into_bytes).take(2_000_000).collect();
        assert_eq!(text.len(), 2_000_000);
        let encoded = encoded(&text, 5);
        let start = &encoded[..4096];
        let read = brotli::Decompressor::new(start, 4096).read(&mut [0; 4096]);
        assert!(
            read.is_err(),
            "it is long enough for its codes to be longer"
        );
        assert!(begins_as_brotli(start, false));
        assert!(begins_as_brotli(&encoded, true));
    }
}
