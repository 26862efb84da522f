//! Pages made at random: the compiler takes them, and every executor answers what MiniJinja answers.
//!
//! The maker knows the types of the names it has, so that it makes pages the language allows, with what pages are made of
//! nested in one another: branches, loops, sets, includes, blocks, macros and all operators, filters and tests.

mod page_common;

use page_common::{compare, limits};
use rhythm_engine::device::conformance::Dice;
use rhythm_engine::device::host::Host;
use rhythm_engine::device::scalar::Scalar;
use rhythm_engine::page::{Sources, compile};
use rhythm_protocol::scan::Level;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Text,
    Int,
    Float,
    Bool,
}

const KINDS: [Kind; 4] = [Kind::Text, Kind::Int, Kind::Float, Kind::Bool];

struct Maker {
    dice: Dice,
    /// Expressions that stand for a value of a type here, innermost last.
    names: Vec<(String, Kind)>,
    /// Lists of records with the columns `t` (text) and `i` (integer).
    lists: Vec<String>,
    in_loop: bool,
    /// Names are never used twice, so that no `set` changes what a name is.
    count: usize,
    /// Blocks cannot be defined in macros, nor twice.
    may_define_blocks: bool,
    blocks: Vec<String>,
}

impl Maker {
    fn new_name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    fn pick(&mut self, from: &[&str]) -> String {
        (*self.dice.pick(from)).to_owned()
    }

    fn kind(&mut self) -> Kind {
        *self.dice.pick(&KINDS)
    }

    fn leaf(&mut self, kind: Kind) -> String {
        let known: Vec<String> = self
            .names
            .iter()
            .filter(|(_, of)| *of == kind)
            .map(|(name, _)| name.clone())
            .collect();
        if !known.is_empty() && !self.dice.once_in(4) {
            return self.dice.pick(&known).clone();
        }
        if kind == Kind::Int && self.in_loop && self.dice.once_in(2) {
            return self.pick(&[
                "loop.index",
                "loop.index0",
                "loop.length",
                "loop.revindex",
                "loop.revindex0",
                "loop.depth",
            ]);
        }
        if kind == Kind::Bool && self.in_loop && self.dice.once_in(2) {
            return self.pick(&["loop.first", "loop.last"]);
        }
        match kind {
            Kind::Text => self.pick(&[
                "\"\"",
                "\"<b>&'/\"",
                "'x'",
                "\"Straße\"",
                "\"01\"",
                "\"a b-c\"",
            ]),
            Kind::Int => self.pick(&["0", "1", "2", "7", "-3", "10"]),
            Kind::Float => self.pick(&["0.5", "2.0", "-1.25", "1e3"]),
            Kind::Bool => self.pick(&["true", "false"]),
        }
    }

    fn expression(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.dice.once_in(5) {
            return self.leaf(kind);
        }
        let depth = depth - 1;
        if self.dice.once_in(8) {
            let (a, b) = (self.expression(kind, depth), self.expression(kind, depth));
            let condition = self.condition(depth);
            return format!("({a} if {condition} else {b})");
        }
        if self.dice.once_in(10) {
            let (a, b) = (self.expression(kind, depth), self.expression(kind, depth));
            let operator = self.pick(&["and", "or"]);
            return format!("({a} {operator} {b})");
        }
        match kind {
            Kind::Text => self.text(depth),
            Kind::Int => match self.dice.below(7) {
                0 => {
                    let text = self.expression(Kind::Text, depth);
                    format!("{text}|length")
                }
                1 if !self.lists.is_empty() => {
                    let lists = self.lists.clone();
                    format!("{}|length", self.dice.pick(&lists))
                }
                2 => {
                    let number = self.kind();
                    let number = if number == Kind::Text {
                        Kind::Bool
                    } else {
                        number
                    };
                    format!("({})|int", self.expression(number, depth))
                }
                3 => format!("({})|abs", self.expression(Kind::Int, depth)),
                4 => format!("(-({}))", self.expression(Kind::Int, depth)),
                _ => {
                    let (a, b) = (
                        self.expression(Kind::Int, depth),
                        self.expression(Kind::Int, depth),
                    );
                    let operator = self.pick(&["+", "-", "*", "//", "%"]);
                    format!("({a} {operator} {b})")
                }
            },
            Kind::Float => {
                let (a, b) = (
                    self.expression(Kind::Float, depth),
                    self.expression(Kind::Int, depth),
                );
                match self.dice.below(6) {
                    0 => format!("({a})|abs"),
                    1 => format!("({b})|float"),
                    2 => format!("({b} / {a})"),
                    _ => {
                        let operator = self.pick(&["+", "-", "*", "/", "//", "%"]);
                        format!("({a} {operator} {b})")
                    }
                }
            }
            Kind::Bool => self.condition(depth),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        let a = self.expression(Kind::Text, depth);
        match self.dice.below(6) {
            0 => {
                let kind = self.kind();
                let b = self.expression(kind, depth);
                format!("({a} ~ {b})")
            }
            1 => {
                let b = self.expression(Kind::Text, depth);
                format!("({a} + {b})")
            }
            2 => {
                let (b, c) = (self.leaf(Kind::Text), self.leaf(Kind::Text));
                format!("({a})|replace({b}, {c})")
            }
            3 if !self.lists.is_empty() => {
                let lists = self.lists.clone();
                let list = self.dice.pick(&lists).clone();
                let column = self.pick(&["t", "i"]);
                let b = self.leaf(Kind::Text);
                format!("{list}|join({b}, attribute=\"{column}\")")
            }
            _ => {
                let filter = self.pick(&[
                    "upper",
                    "lower",
                    "title",
                    "capitalize",
                    "trim",
                    "first",
                    "last",
                    "urlencode",
                    "md5",
                    "string",
                    "default('d', true)",
                ]);
                // An empty text has no first character for MiniJinja, and nothing is not a text.
                if filter == "first" || filter == "last" {
                    return format!("(({a})|{filter} ~ '')");
                }
                format!("({a})|{filter}")
            }
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(Kind::Bool);
        }
        let depth = depth - 1;
        match self.dice.below(9) {
            0 => {
                let operator = self.pick(&["and", "or"]);
                let (a, b) = (self.condition(depth), self.condition(depth));
                format!("({a} {operator} {b})")
            }
            1 => format!("(not {})", self.condition(depth)),
            2 => {
                let kind = self.kind();
                let value = self.expression(kind, depth);
                format!("(not {value})")
            }
            3 => {
                let (a, b) = (
                    self.expression(Kind::Text, depth),
                    self.expression(Kind::Text, depth),
                );
                match self.dice.below(3) {
                    0 => format!("({a} in {b})"),
                    1 => format!("({a} is startingwith({b}))"),
                    _ => format!("({a} in [\"01\", {b}, ''])"),
                }
            }
            4 => {
                let value = self.expression(Kind::Int, depth);
                let test = self.pick(&[
                    "odd",
                    "even",
                    "divisibleby(3)",
                    "in [1, 2, 3]",
                    "gt(2)",
                    "number",
                ]);
                format!("(({value}) is {test})")
            }
            5 => {
                let [a, b, c] = [0; 3].map(|_| self.expression(Kind::Int, depth));
                format!("({a} <= {b} < {c})")
            }
            6 => {
                let a = self.expression(Kind::Int, depth);
                format!("({a} > 1.5)")
            }
            _ => {
                let kind = self.kind();
                let (a, b) = (self.expression(kind, depth), self.expression(kind, depth));
                let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                format!("({a} {operator} {b})")
            }
        }
    }

    /// Statements within a scope of their own or not; names set in them are known to them and, where the scope is that
    /// of what is around, to what follows.
    fn statements(&mut self, depth: usize) -> String {
        (0..1 + self.dice.below(4))
            .map(|_| self.statement(depth))
            .collect()
    }

    /// Statements after which the names they set are forgotten.
    fn scoped(&mut self, depth: usize) -> String {
        let known = self.names.len();
        let statements = self.statements(depth);
        self.names.truncate(known);
        statements
    }

    fn output(&mut self) -> String {
        let kind = self.kind();
        let depth = self.dice.below(3);
        let expression = self.expression(kind, depth);
        match self.dice.below(6) {
            0 => format!("{{{{ ({expression})|safe }}}}"),
            1 => format!("{{{{ ({expression})|escape }}}}"),
            2 => {
                let other_kind = self.kind();
                let other = self.expression(other_kind, 1);
                let condition = self.condition(1);
                format!("{{{{ {expression} if {condition} else {other} }}}}")
            }
            _ => format!("{{{{- {expression} }}}}"),
        }
    }

    fn statement(&mut self, depth: usize) -> String {
        if depth == 0 || self.dice.once_in(3) {
            let text = self.pick(&[
                "text\n",
                " <p>",
                "&amp;",
                "{# no #}",
                "{% raw %}{{ x }}{% endraw %}",
                "\n\n",
            ]);
            return text + &self.output();
        }
        let depth = depth - 1;
        match self.dice.below(9) {
            0 => {
                let condition = self.condition(2);
                let (then, elif, otherwise) =
                    (self.scoped(depth), self.scoped(depth), self.scoped(depth));
                let other = self.condition(1);
                format!(
                    "{{% if {condition} %}}{then}{{% elif {other} -%}} {elif}{{% else %}}{otherwise}{{% endif %}}"
                )
            }
            1 => {
                let (name, kind) = (self.new_name(), self.kind());
                let value = self.expression(kind, 3);
                self.names.push((name.clone(), kind));
                format!("{{% set {name} = {value} %}}")
            }
            2 => {
                // A name that branches set differently.
                let (name, kind) = (self.new_name(), self.kind());
                let [first, a, b] = [0; 3].map(|_| self.expression(kind, 2));
                let condition = self.condition(2);
                self.names.push((name.clone(), kind));
                let middle = self.output();
                match self.dice.below(2) {
                    0 => format!(
                        "{{% set {name} = {first} %}}{{% if {condition} %}}{{% set {name} = {a} %}}{middle}{{% endif %}}"
                    ),
                    _ => {
                        // What the branch prints may not know the name.
                        self.names.pop();
                        let middle = self.output();
                        self.names.push((name.clone(), kind));
                        format!(
                            "{{% if {condition} %}}{middle}{{% set {name} = {a} %}}{{% else %}}{{% set {name} = {b} %}}{{% endif %}}"
                        )
                    }
                }
            }
            3 | 4 => self.for_loop(depth),
            5 => {
                let name = self.new_name();
                let kind = self.kind();
                let value = self.expression(kind, 2);
                let known = self.names.len();
                self.names.push((name.clone(), kind));
                let body = self.statements(depth);
                self.names.truncate(known);
                format!("{{% with {name} = {value} %}}{body}{{% endwith %}}")
            }
            6 if self.may_define_blocks => {
                let name = self.new_name();
                let body = self.scoped(depth);
                self.blocks.push(name.clone());
                format!("{{% block {name} %}}{body}{{% endblock %}}")
            }
            7 => {
                let text = self.expression(Kind::Text, 1);
                let number = self.expression(Kind::Int, 1);
                let call = self.pick(&["m.row", "row"]);
                let filter = self.pick(&["", "|upper", "|length", " ~ '<'"]);
                format!("{{{{ {call}({text}, n={number}){filter} }}}}")
            }
            _ => "{% include \"part.html\" %}".to_owned(),
        }
    }

    fn for_loop(&mut self, depth: usize) -> String {
        let name = self.new_name();
        let known = self.names.len();
        let around = self.in_loop;
        let iterated;
        match self.dice.below(4) {
            0 => {
                let count = self.expression(Kind::Int, 1);
                iterated = format!("range(({count}) % 5)");
                self.names.push((name.clone(), Kind::Int));
            }
            1 => {
                iterated = self.pick(&["[\"a\", \"<\", \"\"]", "[\"one\"]"]);
                self.names.push((name.clone(), Kind::Text));
            }
            _ if self.lists.is_empty() => {
                iterated = "[3, 1, 2]".to_owned();
                self.names.push((name.clone(), Kind::Int));
            }
            _ => {
                let lists = self.lists.clone();
                iterated = self.dice.pick(&lists).clone();
                self.names.push((format!("{name}.t"), Kind::Text));
                self.names.push((format!("{name}.i"), Kind::Int));
            }
        }
        let condition = if self.dice.once_in(3) {
            format!(" if {}", self.condition(1))
        } else {
            String::new()
        };
        self.in_loop = true;
        let body = self.statements(depth);
        self.in_loop = around;
        self.names.truncate(known);
        let otherwise = match self.dice.below(2) {
            0 => format!("{{% else %}}{}", self.scoped(depth)),
            _ => String::new(),
        };
        format!("{{% for {name} in {iterated}{condition} %}}{body}{otherwise}{{% endfor %}}")
    }

    fn sources(&mut self) -> Sources {
        let mut sources = Sources::default();
        let mut add = |name: &str, text: String| sources.files.insert(name.to_owned(), text);
        add(
            "service.toml",
            "[backend.besim]\nkind = \"besim\"\n".to_owned(),
        );
        let fields = [
            ("a", Kind::Text),
            ("b", Kind::Text),
            ("n", Kind::Int),
            ("k", Kind::Int),
        ];
        self.names = fields.map(|(name, kind)| (name.to_owned(), kind)).to_vec();
        let field_names = self.names.clone();
        self.lists = vec!["items".to_owned(), "rows".to_owned()];
        let imports = "{% import \"macros.html\" as m %}{% from \"macros.html\" import row %}";

        // What macros and includes know: the page's own names, and for macros their parameters.
        add("templates/part.html", {
            self.may_define_blocks = false;
            self.lists = vec!["items".to_owned()];
            let text = format!("part {}", self.statement(0));
            text + &self.output()
        });
        self.names.push(("t".to_owned(), Kind::Text));
        self.names.push(("n".to_owned(), Kind::Int));
        let body = self.macro_body();
        add(
            "templates/macros.html",
            format!("{{% macro row(t, n=7) %}}{body}{{% endmacro %}}"),
        );
        self.names.clone_from(&field_names);
        self.lists = vec!["items".to_owned(), "rows".to_owned()];

        self.may_define_blocks = true;
        let base = self.statements(3);
        let blocks = self.blocks.clone();
        self.names = field_names;
        add("templates/base.html", format!("{imports}{base}"));
        self.may_define_blocks = false;
        let extends = self.dice.once_in(2);
        let mut page = String::new();
        if extends {
            page += "{% extends \"base.html\" %}";
            page += imports;
            for block in blocks {
                if self.dice.once_in(2) {
                    let body = self.scoped(2);
                    let parent = self.pick(&["", "{{ super() }}", "{{ super()|lower }}"]);
                    page += &format!("{{% block {block} %}}{body}{parent}{{% endblock %}}\n");
                }
            }
        } else {
            page += imports;
            page += &self.statements(4);
        }
        add(
            "pages/made.html",
            format!(
                "+++\nroute = \"GET /made\"\n[params]\na = {{ in = \"query\", type = \"text\" }}\n\
                 b = {{ in = \"query\", type = \"text\" }}\nn = {{ in = \"query\", type = \"int\", min = -5, max = 9 }}\n\
                 k = {{ in = \"query\", type = \"int\" }}\n\
                 items = {{ in = \"query\", list = 9, fields = {{ t = {{ type = \"text\" }}, i = {{ type = \"int\" }} }} }}\n\
                 [[step]]\ncall = \"besim\"\nrequest = \"{{{{ a }}}}\"\nrows = \"rows(t, i:int)\"\n+++\n{page}"
            ),
        );
        sources
    }

    /// A macro uses no macros: it would have to be defined before.
    fn macro_body(&mut self) -> String {
        let known = self.names.len();
        let condition = self.condition(2);
        let (a, b) = (self.output(), self.output());
        let name = self.new_name();
        self.names.push((format!("{name}.t"), Kind::Text));
        let c = self.output();
        self.names.truncate(known);
        format!(
            "{a}{{% if {condition} %}}{b}{{% endif %}}{{% for {name} in items %}}{c}{{% endfor %}}"
        )
    }
}

fn run(seeds: std::ops::Range<u64>, lanes: usize) {
    let (mut equal, mut failed) = (0, 0);
    for seed in seeds {
        let mut maker = Maker {
            dice: Dice::new(seed),
            names: Vec::new(),
            lists: Vec::new(),
            in_loop: false,
            count: 0,
            may_define_blocks: false,
            blocks: Vec::new(),
        };
        let sources = maker.sources();
        let show = || {
            let files = sources
                .files
                .iter()
                .map(|(name, text)| format!("=== {name}\n{text}\n"));
            files.collect::<String>()
        };
        let service = match compile(&sources) {
            Ok(service) => Arc::new(service),
            Err(diagnostics) => {
                let text: String = diagnostics
                    .iter()
                    .map(|diagnostic| format!("{diagnostic}\n"))
                    .collect();
                panic!("seed {seed} does not compile:\n{text}\n{}", show());
            }
        };
        let mut scalar = Scalar::new(limits());
        let mut host = Host::new(limits(), Level::detect());
        for result in [
            compare(&mut scalar, &sources, &service, 0, lanes, seed),
            compare(&mut host, &sources, &service, 0, lanes, seed),
        ] {
            match result {
                Ok(compared) => {
                    equal += compared.equal;
                    failed += compared.failed;
                }
                Err(difference) => {
                    let listing = service.listing(&service.pages[0]);
                    panic!("{difference}\n{}\n{listing}", show());
                }
            }
        }
    }
    // Sums that overflow and the like are part of it, but not most of it.
    assert!(equal > failed, "{equal} lanes answer, {failed} fail");
}

#[test]
fn made_pages_answer_what_minijinja_answers() {
    run(0..200, 12);
}
