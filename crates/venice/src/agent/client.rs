//! A borrower's side of its agent's Unix socket: for a program that waits for what it asks.
//!
//! A loan that is dropped is given back; so are all when the connection ends, however it ends. A
//! thread reads what the agent says: answers go to who waits for them, events to
//! [`Client::events`].

use crate::loan::{LoanId, LoanKey};
use crate::resource::Share;
use crate::wire::{self, APART_MAX, LOCAL_MAX, Local, NotLent, Reason, SealedBy};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why nothing was borrowed.
#[derive(Debug, thiserror::Error)]
pub enum BorrowError {
    /// Nobody listens there.
    #[error(
        "{0}: the agent of this machine is not reached: {1}; is `rhythm venice agent` running?"
    )]
    NoAgent(PathBuf, io::Error),
    /// It is gone.
    #[error("the agent of this machine is gone")]
    Gone,
    /// It did not answer.
    #[error("the agent of this machine did not answer within {0:?}")]
    Late(Duration),
    /// Nothing is lent.
    #[error("nothing is lent: {0}")]
    NotLent(NotLent),
    /// It says something else.
    #[error("the agent of this machine answers what was not asked")]
    Unasked,
}

/// What happens to loans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A loan is over: its memory must not be used any more.
    Broken {
        /// Which.
        loan: LoanId,
        /// Why.
        why: Reason,
    },
    /// The donor wants a loan back, and takes it after a while.
    ReclaimWanted {
        /// Which.
        loan: LoanId,
        /// How long there is.
        within: Duration,
    },
    /// The agent is gone, and all loans are over soon.
    AgentGone,
}

/// A connection to the agent of this machine.
#[derive(Debug)]
pub struct Client {
    asker: Asker,
    events: Receiver<Event>,
    reader: Option<JoinHandle<()>>,
}

/// Asks the agent, from any thread, for as long as its [`Client`] is there.
#[derive(Clone, Debug)]
pub struct Asker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stream: Mutex<UnixStream>,
    waiting: Mutex<Waiting>,
}

/// Who waits for which answer; none any more once the agent is gone.
#[derive(Debug, Default)]
struct Waiting {
    borrowing: BTreeMap<u32, SyncSender<Local>>,
    /// With the numbers of who asks: answers bear that of the loan alone.
    renewing: BTreeMap<LoanId, Vec<(u32, SyncSender<Local>)>>,
    last: u32,
    is_gone: bool,
}

impl Waiting {
    fn number(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// Who asked for a loan waits no more.
    fn leave(&mut self, loan: LoanId, number: u32) {
        if let Some(renewing) = self.renewing.get_mut(&loan) {
            renewing.retain(|(other, _)| *other != number);
            if renewing.is_empty() {
                self.renewing.remove(&loan);
            }
        }
    }
}

/// What another machine lends, given back when this is dropped.
#[derive(Debug)]
pub struct Borrowed {
    /// Which loan it is.
    pub loan: LoanId,
    /// Of what, and how much.
    pub share: Share,
    /// What to show to the donor.
    pub key: LoanKey,
    /// Where it is.
    pub donor: SocketAddr,
    /// Where it speaks TLS: who it must be.
    pub sealed: Option<Box<SealedBy>>,
    shared: Arc<Shared>,
}

impl Client {
    /// Connects to the agent whose socket this is.
    ///
    /// # Errors
    /// It is not reached.
    pub fn connect(path: &Path) -> Result<Client, BorrowError> {
        let failed = |error| BorrowError::NoAgent(path.to_owned(), error);
        let stream = UnixStream::connect(path).map_err(failed)?;
        let reading = stream.try_clone().map_err(failed)?;
        let shared = Arc::new(Shared {
            stream: Mutex::new(stream),
            waiting: Mutex::default(),
        });
        let (to, events) = channel();
        let of_reader = Arc::clone(&shared);
        let reader = std::thread::Builder::new()
            .name("venice-client".to_owned())
            .spawn(move || {
                read(reading, &of_reader, &to);
                of_reader.gone();
                // Who does not listen need not know.
                let _ = to.send(Event::AgentGone);
            })
            .map_err(failed)?;
        Ok(Client {
            asker: Asker { shared },
            events,
            reader: Some(reader),
        })
    }

    /// As [`Asker::borrow`], of any donor.
    ///
    /// # Errors
    /// Nothing is lent, or nobody says so.
    pub fn borrow(&self, share: Share, patience: Duration) -> Result<Borrowed, BorrowError> {
        self.asker.borrow(share, &[], patience)
    }

    /// What asks from other threads.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// As [`Asker::renew`].
    ///
    /// # Errors
    /// Nobody says so.
    pub fn renew(&self, loan: LoanId, patience: Duration) -> Result<bool, BorrowError> {
        self.asker.renew(loan, patience)
    }

    /// What happens to loans, in order.
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }
}

impl Asker {
    /// Borrows so much, of another donor than these loans are, of which the first
    /// [`APART_MAX`] count. It waits for that at most so long.
    ///
    /// # Errors
    /// Nothing is lent, or nobody says so.
    pub fn borrow(
        &self,
        share: Share,
        apart: &[LoanId],
        patience: Duration,
    ) -> Result<Borrowed, BorrowError> {
        let apart = apart.iter().take(APART_MAX).copied().collect();
        let (to, answer) = sync_channel(1);
        let request = {
            let mut waiting = self.shared.waiting();
            if waiting.is_gone {
                return Err(BorrowError::Gone);
            }
            let request = waiting.number();
            waiting.borrowing.insert(request, to);
            request
        };
        self.shared.say(&Local::Borrow {
            request,
            share,
            apart,
        })?;
        let answer = match answer.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(_) => {
                let mut waiting = self.shared.waiting();
                if waiting.is_gone {
                    return Err(BorrowError::Gone);
                }
                // What comes later is given back at once.
                if waiting.borrowing.remove(&request).is_some() {
                    return Err(BorrowError::Late(patience));
                }
                // It came just now.
                answer.try_recv().map_err(|_| BorrowError::Late(patience))?
            }
        };
        match answer {
            Local::Lent {
                loan,
                share: lent,
                key,
                donor,
                sealed,
                ..
            } => {
                // What is not as it was wanted is given back at once.
                let borrowed = Borrowed {
                    loan,
                    share: lent,
                    key,
                    donor,
                    sealed,
                    shared: Arc::clone(&self.shared),
                };
                let is_wanted = lent == share;
                is_wanted.then_some(borrowed).ok_or(BorrowError::Unasked)
            }
            Local::NotLent { why, .. } => Err(BorrowError::NotLent(why)),
            _ => Err(BorrowError::Unasked),
        }
    }

    /// Whether a loan still stands, by what the agent knows.
    ///
    /// # Errors
    /// Nobody says so.
    pub fn renew(&self, loan: LoanId, patience: Duration) -> Result<bool, BorrowError> {
        let (to, answer) = sync_channel(1);
        let number = {
            let mut waiting = self.shared.waiting();
            if waiting.is_gone {
                return Err(BorrowError::Gone);
            }
            let number = waiting.number();
            let renewing = waiting.renewing.entry(loan).or_default();
            renewing.push((number, to));
            number
        };
        self.shared.say(&Local::Renew { loan })?;
        match answer.recv_timeout(patience) {
            Ok(Local::Stands { stands, .. }) => Ok(stands),
            Ok(_) => Err(BorrowError::Unasked),
            Err(_) => {
                let mut waiting = self.shared.waiting();
                waiting.leave(loan, number);
                match waiting.is_gone {
                    true => Err(BorrowError::Gone),
                    false => Err(BorrowError::Late(patience)),
                }
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Loans that are still there hold the other end; without an agent they are over.
        let _ = self.asker.shared.stream().shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // Where the agent is gone, so is the loan.
        let _ = self.shared.say(&Local::GiveBack { loan: self.loan });
    }
}

impl Shared {
    fn stream(&self) -> MutexGuard<'_, UnixStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, local: &Local) -> Result<(), BorrowError> {
        let mut bytes = Vec::new();
        wire::put(local, &mut bytes);
        let said = self.stream().write_all(&bytes);
        said.map_err(|_| BorrowError::Gone)
    }

    /// Nobody will answer any more.
    fn gone(&self) {
        let mut waiting = self.waiting();
        waiting.is_gone = true;
        waiting.borrowing.clear();
        waiting.renewing.clear();
    }
}

/// Reads what the agent says, until it says nothing more.
fn read(mut from: UnixStream, shared: &Shared, events: &Sender<Event>) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        loop {
            match wire::first::<Local>(&bytes, LOCAL_MAX) {
                Ok(Some((local, end))) => {
                    bytes.drain(..end);
                    heard(local, shared, events);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "what is at the agent's socket is none");
                    return;
                }
            }
        }
    }
}

fn heard(local: Local, shared: &Shared, events: &Sender<Event>) {
    // Events are for who listens.
    match local {
        Local::Broken { loan, why } => {
            let _ = events.send(Event::Broken { loan, why });
        }
        Local::ReclaimWanted { loan, within_ms } => {
            let within = Duration::from_millis(within_ms.into());
            let _ = events.send(Event::ReclaimWanted { loan, within });
        }
        Local::Stands { loan, .. } => {
            let waiting = shared.waiting().renewing.remove(&loan);
            for (_, to) in waiting.into_iter().flatten() {
                let _ = to.try_send(local.clone());
            }
        }
        Local::Lent { request, loan, .. } => {
            let to = shared.waiting().borrowing.remove(&request);
            if to.is_none_or(|to| to.try_send(local).is_err()) {
                // Nobody waits for it any more.
                let _ = shared.say(&Local::GiveBack { loan });
            }
        }
        Local::NotLent { request, .. } => {
            let to = shared.waiting().borrowing.remove(&request);
            let _ = to.map(|to| to.try_send(local));
        }
        // Nothing that an agent says.
        _ => tracing::warn!("the agent says what none says"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A client, and the agent's end of its connection.
    fn pair() -> (Client, UnixStream) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let client = Client::connect(&path).expect("it listens");
        let (agent, _) = listener.accept().expect("it connects");
        (client, agent)
    }

    /// What a client says next.
    fn said(agent: &mut UnixStream) -> Local {
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        loop {
            if let Some((local, _)) = wire::first(&bytes, LOCAL_MAX).expect("a message") {
                return local;
            }
            let read = agent.read(&mut part).expect("it is there");
            assert!(read > 0, "it ended");
            bytes.extend_from_slice(&part[..read]);
        }
    }

    #[test]
    fn who_waits_no_more_for_an_answer_leaves_nothing() {
        let (client, _silent) = pair();
        for _ in 0..3 {
            let renewed = client.renew(LoanId(7), Duration::from_millis(1));
            assert!(matches!(renewed, Err(BorrowError::Late(_))), "{renewed:?}");
        }
        assert!(client.asker.shared.waiting().renewing.is_empty());
    }

    #[test]
    fn what_is_lent_otherwise_than_it_was_wanted_is_given_back() {
        let (client, mut agent) = pair();
        let asker = client.asker();
        let borrower =
            std::thread::spawn(move || asker.borrow(Share::memory(4096), &[], PATIENCE).map(drop));
        let Local::Borrow { request, .. } = said(&mut agent) else {
            panic!("it borrows");
        };
        let loan = LoanId(7);
        let lent = Local::Lent {
            request,
            loan,
            share: Share::memory(8192),
            key: LoanKey([1; 32]),
            donor: ([127, 0, 0, 1], 1).into(),
            sealed: None,
        };
        let mut bytes = Vec::new();
        wire::put(&lent, &mut bytes);
        agent.write_all(&bytes).expect("it is there");
        let borrowed = borrower.join().expect("it is told");
        assert!(
            matches!(borrowed, Err(BorrowError::Unasked)),
            "{borrowed:?}"
        );
        assert_eq!(said(&mut agent), Local::GiveBack { loan });
    }
}
