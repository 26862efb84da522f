//! The smallest controller: it keeps a process and its descendants on the first of their CPUs until
//! it ends, however it ends. `confine PID STATE`; it starts itself as its guardian.

use rhythm_rpo::classifier::Classifier;
use rhythm_rpo::cpus::CpuSet;
use rhythm_rpo::daemon::{self, Parts, State, Status};
use rhythm_rpo::policy::Fixed;
use rhythm_rpo::setting::Setting;
use rhythm_rpo::switcher::{Affinity, Switcher};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, state] = &args[..] else {
        return Err("confine PID STATE".into());
    };
    if what == "guard" {
        daemon::guard(Path::new(state), std::io::stdin().lock())?;
        return Ok(());
    }
    let file = State::take(Path::new(state))?;
    file.put_back()?;
    let switcher = Affinity::open(what.parse()?)?;
    let first: CpuSet = switcher.full().iter().take(1).collect();
    let mut guardian = Command::new(std::env::current_exe()?);
    guardian.args(["guard", state]);
    let parts = Parts {
        switcher: Box::new(switcher),
        fewer: first,
        choose: None,
        classifier: Classifier::default(),
        policy: Box::new(Fixed::new(Setting::OnePerCore)),
        rings: Vec::new(),
        counting: Vec::new(),
        hardware: None,
        only_watches: false,
        told: Status::default(),
        datagrams: Vec::new(),
        state: Some((file, guardian)),
        claim: None,
        admin: None,
    };
    daemon::run(parts, &AtomicBool::new(false))?;
    Ok(())
}
