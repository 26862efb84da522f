//! What a Markdown document has and refers to: headings and their anchors, links, and documents
//! that are named in passing.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What can be referred to in a document.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Headings, as links name them.
    pub(crate) anchors: BTreeSet<String>,
    /// The anchor of each heading.
    pub(crate) headings: BTreeMap<String, String>,
    /// Headings, and words in italics that a paragraph or an item begins with.
    pub(crate) sections: BTreeSet<String>,
}

/// Where links and pictures lead, and where they stand.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let leads = events.filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((range.start, dest_url.into_string()))
        }
        _ => None,
    });
    leads.collect()
}

/// What can be referred to in a document.
pub(crate) fn places(text: &str) -> Places {
    let mut found = Places::default();
    // The words of a heading, or of what a paragraph begins with, while they are read.
    let mut words: Option<String> = None;
    let mut is_heading = false;
    let mut begins = false;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match &event {
            Event::Start(Tag::Heading { .. }) => {
                is_heading = true;
                words = Some(String::new());
            }
            Event::Start(Tag::Emphasis) if begins => words = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                is_heading = false;
                let heading = words.take().unwrap_or_default();
                let anchor = anchor(&heading, &found.anchors);
                found.headings.insert(heading.clone(), anchor.clone());
                found.anchors.insert(anchor);
                found.sections.insert(heading);
            }
            Event::End(TagEnd::Emphasis) if !is_heading => found.sections.extend(words.take()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(words) = &mut words {
                    words.push_str(text);
                }
            }
            Event::SoftBreak => {
                if let Some(words) = &mut words {
                    words.push(' ');
                }
            }
            _ => {}
        }
        let starts = Event::Start;
        begins = event == starts(Tag::Paragraph)
            || event == starts(Tag::Item)
            || event == starts(Tag::TableCell);
    }
    found
}

/// What a heading is in addresses: its letters, small, with dashes for spaces; a second of the same
/// words has a number.
fn anchor(heading: &str, others: &BTreeSet<String>) -> String {
    let letters = heading.to_lowercase();
    let letters = letters.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
        _ => None,
    });
    let name: String = letters.collect();
    let numbered = (1..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !others.contains(name)).unwrap_or(name)
}

/// A document of docs/ that is named.
pub(crate) struct Mention<'a> {
    /// Where, in bytes.
    pub(crate) at: usize,
    /// From the root.
    pub(crate) document: &'a str,
    /// The section that is named behind a comma.
    pub(crate) section: Option<String>,
}

/// Documents of docs/ that are named.
pub(crate) fn mentions(text: &str) -> Vec<Mention<'_>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("docs/") {
        let rest = &text[at..];
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "/-_.".contains(letter);
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let name = name.trim_end_matches('.');
        // A part of another path, or of an address.
        let is_longer = text[..at].ends_with(is_part);
        if !name.ends_with(".md") || is_longer {
            continue;
        }
        // Behind it, maybe in the next line of a text or a comment.
        let section = rest.strip_prefix(',').and_then(|rest| {
            let gap = |letter: char| letter.is_whitespace() || letter == '/' || letter == '#';
            let words = rest.trim_start_matches(gap).strip_prefix('*')?;
            let (words, _) = words.split_once('*')?;
            let is_mark = |word: &&str| ["//", "///", "//!", "#"].contains(word);
            let words: Vec<&str> = words.split_whitespace().filter(|it| !is_mark(it)).collect();
            // As headings are kept: without what makes code of words.
            Some(words.join(" ").replace('`', ""))
        });
        found.push(Mention {
            at,
            document: name,
            section,
        });
    }
    found
}

/// Where words stand that are neither code nor a link's.
pub(crate) fn prose(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut is_other = 0;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Link { .. } | Tag::Heading { .. }) => {
                is_other += 1;
            }
            Event::End(TagEnd::CodeBlock | TagEnd::Link | TagEnd::Heading(_)) => is_other -= 1,
            Event::Text(_) if is_other == 0 => found.push(range),
            _ => {}
        }
    }
    found
}
