//! `rhythm besim`: the Banking workload's backend, over HTTP.

use crate::logs;
use anyhow::{Context, Result};
use rhythm_besim::Bank;
use rhythm_besim::serve::{ServeOptions, Server};
use rhythm_engine::settings::{LogFormat, duration};
use rhythm_net::signal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Serve BeSim, the Banking workload's backend simulator, over HTTP.
///
/// It answers GET /PATH?1&COMMAND&ARGUMENTS. Its answers are a function of the user id alone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,

    /// Users of the bank: ids 1 to N
    #[arg(long, value_name = "N", default_value_t = Bank::USERS_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    users: u32,

    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// How long each answer takes
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    delay: Duration,

    /// How much longer it takes at most, at random
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    jitter: Duration,

    /// How many of a hundred requests fail, with status 500 or a dropped connection
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = parse_percent)]
    fail: f64,

    /// What decides about jitter and failures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn parse_percent(text: &str) -> Result<f64, &'static str> {
    let percent = text.parse().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or("a number from 0 to 100")
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    logs::start(LogFormat::Text)?;
    let options = ServeOptions {
        listen: args.listen,
        users: args.users,
        threads: args.threads.into(),
        delay: args.delay,
        jitter: args.jitter,
        fail_percent: args.fail,
        seed: args.seed,
    };
    let server = Server::start(&options)?;
    let stopper = server.stopper();
    let _watch = signal::watch(move |signal| {
        if !matches!(signal, signal::Signal::Reload | signal::Signal::User1) {
            stopper.stop();
        }
    })
    .context("cannot watch for signals")?;
    tracing::info!(address = %server.local_address(), users = args.users, "besim is serving");
    server.join()?;
    Ok(ExitCode::SUCCESS)
}
