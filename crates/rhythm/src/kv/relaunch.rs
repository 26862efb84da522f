//! Running in the background, and as another user: both by starting this program anew.
//!
//! A process of several threads cannot go to the background, nor change its user, in safe Rust; one
//! that has just begun can start another that is so from the beginning, with the same arguments.
//!
//! Who starts one in the background waits until it serves: its standard output is a pipe, on which
//! it says so ([`serving`]), or which ends with it. What it has to say before that goes where ours
//! does, and its exit status becomes ours.

use super::args::Args;
use anyhow::{Context, Result, bail};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

/// What one in the background says when it serves.
const SERVING: &[u8] = b"serving\n";
/// Says to the process that is started that it need not start another.
const MARK: &str = "RHYTHM_KV_RELAUNCHED";

/// Starts the program anew if the flags ask for what needs that; then the code to end with.
pub(super) fn as_asked(args: &Args) -> Result<Option<ExitCode>> {
    if env::var_os(MARK).is_some() {
        if args.daemon {
            // Away from the terminal. It cannot lead a group already: it was started as a child.
            setsid().context("-d: cannot leave the terminal")?;
        }
        return Ok(None);
    }
    let is_root = geteuid().is_root();
    let user = args.user.as_ref().filter(|_| is_root);
    if user.is_none() && !args.daemon {
        return Ok(None);
    }
    let this = env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(this);
    command.args(env::args_os().skip(1)).env(MARK, "1");
    if let Some(user) = user {
        let (id, group) = look_up(user)?;
        command.uid(id).gid(group);
    }
    if args.daemon {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        return in_background(command).map(Some);
    }
    Err(command.exec()).context("-u: cannot start as this user")
}

/// Starts the program in the background, and waits until it serves or has ended.
fn in_background(mut command: Command) -> Result<ExitCode> {
    let failed = "-d: cannot start in the background";
    let mut started = command.spawn().context(failed)?;
    let mut word = Vec::new();
    if let Some(mut output) = started.stdout.take() {
        // As long as it is alive and says nothing, it is starting.
        let _ = output.read_to_end(&mut word);
    }
    if word == SERVING {
        return Ok(ExitCode::SUCCESS);
    }
    let status = started.wait().context(failed)?;
    match status.code().map(u8::try_from) {
        Some(Ok(code)) => Ok(ExitCode::from(code)),
        _ => bail!("-d: it ended before it served: {status}"),
    }
}

/// Says to who waits for it that it serves, if it was started to be in the background. It has
/// nothing more to say there then; with `-v`, what is logged goes on to where it went.
pub(super) fn serving(args: &Args) -> Result<()> {
    if !args.daemon {
        return Ok(());
    }
    let failed = "-d: cannot leave the terminal";
    let nowhere = File::options().write(true).open("/dev/null");
    let nowhere = nowhere.context(failed)?;
    let mut output = std::io::stdout();
    // Nobody may be waiting any more.
    let _ = output.write_all(SERVING).and_then(|()| output.flush());
    dup2_stdout(&nowhere).context(failed)?;
    if args.verbose == 0 {
        dup2_stderr(&nowhere).context(failed)?;
    }
    Ok(())
}

/// A user's number and group, as the system's file has them.
fn look_up(user: &str) -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").context("-u: cannot read /etc/passwd")?;
    for line in users.lines() {
        let mut fields = line.split(':');
        if fields.next() == Some(user) {
            let mut number = || fields.nth(1)?.parse().ok();
            let id = number();
            let group = fields.next().and_then(|group| group.parse().ok());
            if let (Some(id), Some(group)) = (id, group) {
                return Ok((id, group));
            }
        }
    }
    bail!("-u {user}: there is no such user")
}

/// What `-r` and `-k` ask of the system.
pub(super) fn limits(args: &Args) -> Result<()> {
    if args.enable_coredumps {
        let maximum = getrlimit(Resource::Core).maximum;
        let limit = Rlimit {
            current: maximum,
            maximum,
        };
        setrlimit(Resource::Core, limit).context("-r: cannot raise the limit of core files")?;
    }
    if args.lock_memory
        && let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
    {
        tracing::warn!(%error, "-k: memory cannot be locked, and may be paged out");
    }
    Ok(())
}
