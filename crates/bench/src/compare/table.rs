//! The report as Markdown: a table of ratios over all cases, and a table a case.

use super::report::{CaseReport, CompareReport, Measured, Point, ServerReport, Spread};
use std::fmt::{self, Write};

/// A rate, or microseconds, with as many digits as can be told apart.
pub(super) struct Figure(pub(super) f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if value.abs() < 100.0 {
            return write!(f, "{value:.1}");
        }
        let digits = format!("{value:.0}");
        let first = digits.len() % 3;
        let mut parts: Vec<&str> = Vec::new();
        if first > 0 {
            parts.push(&digits[..first]);
        }
        parts.extend(
            (first..digits.len())
                .step_by(3)
                .map(|at| &digits[at..at + 3]),
        );
        f.write_str(&parts.join(","))
    }
}

/// The middle, and how far runs were apart; a dash where there is no figure.
fn told(spread: Option<Spread>) -> String {
    let Some(Spread {
        median, min, max, ..
    }) = spread
    else {
        return "-".to_owned();
    };
    format!("{} ({} to {})", Figure(median), Figure(min), Figure(max))
}

/// A report as Markdown: ratios of all cases in one table, then a table a case.
#[must_use]
pub fn markdown(report: &CompareReport) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, report);
    text
}

fn write(text: &mut String, report: &CompareReport) -> fmt::Result {
    writeln!(text, "# Servers compared\n")?;
    writeln!(text, "- machine: {}", report.machine)?;
    writeln!(text, "- commit: {}", report.commit)?;
    writeln!(text, "- command: `{}`", report.command)?;
    writeln!(text, "- processors: {}", report.processors)?;
    writeln!(
        text,
        "- runs: {} of {} s each, alternating, each after {} s that do not count; medians, and \
         in\n  brackets the least and the most",
        report.rounds, report.seconds, report.warmup_seconds
    )?;
    writeln!(
        text,
        "- answers: every one is compared with what the server gave before, and that with the \
         first\n  server's; of pages that are drawn anew each time, one in 32"
    )?;
    if let Some(others) = report.others() {
        let percent = others * 100.0;
        writeln!(
            text,
            "- **others took up to {percent:.0} % of these processors meanwhile**: compare ratios, \
             if\n  anything"
        )?;
    }
    write_ratios(text, report)?;
    report
        .cases
        .iter()
        .try_for_each(|case| write_case(text, case))
}

/// Each server beside the first of its case, at each point.
fn write_ratios(text: &mut String, report: &CompareReport) -> fmt::Result {
    let rows = || {
        report.cases.iter().flat_map(|case| {
            let points = case.points.iter();
            points.filter_map(move |point| Some((case, point, point.servers.split_first()?)))
        })
    };
    if rows().all(|(.., (_, others))| others.is_empty()) {
        return Ok(());
    }
    writeln!(
        text,
        "\n## All cases\n\nMedians, in times of the first server's of the case. Of req/s more is \
         better, of the others\nless.\n\n| case | page | connections | server | beside | req/s | \
         CPU a request | p99 |\n|---|---|---|---|---|---|---|---|"
    )?;
    for (case, point, (first, others)) in rows() {
        for other in others {
            let figures: [fn(&Measured) -> Option<Spread>; 3] = [
                |of| Some(of.requests_per_s),
                |of| of.server_us,
                |of| of.p99_us,
            ];
            let median = |of: Option<Spread>| of.map_or(0.0, |spread| spread.median);
            let ratios = figures.map(|of| ratio(median(of(other)), median(of(first))));
            writeln!(
                text,
                "| {} | {} | {} | {}{} | {}{} | {} |",
                case.name,
                point.page,
                point.connections,
                other.server,
                marks(other),
                first.server,
                marks(first),
                ratios.join(" | ")
            )?;
        }
    }
    if rows().any(|(_, point, _)| point.servers.iter().any(|of| of.is_of_load)) {
        writeln!(
            text,
            "\n[load]: the load's processor was full while the server's was not: the server can \
             do\nmore than the rate that its ratios are of."
        )?;
    }
    Ok(())
}

/// How many times something is as much, where that can be said.
fn ratio(of: f64, first: f64) -> String {
    match of > 0.0 && first > 0.0 {
        true => format!("{:.2}", of / first),
        false => "-".to_owned(),
    }
}

/// What is to be known of a server's figures.
fn marks(measured: &Measured) -> String {
    let marks = [
        (measured.is_of_load, " [load]"),
        (measured.errors > 0, " **[wrong]**"),
    ];
    let marks = marks.iter().filter(|mark| mark.0);
    marks.map(|mark| mark.1).collect()
}

fn write_case(text: &mut String, case: &CaseReport) -> fmt::Result {
    writeln!(text, "\n## {}\n\n{}.\n", case.name, case.about)?;
    for server in &case.servers {
        writeln!(
            text,
            "- {}: {} ({})",
            server.name, server.about, server.version
        )?;
    }
    if let Some(version) = &case.database {
        writeln!(text, "- PostgreSQL {version}, on the servers' processor")?;
    }
    if let Some(behind) = &case.upstream {
        let ServerReport {
            name,
            about,
            version,
        } = &behind.server;
        let processor = behind.processor.map_or("?".to_owned(), |it| it.to_string());
        let place = match behind.is_beside_servers {
            true => format!("**on processor {processor}, as they are: rates are of both**"),
            false => format!("on processor {processor} alone"),
        };
        writeln!(text, "- behind them: {name}, {about} ({version}), {place}")?;
    }
    for absent in &case.absent {
        writeln!(text, "- {}: left out; {}", absent.name, absent.why)?;
    }
    let first = case.servers.first().map_or("", |server| &server.name);
    let database = if case.database.is_some() {
        " database, us |"
    } else {
        ""
    };
    let line = if case.database.is_some() { "---|" } else { "" };
    writeln!(
        text,
        "\n| page | connections | server | req/s | of {first}'s | p50, us | p99, us | CPU a \
         request, us |{database}\n|---|---|---|---|---|---|---|---|{line}"
    )?;
    for point in &case.points {
        for measured in &point.servers {
            write_row(text, case, point, measured)?;
        }
    }
    write_notes(text, case)?;
    match case.points.is_empty() {
        true => Ok(()),
        false => writeln!(text, "\n![{}]({}.svg)", case.about, case.name),
    }
}

fn write_row(
    text: &mut String,
    case: &CaseReport,
    point: &Point,
    measured: &Measured,
) -> fmt::Result {
    let rate = measured.requests_per_s;
    let first = point
        .servers
        .first()
        .map_or(0.0, |first| first.requests_per_s.median);
    let ratio = ratio(rate.median, first);
    let marks = marks(measured);
    write!(
        text,
        "| {}, {} bytes | {} | {}{marks} | {} | {ratio} | {} | {} | {} |",
        point.page,
        Figure(point.bytes as f64),
        point.connections,
        measured.server,
        told(Some(rate)),
        told(measured.p50_us),
        told(measured.p99_us),
        told(measured.server_us),
    )?;
    match case.database.is_some() {
        true => writeln!(text, " {} |", told(measured.database_us)),
        false => writeln!(text),
    }
}

fn write_notes(text: &mut String, case: &CaseReport) -> fmt::Result {
    if let Some(error) = &case.error {
        writeln!(text, "\n**It ended before its end**: {error}")?;
    }
    let measured = || case.points.iter().flat_map(|point| &point.servers);
    if measured().any(|measured| measured.is_of_load) {
        writeln!(
            text,
            "\n[load]: the load's processor was full while the server's was not: the server \
             can\ndo more than this rate; CPU a request is right."
        )?;
    }
    for measured in measured().filter(|measured| measured.errors > 0) {
        let what = measured.wrong.join("; ");
        writeln!(
            text,
            "\n**[wrong]**: {} answers of {} were wrong or did not come: {what}",
            measured.errors, measured.server
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::made_up;
    use super::super::report::{Run, Upstream};
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_mean_something() {
        let told = [0.04, 9.96, 99.94, 123.4, 1234.5, 146_200.0, 1_234_567.0];
        let told = told.map(|value| Figure(value).to_string());
        assert_eq!(
            told,
            [
                "0.0",
                "10.0",
                "99.9",
                "123",
                "1,234",
                "146,200",
                "1,234,567"
            ]
        );
    }

    #[test]
    fn the_report_of_made_up_runs() {
        let expected = include_str!("table/made-up.txt");
        assert_eq!(markdown(&made_up()), expected);
    }

    #[test]
    fn ratios_of_all_cases_are_in_one_table_as_far_as_there_are_any() {
        let mut report = made_up();
        let mut other = report.cases[0].clone();
        other.name = "other".to_owned();
        let servers = &mut other.points[0].servers;
        servers.truncate(2);
        // It answered nobody.
        servers[1] = Measured::of("limit", vec![Run::default()]);
        report.cases.push(other);
        let text = markdown(&report);
        let row = "| limit | 0.0 (0.0 to 0.0) | - | - | - | - |\n";
        assert!(text.contains(row), "{text}");
        let table = text.split_once("\n## made-up\n").expect("the case").0;
        let rows: Vec<&str> = (table.lines())
            .filter(|line| line.starts_with('|'))
            .collect();
        assert_eq!(rows.len(), 2 + 2 + 1, "{table}");
        let row = "| other | a page | 64 | limit | rhythm | - | - | - |";
        assert_eq!(rows[4], row);
        // With one server there is nothing to compare.
        report.cases.truncate(1);
        report.cases[0].points[0].servers.truncate(1);
        assert!(!markdown(&report).contains("All cases"));
    }

    #[test]
    fn why_a_case_was_not_measured_to_its_end_is_told_behind_what_was() {
        let mut report = made_up();
        report.cases[0].error = Some("nginx does not serve".to_owned());
        let text = markdown(&report);
        assert!(text.contains("145,500") && !report.passed());
        assert!(
            text.contains("**It ended before its end**: nginx does not serve\n"),
            "{text}"
        );
    }

    #[test]
    fn who_serves_behind_the_servers_is_named_and_where() {
        let mut report = made_up();
        for (is_beside_servers, place) in [
            (false, "on processor 3 alone"),
            (true, "**on processor 3, as they are: rates are of both**"),
        ] {
            report.cases[0].upstream = Some(Upstream {
                server: report.cases[0].servers[1].clone(),
                processor: Some(3),
                is_beside_servers,
            });
            let line = format!("- behind them: limit, what limit is (rhythm 1), {place}\n");
            let text = markdown(&report);
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn a_database_has_a_column() {
        let mut report = made_up();
        let case = &mut report.cases[0];
        case.database = Some("15.3".to_owned());
        for measured in &mut case.points[0].servers {
            measured.database_us = Some(Spread::of([1.0, 3.0, 2.0].into_iter()));
        }
        case.points[0].servers[2].database_us = None;
        let text = markdown(&report);
        let of_case = text.split_once("\n## made-up\n").expect("the case").1;
        let lines: Vec<&str> = (of_case.lines())
            .filter(|line| line.starts_with('|'))
            .collect();
        let columns = |line: &&str| line.matches('|').count();
        assert!(lines.len() == 5 && lines.iter().map(columns).all(|count| count == 10));
        assert!(lines[2].ends_with(" 2.0 (1.0 to 3.0) |"));
        assert!(lines[4].ends_with(" 162 (162 to 162) | - |"));
        assert!(text.contains("- PostgreSQL 15.3, on the servers' processor\n"));
    }
}
