//! What is wrong with a template that cannot be parsed.
//!
//! The parser tells where it cannot go on. Where something was opened and not ended, that is far
//! behind the mistake, so the tokens before are looked at again: which statements are open there,
//! and which tag.

use crate::diagnostic::did_you_mean;
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Statements, and the words that end or divide those that have a body.
const WORDS: [&str; 21] = [
    "if", "elif", "else", "endif", "for", "endfor", "set", "block", "endblock", "extends",
    "include", "import", "from", "macro", "endmacro", "with", "endwith", "raw", "endraw", "do",
    "endset",
];
/// The statements that a page may have.
const STATEMENTS: &str =
    "the statements are: if, for, set, block, extends, include, import, from, macro, with, raw";

/// What is open where the parser gave up: offsets into the source.
#[derive(Default)]
struct Open<'s> {
    /// Statements with a body, each with where its tag begins.
    statements: Vec<(&'s str, usize)>,
    /// The tag under way: what ends it, and where it begins.
    tag: Option<(&'static str, usize)>,
    /// Where the last token ends.
    read: usize,
}

impl<'s> Open<'s> {
    /// What is open at an offset.
    fn at(source: &'s str, is_expression: bool, offset: usize) -> Open<'s> {
        let mut open = Open::default();
        // The statement of the tag under way, if it has a body, and whether it is a `set`, which
        // has one unless it assigns.
        let mut begun: Option<&str> = None;
        let mut begins = false;
        for token in tokenize(source, is_expression, SyntaxConfig::default()) {
            let Ok((token, span)) = token else { break };
            if span.start_offset as usize >= offset {
                break;
            }
            open.read = span.end_offset as usize;
            let is_first = std::mem::take(&mut begins);
            match token {
                Token::VariableStart => open.tag = Some(("}}", span.start_offset as usize)),
                Token::BlockStart => {
                    open.tag = Some(("%}", span.start_offset as usize));
                    begins = true;
                }
                Token::VariableEnd => open.tag = None,
                Token::BlockEnd => {
                    if let (Some(word), Some((_, start))) = (begun.take(), open.tag.take()) {
                        open.statements.push((word, start));
                    }
                }
                Token::Ident(
                    word @ ("if" | "for" | "with" | "block" | "macro" | "call" | "filter"
                    | "autoescape" | "set"),
                ) if is_first => begun = Some(word),
                Token::Ident(word) if is_first && word.starts_with("end") => {
                    open.statements.pop();
                }
                Token::Assign if begun == Some("set") => begun = None,
                _ => {}
            }
        }
        open
    }
}

/// Why a template, or an expression, cannot be parsed.
pub(super) struct Mistake {
    /// Where it is, as an offset into the source.
    pub(super) offset: usize,
    /// What is wrong.
    pub(super) message: String,
    /// What helps.
    pub(super) hint: String,
}

impl Mistake {
    fn new(offset: usize, message: impl Into<String>, hint: impl Into<String>) -> Mistake {
        Mistake {
            offset,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Tells what is wrong with a source of which the parser says this. `line` gives the line of an
/// offset.
pub(super) fn explain(
    error: &minijinja::Error,
    source: &str,
    is_expression: bool,
    line: impl Fn(usize) -> u32,
) -> Mistake {
    let message = error.detail().unwrap_or("this cannot be parsed");
    let offset = error.range().map_or(0, |range| range.start);
    let until = match message.contains("unexpected end of ") {
        true => source.len(),
        false => offset,
    };
    let open = Open::at(source, is_expression, until);
    // What the tokens end before.
    let opened = |mark: &str| {
        let rest = source.get(open.read..).unwrap_or_default();
        rest.find(mark).map_or(offset, |found| open.read + found)
    };
    match message {
        "unexpected end of comment" => {
            let hint = "add `#}` where it ends";
            return Mistake::new(opened("{#"), "this comment does not end", hint);
        }
        "unexpected end of raw block" => {
            return Mistake::new(opened("{%"), "this `raw` does not end", "add {% endraw %}");
        }
        _ => {}
    }
    let twice = message.strip_prefix("block '");
    if let Some(name) = twice.and_then(|rest| rest.strip_suffix("' defined twice")) {
        return block_twice(name, source, offset, line);
    }
    if let Some(word) = message.strip_prefix("unknown statement ") {
        return unknown_statement(word, &open, offset, line);
    }
    let is_at_end = message.starts_with("unexpected end of input");
    let is_brace = source
        .get(offset..)
        .is_some_and(|rest| rest.starts_with('}'));
    match (open.tag, open.statements.last()) {
        (Some((end, start)), _) if is_at_end => {
            let message = format!("this {} does not end", tag_name(end));
            Mistake::new(start, message, format!("add `{end}`"))
        }
        (Some((end, start)), _) if line(start) != line(offset) => {
            let (tag, line) = (tag_name(end), line(start));
            let hint = format!("does the {tag} of line {line} lack its `{end}`?");
            Mistake::new(offset, message, hint)
        }
        (Some(_), _)
            if message.starts_with("unexpected `,`")
                && message.ends_with("expected end of variable block") =>
        {
            let hint = "an output prints one value; `~` joins texts";
            Mistake::new(offset, message, hint)
        }
        (Some(_), _) if message.ends_with("expected end of variable block") => {
            let hint = "`}}` ends an output; braces that are text go between {% raw %} and \
                        {% endraw %}";
            Mistake::new(offset, message, hint)
        }
        (Some(("%}", _)), _) if is_brace => Mistake::new(offset, message, "`%}` ends a tag"),
        (None, Some((statement, start))) if is_at_end => {
            let message = format!("this `{statement}` does not end");
            Mistake::new(*start, message, format!("add {{% end{statement} %}}"))
        }
        (tag, _) => {
            let tag = tag.and_then(|(_, start)| source.get(start..offset));
            let rest = source.get(offset..).unwrap_or_default();
            let hint = match is_expression && source.contains("{{") {
                true => "an expression stands as it is, without {{ and }}",
                false => other_language(message, tag, rest, source),
            };
            Mistake::new(offset, message, hint)
        }
    }
}

/// What is written so in other languages, and how here, or what there can be.
fn other_language(message: &str, tag: Option<&str>, rest: &str, source: &str) -> &'static str {
    let tag = tag.map(|tag| tag.trim_start_matches(['{', '%', '-', '+', ' ']));
    match message {
        "unexpected end of string" => "a string ends with the quote that it began with",
        _ if tag.is_some_and(|tag| tag.starts_with("else")) => "`elif` is else and if in one",
        "unexpected input after expression" if source.contains(" = ") => "`==` compares",
        _ if rest.starts_with("= ") => "`==` compares",
        _ if rest.starts_with('?') => "`b if a else c` chooses, where others write `a ? b : c`",
        _ if rest.starts_with('&') => "it is called `and`",
        "unexpected `|`, expected identifier" => "`||` is called `or`",
        _ if rest.starts_with('!') => "it is called `not`",
        _ if message.starts_with("unexpected end of")
            || message.ends_with("expected expression") =>
        {
            "a value is missing here"
        }
        _ => "docs/pages.md has what a template can say",
    }
}

/// What a tag is that ends so.
fn tag_name(end: &str) -> &'static str {
    match end {
        "}}" => "output",
        _ => "tag",
    }
}

/// A block of a name that one before it has.
fn block_twice(name: &str, source: &str, offset: usize, line: impl Fn(usize) -> u32) -> Mistake {
    let tokens = tokenize(source, false, SyntaxConfig::default());
    let tokens: Vec<_> = tokens.map_while(Result::ok).collect();
    let first = tokens.windows(3).find(|tokens| {
        let [begin, statement, named] = [0, 1, 2].map(|index| &tokens[index].0);
        matches!(begin, Token::BlockStart)
            && matches!(statement, Token::Ident("block"))
            && matches!(named, Token::Ident(first) if *first == name)
    });
    let first = first.map_or(offset, |tokens| tokens[2].1.start_offset as usize);
    let message = format!("this template has a block `{name}` already");
    let hint = format!(
        "it is in line {}: give one of them another name; {{{{ self.{name}() }}}} shows it again",
        line(first)
    );
    Mistake::new(offset, message, hint)
}

/// A word that begins no statement: one that ends or divides another than is open, or a misspelled
/// one.
fn unknown_statement(
    word: &str,
    open: &Open<'_>,
    offset: usize,
    line: impl Fn(usize) -> u32,
) -> Mistake {
    let ends = word.strip_prefix("end").filter(|_| WORDS.contains(&word));
    match (word, ends, open.statements.last()) {
        (_, Some(_), Some((inner, start))) => {
            let message = format!("`{word}` stands where `end{inner}` is missing");
            let hint = format!("the `{inner}` of line {} is not ended", line(*start));
            Mistake::new(offset, message, hint)
        }
        (_, Some(ended), None) => {
            let message = format!("`{word}` ends nothing: no `{ended}` is open here");
            let hint = format!("remove it, or begin one: {{% {ended} ... %}}");
            Mistake::new(offset, message, hint)
        }
        ("end", _, Some((inner, _))) => {
            let hint = format!("`end{inner}` ends the `{inner}`");
            Mistake::new(offset, "unknown statement end", hint)
        }
        ("else", ..) => {
            let hint = "{% if ... %} begins one; is it ended too early?";
            Mistake::new(offset, "`else` stands in no `if` and no `for`", hint)
        }
        ("csrf_token", ..) => {
            let hint = "it is an output: {{ csrf_input }}";
            Mistake::new(offset, "unknown statement csrf_token", hint)
        }
        ("elif", ..) => {
            let hint = "{% if ... %} begins one; is it ended too early?";
            Mistake::new(offset, "`elif` stands in no `if`", hint)
        }
        _ => {
            let near = did_you_mean(word, WORDS);
            let hint = match near.starts_with("did you mean") {
                true => near,
                false => STATEMENTS.to_owned(),
            };
            Mistake::new(offset, format!("unknown statement {word}"), hint)
        }
    }
}
