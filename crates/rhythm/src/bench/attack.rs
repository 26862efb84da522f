//! `rhythm bench attack`: what others feel of an attack.

use crate::output::print_line;
use anyhow::Result;
use clap::builder::PossibleValue;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rhythm_bench::attack::{self, ATTACKS, Aims, Attack, AttackOptions, Row};
use rhythm_engine::settings::duration;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Attack a server of this machine, and measure what clients feel of it that have nothing to do
/// with the attack.
///
/// Two victims ask for a page and a file once a millisecond, on a kept connection each: first while
/// nothing else happens, then beside the attack, which one thread makes as fast as it can. A wait
/// is counted from when a request was sent until it is answered with status 200, and what falls due
/// meanwhile waits with it; who is refused waits on. The ratio is that of the p99. Unless flags say
/// otherwise, what is asked for is services/banking's.
///
/// On a machine of two cores, give server and attack one each, and the victims a priority, so that
/// what is measured is the server: taskset -c 0 rhythm serve ..., then taskset -c 1 rhythm bench
/// attack --priorities ...
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Attacks to make; all without it
    #[arg(value_name = "NAME", value_parser = names())]
    attacks: Vec<&'static Attack>,

    /// The server: a loopback address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    server: SocketAddr,

    /// The server's process, whose peak of resident memory is told
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// How long it is quiet before each attack, and how long each is made
    #[arg(long, value_name = "DURATION", default_value = "4s", value_parser = duration::parse)]
    duration: Duration,

    /// Connections of each attack; without it, each has a number of its own
    #[arg(long, value_name = "N")]
    #[arg(value_parser = super::from_one())]
    connections: Option<usize>,

    /// Give the victims a real-time priority, so that they wait for the server alone (needs chrt
    /// and the right)
    #[arg(long)]
    priorities: bool,

    /// The page that is asked for
    #[arg(long, value_name = "TARGET", default_value_t = Aims::default().page)]
    page: String,

    /// The file that is asked for
    #[arg(long, value_name = "TARGET", default_value_t = Aims::default().file)]
    file: String,

    /// The page that takes a form with userid and password
    #[arg(long, value_name = "TARGET", default_value_t = Aims::default().sign_in)]
    sign_in: String,

    /// A page of megabytes, for the attack big-pages, which is left out without it
    #[arg(long, value_name = "TARGET")]
    big_page: Option<String>,
}

/// Reads the name of an attack; help lists them, with what they do.
fn names() -> impl TypedValueParser<Value = &'static Attack> {
    let value = |attack: &Attack| {
        let what = format!("{}; connections: {}", attack.about, attack.connections);
        PossibleValue::new(attack.name).help(what)
    };
    PossibleValuesParser::new(ATTACKS.iter().map(value))
        .try_map(|name| Attack::named(&name).ok_or("no such attack"))
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let options = AttackOptions {
        server: args.server,
        pid: args.pid,
        duration: args.duration,
        connections: args.connections,
        victims_first: args.priorities,
        aims: Aims {
            page: args.page,
            file: args.file,
            sign_in: args.sign_in,
            big_page: args.big_page,
        },
    };
    let is_all = args.attacks.is_empty();
    let possible = |attack: &&Attack| !attack.needs_big_page || options.aims.big_page.is_some();
    let attacks = match is_all {
        true => ATTACKS.iter().filter(possible).collect(),
        false => args.attacks,
    };
    print_line(Row::HEAD)?;
    for attack in attacks {
        print_line(attack::run(attack, &options)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
