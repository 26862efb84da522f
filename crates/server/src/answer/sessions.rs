//! Sessions: what answers do to them, and who may sign in.
//!
//! Sign-ins are limited twice. An address of which too many have failed is refused before its
//! request becomes a lane; and again when it is answered, whatever the answer would be, so that
//! guesses under way together learn no more than guesses one after the other. A user who signs in
//! too often is refused when the session would begin.
//!
//! Where several machines share sessions (`shared_sessions.rs`), what an answer does to one is to
//! be in their store before it is given: [`ToKeep`].

use crate::flash;
use crate::flight::telling::{StoreWrite, What};
use crate::observe::metrics::SiteMetrics;
use crate::seal::Sealer;
use crate::shared_sessions;
use rhythm_engine::cohort::SessionChange;
use rhythm_engine::session::{
    Millis, SessionArray, SessionId, SignIns, StoredFields, TooLong, TooMany,
};
use rhythm_net::sparse::Sparse;
use rhythm_net::{Client, Time};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Where the random bits of session ids come from: the system's entropy in a server, a seed in a
/// simulation.
pub type Random = Box<dyn FnMut() -> u128 + Send>;

/// The same for all sites of a pipeline.
#[derive(Clone)]
pub(crate) struct SharedRandom(Rc<RefCell<Random>>);

impl SharedRandom {
    pub(crate) fn new(random: Random) -> SharedRandom {
        SharedRandom(Rc::new(RefCell::new(random)))
    }

    /// Bits that nobody can predict.
    pub(crate) fn next(&self) -> u128 {
        (self.0.borrow_mut())()
    }
}

/// Who visits a site: what of it lives on over reloads, and is shared by all pipelines.
#[derive(Clone)]
pub struct Visitors {
    /// Who is logged in.
    pub sessions: Arc<SessionArray>,
    /// How often users have signed in, and failed to.
    pub sign_ins: Arc<SignIns>,
    /// 128 bits that nobody can predict, by which the site knows again what it gave to browsers,
    /// such as CSRF tokens: the same for all who share the sessions.
    pub seal_key: u128,
}

/// See the module's text.
pub(crate) struct Sessions {
    array: Arc<SessionArray>,
    sign_ins: Arc<SignIns>,
    random: SharedRandom,
    sealer: Sealer,
    metrics: Arc<SiteMetrics>,
    refusals: Sparse,
    /// What the lane at hand sets fields to, for [`StoredFields::write`].
    changes: Vec<(usize, u64)>,
    /// What is to be kept for it in the store of all machines.
    told: ToKeep,
}

/// What an answer needs to be in the store of all machines before it is given.
#[derive(Debug, Default)]
pub(crate) struct ToKeep {
    /// What the store is told.
    pub(crate) writes: Vec<StoreWrite>,
    /// The session that began: it is over if the store does not have it.
    begun: Option<SessionId>,
    /// The session that keeps something else, and the mark of that change: if the store does not
    /// have it, what it has is to be asked for.
    changed: Option<(SessionId, Millis)>,
    /// Sessions that end: if the store does not know that, they go on.
    ended: Vec<SessionId>,
}

/// What a lane's answer does to sessions.
pub(crate) struct Asked<'a> {
    /// What it asks for.
    pub(crate) change: SessionChange,
    /// The session that its cookie names, known or not.
    pub(crate) earlier: Option<&'a SessionId>,
    /// It is one that the cookie is yet to name.
    pub(crate) is_new: bool,
    /// Its page knows it as one that there is.
    pub(crate) is_present: bool,
    /// Of which fields those are that [`Sessions::set`] was told of.
    pub(crate) stored: &'a StoredFields,
    /// How long the store of all machines may take, if there is one.
    pub(crate) store_timeout: Duration,
    /// Whom it is for; `None` where the client is gone.
    pub(crate) client: Option<Client>,
}

/// What a session's cookie is set to.
pub(crate) enum Cookie {
    /// A session's id.
    Id(SessionId),
    /// Nothing: it is removed.
    Removed,
}

/// Why an answer is another than the page's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No session is free.
    Full,
    /// There were too many sign-ins.
    TooMany(TooMany),
    /// A session of nobody was to begin.
    NoUser,
}

impl Sessions {
    /// Those of a site, which all workers share, as one of them changes them.
    pub(crate) fn new(
        visitors: &Visitors,
        random: SharedRandom,
        metrics: Arc<SiteMetrics>,
    ) -> Sessions {
        Sessions {
            array: visitors.sessions.clone(),
            sign_ins: visitors.sign_ins.clone(),
            random,
            sealer: Sealer::new(visitors.seal_key),
            metrics,
            refusals: Sparse::default(),
            changes: Vec::new(),
            told: ToKeep::default(),
        }
    }

    /// What seals what is given away.
    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// The array.
    pub(crate) fn array(&self) -> &SessionArray {
        &self.array
    }

    /// An id for a visitor who has no session.
    pub(crate) fn visitor(&mut self) -> SessionId {
        SessionId::of_nobody(self.random.next())
    }

    /// Whether a client may try to sign in.
    ///
    /// # Errors
    /// Too many tries from its address have failed.
    pub(crate) fn may_try(&mut self, client: Client, now: Time) -> Result<(), TooMany> {
        let Some(address) = client.address() else {
            return Ok(());
        };
        let may = self.sign_ins.may_try(address, milliseconds(now));
        may.inspect_err(|too_many| self.refused(Some(client), *too_many, now))
    }

    /// An answer of a page whose sessions are sign-ins is about to be given, whatever it is. Where
    /// that one `has_failed`, it is counted.
    ///
    /// # Errors
    /// Too many from its client's address have failed: it is to learn nothing of this one.
    pub(crate) fn tried(
        &mut self,
        client: Option<Client>,
        has_failed: bool,
        now: Time,
    ) -> Result<(), TooMany> {
        // Whose client is gone learns nothing.
        let Some(client) = client else {
            return Ok(());
        };
        if !has_failed {
            return self.may_try(client, now);
        }
        self.metrics.sign_ins_failed.add(1);
        let Some(address) = client.address() else {
            return Ok(());
        };
        let counted = self.sign_ins.failed(address, milliseconds(now));
        counted.inspect_err(|too_many| self.refused(Some(client), *too_many, now))
    }

    /// A lane comes of which nothing is known yet.
    pub(crate) fn begin(&mut self) {
        self.changes.clear();
        self.told = ToKeep::default();
    }

    /// What the store of all machines is to have before the lane at hand is answered, if anything.
    pub(crate) fn take_to_keep(&mut self) -> Option<ToKeep> {
        (!self.told.writes.is_empty()).then(|| std::mem::take(&mut self.told))
    }

    /// The store has it. Not so where what was to be changed is not `there` any more: it has ended.
    pub(crate) fn kept(&self, to_keep: &ToKeep, is_there: bool, now: Time) {
        self.metrics.sign_ins.add(to_keep.begun.is_some().into());
        match &to_keep.changed {
            // Who asks from now on may come from another machine, where more was changed meanwhile:
            // what he is told counts.
            Some((id, mark)) if is_there => self.array.changed(id, *mark, milliseconds(now)),
            Some((id, _)) => {
                self.array.destroy(id);
            }
            None => {}
        }
    }

    /// The store does not have it.
    pub(crate) fn not_kept(&self, to_keep: &ToKeep) {
        if let Some(begun) = &to_keep.begun {
            self.array.destroy(begun);
        }
        to_keep.ended.iter().for_each(|id| self.array.go_on(id));
        if let Some((changed, _)) = &to_keep.changed {
            self.array.doubt(changed);
        }
    }

    /// The store is to be told that a session ends, if it is one.
    fn ends(&mut self, id: &SessionId) {
        if !id.is_of_nobody() {
            self.told.ended.push(*id);
            self.told.writes.push(StoreWrite {
                what: What::Ends,
                key: shared_sessions::key(&self.sealer, id),
                record: Vec::new(),
            });
        }
    }

    /// The store is to be told what a user's session keeps.
    fn keeps(&mut self, what: What, id: &SessionId, user: i64, stored: &StoredFields) {
        let mut words = Vec::new();
        match what {
            What::Changes => stored.read(id, &mut words),
            What::Begins | What::Ends => stored.clear(&mut words),
        }
        StoredFields::apply(&self.changes, &mut words);
        self.told.writes.push(StoreWrite {
            what,
            key: shared_sessions::key(&self.sealer, id),
            record: shared_sessions::write(&self.sealer, id, user, stored, &words),
        });
    }

    /// Makes the changes in a session that other machines have, too.
    ///
    /// # Errors
    /// There is no room for the session here, by which it would be known what else it keeps.
    fn change_shared(
        &mut self,
        asked: &Asked<'_>,
        id: &SessionId,
        now: Millis,
    ) -> Result<(), Refused> {
        if self.changes.is_empty() || !asked.is_present {
            return Ok(());
        }
        let Some(here) = self.array.here(id) else {
            // Of one that has just ended there is nothing to keep.
            return match self.array.has_ended(id) {
                true => Ok(()),
                false => Err(Refused::Full),
            };
        };
        // Else it has just ended.
        if let Some(user) = self.array.user_of(&here) {
            let timeout = u64::try_from(asked.store_timeout.as_millis()).unwrap_or(u64::MAX);
            let until = now.saturating_add(timeout.saturating_add(1));
            let mark = self.array.changes(&here, until);
            self.keeps(What::Changes, &here, user, asked.stored);
            self.store(asked.stored, &here);
            self.told.changed = Some((*id, mark));
        }
        Ok(())
    }

    /// The lane at hand sets a field of its session, or of that which it begins.
    ///
    /// # Errors
    /// The text is too long for it.
    pub(crate) fn set(
        &mut self,
        stored: &StoredFields,
        field: usize,
        text: &[u8],
    ) -> Result<(), TooLong> {
        stored.change(field, text, &mut self.changes)
    }

    /// Makes the changes in a session.
    fn store(&self, stored: &StoredFields, id: &SessionId) {
        if !self.changes.is_empty() {
            stored.write(id, &self.changes, || self.array.has(id));
        }
    }

    /// The value of the cookie with a message, for the session that the browser will have: that of
    /// the cookie that is set now, else the one it came with. Who signs out has none, and is given
    /// an id instead.
    pub(crate) fn flash(
        &mut self,
        message: &[u8],
        earlier: Option<&SessionId>,
        cookie: &mut Option<Cookie>,
    ) -> Vec<u8> {
        let id = match (&*cookie, earlier) {
            (Some(Cookie::Id(id)), _) => *id,
            (None, Some(id)) => *id,
            (Some(Cookie::Removed), _) | (None, None) => self.visitor(),
        };
        if matches!(cookie, Some(Cookie::Removed)) {
            *cookie = Some(Cookie::Id(id));
        }
        let mut value = Vec::new();
        flash::write(&self.sealer, &id, message, &mut value);
        value
    }

    /// Does what a lane asks for, and gives what the cookie is set to.
    ///
    /// # Errors
    /// Why it gets another answer than its page's.
    pub(crate) fn change(
        &mut self,
        asked: Asked<'_>,
        now: Time,
    ) -> Result<Option<Cookie>, Refused> {
        let at = milliseconds(now);
        let is_shared = self.array.is_shared();
        match asked.change {
            SessionChange::None => {
                match asked.earlier {
                    Some(session) if is_shared => self.change_shared(&asked, session, at)?,
                    Some(session) => self.store(asked.stored, session),
                    None => {}
                }
                let new = asked.earlier.filter(|_| asked.is_new);
                Ok(new.copied().map(Cookie::Id))
            }
            // Whose client is gone would never hear of it.
            SessionChange::Create(_) if asked.client.is_none() => Ok(None),
            SessionChange::Create(0) => Err(Refused::NoUser),
            SessionChange::Create(user) => {
                if let Err(too_many) = self.sign_ins.signs_in(user, at) {
                    self.refused(asked.client, too_many, now);
                    return Err(Refused::TooMany(too_many));
                }
                let mut over = Vec::new();
                let id = self.create(user, at, &mut over)?;
                // The browser knows one session at a time.
                if let Some(earlier) = asked.earlier {
                    self.array.end(earlier);
                    over.push(*earlier);
                }
                self.store(asked.stored, &id);
                if is_shared {
                    over.iter().for_each(|id| self.ends(id));
                    self.keeps(What::Begins, &id, user, asked.stored);
                    // It counts when the store has it.
                    self.told.begun = Some(id);
                } else {
                    self.metrics.sign_ins.add(1);
                }
                Ok(Some(Cookie::Id(id)))
            }
            SessionChange::Destroy => {
                if let Some(session) = asked.earlier {
                    self.array.end(session);
                    if is_shared {
                        self.ends(session);
                    }
                }
                Ok(Some(Cookie::Removed))
            }
        }
    }

    /// Begins a session of a user; what ends for it goes into `over`.
    ///
    /// One that another sign-in of the user makes one too many at once may end itself. Then it is
    /// told of as ended, not as begun, and it is tried again: of two the later one stays.
    fn create(
        &self,
        user: i64,
        at: Millis,
        over: &mut Vec<SessionId>,
    ) -> Result<SessionId, Refused> {
        for _ in 0..2 {
            let mut ends = |id| over.push(id);
            let created = (self.array).create_for(user, self.random.next(), at, &mut ends);
            let id = created.map_err(|_| Refused::Full)?;
            if !over.contains(&id) {
                return Ok(id);
            }
        }
        Err(Refused::Full)
    }

    /// Counts a refusal, and tells of it.
    #[cold]
    fn refused(&mut self, client: Option<Client>, TooMany(seconds): TooMany, now: Time) {
        self.metrics.sign_ins_refused.add(1);
        if let Some(left_out) = self.refusals.line(now) {
            let address = client.map(|client| client.to_string());
            tracing::warn!(
                address,
                retry_after_s = seconds,
                left_out,
                "too many sign-ins: some answer 429 (session.sign_ins_per_user_max, \
                 session.failed_sign_ins_per_address_max; set the latter to 0 behind a proxy)"
            );
        }
    }
}

/// What the session array counts time in.
pub(crate) fn milliseconds(now: Time) -> Millis {
    now.as_nanos() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::{Metrics, SessionGauge};
    use rhythm_engine::session::{SessionRules, SignInRules};
    use rhythm_engine::settings::{StoredField, StoredKind};
    use std::net::Ipv4Addr;
    use std::num::NonZeroU32;

    #[derive(Debug)]
    struct NoGauge;

    impl SessionGauge for NoGauge {
        fn sessions(&self) -> (usize, usize) {
            (0, 0)
        }
    }

    /// Sessions in an array, whose random bits begin with some.
    fn sessions_of(array: &Arc<SessionArray>, mut random: u128) -> Sessions {
        let metrics = Metrics::new(1, Arc::default(), Box::new(NoGauge)).worker(0);
        let visitors = Visitors {
            sessions: array.clone(),
            sign_ins: Arc::new(SignIns::new(SignInRules::NONE, 0)),
            seal_key: 7,
        };
        let random = SharedRandom::new(Box::new(move || {
            random += 1;
            random
        }));
        Sessions::new(&visitors, random, metrics.site(0))
    }

    fn sessions(array: &Arc<SessionArray>) -> Sessions {
        sessions_of(array, 7)
    }

    #[test]
    fn what_ends_as_it_begins_does_not_begin_in_the_store() {
        let rules = SessionRules {
            is_shared: true,
            per_user_max: NonZeroU32::new(1),
            ..SessionRules::new(16, 1_000)
        };
        let array = Arc::new(SessionArray::with(rules));
        let array = &array;
        let sign_in_often = |thread: u128| {
            let mut sessions = sessions_of(array, thread << 100);
            let stored = StoredFields::new(Vec::new(), 16);
            for _ in 0..100_000 {
                sessions.begin();
                let asked = Asked {
                    change: SessionChange::Create(42),
                    earlier: None,
                    is_new: false,
                    is_present: false,
                    stored: &stored,
                    store_timeout: Duration::from_secs(1),
                    client: Some(Client::Unix),
                };
                if sessions.change(asked, Time::ZERO).is_ok() {
                    let told = sessions.take_to_keep().expect("it begins in the store");
                    let begun = told.begun.expect("it has begun");
                    assert!(!told.ended.contains(&begun), "it has ended itself");
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let sign_in_often = &sign_in_often;
                scope.spawn(move || sign_in_often(thread));
            }
        });
    }

    #[test]
    fn what_is_set_in_a_session_that_has_just_ended_is_nothing_to_keep() {
        let rules = SessionRules {
            is_shared: true,
            ..SessionRules::new(4, 1_000)
        };
        let array = Arc::new(SessionArray::with(rules));
        let mut sessions = sessions(&array);
        let level = StoredField {
            name: "level".to_owned(),
            kind: StoredKind::Int,
        };
        let stored = StoredFields::new(vec![level], 4);
        let id = array.create(42, 1 << 64 | 1, 0).expect("there is room");
        let set = |sessions: &mut Sessions, id: &SessionId| {
            sessions.begin();
            sessions.set(&stored, 0, b"7").expect("it fits");
            let asked = Asked {
                change: SessionChange::None,
                earlier: Some(id),
                is_new: false,
                is_present: true,
                stored: &stored,
                store_timeout: Duration::from_secs(1),
                client: Some(Client::Unix),
            };
            let outcome = sessions.change(asked, Time::ZERO).map(|_| ());
            (outcome, sessions.take_to_keep().is_some())
        };
        assert_eq!(set(&mut sessions, &id), (Ok(()), true));
        assert!(array.end(&id));
        assert_eq!(set(&mut sessions, &id), (Ok(()), false));
        // Of one that there was no room for nothing is known.
        let foreign = SessionId::of_nobody(3 << 64 | 3);
        assert_eq!(set(&mut sessions, &foreign), (Err(Refused::Full), false));
    }

    #[test]
    fn a_client_that_is_gone_gets_no_session() {
        let array = Arc::new(SessionArray::new(4, 1_000));
        let mut sessions = sessions(&array);
        let stored = StoredFields::new(Vec::new(), 4);
        let here = Client::At((Ipv4Addr::LOCALHOST, 4711).into());
        for (client, live) in [(None, 0), (Some(here), 1), (Some(Client::Unix), 2)] {
            let asked = Asked {
                change: SessionChange::Create(42),
                earlier: None,
                is_new: false,
                is_present: false,
                stored: &stored,
                store_timeout: Duration::ZERO,
                client,
            };
            let cookie = sessions.change(asked, Time::ZERO);
            assert_eq!(cookie.map(|cookie| cookie.is_some()), Ok(live > 0));
            assert_eq!(array.live(), live);
        }
    }
}
