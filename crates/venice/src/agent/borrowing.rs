//! What borrowers of this machine want and have.

use crate::loan::LoanId;
use crate::resource::Share;
use crate::wire::NODE_LOANS_MAX;
use rhythm_net::Time;
use std::collections::BTreeMap;

/// What one borrower may want at a time.
const REQUESTS_MAX: usize = 16;
/// Borrowers at a time.
pub(super) const CLIENTS_MAX: usize = 1024;

/// What a borrower waits for.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) client: u64,
    /// The borrower's number for it.
    pub(super) number: u32,
    pub(super) share: Share,
    /// Loans whose donors are not to lend it.
    pub(super) apart: Vec<LoanId>,
    /// Until when it waits.
    pub(super) until: Time,
}

/// A loan of this machine's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Borrowed {
    pub(super) client: u64,
    pub(super) share: Share,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Borrowing {
    /// By number, which is told to the monitor.
    requests: BTreeMap<u64, Request>,
    loans: BTreeMap<LoanId, Borrowed>,
    last: u64,
}

impl Borrowing {
    /// A borrower wants something: its number, or nothing where there is too much already.
    pub(super) fn want(&mut self, request: Request) -> Option<u64> {
        let same = self.requests.values();
        let same = same.filter(|other| other.client == request.client).count();
        let all = self.requests.len() + self.loans.len();
        if same >= REQUESTS_MAX || all >= NODE_LOANS_MAX {
            return None;
        }
        self.last += 1;
        self.requests.insert(self.last, request);
        Some(self.last)
    }

    /// What is waited for, answered.
    pub(super) fn answered(&mut self, number: u64) -> Option<Request> {
        self.requests.remove(&number)
    }

    /// All that is waited for.
    pub(super) fn requests(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.requests
            .iter()
            .map(|(number, request)| (*number, request))
    }

    /// What was waited for too long.
    pub(super) fn take_late(&mut self, now: Time) -> Vec<Request> {
        let late = self
            .requests
            .iter()
            .filter(|(_, request)| request.until <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        let late = late.into_iter();
        late.filter_map(|number| self.requests.remove(&number))
            .collect()
    }

    pub(super) fn has(&mut self, id: LoanId, borrowed: Borrowed) {
        self.loans.insert(id, borrowed);
    }

    /// Whose loan it is.
    pub(super) fn client_of(&self, id: LoanId) -> Option<u64> {
        self.loans.get(&id).map(|loan| loan.client)
    }

    /// It is over.
    pub(super) fn ended(&mut self, id: LoanId) -> Option<Borrowed> {
        self.loans.remove(&id)
    }

    /// A borrower is gone: the loans that it had.
    pub(super) fn gone(&mut self, client: u64) -> Vec<LoanId> {
        self.requests.retain(|_, request| request.client != client);
        let loans = self.loans.iter().filter(|(_, loan)| loan.client == client);
        let loans: Vec<LoanId> = loans.map(|(id, _)| *id).collect();
        for id in &loans {
            self.loans.remove(id);
        }
        loans
    }

    /// All loans.
    pub(super) fn loans(&self) -> impl Iterator<Item = (LoanId, Share)> {
        self.loans.iter().map(|(id, loan)| (*id, loan.share))
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        self.requests.values().map(|request| request.until).min()
    }
}
