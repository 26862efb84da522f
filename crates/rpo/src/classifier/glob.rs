//! Patterns over paths: `*` is any text without a slash, `**` any text, `?` one character but a
//! slash; behind a `\`, these and `\` are themselves, as all else is.

/// What is more than itself in a pattern.
const SPECIAL: [char; 3] = ['*', '?', '\\'];

/// The pattern that this text alone fits.
pub(super) fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if SPECIAL.contains(&character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This byte.
    Byte(u8),
    /// One character but a slash.
    One,
    /// Any text without a slash.
    Within,
    /// Any text.
    Any,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Glob {
        let mut parts = Vec::new();
        let mut bytes = pattern.bytes().peekable();
        while let Some(byte) = bytes.next() {
            match (byte, parts.last()) {
                (b'\\', _) => {
                    // Before anything else it is itself.
                    let itself = bytes.next_if(|next| SPECIAL.contains(&char::from(*next)));
                    parts.push(Part::Byte(itself.unwrap_or(byte)));
                }
                (b'*', Some(Part::Within)) => {
                    parts.pop();
                    parts.push(Part::Any);
                }
                (b'*', Some(Part::Any)) => {}
                (b'*', _) => parts.push(Part::Within),
                (b'?', _) => parts.push(Part::One),
                (byte, _) => parts.push(Part::Byte(byte)),
            }
        }
        Glob { parts }
    }

    /// Whether the whole text is as the pattern says, in time of their lengths' product at most.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let (mut part, mut at) = (0, 0);
        // Where to go on if what follows the last star of its sort does not fit: what star, and
        // how far it reaches then. An inner star gives way to the outer one.
        let mut outer: Option<(usize, usize)> = None;
        let mut inner: Option<(usize, usize)> = None;
        loop {
            let fits = match (self.parts.get(part), text.get(at)) {
                (None, None) => return true,
                (Some(Part::Any), _) => {
                    outer = Some((part, at));
                    inner = None;
                    part += 1;
                    continue;
                }
                (Some(Part::Within), _) => {
                    inner = Some((part, at));
                    part += 1;
                    continue;
                }
                (Some(Part::Byte(byte)), Some(here)) => byte == here,
                (Some(Part::One), Some(here)) => *here != b'/',
                _ => false,
            };
            if fits {
                at += 1;
                if self.parts[part] == Part::One {
                    // The rest of a character of several bytes.
                    at += (text[at..].iter())
                        .take_while(|byte| *byte & 0xC0 == 0x80)
                        .count();
                }
                part += 1;
            } else if let Some((star, reach)) =
                inner.filter(|(_, reach)| text.get(*reach).is_some_and(|here| *here != b'/'))
            {
                inner = Some((star, reach + 1));
                (part, at) = (star + 1, reach + 1);
            } else if let Some((star, reach)) = outer.filter(|(_, reach)| *reach < text.len()) {
                outer = Some((star, reach + 1));
                inner = None;
                (part, at) = (star + 1, reach + 1);
            } else {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("/", "/", true),
            ("/item/*", "/item/7", true),
            ("/item/*", "/item/7/edit", false),
            ("/item/**", "/item/7/edit", true),
            ("/item/*/edit", "/item/7/edit", true),
            ("/item/*/edit", "/item/7/8/edit", false),
            ("**/edit", "/item/7/8/edit", true),
            ("**/*.php", "/a/b/home.php", true),
            ("**/*.php", "/a/b/home.phtml", false),
            ("/a*b*c", "/aXbYbZc", true),
            ("/a*b*c", "/aXbYbZ", false),
            ("**/x/*b", "/x/ab/x/cb", true),
            ("**/x/*b", "/x/ab/x/c", false),
            ("/page?", "/page7", true),
            ("/page?", "/page/", false),
            ("/caf?", "/caf\u{e9}", true),
            ("/caf??", "/caf\u{e9}", false),
            ("**??", "\u{20ac}", false),
            ("/?/?", "/\u{20ac}/\u{e9}", true),
            ("**", "", true),
            ("*", "a/b", false),
        ] {
            assert_eq!(
                Glob::new(pattern).matches(text.as_bytes()),
                fits,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn what_is_meant_literally_fits_itself_alone() {
        for (text, other) in [("/a*b", "/axb"), (r"/\*", "/*"), ("*", "x"), (r"\a", "a")] {
            let pattern = Glob::new(&literal(text));
            assert!(pattern.matches(text.as_bytes()), "{text}");
            assert!(!pattern.matches(other.as_bytes()), "{text} {other}");
        }
        assert!(
            Glob::new(r"/a\b").matches(br"/a\b"),
            "before what is no more than itself"
        );
    }

    #[test]
    fn hard_patterns_take_no_long_time() {
        let pattern = Glob::new(&"*a".repeat(50));
        let mut text = vec![b'a'; 20_000];
        text.push(b'b');
        assert!(!pattern.matches(&text));
    }
}
