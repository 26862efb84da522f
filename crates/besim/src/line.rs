//! A row under way: on the stack and of fixed size, since pieces of a few bytes each cost more in a
//! growing buffer than computing them.

use crate::bank::Account;
use crate::money::{ASCII_ZEROS, Cents, eight_digits};

/// Bytes a row may have; the longest are two of ten digits, and five amounts of at most eleven
/// characters.
const CAPACITY: usize = 128;

/// A row of numbers and dates.
pub(crate) struct Line {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Line {
    #[inline(always)]
    pub(crate) const fn new() -> Line {
        Line {
            bytes: [0; CAPACITY],
            len: 0,
        }
    }

    /// Appends bytes.
    #[inline(always)]
    pub(crate) fn bytes<const N: usize>(&mut self, bytes: [u8; N]) {
        self.place(bytes);
        self.len += N;
    }

    /// Writes bytes where the line ends, but leaves its end where it is.
    #[inline(always)]
    fn place<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
    }

    /// Appends the last eight digits of a number.
    #[inline(always)]
    pub(crate) fn eight_digits(&mut self, value: u32) {
        self.bytes((eight_digits(value % 100_000_000) | ASCII_ZEROS).to_le_bytes());
    }

    /// Appends the last two digits of a number.
    #[inline(always)]
    pub(crate) fn two_digits(&mut self, value: u32) {
        self.bytes([b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
    }

    /// Appends `&` and an amount of up to 32 bits (larger ones do not occur in rows of numbers;
    /// they would be cut).
    #[inline(always)]
    pub(crate) fn amount(&mut self, amount: Cents) {
        let cents = amount.0 as u32;
        let (whole, cents) = (eight_digits(cents / 100), cents % 100);
        // Leading zeros are the lowest zero bytes; the last digit stays.
        let skipped = (whole.trailing_zeros() / 8).min(7);
        self.bytes(*b"&");
        self.place(((whole | ASCII_ZEROS) >> (8 * skipped)).to_le_bytes());
        self.len += 8 - skipped as usize;
        self.bytes(*b".");
        self.two_digits(cents);
    }

    /// Appends the first two columns of an account: number and type.
    #[inline(always)]
    pub(crate) fn account(&mut self, account: &Account) {
        self.two_digits((account.number / 100_000_000) as u32);
        self.eight_digits((account.number % 100_000_000) as u32);
        self.bytes(*b"&0");
        self.bytes([b'0' + account.kind]);
    }

    /// Ends the row: appends it to an answer and starts the next one.
    #[inline(always)]
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        self.bytes[self.len] = b'\n';
        let end = out.len() + self.len + 1;
        // All of it, since a copy of known length is a few moves.
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_they_display() {
        let values = (0..32).flat_map(|shift| [(1 << shift) - 1, 1 << shift]);
        let decimal = (0..10).flat_map(|n| {
            [
                10_i64.pow(n) - 1,
                10_i64.pow(n),
                4_294_967_295 % 10_i64.pow(n),
            ]
        });
        for value in values.chain(decimal).chain([u32::MAX.into()]) {
            let mut out = Vec::new();
            let mut line = Line::new();
            line.amount(Cents(value));
            line.end(&mut out);
            assert_eq!(
                String::from_utf8(out).unwrap(),
                format!("&{}\n", Cents(value))
            );
        }
    }
}
