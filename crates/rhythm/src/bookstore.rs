//! `rhythm bookstore`: the database of services/bookstore, as large as it is wanted.

use crate::output::print;
use crate::progress;
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use rusqlite::Connection;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prepare the database of services/bookstore, the shop of TPC-W.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Populate(Populate),
}

/// Make a database of as many items and browsers as you like.
///
/// A browser is 2880 customers, with two addresses and 0.9 orders each. In SQLite it is a new file,
/// for `rhythm serve services/bookstore --backend shop.file=FILE`; for PostgreSQL the statements
/// are printed: `rhythm bookstore populate --print | psql DATABASE`, and then
/// `--backend shop=postgres://USER@HOST/DATABASE`.
#[derive(Debug, clap::Args)]
struct Populate {
    /// Items, of which TPC-W has 1000, 10000, 100000, ...
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    items: u32,

    /// Browsers that it is to be large enough for
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    browsers: u32,

    /// Make a SQLite database in this file, which must not be there
    #[arg(long, value_name = "FILE", required_unless_present = "print")]
    sqlite: Option<PathBuf>,

    /// Print the statements for PostgreSQL, to be given to psql
    #[arg(long, conflicts_with = "sqlite")]
    print: bool,
}

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../services/bookstore/", $name))
    };
}

/// What has tables filled, in either database.
const POPULATION: [&str; 2] = [file!("population.sql"), file!("indexes.sql")];

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let Command::Populate(args) = args.command;
    let scale = format!(
        "insert into scale (items, browsers) values ({}, {});\n",
        args.items, args.browsers
    );
    match &args.sqlite {
        Some(path) => make(path, &scale)?,
        None => {
            // Dates are those of UTC, as those of pages. Nobody sees half of it.
            print("set time zone 'UTC';\nbegin;\n")?;
            print(file!("postgres.sql"))?;
            print(file!("views.sql"))?;
            print(scale)?;
            POPULATION.iter().try_for_each(print)?;
            print(file!("postgres_after.sql"))?;
            print("commit;\n")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a database in a file, which is there when it is whole, and not before.
fn make(path: &Path, scale: &str) -> Result<()> {
    let shown = path.display();
    if path.exists() {
        bail!("{shown} is there already: give another file, or remove it");
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    if let Err(why) = File::create_new(beside) {
        let cure = match why.kind() {
            ErrorKind::AlreadyExists => "; where one that was interrupted left it, remove it",
            _ => "",
        };
        let beside = beside.display();
        return Err(why).with_context(|| format!("cannot make {beside}{cure}"));
    }
    let made = fill(beside, scale).and_then(|()| name(beside, path));
    if made.is_err() {
        let _ = fs::remove_file(beside);
    }
    made.with_context(|| format!("cannot make {shown}"))
}

/// Gives a file its name, unless another one has it by now.
fn name(file: &Path, name: &Path) -> Result<()> {
    match renameat_with(CWD, file, CWD, name, RenameFlags::NOREPLACE) {
        // Not all file systems can say that.
        Err(Errno::INVAL | Errno::NOSYS) if !name.exists() => Ok(fs::rename(file, name)?),
        renamed => Ok(renamed?),
    }
}

fn fill(path: &Path, scale: &str) -> Result<()> {
    let parts = [file!("schema.sql"), file!("views.sql"), scale];
    let statements = parts.into_iter().chain(POPULATION).flat_map(statements);
    let statements: Vec<&str> = statements.collect();
    let bar = progress::steps(statements.len());
    let connection = Connection::open(path)?;
    // Whoever is interrupted begins anew, so nothing need be undone.
    connection.pragma_update(None, "journal_mode", "off")?;
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "cache_size", -(256 << 10))?;
    // Items refer to items that come later, which would have all be looked through for each.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.execute_batch("begin")?;
    for statement in statements {
        let words = statement.lines().find(|line| !line.starts_with("--"));
        bar.set_message(words.unwrap_or_default().to_owned());
        connection.execute_batch(statement)?;
        bar.inc(1);
    }
    connection.execute_batch("commit")?;
    bar.finish_and_clear();
    Ok(())
}

/// The statements of a file, each of which ends with its line.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(";\n").map(str::trim_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole_and_takes_no_others_place() {
        let folder = tempfile::tempdir().unwrap();
        let [file, beside] = ["shop.db", "shop.db.new"].map(|name| folder.path().join(name));
        // What an interruption left is told, and stays.
        fs::write(&beside, "half").unwrap();
        let error = format!("{:#}", make(&file, "no statement;\n").unwrap_err());
        assert!(error.contains("shop.db.new"), "{error}");
        assert_eq!(fs::read_to_string(&beside).unwrap(), "half");
        fs::remove_file(&beside).unwrap();
        assert!(make(&file, "no statement;\n").is_err());
        assert!(!file.exists() && !beside.exists());
        for (path, text) in [(&file, "another"), (&beside, "whole")] {
            fs::write(path, text).unwrap();
        }
        assert!(name(&beside, &file).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "another");
        fs::remove_file(&file).unwrap();
        name(&beside, &file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "whole");
    }

    #[test]
    fn statements_end_where_sqlite_has_them_end() {
        let connection = Connection::open_in_memory().unwrap();
        let scale = "insert into scale (items, browsers) values (100, 1);\n";
        let parts = [file!("schema.sql"), file!("views.sql"), scale];
        for statement in parts.into_iter().chain(POPULATION).flat_map(statements) {
            connection.execute_batch(statement).unwrap();
        }
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(count("select count(*) from item").unwrap(), 100);
        assert_eq!(count("select count(*) from country").unwrap(), 92);
        assert_eq!(count("select count(*) from customer").unwrap(), 2880);
    }
}
