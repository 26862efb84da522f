//! A request's place in a trace, as servers tell each other: `traceparent` and `tracestate` (W3C
//! Trace Context, level 1, sections 3.2 and 3.3).

/// What `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    /// The trace; not 0.
    pub(crate) trace: u128,
    /// The span of whoever asks; not 0.
    pub(crate) span: u64,
    /// Whoever asks may have recorded it.
    pub(crate) sampled: bool,
}

/// Bytes of a `traceparent` of version 00.
pub(crate) const PARENT_BYTES: usize = 55;

/// Bytes of a `tracestate` that is passed on: more than the 512 that are to be at least.
pub(crate) const STATE_BYTES_MAX: usize = 1024;

/// Members of a `tracestate`; with more it is discarded.
const STATE_MEMBERS_MAX: usize = 32;

/// Reads the value of `traceparent` (section 3.2.2). Of a version that is not known, what begins as
/// version 00 does counts (section 3.2.4).
pub(crate) fn parse(value: &[u8]) -> Option<Parent> {
    let (value, rest) = value.split_at_checked(PARENT_BYTES)?;
    let at_dashes = [2, 35, 52].iter().all(|at| value[*at] == b'-');
    let version = hex(&value[..2])?;
    let is_whole = match version {
        0 => rest.is_empty(),
        0xff => return None,
        _ => rest.is_empty() || rest[0] == b'-',
    };
    let (trace, span) = (hex(&value[3..35])?, hex(&value[36..52])?);
    let flags = hex(&value[53..])?;
    let is_valid = at_dashes && is_whole && trace != 0 && span != 0;
    is_valid.then_some(Parent {
        trace,
        span: span as u64,
        sampled: flags & 1 == 1,
    })
}

/// The value of `traceparent`, of version 00.
pub(crate) fn write(parent: &Parent, out: &mut Vec<u8>) {
    let mut text = *b"00-________________________________-________________-00";
    write_hex(&parent.trace.to_be_bytes(), &mut text[3..35]);
    write_hex(&parent.span.to_be_bytes(), &mut text[36..52]);
    text[54] = if parent.sampled { b'1' } else { b'0' };
    out.extend_from_slice(&text);
}

/// Whether the values of `tracestate` are a list as it is to be (section 3.3.1), and not too long:
/// one that is not is to be discarded as a whole.
pub(crate) fn is_state<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut members, mut bytes) = (0, 0);
    for value in values {
        bytes += value.len() + 1;
        for member in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            // Empty ones may be there.
            members += usize::from(!member.is_empty());
            if !member.is_empty() && !is_member(member) {
                return false;
            }
        }
    }
    (1..=STATE_MEMBERS_MAX).contains(&members) && bytes <= STATE_BYTES_MAX
}

/// `key=value` (sections 3.3.1.3.1 and 3.3.1.3.2).
fn is_member(member: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'=', member) else {
        return false;
    };
    let (key, value) = (&member[..at], &member[at + 1..]);
    let is_key_byte =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(byte);
    let is_plain =
        |key: &[u8], most: usize| (1..=most).contains(&key.len()) && key.iter().all(is_key_byte);
    let is_key = match memchr::memchr(b'@', key) {
        None => is_plain(key, 256) && key[0].is_ascii_lowercase(),
        Some(at) => {
            let (tenant, system) = (&key[..at], &key[at + 1..]);
            let starts = |it: &[u8]| it[0].is_ascii_lowercase();
            is_plain(tenant, 241) && is_plain(system, 14) && starts(system)
        }
    };
    let is_value_byte = |byte: &u8| (b' '..=b'~').contains(byte) && !b",=".contains(byte);
    let is_value = (1..=256).contains(&value.len())
        && value.iter().all(is_value_byte)
        && value.last() != Some(&b' ');
    is_key && is_value
}

/// The number of digits, which are of lower case.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// Writes bytes as digits, two each.
pub(super) fn write_hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_as_the_specification_has_it() {
        let parent = parse(GOOD.as_bytes()).expect("it is good");
        assert_eq!(parent.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((parent.span, parent.sampled), (0xb7ad_6b71_6920_3331, true));
        let mut out = Vec::new();
        write(&parent, &mut out);
        assert_eq!(out, GOOD.as_bytes());
        let other = |from: &str, to: &str| parse(GOOD.replace(from, to).as_bytes());
        assert!(!other("-01", "-00").expect("good").sampled);
        // Flags that are not known say nothing.
        assert!(!other("-01", "-fe").expect("good").sampled);
        assert!(other("00-0a", "cc-0a").is_some());
        assert!(other("-01", "-01-what-comes").is_none());
        assert!(parse(format!("cc{}-what-comes", &GOOD[2..]).as_bytes()).is_some());
        assert!(parse(format!("cc{}.what-comes", &GOOD[2..]).as_bytes()).is_none());
    }

    #[test]
    fn what_is_no_parent_is_not_taken() {
        let zero_trace = GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_span = GOOD.replace("b7ad6b7169203331", &"0".repeat(16));
        for bad in [
            "",
            &GOOD[..54],
            &GOOD.to_uppercase(),
            &GOOD.replace("00-0a", "ff-0a"),
            &GOOD.replace("00-0a", "0x-0a"),
            &GOOD.replace('-', "_"),
            &GOOD.replace("b7ad", "b7ag"),
            &format!("{GOOD} "),
            &format!("{GOOD},{GOOD}"),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_state_is_passed_on_only_as_the_specification_has_it() {
        let is = |values: &[&str]| is_state(values.iter().map(|value| value.as_bytes()));
        let long = format!("a={}", "v".repeat(256));
        for good in [
            &["congo=t61rcWkgMzE"][..],
            &["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"],
            &["a=1 , ,b@c=2", "d/e*f_g-h=3"],
            &["1t@sys=x y"],
            &[&long],
        ] {
            assert!(is(good), "{good:?}");
        }
        let many = vec!["a=1"; 33];
        let too_long = format!("a={}", "v".repeat(257));
        let over = vec![&*long; 4];
        for bad in [
            &[][..],
            &[""],
            &["a"],
            &["A=1"],
            &["1a=1"],
            &["a="],
            &["a=b=c"],
            &["a=\u{7f}"],
            &["a@1b=1"],
            &["=1"],
            &many,
            &[&too_long],
            &over,
        ] {
            assert!(!is(bad), "{bad:?}");
        }
    }
}
