//! What remote memory and the channels cost, beside the least that they could: `rhythm venice
//! bench`.
//!
//! Another process of the same machine is the donor. What is compared takes turns, in one order and
//! then in the other; a first turn does not count. A figure is the median of the turns, and a ratio
//! the median of the ratios of each turn, so that a machine that is busy with something else
//! meanwhile changes it little.

mod accelerators;
mod channels;
mod faults;
mod options;
mod peer;
mod peers;
mod programs;
mod records;
mod relay;
mod report;
mod talk;
mod touch;

pub use options::{Error, Options, Part};
pub use peer::serve;
pub use report::{Report, Row};
pub use touch::touch;

/// Measures; `told` gets each row when it is there.
///
/// # Errors
/// [`Error`], where the other process cannot be started or the channels fail. Faults that cannot be
/// measured here are told in the report.
pub fn run(options: &Options, told: &mut dyn FnMut(&Row)) -> Result<Report, Error> {
    let peer = peers::Peer::start(options)?;
    let mut report = Report::default();
    let wants = |part| options.parts.is_empty() || options.parts.contains(&part);
    if wants(Part::Faults) {
        touch::floors(options, &peer, &mut report, told)?;
        if let Err(error) = touch::faults(options, &peer, &mut report, told) {
            report.not_measured.push(format!(
                "page faults: {error}. They need root (userfaultfd)"
            ));
        }
    }
    if wants(Part::Channels) {
        channels::accesses(options, &peer, &mut report, told)?;
        channels::one_way(options, &peer, &mut report, told)?;
    }
    if wants(Part::Credits) {
        channels::credits(options, &peer, &mut report, told)?;
    }
    if wants(Part::Accelerators) {
        accelerators::jobs(options, &peer, &mut report, told)?;
        accelerators::at_once(options, &peer, &mut report, told)?;
    }
    if wants(Part::Programs) {
        programs::ranks(options, &peer, &mut report, told)?;
        programs::transactions(options, &peer, &mut report, told)?;
    }
    Ok(report)
}
