//! Base64 (RFC 4648 section 4), in which meta commands name keys with bytes that no line can have.
//!
//! memcached's decoder passes over bytes that are not of the alphabet, and stops at padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each byte; [`NONE`] for those without one.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut at = 0;
    while at < 64 {
        values[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    values[b'=' as usize] = 0;
    values
};
const NONE: u8 = 0x80;

/// Appends what `text` stands for and says how long that is; `None` if it is no base64 or stands
/// for nothing.
pub(crate) fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let digits = || text.iter().filter(|byte| VALUES[**byte as usize] != NONE);
    let before = out.len();
    let count = digits().count();
    if count == 0 || !count.is_multiple_of(4) || count / 4 * 3 > text.len() {
        return None;
    }
    let mut digits = digits();
    while let (Some(a), Some(b), Some(c), Some(d)) =
        (digits.next(), digits.next(), digits.next(), digits.next())
    {
        let [u, v, w, x] = [a, b, c, d].map(|digit| VALUES[*digit as usize]);
        out.extend_from_slice(&[u << 2 | v >> 4, v << 4 | w >> 2, w << 6 | x]);
        match [a, b, c, d].iter().filter(|digit| ***digit == b'=').count() {
            0 => {}
            padding @ (1 | 2) => {
                out.truncate(out.len() - padding);
                break;
            }
            _ => {
                out.truncate(before);
                return None;
            }
        }
    }
    Some(out.len() - before).filter(|len| *len > 0)
}

/// Appends the base64 of `bytes`.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| chunk.get(at).copied().unwrap_or(0);
        let (a, b, c) = (byte(0), byte(1), byte(2));
        let digits = [
            a >> 2,
            (a & 3) << 4 | b >> 4,
            (b & 15) << 2 | c >> 6,
            c & 63,
        ];
        for (place, digit) in digits.into_iter().enumerate() {
            out.push(match place <= chunk.len() {
                true => ALPHABET[digit as usize],
                false => b'=',
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for (plain, encoded) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            let (mut text, mut bytes) = (Vec::new(), b"kept".to_vec());
            encode(plain.as_bytes(), &mut text);
            assert_eq!(text, encoded.as_bytes());
            assert_eq!(decode(&text, &mut bytes), Some(plain.len()));
            assert_eq!(&bytes[4..], plain.as_bytes());
        }
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["", "Zg=", "Zg", "!!!!", "Z===", "===="] {
            let mut bytes = Vec::new();
            assert_eq!(decode(text.as_bytes(), &mut bytes), None, "{text}");
            assert!(bytes.is_empty());
        }
        let mut bytes = Vec::new();
        assert_eq!(
            decode(b"Zm9v!Zm9v!!", &mut bytes),
            Some(6),
            "others are passed over"
        );
    }
}
