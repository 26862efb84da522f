//! Answers to many queries at once, in columns.
//!
//! A [`Table`] takes queries of one command one by one and has their rows column by column, each
//! cell a range of one text. They are the rows that [`Bank::answer`] writes. Where answers are
//! lists, a query leaves numbers in typed columns, and [`Table::finish`] makes the texts of a
//! whole column at once, several values an instruction; texts of a column are of one size, and
//! zeros in front stand outside of the cells. What has been written is not read again.

mod text;

use crate::answer::Cells;
use crate::bank::{ACCOUNT_MIN, AccountSeed, Bank, Bill};
use crate::query::{Query, Refusal};
use core::ops::Range;
use rhythm_protocol::scan::{Level, Simd, Task};
use text::{account_text, amount_text, day_text, eight_digits, leading_zeros};

/// Where a cell is among a table's texts.
type CellRange = Range<u32>;

/// The answer to a query that is refused: its status, and no rows.
const REFUSED: (i64, u32) = (1, 0);

/// Rows of answers. See the module's text.
#[derive(Debug, Default)]
pub struct Table {
    values: Values,
    /// Status and number of rows, by query.
    answers: Vec<(i64, u32)>,
    texts: Texts,
}

/// Values of rows that are not text yet; which of them are in use depends on the command.
#[derive(Debug, Default)]
struct Values {
    /// What accounts are made of, and then by how much their numbers are above the least, and
    /// their types.
    seeds: Vec<AccountSeed>,
    accounts: Vec<u32>,
    kinds: Vec<u8>,
    /// Whether the totals of accounts are wanted.
    has_totals: bool,
    /// Numbers of payees, and days since 1970.
    payees: Vec<u32>,
    days: Vec<u32>,
    /// Amounts in cents, column by column.
    amounts: [Vec<u32>; 5],
}

/// Texts, and which of them are cells, column by column.
#[derive(Debug, Default)]
struct Texts {
    /// As far as they are `written`; what is behind is memory for more, whatever is in it.
    text: Vec<u8>,
    written: usize,
    columns: Vec<Vec<CellRange>>,
    /// How many columns are in use.
    width: usize,
    /// Column of the next cell of the row under way.
    next: usize,
}

impl Table {
    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.answers.clear();
        self.texts.written = 0;
        self.texts.columns.iter_mut().for_each(Vec::clear);
        self.texts.width = 0;
    }

    /// Adds the answer to a query, of the same command as all since the table was empty.
    pub fn add(&mut self, bank: &Bank, query: &Query<'_>) {
        let answer = match self.rows(bank, query) {
            Ok(rows) => (0, rows as u32),
            Err(_) => REFUSED,
        };
        self.answers.push(answer);
    }

    /// [`Table::add`] for the text of a query.
    pub fn add_text(&mut self, bank: &Bank, query: &[u8]) {
        match Query::parse(query) {
            Ok(query) => self.add(bank, &query),
            Err(_) => self.answers.push(REFUSED),
        }
    }

    /// Adds a query's rows, and gives how many they are.
    fn rows(&mut self, bank: &Bank, query: &Query<'_>) -> Result<usize, Refusal> {
        let Some(user) = bank.user(query)? else {
            return Ok(0);
        };
        Ok(match query.command() {
            command @ (2 | 3) => {
                let seeds = Bank::account_seeds(user);
                let rows = seeds.len();
                self.values.seeds.extend(seeds);
                self.values.has_totals = command == 3;
                rows
            }
            5 => self.values.bills(bank.bills(user)),
            8 => {
                let [start, end] = [query.arguments()[1].date()?, query.arguments()[2].date()?];
                self.values.bills(bank.payments(user, start, end))
            }
            _ => {
                let rows = |texts: &Texts| texts.columns.first().map_or(0, Vec::len);
                let before = rows(&self.texts);
                bank.write_cells(user, query, &mut self.texts)?;
                rows(&self.texts) - before
            }
        })
    }

    /// Makes texts of what is none yet. Nothing is added afterwards.
    pub fn finish(&mut self) {
        if !self.values.seeds.is_empty() {
            Level::active().run(Accounts(&mut self.values));
        }
        let (values, texts) = (&self.values, &mut self.texts);
        let mut amounts = &values.amounts[..];
        if !values.seeds.is_empty() {
            texts.column(&values.accounts, account_text, |_| 6);
            texts.kinds(&values.kinds);
            amounts = if values.has_totals {
                amounts
            } else {
                &amounts[..1]
            };
        } else if !values.payees.is_empty() {
            texts.column(&values.payees, eight_digits, |_| 1);
            texts.column(&values.days, day_text, |_| 0);
            amounts = &amounts[..1];
        } else {
            return;
        }
        for amounts in amounts {
            texts.column(amounts, amount_text, leading_zeros);
        }
    }

    /// Of each query the status of its answer (0 good, 1 bad) and how many rows that has.
    pub fn answers(&self) -> &[(i64, u32)] {
        &self.answers
    }

    /// The texts of all cells, and what stands between them.
    pub fn text(&self) -> &[u8] {
        &self.texts.text[..self.texts.written]
    }

    /// Of each column, where its cells are in the text, row by row.
    pub fn columns(&self) -> &[Vec<Range<u32>>] {
        &self.texts.columns[..self.texts.width]
    }
}

impl Values {
    fn clear(&mut self) {
        self.seeds.clear();
        self.payees.clear();
        self.days.clear();
        self.amounts[0].clear();
    }

    /// Adds the rows of bills or payments, and gives how many they are.
    fn bills(&mut self, bills: impl Iterator<Item = Bill>) -> usize {
        let before = self.payees.len();
        for bill in bills {
            self.payees.push(bill.payee);
            self.days.push(bill.date.days());
            self.amounts[0].push(bill.amount.0 as u32);
        }
        self.payees.len() - before
    }
}

/// Makes the columns of accounts from their seeds.
struct Accounts<'a>(&'a mut Values);

impl Task for Accounts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, _: L) {
        let Values {
            seeds,
            accounts,
            kinds,
            amounts,
            ..
        } = self.0;
        let count = seeds.len();
        accounts.resize(count, 0);
        kinds.resize(count, 0);
        let [
            balances,
            deposits,
            avg_deposits,
            withdrawals,
            avg_withdrawals,
        ] = amounts.each_mut().map(|amounts| {
            amounts.resize(count, 0);
            &mut amounts[..count]
        });
        let (accounts, kinds) = (&mut accounts[..count], &mut kinds[..count]);
        for (row, seed) in seeds.iter().enumerate() {
            let account = seed.account();
            accounts[row] = (account.number - ACCOUNT_MIN) as u32;
            kinds[row] = account.kind;
            balances[row] = account.balance.0 as u32;
            deposits[row] = account.deposits.0 as u32;
            avg_deposits[row] = account.avg_deposit.0 as u32;
            withdrawals[row] = account.withdrawals.0 as u32;
            avg_withdrawals[row] = account.avg_withdrawal.0 as u32;
        }
    }
}

impl Texts {
    /// The cells of the next column, none yet, and where the next text will be.
    fn next_column(&mut self) -> (&mut Vec<CellRange>, u32) {
        if self.width == self.columns.len() {
            self.columns.push(Vec::new());
        }
        self.width += 1;
        (&mut self.columns[self.width - 1], self.written as u32)
    }

    /// Memory for the next so many bytes, which are to be written.
    fn next_bytes(&mut self, count: usize) -> &mut [u8] {
        let start = self.written;
        self.written += count;
        if self.text.len() < self.written {
            self.text.resize(self.written, 0);
        }
        &mut self.text[start..self.written]
    }

    /// Makes a column of values: `write` gives a value's text, `skip` what of its start is no part
    /// of the cell.
    fn column<T: Copy, const N: usize>(
        &mut self,
        values: &[T],
        write: impl Fn(T) -> [u8; N],
        skip: impl Fn(T) -> u32,
    ) {
        let start = self.written;
        self.next_bytes(N * values.len());
        self.next_column();
        Level::active().run(ColumnTexts {
            values,
            start: start as u32,
            texts: &mut self.text[start..self.written],
            cells: &mut self.columns[self.width - 1],
            write,
            skip,
        });
    }

    /// Makes the column of types, two digits each: all of them are there once.
    fn kinds(&mut self, kinds: &[u8]) {
        let (cells, start) = self.next_column();
        cells.extend(kinds.iter().map(|kind| {
            let start = start + 2 * (u32::from(*kind) - 1);
            start..start + 2
        }));
        let all = b"01020304";
        self.next_bytes(all.len()).copy_from_slice(all);
    }
}

impl Cells for Texts {
    fn cell(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.written as u32;
        self.text.truncate(self.written);
        write(&mut self.text);
        self.written = self.text.len();
        let end = self.written as u32;
        if self.next == self.width {
            self.next_column();
        }
        self.columns[self.next].push(start..end);
        self.next += 1;
    }

    fn end_row(&mut self) {
        self.next = 0;
    }
}

/// The texts and cells of a column's values, several at once.
struct ColumnTexts<'a, T, W, S> {
    values: &'a [T],
    texts: &'a mut [u8],
    /// Where `texts` begin among all.
    start: u32,
    cells: &'a mut Vec<CellRange>,
    write: W,
    skip: S,
}

impl<T, const N: usize, W, S> Task for ColumnTexts<'_, T, W, S>
where
    T: Copy,
    W: Fn(T) -> [u8; N],
    S: Fn(T) -> u32,
{
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, _: L) {
        for (text, value) in self.texts.as_chunks_mut().0.iter_mut().zip(self.values) {
            *text = (self.write)(*value);
        }
        self.cells
            .extend(self.values.iter().zip(0..).map(|(value, row)| {
                let start = self.start + row * N as u32;
                start + (self.skip)(*value)..start + N as u32
            }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Argument;

    const BANK: Bank = Bank::new(100_000);

    /// The bodies of answers to queries of one command, as the table has them.
    fn bodies(table: &Table) -> Vec<String> {
        let text = |cell: &CellRange| {
            let bytes = &table.text()[cell.start as usize..cell.end as usize];
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        let mut row = 0;
        let mut bodies = Vec::new();
        for &(status, rows) in table.answers() {
            let mut body = format!("<pre>\n{status}\n");
            for row in row..row + rows as usize {
                let cells: Vec<_> = table
                    .columns()
                    .iter()
                    .map(|cells| text(&cells[row]))
                    .collect();
                body += &(cells.join("&") + "\n");
            }
            row += rows as usize;
            bodies.push(body + "</pre>\n");
        }
        assert!(table.columns().iter().all(|cells| cells.len() == row));
        bodies
    }

    #[test]
    fn answers_are_those_of_the_text_form() {
        let arguments = [
            "&1000",
            "",
            "",
            "",
            "&5",
            "",
            "&42&Joe&1%20Elm%20St&Salem&OR&97301&555",
            "&1234567&2026-01-20&12.50",
            "&2025-11-02&2026-01-10",
            "",
            "&1&Salem&OR&97301&a%40b.example&555",
            "&1234567890&2026-01-15&3",
            "&1&2&3&2026-01-15",
            "",
        ];
        let mut table = Table::default();
        // Each is followed by one with more columns, and by one with fewer.
        let commands = arguments.iter().enumerate();
        for (command, arguments) in commands.clone().chain(commands.rev()) {
            // Some exist, and one does not; the table is used again for fewer.
            for users in [0..300, 99_990..100_002, 7..8] {
                let queries = users.map(|user| format!("1&{command}&{user}{arguments}"));
                let queries: Vec<_> = queries.collect();
                let mut expected = Vec::new();
                table.clear();
                for query in &queries {
                    let mut body = Vec::new();
                    BANK.answer(query.as_bytes(), &mut body);
                    let body = String::from_utf8(body).unwrap();
                    expected.push(match body.starts_with("<pre>\n0") {
                        true => body,
                        false => "<pre>\n1\n</pre>\n".to_owned(),
                    });
                    table.add(
                        &BANK,
                        &Query::parse(query.as_bytes()).unwrap_or(Query::new(99, [])),
                    );
                }
                table.finish();
                assert_eq!(bodies(&table), expected, "command {command}");
            }
        }
    }

    #[test]
    fn transfers_and_orders_of_whole_cohorts() {
        let users = (1..500).filter(|user| BANK.accounts(*user).len() >= 2);
        let mut table = Table::default();
        let mut expected = Vec::new();
        for user in users {
            let accounts: Vec<_> = BANK.accounts(user).map(|a| a.number as i64).collect();
            let date = Argument::Text(b"2026-01-15");
            let [user, from, to] = [i64::from(user), accounts[0], accounts[1]].map(Argument::Int);
            table.add(
                &BANK,
                &Query::new(12, [user, from, to, Argument::Int(3), date]),
            );
            let text = |argument| match argument {
                Argument::Int(value) => value,
                _ => 0,
            };
            let query = format!(
                "1&12&{}&{}&{}&3&2026-01-15",
                text(user),
                text(from),
                text(to)
            );
            let mut body = Vec::new();
            BANK.answer(query.as_bytes(), &mut body);
            expected.push(String::from_utf8(body).unwrap());
        }
        table.finish();
        assert_eq!(bodies(&table), expected);
    }
}
