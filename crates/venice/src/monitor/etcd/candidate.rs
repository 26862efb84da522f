//! The thread of a monitor that is to lead, or does.

use super::election::{Election, Standing};
use super::loading::Loaded;
use super::rows::{LEADER, Place};
use super::term::Term;
use crate::monitor::keeper::State;
use rhythm_etcd::{AGAIN, Etcd};
use rhythm_net::clock;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a spare waits to be told that the leader is gone, before it looks itself: it may wait
/// for a member of etcd that is cut off.
const LOOK_AFTER: Duration = Duration::from_millis(700);

/// What is new.
#[derive(Debug)]
pub enum News {
    /// This monitor leads from now on, with what was kept.
    Leads(Arc<Term>, Box<(State, Loaded)>),
    /// Another one leads, or nobody.
    Follows(Option<Place>),
    /// Another one leads, whose agents could not come to this one: it is no spare of that.
    Foreign(Place),
    /// etcd is asked in vain, and why.
    Trouble(String),
}

/// A monitor that stands for election until this is dropped: then its lease is given up.
#[derive(Debug)]
pub struct Candidate {
    /// Its end ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Candidate {
    /// Starts the thread; it tells what is new, each thing once.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        election: Election<Etcd>,
        tell: impl Fn(News) + Send + 'static,
    ) -> std::io::Result<Candidate> {
        let (end, ended) = mpsc::channel();
        let stand = move || {
            let mut election = election;
            let mut told = None;
            loop {
                let wait = step(&mut election, &mut told, &tell);
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            if let Err(error) = election.resign() {
                tracing::warn!(%error, "the lease is not ended: others wait until it is over");
            }
        };
        let thread = thread::Builder::new().name("venice lease".into());
        Ok(Candidate {
            end: Some(end),
            thread: Some(thread.spawn(stand)?),
        })
    }
}

/// What was told last.
#[derive(PartialEq)]
enum Told {
    Leads,
    Follows(Option<Place>),
    Trouble(String),
}

/// Looks once; for how long nothing is to be done then.
fn step(election: &mut Election<Etcd>, told: &mut Option<Told>, tell: &impl Fn(News)) -> Duration {
    let (now, wait) = match election.step(&clock::monotonic) {
        Ok(Standing::Begins(term, loaded)) => {
            *told = Some(Told::Leads);
            tell(News::Leads(term, loaded));
            // Its lease is as old as the last page that was read.
            return Duration::ZERO;
        }
        Ok(Standing::Leads) => (Told::Leads, election.rest(clock::monotonic())),
        Ok(Standing::Follows(place, since)) => {
            let now = Told::Follows(place);
            if told.as_ref() != Some(&now) {
                *told = Some(now);
                tell(match place {
                    Some(place) if !place.is_spare_of(election.place()) => News::Foreign(place),
                    place => News::Follows(place),
                });
            }
            // That etcd does not answer is seen when it is asked again.
            let waited = election.store_mut().wait_for(LEADER, since, LOOK_AFTER);
            return match waited {
                Ok(()) => Duration::ZERO,
                Err(_) => AGAIN,
            };
        }
        Ok(Standing::Vacant) => (Told::Follows(None), AGAIN),
        Err(error) => (Told::Trouble(error.to_string()), AGAIN),
    };
    if told.as_ref() != Some(&now) {
        match &now {
            Told::Leads => {}
            Told::Follows(place) => tell(News::Follows(*place)),
            Told::Trouble(why) => tell(News::Trouble(why.clone())),
        }
        *told = Some(now);
    }
    wait
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say, not even if it panicked: the lease ends by itself.
            let _ = thread.join();
        }
    }
}
