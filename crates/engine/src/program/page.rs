//! A compiled page.

use super::op::Op;
use super::param::{ListParam, Param};
use super::route::Route;
use super::stage::{Call, StageProgram};
use super::value::{Constant, Field, FieldId};

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
    /// Whether it asks for tokens, and shows them.
    pub csrf: Csrf,
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

impl PageProgram {
    /// Whether any operation of its stages, at whatever depth, is such a one.
    pub fn any_op(&self, is_such: impl Fn(&Op) -> bool) -> bool {
        let mut ops = self.stages.iter().flat_map(|stage| &stage.body);
        ops.any(|op| op.any(&is_such))
    }

    /// Whether it can begin a session.
    pub fn begins_session(&self) -> bool {
        self.any_op(|op| matches!(op, Op::SessionCreate(_)))
    }

    /// Whether it looks at the session's cookie: it has a session, ends that of the browser as it
    /// begins another, or has to do with tokens, which are bound to it.
    pub fn reads_session(&self) -> bool {
        self.session != SessionUse::None || self.begins_session() || self.csrf != Csrf::default()
    }
}
