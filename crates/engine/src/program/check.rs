//! What texts are, of those that requests bring: numbers, dates and addresses, as HTML has them.

/// At most twelve digits, optionally a point and one or two digits.
pub(super) fn is_decimal(value: &[u8]) -> bool {
    let point = value.iter().position(|byte| *byte == b'.');
    let (whole, part) = match point {
        Some(at) => (&value[..at], Some(&value[at + 1..])),
        None => (value, None),
    };
    (1..=12).contains(&whole.len())
        && whole.iter().all(u8::is_ascii_digit)
        && part
            .is_none_or(|part| (1..=2).contains(&part.len()) && part.iter().all(u8::is_ascii_digit))
}

/// A valid floating-point number of HTML (section 2.3.4.3).
pub(super) fn float(value: &[u8]) -> Option<f64> {
    let digits = |bytes: &mut &[u8]| {
        let count = bytes
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        *bytes = &bytes[count..];
        count
    };
    let mut rest = value.strip_prefix(b"-").unwrap_or(value);
    let whole = digits(&mut rest);
    if let Some(after) = rest.strip_prefix(b".") {
        rest = after;
        if digits(&mut rest) == 0 {
            return None;
        }
    } else if whole == 0 {
        return None;
    }
    if let [b'e' | b'E', after @ ..] = rest {
        rest = after
            .strip_prefix(b"-")
            .or(after.strip_prefix(b"+"))
            .unwrap_or(after);
        if digits(&mut rest) == 0 {
            return None;
        }
    }
    let is_whole = rest.is_empty();
    is_whole.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

/// A valid e-mail address of HTML (section 4.10.5.1.5): what browsers accept.
pub(super) fn is_email(value: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'@', value) else {
        return false;
    };
    let (user, domain) = (&value[..at], &value[at + 1..]);
    let of_user =
        |byte: &u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(byte);
    let is_label = |label: &[u8]| {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        (1..=63).contains(&label.len())
            && label.iter().all(is_inner)
            && !label.starts_with(b"-")
            && !label.ends_with(b"-")
    };
    !user.is_empty() && user.iter().all(of_user) && domain.split(|byte| *byte == b'.').all(is_label)
}

/// `YYYY-MM-DD`, a day of the Gregorian calendar.
pub(super) fn is_date(value: &[u8]) -> bool {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *value else {
        return false;
    };
    let number = |digits: &[u8]| -> Option<u32> {
        digits.iter().try_fold(0, |sum, digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + u32::from(digit - b'0'))
        })
    };
    let (Some(year), Some(month), Some(day)) = (
        number(&[y0, y1, y2, y3]),
        number(&[m0, m1]),
        number(&[d0, d1]),
    ) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_and_dates() {
        for (text, good) in [
            ("0", true),
            ("123456789012.34", true),
            ("1.5", true),
            ("1234567890123", false),
            ("1.", false),
            (".5", false),
            ("1.234", false),
            ("-1", false),
            ("1.2.3", false),
        ] {
            assert_eq!(is_decimal(text.as_bytes()), good, "{text}");
        }
        for (text, good) in [
            ("2024-02-29", true),
            ("1900-02-29", false),
            ("2000-02-29", true),
            ("2023-13-01", false),
            ("2023-00-01", false),
            ("2023-04-31", false),
            ("2023-4-3", false),
            ("2023-04-00", false),
        ] {
            assert_eq!(is_date(text.as_bytes()), good, "{text}");
        }
    }

    #[test]
    fn numbers_as_browsers_send_them() {
        for (text, number) in [
            ("0", Some(0.0)),
            ("-1.5", Some(-1.5)),
            (".5", Some(0.5)),
            ("1e3", Some(1000.0)),
            ("1E-3", Some(0.001)),
            ("2e+1", Some(20.0)),
            ("007", Some(7.0)),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.", None),
            ("1e", None),
            ("1e+", None),
            (" 1", None),
            ("1,5", None),
            ("0x1", None),
            ("inf", None),
            ("NaN", None),
            ("1_0", None),
        ] {
            assert_eq!(float(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn addresses_as_browsers_take_them() {
        let label = "a".repeat(63);
        for good in [
            "a@b",
            "A.b+c@d-e.example",
            "!#$%&'*+/=?^_`{|}~-@x",
            &format!("a@{label}.b"),
        ] {
            assert!(is_email(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a@b@c",
            "a@-b",
            "a@b-",
            "a@b..c",
            "a@b.",
            "a b@c",
            "a@b c",
            "\u{e9}@b",
            "a@b_c",
            "a@b\n",
            "<a@b>",
            "a@[1.2.3.4]",
            &format!("a@{label}b"),
        ] {
            assert!(!is_email(bad.as_bytes()), "{bad}");
        }
    }
}
