//! Texts made of several values, as MiniJinja and its `contrib` filters make them.

use super::parts;
use crate::cohort::{Argument, LaneError, print_int};
use crate::program::Formatting;
use crate::zone;
use rhythm_protocol::calendar::{date_of, day_of};
use std::io::Write;

/// Appends what a formatting makes of its operands, of which there are as many as it has, in its
/// order and of its types; a text that becomes longer than `room` fails the lane.
pub(super) fn format(
    how: Formatting,
    from: &[Argument<'_>],
    room: usize,
    to: &mut Vec<u8>,
) -> Result<(), LaneError> {
    use Argument::{Bool, Float, Int, Text};
    match (how, from) {
        (Formatting::Fixed, &[Float(value), Int(decimals)]) => fixed(value, decimals, to),
        (Formatting::Ceil, &[Float(value), Int(decimals)]) => {
            directed(value, decimals, f64::ceil, to)?;
        }
        (Formatting::Floor, &[Float(value), Int(decimals)]) => {
            directed(value, decimals, f64::floor, to)?;
        }
        (Formatting::Padded, &[Int(value), Int(width)]) => {
            let width = usize::try_from(width).unwrap_or_default();
            write_to(to, format_args!("{value:0width$}"));
        }
        (Formatting::FileSize, &[Float(value), Bool(is_binary)]) => file_size(value, is_binary, to),
        (Formatting::Truncate, &[Text(text), Int(most), Int(kept), Bool(within), Text(end)]) => {
            truncate(text_of(text), most, kept, within, to);
            if to.len() < text.len() {
                to.extend_from_slice(end);
            }
        }
        (Formatting::StripTags, &[Text(text)]) => strip_tags(text_of(text), to),
        (Formatting::Indent, &[Text(text), Int(width), Bool(first), Bool(blank)]) => {
            indent(text_of(text), width, first, blank, room, to)?;
        }
        (Formatting::Slice, &[Text(text), Int(start), Int(stop), Int(step)]) => {
            let text = text_of(text);
            let bounds = [start, stop].map(|bound| usize::try_from(bound).ok());
            let (skipped, taken) = match bounds {
                // No more of it is looked at than that.
                [Some(start), Some(stop)] => (start, stop.saturating_sub(start)),
                _ => slice_of(start, stop, text.chars().count()),
            };
            let rest = behind(text, skipped);
            let chars = rest.chars().take(taken);
            let chars = chars.step_by(usize::try_from(step).unwrap_or(1).max(1));
            to.extend(chars.collect::<String>().as_bytes());
        }
        (Formatting::Character, &[Text(text), Int(at)]) => {
            let text = text_of(text);
            let from_start = usize::try_from(at).ok().or_else(|| {
                let from_end = usize::try_from(at.unsigned_abs()).ok()?;
                text.chars().count().checked_sub(from_end)
            });
            let rest = from_start.map_or("", |at| behind(text, at));
            let found = rest.chars().next();
            to.extend(found.map_or(String::new(), String::from).as_bytes());
        }
        (Formatting::LowerAscii, &[Text(text)]) => to.extend(text.to_ascii_lowercase()),
        (Formatting::IsLower, &[Text(text)]) => {
            let is_other = char::is_uppercase;
            if is_of_case(text_of(text), char::is_lowercase, is_other) {
                to.push(b'1');
            }
        }
        (Formatting::IsUpper, &[Text(text)]) => {
            let is_other = char::is_lowercase;
            if is_of_case(text_of(text), char::is_uppercase, is_other) {
                to.push(b'1');
            }
        }
        (Formatting::Places(cut), &[Text(text)]) => {
            parts::places(cut, text_of(text), "", -1, room, to)?;
        }
        (Formatting::Places(cut), &[Text(text), Text(separator), Int(most)]) => {
            parts::places(cut, text_of(text), text_of(separator), most, room, to)?;
        }
        (Formatting::Part, &[Text(text), Text(places), Int(at)]) => {
            to.extend_from_slice(parts::part(text, places, at)?);
        }
        (Formatting::Reverse, &[Text(text)]) => {
            to.extend(text_of(text).chars().rev().collect::<String>().as_bytes());
        }
        (Formatting::Date, &[Text(text), Text(pattern), Text(zone)]) => {
            let (moment, ahead) = Moment::of_text(text).ok_or(LaneError::NotANumber)?;
            let moment = match ahead {
                Some(ahead) => {
                    let seconds = moment.day * DAY + moment.seconds - ahead;
                    Moment::of_seconds(seconds, zone).ok_or(LaneError::Overflow)?
                }
                None => moment,
            };
            moment.print(pattern, to);
        }
        (Formatting::Date, &[Int(seconds), Text(pattern), Text(zone)]) => {
            let moment = Moment::of_seconds(seconds, zone).ok_or(LaneError::Overflow)?;
            moment.print(pattern, to);
        }
        _ => unreachable!("the compiler gives each its operands"),
    }
    Ok(())
}

/// A text without so many characters at its start.
fn behind(text: &str, characters: usize) -> &str {
    let mut rest = text.chars();
    if let Some(last) = characters.checked_sub(1) {
        rest.nth(last);
    }
    rest.as_str()
}

fn write_to(to: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    // Memory takes all.
    let _ = to.write_fmt(what);
}

fn text_of(text: &[u8]) -> &str {
    std::str::from_utf8(text).expect("texts are checked where they enter a cohort")
}

/// A float with so many decimals, as Python prints it.
fn fixed(value: f64, decimals: i64, to: &mut Vec<u8>) {
    if value.is_nan() {
        to.extend_from_slice(b"nan");
    } else {
        let decimals = usize::try_from(decimals).unwrap_or_default();
        write_to(to, format_args!("{value:.decimals$}"));
    }
}

/// A float rounded up or down to so many decimals, by as many digits as it needs to be read again.
fn directed(
    value: f64,
    decimals: i64,
    round: impl Fn(f64) -> f64,
    to: &mut Vec<u8>,
) -> Result<(), LaneError> {
    // Of a power of ten this gives the nearest float, which powi does not.
    let factor = format!("1e{decimals}").parse().unwrap_or(1.0);
    let scaled = value * factor;
    let rounded = match scaled.is_finite() {
        // There is no -0.
        true => (round(scaled) + 0.0) / factor,
        false => value,
    };
    write_to(to, format_args!("{rounded}"));
    Ok(())
}

/// A size in bytes, in the unit in which it is short.
fn file_size(bytes: f64, is_binary: bool, to: &mut Vec<u8>) {
    let (base, i) = if is_binary {
        (1024.0, "i")
    } else {
        (1000.0, "")
    };
    let (sign, size) = if bytes < 0.0 {
        ("-", -bytes)
    } else {
        ("", bytes)
    };
    if bytes == 1.0 {
        to.extend_from_slice(b"1 Byte");
        return;
    }
    if size < base {
        return write_to(to, format_args!("{sign}{size} Bytes"));
    }
    let kilo = if is_binary { "K" } else { "k" };
    let prefixes = [kilo, "M", "G", "T", "P", "E", "Z", "Y"];
    let mut unit = base * base;
    for (at, prefix) in prefixes.iter().enumerate() {
        if size < unit || at + 1 == prefixes.len() {
            let size = base * size / unit;
            return write_to(to, format_args!("{sign}{size:.1} {prefix}{i}B"));
        }
        unit *= base;
    }
}

/// Whether a text has letters of a case, and none of another one, or that could be of another.
fn is_of_case(
    text: &str,
    is_wanted: impl Fn(char) -> bool,
    is_other: impl Fn(char) -> bool,
) -> bool {
    let has_case = |c: char| c.to_lowercase().any(|l| l != c) || c.to_uppercase().any(|u| u != c);
    let is_against = |c: char| is_other(c) || !is_wanted(c) && has_case(c);
    text.chars().any(&is_wanted) && !text.chars().any(is_against)
}

/// The beginning of a text of more than `most` characters, or all of another one.
fn truncate(text: &str, most: i64, kept: i64, within_words: bool, to: &mut Vec<u8>) {
    let count = |number| usize::try_from(number).unwrap_or_default();
    let mut text = text;
    if text.chars().nth(count(most)).is_some() {
        let end = text.char_indices().nth(count(kept));
        text = end.map_or(text, |(end, _)| &text[..end]);
        if !within_words {
            text = text.rfind(' ').map_or(text, |space| &text[..space]);
        }
    }
    to.extend_from_slice(text.as_bytes());
}

/// The text that a browser would show of HTML, without tags and comments, white space as one blank.
fn strip_tags(html: &str, to: &mut Vec<u8>) {
    let start = to.len();
    let mut shown = String::new();
    let show = |shown: &mut String, c: char| match c.is_whitespace() {
        false => shown.push(c),
        true if shown.ends_with(|c: char| !c.is_whitespace()) => shown.push(' '),
        true => {}
    };
    let mut rest = html;
    while let Some(c) = rest.chars().next() {
        if c == '<' {
            let end = match rest.strip_prefix("<!--") {
                Some(comment) => comment
                    .find("-->")
                    .map(|end| "<!--".len() + end + "-->".len()),
                None => rest.find('>').map(|end| end + 1),
            };
            rest = &rest[end.unwrap_or(rest.len())..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c != '&' {
            show(&mut shown, c);
            continue;
        }
        let ends = |c: char| matches!(c, ';' | '<' | '&' | '\0') || c.is_whitespace();
        let (name, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let (semicolon, after) = match after.strip_prefix(';') {
            Some(after) => (";", after),
            None => ("", after.strip_prefix('\0').unwrap_or(after)),
        };
        match character_of(name) {
            Some(c) => show(&mut shown, c),
            None => shown.extend(["&", name, semicolon]),
        }
        rest = after;
    }
    to.extend_from_slice(shown.trim_end().as_bytes());
    debug_assert!(to.len() - start <= html.len());
}

/// The character that a reference of HTML stands for, if it is one of those that escapes make.
fn character_of(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
                None => number.parse(),
            };
            return char::from_u32(code.ok()?);
        }
    })
}

/// Blanks before each line of a text, whose last line break is left out.
fn indent(
    text: &str,
    width: i64,
    first: bool,
    blank: bool,
    room: usize,
    to: &mut Vec<u8>,
) -> Result<(), LaneError> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let width = usize::try_from(width).unwrap_or_default();
    let start = to.len();
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            to.push(b'\n');
        }
        // A line that is empty but for its end is one, too.
        let is_blank = matches!(line, "" | "\r");
        if (at > 0 || first) && (blank || !is_blank) {
            to.resize(to.len() + width, b' ');
        }
        to.extend_from_slice(line.as_bytes());
        if to.len() - start > room {
            return Err(LaneError::TooMuchText);
        }
    }
    if to.ends_with(b"\r") {
        to.pop();
    }
    Ok(())
}

/// Which items `[start:stop]` leaves out at the start, and how many it takes, of so many.
pub(super) fn slice_of(start: i64, stop: i64, length: usize) -> (usize, usize) {
    let at = |bound: i64| match usize::try_from(bound) {
        Ok(bound) => bound.min(length),
        Err(_) => length.saturating_sub(usize::try_from(bound.unsigned_abs()).unwrap_or(length)),
    };
    let (start, stop) = (at(start), at(stop));
    (start, stop.saturating_sub(start))
}

/// Days of the week from that of 1970-01-01 on.
const WEEKDAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAY: i64 = 86_400;

/// A day, and a time on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    /// From 1970-01-01 on.
    day: i64,
    /// Since midnight.
    seconds: i64,
}

impl Moment {
    /// One of the years 0 to 9999, in a time zone.
    fn of_seconds(seconds: i64, zone: &[u8]) -> Option<Moment> {
        let seconds = seconds.checked_add(zone::offset_at(zone, seconds))?;
        let (day, seconds) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let is_in_range = (day_of(0, 1, 1)..=day_of(9999, 12, 31)).contains(&day);
        is_in_range.then_some(Moment { day, seconds })
    }

    /// `YYYY-MM-DD`, and perhaps ` HH:MM`, `:SS`, a fraction, and `Z` or an offset: what it says as
    /// it stands, and how many seconds that is ahead of UTC.
    fn of_text(text: &[u8]) -> Option<(Moment, Option<i64>)> {
        let (date, time) = text.split_at_checked(10)?;
        let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else {
            return None;
        };
        let year = number(&[y1, y2, y3, y4])?;
        let (month, day) = (number(&[m1, m2])?, number(&[d1, d2])?);
        let (month, day_of_month) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
        if !(1..=12).contains(&month) || day_of_month < 1 {
            return None;
        }
        let day = day_of(year, month, day_of_month);
        // One that the month does not have would be another one of the next.
        if date_of(day) != (year, month, day_of_month) {
            return None;
        }
        let (seconds, ahead) = if time.is_empty() {
            (0, None)
        } else {
            time_of(time)?
        };
        Some((Moment { day, seconds }, ahead))
    }

    /// Appends it as a pattern of `strftime` says, which the compiler has looked at.
    fn print(self, pattern: &[u8], to: &mut Vec<u8>) {
        let (year, month, day) = date_of(self.day);
        let (hour, minute) = (self.seconds / 3600, self.seconds / 60 % 60);
        let weekday = WEEKDAYS[self.day.rem_euclid(7) as usize];
        let month_name = MONTHS[month as usize - 1];
        let of_twelve = (hour + 11) % 12 + 1;
        let mut bytes = pattern.iter();
        while let Some(&byte) = bytes.next() {
            if byte != b'%' {
                to.push(byte);
                continue;
            }
            let mut code = bytes.next();
            let is_short = code == Some(&b'-');
            if is_short {
                code = bytes.next();
            }
            let width = |width: usize| if is_short { 1 } else { width };
            let (number, width) = match code {
                Some(b'Y') => (year, width(4)),
                Some(b'y') => (year % 100, width(2)),
                Some(b'm') => (i64::from(month), width(2)),
                Some(b'd') => (i64::from(day), width(2)),
                Some(b'H') => (hour, width(2)),
                Some(b'I') => (of_twelve, width(2)),
                Some(b'M') => (minute, width(2)),
                Some(b'S') => (self.seconds % 60, width(2)),
                Some(b'j') => (self.day - day_of(year, 1, 1) + 1, width(3)),
                other => {
                    match other {
                        Some(b'B') => to.extend_from_slice(month_name.as_bytes()),
                        Some(b'b') => to.extend_from_slice(&month_name.as_bytes()[..3]),
                        Some(b'A') => to.extend_from_slice(weekday.as_bytes()),
                        Some(b'a') => to.extend_from_slice(&weekday.as_bytes()[..3]),
                        Some(b'p') => {
                            to.extend_from_slice(if hour < 12 { b"AM" } else { b"PM" });
                        }
                        Some(b'F') => self.print(b"%Y-%m-%d", to),
                        Some(b'T') => self.print(b"%H:%M:%S", to),
                        _ => to.push(b'%'),
                    }
                    continue;
                }
            };
            let start = to.len();
            print_int(number, to);
            let missing = width.saturating_sub(to.len() - start);
            to.splice(start..start, std::iter::repeat_n(b'0', missing));
        }
    }
}

/// Whether a pattern of `strftime` is one that dates are printed by, or else what in it is not.
pub(crate) fn not_of_dates(pattern: &str) -> Option<String> {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        let code = chars.next();
        let is_known = match code {
            Some('-') => {
                let code = chars.next();
                if !code.is_some_and(|code| "ymdHIMSj".contains(code)) {
                    return Some(format!("%-{}", code.map_or(String::new(), String::from)));
                }
                true
            }
            Some(code) => "YymdHIMSjBbAapFT%".contains(code),
            None => false,
        };
        if !is_known {
            return Some(format!("%{}", code.map_or(String::new(), String::from)));
        }
    }
    None
}

/// What digits say.
fn number(digits: &[u8]) -> Option<i64> {
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| {
        let value = |sum: i64, digit: &u8| sum * 10 + i64::from(digit - b'0');
        digits.iter().fold(0, value)
    })
}

/// Seconds since midnight, of what stands behind a date, and how many those are ahead of UTC, where
/// it says so.
fn time_of(text: &[u8]) -> Option<(i64, Option<i64>)> {
    let &[b' ' | b'T' | b't', h1, h2, b':', m1, m2, ref rest @ ..] = text else {
        return None;
    };
    let (hour, minute) = (number(&[h1, h2])?, number(&[m1, m2])?);
    let (second, rest) = match rest {
        &[b':', s1, s2, ref rest @ ..] => (number(&[s1, s2])?, rest),
        rest => (0, rest),
    };
    let rest = match rest {
        [b'.', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            &rest[digits..]
        }
        rest => rest,
    };
    let (sign, [hours, minutes]) = match rest {
        [] => (None, [0, 0]),
        b"Z" | b"z" => (Some(b'+'), [0, 0]),
        &[sign @ (b'+' | b'-'), h1, h2] => (Some(sign), [number(&[h1, h2])?, 0]),
        &[sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] | &[sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
            (Some(sign), [number(&[h1, h2])?, number(&[m1, m2])?])
        }
        _ => return None,
    };
    let ahead = sign.map(|sign| {
        let ahead = (hours * 60 + minutes) * 60;
        if sign == b'-' { -ahead } else { ahead }
    });
    let is_time = hour < 24 && minute < 60 && second < 60 && hours < 24 && minutes < 60;
    is_time.then_some(((hour * 60 + minute) * 60 + second, ahead))
}
