//! A monitor, three agents and borrowers, and a donor of accelerators and its borrowers, as
//! processes on this machine, of which some are killed; and two monitors with etcd (Debian's
//! `etcd-server`), likewise. `RHYTHM_KILLS=100` has so many of each killed or stopped.
//!
//! It has no harness: the processes are this program itself, started with what they are to be.
//! What lends is a list in memory; everything else is the real thing.

mod accelerators;
mod cluster;
mod parts;
mod scenarios;
mod spares;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == parts::PART) {
        return parts::run(&args[1..]);
    }
    // As the benchmark starts its other process.
    if args == ["venice", "bench", "--peer"] {
        rhythm_venice::bench::serve().expect("it serves");
        return ExitCode::SUCCESS;
    }
    // What a harness takes: names to be run, and flags.
    let wanted: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    for (name, scenario) in scenarios::ALL
        .into_iter()
        .chain(accelerators::ALL)
        .chain(spares::ALL)
    {
        if wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            println!("test {name} ...");
            scenario();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}
