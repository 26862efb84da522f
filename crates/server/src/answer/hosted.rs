//! Answers that are yet to be given, by hosts: what is counted and logged of them when they are.

use crate::flight::timeline::Came;
use crate::host::files::FileStream;
use crate::observe::access_log::LogEntry;
use crate::trace::Origin;
use rhythm_engine::settings::ProxyConfig;
use rhythm_http::AnswerSlot;
use rhythm_net::{Client, Time};
use std::collections::HashMap;

/// An answer that is yet to be given.
pub(crate) struct Hosted {
    /// What the log says of its request, if there is a log.
    pub(crate) line: Option<HostedLine>,
    /// A page gave it, and it counts as its.
    pub(crate) is_counted: bool,
}

/// What the log says of a request that is yet to be answered.
pub(crate) struct HostedLine {
    pub(crate) site: Option<usize>,
    pub(crate) peer: Client,
    pub(crate) arrived: Time,
    /// When its first byte came.
    pub(crate) began: Time,
    pub(crate) request: Box<[u8]>,
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// Another server answers it, if one does.
    pub(crate) proxied: Option<Proxied>,
}

/// What is known of who answers a request that is proxied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proxied {
    /// It is asked over TLS; `None` where some servers of the route are and others not.
    pub(crate) is_tls: Option<bool>,
}

impl Proxied {
    /// By one of these servers.
    pub(crate) fn to(route: &ProxyConfig) -> Proxied {
        let mut each = route.to.iter().map(|(_, url)| url.speaks_tls);
        let first = each.next();
        Proxied {
            is_tls: first.filter(|first| each.all(|other| other == *first)),
        }
    }
}

impl HostedLine {
    /// The line of a request that came at this time.
    pub(crate) fn new(entry: LogEntry<'_>, came: Came) -> HostedLine {
        HostedLine {
            site: entry.site,
            peer: entry.peer,
            arrived: came.arrived,
            began: came.began,
            request: entry.request.into(),
            origin: Origin {
                id: entry.id,
                trace: None,
            },
            proxied: None,
        }
    }

    /// As the log takes it.
    pub(crate) fn entry(&self) -> LogEntry<'_> {
        LogEntry {
            site: self.site,
            peer: self.peer,
            request: &self.request,
            id: self.origin.id,
        }
    }
}

/// Answers that are yet to be given.
#[derive(Default)]
pub(crate) struct HostedAnswers {
    /// Those of which something is to be known when they are.
    waiting: HashMap<AnswerSlot, Hosted>,
    /// Those with files that are to be opened.
    streams: Vec<(AnswerSlot, FileStream)>,
}

impl HostedAnswers {
    /// A host is to give this answer.
    pub(crate) fn expect(&mut self, slot: AnswerSlot, hosted: Hosted) {
        if hosted.line.is_some() || hosted.is_counted {
            self.waiting.insert(slot, hosted);
        }
    }

    /// This answer is a file's.
    pub(crate) fn stream(&mut self, slot: AnswerSlot, stream: FileStream, hosted: Hosted) {
        self.streams.push((slot, stream));
        self.expect(slot, hosted);
    }

    /// A file's answer that is to be opened.
    pub(crate) fn next_stream(&mut self) -> Option<(AnswerSlot, FileStream)> {
        self.streams.pop()
    }

    /// Bytes of memory that are kept of an answer until it is given.
    pub(crate) fn bytes_of(&self, slot: AnswerSlot) -> usize {
        let Some(hosted) = self.waiting.get(&slot) else {
            return 0;
        };
        let line = hosted.line.as_ref().map_or(0, |line| line.request.len());
        // A table has twice the places that it needs, at most.
        2 * size_of::<(AnswerSlot, Hosted)>() + line
    }

    /// This answer was given, or never will be.
    pub(crate) fn take(&mut self, slot: AnswerSlot) -> Option<Hosted> {
        self.waiting.remove(&slot)
    }
}
