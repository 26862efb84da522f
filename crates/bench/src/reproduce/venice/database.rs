//! A PostgreSQL with a table of values by key, and who asks it.

use super::ready::ready;
use super::redis::VALUE_BYTES;
use super::unmade::Unmade;
use crate::reproduce::postgres::{self, INSTALL, Postgres};
use crate::reproduce::{Folder, Process, tail};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(120);
const NAME: &str = "postgres";

/// A server with a table, and who asks it; both end when it is dropped.
#[derive(Debug)]
pub(super) struct Database {
    /// Ends before the server, which waits for nobody then.
    _psql: Process,
    _server: Postgres,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Where psql says what is the matter.
    folder: Folder,
}

/// Whether there is one.
pub(super) fn is_there() -> Result<(), Unmade> {
    let lacking = || Unmade::Lacking(format!("there is no PostgreSQL ({INSTALL})"));
    postgres::version().map(|_| ()).ok_or_else(lacking)
}

impl Database {
    /// Starts one whose table has the first value of so many keys. It runs where this thread does.
    pub(super) fn start(keys: u32) -> Result<Database, Unmade> {
        let failed = |why: String| Unmade::Failed(format!("PostgreSQL: {why}"));
        let of = || Unmade::of("psql");
        let server = Postgres::start(None, &["autovacuum=off", "max_wal_size=4GB"]);
        let server = server.map_err(failed)?;
        // As `redis::value` has them; what is asked is compared with that.
        let fill = format!(
            "create unlogged table entries (key int, value text);\n\
             insert into entries select key, left(repeat(key || '.0;', {VALUE_BYTES}), \
             {VALUE_BYTES}) from generate_series(0, {}) key;\n\
             alter table entries add primary key (key);\nanalyze entries;\n",
            keys.saturating_sub(1)
        );
        server.tell(NAME, fill.as_bytes()).map_err(failed)?;
        let folder = Folder::new().map_err(|why| Unmade::Failed(why.to_string()))?;
        let errors = File::create(folder.path().join("errors")).map_err(of())?;
        let mut psql = server.psql(NAME);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = Process::start(psql.stderr(errors)).map_err(of())?;
        let (input, output) = (psql.0.stdin.take(), psql.0.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(Unmade::Failed("psql has no input and output".to_owned()));
        };
        let mut database = Database {
            _psql: psql,
            _server: server,
            input,
            output: BufReader::new(output),
            folder,
        };
        let prepare = "prepare asked(int) as select value from entries where key = $1;\n";
        let prepared = database.input.write_all(prepare.as_bytes());
        prepared.and_then(|()| database.get(0)).map_err(of())?;
        Ok(database)
    }

    /// The value of a key.
    pub(super) fn get(&mut self, key: u32) -> io::Result<Vec<u8>> {
        writeln!(self.input, "execute asked({key});")?;
        let mut line = Vec::new();
        loop {
            if self.output.buffer().is_empty() {
                ready(self.output.get_ref(), PATIENCE)?;
            }
            let part = self.output.fill_buf()?;
            let end = part.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(part.len());
            line.extend(&part[..taken]);
            if part.is_empty() {
                let said = fs::read_to_string(self.folder.path().join("errors"));
                let said = tail(&said.unwrap_or_default());
                return Err(io::Error::other(format!("it has ended: {said}")));
            }
            self.output.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::redis::value;
    use super::*;

    #[test]
    fn keys_have_their_values_and_a_failure_is_told() {
        if is_there().is_err() {
            eprintln!("no PostgreSQL is here");
            return;
        }
        let mut database = Database::start(12_000).unwrap_or_else(|error| panic!("{error}"));
        for key in [0, 7, 11_999] {
            assert_eq!(
                database.get(key).expect("it is there"),
                value(key, 0),
                "{key}"
            );
        }
        writeln!(database.input, "select nothing;").expect("it is taken");
        let error = database.get(1).expect_err("psql has ended").to_string();
        assert!(error.contains("nothing"), "{error}");
    }
}
