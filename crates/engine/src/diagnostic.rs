//! Mistakes in page files: where they are, what they are, and what to do about them.
//!
//! A `Report` collects the mistakes of all files, so that an author sees them at once. Positions
//! are byte offsets into a file until they are shown.

use std::collections::BTreeSet;
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
    /// Its line, from 1; 0 where it is of no place, as what says how many there are besides.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The line's text, or of a long one what stands around the column; may be empty.
    pub source_line: String,
    /// Characters of `source_line` before the column.
    pub caret: u32,
    /// How pages came to the file, which is a template or is shown in place of them, each with
    /// `FILE:LINE`: what is wrong there may be wrong for them only.
    pub used_by: Vec<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        if self.line > 0 {
            write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        }
        write!(f, "{severity}: {}", self.message)?;
        if !self.source_line.is_empty() {
            let number = self.line.to_string();
            write!(f, "\n  {number} | {}\n  ", self.source_line)?;
            write!(f, "{:width$} | ", "", width = number.len())?;
            for c in self.source_line.chars().take(self.caret as usize) {
                f.write_str(if c == '\t' { "\t" } else { " " })?;
            }
            f.write_str("^")?;
        }
        if let Some((first, others)) = self.used_by.split_first() {
            write!(f, "\n  {first}")?;
            if !others.is_empty() {
                write!(f, " and {} more", others.len())?;
            }
        }
        write!(f, "\n  hint: {}", self.hint)
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

impl Place<'_> {
    /// Its line, from 1.
    pub(crate) fn line(self) -> u32 {
        line_of(self).1
    }
}

/// An error that has been reported already: whoever gets it goes on with what does not depend on
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

/// The diagnostics collected so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    found: Vec<Diagnostic>,
    /// How many errors, and warnings, there are besides, which are not collected.
    left_out: [usize; 2],
    /// The uses through which the page under way came to the file that is compiled now.
    uses: Vec<Use>,
}

/// How one file came to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// A page is shown in place of it.
    Shows,
    /// It includes, extends or imports a template.
    Uses,
}

/// A use of a file.
#[derive(Debug)]
struct Use {
    how: How,
    /// The file that is used.
    of: String,
    /// Where it is used: the file, and its line.
    by: (String, u32),
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line) = &self.by;
        match self.how {
            How::Shows => write!(f, "shown in place of a page by {file}:{line}"),
            How::Uses => write!(f, "used by {file}:{line}"),
        }
    }
}

/// Whether there is a URL with a password in it: `scheme://user:password@...`.
pub(crate) fn has_password(text: &str) -> bool {
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    (authority.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':'))
}

/// Most characters of a source line that are shown.
const LINE_SHOWN: usize = 160;
/// More errors than anyone reads are not collected, nor more warnings.
const DIAGNOSTICS_MAX: usize = 200;

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

    /// Says of what is reported of a file from now on how the page under way came to it. Gives how
    /// many uses there were before, for [`Report::end_use`].
    pub(crate) fn begin_use(&mut self, how: How, of: &str, by: Place<'_>) -> usize {
        let before = self.uses();
        self.uses.push(Use {
            how,
            of: of.to_owned(),
            by: (by.file.to_owned(), by.line()),
        });
        before
    }

    /// How many uses there are now, for [`Report::end_use`].
    pub(crate) fn uses(&self) -> usize {
        self.uses.len()
    }

    /// Ends all uses but so many.
    pub(crate) fn end_use(&mut self, before: usize) {
        self.uses.truncate(before);
    }

    /// Whether a page that is compiled now is shown in place of others.
    pub(crate) fn is_of_shown(&self) -> bool {
        self.uses.iter().any(|one| one.how == How::Shows)
    }

    /// How the page under way came to a file, the nearest use first.
    fn way_to(&self, file: &str) -> Option<String> {
        let (mut file, mut before) = (file, &self.uses[..]);
        let mut way = Vec::new();
        while let Some(last) = before.iter().rposition(|one| one.of == file) {
            way.push(before[last].to_string());
            (file, before) = (&before[last].by.0, &before[..last]);
        }
        (!way.is_empty()).then(|| way.join(", "))
    }

    fn add(&mut self, severity: Severity, place: Place<'_>, message: String, hint: String) {
        debug_assert!(!hint.is_empty(), "nothing helps against: {message}");
        if self.count(severity) >= DIAGNOSTICS_MAX {
            // Not even its line is looked for.
            self.left_out[severity as usize] += 1;
            return;
        }
        let (line_start, line) = line_of(place);
        let offset = floor_char(place.text, place.offset);
        let column = place.text[line_start..offset].chars().count() as u32 + 1;
        // A template that many pages include is compiled for each of them, and so is a page that
        // many show in place of themselves.
        let same = |known: &&mut Diagnostic| {
            (known.line, known.column, &known.message) == (line, column, &message)
                && known.file == place.file
        };
        let used_by = self.way_to(place.file);
        if let Some(known) = self.found.iter_mut().find(same) {
            // What is wrong with it wherever it stands is nobody's who uses it.
            if !known.used_by.is_empty() {
                match used_by {
                    Some(by) if known.used_by.contains(&by) => {}
                    Some(by) => known.used_by.push(by),
                    None => known.used_by.clear(),
                }
            }
            return;
        }
        let line_text = place.text[line_start..].lines().next().unwrap_or("");
        // A log, where others read, is not to have it.
        let line_text = if has_password(line_text) {
            ""
        } else {
            line_text
        };
        let (source_line, caret) = excerpt(line_text, column as usize - 1);
        self.found.push(Diagnostic {
            file: place.file.to_owned(),
            line,
            column,
            severity,
            message,
            hint,
            source_line,
            caret,
            used_by: Vec::from_iter(used_by),
        });
    }

    /// Number of errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.count(Severity::Error) + self.left_out[Severity::Error as usize]
    }

    /// How many of these are collected.
    fn count(&self, severity: Severity) -> usize {
        let is_such = |found: &&Diagnostic| found.severity == severity;
        self.found.iter().filter(is_such).count()
    }

    /// All diagnostics, by file and position.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        // Pages build on service.toml, so its mistakes come first.
        let is_page = |found: &Diagnostic| found.file != "service.toml";
        let place = |it: &Diagnostic| (is_page(it), it.file.clone(), it.line, it.column);
        self.found.sort_by_cached_key(place);
        let left_out = [
            (Severity::Error, "error", self.left_out[0]),
            (Severity::Warning, "warning", self.left_out[1]),
        ];
        for (severity, what, count) in left_out.into_iter().filter(|(.., count)| *count > 0) {
            self.found.push(Diagnostic {
                file: String::new(),
                line: 0,
                column: 0,
                severity,
                message: format!(
                    "and {count} more {what}{}",
                    if count == 1 { "" } else { "s" }
                ),
                hint: "mend those above first".to_owned(),
                source_line: String::new(),
                caret: 0,
                used_by: Vec::new(),
            });
        }
        self.found
    }
}

/// Where the line of a place begins, as an offset, and its number, from 1.
fn line_of(place: Place<'_>) -> (usize, u32) {
    let before = &place.text[..floor_char(place.text, place.offset)];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let number = before.bytes().filter(|&b| b == b'\n').count() as u32 + 1;
    (start, number)
}

/// A line, of a long one what stands around a column, from 0; and the characters before that.
fn excerpt(line: &str, column: usize) -> (String, u32) {
    let length = line.chars().count();
    if length <= LINE_SHOWN {
        return (line.to_owned(), column as u32);
    }
    // The column is in the middle, or nearer to the end that is near.
    let from = (column.saturating_sub(LINE_SHOWN / 2)).min(length - LINE_SHOWN);
    let (cut_before, cut_after) = (from > 0, from + LINE_SHOWN < length);
    let shown = line.chars().skip(from).take(LINE_SHOWN);
    let mut text = String::with_capacity(LINE_SHOWN + 6);
    text.extend(cut_before.then_some('…'));
    text.extend(shown);
    text.extend(cut_after.then_some('…'));
    (text, (column - from + usize::from(cut_before)) as u32)
}

/// The last character boundary at or before an offset.
fn floor_char(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Most names that are listed in a hint.
const NAMES_SHOWN: usize = 32;

/// The hint `did you mean ...?`, or the names there are, or, where there are none, what else helps.
pub(crate) fn did_you_mean_or<'n>(
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    otherwise: &str,
) -> String {
    let hint = did_you_mean(name, known);
    if hint.is_empty() {
        otherwise.to_owned()
    } else {
        hint
    }
}

/// The hint `did you mean ...?`, of a near name or the file whose ending is left out, or the names
/// there are; nothing where there are none.
pub(crate) fn did_you_mean<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    let best = (known.iter())
        .map(|candidate| (distance(name, candidate), *candidate))
        .min();
    let length = name.chars().count();
    let near = best.filter(|(edits, _)| *edits <= 1 + length / 4 && *edits < length);
    let near = near.map(|(_, candidate)| candidate);
    let is_same_file = |known: &&str| {
        let ending = known.strip_prefix(name);
        !name.is_empty() && ending.is_some_and(|ending| ending.starts_with('.'))
    };
    let near = known.iter().copied().find(is_same_file).or(near);
    match near.or_else(|| of_same_words(name, &known)) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => String::new(),
        None => {
            let more = known.len().saturating_sub(NAMES_SHOWN);
            known.truncate(NAMES_SHOWN);
            let others = match more {
                0 => String::new(),
                _ => format!(" and {more} more"),
            };
            format!("there are: {}{others}", known.join(", "))
        }
    }
}

/// The only one of some names that has the words of another, in whatever order, such as
/// `headers_max` for `max_headers`; or all words of the other and more.
fn of_same_words<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let words = |name: &str| {
        name.split(['_', '-'])
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let wanted = words(name);
    let only = |fits: &dyn Fn(&BTreeSet<String>) -> bool| {
        let mut found = known.iter().filter(|known| fits(&words(known)));
        found.next().filter(|_| found.next().is_none()).copied()
    };
    only(&|known| *known == wanted).or_else(|| only(&|known| wanted.is_subset(known)))
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
    fn of_many_mistakes_the_first_are_shown_and_how_many_there_are_besides() {
        let text = "x\n".repeat(1000);
        let mut report = Report::default();
        let place = |line: usize| Place {
            file: "x.html",
            text: &text,
            offset: 2 * line,
        };
        (0..1000).for_each(|line| report.warning(place(line), "odd", "leave it out"));
        assert_eq!(report.errors(), 0);
        for line in 0..1000 {
            let _ = report.error(place(line), "wrong", "leave it out");
        }
        assert_eq!(report.errors(), 1000);
        let found = report.into_sorted();
        assert_eq!(found.len(), 2 * DIAGNOSTICS_MAX + 2);
        let [.., errors, warnings] = &found[..] else {
            unreachable!("there are so many");
        };
        let shown = errors.to_string();
        assert_eq!(
            shown,
            "error: and 800 more errors\n  hint: mend those above first"
        );
        assert_eq!(warnings.message, "and 800 more warnings");
    }

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
    fn a_line_with_a_password_is_not_shown() {
        let shown = |text| {
            let mut report = Report::default();
            let (file, offset) = ("service.toml", 6);
            report.error(Place { file, text, offset }, "wrong", "mend it");
            !report.into_sorted()[0].source_line.is_empty()
        };
        assert!(!shown("url = \"postgres://me:secret@host/shop\""));
        assert!(!shown("url = \"redis://:p@ss@host\""));
        // Nor is a port or a path one.
        for text in [
            "url = \"made://host:80/a:b@c\"",
            "url = \"made://me@host:80\"",
        ] {
            assert!(shown(text), "{text}");
        }
    }

    #[test]
    fn a_long_line_is_shown_around_the_column() {
        let line =
            |before: usize, after: usize| format!("{}X{}", "a".repeat(before), "b".repeat(after));
        let shown = |before, after| {
            let text = line(before, after);
            let (excerpt, caret) = excerpt(&text, before);
            let under = excerpt.chars().nth(caret as usize);
            assert_eq!(under, Some('X'), "{before} {after}");
            assert!(
                excerpt.chars().count() <= LINE_SHOWN + 2,
                "{before} {after}"
            );
            (excerpt.starts_with('…'), excerpt.ends_with('…'))
        };
        assert_eq!(shown(10, 10), (false, false));
        assert_eq!(shown(0, LINE_SHOWN - 1), (false, false));
        assert_eq!(shown(0, LINE_SHOWN), (false, true));
        assert_eq!(shown(LINE_SHOWN, 0), (true, false));
        assert_eq!(shown(5000, 5000), (true, true));
    }

    #[test]
    fn what_is_wrong_where_a_page_is_shown_only_names_who_shows_it() {
        let mut report = Report::default();
        let text = "one\ntwo\n";
        let place = |file, offset| Place { file, text, offset };
        for page in ["pages/a.html", "pages/b.html", "pages/b.html"] {
            let before = report.begin_use(How::Shows, "pages/message.html", place(page, 4));
            report.error(place("pages/message.html", 0), "unknown name `x`", "y");
            report.end_use(before);
        }
        report.error(place("pages/a.html", 0), "something else", "y");
        let found = report.into_sorted();
        assert!(found[0].used_by.is_empty());
        assert_eq!(found[1].used_by.len(), 2);
        let text = found[1].to_string();
        assert!(
            text.contains("shown in place of a page by pages/a.html:2 and 1 more"),
            "{text}"
        );
    }

    #[test]
    fn what_is_wrong_in_a_template_names_the_way_to_it() {
        let mut report = Report::default();
        let text = "one\ntwo\n";
        let place = |file, offset| Place { file, text, offset };
        let page = report.begin_use(How::Shows, "pages/b.html", place("pages/a.html", 4));
        report.begin_use(How::Uses, "templates/c.html", place("pages/b.html", 0));
        report.error(place("templates/c.html", 0), "unknown name `x`", "y");
        // A block of the page, seen from the template that has its place.
        report.error(place("pages/b.html", 4), "unknown name `z`", "y");
        report.end_use(page);
        let found = report.into_sorted();
        let shown = "shown in place of a page by pages/a.html:2";
        assert_eq!(found[0].used_by, [shown]);
        assert_eq!(
            found[1].used_by,
            [format!("used by pages/b.html:1, {shown}")]
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
        let many: Vec<String> = (0..NAMES_SHOWN + 2).map(|n| format!("page_{n}")).collect();
        let hint = did_you_mean("zzz", many.iter().map(String::as_str));
        assert!(hint.ends_with(" and 2 more"), "{hint}");
        let keys = [
            "headers_max",
            "body_timeout",
            "head_timeout",
            "unsent_bytes_max",
        ];
        for (name, meant) in [("max_headers", 0), ("unsent_max", 3), ("timeout_head", 2)] {
            let hint = format!("did you mean `{}`?", keys[meant]);
            assert_eq!(did_you_mean(name, keys), hint);
        }
        assert!(did_you_mean("timeout", keys).starts_with("there are: "));
    }
}
