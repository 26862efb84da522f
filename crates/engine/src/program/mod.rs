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
//! - [`Op::Query`] and output never both happen to a lane within one stage (a lane that writes,
//!   in an else page, finishes), so a stage can be run again for a lane whose output buffer was too
//!   small;
//! - operations have no effect but on registers, the arena and the lane's output.
//!
//! In the order of a page's parts:
//!
//! - `page`: a page, with its `route`s and `param`s (which are `check`ed, of texts by a `pattern`);
//!   `service`: all pages of a service;
//! - `sessions`: what sessions that several machines share are asked by;
//! - `stage`: a stage's program, and the call that ends it; `document`: where in an answer its
//!   cells are;
//! - `op`: the operations; `function`: what they apply to values; `value`: what registers hold;
//! - `texts`: the constants' texts;
//! - `print`: programs, to be read.

mod check;
mod document;
mod function;
mod op;
mod page;
mod param;
mod pattern;
mod print;
mod route;
mod service;
mod sessions;
mod spots;
mod stage;
mod texts;
mod value;

pub use document::{Document, DocumentColumn, DocumentPath, DocumentStep, NoPath};
pub use function::{
    Arithmetic, Comparison, Conversion, Cut, Escape, Formatting, TextFunction, TextTest,
};
pub use op::{
    Binary, Block, Choice, Concat, ConstantItem, For, Format, Header, If, Item, Key, KeyUse, Load,
    Op, Put, Query, Replace, Unary,
};
pub use page::{Aside, CookieUse, Csrf, PageProgram, SessionFields, SessionUse, StoredUse};
pub use param::{Carrier, FileFields, ListParam, PROBLEM_BYTES_MAX, Param, ParamTold, ParamType};
pub use pattern::Pattern;
pub use print::Listing;
pub use route::{Route, Segment};
pub use service::{ERROR_STATUSES, ErrorPages, Service};
pub use sessions::{SessionLookup, SessionStore};
pub use spots::{Spot, Spots};
pub use stage::{Asking, Call, CallResult, Form, Particulars, Source, StageProgram, Statement};
pub(crate) use texts::TextPool;
pub use value::{Constant, Field, FieldId, FieldType, FragmentId, Register, Type};
