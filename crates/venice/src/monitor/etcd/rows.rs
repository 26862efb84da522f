//! What stands in etcd, as text.

use crate::loan::LoanId;
use crate::monitor::keeper::Kept;
use crate::name::NodeName;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The keys, under the prefix.
pub(super) const LEADER: &str = "leader";
pub(super) const HEAD: &str = "head";
pub(super) const LOANS: &str = "loans";

/// Where a monitor is: who leads says it to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where agents reach it.
    pub agents: SocketAddr,
    /// Where it tells of itself, if anywhere.
    pub admin: Option<SocketAddr>,
}

impl Place {
    pub(super) fn text(&self) -> String {
        let admin = self.admin.map(|admin| admin.to_string());
        json!({ "agents": self.agents.to_string(), "admin": admin }).to_string()
    }

    /// None: it was no monitor that wrote this.
    pub(super) fn read(text: &str) -> Option<Place> {
        let value: Value = serde_json::from_str(text).ok()?;
        let admin = value["admin"].as_str().and_then(|admin| admin.parse().ok());
        Some(Place {
            agents: value["agents"].as_str()?.parse().ok()?,
            admin,
        })
    }
}

/// How often something was kept, and the number of the last loan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) turn: u64,
    pub(super) last: u64,
}

impl Head {
    pub(super) fn text(self) -> String {
        json!({ "turn": self.turn, "last": self.last }).to_string()
    }

    pub(super) fn read(text: &str) -> Option<Head> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Head {
            turn: value["turn"].as_u64()?,
            last: value["last"].as_u64()?,
        })
    }
}

/// The key of a loan; by which they are in the order of their numbers.
pub(super) fn key(loan: LoanId) -> String {
    format!("{}/{:020}", LOANS, loan.0)
}

/// A loan, without its number.
pub(super) fn row(kept: &Kept) -> String {
    let (lender, borrower) = (kept.lender.as_str(), kept.borrower.as_str());
    let (bytes, since, stands) = (kept.bytes, kept.since, kept.stands);
    json!({
        "lender": lender, "borrower": borrower, "bytes": bytes, "since": since, "stands": stands,
    })
    .to_string()
}

pub(super) fn read(key: &str, row: &str) -> Option<Kept> {
    let number = key.strip_prefix(LOANS)?.strip_prefix('/')?;
    let value: Value = serde_json::from_str(row).ok()?;
    let name = |field: &str| value[field].as_str()?.parse::<NodeName>().ok();
    Some(Kept {
        loan: LoanId(number.parse().ok()?),
        lender: name("lender")?,
        borrower: name("borrower")?,
        bytes: value["bytes"].as_u64()?,
        since: value["since"].as_u64()?,
        stands: value["stands"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let kept = Kept {
            loan: LoanId(7),
            lender: "a".parse().expect("a name"),
            borrower: "b".parse().expect("a name"),
            bytes: u64::MAX,
            since: 1,
            stands: true,
        };
        assert_eq!(read(&key(kept.loan), &row(&kept)), Some(kept));
        assert!(key(LoanId(9)) < key(LoanId(10)) && key(LoanId(10)) < key(LoanId(u64::MAX)));
        let head = Head {
            turn: 3,
            last: u64::MAX,
        };
        assert_eq!(Head::read(&head.text()), Some(head));
        for admin in [None, Some(([127, 0, 0, 1], 2).into())] {
            let agents = ([10, 0, 0, 1], 1).into();
            let place = Place { agents, admin };
            assert_eq!(Place::read(&place.text()), Some(place));
        }
        for wrong in ["", "{}", "[]", "7", r#"{"turn":-1,"last":2}"#] {
            assert_eq!((Head::read(wrong), Place::read(wrong)), (None, None));
            assert_eq!(read("loans/1", wrong), None);
        }
    }
}
