//! The protocol: a query in, the body of an answer out.
//!
//! A query is `1&command&argument&...` ([`crate::query`]). A body is `<pre>`, a line with the
//! status (0 good, 1 bad), a line for each row with its columns joined by `&`, and `</pre>`.
//! Whatever a query is, it gets an answer: a bad one has status 1 and one row that says why.

use crate::bank::{Bank, Bill, ConfirmationHash};
use crate::command::Command;
use crate::line::Line;
use crate::money::digits;
use crate::query::{Query, Refusal};

/// Where the cells of rows go, one after the other.
pub(crate) trait Cells {
    /// A cell: what `write` appends.
    fn cell(&mut self, write: impl FnOnce(&mut Vec<u8>));

    /// Ends the row.
    fn end_row(&mut self);
}

/// The rows of a body.
struct Body<'a>(&'a mut Vec<u8>);

impl Cells for Body<'_> {
    fn cell(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.0);
        self.0.push(b'&');
    }

    fn end_row(&mut self) {
        if let Some(last) = self.0.last_mut() {
            *last = b'\n';
        }
    }
}

impl Bank {
    /// Appends the body of the answer to `query`, what stands after the `?` of a request.
    pub fn answer(&self, query: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(b"<pre>\n0\n");
        let written = Query::parse(query).and_then(|query| self.write_rows(&query, out));
        if let Err(why) = written {
            out.truncate(start);
            out.extend_from_slice(b"<pre>\n1\n");
            out.extend_from_slice(why.as_bytes());
            out.push(b'\n');
        }
        out.extend_from_slice(b"</pre>\n");
    }

    fn write_rows(&self, query: &Query<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let Some(user) = self.user(query)? else {
            return Ok(());
        };
        match query.command() {
            2 => self.write_balances(user, out),
            3 => self.write_summary(user, out),
            5 => write_bills(self.bills(user), out),
            8 => {
                let [start, end] = [query.arguments()[1].date()?, query.arguments()[2].date()?];
                write_bills(self.payments(user, start, end), out);
            }
            _ => return self.write_cells(user, query, &mut Body(out)),
        }
        Ok(())
    }

    /// The user that a sound query asks for; none where its command asks for nothing.
    ///
    /// # Errors
    /// What is wrong with the command, the number of arguments, or the user.
    pub(crate) fn user(&self, query: &Query<'_>) -> Result<Option<u32>, Refusal> {
        if query.command() == 0 {
            return Ok(None);
        }
        let command = Command::of(query.command()).ok_or("unknown command")?;
        if query.count() != command.arguments.len() {
            return Err("wrong number of arguments");
        }
        (query.arguments()[0].number())
            .filter(|user| self.has(*user))
            .and_then(|user| u32::try_from(user).ok())
            .map(Some)
            .ok_or("no such user")
    }

    /// Writes the rows of the commands whose answers have but one or two.
    pub(crate) fn write_cells(
        &self,
        user: u32,
        query: &Query<'_>,
        out: &mut impl Cells,
    ) -> Result<(), Refusal> {
        match query.command() {
            1 => self.write_password(user, out),
            4 => return self.write_check(user, query, out),
            9 => self.write_profile(user, out),
            6 | 7 | 10 | 11 => return self.write_confirmation(user, query, out),
            _ => return self.write_transfer(user, query, out),
        }
        Ok(())
    }

    fn write_password(&self, user: u32, out: &mut impl Cells) {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
        let mut text = [0; 32];
        for (byte, pair) in self.password_md5(user).iter().zip(text.chunks_exact_mut(2)) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        out.cell(|out| out.extend_from_slice(&text));
        out.end_row();
    }

    fn write_balances(&self, user: u32, out: &mut Vec<u8>) {
        let mut line = Line::new();
        for account in self.accounts(user) {
            line.account(&account);
            line.amount(account.balance);
            line.end(out);
        }
    }

    fn write_summary(&self, user: u32, out: &mut Vec<u8>) {
        let mut line = Line::new();
        for account in self.accounts(user) {
            line.account(&account);
            line.amount(account.balance);
            line.amount(account.deposits);
            line.amount(account.avg_deposit);
            line.amount(account.withdrawals);
            line.amount(account.avg_withdrawal);
            line.end(out);
        }
    }

    fn write_check(
        &self,
        user: u32,
        query: &Query<'_>,
        out: &mut impl Cells,
    ) -> Result<(), Refusal> {
        let check = (query.arguments()[1].number())
            .and_then(|number| self.check(user, number))
            .ok_or("no such check")?;
        out.cell(|out| check.write_detail(out));
        out.cell(|out| check.write_front(out));
        out.cell(|out| check.write_back(out));
        out.end_row();
        Ok(())
    }

    fn write_profile(&self, user: u32, out: &mut impl Cells) {
        let profile = self.profile(user);
        out.cell(|out| profile.write_street(out));
        out.cell(|out| out.extend_from_slice(profile.city.as_bytes()));
        out.cell(|out| out.extend_from_slice(profile.state.as_bytes()));
        out.cell(|out| out.extend_from_slice(&profile.zip_text()));
        out.cell(|out| profile.write_email(out));
        out.cell(|out| profile.write_phone(out));
        out.end_row();
    }

    fn write_confirmation(
        &self,
        user: u32,
        query: &Query<'_>,
        out: &mut impl Cells,
    ) -> Result<(), Refusal> {
        let arguments = query.arguments();
        let mut hash = ConfirmationHash::new(query.command(), user);
        for argument in &arguments[1..] {
            argument.each_byte(|byte| hash.byte(byte))?;
            hash.end_argument();
        }
        match query.command() {
            6 => drop(arguments[1].number().ok_or("no such payee")?),
            7 => {
                arguments[1].number().ok_or("no such payee")?;
                arguments[2].date()?;
                arguments[3].amount()?;
            }
            11 => {
                let account = arguments[1].number().ok_or("no such account")?;
                if !self.accounts(user).any(|own| own.number == account) {
                    return Err("no such account");
                }
                arguments[2].date()?;
                (arguments[3].number())
                    .filter(|checks| (1..=9999).contains(checks))
                    .ok_or("bad number of checks")?;
            }
            _ => {}
        }
        out.cell(|out| out.extend_from_slice(&hash.finish().text()));
        out.end_row();
        Ok(())
    }

    fn write_transfer(
        &self,
        user: u32,
        query: &Query<'_>,
        out: &mut impl Cells,
    ) -> Result<(), Refusal> {
        let arguments = query.arguments();
        let account = |at: usize| arguments[at].number().ok_or("no such account");
        let amount = arguments[3].amount()?;
        arguments[4].date()?;
        let rows = self
            .transfer(user, account(1)?, account(2)?, amount)
            .ok_or("transfer refused")?;
        for (number, balance) in rows {
            out.cell(|out| out.extend_from_slice(&digits::<10>(number)));
            out.cell(|out| balance.write(out));
            out.end_row();
        }
        Ok(())
    }
}

/// The columns of commands 5 and 8.
fn write_bills(bills: impl Iterator<Item = Bill>, out: &mut Vec<u8>) {
    let mut line = Line::new();
    for bill in bills {
        line.bytes(bill.payee_text());
        line.bytes(*b"&");
        line.bytes(bill.date.text());
        line.amount(bill.amount);
        line.end(out);
    }
}

#[cfg(test)]
mod tests;
