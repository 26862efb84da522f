//! What commands end with, and what it says: one table, which `--help`, manual pages and
//! docs/operations.md have.

use clap::error::ErrorKind;
use std::fmt::Display;

/// There is nothing to gain (`rhythm rpo`).
pub(crate) const NOTHING_TO_GAIN: u8 = 3;
/// A node lacks what it confirmed (`rhythm kv keyspace`): to start it again mends nothing, and
/// systemd is told so.
pub(crate) const FORGOTTEN: u8 = 3;
/// Nobody reads standard output any more: 128 and the number of SIGPIPE, which is what a shell has
/// for a command that the signal ended.
pub(crate) const NO_READER: u8 = 128 + 13;

/// Why a command line is wrong, where that is not seen before flags are looked at together: nothing
/// was done, and the command ends with 2.
pub(crate) fn wrong(why: impl Display) -> clap::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{why}\n"))
}

/// A status, and what it says.
struct Exit {
    status: &'static str,
    /// The command that ends with it, and those below that; all, where none is named.
    of: Option<&'static str>,
    means: &'static str,
}

/// All of them.
const EXITS: [Exit; 10] = [
    Exit {
        status: "0",
        of: None,
        means: "It did what it was asked to, and what it looked at is well; a server was told to \
                end, and has.",
    },
    Exit {
        status: "1",
        of: None,
        means: "It failed, and standard error says why; or what it looked at is not well: a site \
                has mistakes, a machine will not do, an answer was wrong, a node is missing.",
    },
    Exit {
        status: "2",
        of: None,
        means: "The command line is wrong, and nothing was done.",
    },
    Exit {
        status: "3",
        of: Some("rhythm rpo"),
        means: "There is nothing to gain, such as without simultaneous multithreading.",
    },
    Exit {
        status: "3",
        of: Some("rhythm kv keyspace"),
        means: "The node lacks what it confirmed, and has to be replaced.",
    },
    Exit {
        status: "the program's",
        of: Some("rhythm venice run"),
        means: "The program ended with it; or with 128 and the number of the signal that ended it, \
                such as 135 where memory of it was lost.",
    },
    Exit {
        status: "128 + N",
        of: Some("rhythm reproduce"),
        means: "Signal N ended it, and before it all that it had started.",
    },
    Exit {
        status: "128 + N",
        of: Some("rhythm bench compare"),
        means: "Signal N ended it, and before it all that it had started.",
    },
    Exit {
        status: "128 + N",
        of: Some("rhythm bench device"),
        means: "Signal N ended it, and before it all that it had started.",
    },
    Exit {
        status: "141",
        of: None,
        means: "Nobody read what it printed to the end.",
    },
];

/// The end of `rhythm --help`.
pub(crate) fn help() -> String {
    let mut text = "Exit status:".to_owned();
    for exit in &EXITS {
        let of = exit.of.map(|of| format!("{of}: ")).unwrap_or_default();
        text.push_str(&format!("\n  {:13}  {of}{}", exit.status, exit.means));
    }
    text
}

/// The section of a command's manual page, in roff.
pub(crate) fn of_manual(command: &str) -> String {
    let mut text = ".SH EXIT STATUS\n".to_owned();
    let is_of = |of: &str| command == of || command.starts_with(&format!("{of} "));
    for exit in EXITS.iter().filter(|exit| exit.of.is_none_or(is_of)) {
        text.push_str(&format!(".TP\n{}\n{}\n", exit.status, exit.means));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/operations.md has the same table.
    #[test]
    fn the_table_is_the_documents() {
        let rows = EXITS.iter().map(|exit| {
            let of = exit.of.map_or("all".to_owned(), |of| format!("`{of}`"));
            format!("| {} | {of} | {} |\n", exit.status, exit.means)
        });
        let table = rows.collect::<String>();
        let document = include_str!("../../../docs/operations.md");
        assert!(
            document.contains(&table),
            "docs/operations.md lacks:\n{table}"
        );
    }

    #[test]
    fn a_manual_page_has_what_the_command_ends_with() {
        let of_rpo = of_manual("rhythm rpo advise");
        assert!(
            of_rpo.contains(".TP\n3\nThere is nothing to gain"),
            "{of_rpo}"
        );
        assert!(!of_manual("rhythm rporter").contains(".TP\n3\n"));
        assert!(of_manual("rhythm serve").contains(".TP\n141\n"));
    }
}
