//! A compiled page.

use super::op::Op;
use super::param::{ListParam, Param};
use super::route::Route;
use super::sessions::SessionLookup;
use super::stage::{Call, CallResult, StageProgram};
use super::value::{Constant, Field, FieldId, FieldType, FragmentId};
use crate::settings::StoredKind;
use std::cell::RefCell;

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
    /// How the page's first stage asks for it, where several machines share sessions.
    pub lookup: Option<SessionLookup>,
}

/// What a page has to do with the tokens by which requests show that a page of this service had
/// them sent (CSRF).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Csrf {
    /// Requests that may change something are refused without one.
    pub is_checked: bool,
    /// Text: the visitor's, where the page shows it.
    pub token: Option<FieldId>,
}

impl Csrf {
    /// What a template calls the token, and under which name forms send it.
    pub const NAME: &str = "csrf_token";
    /// What a template calls the input of a form that sends it.
    pub(crate) const INPUT: &str = "csrf_input";
    /// What of such an input stands before the token, and what behind it.
    pub(crate) const INPUT_AROUND: [&str; 2] =
        ["<input type=\"hidden\" name=\"csrf_token\" value=\"", "\">"];
}

/// A field of sessions that a page reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredUse {
    /// Which of those that service.toml declares, in the order of their names.
    pub stored: u16,
    /// Its type.
    pub kind: StoredKind,
    /// Where the page has it: Text, or Int, of which 1 is true.
    pub field: FieldId,
}

/// A cookie that a page reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieUse {
    /// Its name, a token.
    pub name: String,
    /// Text: where the page has its value, which is empty where a request has none.
    pub field: FieldId,
}

/// What an [`Op::Header`] gives beside the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aside {
    /// A header of this name, in the case given.
    Header(String),
    /// What a field of the session is set to, by its number in the order of the names: a text, or a
    /// number as a text, of which 1 is true.
    Stored(u16),
    /// The message that the next page of the visitor shows that shows any.
    Flash,
    /// In place of an answer: the request goes on to the server of the `[[proxy]]` that has its
    /// path. The value is empty, and all else of the lane's answer is left out.
    Proxy,
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
    /// Which of its other fields it reads.
    pub stored: Vec<StoredUse>,
    /// Which cookies it reads, beside parameters and the session's.
    pub cookies: Vec<CookieUse>,
    /// Text: where it has the message that a page before has left, if it shows it.
    pub flash: Option<FieldId>,
    /// Text: where it has what was asked for, a path of this site, if it shows it.
    pub here: Option<FieldId>,
    /// Int: where it has the time when the request was read, in seconds since 1970, if it asks.
    pub now: Option<FieldId>,
    /// Int: where it has numbers from 0 to 2^63 - 1 that nobody can foretell, another for each
    /// place that asks.
    pub drawn: Vec<FieldId>,
    /// Whether it asks for tokens, and shows them.
    pub csrf: Csrf,
    /// It begins sessions of users who show who they are: where it does not, a sign-in has failed.
    pub is_sign_in: bool,
    /// Its answers may be compressed.
    pub gzip: bool,
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
    /// What it can give beside its body.
    pub asides: Vec<Aside>,
}

impl PageProgram {
    /// Whether any operation of its stages, at whatever depth, is such a one.
    pub fn any_op(&self, is_such: impl Fn(&Op) -> bool) -> bool {
        let mut ops = self.stages.iter().flat_map(|stage| &stage.body);
        ops.any(|op| op.any(&is_such))
    }

    /// The name of a column of a call's rows, as the page has it: `id`, or of one row `item.id`.
    pub fn column_name(&self, call: &Call, column: usize) -> Option<&str> {
        let field = |id: FieldId| self.fields.get(usize::from(id));
        match &call.result {
            CallResult::Row(ids) => Some(&field(*ids.get(column)?)?.name),
            CallResult::Rows(list) => match &field(*list)?.kind {
                FieldType::List(columns) => Some(&columns.get(column)?.0),
                FieldType::Scalar(_) => None,
            },
        }
    }

    /// Its fragments, in the order in which its stages have them; one may be there several times.
    pub fn fragments(&self) -> Vec<FragmentId> {
        let fragments = RefCell::new(Vec::new());
        self.any_op(|op| {
            if let Op::Fragment(fragment) = op {
                fragments.borrow_mut().push(*fragment);
            }
            false
        });
        fragments.into_inner()
    }

    /// Whether its stages read a scalar field.
    pub fn reads(&self, field: FieldId) -> bool {
        self.any_op(|op| matches!(op, Op::Field(load) if load.field == field))
    }

    /// Whether it can begin a session.
    pub fn begins_session(&self) -> bool {
        self.any_op(|op| matches!(op, Op::SessionCreate(_)))
    }

    /// Whether it sets fields of the session.
    pub fn sets_stored(&self) -> bool {
        let is_stored = |aside: &Aside| matches!(aside, Aside::Stored(_));
        self.asides.iter().any(is_stored)
    }

    /// Whether it sets cookies of its own.
    pub fn sets_cookies(&self) -> bool {
        let is_cookie =
            |aside: &Aside| matches!(aside, Aside::Header(name) if name == "Set-Cookie");
        self.asides.iter().any(is_cookie)
    }

    /// Whether it leaves a message for a page that follows.
    pub fn sets_flash(&self) -> bool {
        self.asides.contains(&Aside::Flash)
    }

    /// Whether requests can go on from it to another server.
    pub fn falls_through(&self) -> bool {
        self.asides.contains(&Aside::Proxy)
    }

    /// Whether it looks at the session's cookie: it has a session, ends that of the browser as it
    /// begins another, or has to do with tokens or messages, which are bound to it.
    pub fn reads_session(&self) -> bool {
        self.session != SessionUse::None
            || self.begins_session()
            || self.csrf != Csrf::default()
            || self.flash.is_some()
            || self.sets_flash()
    }
}
