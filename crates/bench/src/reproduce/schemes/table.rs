//! The table, as Markdown.

use super::report::SchemesReport;
use crate::reproduce::table::{or_none, wrapped, wrong};
use std::fmt::Write;

/// All of it.
pub(super) fn markdown(report: &SchemesReport) -> String {
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = write_all(report, &mut text);
    text.lines().map(wrapped).collect()
}

fn write_all(report: &SchemesReport, to: &mut String) -> std::fmt::Result {
    writeln!(to, "# kv: ways to keep copies\n")?;
    writeln!(to, "- Machine: {}; {}", report.machine, report.processors)?;
    writeln!(to, "- Commit: {}", report.commit)?;
    writeln!(to, "- Command: `{}`", report.command)?;
    writeln!(
        to,
        "- {} s a cluster and load, clusters in turn; three nodes each, all of which have all",
        report.seconds
    )?;
    writeln!(
        to,
        "- {}\n",
        match report.passed() {
            true => "Every value was checked; none was wrong, and nothing failed",
            false => "NOT ALL IS RIGHT: see the lines that say so",
        }
    )?;
    writeln!(to, "![](schemes-times.svg) ![](schemes-rates.svg)\n")?;
    writeln!(
        to,
        "8 clients, keys of 16 bytes, values of 512, 10 % writes; each key is asked of the node \
         that weighted ketama says. Times are of requests, one at a time a client, in \
         microseconds; bytes are those of frames between nodes, heartbeats among them, under \
         writes alone and reads alone.\n"
    )?;
    writeln!(
        to,
        "| scheme | reads p50 | p99 | writes p50 | p99 | op/s | op/s, 16 under way | bytes a \
         write | bytes a read |\n|---|---|---|---|---|---|---|---|---|"
    )?;
    for of in &report.schemes {
        writeln!(
            to,
            "| {}{} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {} | {} |",
            of.name(),
            wrong(of.faults.is_empty()),
            of.read_latency.p50,
            of.read_latency.p99,
            of.write_latency.p50,
            of.write_latency.p99,
            of.operations_per_s,
            of.deep_operations_per_s,
            or_none(of.bytes_per_write, 0),
            or_none(of.bytes_per_read, 0),
        )?;
    }
    for of in report.schemes.iter().filter(|of| of.old_reads > 0) {
        writeln!(
            to,
            "\n{}: {} reads found something older than what had been confirmed; copies may be \
             behind there.",
            of.name(),
            of.old_reads
        )?;
    }
    for of in report.schemes.iter().filter(|of| !of.faults.is_empty()) {
        let faults = of.faults.iter();
        let faults: Vec<_> = faults
            .map(|(kind, count)| format!("{count} of {kind}"))
            .collect();
        writeln!(to, "\n{}: not right: {}.", of.name(), faults.join(", "))?;
    }
    writeln!(to, "\n## A node dies\n")?;
    writeln!(
        to,
        "4 clients write, each key once, and 2 read, at all nodes in turn, when a node is killed \
         (SIGKILL). Who gets no answer, or an error, asks the next node. Waits are the longest \
         that one write, or read, took: the middle one of so many kills.\n"
    )?;
    writeln!(
        to,
        "| scheme | killed | kills | writes confirmed | lost | writes wait ms | reads wait ms \
         |\n|---|---|---|---|---|---|---|"
    )?;
    for of in &report.schemes {
        let (confirmed, lost) = of.lost();
        writeln!(
            to,
            "| {} | {} | {} | {confirmed} | {lost} | {} | {} |",
            of.name(),
            of.victim,
            of.deaths.len(),
            or_none(of.middle(|death| death.write_wait_ms), 0),
            or_none(of.middle(|death| death.read_wait_ms), 0),
        )?;
    }
    Ok(())
}
