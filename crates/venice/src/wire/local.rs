//! What borrowers and the agent of their machine say to each other, over its Unix socket.

use super::bytes::{Put, Taker};
use super::message::{APART_MAX, bounded};
use super::reason::{NotLent, Reason};
use crate::loan::{LoanId, LoanKey};
use crate::name::NodeName;
use crate::resource::Share;
use std::net::SocketAddr;

/// A donor that speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBy {
    /// Whose certificate it must show.
    pub node: NodeName,
    /// The folder of the borrower's own identity: the agent's.
    pub identity: String,
}

/// One message, either way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the docs of variants say what they are")]
pub enum Local {
    /// A borrower asks for so much; the number is its own. It is to be of another donor than these
    /// loans of its are, [`APART_MAX`] at most.
    Borrow {
        request: u32,
        share: Share,
        apart: Vec<LoanId>,
    },
    /// A borrower asks whether a loan still stands.
    Renew { loan: LoanId },
    /// A borrower needs a loan no more.
    GiveBack { loan: LoanId },
    /// It has a loan.
    Lent {
        request: u32,
        loan: LoanId,
        share: Share,
        key: LoanKey,
        donor: SocketAddr,
        sealed: Option<Box<SealedBy>>,
    },
    /// It has none.
    NotLent { request: u32, why: NotLent },
    /// Whether a loan stands.
    Stands { loan: LoanId, stands: bool },
    /// A loan is over.
    Broken { loan: LoanId, why: Reason },
    /// The donor takes a loan back after so many milliseconds.
    ReclaimWanted { loan: LoanId, within_ms: u32 },
}

impl Local {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let mut put = |kind: u8, loan: &LoanId| {
            out.push(kind);
            out.put_u64(loan.0);
        };
        match self {
            Local::Renew { loan } => put(2, loan),
            Local::GiveBack { loan } => put(3, loan),
            Local::Stands { loan, stands } => {
                put(6, loan);
                out.push(u8::from(*stands));
            }
            Local::Broken { loan, why } => {
                put(7, loan);
                why.put(out);
            }
            Local::ReclaimWanted { loan, within_ms } => {
                put(8, loan);
                out.put_u32(*within_ms);
            }
            Local::Lent {
                request,
                loan,
                share,
                key,
                donor,
                sealed,
            } => {
                put(4, loan);
                out.put_u32(*request);
                out.put_share(*share);
                out.extend_from_slice(&key.0);
                out.put_address(*donor);
                out.put_text(sealed.as_ref().map_or("", |by| by.node.as_str()));
                if let Some(by) = sealed {
                    out.put_text(&by.identity);
                }
            }
            Local::Borrow {
                request,
                share,
                apart,
            } => {
                out.push(1);
                out.put_u32(*request);
                out.put_share(*share);
                out.put_loans(apart);
            }
            Local::NotLent { request, why } => {
                out.push(5);
                out.put_u32(*request);
                why.put(out);
            }
        }
    }

    pub(super) fn take(bytes: &[u8]) -> Option<Local> {
        let mut taker = Taker(bytes);
        let from = &mut taker;
        let loan = |from: &mut Taker<'_>| from.u64().map(LoanId);
        let message = match from.u8()? {
            1 => Local::Borrow {
                request: from.u32()?,
                share: from.share()?,
                apart: bounded(from.list(8, Taker::loan)?, APART_MAX)?,
            },
            2 => Local::Renew { loan: loan(from)? },
            3 => Local::GiveBack { loan: loan(from)? },
            4 => Local::Lent {
                loan: loan(from)?,
                request: from.u32()?,
                share: from.share()?,
                key: LoanKey(from.array()?),
                donor: from.address()?,
                sealed: match from.name()? {
                    None => None,
                    Some(node) => Some(Box::new(SealedBy {
                        node,
                        identity: from.text()?.to_owned(),
                    })),
                },
            },
            5 => Local::NotLent {
                request: from.u32()?,
                why: NotLent::take(from)?,
            },
            6 => Local::Stands {
                loan: loan(from)?,
                stands: match from.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            },
            7 => Local::Broken {
                loan: loan(from)?,
                why: Reason::take(from)?,
            },
            8 => Local::ReclaimWanted {
                loan: loan(from)?,
                within_ms: from.u32()?,
            },
            _ => return None,
        };
        taker.0.is_empty().then_some(message)
    }
}
