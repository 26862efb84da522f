//! Lines are at most 100 columns long: two files fit side by side, and a diff on a page.

use super::files::Tree;
use super::finding::Finding;

/// The longest line, in characters.
const COLUMNS_MAX: usize = 100;

/// What is code, comment or documentation.
const KINDS: [&str; 10] = [
    ".rs", ".md", ".toml", ".cu", ".cuh", ".h", ".cpp", ".c", ".sh", ".py",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter() {
        let script = text.starts_with("#!");
        if !(script || KINDS.iter().any(|kind| path.ends_with(kind))) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !is_exempt(path, line) {
                findings.push(Finding {
                    file: path.to_owned(),
                    line: number,
                    message: format!("{columns} columns, {COLUMNS_MAX} at most: wrap it"),
                });
            }
        }
    }
    findings
}

/// A row of a Markdown table cannot be wrapped, and neither can an address.
fn is_exempt(path: &str, line: &str) -> bool {
    let line = line.trim();
    let is_row = path.ends_with(".md") && line.starts_with('|');
    let is_address = line.contains("://") && !line.contains(' ');
    is_row || is_address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_found_where_they_can_be_wrapped() {
        let long = "x ".repeat(51);
        let row = format!("| {long} |");
        let address = format!("https://{}", "x".repeat(100));
        let just = "é".repeat(100);
        let tree = Tree::of(&[
            ("a.rs", &format!("fn f() {{}}\n// {long}\n")),
            ("b.md", &format!("{row}\n{address}\n{just}\n{long}\n")),
            ("c.html", &long),
            ("d", &format!("#!/bin/sh\n{long}\n")),
        ]);
        let found: Vec<(String, usize)> = (check(&tree).into_iter())
            .map(|finding| (finding.file, finding.line))
            .collect();
        let expected = [("a.rs", 2), ("b.md", 4), ("d", 2)];
        assert_eq!(found, expected.map(|(file, line)| (file.to_owned(), line)));
    }
}
