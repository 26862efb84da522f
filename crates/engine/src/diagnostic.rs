//! Mistakes in page files: where they are, what they are, and what to do about them.
//!
//! A `Report` collects the mistakes of all files, so that an author sees them at once. Positions
//! are byte offsets into a file until they are shown.

use std::fmt;

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The service cannot be served.
    Error,
    /// It can, but something is probably not meant.
    Warning,
}

/// A mistake in a service's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, relative to the service's folder.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
    /// The line's text, to be shown; may be empty.
    pub source_line: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(
            f,
            "{}:{}:{}: {severity}: {}",
            self.file, self.line, self.column, self.message
        )?;
        if !self.source_line.is_empty() {
            let number = self.line.to_string();
            write!(f, "\n  {number} | {}\n  ", self.source_line)?;
            write!(f, "{:width$} | ", "", width = number.len())?;
            for c in self.source_line.chars().take(self.column as usize - 1) {
                f.write_str(if c == '\t' { "\t" } else { " " })?;
            }
            f.write_str("^")?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  hint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    /// The file's name.
    pub(crate) file: &'a str,
    /// The whole file's text.
    pub(crate) text: &'a str,
    /// A byte offset into the text.
    pub(crate) offset: usize,
}

/// An error that has been reported already: whoever gets it goes on with what does not depend on
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

/// The diagnostics collected so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    found: Vec<Diagnostic>,
}

/// Longest source line shown, in characters.
const LINE_SHOWN: usize = 160;
/// More diagnostics than anyone reads are not collected.
const DIAGNOSTICS_MAX: usize = 1000;

impl Report {
    /// Adds an error.
    pub(crate) fn error(
        &mut self,
        place: Place<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Reported {
        self.add(Severity::Error, place, message.into(), hint.into());
        Reported
    }

    /// Adds a warning.
    pub(crate) fn warning(
        &mut self,
        place: Place<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.add(Severity::Warning, place, message.into(), hint.into());
    }

    fn add(&mut self, severity: Severity, place: Place<'_>, message: String, hint: String) {
        if self.found.len() >= DIAGNOSTICS_MAX {
            return;
        }
        let offset = floor_char(place.text, place.offset);
        let before = &place.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_text = place.text[line_start..].lines().next().unwrap_or("");
        let column = before[line_start..].chars().count();
        let diagnostic = Diagnostic {
            file: place.file.to_owned(),
            line: before.bytes().filter(|&b| b == b'\n').count() as u32 + 1,
            column: column as u32 + 1,
            severity,
            message,
            hint,
            source_line: if line_text.chars().count() > LINE_SHOWN {
                String::new()
            } else {
                line_text.to_owned()
            },
        };
        // A template that many pages include is compiled for each of them.
        let same = |known: &Diagnostic| {
            (known.line, known.column, &known.message)
                == (diagnostic.line, diagnostic.column, &diagnostic.message)
                && known.file == diagnostic.file
        };
        if !self.found.iter().any(same) {
            self.found.push(diagnostic);
        }
    }

    /// Number of errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.found
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .count()
    }

    /// All diagnostics, by file and position.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.found
            .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        self.found
    }
}

/// The last character boundary at or before an offset.
fn floor_char(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// The hint `did you mean ...?`, or the names there are, or nothing.
pub(crate) fn did_you_mean<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    let best = (known.iter())
        .map(|candidate| (distance(name, candidate), *candidate))
        .min();
    match best {
        Some((edits, candidate)) if edits <= 1 + name.chars().count() / 4 => {
            format!("did you mean `{candidate}`?")
        }
        Some(_) if known.len() <= 32 => format!("there are: {}", known.join(", ")),
        _ => String::new(),
    }
}

/// Levenshtein distance in characters. Long names are cut: they are mistakes of another kind.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_line_column_and_caret() {
        let mut report = Report::default();
        let text = "first\n\té{{ x }}\n";
        let place = Place {
            file: "pages/a.html",
            text,
            offset: text.find('x').unwrap(),
        };
        report.error(place, "unknown name `x`", "did you mean `y`?");
        report.error(place, "unknown name `x`", "did you mean `y`?");
        let found = report.into_sorted();
        assert_eq!(found.len(), 1, "the same mistake is said once");
        assert_eq!(
            found[0].to_string(),
            concat!(
                "pages/a.html:2:6: error: unknown name `x`\n",
                "  2 | \té{{ x }}\n    | \t    ^\n  hint: did you mean `y`?"
            )
        );
    }

    #[test]
    fn suggests_near_names_only() {
        assert_eq!(
            did_you_mean("acount", ["account", "payee"]),
            "did you mean `account`?"
        );
        assert_eq!(
            did_you_mean("zzz", ["account", "payee"]),
            "there are: account, payee"
        );
        assert_eq!(did_you_mean("zzz", []), "");
    }
}
