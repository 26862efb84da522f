//! The program of a page: what a page file is compiled to and what every executor runs.
//!
//! A program is data. Its stages hold operations over typed *registers* (one value a lane) and over
//! the cohort's *fields* (columns that live from stage to stage: parameters, the session, rows
//! answered by backends). An operation means the same for every executor: `scalar` runs the whole
//! block for one lane after the other, `host` runs one operation for all active lanes before the
//! next, as vectorized databases do.
//!
//! A page with n calls has n + 1 stages (paper, section 3.2, *Process*). A stage ends by asking a
//! backend ([`StageProgram::call`]) or, the last, by finishing its lanes.
//!
//! Rules that executors rely on and the compiler keeps:
//! - every register has one [`Type`]; operations find their operands well typed;
//! - a register is written before it is read on every path that a lane can take;
//! - [`Op::Request`] and output never both happen to a lane within one stage (a lane that writes,
//!   in an else page, finishes), so a stage can be run again for a lane whose output buffer was too
//!   small;
//! - operations have no effect but on registers, the arena and the lane's output.

mod print;
mod service;

pub use print::Listing;
pub use service::Service;

use std::collections::BTreeMap;

/// Index of a register of a stage.
pub type Register = u16;
/// Index of a field of a page ([`PageProgram::fields`]).
pub type FieldId = u16;
/// Index of a fragment of the service ([`Service::fragments`]).
pub type FragmentId = u32;

/// The type of a register's or a scalar field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// UTF-8 text: a view into the cohort's arena.
    Text,
    /// A signed 64-bit integer. Overflow fails the lane.
    Int,
    /// A 64-bit float, printed as MiniJinja prints it (`1.0`, `0.1`, `NaN`, `inf`).
    Float,
    /// A truth value, printed as MiniJinja prints it.
    Bool,
}

/// A constant of a stage, loaded into its register for every lane before the stage runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// A text, stored in the program's texts: `texts[offset..offset + length]` (see
    /// [`PageProgram::texts`]).
    Text {
        /// Where it starts in [`PageProgram::texts`].
        offset: u32,
        /// Its length in bytes.
        length: u32,
    },
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl Constant {
    /// The type of the register that holds it.
    pub fn kind(&self) -> Type {
        match self {
            Constant::Text { .. } => Type::Text,
            Constant::Int(_) => Type::Int,
            Constant::Float(_) => Type::Float,
            Constant::Bool(_) => Type::Bool,
        }
    }
}

/// What a field of the cohort holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// One value a lane. Only [`Type::Text`] and [`Type::Int`] occur.
    Scalar(Type),
    /// A list of records a lane, their columns named and typed (Text or Int). A list of plain
    /// values has one column, named `""`.
    List(Vec<(String, Type)>),
}

/// A column of the cohort that lives across stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name by which `rhythm check` shows it, such as `accounts` or `accounts.status`.
    pub name: String,
    /// What it holds.
    pub kind: FieldType,
}

/// A sequence of operations.
pub type Block = Vec<Op>;

/// Operators on two numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: floats only; integers are converted first. Dividing by zero fails the lane.
    Divide,
    /// `//`: rounds toward negative infinity. Dividing by zero fails the lane.
    FloorDivide,
    /// `%`: takes the sign of the divisor. Dividing by zero fails the lane.
    Remainder,
    /// `**`: integers with an exponent of 0 or more (a negative one fails the lane), or floats.
    Power,
}

/// Comparisons of two values of one type. Texts compare by bytes, `false < true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Conversions from one type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Int to Float, rounding as `as f64` does.
    IntToFloat,
    /// Float to Int, toward zero; not finite or out of range fails the lane.
    FloatToInt,
    /// Bool to Int: 0 or 1.
    BoolToInt,
    /// Any to Text, as output prints it.
    ToText,
    /// Text to Int as the `int` filter reads it; what is no integer fails the lane.
    TextToInt,
    /// Text to Float as the `float` filter reads it; what is no number fails the lane.
    TextToFloat,
}

/// Functions from one text to another, named after the filters they implement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFunction {
    /// Upper case, by Unicode.
    Upper,
    /// Lower case, by Unicode.
    Lower,
    /// Each word capitalized, as MiniJinja's `title`.
    Title,
    /// First character upper, the rest lower.
    Capitalize,
    /// Without white space at both ends.
    Trim,
    /// The first character, empty for an empty text.
    First,
    /// The last character, empty for an empty text.
    Last,
    /// Percent-encoded as MiniJinja's `urlencode`.
    UrlEncode,
    /// The MD5 digest as 32 lower-case hexadecimal digits.
    Md5,
    /// Escaped, yielding safe text.
    Escape(Escape),
}

/// Tests on two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextTest {
    /// Is `right` contained in `left`?
    Contains,
    /// Does `left` start with `right`?
    StartsWith,
    /// Does `left` end with `right`?
    EndsWith,
}

/// How a value is made harmless where it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// Not at all: safe already.
    None,
    /// For HTML: `< > & " ' /` become `&lt; &gt; &amp; &quot; &#x27; &#x2f;`.
    Html,
    /// For a URL or a BeSim request: everything but RFC 3986 unreserved characters becomes `%XX`.
    Percent,
    /// For a response header's value: control characters become spaces.
    Header,
}

/// One operation. Register operands are named by their role; `to` is written, all others are read.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `to = from`, same type.
    Copy {
        /// Destination.
        to: Register,
        /// Source.
        from: Register,
    },
    /// `to` = the lane's value of a scalar field.
    Field {
        /// Destination, of the field's type.
        to: Register,
        /// A scalar field.
        field: FieldId,
    },
    /// `to` = the number of items in the lane's list.
    Length {
        /// Destination, Int.
        to: Register,
        /// A list field.
        list: FieldId,
    },
    /// `to` = column `column` of item `position` of the lane's list. Out of range fails the lane.
    Item {
        /// Destination, of the column's type.
        to: Register,
        /// A list field.
        list: FieldId,
        /// Index of the column.
        column: u16,
        /// The item's position from 0, Int.
        position: Register,
    },
    /// `to` = item `position` of a table of constants. Out of range fails the lane.
    ConstantItem {
        /// Destination, of the table's type.
        to: Register,
        /// Index into [`PageProgram::tables`].
        table: u16,
        /// The item's position from 0, Int.
        position: Register,
    },
    /// `to = left operator right`, both of `to`'s type, Int or Float.
    Arithmetic {
        /// The operator.
        operator: Arithmetic,
        /// Destination.
        to: Register,
        /// Left operand.
        left: Register,
        /// Right operand.
        right: Register,
    },
    /// `to = -from`, Int or Float.
    Negate {
        /// Destination.
        to: Register,
        /// Operand.
        from: Register,
    },
    /// `to` = the absolute value of `from`, Int or Float.
    Absolute {
        /// Destination.
        to: Register,
        /// Operand.
        from: Register,
    },
    /// `to = left comparison right`; operands of one type, `to` Bool.
    Compare {
        /// The comparison.
        comparison: Comparison,
        /// Destination, Bool.
        to: Register,
        /// Left operand.
        left: Register,
        /// Right operand.
        right: Register,
    },
    /// `to = not from`, both Bool.
    Not {
        /// Destination, Bool.
        to: Register,
        /// Operand, Bool.
        from: Register,
    },
    /// `to` = is `from` true, as `if` sees it: a text not empty, a number not zero.
    Truth {
        /// Destination, Bool.
        to: Register,
        /// Operand of any type.
        from: Register,
    },
    /// `to` = `from` converted.
    Convert {
        /// The conversion; it fixes the types.
        conversion: Conversion,
        /// Destination.
        to: Register,
        /// Operand.
        from: Register,
    },
    /// `to` = the texts of `parts`, one after the other.
    Concat {
        /// Destination, Text.
        to: Register,
        /// Operands, all Text.
        parts: Vec<Register>,
    },
    /// `to = function(from)`, both Text.
    Text {
        /// The function.
        function: TextFunction,
        /// Destination, Text.
        to: Register,
        /// Operand, Text.
        from: Register,
    },
    /// `to` = `from` with every occurrence of `old` replaced by `new`, all Text.
    Replace {
        /// Destination.
        to: Register,
        /// Where to replace.
        from: Register,
        /// What to replace.
        old: Register,
        /// By what.
        new: Register,
    },
    /// `to = test(left, right)`; operands Text, `to` Bool.
    TextTest {
        /// The test.
        test: TextTest,
        /// Destination, Bool.
        to: Register,
        /// Left operand.
        left: Register,
        /// Right operand.
        right: Register,
    },
    /// `to` = the number of characters of `from`.
    TextLength {
        /// Destination, Int.
        to: Register,
        /// Operand, Text.
        from: Register,
    },
    /// Runs `then` for the lanes where `condition` is true, then `otherwise` for the others.
    If {
        /// Bool.
        condition: Register,
        /// For the lanes where it is true.
        then: Block,
        /// For the others.
        otherwise: Block,
    },
    /// Runs `body` for `position` = 0, 1, ... `count` - 1 of each lane, leaving out the positions
    /// that the filter rejects, or `otherwise` for lanes where no position is left. Lanes leave the
    /// loop at their own count. `count` of less than 1 is an empty loop.
    For {
        /// Number of positions, Int.
        count: Register,
        /// What decides on each position before the loop begins.
        filter: Option<LoopFilter>,
        /// Set to the position in the source before each turn, Int.
        position: Register,
        /// Set to the number of turns done before each turn (`loop.index0`), Int.
        index: Register,
        /// Set to the number of turns in all (`loop.length`), Int, before the first.
        length: Register,
        /// The loop's body.
        body: Block,
        /// The loop's else.
        otherwise: Block,
    },
    /// Output: a fragment, the same bytes for every lane.
    Fragment {
        /// Which one.
        fragment: FragmentId,
    },
    /// Output: a register's value as text, escaped.
    Put {
        /// What is printed, of any type.
        from: Register,
        /// How its text is escaped. Numbers and truth values need none.
        escape: Escape,
    },
    /// Asks the stage's backend, once more for this lane (paper, section 3.2, *backend request
    /// strings*).
    Request {
        /// The call's arguments, of the types that its [`Form`] says.
        arguments: Vec<Register>,
    },
    /// Sets the answer's status.
    Status {
        /// 100 to 599.
        status: u16,
    },
    /// Adds a header to the answer.
    Header {
        /// Index into [`PageProgram::header_names`].
        name: u16,
        /// The value, Text, escaped already.
        value: Register,
    },
    /// The answer's body is this file of the service's static files.
    File {
        /// Its path, Text, relative to `static/`.
        path: Register,
    },
    /// A session is created for this user id when the lane's answer is sent.
    SessionCreate {
        /// The user id, Int.
        user: Register,
    },
    /// The lane's session, if it has one, is destroyed when its answer is sent.
    SessionDestroy,
    /// The lanes have their answer: they take no part in what follows.
    Finish,
}

/// The filter of a `for`.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopFilter {
    /// Computes `keep` from the loop's `position` register.
    pub block: Block,
    /// Bool.
    pub keep: Register,
}

/// The program of one stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageProgram {
    /// The type of each register.
    pub registers: Vec<Type>,
    /// Registers that hold constants for every lane from the start and are never written.
    pub constants: Vec<(Register, Constant)>,
    /// What is run.
    pub body: Block,
    /// The call that ends the stage; `None` for the last, whose lanes are finished at its end.
    pub call: Option<usize>,
}

/// One call to a backend, between two stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index into [`Service::backends`].
    pub backend: usize,
    /// What its requests look like.
    pub form: Form,
    /// Number of columns of an answered row.
    pub columns: u16,
    /// The list field that takes the rows (`rows = ...`): rows of all of a lane's answers, in the
    /// order asked. For `row = ...` the scalar fields that take the columns of the one row.
    pub result: CallResult,
    /// The scalar Int field that takes the status: the first that is not 0 among the lane's
    /// answers.
    pub status: FieldId,
    /// May the request be sent again after a failure that leaves open whether it was carried out?
    pub idempotent: bool,
}

/// What stands around the arguments of a call's requests, and the arguments' types.
/// `request = "1&3&{{ session.userid }}"` has one argument, an integer, and the pieces `1&3&` and,
/// empty, what follows it. How arguments are put on a wire is the backend's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// What stands before each argument, and behind the last: one more than arguments. Between two
    /// arguments a piece holds a byte that is neither unreserved (RFC 3986, section 2.3) nor `%`.
    /// Each is part of [`PageProgram::texts`], too, so that a device can name it.
    pub pieces: Vec<Box<[u8]>>,
    /// The type of each argument.
    pub arguments: Vec<Type>,
}

/// Where the rows of an answer go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// Any number of rows, to a list field.
    Rows(FieldId),
    /// One row, a field each column. Where the status is not 0 the fields are empty (0 for Int).
    Row(Vec<FieldId>),
}

/// Where a parameter is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Carrier {
    Query,
    Form,
    Path,
    Cookie,
    Header,
}

/// What a parameter's value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// Any UTF-8 text of a length within bounds, counted in characters; one of the given ones if
    /// any are given.
    Text {
        /// Fewest characters.
        min_length: u32,
        /// Most characters.
        max_length: u32,
        /// The values allowed; empty: all.
        one_of: Vec<String>,
    },
    /// A decimal integer within bounds, both inclusive.
    Int {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// At most twelve digits, optionally a point and one or two digits. A text to the page.
    Decimal,
    /// `YYYY-MM-DD`, a day that exists. A text to the page.
    Date,
}

impl ParamType {
    /// The type its field has.
    pub fn field_type(&self) -> Type {
        match self {
            ParamType::Int { .. } => Type::Int,
            _ => Type::Text,
        }
    }
}

/// A scalar parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name on the wire.
    pub wire_name: String,
    /// Where it may stand, tried in this order.
    pub carriers: Vec<Carrier>,
    /// What it must be.
    pub kind: ParamType,
    /// Its value where it is absent, as it would stand on the wire; `None`: it is required.
    pub default: Option<String>,
    /// The scalar field that takes it.
    pub field: FieldId,
}

/// A list parameter: `payee[0]=..&payee[1]=..`, or records `payee[0]=..&amount[0]=..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListParam {
    /// Where its items may stand: query or form.
    pub carriers: Vec<Carrier>,
    /// Wire name (without `[i]`) and type of each column, in the order of the field's columns.
    pub columns: Vec<(String, ParamType)>,
    /// Fewest items.
    pub min_items: u32,
    /// Most items.
    pub max_items: u32,
    /// The list field that takes it.
    pub field: FieldId,
}

/// Whether a page needs a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionUse {
    /// The cookie is not looked at.
    #[default]
    None,
    /// The session is looked up; `session.present` tells whether there is one.
    Optional,
    /// As `Optional`, and the program begins by answering the page of service.toml where there is
    /// none.
    Required,
}

/// The two fields of a page that has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFields {
    /// Int: 1 where the request has a live session, else 0.
    pub present: FieldId,
    /// Int: its user id, 0 where there is none.
    pub user: FieldId,
}

/// A method and a path, the latter possibly with parameters: `/users/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// `GET`, `POST`, ... `GET` answers `HEAD` too.
    pub method: String,
    /// Segments of the path after the leading `/`.
    pub segments: Vec<Segment>,
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.method)?;
        if self.segments.is_empty() {
            return f.write_str("/");
        }
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Param(name) => write!(f, "/{{{name}}}")?,
            }
        }
        Ok(())
    }
}

/// One segment of a route's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Must be equal after percent-decoding.
    Literal(String),
    /// Taken as a path parameter of this wire name.
    Param(String),
}

/// A compiled page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageProgram {
    /// The page file's name without `.html`; the label of its metrics.
    pub name: String,
    /// What it answers to.
    pub routes: Vec<Route>,
    /// Does it need a session?
    pub session: SessionUse,
    /// Where its session's fields are, unless [`SessionUse::None`].
    pub session_fields: Option<SessionFields>,
    /// The answer's Content-Type.
    pub content_type: String,
    /// Its scalar parameters.
    pub params: Vec<Param>,
    /// Its list parameters.
    pub list_params: Vec<ListParam>,
    /// The columns of its cohorts.
    pub fields: Vec<Field>,
    /// Its calls, in order: stage i ends with call i.
    pub calls: Vec<Call>,
    /// Its stages, one more than calls.
    pub stages: Vec<StageProgram>,
    /// All text constants, one after the other, UTF-8. Every cohort of the page has them at the
    /// start of its arena, so that a constant is a view like any other.
    pub texts: Vec<u8>,
    /// Tables of constants, each of one type (`for x in ["a", "b"]`).
    pub tables: Vec<Vec<Constant>>,
    /// Names of the headers it can add, in the case given.
    pub header_names: Vec<String>,
}

/// Text constants of a page under construction: equal texts are stored once.
#[derive(Clone, Debug, Default)]
pub struct TextPool {
    bytes: Vec<u8>,
    known: BTreeMap<String, u32>,
}

impl TextPool {
    /// Stores a text, or finds it stored.
    pub fn intern(&mut self, text: &str) -> Constant {
        let offset = *self.known.entry(text.to_owned()).or_insert_with(|| {
            let offset = self.bytes.len() as u32;
            self.bytes.extend_from_slice(text.as_bytes());
            offset
        });
        Constant::Text {
            offset,
            length: text.len() as u32,
        }
    }

    /// The bytes for [`PageProgram::texts`].
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
