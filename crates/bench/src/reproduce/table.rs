//! The report as Markdown, for `docs/results`.

use super::plan;
use super::report::{KvReport, Point};
use super::verdicts::write_claims;
use std::fmt::Write;

/// The longest line of text.
const WIDTH: usize = 100;

/// All of it.
pub(super) fn markdown(report: &KvReport) -> String {
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = write_all(report, &mut text);
    write_claims(&report.claims, &mut text);
    text.lines().map(wrapped).collect()
}

/// A line, wrapped as people wrap theirs; those of tables are not.
pub(super) fn wrapped(line: &str) -> String {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut text = String::new();
    let mut width = 0;
    for word in line.split(' ') {
        let is_full = width + 1 + word.len() > WIDTH && !line.starts_with('|');
        match width {
            0 => {}
            _ if is_full => {
                text.push('\n');
                text.push_str(indent);
                width = indent.len();
            }
            _ => {
                text.push(' ');
                width += 1;
            }
        }
        text.push_str(word);
        width += word.len();
    }
    text.push('\n');
    text
}

fn write_all(report: &KvReport, to: &mut String) -> std::fmt::Result {
    writeln!(to, "# kv beside memcached: the poster's charts\n")?;
    writeln!(to, "- Machine: {}; {}", report.machine, report.processors)?;
    writeln!(to, "- Commit: {}", report.commit)?;
    writeln!(to, "- Command: `{}`", report.command)?;
    writeln!(
        to,
        "- {} s a server and point, servers in turn; one TCP connection of the loopback device \
         carries {:.1} Gbit/s",
        report.seconds, report.loopback_gbit_s
    )?;
    writeln!(
        to,
        "- Servers have 4 times the memory that keys and values need, 8 MiB at least; before a \
         load that writes, every key was written over until all of that had been used (and kv has \
         it resident from the start, `-L`), so that no time is the system's for giving a page at \
         its first touch"
    )?;
    if !report.has_memcached {
        writeln!(to, "- There was no memcached: kv was measured alone")?;
    }
    writeln!(
        to,
        "- Every value was checked; {}\n",
        match report.passed() {
            true => "none was wrong, and nothing failed",
            false => "NOT ALL IS RIGHT: see the lines that say so",
        }
    )?;
    writeln!(to, "## Rate by protocol\n\n![](protocols.svg)\n")?;
    writeln!(
        to,
        "8 clients, keys and values of 16 bytes, gets. The paper's server fills a line of 10 \
         Gbit/s, its maximum over UDP.\n"
    )?;
    points(report, "protocols", to)?;
    writeln!(to, "\n## Rate by size and mix\n\n![](sizes.svg)\n")?;
    writeln!(
        to,
        "8 clients, meta commands, 16 in flight each. The paper: line rate, 10 Gbit/s, at most \
         sizes and mixes.\n"
    )?;
    points(report, "sizes", to)?;
    writeln!(to, "\n## Response time\n\n![](response.svg)\n")?;
    writeln!(
        to,
        "One client, one at a time, keys of 16 bytes, values of 512, 10 % writes; microseconds. \
         Internal: the server's turns, from waking to the answer's being sent (of a ring those \
         that take copies, too; what a write waits for an acknowledgment is not in them). The \
         paper, over UDP: 36 to 42 = 33 to 35 client and network + 2 to 6 internal, with \
         replication and without; memcached 1.4 about 5 times that.\n"
    )?;
    writeln!(
        to,
        "| server | p50 | p99 | p99.9 | mean | client + network | internal | internal p50, p99 \
         |\n|---|---|---|---|---|---|---|---|"
    )?;
    for response in &report.responses {
        let latency = response.latency;
        writeln!(
            to,
            "| {}{} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} | {}, {} |",
            response.setup,
            wrong(response.passed),
            latency.p50,
            latency.p99,
            latency.p999,
            latency.mean,
            or_none(response.outside_us(), 1),
            or_none(response.internal_us, 1),
            or_none(response.internal_p50_us, 1),
            or_none(response.internal_p99_us, 1),
        )?;
    }
    copies(report, to)?;
    writeln!(to, "\n## Efficiency\n\n![](efficiency.svg)\n")?;
    writeln!(
        to,
        "Operations a second of the server's CPU time are in the tables above. The paper: 25 W \
         against a server's 200 W.\n"
    )?;
    if report.energy.is_empty() {
        writeln!(to, "Joules cannot be read on this machine.")?;
    }
    for energy in &report.energy {
        let each = energy.operations as f64 / energy.joules.max(f64::MIN_POSITIVE);
        writeln!(
            to,
            "- {}: {each:.0} operations a joule of all processors, the load's included",
            energy.server
        )?;
    }
    Ok(())
}

fn copies(report: &KvReport, to: &mut String) -> std::fmt::Result {
    writeln!(to, "\n## What copies cost\n")?;
    writeln!(
        to,
        "{:.0} requests a second are offered to one node, of keys that it owns, 10 % writes: the \
         node by itself, and in a ring of two, where the other has copies. CPU time is the owner's \
         alone; ratios are medians of the slices', beside the node alone.\n",
        plan::OFFERED
    )?;
    writeln!(
        to,
        "| node | op/s | CPU us an operation | ratio | p50 us | p99 us | ratio | p50 of writes us \
         |\n|---|---|---|---|---|---|---|---|"
    )?;
    for of in &report.copies {
        writeln!(
            to,
            "| {}{} | {:.0} | {} | {} | {:.1} | {:.1} | {} | {:.1} |",
            of.setup,
            wrong(of.passed),
            of.operations_per_s,
            or_none(of.cpu_us, 2),
            or_none(of.cpu_ratio, 2),
            of.latency.p50,
            of.latency.p99,
            or_none(of.p99_ratio, 2),
            of.write_latency.p50,
        )?;
    }
    Ok(())
}

fn points(report: &KvReport, chart: &str, to: &mut String) -> std::fmt::Result {
    writeln!(
        to,
        "| load | server | op/s | Gbit/s | p50 us | p99 us | p99.9 us | op a CPU second |\n\
         |---|---|---|---|---|---|---|---|"
    )?;
    for point in report.of_chart(chart) {
        for server in &point.servers {
            writeln!(
                to,
                "| {} | {}{} | {:.0} | {:.2} | {:.0} | {:.0} | {:.0} | {} |",
                name(point),
                server.server,
                wrong(server.passed),
                server.operations_per_s,
                server.gbit_s,
                server.latency.p50,
                server.latency.p99,
                server.latency.p999,
                or_none(server.operations_per_cpu_s, 0),
            )?;
        }
    }
    Ok(())
}

fn name(point: &Point) -> String {
    match point.chart.as_str() {
        "protocols" => format!("{}, {} in flight", point.protocol, point.depth),
        _ => format!(
            "{} + {} bytes, {} % writes",
            point.key_bytes, point.value_bytes, point.writes
        ),
    }
}

pub(super) fn wrong(passed: bool) -> &'static str {
    if passed { "" } else { " (NOT RIGHT)" }
}

pub(super) fn or_none(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_and_tables_are_not() {
        let item = format!("-{}", " word".repeat(30));
        let text = wrapped(&item);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(text.replace("\n  ", " "), format!("{item}\n"));
        let row = item.replacen('-', "|", 1);
        assert_eq!(wrapped(&row), format!("{row}\n"));
        assert_eq!(wrapped(""), "\n");
    }
}
