//! The protocol: a query in, the body of an answer out.
//!
//! A query is `1&command&argument&...` ([`crate::query`]). A body is `<pre>`, a line with the
//! status (0 good, 1 bad), a line for each row with its columns joined by `&`, and `</pre>`.
//! Whatever a query is, it gets an answer: a bad one has status 1 and one row that says why.

use crate::bank::{Bank, Bill, ConfirmationHash, digits};
use crate::command::Command;
use crate::line::Line;
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
mod tests {
    use super::*;
    use crate::bank::{MAX_ACCOUNTS, MAX_BILLS, MAX_PAYMENTS, TODAY};
    use crate::money::Cents;

    const BANK: Bank = Bank::new(100_000);

    fn answer(query: &str) -> String {
        let mut out = b"before".to_vec();
        BANK.answer(query.as_bytes(), &mut out);
        String::from_utf8(out)
            .unwrap()
            .strip_prefix("before")
            .unwrap()
            .to_owned()
    }

    /// The rows of an answer of status 0.
    fn rows(query: &str) -> Vec<Vec<String>> {
        let answer = answer(query);
        let block = answer
            .strip_prefix("<pre>\n0\n")
            .and_then(|rest| rest.strip_suffix("</pre>\n"));
        let block = block.unwrap_or_else(|| panic!("{query}: {answer}"));
        block
            .lines()
            .map(|line| line.split('&').map(str::to_owned).collect())
            .collect()
    }

    fn refusal(query: &str) -> String {
        let answer = answer(query);
        let block = answer
            .strip_prefix("<pre>\n1\n")
            .and_then(|rest| rest.strip_suffix("\n</pre>\n"));
        block
            .unwrap_or_else(|| panic!("{query}: {answer}"))
            .to_owned()
    }

    /// Users at both ends and many between.
    fn users() -> impl Iterator<Item = u32> {
        (1..=500)
            .chain((501..99_999).step_by(97))
            .chain([99_999, 100_000])
    }

    #[test]
    fn some_answers() {
        let queries = [
            "1&0&1000&100000",
            "1&1&7",
            "1&2&7",
            "1&3&7",
            "1&4&7&1",
            "1&5&7",
            "1&6&7&42&Joe&1+Elm%20St&Salem&OR&97301&555",
            "1&7&7&1234567&2026-01-20&12.50",
            "1&8&7&2025-12-16&2026-01-15",
            "1&9&7",
            "1&10&7&1+Elm%20St&Salem&OR&97301&a%40b.example&555",
            "1&9&100000",
            "1&9&0",
            "1&5&",
        ];
        let mut all = String::new();
        for query in queries {
            all += &format!("{query}\n{}", answer(query));
        }
        let expected = include_str!("answers.txt");
        assert!(all == expected, "answers changed:\n{all}");
    }

    #[test]
    fn passwords() {
        assert_eq!(rows("1&1&7"), [["dbf60ed9f736cbeb51800e6021b73379"]]);
        assert_eq!(rows("1&1&100000"), [["a004bd305f61636054a70bbfbdc8fa9a"]]);
    }

    #[test]
    fn account_rows_agree_and_are_in_range() {
        let mut numbers = std::collections::HashSet::new();
        let mut counts = [0; MAX_ACCOUNTS as usize + 1];
        for user in users() {
            let (balances, summary) = (rows(&format!("1&2&{user}")), rows(&format!("1&3&{user}")));
            counts[summary.len()] += 1;
            assert_eq!(balances.len(), summary.len());
            for (index, (balance, row)) in balances.iter().zip(&summary).enumerate() {
                assert_eq!(balance[..], row[..3]);
                assert_eq!(row.len(), 7);
                assert_eq!(row[0].len(), 10);
                assert!(numbers.insert(row[0].clone()), "account {} twice", row[0]);
                let kind: usize = row[1].parse().unwrap();
                assert!(
                    row[1].len() == 2
                        && (kind == index + 1 || index >= 2 && (1..=4).contains(&kind))
                );
                let cents = |i: usize| Cents::parse(row[i].as_bytes()).unwrap().0;
                assert!((100_000..10_000_000).contains(&cents(2)));
                assert!(cents(3) % cents(4) == 0 && (1..=20).contains(&(cents(3) / cents(4))));
                assert!(cents(5) % cents(6) == 0 && (1..=40).contains(&(cents(5) / cents(6))));
            }
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|count| *count > 100), "{counts:?}");
    }

    #[test]
    fn bills_are_due_and_payments_are_past() {
        let today = TODAY.to_string();
        for user in users() {
            let bills = rows(&format!("1&5&{user}"));
            assert!((2..=MAX_BILLS as usize).contains(&bills.len()));
            for row in &bills {
                assert!(
                    row.len() == 3
                        && row[0].len() == 7
                        && row[1] > today
                        && row[1].as_str() <= "2026-02-12"
                );
            }
            let all = rows(&format!("1&8&{user}&1970-01-01&9999-12-31"));
            assert!((8..=MAX_PAYMENTS as usize).contains(&all.len()));
            assert!(
                all.windows(2).all(|pair| pair[0][1] > pair[1][1]),
                "latest first"
            );
            assert!(all[0][1] < today);
            let (first, last) = (all[5][1].clone(), all[2][1].clone());
            assert_eq!(rows(&format!("1&8&{user}&{first}&{last}")), all[2..=5]);
            assert!(rows(&format!("1&8&{user}&{last}&{first}")).is_empty());
        }
    }

    #[test]
    fn checks_have_numbers_from_one_on() {
        let mut images = std::collections::HashSet::new();
        for user in users() {
            let last = BANK.checks(user);
            assert!((200..1000).contains(&last));
            for number in [1, 2, last] {
                let check = &rows(&format!("1&4&{user}&{number}"))[0];
                assert_eq!(check.len(), 3);
                images.extend(check[1..].iter().cloned());
            }
            for number in ["0", &(last + 1).to_string(), "4294967297", "x", "-1", ""] {
                assert_eq!(refusal(&format!("1&4&{user}&{number}")), "no such check");
            }
        }
        let all = (0..10).flat_map(|k| {
            [
                format!("checks/front_{k}.png"),
                format!("checks/back_{k}.png"),
            ]
        });
        assert_eq!(images, all.collect());
    }

    #[test]
    fn confirmations_depend_on_everything_sent() {
        let base = "1&6&7&42&Joe&1+Elm%20St&Salem&OR&97301&555";
        assert_eq!(rows(base), rows(&base.replace('+', "%20")));
        let sent: [&[u8]; 7] = [
            b"42",
            b"Joe",
            b"1 Elm St",
            b"Salem",
            b"OR",
            b"97301",
            b"555",
        ];
        assert_eq!(
            rows(base)[0][0].as_bytes(),
            BANK.confirmation(6, 7, sent).text()
        );
        let mut seen = std::collections::HashSet::from([rows(base)]);
        for (from, to) in [
            ("&7&", "&8&"),
            ("&42&", "&43&"),
            ("Joe", "joe"),
            ("Joe&1", "Jo&e1"),
            ("555", "556"),
        ] {
            assert!(
                seen.insert(rows(&base.replacen(from, to, 1))),
                "{from} and {to} are the same"
            );
        }
        assert_eq!(refusal(&base.replace("Joe", "")), "empty argument");
        assert_eq!(refusal(&base.replace("42", "4x")), "no such payee");
        for bad in ["%", "%4", "%4g", "a%zz"] {
            assert_eq!(refusal(&base.replace("Joe", bad)), "malformed argument");
        }
        let order = |account: u64, rest: &str| format!("1&11&7&{account}&{rest}");
        let account = BANK.accounts(7).next().unwrap().number;
        assert_eq!(rows(&order(account, "2026-01-15&100")).len(), 1);
        assert_eq!(
            refusal(&order(account + 1, "2026-01-15&100")),
            "no such account"
        );
        assert_eq!(
            refusal(&order(account, "2026-01-15&0")),
            "bad number of checks"
        );
        assert_eq!(refusal(&order(account, "2026-01-32&1")), "bad date");
        assert_eq!(refusal("1&7&7&1&2026-01-20&1.234"), "bad amount");
    }

    #[test]
    fn transfers_move_money_between_own_accounts() {
        let user = users()
            .find(|user| BANK.accounts(*user).len() >= 2)
            .unwrap();
        let accounts: Vec<_> = BANK.accounts(user).collect();
        let (from, to) = (accounts[0], accounts[1]);
        let query = |from: u64, to: u64, amount: Cents| {
            format!("1&12&{user}&{from}&{to}&{amount}&2026-01-15")
        };
        let moved = rows(&query(from.number, to.number, Cents(12_34)));
        assert_eq!(
            moved[0],
            [
                from.number.to_string(),
                Cents(from.balance.0 - 12_34).to_string()
            ]
        );
        assert_eq!(
            moved[1],
            [
                to.number.to_string(),
                Cents(to.balance.0 + 12_34).to_string()
            ]
        );
        assert_eq!(
            rows(&query(from.number, to.number, from.balance))[0][1],
            "0.00"
        );
        let too_much = Cents(from.balance.0 + 1);
        assert_eq!(
            refusal(&query(from.number, to.number, too_much)),
            "transfer refused"
        );
        assert_eq!(
            refusal(&query(from.number, from.number, Cents(1))),
            "transfer refused"
        );
        assert_eq!(
            refusal(&query(from.number, 1, Cents(1))),
            "transfer refused"
        );
    }

    #[test]
    fn no_value_upsets_the_protocol_and_some_need_escaping() {
        let mut special = 0;
        for user in users() {
            for query in [format!("1&9&{user}"), format!("1&4&{user}&5")] {
                let row = rows(&query);
                let columns = if query.starts_with("1&9") { 6 } else { 3 };
                assert!(row.len() == 1 && row[0].len() == columns, "{row:?}");
                for value in &row[0] {
                    assert!(
                        value
                            .bytes()
                            .all(|b| (b' '..0x7f).contains(&b) && b != b'<')
                    );
                    special += u32::from(value.contains(['\'', '"']));
                }
            }
        }
        assert!(special > 100);
    }

    #[test]
    fn bad_queries_are_refused() {
        for query in [
            "",
            "1",
            "1&",
            "1&x&7",
            "1&13&7",
            "1&4294967299&7",
            "1&-3&7",
            "1&99999999999999999999&7",
        ] {
            assert!(
                refusal(query).starts_with("unknown command") || query.is_empty(),
                "{query}"
            );
        }
        for query in ["", "2&3&7", "&1&3&7", "01&3&7", "%31&3&7"] {
            assert_eq!(refusal(query), "unknown workload", "{query}");
        }
        for query in [
            "1&3",
            "1&3&7&",
            "1&12&7",
            "1&6&7&1&a&b&c&d&e&f&g",
            "1&8&7&2026-01-01",
        ] {
            assert_eq!(refusal(query), "wrong number of arguments", "{query}");
        }
        for user in [
            "",
            "0",
            "100001",
            "x",
            "-1",
            "+1",
            "1.0",
            " 1",
            "4294967303",
            "99999999999999999999",
        ] {
            assert_eq!(refusal(&format!("1&3&{user}")), "no such user", "{user}");
        }
        assert_eq!(rows("1&0&12345&100"), Vec::<Vec<String>>::new());
    }
}
