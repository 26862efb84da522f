//! Where the rows of an answer and their cells are that is one document of JSON.

use super::value::Type;
use std::fmt;
use std::str::FromStr;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Where the rows are: a list of them, or one.
    pub rows: DocumentPath,
    /// Where the cells of a row are.
    pub columns: Box<[DocumentColumn]>,
}

/// Where a cell of a row is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentColumn {
    /// The column's name, for who is told what is wrong.
    pub name: Box<str>,
    /// What the page takes it for.
    pub kind: Type,
    /// From the row on.
    pub path: DocumentPath,
    /// It may be absent, and is null then.
    pub may_lack: bool,
}

/// A way into a document, from `$` on: the plain part of JSONPath (RFC 9535) that leads to one
/// value at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentPath(pub Box<[DocumentStep]>);

/// A step of a way into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentStep {
    /// To the member of an object that has this name.
    Member(Box<str>),
    /// To this one of a list, from 0 on.
    Item(usize),
}

/// A text is no [`DocumentPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPath;

/// Most steps of a path.
const STEPS_MAX: usize = 32;

impl DocumentPath {
    /// The member of this name.
    pub fn member(name: &str) -> DocumentPath {
        DocumentPath([DocumentStep::Member(name.into())].into())
    }
}

impl FromStr for DocumentPath {
    type Err = NoPath;

    fn from_str(text: &str) -> Result<DocumentPath, NoPath> {
        let mut rest = text.strip_prefix('$').ok_or(NoPath)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, behind) = if let Some(name) = rest.strip_prefix('.') {
                let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
                let end = name.find(|c| !is_of_name(c)).unwrap_or(name.len());
                if end == 0 {
                    return Err(NoPath);
                }
                (DocumentStep::Member(name[..end].into()), &name[end..])
            } else {
                let inside = rest.strip_prefix('[').ok_or(NoPath)?;
                match inside.chars().next() {
                    Some(quote @ ('\'' | '"')) => {
                        let (name, behind) = inside[1..].split_once(quote).ok_or(NoPath)?;
                        // What is escaped would need the rules of RFC 9535.
                        if name.contains('\\') {
                            return Err(NoPath);
                        }
                        let behind = behind.strip_prefix(']').ok_or(NoPath)?;
                        (DocumentStep::Member(name.into()), behind)
                    }
                    _ => {
                        let (digits, behind) = inside.split_once(']').ok_or(NoPath)?;
                        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                        let number = digits.parse().ok().filter(|_| is_number);
                        (DocumentStep::Item(number.ok_or(NoPath)?), behind)
                    }
                }
            };
            steps.push(step);
            rest = behind;
        }
        match steps.len() <= STEPS_MAX {
            true => Ok(DocumentPath(steps.into())),
            false => Err(NoPath),
        }
    }
}

impl fmt::Display for DocumentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        for step in &self.0 {
            match step {
                DocumentStep::Member(name) => write!(f, "['{name}']")?,
                DocumentStep::Item(number) => write!(f, "[{number}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        for (text, shown) in [
            ("$", "$"),
            ("$.data.items", "$['data']['items']"),
            ("$.a-b['c d'][\"e'f\"][17]", "$['a-b']['c d']['e'f'][17]"),
            ("$['']", "$['']"),
            ("$.größe", "$['größe']"),
        ] {
            let path: DocumentPath = text.parse().unwrap();
            assert_eq!(path.to_string(), shown);
        }
        let long = format!("${}", ".a".repeat(STEPS_MAX + 1));
        for text in [
            "",
            "data",
            "$data",
            "$.",
            "$..a",
            "$.a b",
            "$[",
            "$[]",
            "$[-1]",
            "$[+1]",
            "$[1",
            "$['a",
            "$['a'",
            "$['a\\'b']",
            "$[*]",
            "$.a[?(@.b)]",
            "$[99999999999999999999]",
            &long,
        ] {
            assert_eq!(text.parse::<DocumentPath>(), Err(NoPath), "{text}");
        }
    }
}
