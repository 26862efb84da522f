//! What a worker must know of a service to load it: what its users ask for, and what they must be
//! shown. Each workload is one folder beside this file, and knows nothing of connections.

use super::rng::Rng;
use rhythm_net::Time;
use rhythm_protocol::http::client::ResponseHead;
use rhythm_protocol::http::head::Known;
use std::collections::VecDeque;
use std::fmt;

/// The users of a service, as a run is told of them.
pub(crate) trait Workload: Clone + Send + Sync + 'static {
    /// What a worker walks by.
    type Walk: Walk;

    /// The service it is for, and the only one that its users know.
    const SERVICE: &'static str;

    /// The pages' names and their shares of all dynamic requests, in percent.
    fn pages(&self) -> Vec<PageShare>;

    /// Whether users walk from page to page, so that the shares should come out.
    fn is_walk(&self) -> bool;

    /// The most requests that a user has under way.
    fn pipeline(&self) -> usize {
        1
    }

    /// Why there is no run with these options, if they make no sense; `is_open_loop`: users arrive
    /// at a rate.
    ///
    /// # Errors
    /// The cause, and what to do.
    fn check(&self, is_open_loop: bool) -> Result<(), &'static str>;

    /// The users of one worker of `workers`; `validates` says whether pages are compared.
    fn walk(&self, worker: usize, workers: usize, validates: bool) -> Self::Walk;
}

/// A page's part in a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PageShare {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its share of all dynamic requests, in percent.
    pub(crate) share: f64,
}

/// What a request is to the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A dynamic page, by its place in [`Workload::pages`].
    Page(usize),
    /// What leads to the page asked for next, such as a form that answers with a redirect: that
    /// page takes as long as both.
    Step,
    /// A static file.
    File,
    /// Something that must be refused.
    Refusal,
    /// What ends a visit behind the scenes.
    SignOut,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next<A> {
    /// What is asked for.
    pub(crate) ask: A,
    /// Whether the user thinks before.
    pub(crate) thinks: bool,
}

/// The users of a worker: what they ask for, and whether they are shown the right things.
pub(crate) trait Walk: 'static {
    /// Whether answers are judged inflated, where they come compressed; else as they come.
    const INFLATES: bool = true;
    /// Most bytes of an answer's content: many times as much as pages and their files have.
    const BODY_MAX: usize = 1024 * 1024;

    /// What is asked of the server.
    type Ask: Copy + fmt::Debug;
    /// One user, from arrival to leaving.
    type Visit: Default + fmt::Debug;
    /// What an answer is compared with; kept, to be used again.
    type Expected: Default + fmt::Debug;

    /// A user arrives: what he asks for first goes into the queue.
    fn arrive(&mut self, due: Time, rng: &mut Rng, queue: &mut VecDeque<Self::Ask>) -> Self::Visit;

    /// What he asks for next; `None`: he leaves.
    fn next(&mut self, visit: &mut Self::Visit, rng: &mut Rng) -> Option<Next<Self::Ask>>;

    /// What is asked for behind the scenes when he leaves, once.
    fn leave(&mut self, visit: &mut Self::Visit) -> Option<Self::Ask>;

    /// Appends a request to `out`, and says what must come.
    ///
    /// # Errors
    /// What has to be asked for before.
    fn ask(
        &mut self,
        ask: Self::Ask,
        visit: &mut Self::Visit,
        rng: &mut Rng,
        host: &str,
        out: &mut Vec<u8>,
        expected: &mut Self::Expected,
    ) -> Result<(), Self::Ask>;

    /// What a request is to the report.
    fn kind(&self, ask: Self::Ask) -> Kind;

    /// What was asked for, in words.
    fn describe(&self, ask: Self::Ask) -> String;

    /// Whether an answer is the right one. What it tells the user, such as a cookie, he knows then.
    ///
    /// # Errors
    /// What is wrong with it.
    fn judge(
        &mut self,
        ask: Self::Ask,
        expected: &Self::Expected,
        answer: &Answer<'_>,
        visit: &mut Self::Visit,
    ) -> Result<(), Fault>;

    /// Queues what belongs to a right answer, such as a page's files.
    fn follow(
        &mut self,
        ask: Self::Ask,
        expected: &Self::Expected,
        answer: &Answer<'_>,
        visit: &mut Self::Visit,
        rng: &mut Rng,
        queue: &mut VecDeque<Self::Ask>,
    );

    /// Whether the user goes on after an answer.
    fn goes_on(&mut self, ask: Self::Ask, is_right: bool, visit: &mut Self::Visit) -> bool;

    /// The user's connection is gone: the server may have been restarted.
    fn lost(&mut self, visit: &mut Self::Visit);

    /// The visit ends without a farewell: a request failed, and what became of it is not known.
    fn given_up(&mut self, visit: &mut Self::Visit);
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No useful answer; the visit ends.
    Error(String),
    /// An answer, but not the right one.
    Invalid {
        /// Failures of one kind are told once.
        kind: String,
        /// What is wrong.
        reason: String,
        /// Where in the content, in bytes.
        offset: usize,
    },
}

impl Fault {
    pub(crate) fn invalid(kind: &str) -> Fault {
        Fault::Invalid {
            kind: kind.to_owned(),
            reason: kind.to_owned(),
            offset: 0,
        }
    }
}

/// An answer as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) head: &'a ResponseHead,
    /// The bytes the head was parsed from.
    pub(crate) bytes: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl<'a> Answer<'a> {
    /// A header's value; empty where there is none.
    pub(crate) fn known(&self, known: Known) -> &'a [u8] {
        self.head
            .known(known)
            .map_or(b"", |span| span.of(self.bytes))
    }

    /// The cookie that is set whose name begins so, as it is sent back (`NAME=VALUE`), and its
    /// attributes.
    pub(crate) fn cookie(&self, name: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
        let mut cookies = self.head.values(self.bytes, "set-cookie");
        let cookie = cookies.find(|value| {
            value
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(b"="))
        })?;
        let end = memchr::memchr(b';', cookie).unwrap_or(cookie.len());
        Some(cookie.split_at(end))
    }
}

/// The first `max` bytes.
pub(crate) fn clip(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}
