//! Whether pages are equal, but for what a case says is no difference.

use super::case::{Case, Page};
use crate::load::inflate;
use regex::Regex;
use std::borrow::Cow;

/// Characters of a line that are shown.
const SHOWN: usize = 160;
/// Of them before the first difference.
const SHOWN_BEFORE: usize = 40;

/// What is replaced before pages are compared.
#[derive(Clone, Debug)]
pub(super) struct Rules(Vec<(Regex, String)>);

impl Rules {
    /// Those of a page. A case is read only if its patterns are sound.
    pub(super) fn of(case: &Case, page: &Page) -> Rules {
        let is_of_page = |of: &Option<String>| of.as_ref().is_none_or(|of| *of == page.name);
        let alike = case.alike.iter().filter(|alike| is_of_page(&alike.page));
        let rule = |find: &str, replace: &str| Some((Regex::new(find).ok()?, replace.to_owned()));
        Rules(
            alike
                .filter_map(|alike| rule(&alike.find, &alike.replace))
                .collect(),
        )
    }

    /// A page as it is compared: inflated, what is alike replaced, without empty lines.
    ///
    /// # Errors
    /// It is no gzip.
    pub(super) fn plain(&self, content: &[u8], is_gzip: bool) -> Result<String, String> {
        let inflated = match is_gzip {
            true => Cow::Owned(inflate(content)?),
            false => Cow::Borrowed(content),
        };
        let mut text = String::from_utf8_lossy(&inflated).into_owned();
        for (find, replace) in &self.0 {
            if let Cow::Owned(replaced) = find.replace_all(&text, replace) {
                text = replaced;
            }
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        Ok(lines.join("\n"))
    }
}

/// Where two pages differ, for people.
pub(super) fn difference(first: &str, other: &str) -> Option<String> {
    if first == other {
        return None;
    }
    let (mut firsts, mut others) = (first.lines(), other.lines());
    let mut number = 0;
    loop {
        number += 1;
        let told = match (firsts.next(), others.next()) {
            (Some(one), Some(two)) if one == two => continue,
            (Some(one), Some(two)) => {
                let alike = one
                    .chars()
                    .zip(two.chars())
                    .take_while(|(one, two)| one == two);
                let skipped = alike.count().saturating_sub(SHOWN_BEFORE);
                format!("{} instead of {}", shown(two, skipped), shown(one, skipped))
            }
            (Some(one), None) => format!("nothing instead of {}", shown(one, 0)),
            (None, Some(two)) => format!("{} where nothing is", shown(two, 0)),
            // They differ in what ends their lines.
            (None, None) => return Some("line ends".to_owned()),
        };
        return Some(format!("line {number} (empty ones not counted): {told}"));
    }
}

fn shown(line: &str, skipped: usize) -> String {
    let part: String = line.chars().skip(skipped).take(SHOWN).collect();
    let before = if skipped > 0 { "..." } else { "" };
    let behind = match line.chars().nth(skipped + SHOWN) {
        Some(_) => "...",
        None => "",
    };
    format!("`{before}{part}{behind}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn rules(page: usize) -> Rules {
        let case = Case::read("shop").expect("it is there");
        Rules::of(&case, &case.page[page])
    }

    #[test]
    fn what_is_alike_is_no_difference_however_it_is_sent() {
        let page = "<p>\n\n<b value=\"0123456789abcdef0123456789abcdef01234567\">it&#39;s</b>\r\n";
        let other = "<p>\n<b value=\"\">it&#x27;s</b>\n";
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(other.as_bytes()).expect("memory takes it");
        let gzip = gzip.finish().expect("memory takes it");
        let one = rules(0).plain(page.as_bytes(), false).expect("it is plain");
        let two = rules(0).plain(&gzip, true).expect("it is gzip");
        assert_eq!(difference(&one, &two), None);
        assert!(rules(0).plain(page.as_bytes(), true).is_err());
    }

    #[test]
    fn a_rule_may_be_of_one_page() {
        let drawn = "<ol class=\"shelf\">\n<li>1\n</ol>";
        let plain = |page| {
            rules(page)
                .plain(drawn.as_bytes(), false)
                .expect("it is plain")
        };
        assert_eq!((plain(0).as_str(), plain(2).as_str()), (drawn, ""));
    }

    #[test]
    fn it_is_told_where_pages_differ() {
        let told = |one, two| difference(one, two).expect("they differ");
        assert_eq!(
            told("a\nb\nc", "a\nB\nc"),
            "line 2 (empty ones not counted): `B` instead of `b`"
        );
        assert!(told("a\nb", "a").contains("nothing instead of `b`"));
        assert!(told("a", "a\nb").contains("`b` where nothing is"));
        let long = "x".repeat(1000);
        let told = told(&format!("{long}1{long}"), &format!("{long}2{long}"));
        assert!(
            told.contains("`...x") && told.contains("x2x") && told.len() < 600,
            "{told}"
        );
    }
}
