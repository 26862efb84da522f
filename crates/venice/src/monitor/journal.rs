//! A monitor's journal as bytes: a record for each time that something was kept.
//!
//! ```text
//!   | magic 8 | salt 8 |  record: | magic 4 | length 4 | number 8 | checksum 8 | entries |  ...
//!                         the first: all there was; each next: what happened at one time
//! ```
//!
//! A record is synced before the next is written. So where the last one is not whole, nobody was
//! told of it, and it is cut off; where a good one follows, it was synced and is damaged now, and
//! the monitor does not start: what it would lend anew may be lent. The checksum is the beginning
//! of SHA-256 over the salt, the number and the entries, so that no name that a node chooses looks
//! like a record.

use super::keeper::{Kept, Record, State};
use crate::loan::LoanId;
use crate::resource::{Kind, Share};
use crate::wire::bytes::{Put, Taker};
use sha2::{Digest, Sha256};

const FILE_MAGIC: &[u8; 8] = b"RhyVenM1";
const RECORD_MAGIC: &[u8; 4] = b"RVr\n";
/// Bytes in front of the first record, and in front of a record's entries.
const FILE_HEAD: usize = 16;
const RECORD_HEAD: usize = 24;
/// The entries of the first record begin with the last loan's number.
const BASE: u8 = 0;
const BEGUN: u8 = 1;
const STANDS: u8 = 2;
const GONE: u8 = 3;
/// As [`BEGUN`], which is of memory, of what a share says.
const BEGUN_OF: u8 = 4;

/// A journal that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the journal is damaged at byte {at}, before its end: what was lent is not known any more. \
     Where all agents of this monitor are stopped, nothing is lent, and the folder can be removed"
)]
pub struct Damaged {
    /// Where.
    pub at: u64,
}

/// Where a journal ends, and what its next record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    salt: u64,
    number: u64,
    /// Where the next record goes, in bytes.
    pub(super) end: u64,
}

/// A new journal, in which all of this is.
pub(super) fn begin(state: &State, salt: u64) -> (Vec<u8>, Tail) {
    let mut entries = vec![BASE];
    entries.put_u64(state.last);
    state
        .loans
        .values()
        .for_each(|kept| put_kept(&mut entries, kept));
    let mut out = FILE_MAGIC.to_vec();
    out.put_u64(salt);
    let mut tail = Tail {
        salt,
        number: 0,
        end: FILE_HEAD as u64,
    };
    out.extend(tail.frame(&entries));
    tail.advance(out.len() - FILE_HEAD);
    (out, tail)
}

impl Tail {
    /// A record of what happened.
    pub(super) fn record(&self, records: &[Record]) -> Vec<u8> {
        let mut entries = Vec::new();
        for record in records {
            match record {
                Record::Begun(kept) => put_kept(&mut entries, kept),
                Record::Stands(loan) => put_loan(&mut entries, STANDS, *loan),
                Record::Gone(loan) => put_loan(&mut entries, GONE, *loan),
            }
        }
        self.frame(&entries)
    }

    /// A record of so many bytes is there.
    pub(super) fn advance(&mut self, length: usize) {
        self.number += 1;
        self.end += length as u64;
    }

    fn frame(&self, entries: &[u8]) -> Vec<u8> {
        let mut out = RECORD_MAGIC.to_vec();
        out.put_u32(entries.len() as u32);
        out.put_u64(self.number);
        out.put_u64(sum(self.salt, self.number, entries));
        debug_assert_eq!(out.len(), RECORD_HEAD);
        out.extend_from_slice(entries);
        out
    }

    /// A good record that these bytes begin with: its number, its entries, what follows.
    fn any<'a>(&self, bytes: &'a [u8]) -> Option<(u64, &'a [u8], &'a [u8])> {
        let mut taker = Taker(bytes);
        if taker.slice(RECORD_MAGIC.len())? != RECORD_MAGIC {
            return None;
        }
        let (length, number, told) = (taker.u32()?, taker.u64()?, taker.u64()?);
        let entries = taker.slice(length as usize)?;
        (sum(self.salt, number, entries) == told).then_some((number, entries, taker.0))
    }
}

fn sum(salt: u64, number: u64, entries: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(salt.to_le_bytes());
    hash.update(number.to_le_bytes());
    hash.update(entries);
    let hash: [u8; 32] = hash.finalize().into();
    Taker(&hash).u64().unwrap_or_default()
}

/// What is in a journal, and where it ends; what is behind that is to be cut off.
pub(super) fn read(bytes: &[u8]) -> Result<(State, Tail), Damaged> {
    let mut taker = Taker(bytes);
    let salt = (taker.slice(FILE_MAGIC.len()))
        .filter(|magic| magic == FILE_MAGIC)
        .and_then(|_| taker.u64())
        .ok_or(Damaged { at: 0 })?;
    let mut tail = Tail {
        salt,
        number: 0,
        end: FILE_HEAD as u64,
    };
    let mut state = State::default();
    let mut rest = taker.0;
    while let Some((_, entries, behind)) = tail.any(rest).filter(|next| next.0 == tail.number) {
        take(&mut state, entries, tail.number == 0).ok_or(Damaged { at: tail.end })?;
        tail.advance(rest.len() - behind.len());
        rest = behind;
    }
    // The first, which took its place in one step, is always whole.
    let is_later = |at: usize| {
        tail.any(&rest[at..])
            .is_some_and(|(number, ..)| number > tail.number)
    };
    if tail.number == 0 || (0..rest.len()).any(is_later) {
        return Err(Damaged { at: tail.end });
    }
    Ok((state, tail))
}

/// Takes in the entries of a record; nothing: they cannot have been written so.
fn take(state: &mut State, entries: &[u8], is_first: bool) -> Option<()> {
    let mut taker = Taker(entries);
    if is_first {
        let last = (taker.u8()? == BASE).then(|| taker.u64())??;
        while !taker.0.is_empty() {
            let entry = taker.u8()?;
            let kept = take_kept(&mut taker, entry)?;
            state.loans.insert(kept.loan, kept);
        }
        state.last = last;
        return Some(());
    }
    while !taker.0.is_empty() {
        let record = match taker.u8()? {
            entry @ (BEGUN | BEGUN_OF) => Record::Begun(take_kept(&mut taker, entry)?),
            STANDS => Record::Stands(LoanId(taker.u64()?)),
            GONE => Record::Gone(LoanId(taker.u64()?)),
            _ => return None,
        };
        state.take(&record).then_some(())?;
    }
    Some(())
}

fn put_loan(out: &mut Vec<u8>, kind: u8, loan: LoanId) {
    out.push(kind);
    out.put_u64(loan.0);
}

fn put_kept(out: &mut Vec<u8>, kept: &Kept) {
    // As it ever was where memory is lent: what an older monitor wrote is read.
    let entry = match kept.share.kind {
        Kind::Memory => BEGUN,
        _ => BEGUN_OF,
    };
    put_loan(out, entry, kept.loan);
    out.put_text(kept.lender.as_str());
    out.put_text(kept.borrower.as_str());
    match kept.share.kind {
        Kind::Memory => out.put_u64(kept.share.amount),
        _ => out.put_share(kept.share),
    }
    out.put_u64(kept.since);
    out.push(u8::from(kept.stands));
}

fn take_kept(taker: &mut Taker<'_>, entry: u8) -> Option<Kept> {
    Some(Kept {
        loan: LoanId(taker.u64()?),
        lender: taker.text()?.parse().ok()?,
        borrower: taker.text()?.parse().ok()?,
        share: match entry {
            BEGUN => Share::memory(taker.u64()?),
            BEGUN_OF => taker.share()?,
            _ => return None,
        },
        since: taker.u64()?,
        stands: taker.u8()? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(loan: u64) -> Record {
        Record::Begun(Kept {
            loan: LoanId(loan),
            lender: "a".parse().expect("a name"),
            borrower: "b".parse().expect("a name"),
            // Each entry as it is of its kind.
            share: match loan % 2 {
                0 => Share::memory(4096),
                _ => Share::of_one(Kind::Fft, true),
            },
            since: 7,
            stands: false,
        })
    }

    /// A journal of three records behind the first, where these begin, and the states after each.
    fn journal() -> (Vec<u8>, Vec<usize>, Vec<State>) {
        let mut state = State {
            last: 3,
            ..State::default()
        };
        let (mut bytes, mut tail) = begin(&state, 99);
        let (mut starts, mut states) = (Vec::new(), vec![state.clone()]);
        for records in [
            vec![begun(4), begun(5)],
            vec![Record::Stands(LoanId(5)), Record::Gone(LoanId(4))],
            vec![begun(6)],
        ] {
            starts.push(bytes.len());
            let record = tail.record(&records);
            tail.advance(record.len());
            bytes.extend(record);
            assert!(records.iter().all(|record| state.take(record)));
            states.push(state.clone());
        }
        starts.push(bytes.len());
        (bytes, starts, states)
    }

    #[test]
    fn a_torn_end_is_cut_wherever_it_is_torn() {
        let (bytes, starts, states) = journal();
        for end in starts[0]..=bytes.len() {
            let whole = starts
                .iter()
                .rposition(|start| *start <= end)
                .expect("the first");
            let (state, tail) = read(&bytes[..end]).expect("a torn end is no damage");
            assert_eq!((&state, tail.end), (&states[whole], starts[whole] as u64));
        }
    }

    #[test]
    fn damage_before_the_end_is_refused_wherever_it_is() {
        let (bytes, starts, states) = journal();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let read = read(&damaged);
            if at < starts[2] {
                assert!(read.is_err(), "byte {at}");
            } else {
                // The last record damaged looks like one that was not written whole.
                let (state, _) = read.expect("a torn end");
                assert_eq!(state, states[2]);
            }
        }
    }

    #[test]
    fn a_journal_that_is_begun_anew_has_all_that_was() {
        let (_, _, states) = journal();
        let last = states.last().expect("there are some");
        let (bytes, tail) = begin(last, 5);
        assert_eq!(read(&bytes), Ok((last.clone(), tail)));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn what_cannot_have_happened_is_damage() {
        let (bytes, mut tail) = begin(&State::default(), 1);
        for records in [[Record::Gone(LoanId(1))], [Record::Stands(LoanId(1))]] {
            let mut bytes = bytes.clone();
            bytes.extend(tail.record(&records));
            assert!(read(&bytes).is_err());
        }
        // The same number twice.
        let mut bytes = bytes.clone();
        for _ in 0..2 {
            let record = tail.record(&[begun(1)]);
            tail.advance(record.len());
            bytes.extend(record);
        }
        assert!(read(&bytes).is_err());
    }
}
