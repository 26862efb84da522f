//! A stage's program, and the call that ends it.

use super::document::Document;
use super::op::Block;
use super::spots::Spots;
use super::value::{Constant, FieldId, Register, Type};

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
    /// How many of its page's `[[step]]`s are done at its end: the number, from 1 on, of the one
    /// that has the call.
    pub step: usize,
    /// Where in the sources what computes each register stands.
    pub spots: Spots,
}

/// One call to a backend, between two stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index into [`Service::backends`](super::Service::backends).
    pub backend: usize,
    /// How it asks.
    pub asking: Asking,
    /// What its queries look like.
    pub form: Form,
    /// Number of columns of an answered row.
    pub columns: u16,
    /// What is particular of some of them.
    pub particulars: Particulars,
    /// The list field that takes the rows (`rows = ...`): rows of all of a lane's answers, in the
    /// order asked. For `row = ...` the scalar fields that take the columns of the one row.
    pub result: CallResult,
    /// The scalar Int field that takes the status: the first that is not 0 among the lane's
    /// answers.
    pub status: FieldId,
    /// Whether its answer has a name by which the page can look at it, and at its status.
    pub has_name: bool,
    /// Of a transaction the statements, in the order in which they are done.
    pub statements: Box<[Statement]>,
    /// Of a request of HTTP, where its answer's cells are.
    pub document: Option<Box<Document>>,
    /// May the query be sent again after a failure that leaves open whether it was carried out?
    pub idempotent: bool,
    /// Does the page go on where it fails? Then it has no row, and its status is that of HTTP's
    /// which the page would have been answered with.
    pub optional: bool,
    /// May one answer be that of all queries of a cohort that ask the same?
    pub shared: bool,
    /// May several of them be asked as one, by a kind that can?
    pub merged: bool,
}

/// What is particular of columns of a call's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// Columns of texts that are floats.
    pub floats: Box<[u16]>,
    /// Columns of integers that are truth values.
    pub bools: Box<[u16]>,
    /// Columns of which the page is told where they are null, in order, each with the column of
    /// the result, behind all that are answered, that says so: 1, or else 0.
    pub nulls: Box<[(u16, u16)]>,
}

/// How a call asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// By a request whose form is the kind's own.
    #[default]
    Request,
    /// By a statement, a command or a request of HTTP that only reads.
    Query,
    /// By one that changes something.
    Exec,
    /// By several statements, of which all are done or none: [`Call::statements`]. The call's form
    /// is theirs, one behind the other.
    Transaction,
}

/// A statement of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Whether it changes something.
    pub asking: Asking,
    /// What it looks like, with the types of all of its arguments.
    pub form: Form,
    /// Where each of its arguments comes from.
    pub arguments: Box<[Source]>,
    /// How many columns are looked at of the one row that it must answer, or all is undone; 0:
    /// nobody looks at what it answers.
    pub columns: u16,
}

/// Where the argument of a statement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is this one of the query's arguments.
    Argument(usize),
    /// It is this one of the cells that statements before it have answered.
    Cell(usize),
}

/// What stands around the arguments of a call's queries, and the arguments' types.
/// `request = "1&3&{{ session.userid }}"` has one argument, an integer, and the pieces `1&3&` and,
/// empty, what follows it. How arguments are put on a wire is the backend's business.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// What stands before each argument, and behind the last: one more than arguments. Between two
    /// arguments a piece holds a byte that is neither unreserved (RFC 3986, section 2.3) nor `%`.
    /// Each is part of [`PageProgram::texts`](super::PageProgram::texts), too, so that a device can
    /// name it.
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
