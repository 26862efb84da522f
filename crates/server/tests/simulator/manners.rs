//! What clients are like, what they keep, and what they share with the run.

use crate::backends::Blame;
use crate::reference::Reference;
use crate::requests::Wanted;
use std::collections::BTreeSet;

/// Requests that clients have under way at a time who are no flood.
pub(crate) const DEPTH_MAX: usize = 20;

/// Manners. Numbers that are chances mean one request in so many; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// Most requests under way at a time.
    pub(crate) depth: usize,
    /// Sends so many bytes at a time with this gap.
    pub(crate) pace: Option<(usize, u64)>,
    /// Thinks at most so long before it asks again, nanoseconds.
    pub(crate) think_max: u64,
    /// HTTP/1.0.
    pub(crate) http10: usize,
    /// `Connection: close`.
    pub(crate) close: usize,
    /// HEAD instead of GET.
    pub(crate) head: usize,
    /// Must be refused.
    pub(crate) bad: usize,
    /// Sends a part of a request and nothing more.
    pub(crate) stall: usize,
    /// Resets the connection while an answer is due.
    pub(crate) reset: usize,
    /// Stops reading for a while.
    pub(crate) deaf: usize,
    /// Sends the form in chunks.
    pub(crate) chunked: usize,
    /// Waits for `100 Continue` before the form.
    pub(crate) expect: usize,
    /// Asks for no page of a session but others.
    pub(crate) anonymous: usize,
    /// Logs out.
    pub(crate) logout: usize,
    /// Forgets its cookie.
    pub(crate) forget: usize,
    /// Sends its end with the last request of a connection.
    pub(crate) half_close: usize,
    /// Asks for one page that needs nothing, over and over.
    pub(crate) one_page: bool,
}

/// What clients and the run share.
pub(crate) struct Shared<'a> {
    pub(crate) reference: &'a mut Reference,
    /// How often the service was reloaded. It alternates between its versions.
    pub(crate) epoch: usize,
    /// The server is draining.
    pub(crate) draining: bool,
    /// Until when connections that are owed nothing may ask, and when it gives up on what is left.
    pub(crate) drain: (u64, u64),
    pub(crate) explains: Explains,
    /// What the backend did to each user, where that is known: each fault explains one error.
    pub(crate) blame: Option<Blame>,
    pub(crate) books: Books,
}

/// Which errors are honest in this run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Explains {
    /// 502, 503, 504 of pages with calls.
    pub(crate) backend: bool,
    /// The user for whom the backend fails always; 0: none.
    pub(crate) fails_for: u64,
    /// So many users, the first, have calls that hang.
    pub(crate) hangs_for_first: u64,
    /// The page whose calls hang, if there is one.
    pub(crate) hangs: Option<&'static str>,
    /// Who waits for that page waits with what cannot be sent again, too, for so long after he
    /// asked for it, where so many hold further connections by it: of few he holds no more than
    /// one by such, and of more all together have some beyond their first.
    pub(crate) hangs_for: Option<(u64, usize)>,
    /// Within so long all are answered who do nothing that others need not wait for, nanoseconds:
    /// that user's calls, that page, and floods.
    pub(crate) soon: Option<u64>,
    /// 503 of pages: lanes have not enough memory for what backends answer.
    pub(crate) memory: bool,
    /// 503 in place of files, and connections that end in the middle of one.
    pub(crate) disk: bool,
    /// Pages as if the backend had said no.
    pub(crate) refused: bool,
    /// 500 of pages.
    pub(crate) device: bool,
    /// 503 to logins.
    pub(crate) sessions_scarce: bool,
    /// A login ends older sessions of its user.
    pub(crate) sessions_limited: bool,
    /// 429 to logins.
    pub(crate) sign_ins_limited: bool,
    /// Sessions end by themselves.
    pub(crate) sessions_expire: bool,
    /// The least time for which a client may make the server wait.
    pub(crate) patience: u64,
    /// How long an idle connection is kept, at least and at most.
    pub(crate) idle: (u64, u64),
    /// Silent connections may be closed for others after so long, if at all.
    pub(crate) yield_after: Option<u64>,
    /// Draining may end before everybody has their answers.
    pub(crate) drain_short: bool,
    /// The loop is kept from its core once, for longer than who sends a form has at the end.
    pub(crate) stalls: bool,
    /// Connections may hold so little together that some have to give way.
    pub(crate) crowded: bool,
}

/// What clients know of all sessions, and how many answers they checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// Sessions that were given and not taken back.
    pub(crate) live: i64,
    /// Those among them that may have been.
    pub(crate) fading: i64,
    /// Who has asked for a page that hangs, and until when that may keep a connection.
    pub(crate) hung_until: Vec<(i64, u64)>,
    /// Logins whose answer never came.
    pub(crate) unknown: i64,
    /// Names of pages that were right, and all statuses.
    pub(crate) seen: BTreeSet<String>,
    /// Right pages.
    pub(crate) pages: usize,
    /// Right answers that are no pages.
    pub(crate) others: usize,
    /// Honest errors.
    pub(crate) errors: usize,
    /// Requests whose connection ended before they were answered.
    pub(crate) dropped: usize,
}

/// A session as its client knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) cookie: Option<String>,
    /// Whether it may have ended.
    pub(crate) fading: bool,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) wanted: Wanted,
    pub(crate) head: bool,
    /// The client said that it is the last.
    pub(crate) close: bool,
    /// How many bytes of the connection it and those before it take.
    pub(crate) ends_at: u64,
    pub(crate) begun: u64,
    pub(crate) epoch: usize,
    /// All of it was sent.
    pub(crate) complete: bool,
    /// Whose session the cookie names.
    pub(crate) user: Option<i64>,
    /// Whether it may have ended before.
    pub(crate) fading: bool,
    /// What is sent after `100 Continue`.
    pub(crate) rest: Option<Vec<u8>>,
}

impl Pending {
    /// Whether it is for this page, if for one.
    pub(crate) fn is_page(&self, page: Option<&str>) -> bool {
        matches!(&self.wanted, Wanted::Page { name, .. } if Some(*name) == page)
    }

    /// Whether its user waits for a call of his own that hangs.
    pub(crate) fn waits_for_own(&self, shared: &Shared<'_>) -> bool {
        let hung = shared.books.hung_until.iter();
        let hung = hung.filter(|(_, until)| self.begun <= *until);
        let askers: Vec<i64> = hung.map(|(user, _)| *user).collect();
        let firsts = askers.iter().collect::<BTreeSet<_>>().len();
        let is_his = self.user.is_some_and(|user| askers.contains(&user));
        let further_max = shared.explains.hangs_for.map_or(0, |(_, further)| further);
        is_his && askers.len() - firsts >= further_max
    }

    /// Whether it is to be answered with a file.
    pub(crate) fn is_file(&self) -> bool {
        match &self.wanted {
            Wanted::File { .. } => true,
            Wanted::Page { name, .. } => *name == "check_detail_image",
            _ => false,
        }
    }
}

impl Explains {
    /// Whether the backend fails for this user, of all.
    pub(crate) fn fails_for(&self, user: u32) -> bool {
        let user = u64::from(user);
        user == self.fails_for || user <= self.hangs_for_first
    }
}
