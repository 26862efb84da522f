//! Patterns that texts must match as a whole, as HTML's `pattern` has them.
//!
//! They are of the crate `regex`: what they take is linear in the text, whatever it holds, and they
//! are bounded in size. As in HTML `\d` and `\w` are of ASCII.

use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled pattern, and of what it keeps while texts are looked at.
const COMPILED_BYTES_MAX: usize = 1 << 18;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: String,
    whole: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

impl Pattern {
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub fn new(source: &str) -> Result<Pattern, String> {
        let translated = of_ascii(source);
        // By itself first, so that no bracket of it closes one around it.
        compile(&translated)?;
        Ok(Pattern {
            source: source.to_owned(),
            whole: compile(&format!("\\A(?:{translated})\\z"))?,
        })
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether all of a text matches.
    pub fn fits(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(COMPILED_BYTES_MAX)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too large".to_owned(),
        error => {
            // It is told over several lines, the last of which says what it is.
            let told = error.to_string();
            let last = told.lines().last().unwrap_or_default();
            format!("cannot be read: {}", last.trim_start_matches("error: "))
        }
    })
}

/// The pattern with `\d`, `\w` and their opposites written out, which are of all scripts else.
fn of_ascii(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                other => {
                    out.push(c);
                    out.extend(other);
                }
            },
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_of_the_whole_text() {
        for (pattern, text, fits) in [
            ("[a-z]+", "abc", true),
            ("[a-z]+", "abc1", false),
            ("[a-z]+", "abc\n", false),
            ("a|ab", "ab", true),
            ("a|ab", "abc", false),
            ("^a$", "a", true),
            ("a{2}", "aa", true),
            ("a{2}", "aaa", false),
            ("", "", true),
            ("", "a", false),
            (r"\d{2}", "42", true),
            (r"\d{2}", "\u{664}\u{662}", false),
            (r"[\w.-]+", "a_1.-", true),
            (r"[\w.-]+", "\u{e9}", false),
            (r"[^\d]", "a", true),
            (r"[^\d]", "1", false),
            (r"\D\W", "a-", true),
            (r"\\d", "\\d", true),
            (r"\p{Lu}\p{L}*", "\u{c9}mile", true),
        ] {
            let compiled = Pattern::new(pattern).expect(pattern);
            assert_eq!(compiled.fits(text), fits, "{pattern} {text:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (pattern, told) in [
            ("(", "cannot be read: unclosed group"),
            ("a)|(b", "cannot be read: unopened group"),
            ("(?x) a # b", "cannot be read: unclosed group"),
            ("(a)\\1", "cannot be read: backreferences are not supported"),
            ("(?=a)", "cannot be read: look-around"),
            ("[", "cannot be read: unclosed character class"),
            ("(((a{100}){100}){100}){100}", "is too large"),
        ] {
            let refused = Pattern::new(pattern).expect_err(pattern);
            assert!(refused.starts_with(told), "{pattern}: {refused}");
        }
    }
}
