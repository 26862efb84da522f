//! Tests of bodies in chunks.

use super::*;
use proptest::prelude::*;

const SMALL: ChunkLimits = ChunkLimits {
    body_max: 64,
    extensions_max: 16,
    trailers_max: 32,
};

/// The content and how many bytes were the body's; checked to be the same in place and at every
/// split.
fn decode(input: &[u8]) -> Result<(Vec<u8>, usize, bool), BodyError> {
    let mut out = Vec::new();
    let whole = ChunkedDecoder::new(&SMALL)
        .decode(input, &mut out)
        .map(|decoded| (out, decoded.consumed, decoded.done));
    let mut buffer = input.to_vec();
    let in_place = ChunkedDecoder::new(&SMALL)
        .decode_in_place(&mut buffer)
        .map(|d| (buffer[..d.written].to_vec(), d.consumed, d.done));
    assert_eq!(whole, in_place);
    for split in 0..input.len() {
        let mut decoder = ChunkedDecoder::new(&SMALL);
        let mut out = Vec::new();
        let result = decoder.decode(&input[..split], &mut out).and_then(|first| {
            if first.done {
                return Ok((first.consumed, true));
            }
            assert_eq!(first.consumed, split);
            let second = decoder.decode(&input[split..], &mut out)?;
            Ok((split + second.consumed, second.done))
        });
        assert_eq!(
            result.map(|(consumed, done)| (out, consumed, done)),
            whole,
            "split at {split}"
        );
    }
    whole
}

#[test]
fn decodes() {
    let cases: [(&[u8], &[u8]); 17] = [
        (b"0\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (
            b"00a\r\n0123456789\r\n1\r\n!\r\n000\r\n\r\n",
            b"0123456789!",
        ),
        (b"2;a=b\r\n\r\n\r\n0;c\r\n\r\n", b"\r\n"),
        (
            b"A\r\n0123456789\r\n0\r\nX: 1\r\nYy:\r\n\r\n",
            b"0123456789",
        ),
        (b"1; q=\"x\"\r\nz\r\n0\r\n\r\n", b"z"),
        (b"1;a;b=1;c\r\nz\r\n0\r\n\r\n", b"z"),
        (b"1; a\t= b ;c\r\nz\r\n0\r\n\r\n", b"z"),
        (b"1;a=\"\"\r\nz\r\n0\r\n\r\n", b"z"),
        (b"1;a=\"x;;y=,\";b\r\nz\r\n0\r\n\r\n", b"z"),
        (b"1;a=\"\\\"\\\\\xe9\"\r\nz\r\n0\r\n\r\n", b"z"),
        (b"0000000000000001\r\nz\r\n0000\r\n\r\n", b"z"),
        (b"0\r\nContent-Length: 5\r\n\r\n", b""),
        (b"0\r\nTransfer-Encoding: gzip\r\n\r\n", b""),
        (b"0\r\nHost: x\r\nA: \xe9\t\r\n\r\n", b""),
        (b"0;last=1\r\nA:b\r\n\r\n", b""),
        (b"1\r\n\n\r\n2\r\n\r\n\r\n0\r\n\r\n", b"\n\r\n"),
    ];
    for (input, content) in cases {
        let mut input = input.to_vec();
        let len = input.len();
        input.extend_from_slice(b"GET / HTTP/1.1\r\n");
        assert_eq!(
            decode(&input),
            Ok((content.to_vec(), len, true)),
            "{:?}",
            input.escape_ascii().to_string()
        );
    }
}

#[test]
fn refuses() {
    use BodyError::*;
    let cases: [(&[u8], BodyError); 62] = [
        (b"\r\n", ChunkSize),
        (b"g\r\n", ChunkSize),
        (b"+5\r\nhello", ChunkSize),
        (b"-1\r\n", ChunkSize),
        (b"0x5\r\nhello", ChunkSize),
        (b" 5\r\nhello", ChunkSize),
        (b"5 \r\nhello", ChunkSize),
        (b"5\nhello", ChunkSize),
        (b"5\0\r\nhello", ChunkSize),
        (b";a\r\n", ChunkSize),
        (b"00000000000000005\r\n", ChunkSize),
        (b"41\r\n", TooLarge),
        (b"ffffffffffffffff\r\n", TooLarge),
        (
            b"20\r\n01234567890123456789012345678901\r\n21\r\n",
            TooLarge,
        ),
        (b"5\rXhello", LineEnd),
        (b"5\r\nhelloX", LineEnd),
        (b"5\r\nhello\n0", LineEnd),
        (b"5\r\nhello\r0", LineEnd),
        (b"5\r\nhello0\r\n", LineEnd),
        (b"5;\r\n", ChunkExtension),
        (b"5;;a\r\n", ChunkExtension),
        (b"5;a\nhello", ChunkExtension),
        (b"5;a\0\r\nhello", ChunkExtension),
        (b"5;aaaaaaaaaaaaaaaaaaaaaaaa", ChunkExtension),
        (b"5;a \r\nhello", ChunkExtension),
        (b"5;a=\r\nhello", ChunkExtension),
        (b"5;=b\r\nhello", ChunkExtension),
        (b"5;a==b\r\nhello", ChunkExtension),
        (b"5;a b\r\nhello", ChunkExtension),
        (b"5;a=b c\r\nhello", ChunkExtension),
        (b"5;a=\"b\r\nhello", ChunkExtension),
        (b"5;a=\"b\n\"\r\nhello", ChunkExtension),
        (b"5;a=\"b\\\r\nhello", ChunkExtension),
        (b"5;a=\"b\"c\r\nhello", ChunkExtension),
        (b"5;\"a\"\r\nhello", ChunkExtension),
        (b"5;\nhello", ChunkExtension),
        (b"5;a\rX", LineEnd),
        (b"5 ;a\r\nhello", ChunkSize),
        (b"5\t\r\nhello", ChunkSize),
        (b"0X5\r\nhello", ChunkSize),
        (b"1_0\r\nhello", ChunkSize),
        (b"5.0\r\nhello", ChunkSize),
        (b"5,\r\nhello", ChunkSize),
        (b"\xef\xbc\x95\r\nhello", ChunkSize),
        (b"\n5\r\nhello", ChunkSize),
        (b"10000000000000005\r\nhello", TooLarge),
        (b"5\r\nhello\r\n\r\n", ChunkSize),
        (b"5\r\nhello0000\r\n", LineEnd),
        (b"5\r\nhello\n\n0\r\n", LineEnd),
        (b"0\r\n\n", Trailer),
        (b"0\n\n", ChunkSize),
        (b"0\r\nGET / HTTP/1.1\r\n", Trailer),
        (b"0\r\nA: b\r\n c\r\n", Trailer),
        (b"0\r\nA : b\r\n", Trailer),
        (b"0\r\n A: b\r\n", Trailer),
        (b"0\r\nA: \0\r\n", Trailer),
        (b"0\r\nA: b\rX", LineEnd),
        (b"0\r\nX 1\r\n", Trailer),
        (b"0\r\n: 1\r\n", Trailer),
        (b"0\r\nX: 1\nY", Trailer),
        (
            b"0\r\nX: 12345678901234567890123456789012\r\n",
            TrailersTooLarge,
        ),
        (b"0\r\n\rX", LineEnd),
    ];
    for (input, error) in cases {
        assert_eq!(
            decode(input),
            Err(error),
            "{:?}",
            input.escape_ascii().to_string()
        );
    }
}

proptest! {
    #[test]
    fn splits_change_nothing(input in proptest::collection::vec(
        proptest::sample::select(b"0123aF;= \r\n\r\n:xX\0".to_vec()), 0..60)) {
        let _ = decode(&input);
    }

    #[test]
    fn round_trip(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..16), 0..4)
    ) {
        let mut input = Vec::new();
        for chunk in &chunks {
            input.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            input.extend_from_slice(chunk);
            input.extend_from_slice(b"\r\n");
        }
        input.extend_from_slice(b"0\r\n\r\n");
        prop_assert_eq!(decode(&input), Ok((chunks.concat(), input.len(), true)));
    }
}
