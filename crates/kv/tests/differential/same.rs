//! Whether two answers are the same, as far as clocks that tick apart let them be.

/// How much further off an expiry may be for one than for the other: the clocks tick at different
/// moments of a second, and began at different moments of a Unix second.
const TICKS: i64 = 2;
/// How many seconds they may be started apart.
const STARTS: i64 = 10;

/// A number of seconds, and what may be in front of it.
#[derive(Clone, Copy, PartialEq)]
enum Seconds {
    /// Until something: ` t`, ` exp=`.
    Left,
    /// Since the last access: ` l`, ` la=`. memcached documents that, and tells the time since the
    /// item was stored or, more than a minute later, fetched.
    Since,
}

const MARKS: &[(&[u8], Seconds)] = &[
    (b" t", Seconds::Left),
    (b" exp=", Seconds::Left),
    (b" l", Seconds::Since),
    (b" la=", Seconds::Since),
];

/// Where the head of a binary answer has the length of what follows it.
const VERSION_LENGTH: std::ops::Range<usize> = 8..12;
const HEAD_BYTES: usize = 24;

/// Whether it is a binary answer to `version`.
fn tells_version(bytes: &[u8], version: &str) -> bool {
    bytes.starts_with(b"\x81\x0b")
        && (bytes.get(HEAD_BYTES..)).is_some_and(|body| body.starts_with(version.as_bytes()))
}

/// Where they part, if they do.
pub(crate) fn same(ours: &[u8], theirs: &[u8]) -> Result<(), usize> {
    let (mut our, mut their) = (0, 0);
    loop {
        let (a, b) = (&ours[our..], &theirs[their..]);
        if a.is_empty() && b.is_empty() {
            return Ok(());
        }
        let versions = (
            a.starts_with(rhythm_kv::shared::VERSION.as_bytes()),
            b.starts_with(b"1.6.18"),
        );
        if versions == (true, true) {
            our += rhythm_kv::shared::VERSION.len();
            their += "1.6.18".len();
            continue;
        }
        // In the binary protocol its length is told before, in the last of these bytes.
        if tells_version(a, rhythm_kv::shared::VERSION)
            && tells_version(b, "1.6.18")
            && a[..VERSION_LENGTH.start] == b[..VERSION_LENGTH.start]
        {
            our += VERSION_LENGTH.end;
            their += VERSION_LENGTH.end;
            continue;
        }
        if let (Some((what, x, length)), Some((_, y, other))) = (seconds(a), seconds(b)) {
            let is_same = match what {
                // "Never" is -1 and nothing near it.
                _ if x == -1 || y == -1 => x == y,
                // What has passed long ago counts from the start of each.
                Seconds::Left if x < 0 && y < 0 => (x - y).abs() <= STARTS,
                Seconds::Left => (x - y).abs() <= TICKS,
                Seconds::Since => (0..=y + TICKS).contains(&x),
            };
            if !is_same {
                return Err(our);
            }
            our += length;
            their += other;
            continue;
        }
        if a.first() != b.first() {
            return Err(our);
        }
        our += 1;
        their += 1;
    }
}

/// The number of seconds that an answer goes on with, if it does, and how long that is in bytes. A
/// number that counted below 0 is one of 32 bits.
fn seconds(answer: &[u8]) -> Option<(Seconds, i64, usize)> {
    MARKS.iter().find_map(|(mark, what)| {
        let number = answer.strip_prefix(*mark)?;
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
        let length = number.iter().take_while(|byte| is_part(byte)).count();
        let text = std::str::from_utf8(&number[..length]).ok()?;
        let number: i64 = text.parse().ok()?;
        let number = if number > i64::from(i32::MAX) {
            number - (1 << 32) - 2
        } else {
            number
        };
        Some((*what, number, mark.len() + length))
    })
}
