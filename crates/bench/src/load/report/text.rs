//! A report for people to read.

use super::{Latency, Report};
use std::fmt;

/// Microseconds with a fitting unit.
pub(crate) struct Micros(pub(crate) f64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            us if us < 1e3 => format!("{us:.0} us"),
            us if us < 1e6 => format!("{:.2} ms", us / 1e3),
            us => format!("{:.2} s", us / 1e6),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = match self.arrivals_per_s {
            Some(rate) => format!("{rate} users a second, at most {} at a time", self.sessions),
            None => format!("{} users at a time", self.sessions),
        };
        writeln!(
            f,
            "{}: {load}, measured for {:.1} s",
            self.url, self.seconds
        )?;
        writeln!(
            f,
            "{:.0} pages/s, {:.0} requests/s, {:.1} MB/s \
             ({} pages, {} requests, {} visits, {} connections)",
            self.pages_per_s,
            self.requests_per_s,
            self.bytes as f64 / 1e6 / self.seconds,
            self.pages,
            self.requests,
            self.visits,
            self.connections,
        )?;
        if self.handshakes > 0 {
            writeln!(f, "TLS: {} handshakes", self.handshakes)?;
        }
        writeln!(
            f,
            "\n{:<24}{:>10}{:>8}{:>8}{:>8}{:>11}{:>11}{:>11}{:>11}",
            "page", "count", "share", "mix", "bytes", "p50", "p90", "p99", "p99.9"
        )?;
        for page in &self.by_page {
            writeln!(
                f,
                "{:<24}{:>10}{:>8.2}{:>8.2}{:>8}{}",
                page.page,
                page.count,
                page.share,
                page.mix,
                page.bytes,
                Columns(&page.latency)
            )?;
        }
        writeln!(
            f,
            "{:<24}{:>10}{:>24}{}",
            "all",
            self.pages,
            "",
            Columns(&self.latency)
        )?;
        writeln!(
            f,
            "\nmix            within {:.2} points of the workload's\n\
             quality        {:.2} % within 2 s (95 needed), {:.2} % within 4 s (99 needed)\n\
             static files   {} whole, {} not modified\n\
             besides        {} requests rightly refused, {} logouts behind the scenes, {} retries",
            self.mix_difference,
            self.quality.good,
            self.quality.tolerable,
            self.files.whole,
            self.files.not_modified,
            self.refusals,
            self.sign_outs,
            self.retries,
        )?;
        if self.never_served > 0 {
            let never = self.never_served;
            writeln!(
                f,
                "never served   {never} users found no session free until the end"
            )?;
        }
        writeln!(f, "invalid        {}", self.invalid)?;
        writeln!(f, "errors         {}", self.errors.values().sum::<u64>())?;
        for (kind, count) in &self.errors {
            writeln!(f, "  {count:>10} {kind}")?;
        }
        if self.is_of_another_service() {
            writeln!(
                f,
                "\nnothing was right: users walk the pages of {}, and of no other service \
                 (--workload names them; --items and --browsers are those that a bookstore's \
                 database was made of); a general load generator, such as wrk, loads any",
                self.service
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "\n{}: {}", failure.request, failure.reason)?;
            for line in failure.excerpt.lines() {
                writeln!(f, "  | {line}")?;
            }
        }
        write!(f, "{}", if self.passed() { "passed" } else { "FAILED" })
    }
}

/// A latency's columns in the table.
struct Columns<'a>(&'a Latency);

impl fmt::Display for Columns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency {
            p50,
            p90,
            p99,
            p999,
            ..
        } = *self.0;
        [p50, p90, p99, p999]
            .into_iter()
            .try_for_each(|value| write!(f, "{:>11}", Micros(value)))
    }
}
