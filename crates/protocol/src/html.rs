//! Escaping text for HTML.

/// What replaces a byte in HTML, in text and in quoted attributes, if anything does: the set that
/// MiniJinja has.
#[inline]
#[must_use]
pub const fn entity(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'&' => "&amp;",
        b'"' => "&quot;",
        b'\'' => "&#x27;",
        b'/' => "&#x2f;",
        _ => return None,
    })
}

/// Appends a text, escaped.
pub fn escape(text: &str, to: &mut String) {
    for c in text.chars() {
        match u8::try_from(c).ok().and_then(entity) {
            Some(entity) => to.push_str(entity),
            None => to.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_html_means_something_by_is_replaced() {
        let mut out = String::new();
        escape("a<b> & \"c\" 'd' /\u{e9}", &mut out);
        let expected = "a&lt;b&gt; &amp; &quot;c&quot; &#x27;d&#x27; &#x2f;\u{e9}";
        assert_eq!(out, expected);
    }
}
