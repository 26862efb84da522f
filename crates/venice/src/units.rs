//! Numbers as people read them, in tables.

use std::fmt::Write;
use std::time::Duration;

/// Bytes, in a unit that leaves two to four digits.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// A time, in a unit that fits.
pub(crate) fn time(time: Duration) -> String {
    match time {
        _ if time < Duration::from_millis(1) => format!("{:.1} us", time.as_secs_f64() * 1e6),
        _ if time < Duration::from_secs(1) => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// A table with a title, its columns as wide as what is in them.
pub(crate) fn table(title: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max();
        widest.unwrap_or(0).max(head[column].len())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = format!("{title}\n");
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("  {cell:<width$}"))
            .collect();
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if rows.is_empty() {
        text.push_str("  (none)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let shown = [0, 1023, 1 << 20, 3 << 29].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 MiB", "1.5 GiB"]);
        let shown = [1500, 2_500_000, 3_000_000_000]
            .map(Duration::from_nanos)
            .map(time);
        assert_eq!(shown, ["1.5 us", "2.5 ms", "3.0 s"]);
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows = vec![vec!["long name".to_owned(), "1".to_owned()]];
        let text = table("T", &["node", "n"], &rows);
        assert_eq!(text, "T\n  node       n\n  long name  1\n");
        assert!(table("T", &["node"], &[]).contains("(none)"));
    }
}
