//! What commands print: reports and listings on standard output, what is wrong on standard error.
//!
//! Whoever reads standard output may have enough before it is all told (`rhythm check DIR --print
//! programs | head`). A command ends then, quietly and with the status that a shell has for one
//! that SIGPIPE ended: it neither succeeded nor failed at what it was asked. Where nobody reads
//! standard error there is nobody to tell that, and the command goes on.

use crate::exits;
use anyhow::{Context, Result};
use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Nobody reads standard output any more.
#[derive(Debug)]
pub(crate) struct NoReader;

impl NoReader {
    /// What a command ends with that learns of it.
    pub(crate) fn exit_code() -> ExitCode {
        ExitCode::from(exits::NO_READER)
    }
}

impl Display for NoReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output")
    }
}

impl Error for NoReader {}

/// Prints on standard output.
///
/// # Errors
/// [`NoReader`], or what the system says of a full disk and the like.
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut output = io::stdout().lock();
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(NoReader.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// Prints a line on standard output.
///
/// # Errors
/// As of [`print()`].
pub(crate) fn print_line(text: impl Display) -> Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints a line on standard error, as far as anybody reads that.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
