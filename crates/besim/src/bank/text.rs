//! How what the bank knows is written: texts of fixed length as arrays, others appended.

use super::{Account, Bill, Check, Profile};
use crate::money::digits;

impl Account {
    /// The type as text: two digits.
    #[inline]
    #[must_use]
    pub const fn kind_text(&self) -> [u8; 2] {
        [b'0' + self.kind / 10, b'0' + self.kind % 10]
    }

    /// The number as text: ten digits.
    #[inline]
    #[must_use]
    pub const fn number_text(&self) -> [u8; 10] {
        digits(self.number)
    }
}

impl Bill {
    /// The payee's number as text: seven digits.
    #[inline]
    #[must_use]
    pub const fn payee_text(&self) -> [u8; 7] {
        digits(self.payee as u64)
    }
}

impl Check {
    /// Appends the detail text, such as `12.50 to O'Brien's Hardware on 2025-11-02 for rent`.
    pub fn write_detail(&self, out: &mut Vec<u8>) {
        self.amount.write(out);
        out.extend_from_slice(b" to ");
        out.extend_from_slice(self.payee.as_bytes());
        out.extend_from_slice(b" on ");
        out.extend_from_slice(&self.date.text());
        out.extend_from_slice(b" for ");
        out.extend_from_slice(self.memo.as_bytes());
    }

    /// Appends the path of the front's picture, relative to the service's static files:
    /// `checks/front_3.png`.
    pub fn write_front(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"checks/front_");
        out.extend_from_slice(&[b'0' + self.front]);
        out.extend_from_slice(b".png");
    }

    /// Appends the path of the back's picture: `checks/back_3.png`.
    pub fn write_back(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"checks/back_");
        out.extend_from_slice(&[b'0' + self.back]);
        out.extend_from_slice(b".png");
    }
}

impl Profile {
    /// Appends house and street: `12 O'Brien Street`.
    pub fn write_street(&self, out: &mut Vec<u8>) {
        write_number(self.house, out);
        out.push(b' ');
        out.extend_from_slice(self.street.as_bytes());
    }

    /// The ZIP code as text: five digits.
    #[must_use]
    pub const fn zip_text(&self) -> [u8; 5] {
        digits(self.zip as u64)
    }

    /// Appends the address of e-mail: `mary.7@example.com`.
    pub fn write_email(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.first_name.as_bytes());
        out.push(b'.');
        write_number(self.user, out);
        out.extend_from_slice(b"@example.com");
    }

    /// Appends the telephone number: `(555) 234-5678`.
    pub fn write_phone(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"(555) ");
        out.extend_from_slice(&digits::<3>((self.phone / 10_000) as u64));
        out.push(b'-');
        out.extend_from_slice(&digits::<4>(self.phone as u64));
    }
}

/// Appends a number without leading zeros.
fn write_number(value: u32, out: &mut Vec<u8>) {
    let text = digits::<10>(value as u64);
    let start = text.iter().position(|digit| *digit != b'0').unwrap_or(9);
    out.extend_from_slice(&text[start..]);
}
