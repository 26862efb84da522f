//! What the header of a page file declares: routes, parameters and steps, not yet compiled.

use super::keys::Text;
use crate::diagnostic::{Place, Report};
use crate::program::{self, Asking, Document, Escape, ParamType, Route, SessionUse, Type};
use std::collections::BTreeSet;

/// The keys of a page.
pub(super) const PAGE_KEYS: [&str; 9] = [
    "route",
    "session",
    "csrf",
    "gzip",
    "content_type",
    "params",
    "errors",
    "step",
    "json",
];

/// The keys of steps, but those of calls that say what is asked, which are their kinds'.
pub(super) const STEP_KEYS: [&str; 22] = [
    "call", "rows", "row", "each", "retry", "optional", "share", "merge", "check", "else", "with",
    "status", "session", "user", "set", "sign_in", "redirect", "file", "headers", "cookies",
    "flash", "when",
];

/// A page's header.
#[derive(Debug)]
pub(crate) struct PageHeader<'a> {
    /// Where it begins.
    pub(crate) place: Place<'a>,
    pub(crate) routes: Vec<(Route, Place<'a>)>,
    /// Whether it has routes, or would have without mistakes that are reported.
    pub(crate) is_routed: bool,
    pub(crate) session: SessionUse,
    /// Whether it asks for CSRF tokens, where it says so.
    pub(crate) csrf: Option<bool>,
    /// Whether its answers may be compressed.
    pub(crate) gzip: bool,
    pub(crate) content_type: String,
    /// What it answers where it has no template: the members of an object.
    pub(crate) json: Vec<JsonMember<'a>>,
    pub(crate) params: Vec<ParamDecl<'a>>,
    /// `errors = "values"`: the page is told of parameters that are wrong.
    pub(crate) errors_are_values: bool,
    pub(crate) steps: Vec<Step<'a>>,
    pub(crate) lost: Lost,
}

/// A member of the object that a page answers.
#[derive(Debug)]
pub(crate) struct JsonMember<'a> {
    pub(crate) name: Text<'a>,
    /// An expression.
    pub(crate) value: Text<'a>,
}

impl PageHeader<'_> {
    /// Whether it answers no method but GET.
    pub(crate) fn only_gets(&self) -> bool {
        self.routes.iter().all(|(route, _)| route.method == "GET")
    }

    /// The media type of its content.
    fn media_type(&self) -> String {
        let media_type = self.content_type.split(';').next();
        media_type.unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The media type, where what it prints is escaped as HTML and it is another language.
    pub(crate) fn unlike_html(&self) -> Option<String> {
        let media_type = self.media_type();
        let is_like = ["html", "xml"].iter().any(|of| media_type.ends_with(of));
        (self.escape() == Escape::Html && !is_like).then_some(media_type)
    }

    /// How what it prints is made harmless.
    pub(crate) fn escape(&self) -> Escape {
        let media_type = self.media_type();
        match media_type.as_str() {
            "text/plain" => Escape::None,
            "application/json" => Escape::Json,
            _ if media_type.ends_with("+json") => Escape::Json,
            _ => Escape::Html,
        }
    }
}

/// Names of a page whose declarations have mistakes and are reported: that such a name is not known
/// is no mistake of where it is used.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    pub(crate) names: BTreeSet<String>,
    /// Whether there are some of which not even the name can be told.
    pub(crate) others: bool,
}

/// The name under which a page is told what is wrong with its parameters, and the one under which
/// it has them as they were typed.
pub(crate) const ERRORS: [&str; 2] = ["errors", "typed"];

/// A declared parameter.
#[derive(Debug)]
pub(crate) struct ParamDecl<'a> {
    /// The name in the page.
    pub(crate) name: Text<'a>,
    pub(crate) carriers: Vec<program::Carrier>,
    pub(crate) kind: ParamKind,
}

impl ParamDecl<'_> {
    /// Whether people type it: it may stand in the query, a form or JSON.
    pub(crate) fn is_typed(&self) -> bool {
        use program::Carrier::{Form, Json, Query};
        let is_typed = |carrier: &program::Carrier| matches!(carrier, Form | Query | Json);
        self.carriers.iter().any(is_typed)
    }
}

#[derive(Debug)]
pub(crate) enum ParamKind {
    Scalar {
        wire_name: String,
        kind: ParamType,
        default: Option<String>,
    },
    List {
        wire_name: String,
        has_records: bool,
        /// Name in the page (empty for plain values), wire name and type of each column.
        columns: Vec<(String, String, ParamType)>,
        min_items: u32,
        max_items: u32,
    },
}

/// What is answered in place of a page: where a check refuses, or a session is missing.
#[derive(Debug)]
pub(crate) enum Instead<'a> {
    Page(AnswerDecl<'a>),
    Redirect(RedirectDecl<'a>),
    /// The request goes on to the `[[proxy]]` that has its path: where that is said.
    Proxy(Place<'a>),
}

impl<'a> Instead<'a> {
    /// The page that is shown, if one is.
    pub(crate) fn page(&self) -> Option<&Text<'a>> {
        match self {
            Instead::Page(answer) => Some(&answer.page),
            Instead::Redirect(_) | Instead::Proxy(_) => None,
        }
    }

    /// Where it leads, if it leads elsewhere.
    pub(crate) fn redirect(&self) -> Option<&RedirectDecl<'a>> {
        match self {
            Instead::Page(_) | Instead::Proxy(_) => None,
            Instead::Redirect(redirect) => Some(redirect),
        }
    }
}

/// An answer that leads elsewhere.
#[derive(Debug)]
pub(crate) struct RedirectDecl<'a> {
    /// A template.
    pub(crate) to: Text<'a>,
    pub(crate) status: u16,
    /// What the page there is to tell: a template.
    pub(crate) flash: Option<Text<'a>>,
}

/// An answer by another page.
#[derive(Debug)]
pub(crate) struct AnswerDecl<'a> {
    pub(crate) page: Text<'a>,
    pub(crate) status: u16,
    /// Variables of that page, by name; `None` where the value is reported.
    pub(crate) with: Vec<(Text<'a>, Option<Text<'a>>)>,
    /// Whether there may be others, for a mistake that is reported.
    pub(crate) with_lost: bool,
}

/// One step, with its place.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) place: Place<'a>,
    /// The expression that tells whose step it is; everybody's without it.
    pub(crate) when: Option<Text<'a>>,
    pub(crate) kind: StepKind<'a>,
}

#[derive(Debug)]
pub(crate) enum StepKind<'a> {
    Call(Box<CallDecl<'a>>),
    Check {
        /// `None`: it could not be read, which is reported.
        condition: Option<Text<'a>>,
        instead: Instead<'a>,
    },
    SessionCreate {
        user: Text<'a>,
        /// What its fields are, by their names: expressions.
        set: Vec<(Text<'a>, Text<'a>)>,
        /// Whose session it is has been shown by a password or the like.
        is_sign_in: bool,
    },
    /// The session's fields are set, by their names, to expressions.
    Set {
        fields: Vec<(Text<'a>, Text<'a>)>,
    },
    SessionDestroy,
    Redirect(RedirectDecl<'a>),
    /// Headers or a status or both.
    Head {
        headers: Vec<(Text<'a>, Text<'a>)>,
        status: Option<u16>,
    },
    File {
        path: Text<'a>,
    },
    Cookies(Vec<CookieDecl<'a>>),
}

/// A cookie that is set.
#[derive(Debug)]
pub(crate) struct CookieDecl<'a> {
    pub(crate) name: Text<'a>,
    /// A template.
    pub(crate) value: Text<'a>,
    pub(crate) path: String,
    /// For how many seconds browsers keep it; while they run, where it is not said.
    pub(crate) max_age: Option<u64>,
    pub(crate) http_only: bool,
    /// As the session's, where it is not said.
    pub(crate) secure: Option<bool>,
    pub(crate) same_site: &'static str,
}

#[derive(Debug)]
pub(crate) struct CallDecl<'a> {
    pub(crate) backend: Text<'a>,
    /// What is asked, and how: of a command its first word.
    pub(crate) asked: Text<'a>,
    pub(crate) asking: Asking,
    /// The words of a command, templates.
    pub(crate) words: Vec<Text<'a>>,
    /// Of a statement of SQL, what its named arguments are: expressions.
    pub(crate) args: Vec<(Text<'a>, Text<'a>)>,
    /// The statements of a transaction.
    pub(crate) transaction: Vec<StatementDecl<'a>>,
    /// The request, of a call over HTTP.
    pub(crate) http: Option<Box<HttpDecl<'a>>>,
    /// A request for each item of a list.
    pub(crate) each: Option<EachDecl<'a>>,
    /// Empty where the call has no name.
    pub(crate) result_name: Text<'a>,
    pub(crate) columns: Vec<(String, Type)>,
    /// Those of which the page is told where they are null.
    pub(crate) nulls: Vec<usize>,
    /// `row` rather than `rows`.
    pub(crate) one_row: bool,
    pub(crate) retry: Option<bool>,
    /// The page goes on where it fails.
    pub(crate) optional: bool,
    pub(crate) share: Option<(bool, Place<'a>)>,
    pub(crate) merge: Option<(bool, Place<'a>)>,
}

/// What a call has a request for each item of.
#[derive(Debug)]
pub(crate) struct EachDecl<'a> {
    /// The name given to each item.
    pub(crate) item: String,
    /// An expression.
    pub(crate) list: Text<'a>,
}

/// A request of HTTP, but for its path, a template.
#[derive(Debug)]
pub(crate) struct HttpDecl<'a> {
    pub(crate) method: &'static str,
    /// What is sent.
    pub(crate) json: Option<JsonDecl<'a>>,
    /// Names, and templates.
    pub(crate) headers: Vec<(Text<'a>, Text<'a>)>,
    /// Where the answer's cells are.
    pub(crate) document: Document,
}

/// A value of JSON that is sent.
#[derive(Debug)]
pub(crate) enum JsonDecl<'a> {
    /// That of an expression.
    Value(Text<'a>),
    Object(Vec<(Text<'a>, JsonDecl<'a>)>),
    List(Vec<JsonDecl<'a>>),
}

/// A statement of a transaction.
#[derive(Debug)]
pub(crate) struct StatementDecl<'a> {
    pub(crate) text: Text<'a>,
    pub(crate) asking: Asking,
    /// The name and the columns of the one row that it answers, where it is looked at.
    pub(crate) row: Option<NamedRow<'a>>,
}

/// The name of what is answered, and its columns.
pub(crate) type NamedRow<'a> = (Text<'a>, Vec<(String, Type)>);

impl Step<'_> {
    /// Whether the visitor's session begins or ends with it.
    pub(crate) fn changes_session(&self) -> bool {
        use StepKind::{SessionCreate, SessionDestroy};
        matches!(self.kind, SessionCreate { .. } | SessionDestroy)
    }

    /// Where it says that requests go on to another server, if it does.
    pub(crate) fn goes_on(&self) -> Option<Place<'_>> {
        match &self.kind {
            StepKind::Check {
                instead: Instead::Proxy(place),
                ..
            } => Some(*place),
            _ => None,
        }
    }

    /// Whether it does something to the answer, whatever that will be.
    pub(crate) fn is_effect(&self) -> bool {
        use StepKind::{Cookies, Head, SessionCreate, SessionDestroy, Set};
        matches!(
            self.kind,
            Head { .. } | SessionCreate { .. } | SessionDestroy | Set { .. } | Cookies(_)
        )
    }

    /// Whether it gives everybody's answer, so that nothing can follow.
    pub(crate) fn ends_page(&self) -> bool {
        let answers = matches!(self.kind, StepKind::Redirect(_) | StepKind::File { .. });
        answers && self.when.is_none()
    }
}

/// Whether a text may be a name in a template.
pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reports a name that cannot be used in templates. Whether it could be written there.
pub(crate) fn check_name(name: &Text<'_>, report: &mut Report) -> bool {
    let reserved = [
        "session",
        "csrf_token",
        "csrf_input",
        "loop",
        "self",
        "super",
        "range",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "not",
        "and",
        "or",
        "in",
        "is",
        "if",
        "else",
    ];
    if !is_name(&name.value) {
        let hint = "letters, digits and `_`; `name = \"...\"` gives another name on the wire";
        report.error(
            name.place,
            format!("`{}` is no name for templates", name.value),
            hint,
        );
        false
    } else if reserved.contains(&name.value.as_str()) {
        let hint = "choose another; `name = \"...\"` gives another name on the wire";
        report.error(
            name.place,
            format!("the name `{}` is taken by the page language", name.value),
            hint,
        );
        true
    } else {
        true
    }
}
