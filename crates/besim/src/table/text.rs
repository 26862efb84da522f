//! Numbers of a column as texts of one size, in 32 bits wherever that goes: a vector of them takes
//! as many values as it can.

use crate::bank::{ACCOUNT_MIN, DUE_DAYS_MAX, MAX_PAYMENTS, PAYMENT_DAYS, TODAY};
use crate::date::Date;
use crate::money::ASCII_ZEROS;

/// The first day that bills or payments have.
const FIRST_DAY: u32 = TODAY.days() - MAX_PAYMENTS * PAYMENT_DAYS;

/// The texts of all days that bills or payments have.
const DAYS: [[u8; 10]; (MAX_PAYMENTS * PAYMENT_DAYS + DUE_DAYS_MAX + 1) as usize] = {
    let mut days = [[0; 10]; _];
    let mut at = 0;
    while at < days.len() {
        days[at] = Date::from_days(FIRST_DAY + at as u32).text();
        at += 1;
    }
    days
};

/// The text of a day that bills or payments have.
#[inline(always)]
pub(super) fn day_text(days: u32) -> [u8; 10] {
    DAYS[(days - FIRST_DAY) as usize]
}

/// The four decimal digits of a number below 10^4, one a byte, the first in the lowest byte.
///
/// As [`crate::money`] makes eight, but in 32 bits, so that a vector takes as many as it can: a
/// multiplication and a shift divide (x * 5243 >> 19 is x / 100 for x < 10^4).
#[inline(always)]
fn four_digits(value: u32) -> u32 {
    let hundreds = (value * 5243) >> 19;
    let pairs = hundreds | (value - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f;
    tens | (pairs - 10 * tens) << 8
}

/// Two words of digits as text, after `or` made them characters.
#[inline(always)]
fn joined([first, second]: [u32; 2], or: u64) -> [u8; 8] {
    (u64::from(first) | u64::from(second) << 32 | or).to_le_bytes()
}

/// A number below 10^8, with zeros in front.
#[inline(always)]
pub(super) fn eight_digits(value: u32) -> [u8; 8] {
    joined(
        [value / 10_000, value % 10_000].map(four_digits),
        ASCII_ZEROS,
    )
}

/// The number of an account that is so much above the least, behind six zeros.
#[inline(always)]
pub(super) fn account_text(above: u32) -> [u8; 16] {
    const END: u32 = 100_000_000;
    let mut text = [0; 16];
    text[..8].copy_from_slice(&eight_digits(
        (ACCOUNT_MIN / END as u64) as u32 + above / END,
    ));
    text[8..].copy_from_slice(&eight_digits(above % END));
    text
}

const _: () = assert!(ACCOUNT_MIN.is_multiple_of(100_000_000));

/// Amounts that are left as numbers are below this many cents.
const AMOUNT_END: u32 = 10_000_000;

/// `12345.67`, with zeros in front of what is less.
#[inline(always)]
pub(super) fn amount_text(cents: u32) -> [u8; 8] {
    debug_assert!(cents < AMOUNT_END);
    // x * 41 >> 12 is x / 100 for x < 10^3.
    let (tens, last) = (cents / 1000, cents % 1000);
    let unit = (last * 41) >> 12;
    let cents = last - 100 * unit;
    let tenth = (cents * 103) >> 10;
    let low = unit | tenth << 16 | (cents - 10 * tenth) << 24;
    joined([four_digits(tens), low], 0x3030_2e30_3030_3030)
}

/// How many of its first zeros an amount is written without.
#[inline(always)]
pub(super) fn leading_zeros(cents: u32) -> u32 {
    let is_below = |end: u32| u32::from(cents < end);
    is_below(1_000_000) + is_below(100_000) + is_below(10_000) + is_below(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_display() {
        let powers = (0..7).flat_map(|n| [10_u32.pow(n) - 1, 10_u32.pow(n), 7 * 10_u32.pow(n)]);
        for cents in powers
            .chain((0..AMOUNT_END).step_by(997))
            .chain([AMOUNT_END - 1])
        {
            let text = amount_text(cents);
            let cell = &text[leading_zeros(cents) as usize..];
            assert_eq!(cell, crate::Cents(cents.into()).to_string().as_bytes());
        }
        for above in (0..u32::MAX).step_by(99_991).chain([u32::MAX]) {
            let number = (ACCOUNT_MIN + u64::from(above)).to_string();
            assert_eq!(&account_text(above)[6..], number.as_bytes());
        }
        for (days, text) in (FIRST_DAY..).zip(DAYS) {
            assert_eq!(text, Date::from_days(days).text());
        }
    }
}
