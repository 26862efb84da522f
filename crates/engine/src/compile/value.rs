//! What the compiler knows of a value while it compiles: its type, whether it is safe to print, and
//! where it will be.
//!
//! Operands are lazy: a field is loaded where it is used first. All values of a stage are
//! immutable, so an operand means the same wherever it is used within the block it was made in.

use crate::program::{FieldId, KeyUse, Register, Type};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What an output prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printed {
    /// A text that a request or a backend may have brought, and that was not marked as safe.
    Open,
    /// The same, but what stands before its first `:`, if any, is not theirs: as a URL it is no
    /// script.
    Path,
    /// A text of JSON, which has quotation marks.
    Json,
    /// A number, or a text that the page vouches for.
    Known,
}

/// A value known at load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    /// A text; safe ones are not escaped again.
    Text {
        text: Rc<str>,
        safe: bool,
    },
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Literal {
    pub(crate) fn text(text: &str) -> Literal {
        Literal::Text {
            text: text.into(),
            safe: false,
        }
    }

    pub(crate) fn kind(&self) -> Type {
        match self {
            Literal::Text { .. } => Type::Text,
            Literal::Int(_) => Type::Int,
            Literal::Float(_) => Type::Float,
            Literal::Bool(_) => Type::Bool,
        }
    }

    /// As `if` sees it.
    pub(crate) fn truth(&self) -> bool {
        match self {
            Literal::Text { text, .. } => !text.is_empty(),
            Literal::Int(value) => *value != 0,
            Literal::Float(value) => *value != 0.0,
            Literal::Bool(value) => *value,
        }
    }

    /// As output prints it, before escaping.
    pub(crate) fn print(&self) -> Rc<str> {
        match self {
            Literal::Text { text, .. } => text.clone(),
            Literal::Int(value) => value.to_string().into(),
            Literal::Float(value) => minijinja::Value::from(*value).to_string().into(),
            Literal::Bool(value) => if *value { "True" } else { "False" }.into(),
        }
    }
}

/// Where the items of a list are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Items {
    /// In a list field: of each column, which of the field's it is.
    Field { field: FieldId, columns: Vec<u16> },
    /// In tables of constants, one a column.
    Tables { tables: Vec<u16>, length: usize },
    /// Integers: so many from `start` in steps; none for a count of less than 1.
    Range {
        start: Box<Operand>,
        step: i64,
        count: Box<Operand>,
    },
    /// The parts of a text, of which another one tells where they lie.
    Parts {
        text: Register,
        places: Register,
        count: Register,
        safe: bool,
    },
    /// What a filter makes of the items of a list.
    Mapped {
        of: Rc<List>,
        by: Rc<Mapping>,
        safe: bool,
    },
    /// So many of a list's items, from one on.
    Window {
        of: Rc<List>,
        start: Box<Operand>,
        count: Box<Operand>,
    },
    /// Lists of so many of a list's items each, of which there are `length`, as long as there are
    /// any.
    Batches {
        of: Rc<List>,
        size: i64,
        length: Box<Operand>,
    },
    /// The groups of a list's items; where one is, its last item is.
    Groups { of: Rc<List>, by: Grouping },
    /// So many lists, over which a list's items are spread.
    Slices {
        of: Rc<List>,
        count: i64,
        length: Box<Operand>,
    },
}

/// By what items are grouped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grouping {
    /// A column of them.
    pub(crate) column: Rc<List>,
    /// Whether texts that differ in the case of ASCII letters alone are the same.
    pub(crate) ignores_case: bool,
}

/// A filter by its name, with what it is given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mapping {
    pub(crate) filter: String,
    pub(crate) given: Vec<Operand>,
}

/// What a filter has chosen of a list, when it is gone through.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Chosen {
    /// Items of whose values in this column, or of which themselves, a test holds, or does not.
    Where {
        tested: Rc<List>,
        test: Option<Tested>,
        wanted: bool,
    },
    /// All by the values of a column.
    By(KeyUse, Rc<List>),
    /// The first of each value of a column of texts, whatever its case.
    UniqueInAnyCase(Rc<List>),
    /// The first of each group.
    UniqueInGroups(Grouping),
    /// Those of the group that has this key.
    Group(Grouping, Register),
    Reverse,
    /// Those between two integers, in steps.
    Slice(Box<[Operand; 2]>, u32),
}

/// A test by its name, with what it is given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tested {
    pub(crate) name: String,
    pub(crate) given: Given,
}

/// The argument of a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    Nothing,
    One(Box<Operand>),
    /// A list written out, to be looked into.
    Items(Vec<Operand>),
}

/// A list of records, or of plain values: those have one column named `""`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct List {
    pub(crate) items: Items,
    pub(crate) columns: Vec<(String, Type)>,
    /// Int field with the backend's status, for rows of a call.
    pub(crate) status: Option<FieldId>,
    /// What is taken of its items, one after the other; all where it is empty.
    pub(crate) chosen: Vec<Chosen>,
}

impl List {
    /// The items of a list field of these columns.
    pub(crate) fn of_field(
        field: FieldId,
        columns: Vec<(String, Type)>,
        status: Option<FieldId>,
    ) -> List {
        let all = (0..).zip(&columns).map(|(column, _)| column).collect();
        List {
            items: Items::Field {
                field,
                columns: all,
            },
            columns,
            status,
            chosen: Vec::new(),
        }
    }

    /// So many integers from one on, in steps.
    pub(crate) fn range(start: Operand, step: i64, count: Operand) -> Operand {
        let (start, count) = (Box::new(start), Box::new(count));
        List::plain(Items::Range { start, step, count }, Type::Int)
    }

    /// The list without items.
    pub(crate) fn empty() -> Operand {
        List::range(Operand::int(0), 1, Operand::int(0))
    }

    /// A list of plain values.
    pub(crate) fn plain(items: Items, kind: Type) -> Operand {
        List::of(items, vec![(String::new(), kind)])
    }

    /// A list of nothing that a backend has answered.
    pub(crate) fn of(items: Items, columns: Vec<(String, Type)>) -> Operand {
        Operand::List(Rc::new(List {
            items,
            columns,
            status: None,
            chosen: Vec::new(),
        }))
    }

    /// The list of all its items.
    pub(crate) fn all(&self) -> List {
        List {
            chosen: Vec::new(),
            ..self.clone()
        }
    }

    /// With something more chosen of its items.
    pub(crate) fn choose(&self, chosen: Chosen) -> Operand {
        let mut list = self.clone();
        list.chosen.push(chosen);
        Operand::List(Rc::new(list))
    }

    /// Whether its items are texts that are safe to print.
    pub(crate) fn is_safe(&self) -> bool {
        match &self.items {
            Items::Parts { safe, .. } | Items::Mapped { safe, .. } => *safe,
            Items::Window { of, .. } => of.is_safe(),
            _ => false,
        }
    }

    /// Whether its items are values, not records.
    pub(crate) fn is_plain(&self) -> bool {
        self.columns.len() == 1 && self.columns[0].0.is_empty()
    }

    /// Which of its columns has this name.
    pub(crate) fn column_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|(known, _)| known == name)
    }

    /// The values of one of its columns.
    pub(crate) fn column(&self, column: usize) -> List {
        let items = match &self.items {
            Items::Field { field, columns } => Items::Field {
                field: *field,
                columns: vec![columns[column]],
            },
            Items::Tables { tables, length } => Items::Tables {
                tables: vec![tables[column]],
                length: *length,
            },
            Items::Window { of, start, count } => Items::Window {
                of: Rc::new(of.column(column)),
                start: start.clone(),
                count: count.clone(),
            },
            // They have no records.
            other => other.clone(),
        };
        List {
            items,
            columns: vec![(String::new(), self.columns[column].1)],
            status: None,
            chosen: self.chosen.clone(),
        }
    }
}

/// The registers of a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoopRegisters {
    pub(crate) index: Register,
    pub(crate) length: Register,
}

/// A value under compilation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Literal(Literal),
    Register {
        register: Register,
        kind: Type,
        safe: bool,
    },
    /// A scalar field.
    Field {
        field: FieldId,
        kind: Type,
    },
    /// A column of an item of a list.
    Column {
        list: Rc<List>,
        column: u16,
        position: Register,
    },
    List(Rc<List>),
    /// An item of a list of records.
    Row {
        list: Rc<List>,
        position: Register,
    },
    /// What the items of a group have in common, and these.
    Group {
        grouper: Box<Operand>,
        list: Rc<List>,
    },
    /// Named values: the one row of a call.
    Record(Rc<BTreeMap<String, Operand>>),
    /// Values by constant keys, texts or numbers, in their order.
    Map(Rc<Vec<(Literal, Operand)>>),
    /// What is wrong with parameters, by their names, and in how many of them something is.
    Errors {
        wrong: FieldId,
        of: Rc<BTreeMap<String, Operand>>,
    },
    /// The session, by its fields.
    Session {
        present: FieldId,
        user: FieldId,
    },
    /// The visitor's CSRF token.
    CsrfToken,
    /// The input of a form that sends it.
    CsrfInput,
    /// The message that a page before has left.
    Flash,
    /// What was asked for: path and query.
    Here,
    /// The request's cookies, by their names.
    Cookies,
    Loop(LoopRegisters),
    /// What is there for the lanes of a condition alone: a value, or a record.
    Perhaps {
        there: Register,
        of: Box<Operand>,
    },
    /// Index of a namespace.
    Namespace(usize),
    /// Index of a macro.
    Macro(usize),
    Module(Rc<BTreeMap<String, Operand>>),
    /// A function of the language itself.
    Function(&'static str),
    None,
    Undefined,
    /// Set on some of the paths that lead here, which part at this statement.
    Maybe(&'static str),
    /// Set to values on different paths that do not go together; the reason.
    Conflict(Rc<str>),
    /// Something already reported went wrong with it.
    Poison,
}

impl Operand {
    pub(crate) fn bool(value: bool) -> Operand {
        Operand::Literal(Literal::Bool(value))
    }

    pub(crate) fn int(value: i64) -> Operand {
        Operand::Literal(Literal::Int(value))
    }

    pub(crate) fn text(text: &str) -> Operand {
        Operand::Literal(Literal::text(text))
    }

    /// What stands for a value that is not there.
    pub(crate) fn empty(kind: Type, safe: bool) -> Operand {
        Operand::Literal(match kind {
            Type::Text => Literal::Text {
                text: "".into(),
                safe,
            },
            Type::Int => Literal::Int(0),
            Type::Float => Literal::Float(0.0),
            Type::Bool => Literal::Bool(false),
        })
    }

    pub(crate) fn register(register: Register, kind: Type) -> Operand {
        Operand::Register {
            register,
            kind,
            safe: false,
        }
    }

    /// Type and safety of a value that fits a register.
    pub(crate) fn scalar(&self) -> Option<(Type, bool)> {
        Some(match self {
            Operand::Literal(Literal::Text { safe, .. }) => (Type::Text, *safe),
            Operand::Literal(literal) => (literal.kind(), false),
            Operand::Register { kind, safe, .. } => (*kind, *safe),
            Operand::Field { kind, .. } => (*kind, false),
            Operand::Column { list, column, .. } => (list.columns[usize::from(*column)].1, false),
            _ => return None,
        })
    }

    pub(crate) fn is_safe(&self) -> bool {
        self.scalar().is_some_and(|(_, safe)| safe)
    }

    /// The same, to be escaped wherever it is printed.
    pub(super) fn not_safe(self) -> Operand {
        match self {
            Operand::Literal(Literal::Text { text, .. }) => Operand::text(&text),
            Operand::Register { register, kind, .. } => Operand::register(register, kind),
            other => other,
        }
    }

    /// How to get at a value that can be computed with, for hints.
    pub(crate) fn parts(&self) -> &'static str {
        match self {
            Operand::List(_) => "go through it with `for`, or use `|length`",
            Operand::Row { .. } | Operand::Record(_) => "take one of its columns: row.column",
            Operand::Map(_) => "take one of its values, map[key], or go through map|items",
            Operand::Group { .. } => "it has `grouper` and `list`",
            Operand::Errors { .. } => "take that of one parameter: errors.name",
            Operand::Session { .. } => "it has `session.userid` and `session.present`",
            Operand::Cookies => "take one by its name: cookies.theme",
            Operand::CsrfInput => "print it within a form; `csrf_token` is its value",
            Operand::Loop(_) => "it has loop.index, loop.first, loop.last, loop.length, ...",
            Operand::Perhaps { .. } => {
                "`is defined` tells whether it is there, and `|default(...)` what there is \
                 otherwise"
            }
            Operand::Namespace(_) => "take one of its values: ns.name",
            Operand::Macro(_) => "call it: {{ name(...) }}",
            Operand::Module(_) => "call one of its macros: {{ file.name(...) }}",
            Operand::Function(_) => "call it, such as range(10)",
            _ => "take a value that is always there, or give it one with `|default(...)`",
        }
    }

    /// What it is, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Operand::List(_) => "a list",
            Operand::Map(_) => "a map",
            Operand::Group { .. } => "a group",
            Operand::Row { .. } | Operand::Record(_) | Operand::Errors { .. } => "a record",
            Operand::Session { .. } => "the session",
            Operand::CsrfInput => "the input of a form",
            Operand::Cookies => "all cookies",
            Operand::Loop(_) => "the loop",
            Operand::Perhaps { .. } => "what may not be there",
            Operand::Namespace(_) => "a namespace",
            Operand::Macro(_) => "a macro",
            Operand::Module(_) => "an imported file",
            Operand::Function(_) => "a function",
            Operand::None => "none",
            Operand::Undefined | Operand::Maybe(_) | Operand::Conflict(_) | Operand::Poison => {
                "undefined"
            }
            _ => self.scalar().map_or("a value", |(kind, _)| describe(kind)),
        }
    }
}

/// The name of what says whether a column is null: none that a template can have.
pub(crate) fn null_of(column: &str) -> String {
    format!("{column}?")
}

/// Whether a name is of a column itself.
pub(crate) fn is_of_column(name: &str) -> bool {
    !name.ends_with('?')
}

/// What a type is called in messages.
pub(crate) fn describe(kind: Type) -> &'static str {
    match kind {
        Type::Text => "a text",
        Type::Int => "an integer",
        Type::Float => "a float",
        Type::Bool => "a boolean",
    }
}
