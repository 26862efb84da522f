//! Page templates made at random: well typed as far as their maker can tell, so that most compile.

use rhythm_engine::device::conformance::Dice;

/// What a name or an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Bool,
}

const KINDS: [Kind; 3] = [Kind::Text, Kind::Int, Kind::Bool];

/// The header of every page made here.
pub(crate) const HEADER: &str = r#"+++
route = "GET /made"

[params]
name = { in = "query", type = "text", max_length = 10000 }
n = { in = "query", type = "int" }
small = { in = "query", type = "int", min = 0, max = 5 }
items = { in = "query", list = 8, fields = { label = { type = "text" }, size = { type = "int" } } }
words = { in = "query", list = 8, type = "text" }

[[step]]
call = "data"
request = "1&3&{{ n }}&{{ name }}"
rows = "rows(title, count:int)"
+++
"#;

/// The service every page made here is part of.
pub(crate) const SERVICE: &str = r#"
[service]
name = "made"

[backend.data]
kind = "besim"
url = "embedded"
"#;

/// A template that pages include.
pub(crate) const PARTIAL: &str =
    "<i>{{ name|upper }}</i>\n{% if small > 2 %}many{% else %}few{% endif %}\n";

/// A template that pages extend.
pub(crate) const LAYOUT: &str = concat!(
    "<html>{% block head %}<title>{{ name }}</title>{% endblock %}\n",
    "{% block body %}{% endblock %}</html>\n"
);

/// Macros that pages import.
pub(crate) const MACROS: &str = concat!(
    "{% macro tag(name, text, size=1) %}",
    "<{{ name }} s={{ size }}>{{ text }}</{{ name }}>{% endmacro %}"
);

/// A template from a seed: the part of a page file after its header.
pub(crate) fn template(seed: u64) -> String {
    let mut maker = Maker {
        dice: Dice::new(seed),
        names: vec![
            ("name".to_owned(), Kind::Text),
            ("n".to_owned(), Kind::Int),
            ("small".to_owned(), Kind::Int),
        ],
        in_loop: false,
        fresh: 0,
    };
    match maker.dice.below(6) {
        0 => {
            let head = maker.block(1);
            let body = maker.block(3);
            let parent = if maker.dice.once_in(2) {
                "{{ super() }}"
            } else {
                ""
            };
            format!(
                "{{% extends \"layout.html\" %}}\
                 {{% block head %}}{parent}{head}{{% endblock %}}\
                 {{% block body %}}{body}{{% endblock %}}"
            )
        }
        1 => {
            let body = maker.block(3);
            let call = maker.macro_call();
            format!(
                "{{% from \"macros.html\" import tag %}}{body}{call}{}",
                maker.block(2)
            )
        }
        _ => maker.block(4),
    }
}

struct Maker {
    dice: Dice,
    /// Names that can be read here.
    names: Vec<(String, Kind)>,
    in_loop: bool,
    fresh: usize,
}

impl Maker {
    fn block(&mut self, depth: usize) -> String {
        let known = self.names.len();
        let statements = 1 + self.dice.below(5);
        let text = (0..statements).map(|_| self.statement(depth)).collect();
        self.names.truncate(known);
        text
    }

    /// An opening or closing tag, with white space control now and then.
    fn tag(&mut self, inside: &str) -> String {
        let open = *self.dice.pick(&["{%", "{%", "{%", "{%-"]);
        let close = *self.dice.pick(&["%}", "%}", "%}", "-%}"]);
        format!("{open} {inside} {close}")
    }

    fn statement(&mut self, depth: usize) -> String {
        match self.dice.below(if depth == 0 { 5 } else { 12 }) {
            0 | 1 => self.raw(),
            2..5 => {
                let kind = *self.dice.pick(&KINDS);
                let value = self.expression(kind, 2);
                let filter = match (kind, self.dice.below(10)) {
                    (Kind::Text, 0) => "|safe",
                    (Kind::Text, 1) => "|escape",
                    _ => "",
                };
                let (open, close) =
                    *self
                        .dice
                        .pick(&[("{{", "}}"), ("{{", "}}"), ("{{-", "}}"), ("{{", "-}}")]);
                if filter.is_empty() {
                    format!("{open} {value} {close}")
                } else {
                    format!("{open} ({value}){filter} {close}")
                }
            }
            5 | 6 => self.conditional(depth - 1),
            7 | 8 => self.for_loop(depth - 1),
            9 if self.dice.once_in(3) => self.set_block(depth - 1),
            9 => self.set(),
            10 => {
                let tag = self.tag("include \"partial.html\"");
                format!("{tag}{}", self.raw())
            }
            _ => format!("{{# a comment #}}{}", self.raw()),
        }
    }

    fn raw(&mut self) -> String {
        const PIECES: &[&str] = &[
            "<p>",
            "</p>\n",
            "  ",
            "\n\n",
            "text & more",
            "ü",
            "\t",
            "a long stretch of static text that is the same for all lanes, and so on, and so on, \
             until it is longer than what is folded into a run",
            "{% raw %}{{ raw }}{% endraw %}",
            ".",
            "\n",
        ];
        (0..1 + self.dice.below(3))
            .map(|_| *self.dice.pick(PIECES))
            .collect()
    }

    fn conditional(&mut self, depth: usize) -> String {
        let condition = self.expression(Kind::Bool, 2);
        let mut text = self.tag(&format!("if {condition}"));
        text += &self.block(depth);
        if self.dice.once_in(3) {
            let kind = *self.dice.pick(&KINDS);
            let other = self.expression(kind, 1);
            text += &self.tag(&format!("elif {other}"));
            text += &self.block(depth);
        }
        if self.dice.once_in(2) {
            text += &self.tag("else");
            text += &self.block(depth);
        }
        text + &self.tag("endif")
    }

    fn for_loop(&mut self, depth: usize) -> String {
        let name = self.fresh_name("item");
        let known = self.names.len();
        let source = match self.dice.below(5) {
            0 => {
                self.names.extend([
                    (format!("{name}.label"), Kind::Text),
                    (format!("{name}.size"), Kind::Int),
                ]);
                self.chosen("items", &["label", "size"])
            }
            1 => {
                self.names.extend([
                    (format!("{name}.title"), Kind::Text),
                    (format!("{name}.count"), Kind::Int),
                ]);
                self.chosen("rows", &["title", "count"])
            }
            2 => {
                self.names.push((name.clone(), Kind::Text));
                self.chosen("words", &[])
            }
            3 => {
                self.names.push((name.clone(), Kind::Int));
                (*self.dice.pick(&[
                    "range(3)",
                    "range(small)",
                    "range(1, small)",
                    "range(small, 0, -1)",
                    "[1, 2, 3]",
                ]))
                .to_owned()
            }
            _ => {
                self.names.push((name.clone(), Kind::Text));
                "[\"a\", \"<b>\", name]".replace(", name", "").to_owned()
            }
        };
        let filter = if self.dice.once_in(3) {
            format!(" if {}", self.expression(Kind::Bool, 1))
        } else {
            String::new()
        };
        let was_in_loop = std::mem::replace(&mut self.in_loop, true);
        let mut text = self.tag(&format!("for {name} in {source}{filter}"));
        text += &self.block(depth);
        self.in_loop = was_in_loop;
        self.names.truncate(known);
        if self.dice.once_in(3) {
            text += &self.tag("else");
            text += &self.block(depth);
        }
        text + &self.tag("endfor")
    }

    /// A list, or what is taken of it: of records by their columns, a text and an integer.
    fn chosen(&mut self, list: &str, columns: &[&str]) -> String {
        let mut list = list.to_owned();
        while self.dice.once_in(3) {
            let of_all = [
                "|reverse",
                "|list",
                "[1:]",
                "[:2]",
                "[-3:small]",
                "[small:]",
            ];
            let of_values = ["|sort", "|unique", "|select", "|reject(\"in\", [name])"];
            let of_columns = [
                "|sort(attribute=\"INT\")",
                "|sort(attribute=\"TEXT\", reverse=true)",
                "|sort(attribute=\"TEXT, INT\", case_sensitive=true)",
                "|unique(attribute=\"TEXT\")",
                "|unique(attribute=\"INT\")",
                "|selectattr(\"TEXT\")",
                "|rejectattr(\"INT\", \"odd\")",
                "|selectattr(\"INT\", \"gt\", n)",
            ];
            let what = match columns {
                _ if self.dice.once_in(2) => (*self.dice.pick(&of_all)).to_owned(),
                [text, int] => {
                    let what = *self.dice.pick(&of_columns);
                    what.replace("TEXT", text).replace("INT", int)
                }
                _ => (*self.dice.pick(&of_values)).to_owned(),
            };
            list = format!("({list}{what})");
        }
        list
    }

    fn set_block(&mut self, depth: usize) -> String {
        let name = self.fresh_name("set");
        let body = self.block(depth);
        let text = format!(
            "{}{body}{}",
            self.tag(&format!("set {name}")),
            self.tag("endset")
        );
        self.names.push((name, Kind::Text));
        text
    }

    fn set(&mut self) -> String {
        let kind = *self.dice.pick(&KINDS);
        let value = self.expression(kind, 2);
        // Sometimes a name that is known already, perhaps from outside the loop this is in.
        let old: Vec<String> = (self.names.iter())
            .filter(|(name, k)| *k == kind && name.starts_with("set"))
            .map(|(name, _)| name.clone())
            .collect();
        let name = if !old.is_empty() && self.dice.once_in(2) {
            self.dice.pick(&old).clone()
        } else {
            self.fresh_name("set")
        };
        let tag = self.tag(&format!("set {name} = {value}"));
        self.names.push((name, kind));
        tag
    }

    fn macro_call(&mut self) -> String {
        let text = self.expression(Kind::Text, 1);
        let size = self.expression(Kind::Int, 1);
        match self.dice.below(3) {
            0 => format!("{{{{ tag(\"b\", {text}) }}}}"),
            1 => format!("{{{{ tag(\"b\", {text}, {size}) }}}}"),
            _ => format!("{{{{ tag(\"b\", text={text}, size={size}) }}}}"),
        }
    }

    fn fresh_name(&mut self, stem: &str) -> String {
        self.fresh += 1;
        format!("{stem}{}", self.fresh)
    }

    fn name_of(&mut self, kind: Kind) -> Option<String> {
        let names: Vec<&String> = self
            .names
            .iter()
            .filter(|(_, k)| *k == kind)
            .map(|(name, _)| name)
            .collect();
        (!names.is_empty()).then(|| names[self.dice.below(names.len())].clone())
    }

    fn expression(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.dice.once_in(3) {
            return self.atom(kind);
        }
        if self.dice.once_in(8) {
            let [a, b] = [0; 2].map(|_| self.expression(kind, depth - 1));
            return format!(
                "({a} if {} else {b})",
                self.expression(Kind::Bool, depth - 1)
            );
        }
        let d = depth - 1;
        match kind {
            Kind::Text => {
                let a = self.expression(Kind::Text, d);
                match self.dice.below(11) {
                    9 => format!("({}|join({a}))", self.chosen("words", &[])),
                    10 => format!("{a}[1:small]"),
                    0 | 1 => {
                        let other = *self.dice.pick(&KINDS);
                        format!("({a} ~ {})", self.expression(other, d))
                    }
                    2 => format!("({a}|replace(\"a\", {}))", self.atom(Kind::Text)),
                    3 => format!("({a} + {})", self.expression(Kind::Text, d)),
                    _ => {
                        let filter = *self.dice.pick(&[
                            "upper",
                            "lower",
                            "title",
                            "capitalize",
                            "trim",
                            "urlencode",
                            "md5",
                            "string",
                            "reverse",
                            "striptags",
                            "indent(2)",
                            "truncate(length=9)",
                        ]);
                        format!("({a}|{filter})")
                    }
                }
            }
            Kind::Int => {
                let a = self.expression(Kind::Int, d);
                match self.dice.below(8) {
                    0 | 1 => {
                        let operator = *self.dice.pick(&["+", "-", "*"]);
                        format!("({a} {operator} {})", self.expression(Kind::Int, d))
                    }
                    2 => format!("({a} // {})", self.expression(Kind::Int, d)),
                    3 => format!("({a} % {})", self.expression(Kind::Int, d)),
                    4 => format!("(-{a})"),
                    5 => format!("({a}|abs)"),
                    6 => format!("({}|int({a}))", self.expression(Kind::Text, d)),
                    _ => format!("({}|length)", self.expression(Kind::Text, d)),
                }
            }
            Kind::Bool => match self.dice.below(9) {
                8 => {
                    let a = self.expression(Kind::Text, d);
                    format!("({a} in {})", self.chosen("words", &[]))
                }
                0 | 1 => {
                    let operator = *self.dice.pick(&["==", "!=", "<", "<=", ">", ">="]);
                    let of = *self.dice.pick(&[Kind::Text, Kind::Int]);
                    format!(
                        "({} {operator} {})",
                        self.expression(of, d),
                        self.expression(of, d)
                    )
                }
                2 => format!("(not {})", self.expression(Kind::Bool, d)),
                3 => {
                    let operator = *self.dice.pick(&["and", "or"]);
                    format!(
                        "({} {operator} {})",
                        self.expression(Kind::Bool, d),
                        self.expression(Kind::Bool, d)
                    )
                }
                4 => format!(
                    "({} in {})",
                    self.expression(Kind::Text, d),
                    self.expression(Kind::Text, d)
                ),
                5 => {
                    let test = *self.dice.pick(&["even", "odd", "divisibleby(3)", "number"]);
                    format!("({} is {test})", self.expression(Kind::Int, d))
                }
                6 => {
                    let test =
                        *self
                            .dice
                            .pick(&["startingwith(\"a\")", "endingwith(name)", "string"]);
                    format!("({} is {test})", self.expression(Kind::Text, d))
                }
                _ => {
                    format!("({} in [1, 2, n])", self.expression(Kind::Int, d)).replace(", n]", "]")
                }
            },
        }
    }

    fn atom(&mut self, kind: Kind) -> String {
        if self.dice.below(3) > 0
            && let Some(name) = self.name_of(kind)
        {
            return name;
        }
        match kind {
            Kind::Text => (*self.dice.pick(&[
                "\"\"",
                "\"a\"",
                "'<x & \"y\">'",
                "\"o'hara/b\"",
                "\"ß Ä\"",
                "\" pad \"",
                "\"12\"",
                "\"-7.5\"",
            ]))
            .to_owned(),
            Kind::Int if self.in_loop && self.dice.once_in(2) => (*self.dice.pick(&[
                "loop.index",
                "loop.index0",
                "loop.revindex",
                "loop.revindex0",
                "loop.length",
                "loop.depth",
            ]))
            .to_owned(),
            Kind::Int => match self.dice.below(6) {
                0 => format!("({}|length)", self.chosen("items", &["label", "size"])),
                1 => format!("({}|length)", self.chosen("rows", &["title", "count"])),
                2 => "rows.status".to_owned(),
                _ => self.dice.below(9).to_string(),
            },
            Kind::Bool if self.in_loop && self.dice.once_in(2) => {
                (*self.dice.pick(&["loop.first", "loop.last"])).to_owned()
            }
            Kind::Bool => {
                (*self
                    .dice
                    .pick(&["true", "false", "(name is defined)", "(nothing is defined)"]))
                .to_owned()
            }
        }
    }
}
