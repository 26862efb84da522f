//! Parts of servers that are executed by themselves: the parser of heads, and kv's commands.

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rhythm_kv::server::Alone;
use rhythm_kv::shared::Settings;
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{HeadLimits, RequestHead, parse_head};
use std::hint::black_box;
use std::ops::Range;

/// A part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// The parser of heads, each as if none like it had come before
    Heads,
    /// `rhythm kv`: gets of values of 32 bytes, by keys of 16, in a thread's turns
    Gets,
    /// The same, sets
    Sets,
}

/// Executes it for so many requests, so many at a time; all of `users` are known before.
pub(super) fn run(part: Part, users: u32, requests: u32, together: usize) -> Result<()> {
    match part {
        Part::Heads => heads(requests),
        Part::Gets | Part::Sets => {
            let mut alone = Alone::new(Settings::default())?;
            commands(&mut alone, 0..users, together, set)?;
            let command = if part == Part::Gets { get } else { set };
            commands(&mut alone, 0..requests, together, command)
        }
    }
}

/// A browser's, with a session of its own.
fn head(user: u32) -> String {
    format!(
        "GET /bank/account_summary.php HTTP/1.1\r\n\
         Host: bank.example.com\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
         Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
         Accept-Language: en-US,en;q=0.5\r\n\
         Accept-Encoding: gzip, deflate, br\r\n\
         Connection: keep-alive\r\n\
         Referer: http://bank.example.com/bank/login.php\r\n\
         Upgrade-Insecure-Requests: 1\r\n\
         Cookie: rhythm_session={user:048x}\r\n\r\n"
    )
}

fn heads(requests: u32) -> Result<()> {
    let (limits, mut parsed, bytes) = (HeadLimits::default(), RequestHead::new(), head(7));
    for _ in 0..requests {
        parsed.clear();
        let progress = parse_head(&mut parsed, black_box(bytes.as_bytes()), &limits);
        let head_len = bytes.len();
        if black_box(progress) != Ok(Progress::Complete { head_len }) {
            bail!("a head is not understood: {progress:?}");
        }
    }
    Ok(())
}

/// A command, and what it is to be answered.
type Asked = fn(u32) -> [String; 2];

fn get(user: u32) -> [String; 2] {
    let [key, value] = item(user);
    let answer = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
    [format!("get {key}\r\n"), answer]
}

fn set(user: u32) -> [String; 2] {
    let [key, value] = item(user);
    let command = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    [command, "STORED\r\n".to_owned()]
}

fn item(user: u32) -> [String; 2] {
    [format!("{user:016}"), format!("{user:032}")]
}

/// Has commands of these users be executed, so many in a turn.
fn commands(alone: &mut Alone, users: Range<u32>, together: usize, asked: Asked) -> Result<()> {
    let step = u32::try_from(together).context("--cohort-size")?;
    for from in users.clone().step_by(together) {
        let each = (from..users.end.min(from.saturating_add(step))).map(asked);
        let [mut sent, mut due] = [String::new(), String::new()];
        for [command, answer] in each {
            sent += &command;
            due += &answer;
        }
        let answered = alone.turn(sent.as_bytes());
        ensure!(
            answered == due.as_bytes(),
            "{sent:?} was answered {:?}",
            String::from_utf8_lossy(answered)
        );
    }
    Ok(())
}
