//! The commands: what each takes, and what it answers.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its number, as queries name it.
    pub number: u32,
    /// What its arguments are, the user's id first.
    pub arguments: &'static [&'static str],
    /// Which rows it answers.
    pub rows: &'static str,
    /// What each row's columns are.
    pub columns: &'static [&'static str],
}

const ID: &str = "user's id";

/// All commands, by their numbers from 1 on.
const COMMANDS: [Command; 12] = [
    command(1, &[ID], "one", &["MD5 of the password"]),
    command(2, &[ID], "an account each", &["number", "kind", "balance"]),
    command(
        3,
        &[ID],
        "an account each",
        &[
            "number",
            "kind",
            "balance",
            "deposits",
            "average deposit",
            "withdrawals",
            "average withdrawal",
        ],
    ),
    command(
        4,
        &[ID, "number of a check"],
        "one",
        &["what it says", "image of its front", "of its back"],
    ),
    command(
        5,
        &[ID],
        "a bill to be paid each",
        &["payee", "date", "amount"],
    ),
    command(
        6,
        &[
            ID, "payee", "name", "street", "city", "state", "zip", "phone",
        ],
        "one",
        &["confirmation"],
    ),
    command(
        7,
        &[ID, "payee", "date", "amount"],
        "one",
        &["confirmation"],
    ),
    command(
        8,
        &[ID, "first day", "last day"],
        "a payment each",
        &["payee", "date", "amount"],
    ),
    command(
        9,
        &[ID],
        "one",
        &["street", "city", "state", "zip", "email", "phone"],
    ),
    command(
        10,
        &[ID, "street", "city", "state", "zip", "email", "phone"],
        "one",
        &["confirmation"],
    ),
    command(
        11,
        &[ID, "account", "date", "how many"],
        "one",
        &["confirmation"],
    ),
    command(
        12,
        &[ID, "from account", "to account", "amount", "date"],
        "an account each",
        &["number", "new balance"],
    ),
];

const fn command(
    number: u32,
    arguments: &'static [&'static str],
    rows: &'static str,
    columns: &'static [&'static str],
) -> Command {
    Command {
        number,
        arguments,
        rows,
        columns,
    }
}

impl Command {
    /// The greatest number that a command has.
    pub const LAST: u32 = COMMANDS.len() as u32;

    /// The command of a number.
    #[inline]
    pub fn of(number: u32) -> Option<&'static Command> {
        COMMANDS.get(number.checked_sub(1)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bank;

    #[test]
    fn the_answers_have_the_columns_and_the_documentation_has_the_commands() {
        let bank = Bank::new(100);
        let accounts: Vec<u64> = bank.accounts(7).map(|account| account.number).collect();
        let [from, to] = [accounts[0], accounts[1]];
        let asked = [
            "7",
            "7",
            "7",
            "7&1",
            "7",
            "7&42&Joe&1+Elm%20St&Salem&OR&97301&555",
            "7&1234567&2026-01-20&12.50",
            "7&2025-12-16&2026-01-15",
            "7",
            "7&1+Elm%20St&Salem&OR&97301&a%40b.example&555",
            &format!("7&{from}&2026-01-20&10"),
            &format!("7&{from}&{to}&0.01&2026-01-20"),
        ];
        let documentation = include_str!("../../../docs/backends.md");
        for ((number, command), asked) in (1..).zip(COMMANDS).zip(asked) {
            assert_eq!(command.number, number);
            let Command { rows, columns, .. } = command;
            let arguments = match command.arguments[1..].join(", ") {
                none if none.is_empty() => " ".to_owned(),
                some => format!(" {some} "),
            };
            let line = format!("| {number} |{arguments}| {rows}: {} |", columns.join(", "));
            assert!(
                documentation.contains(&line),
                "no line in docs/backends.md: {line}"
            );
            assert_eq!(asked.split('&').count(), command.arguments.len(), "{asked}");
            let mut answer = Vec::new();
            bank.answer(format!("1&{number}&{asked}").as_bytes(), &mut answer);
            let answer = String::from_utf8(answer).unwrap();
            let mut lines = answer.lines();
            assert_eq!(
                [lines.next(), lines.next()],
                [Some("<pre>"), Some("0")],
                "{asked}"
            );
            let row = lines.next().unwrap();
            assert_eq!(row.split('&').count(), columns.len(), "{row}");
        }
        assert_eq!([Command::of(0), Command::of(Command::LAST + 1)], [None; 2]);
    }
}
