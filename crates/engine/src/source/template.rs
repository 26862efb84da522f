//! Parsing templates with MiniJinja's own parser.
//!
//! The parser and whoever walks its tree recurse, so how deep a template nests is bounded before it
//! is parsed.

use super::keys::Text;
use super::syntax;
use crate::diagnostic::{Place, Report, Reported};
use minijinja::machinery::{Span, Token, ast, parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use std::collections::BTreeMap;

/// Where the text that is compiled at the moment stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPlace<'a> {
    /// The place of its first byte.
    pub(crate) start: Place<'a>,
    /// Whether offsets into it are offsets into the file.
    pub(crate) exact: bool,
}

impl<'a> TextPlace<'a> {
    pub(crate) fn place(&self, offset: usize) -> Place<'a> {
        Place {
            offset: self.start.offset + if self.exact { offset } else { 0 },
            ..self.start
        }
    }

    pub(crate) fn at(&self, span: Span) -> Place<'a> {
        self.place(span.start_offset as usize)
    }

    /// A string of a header.
    pub(crate) fn of_text(text: &Text<'a>) -> TextPlace<'a> {
        TextPlace {
            start: text.place,
            exact: text.exact,
        }
    }
}

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Template<'a> {
    pub(crate) origin: TextPlace<'a>,
    pub(crate) body: ast::Stmt<'a>,
}

impl<'a> Template<'a> {
    /// Its statements.
    pub(crate) fn statements(&self) -> &[ast::Stmt<'a>] {
        match &self.body {
            ast::Stmt::Template(template) => &template.children,
            _ => &[],
        }
    }
}

/// All templates of a service: of `templates/` by their name there, of pages as `pages/NAME`.
#[derive(Debug, Default)]
pub(crate) struct Library<'a> {
    /// `None` where the file exists but cannot be parsed.
    templates: BTreeMap<&'a str, Option<Template<'a>>>,
}

impl<'a> Library<'a> {
    /// Parses a template and adds it, or reports why it cannot be parsed.
    pub(crate) fn add(&mut self, name: &'a str, start: Place<'a>, report: &mut Report) {
        let origin = TextPlace { start, exact: true };
        let source = &start.text[start.offset..];
        let template = parse_template(source, origin, report).ok();
        self.templates
            .insert(name, template.map(|body| Template { origin, body }));
    }

    /// Adds a template that could not be read, which is reported.
    pub(crate) fn add_unread(&mut self, name: &'a str) {
        self.templates.insert(name, None);
    }

    /// A template: `None` where there is none of this name, `Some(None)` where it has been
    /// reported.
    pub(crate) fn get(&self, name: &str) -> Option<Option<&Template<'a>>> {
        self.templates.get(name).map(Option::as_ref)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.templates.keys().copied()
    }
}

/// Parses a template.
pub(crate) fn parse_template<'s>(
    source: &'s str,
    origin: TextPlace<'_>,
    report: &mut Report,
) -> Result<ast::Stmt<'s>, Reported> {
    check_nesting(source, false, origin, report)?;
    parse(source, "template", SyntaxConfig::default())
        .map_err(|error| syntax_error(&error, source, false, origin, report))
}

/// Parses an expression.
pub(crate) fn parse_expression<'s>(
    source: &'s str,
    origin: TextPlace<'_>,
    report: &mut Report,
) -> Result<ast::Expr<'s>, Reported> {
    let braces = source.trim().strip_prefix("{{");
    if let Some(inside) = braces.and_then(|rest| rest.strip_suffix("}}")) {
        let message = "this is an expression as it is, without braces";
        let hint = format!("\"{}\"", inside.trim());
        return Err(report.error(origin.place(0), message, hint));
    }
    check_nesting(source, true, origin, report)?;
    parse_expr(source).map_err(|error| syntax_error(&error, source, true, origin, report))
}

fn syntax_error(
    error: &minijinja::Error,
    source: &str,
    is_expression: bool,
    origin: TextPlace<'_>,
    report: &mut Report,
) -> Reported {
    let line = |offset| origin.place(offset).line();
    let mistake = syntax::explain(error, source, is_expression, line);
    report.error(origin.place(mistake.offset), mistake.message, mistake.hint)
}

/// Deepest nesting of statements and of brackets.
const NESTING_MAX: usize = 60;
/// Most operators within one tag: each is a level of the tree.
const OPERATORS_MAX: usize = 200;

/// Refuses what nests so deep that walking it could exhaust the stack.
fn check_nesting(
    source: &str,
    is_expression: bool,
    origin: TextPlace<'_>,
    report: &mut Report,
) -> Result<(), Reported> {
    // What each open statement adds: an `elif` is a level of its own within its `if`.
    let mut open: Vec<usize> = Vec::new();
    // Operators in each open bracket of the current tag, since its last comma.
    let mut operators: Vec<usize> = vec![0];
    let mut begins_tag = false;
    for token in tokenize(source, is_expression, SyntaxConfig::default()) {
        // The parser reports what is wrong with it.
        let Ok((token, span)) = token else { break };
        let begins = std::mem::replace(&mut begins_tag, false);
        match token {
            Token::VariableStart | Token::BlockStart => {
                operators = vec![0];
                begins_tag = matches!(token, Token::BlockStart);
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => operators.push(1),
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                // What follows, such as `(a)(b)`, is around it.
                operators.pop();
                match operators.last_mut() {
                    Some(around) => *around += 1,
                    None => operators.push(1),
                }
            }
            Token::Comma => *operators.last_mut().expect("never empty") = 0,
            Token::Ident(word) if begins => match word {
                "elif" => {
                    if let Some(levels) = open.last_mut() {
                        *levels += 1;
                    }
                }
                "if" | "for" | "with" | "block" | "macro" | "call" | "filter" | "autoescape" => {
                    open.push(1);
                }
                "endif" | "endfor" | "endwith" | "endblock" | "endmacro" | "endcall"
                | "endfilter" | "endautoescape" => {
                    open.pop();
                }
                _ => {}
            },
            Token::Ident(word) => {
                let joins = ["not", "and", "or", "in", "is", "if", "else"].contains(&word);
                *operators.last_mut().expect("never empty") += usize::from(joins);
            }
            Token::TemplateData(_) | Token::VariableEnd | Token::BlockEnd => {}
            Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_) => {}
            _ => *operators.last_mut().expect("never empty") += 1,
        }
        let deep = open.iter().sum::<usize>() + operators.len() > NESTING_MAX;
        if deep || operators.iter().sum::<usize>() > OPERATORS_MAX {
            let what = if deep {
                "this nests too deep"
            } else {
                "this expression is too long"
            };
            return Err(report.error(origin.at(span), what, "divide it, with `set` or macros"));
        }
    }
    Ok(())
}
