//! Sessions that several machines share (`store` of `[session]`).
//!
//! - The session array stays what it is, and is a cache of the store: what began at another machine
//!   is adopted there under its secret (`engine/session/shared.rs`).
//! - Who is not in the array, or was not confirmed within `store_refresh`, is asked for by the
//!   first stage of his page, which is a call as any other (`engine/compile/shared_sessions.rs`):
//!   a cohort's in one batch, with its deadline, circuit, retries and stragglers.
//! - An answer that begins, changes or ends a session is held until the store has it
//!   (`answer/held.rs`, `flight/telling.rs`), or another is given in its place.
//! - Whoever the store cannot be asked about is answered 502, 503 or 504, as nobody neither: a page
//!   that does not know its visitor is wrong, whether it needs one or not.
//! - The store has no id: a key is a seal of its secret half, and a record is sealed for it, so
//!   that who reads the store is nobody by that, and who writes to it cannot make a session.
//! - A session ends by the store's time to live, which each confirmation extends. Of a change and
//!   an end at once the end stays: changes are made to what is there alone.
//!
//! ```text
//!   session:KEY -> 1&USER&name=Ann&level=3&SEAL
//! ```

use crate::seal::{Purpose, Sealer, is_same};
use rhythm_engine::session::{SessionId, StoredFields};

/// Digits of a seal.
const DIGITS: usize = 32;

/// What records of this form begin with.
const VERSION: &[u8] = b"1&";

/// A key of the store.
pub(crate) type StoreKey = [u8; DIGITS];

/// The id without its slot, which is another on each machine.
fn without_slot(id: &SessionId) -> SessionId {
    SessionId::new(0, id.secret())
}

fn digits(seal: u128) -> StoreKey {
    let mut digits = [0; DIGITS];
    for (at, digit) in digits.iter_mut().enumerate() {
        let nibble = (seal >> (4 * (DIGITS - 1 - at))) as usize & 15;
        *digit = b"0123456789abcdef"[nibble];
    }
    digits
}

/// Where a session is in the store.
pub(crate) fn key(sealer: &Sealer, id: &SessionId) -> StoreKey {
    digits(sealer.seal(Purpose::Key, &without_slot(id), b""))
}

/// What is there of a user's session that keeps these words.
pub(crate) fn write(
    sealer: &Sealer,
    id: &SessionId,
    user: i64,
    stored: &StoredFields,
    words: &[u64],
) -> Vec<u8> {
    let mut record = VERSION.to_vec();
    record.extend_from_slice(user.to_string().as_bytes());
    stored.write_form(words, &mut record);
    let seal = sealer.seal(Purpose::Record, &without_slot(id), &record);
    record.push(b'&');
    record.extend_from_slice(&digits(seal));
    record
}

/// Reads it: whose the session is, and into words what it keeps. `None` where it is no record that
/// was written for this session.
pub(crate) fn read(
    sealer: &Sealer,
    id: &SessionId,
    record: &[u8],
    stored: &StoredFields,
    words: &mut Vec<u64>,
) -> Option<i64> {
    let (record, seal) = record.split_last_chunk::<DIGITS>()?;
    let record = record.strip_suffix(b"&")?;
    let seal = std::str::from_utf8(seal).ok()?;
    let seal = u128::from_str_radix(seal, 16).ok()?;
    if !is_same(
        seal,
        sealer.seal(Purpose::Record, &without_slot(id), record),
    ) {
        return None;
    }
    let rest = record.strip_prefix(VERSION)?;
    let end = memchr::memchr(b'&', rest).unwrap_or(rest.len());
    let (user, form) = rest.split_at(end);
    let user = std::str::from_utf8(user).ok()?.parse().ok()?;
    stored.read_form(form, words);
    (user != 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhythm_engine::settings::{StoredField, StoredKind};

    fn fields(declared: &[(&str, StoredKind)]) -> StoredFields {
        let field = |(name, kind): &(&str, StoredKind)| StoredField {
            name: (*name).to_owned(),
            kind: *kind,
        };
        StoredFields::new(declared.iter().map(field).collect(), 1)
    }

    fn ours() -> StoredFields {
        fields(&[
            ("admin", StoredKind::Bool),
            ("level", StoredKind::Int),
            ("name", StoredKind::Text(40)),
        ])
    }

    fn words_of(stored: &StoredFields, values: &[(usize, &str)]) -> Vec<u64> {
        let (mut words, mut changes) = (Vec::new(), Vec::new());
        stored.clear(&mut words);
        for (field, value) in values {
            let fits = stored.change(*field, value.as_bytes(), &mut changes);
            assert_eq!(fits, Ok(()));
        }
        StoredFields::apply(&changes, &mut words);
        words
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_is(
            user in 1..i64::MAX, level: i64, name in ".{0,10}", secret: u128, other: Vec<u8>,
            at: prop::sample::Index, bit in 0..8u8,
        ) {
            let (sealer, stored) = (Sealer::new(7), ours());
            let id = SessionId::new(3, secret);
            let level = level.to_string();
            let words = words_of(&stored, &[(0, "1"), (1, &level), (2, &name)]);
            let mut record = write(&sealer, &id, user, &stored, &words);
            let mut seen = Vec::new();
            let mut read = |id: &SessionId, record: &[u8]| {
                read(&sealer, id, record, &stored, &mut seen).map(|user| (user, seen.clone()))
            };
            let elsewhere = SessionId::new(4, secret);
            prop_assert_eq!(read(&elsewhere, &record), Some((user, words)));
            prop_assert_eq!(read(&SessionId::new(3, secret ^ 1), &record), None);
            prop_assert_eq!(read(&id, &other), None);
            prop_assert_eq!(read(&id, &record[..at.index(record.len())]), None);
            let at = at.index(record.len());
            record[at] ^= 1_u8 << bit;
            // Digits of the seal may be capitals.
            if !record[at].is_ascii_uppercase() {
                prop_assert_eq!(read(&id, &record), None);
            }
        }
    }

    #[test]
    fn other_machines_may_have_other_fields() {
        let (sealer, stored, id) = (Sealer::new(7), ours(), SessionId::new(3, 9));
        let words = words_of(&stored, &[(0, "1"), (1, "-5"), (2, "a=&\0\u{e9}")]);
        let record = write(&sealer, &id, 42, &stored, &words);
        let others = fields(&[
            ("level", StoredKind::Text(1)),
            ("name", StoredKind::Text(40)),
            ("new", StoredKind::Int),
        ]);
        let mut seen = Vec::new();
        assert_eq!(read(&sealer, &id, &record, &others, &mut seen), Some(42));
        assert_eq!(seen, words_of(&others, &[(1, "a=&\0\u{e9}")]));
        assert_eq!(
            read(&Sealer::new(8), &id, &record, &others, &mut seen),
            None
        );
    }

    #[test]
    fn a_key_is_of_the_secret_and_does_not_tell_it() {
        let sealer = Sealer::new(7);
        let [one, elsewhere, other] =
            [(1, 5), (2, 5), (1, 6)].map(|(slot, secret)| SessionId::new(slot, secret));
        assert_eq!(key(&sealer, &one), key(&sealer, &elsewhere));
        assert_ne!(key(&sealer, &one), key(&sealer, &other));
        assert_ne!(key(&sealer, &one), key(&Sealer::new(8), &one));
        assert!(!one.to_text().ends_with(&key(&sealer, &one)));
    }
}
