//! A right answer, and others that are as right: those that have other tokens where it has one.

use std::ops::Range;

/// Hexadecimal digits that are a token, at least: fewer may be a figure.
const TOKEN_MIN: usize = 16;

/// A right answer. Where another one had another token of as many digits, any such may stand, as
/// servers draw them anew for each page: looking through each page for it would be what the load
/// does most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) content: Vec<u8>,
    /// Where tokens are, in their order.
    tokens: Vec<Range<usize>>,
}

fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// What is between ranges, and behind the last.
fn between(tokens: &[Range<usize>], length: usize) -> impl Iterator<Item = Range<usize>> {
    let begins = [0].into_iter().chain(tokens.iter().map(|token| token.end));
    let ends = tokens.iter().map(|token| token.start).chain([length]);
    begins.zip(ends).map(|(from, to)| from..to)
}

impl Right {
    pub(crate) fn new(content: Vec<u8>) -> Right {
        let tokens = Vec::new();
        Right { content, tokens }
    }

    /// Whether an answer is this one.
    pub(super) fn is(&self, other: &[u8]) -> bool {
        let content = &self.content;
        content.len() == other.len()
            && between(&self.tokens, content.len()).all(|part| content[part.clone()] == other[part])
            && (self.tokens.iter()).all(|token| other[token.clone()].iter().all(is_digit))
    }

    /// Takes in another right answer, which differs from it in tokens alone.
    ///
    /// Whether it does.
    pub(crate) fn learn(&mut self, other: &[u8]) -> bool {
        let content = &self.content;
        if content.len() != other.len() {
            return false;
        }
        let mut tokens: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        while let Some(more) = (at..content.len()).find(|at| content[*at] != other[*at]) {
            let both = |at: usize| is_digit(&content[at]) && is_digit(&other[at]);
            let begin = (0..=more).rev().take_while(|at| both(*at)).last();
            let Some(begin) = begin else { return false };
            let end = (more..content.len()).find(|at| !both(*at));
            let end = end.unwrap_or(content.len());
            if end - begin < TOKEN_MIN {
                return false;
            }
            tokens.push(begin..end);
            at = end;
        }
        // What was learned before and is the same in both is one all the same.
        let known = self.tokens.iter().filter(|known| !tokens.contains(known));
        tokens.extend(known.cloned().collect::<Vec<_>>());
        tokens.sort_by_key(|token| token.start);
        let apart = tokens.windows(2).all(|two| two[0].end <= two[1].start);
        if apart {
            self.tokens = tokens;
        }
        apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_token_is_as_right_and_anything_else_is_not() {
        let page = |token: &str, name: &str| format!("<b v=\"{token}\">{name}</b>").into_bytes();
        let [one, two, three] = ["0", "a", "9"].map(|digit| digit.repeat(40));
        let mut right = Right::new(page(&one, "x"));
        assert!(!right.is(&page(&two, "x")), "it is not known yet");
        // Digits that are alike by chance are of the token, too.
        let half = format!("{}{}", "b".repeat(20), "0".repeat(20));
        assert!(right.learn(&page(&half, "x")));
        for token in [&one, &two, &three] {
            assert!(right.is(&page(token, "x")), "{token}");
        }
        assert!(!right.is(&page(&two, "y")));
        assert!(!right.is(&page(&"g".repeat(40), "x")), "that is no token");
        assert!(!right.is(&page(&"a".repeat(39), "x")));
        assert!(!right.is(&page(&"a".repeat(41), "")));
        // What differs in more than tokens is not learned, nor what is too short for one.
        assert!(!right.learn(&page(&two, "y")));
        assert!(!right.learn(&page(&"a".repeat(39), "xx")));
        let mut short = Right::new(b"costs 12".to_vec());
        assert!(!short.learn(b"costs 13"));
        assert!(right.is(&page(&three, "x")));
    }

    #[test]
    fn several_tokens_are_learned_one_after_the_other() {
        let page = |one: &str, two: &str| format!("{one}|{two}").into_bytes();
        let [a, b] = ["a", "b"].map(|digit| digit.repeat(32));
        let mut right = Right::new(page(&a, &a));
        assert!(right.learn(&page(&b, &a)) && right.learn(&page(&a, &b)));
        assert!(right.is(&page(&b, &b)) && !right.is(&page(&b, "x")));
        assert_eq!(right.tokens, [0..32, 33..65]);
    }
}
