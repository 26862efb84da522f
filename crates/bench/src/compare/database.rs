//! The PostgreSQL of a case: one of its own, beside the servers, and what it is filled with.

use super::case::{Fill, Filled};
use super::error::CompareError;
use super::names::Names;
use crate::reproduce::free_port;
use crate::reproduce::postgres::{self, INSTALL, Postgres};
use crate::reproduce::{Processors, output, tail};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The database that pages come from.
const NAME: &str = "rhythm";
/// A command that prints statements is done by then.
const PATIENCE: Duration = Duration::from_secs(600);

fn failed(why: impl ToString) -> CompareError {
    CompareError::Database(why.to_string())
}

/// Starts one where servers run, and fills it. Its URL is for them.
pub(super) fn start(
    filled: &Filled,
    names: &Names,
    processors: &Processors,
) -> Result<(Postgres, String), CompareError> {
    if postgres::version().is_none() {
        return Err(failed(format!("it is not here ({INSTALL})")));
    }
    let port = free_port().map_err(failed)?;
    processors.of_server(0);
    let started = Postgres::start(Some(port), &["shared_buffers=256MB"]);
    processors.of_load();
    let database = started.map_err(failed)?;
    fill(&database, filled, names).map_err(failed)?;
    let url = database.url(NAME);
    Ok((database, url))
}

fn fill(database: &Postgres, filled: &Filled, names: &Names) -> Result<(), String> {
    database.tell("postgres", format!("create database {NAME}").as_bytes())?;
    for fill in &filled.fill {
        let statements = match fill {
            Fill::File { file } => {
                let path = names.put(file)?;
                fs::read(&path).map_err(|why| format!("{path}: {why} (see --root)"))?
            }
            Fill::Command { command } => printed(command, names)?,
        };
        database.tell(NAME, &statements)?;
    }
    database.tell(NAME, b"vacuum analyze")
}

/// The statements that a command prints.
fn printed(command: &[String], names: &Names) -> Result<Vec<u8>, String> {
    let words: Result<Vec<String>, String> = command.iter().map(|word| names.put(word)).collect();
    let words = words?;
    let [program, arguments @ ..] = &words[..] else {
        return Err("a command to fill it has a program".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let done = output(&mut command, PATIENCE).map_err(|why| format!("{program}: {why}"))?;
    match done.status.success() {
        true => Ok(done.stdout),
        false => {
            let said = tail(&String::from_utf8_lossy(&done.stderr));
            Err(format!("{}: {said}", words.join(" ")))
        }
    }
}
