//! Compressed forms of static files, made when these are loaded.
//!
//! Of texts, and what else is known to gain, gzip and brotli are made, as small as they can be:
//! they are sent as often as is asked, and made once. What gains too little is left as it is. The
//! forms of a file that has not changed are those of the load before, so a reload costs what has
//! changed alone.
//!
//! Making them takes as long as the site says and no longer, within what brotli takes for some
//! 100 KiB. What takes least time comes first: gzip of nearly all files, which gains most of what
//! brotli does, and brotli of short ones. What there was no time for is made by the next reload.

use super::gzip::is_text;
use brotli::enc::{BrotliEncoderParams, StandardAlloc};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::Compression;
use flate2::write::GzEncoder;
use rhythm_protocol::http::encoding::Encoding;
use std::io::{self, ErrorKind, Read, Write};
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

/// There was no time to make a form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutOfTime;

/// About what making a form of so many bytes takes beside others: a byte of gzip is 1.
pub(crate) fn cost(length: u64, encoding: Encoding) -> u64 {
    let of_byte = match encoding {
        Encoding::Gzip | Encoding::Identity => 1,
        Encoding::Brotli if length > SLOW_LENGTH_MAX as u64 => 8,
        Encoding::Brotli => 64,
    };
    length.saturating_mul(of_byte)
}

/// The longest form that is worth having beside the smallest that there is.
fn worth_max(smallest: usize, encoding: Encoding) -> usize {
    let hundredths = match encoding {
        Encoding::Brotli => 95,
        Encoding::Gzip | Encoding::Identity => 90,
    };
    (smallest as u64 * hundredths / 100) as usize
}

/// A file's bytes in an encoding, if that is worth it beside the smallest form there is.
///
/// # Errors
/// When time is over before it is made, which is asked again and again.
pub(crate) fn encode(
    bytes: &[u8],
    encoding: Encoding,
    smallest: usize,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<Vec<u8>>, OutOfTime> {
    if is_over() {
        return Err(OutOfTime);
    }
    if bytes.len() < LENGTH_MIN {
        return Ok(None);
    }
    let mut from = Source {
        bytes,
        is_over,
        is_late: false,
    };
    let mut to = Sink {
        bytes: Vec::new(),
        length_max: worth_max(smallest, encoding),
    };
    let made = match encoding {
        Encoding::Identity => return Ok(None),
        Encoding::Gzip => gzip(&mut from, &mut to),
        Encoding::Brotli => brotli(&mut from, &mut to, bytes.len()),
    };
    match made {
        Ok(()) => Ok(Some(to.bytes)),
        Err(_) if from.is_late => Err(OutOfTime),
        // It is too long; nothing else is expected to fail.
        Err(_) => Ok(None),
    }
}

fn gzip(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut encoder = GzEncoder::new(to, Compression::best());
    io::copy(from, &mut encoder)?;
    encoder.finish()?;
    Ok(())
}

fn brotli(from: &mut impl Read, to: &mut impl Write, length: usize) -> io::Result<()> {
    let [slow, fast] = BROTLI_LEVELS;
    let params = BrotliEncoderParams {
        quality: match length <= SLOW_LENGTH_MAX {
            true => slow,
            false => fast,
        },
        size_hint: length,
        ..BrotliEncoderParams::default()
    };
    brotli::BrotliCompress(from, to, &params)?;
    Ok(())
}

/// A file's bytes, as long as there is time.
struct Source<'a> {
    bytes: &'a [u8],
    is_over: &'a dyn Fn() -> bool,
    is_late: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.is_late |= (self.is_over)();
        match self.is_late {
            true => Err(ErrorKind::TimedOut.into()),
            false => self.bytes.read(into),
        }
    }
}

/// What is made, as long as it is worth it.
struct Sink {
    bytes: Vec<u8>,
    length_max: usize,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.length_max - self.bytes.len() {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    use std::cell::Cell;

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
            let encode = |encoding, smallest| encode(&plain, encoding, smallest, &|| false);
            let encoded = encode(Encoding::Gzip, length).expect("time");
            let encoded = encoded.expect("it is worth it");
            let mut inflated = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&*encoded);
            decoder.read_to_end(&mut inflated).expect("sound");
            assert!(inflated == plain, "{length}");
            let encoded = encode(Encoding::Brotli, encoded.len()).expect("time");
            let encoded = encoded.expect("so is it");
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
            let encode = |bytes: &[u8]| encode(bytes, encoding, bytes.len(), &|| false);
            assert_eq!(encode(&text(511)), Ok(None));
            assert_eq!(encode(&noise(40_000)), Ok(None));
            // A form that is just worth it is kept, and one of a byte more is not.
            let plain = text(40_000);
            let made = encode(&plain).expect("time").expect("it is worth it");
            let share = if encoding == Encoding::Gzip { 90 } else { 95 };
            let smallest = (made.len() * 100).div_ceil(share);
            for (smallest, expected) in [(smallest, Some(made)), (smallest - 1, None)] {
                assert_eq!(
                    super::encode(&plain, encoding, smallest, &|| false),
                    Ok(expected)
                );
            }
        }
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
    fn a_long_file_is_left_when_its_time_is_over() {
        let plain = text(1 << 20);
        for encoding in [Encoding::Gzip, Encoding::Brotli] {
            let looks = Cell::new(0);
            let is_over = || looks.replace(looks.get() + 1) >= 10;
            let made = encode(&plain, encoding, plain.len(), &is_over);
            assert_eq!(made, Err(OutOfTime));
            assert_eq!(looks.get(), 11, "nothing is read of it when time is over");
        }
    }

    #[test]
    fn what_gets_too_long_is_not_made_to_its_end() {
        let looks_at = |bytes: &[u8], smallest, is_made| {
            let looks = Cell::new(0);
            let count = || looks.replace(looks.get() + 1) < 0;
            let made = encode(bytes, Encoding::Gzip, smallest, &count).expect("time");
            assert_eq!(made.is_some(), is_made);
            looks.get()
        };
        let all = looks_at(&text(1 << 20), 1 << 20, true);
        let some = looks_at(&noise(1 << 20), 300_000, false);
        assert!(some < all / 2, "{some} of {all}");
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
        // Each part has letters of its own, so that it is worth a code of its own.
        let random = noise(2_000_000).into_iter().enumerate();
        let text: Vec<u8> = random
            .map(|(at, random)| {
                let part = at / 8000;
                let letter = part * 7 + usize::from(random % 12) * (1 + part % 5);
                b'!' + (letter % 90) as u8
            })
            .collect();
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
