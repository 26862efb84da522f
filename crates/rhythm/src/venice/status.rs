//! `rhythm venice status`: asks a running monitor or agent how it is.

use crate::output::print;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer: tables of all loans that there may be.
const ANSWER_MAX: u64 = 64 << 20;

/// The tables of a running monitor, or the loans and links of an agent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its admin listener
    #[arg(value_name = "ADDR:PORT")]
    admin: SocketAddr,

    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let admin = args.admin;
    let answer = get(admin).with_context(|| format!("nobody answers at {admin}"))?;
    let told = told(&answer, args.json);
    print(told.with_context(|| {
        format!("at {admin}, which is to be the --admin of a monitor or agent")
    })?)?;
    Ok(ExitCode::SUCCESS)
}

fn get(admin: SocketAddr) -> std::io::Result<String> {
    let mut to = TcpStream::connect_timeout(&admin, PATIENCE)?;
    to.set_read_timeout(Some(PATIENCE))?;
    to.set_write_timeout(Some(PATIENCE))?;
    let head = format!("GET /status HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    to.write_all(head.as_bytes())?;
    let mut answer = String::new();
    to.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// What an answer says, for people or for programs.
fn told(answer: &str, is_json: bool) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
    ensure!(
        head.starts_with("HTTP/1.1 200"),
        "it answers: {} {}",
        head.lines().next().unwrap_or(""),
        body.lines().next().unwrap_or("")
    );
    let mut status: serde_json::Value = serde_json::from_str(body).context("no JSON")?;
    let Some(serde_json::Value::String(text)) = status
        .as_object_mut()
        .and_then(|status| status.remove("text"))
    else {
        bail!("it has no tables");
    };
    match is_json {
        true => Ok(format!("{}\n", serde_json::to_string_pretty(&status)?)),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_and_others_are_not_believed() {
        let ok = "HTTP/1.1 200 OK\r\n\r\n{\"text\":\"up\\n\",\"rat\":[]}";
        assert_eq!(told(ok, false).expect("a status"), "up\n");
        assert_eq!(told(ok, true).expect("a status"), "{\n  \"rat\": []\n}\n");
        for other in [
            "",
            "HTTP/1.1 503 Service Unavailable\r\n\r\nthe monitor does not answer\n",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert!(told(other, false).is_err(), "{other:?}");
        }
    }
}
