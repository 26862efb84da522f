//! Sessions that several machines share: the stage by which a page asks for its own, and what else
//! their store is asked.

use super::op::{If, Load, Op, Query, Unary};
use super::spots::Spots;
use super::stage::{Call, CallResult, StageProgram};
use super::value::{FieldId, Type};

/// Fields by which a page's first stage asks the store. It does nothing else: the server fills in
/// what is asked before it, and looks at what is answered behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLookup {
    /// Int: other than 0 where the store is to be asked.
    pub asks: FieldId,
    /// Text: under which key.
    pub key: FieldId,
    /// A list of one column, Text: the record under it, if there is one.
    pub record: FieldId,
    /// Int: the store's status.
    pub status: FieldId,
}

/// How the sessions' store is asked. Each call's queries have a key for an argument, and a record
/// behind it where they bring one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStore {
    /// Index into [`Service::backends`](super::Service::backends).
    pub backend: usize,
    /// Gives a record; what pages ask by is the same, with fields of their own for what it answers.
    pub look_up: Call,
    /// Keeps a new record. It is not sent twice: one that came late would bring back what has ended
    /// meanwhile.
    pub begin: Call,
    /// Keeps another record for one that is there. It is not sent twice, likewise.
    pub change: Call,
    /// Removes a record.
    pub end: Call,
}

impl SessionStore {
    /// The call of a page's first stage, which has these fields.
    pub(crate) fn look_up_by(&self, lookup: SessionLookup) -> Call {
        Call {
            result: CallResult::Rows(lookup.record),
            status: lookup.status,
            ..self.look_up.clone()
        }
    }
}

impl SessionLookup {
    /// The stage, which ends with the page's first call.
    pub(crate) fn stage(self) -> StageProgram {
        let [asks, is_asked, key] = [0, 1, 2];
        let field = |to, field| Op::Field(Load { to, field });
        let arguments = vec![key];
        StageProgram {
            registers: vec![Type::Int, Type::Bool, Type::Text],
            constants: Vec::new(),
            body: vec![
                field(asks, self.asks),
                Op::Truth(Unary {
                    to: is_asked,
                    from: asks,
                }),
                Op::If(If {
                    condition: is_asked,
                    then: vec![field(key, self.key), Op::Query(Query { arguments })],
                    otherwise: Vec::new(),
                }),
            ],
            call: Some(0),
            step: 0,
            spots: Spots::default(),
        }
    }
}
