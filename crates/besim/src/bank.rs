//! What the bank knows of each user.
//!
//! Every value is computed from the user's id when asked for. Changes (a new payee, a transfer) are
//! confirmed but not kept, as in the original BeSim: this makes every answer something a client can
//! check.

mod text;

use crate::date::Date;
use crate::mix::{Purpose, Stream, mix32, mix64};
use crate::money::Cents;
use crate::names::{CITIES, FIRST_NAMES, MEMOS, PAYEES, STREETS};
use md5::{Digest, Md5};

/// The day the bank lives in, 2026-01-15; answers never depend on the clock.
pub const TODAY: Date = match Date::from_civil(2026, 1, 15) {
    Some(date) => date,
    None => panic!("the day exists"),
};

/// Most accounts a user has.
pub const MAX_ACCOUNTS: u32 = 6;

/// Most bills a user has.
pub const MAX_BILLS: u32 = 10;

/// Most payments a user has made.
pub const MAX_PAYMENTS: u32 = 24;

/// Days between a payment and the next.
pub(crate) const PAYMENT_DAYS: u32 = 4;

/// Days from today within which bills are due.
pub(crate) const DUE_DAYS_MAX: u32 = 28;

/// How many pictures there are of each side of checks.
pub(crate) const CHECK_IMAGES: u32 = 10;

/// The bank: users 1 to `users`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    users: u32,
}

/// An account, as the account summary shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number: ten digits, no two accounts of a bank alike (up to 536,870,911 users).
    pub number: u64,
    /// Its type: 1 checking, 2 saving, 3 and 4 others; two digits as text.
    pub kind: u8,
    /// What is on it.
    pub balance: Cents,
    /// Total of the deposits.
    pub deposits: Cents,
    /// Average deposit; the total is a multiple of it.
    pub avg_deposit: Cents,
    /// Total of the withdrawals.
    pub withdrawals: Cents,
    /// Average withdrawal; the total is a multiple of it.
    pub avg_withdrawal: Cents,
}

/// A bill that is due, or a payment that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bill {
    /// The payee's number, seven digits.
    pub payee: u32,
    /// When it is due or was paid.
    pub date: Date,
    /// How much.
    pub amount: Cents,
}

/// A check that the bank has paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// How much.
    pub amount: Cents,
    /// The day it was paid.
    pub date: Date,
    /// Whom it was made out to.
    pub payee: &'static str,
    /// What it was for.
    pub memo: &'static str,
    /// Which picture is its front, below `CHECK_IMAGES`.
    pub front: u8,
    /// Which picture is its back, below `CHECK_IMAGES`.
    pub back: u8,
}

/// A user's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    user: u32,
    house: u32,
    street: &'static str,
    /// The city.
    pub city: &'static str,
    /// The state, two letters.
    pub state: &'static str,
    zip: u32,
    first_name: &'static str,
    phone: u32,
}

/// The confirmation of a change: two letters for the command and twelve hexadecimal digits for what
/// was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    prefix: [u8; 2],
    bits: u64,
}

/// The bills of a user, or the payments in a span of days, in the order of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Bills {
    stream: Stream,
    next: u32,
    end: u32,
    history: bool,
}

impl Bank {
    /// How many users a bank has where nobody says another number.
    pub const USERS_DEFAULT: u32 = 100_000;

    /// A bank of this many users.
    #[must_use]
    pub const fn new(users: u32) -> Bank {
        Bank { users }
    }

    /// How many users it has.
    #[must_use]
    pub const fn users(&self) -> u32 {
        self.users
    }

    /// Whether there is a user of this id. The other functions compute something for any id.
    #[must_use]
    pub const fn has(&self, user: u64) -> bool {
        0 < user && user <= self.users as u64
    }

    /// How many accounts a user has (1 to [`MAX_ACCOUNTS`]), and how many bills (2 to
    /// [`MAX_BILLS`]).
    #[inline]
    const fn counts(user: u32) -> (u32, u32) {
        let (accounts, bills) =
            Stream::new(Purpose::Counts, user, 0).below(MAX_ACCOUNTS, MAX_BILLS - 1);
        (1 + accounts, 2 + bills)
    }

    /// A user's accounts, 1 to [`MAX_ACCOUNTS`] of them.
    #[inline]
    pub fn accounts(&self, user: u32) -> impl ExactSizeIterator<Item = Account> + Clone + use<> {
        Bank::account_seeds(user).map(AccountSeed::account)
    }

    /// What [`Bank::accounts`] are made of.
    #[inline]
    pub(crate) fn account_seeds(
        user: u32,
    ) -> impl ExactSizeIterator<Item = AccountSeed> + Clone + use<> {
        let stream = Stream::new(Purpose::Accounts, user, 0);
        (0..Bank::counts(user).0).map(move |index| AccountSeed {
            stream: stream.skip(3 * index),
            user,
            index,
        })
    }

    /// A user's bills, 2 to [`MAX_BILLS`] of them, all due after [`TODAY`] and within a month.
    #[inline]
    #[must_use]
    pub const fn bills(&self, user: u32) -> Bills {
        Bills {
            stream: Stream::new(Purpose::Bills, user, 0),
            next: 0,
            end: Bank::counts(user).1,
            history: false,
        }
    }

    /// The payments a user made from `start` to `end`, both included, latest first.
    ///
    /// There are 8 to [`MAX_PAYMENTS`] in all, one every four days or so up to yesterday.
    pub fn payments(
        &self,
        user: u32,
        start: Date,
        end: Date,
    ) -> impl Iterator<Item = Bill> + Clone + use<> {
        let mut stream = Stream::new(Purpose::Payments, user, 0);
        let bills = Bills {
            next: 0,
            end: 8 + stream.below(MAX_PAYMENTS - 7, 1).0,
            history: true,
            stream,
        };
        bills.filter(move |bill| start <= bill.date && bill.date <= end)
    }

    /// How many checks a user has written: their numbers are 1 to this one.
    #[inline]
    #[must_use]
    pub const fn checks(&self, user: u32) -> u32 {
        200 + Stream::new(Purpose::Counts, user, 1).below(800, 1).0
    }

    /// The check of this number; `None` if the user has not written it.
    #[must_use]
    pub fn check(&self, user: u32, number: u64) -> Option<Check> {
        let number = u32::try_from(number).ok()?;
        if number == 0 || number > self.checks(user) {
            return None;
        }
        let mut stream = Stream::new(Purpose::Check, user, number);
        let (amount, days) = stream.below(300_000, 700);
        let (payee, memo) = stream.below(PAYEES.len() as u32, MEMOS.len() as u32);
        let (front, back) = stream.below(CHECK_IMAGES, CHECK_IMAGES);
        Some(Check {
            amount: cents(100 + amount),
            date: Date::from_days(TODAY.days() - 1 - days),
            payee: PAYEES[payee as usize],
            memo: MEMOS[memo as usize],
            front: front as u8,
            back: back as u8,
        })
    }

    /// A user's address.
    #[must_use]
    pub fn profile(&self, user: u32) -> Profile {
        let mut stream = Stream::new(Purpose::Profile, user, 0);
        let (house, street) = stream.below(999, STREETS.len() as u32);
        let (city, zip) = stream.below(CITIES.len() as u32, 100);
        let (first_name, phone) = stream.below(FIRST_NAMES.len() as u32, 8_000_000);
        let (city, state, zip_start) = CITIES[city as usize];
        Profile {
            user,
            house: 1 + house,
            street: STREETS[street as usize],
            city,
            state,
            zip: zip_start * 100 + zip,
            first_name: FIRST_NAMES[first_name as usize],
            phone: 2_000_000 + phone,
        }
    }

    /// The MD5 of a user's password `secret-U`.
    #[must_use]
    pub(crate) fn password_md5(&self, user: u32) -> [u8; 16] {
        let mut password = *b"secret-\0\0\0\0\0\0\0\0\0\0";
        let mut digits = [0; 10];
        let mut start = digits.len();
        let mut rest = user;
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let digits = &digits[start..];
        password[7..7 + digits.len()].copy_from_slice(digits);
        Md5::digest(&password[..7 + digits.len()]).into()
    }

    /// The confirmation of command 6, 7, 10 or 11 with these arguments after the user's id, as sent
    /// but decoded.
    #[must_use]
    pub fn confirmation<'a>(
        &self,
        command: u32,
        user: u32,
        arguments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Confirmation {
        let mut hash = ConfirmationHash::new(command, user);
        for argument in arguments {
            argument.iter().for_each(|byte| hash.byte(*byte));
            hash.end_argument();
        }
        hash.finish()
    }

    /// A transfer between two accounts of a user: both with their new balances, as the answer has
    /// them. `None` if either is not the user's, if they are the same, or if the first has not that
    /// much.
    #[must_use]
    pub fn transfer(
        &self,
        user: u32,
        from: u64,
        to: u64,
        amount: Cents,
    ) -> Option<[(u64, Cents); 2]> {
        let balance = |number| {
            let mut accounts = self.accounts(user);
            accounts
                .find(|account| account.number == number)
                .map(|account| account.balance)
        };
        let (from_balance, to_balance) = (balance(from)?, balance(to)?);
        if from == to || amount > from_balance {
            return None;
        }
        Some([
            (from, Cents(from_balance.0 - amount.0)),
            (to, Cents(to_balance.0 + amount.0)),
        ])
    }
}

/// What an account is made of: each for itself, so that several can be made at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountSeed {
    stream: Stream,
    user: u32,
    index: u32,
}

impl AccountSeed {
    #[inline(always)]
    pub(crate) const fn account(self) -> Account {
        let AccountSeed {
            mut stream,
            user,
            index,
        } = self;
        let (balance, kind) = stream.below(9_900_000, 4);
        let (avg_deposit, deposits) = stream.below(250_000, 20);
        let (avg_withdrawal, withdrawals) = stream.below(80_000, 40);
        let (avg_deposit, avg_withdrawal) = (1_000 + avg_deposit, 500 + avg_withdrawal);
        let kind = if index < 2 { index } else { kind };
        Account {
            number: account_number(user, index),
            kind: kind as u8 + 1,
            balance: cents(100_000 + balance),
            deposits: cents(avg_deposit * (1 + deposits)),
            avg_deposit: cents(avg_deposit),
            withdrawals: cents(avg_withdrawal * (1 + withdrawals)),
            avg_withdrawal: cents(avg_withdrawal),
        }
    }
}

/// The least number of an account.
pub(crate) const ACCOUNT_MIN: u64 = 1_000_000_000;

/// The number of a user's account. Distinct for distinct users below 2^29, since `mix32` is a
/// bijection.
#[inline(always)]
const fn account_number(user: u32, index: u32) -> u64 {
    ACCOUNT_MIN + mix32((user << 3) | index) as u64
}

/// Amounts are made as 32 bits.
#[inline(always)]
const fn cents(value: u32) -> Cents {
    Cents(value as i64)
}

impl Iterator for Bills {
    type Item = Bill;

    #[inline]
    fn next(&mut self) -> Option<Bill> {
        if self.next == self.end {
            return None;
        }
        let (payee, amount) = self.stream.below(9_000_000, 150_000);
        let days = if self.history {
            let (late, _) = self.stream.below(PAYMENT_DAYS, 1);
            TODAY.days() - 1 - self.next * PAYMENT_DAYS - late
        } else {
            let (days, _) = self.stream.below(DUE_DAYS_MAX, 1);
            TODAY.days() + 1 + days
        };
        self.next += 1;
        Some(Bill {
            payee: 1_000_000 + payee,
            date: Date::from_days(days),
            amount: cents(500 + amount),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Bills {}

/// Takes a confirmation's arguments a byte at a time: FNV-1a, with a mixing where an argument ends,
/// so that `a`, `bc` and `ab`, `c` differ.
pub(crate) struct ConfirmationHash {
    prefix: [u8; 2],
    state: u64,
}

impl ConfirmationHash {
    pub(crate) const fn new(command: u32, user: u32) -> ConfirmationHash {
        let prefix = match command {
            6 => *b"PA",
            7 => *b"QP",
            10 => *b"PR",
            _ => *b"CO",
        };
        let state = Stream::new(Purpose::Confirmation, user, command).bits();
        ConfirmationHash { prefix, state }
    }

    #[inline]
    pub(crate) const fn byte(&mut self, byte: u8) {
        self.state = (self.state ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }

    #[inline]
    pub(crate) const fn end_argument(&mut self) {
        self.state = mix64(self.state);
    }

    pub(crate) const fn finish(self) -> Confirmation {
        Confirmation {
            prefix: self.prefix,
            bits: mix64(self.state) >> 16,
        }
    }
}

impl Confirmation {
    /// The confirmation as text: `QP-0123456789AB`.
    #[must_use]
    pub fn text(&self) -> [u8; 15] {
        let mut text = [b'-'; 15];
        text[..2].copy_from_slice(&self.prefix);
        for (i, digit) in text[3..].iter_mut().enumerate() {
            *digit = b"0123456789ABCDEF"[(self.bits >> (44 - 4 * i)) as usize & 15];
        }
        text
    }
}
