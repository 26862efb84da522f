//! What a page must show, said by the same function that BeSim is.
//!
//! Every value a page shows from BeSim stands in an element of its own with `data-f="NAME"`. So a
//! page's values are a sequence of names and texts, and [`Expected`] holds the sequence that must
//! be there. It is kept as bytes in one buffer that is used again, `name UNIT-SEPARATOR text LF`
//! for each value; neither byte occurs in a value.

use rhythm_besim::{Bank, Bill, Check, Date};

/// Between a name and its text.
pub(crate) const AFTER_NAME: u8 = 0x1f;

/// After a text.
pub(crate) const AFTER_TEXT: u8 = b'\n';

/// A page that must come: its name and its values in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// What `data-page` must say.
    pub(crate) page: &'static str,
    pub(crate) values: Vec<u8>,
}

impl Expected {
    /// Expects a page, so far without values.
    pub(crate) fn page(&mut self, page: &'static str) {
        self.page = page;
        self.values.clear();
    }

    /// Expects a value whose text `write` appends.
    pub(crate) fn written(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.values.extend_from_slice(name.as_bytes());
        self.values.push(AFTER_NAME);
        write(&mut self.values);
        self.values.push(AFTER_TEXT);
    }

    /// Expects a value.
    pub(crate) fn value(&mut self, name: &str, text: &[u8]) {
        self.written(name, |values| values.extend_from_slice(text));
    }

    /// The values still expected, as pairs; for messages about what is missing.
    pub(crate) fn next_value(rest: &[u8]) -> Option<(&[u8], &[u8])> {
        let name_end = memchr::memchr(AFTER_NAME, rest)?;
        let text_end = memchr::memchr(AFTER_TEXT, rest)?;
        Some((rest.get(..name_end)?, rest.get(name_end + 1..text_end)?))
    }

    /// Number, type and balance of each account: on the welcome page and the forms for transfers
    /// and checks.
    pub(crate) fn balances(&mut self, bank: &Bank, user: u32) {
        for account in bank.accounts(user) {
            self.value("account", &account.number_text());
            self.value("kind", &account.kind_text());
            self.written("balance", |out| account.balance.write(out));
        }
    }

    /// All columns of the accounts.
    pub(crate) fn account_summary(&mut self, bank: &Bank, user: u32) {
        for account in bank.accounts(user) {
            self.value("account", &account.number_text());
            self.value("kind", &account.kind_text());
            self.written("balance", |out| account.balance.write(out));
            self.written("deposits", |out| account.deposits.write(out));
            self.written("avg_deposit", |out| account.avg_deposit.write(out));
            self.written("withdrawals", |out| account.withdrawals.write(out));
            self.written("avg_withdrawal", |out| account.avg_withdrawal.write(out));
        }
    }

    /// Bills or payments.
    pub(crate) fn bills(&mut self, bills: impl Iterator<Item = Bill>) {
        for bill in bills {
            self.value("payee", &bill.payee_text());
            self.value("date", &bill.date.text());
            self.written("amount", |out| bill.amount.write(out));
        }
    }

    /// The payments between two days.
    pub(crate) fn payments(&mut self, bank: &Bank, user: u32, start: Date, end: Date) {
        self.bills(bank.payments(user, start, end));
    }

    /// A check.
    pub(crate) fn check(&mut self, number: u32, check: &Check) {
        self.written("check_no", |out| {
            out.extend_from_slice(number.to_string().as_bytes())
        });
        self.written("detail", |out| check.write_detail(out));
    }

    /// The address.
    pub(crate) fn profile(&mut self, bank: &Bank, user: u32) {
        let profile = bank.profile(user);
        self.written("street", |out| profile.write_street(out));
        self.value("city", profile.city.as_bytes());
        self.value("state", profile.state.as_bytes());
        self.value("zip", &profile.zip_text());
        self.written("email", |out| profile.write_email(out));
        self.written("phone", |out| profile.write_phone(out));
    }
}
