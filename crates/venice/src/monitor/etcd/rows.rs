//! What stands in etcd, as text.

use crate::identity::Fingerprint;
use crate::loan::LoanId;
use crate::monitor::keeper::Kept;
use crate::name::NodeName;
use crate::resource::{Kind, Share};
use serde_json::{Value, json};
use std::fmt;
use std::net::SocketAddr;

/// The keys, under the prefix.
pub(super) const LEADER: &str = "leader";
pub(super) const HEAD: &str = "head";
pub(super) const LOANS: &str = "loans";

/// What agents show the monitors of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// A shared secret.
    Secret,
    /// Certificates of the authority with this fingerprint.
    Authority(Fingerprint),
}

impl fmt::Display for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trusted::Secret => f.write_str(SECRET),
            Trusted::Authority(authority) => authority.fmt(f),
        }
    }
}

/// What stands for a fingerprint where there is a secret.
const SECRET: &str = "a shared secret (--key-file)";

/// Where a monitor is: who leads says it to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where agents reach it.
    pub agents: SocketAddr,
    /// Where it tells of itself, if anywhere.
    pub admin: Option<SocketAddr>,
    /// What agents show it; not known of monitors that do not say it.
    pub trusted: Option<Trusted>,
}

impl Place {
    /// Whether agents of one can go to the other, as far as both say what these show.
    pub(super) fn is_spare_of(&self, other: &Place) -> bool {
        match (self.trusted, other.trusted) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        }
    }

    pub(super) fn text(&self) -> String {
        let admin = self.admin.map(|admin| admin.to_string());
        let trusted = self.trusted.map(|trusted| trusted.to_string());
        json!({ "agents": self.agents.to_string(), "admin": admin, "trusted": trusted }).to_string()
    }

    /// None: it was no monitor that wrote this.
    pub(super) fn read(text: &str) -> Option<Place> {
        let value: Value = serde_json::from_str(text).ok()?;
        let admin = value["admin"].as_str().and_then(|admin| admin.parse().ok());
        let trusted = value["trusted"].as_str().and_then(|trusted| match trusted {
            SECRET => Some(Trusted::Secret),
            authority => authority.parse().ok().map(Trusted::Authority),
        });
        Some(Place {
            agents: value["agents"].as_str()?.parse().ok()?,
            trusted,
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
    let (since, stands) = (kept.since, kept.stands);
    let Share { kind, amount } = kept.share;
    json!({
        "lender": lender, "borrower": borrower, "since": since, "stands": stands,
        "kind": kind.name(), (amount_of(kind)): amount,
    })
    .to_string()
}

/// What the amount of a kind is called.
fn amount_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Memory => "bytes",
        Kind::Fft | Kind::Aes | Kind::Device => "shares",
    }
}

pub(super) fn read(key: &str, row: &str) -> Option<Kept> {
    let number = key.strip_prefix(LOANS)?.strip_prefix('/')?;
    let value: Value = serde_json::from_str(row).ok()?;
    // A row without a kind is of a monitor that knew of memory alone.
    let kind = match value.get("kind") {
        Some(kind) => kind.as_str()?.parse().ok()?,
        None => Kind::Memory,
    };
    let name = |field: &str| value[field].as_str()?.parse::<NodeName>().ok();
    Some(Kept {
        loan: LoanId(number.parse().ok()?),
        lender: name("lender")?,
        borrower: name("borrower")?,
        share: Share {
            kind,
            amount: value[amount_of(kind)].as_u64()?,
        },
        since: value["since"].as_u64()?,
        stands: value["stands"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let kept = |share| Kept {
            loan: LoanId(7),
            lender: "a".parse().expect("a name"),
            borrower: "b".parse().expect("a name"),
            share,
            since: 1,
            stands: true,
        };
        for share in [
            Share::memory(u64::MAX),
            Share::of_one(Kind::Device, false),
            Share::of_one(Kind::Aes, true),
        ] {
            let kept = kept(share);
            assert_eq!(read(&key(kept.loan), &row(&kept)), Some(kept));
        }
        // As monitors wrote it that knew of memory alone.
        let older = r#"{"lender":"a","borrower":"b","bytes":5,"since":1,"stands":true}"#;
        let older = read("loans/7", older);
        assert_eq!(older, Some(kept(Share::memory(5))));
        assert!(key(LoanId(9)) < key(LoanId(10)) && key(LoanId(10)) < key(LoanId(u64::MAX)));
        let head = Head {
            turn: 3,
            last: u64::MAX,
        };
        assert_eq!(Head::read(&head.text()), Some(head));
        for admin in [None, Some(([127, 0, 0, 1], 2).into())] {
            let agents = ([10, 0, 0, 1], 1).into();
            let authority = Fingerprint::of(b"a certificate");
            for trusted in [
                None,
                Some(Trusted::Secret),
                Some(Trusted::Authority(authority)),
            ] {
                let place = Place {
                    agents,
                    admin,
                    trusted,
                };
                assert_eq!(Place::read(&place.text()), Some(place));
            }
        }
        for wrong in ["", "{}", "[]", "7", r#"{"turn":-1,"last":2}"#] {
            assert_eq!((Head::read(wrong), Place::read(wrong)), (None, None));
            assert_eq!(read("loans/1", wrong), None);
        }
    }
}
