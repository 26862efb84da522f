//! Queries: a command and its arguments.
//!
//! As text a query is `1&command&argument&...`; the 1 is the workload, and arguments are
//! percent-encoded as in forms. Who has arguments as values need not make a text of them: an
//! argument counts as what its text would be, whatever it comes as.

use crate::date::Date;
use crate::money::Cents;

/// Most arguments a command takes.
pub const ARGUMENTS_MAX: usize = 8;

/// Why a query gets status 1.
pub(crate) type Refusal = &'static str;

/// An argument of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// As it stands in the text: percent-encoded, without `&`.
    Encoded(&'a [u8]),
    /// What that stands for.
    Text(&'a [u8]),
    /// An integer, in decimal.
    Int(i64),
}

/// A command and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    command: u32,
    arguments: [Argument<'a>; ARGUMENTS_MAX],
    /// One more than fit if there are too many.
    count: usize,
}

impl<'a> Query<'a> {
    /// A query of this command.
    #[inline]
    pub fn new(command: u32, arguments: impl IntoIterator<Item = Argument<'a>>) -> Query<'a> {
        let mut places = [Argument::Int(0); ARGUMENTS_MAX];
        let mut count = 0;
        for argument in arguments.into_iter().take(ARGUMENTS_MAX + 1) {
            if let Some(place) = places.get_mut(count) {
                *place = argument;
            }
            count += 1;
        }
        Query {
            command,
            arguments: places,
            count,
        }
    }

    /// Splits the text of a query.
    pub(crate) fn parse(query: &'a [u8]) -> Result<Query<'a>, Refusal> {
        let mut parts = query.split(|byte| *byte == b'&');
        if parts.next() != Some(b"1") {
            return Err("unknown workload");
        }
        let command = parts.next().and_then(Query::command_named);
        let command = command.ok_or("unknown command")?;
        Ok(Query::new(command, parts.map(Argument::Encoded)))
    }

    /// The command that this part of a query's text names.
    pub fn command_named(part: &[u8]) -> Option<u32> {
        number(part).and_then(|command| u32::try_from(command).ok())
    }

    /// Its command's number.
    #[inline]
    pub(crate) fn command(&self) -> u32 {
        self.command
    }

    /// How many arguments it has; one more than fit if there are too many.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Its arguments, those that fit.
    #[inline]
    pub(crate) fn arguments(&self) -> &[Argument<'a>] {
        &self.arguments[..self.count.min(ARGUMENTS_MAX)]
    }
}

impl Argument<'_> {
    /// The number that 1 to 18 digits stand for.
    #[inline]
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Argument::Int(value) => u64::try_from(value)
                .ok()
                .filter(|value| *value < 1_000_000_000_000_000_000),
            // What is encoded in a text is no digit.
            Argument::Encoded(text) | Argument::Text(text) => number(text),
        }
    }

    /// The day that `YYYY-MM-DD` names.
    pub(crate) fn date(self) -> Result<Date, Refusal> {
        let date = match self {
            Argument::Int(_) => None,
            Argument::Encoded(text) | Argument::Text(text) => Date::parse(text),
        };
        date.ok_or("bad date")
    }

    /// An amount as on a form.
    pub(crate) fn amount(self) -> Result<Cents, Refusal> {
        let amount = match self {
            Argument::Int(value) => {
                ((0..1_000_000_000_000).contains(&value)).then(|| Cents(value * 100))
            }
            Argument::Encoded(text) | Argument::Text(text) => Cents::parse(text),
        };
        amount.ok_or("bad amount")
    }

    /// Gives each of the bytes it stands for to `take`.
    pub(crate) fn each_byte(self, mut take: impl FnMut(u8)) -> Result<(), Refusal> {
        match self {
            Argument::Encoded(b"") | Argument::Text(b"") => return Err("empty argument"),
            Argument::Encoded(text) => {
                for byte in decoded(text) {
                    take(byte.ok_or("malformed argument")?);
                }
            }
            Argument::Text(text) => text.iter().for_each(|byte| take(*byte)),
            Argument::Int(value) => {
                // The digits from the last one on, of 64 bits at most 20.
                let mut digits = [0; 20];
                let (mut start, mut rest) = (digits.len(), value.unsigned_abs());
                while start == digits.len() || rest > 0 {
                    start -= 1;
                    digits[start] = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
                if value < 0 {
                    take(b'-');
                }
                digits[start..].iter().for_each(|byte| take(*byte));
            }
        }
        Ok(())
    }
}

/// The bytes an argument stands for; `None` among them where a `%` is not followed by two
/// hexadecimal digits.
fn decoded(argument: &[u8]) -> impl Iterator<Item = Option<u8>> {
    let mut rest = argument;
    core::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        rest = after;
        Some(match first {
            b'+' => Some(b' '),
            b'%' => {
                let digit = |at: usize| after.get(at).and_then(|byte| (*byte as char).to_digit(16));
                let byte = digit(0)
                    .zip(digit(1))
                    .map(|(high, low)| (high * 16 + low) as u8);
                rest = after.get(2..).unwrap_or_default();
                byte
            }
            byte => Some(*byte),
        })
    })
}

/// The number that 1 to 18 digits stand for.
#[inline]
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| sum * 10 + u64::from(digit))
    })
}
