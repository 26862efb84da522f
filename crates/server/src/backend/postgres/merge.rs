//! Queries of one call, asked as one: their values go as arrays, and the statement is executed for
//! each row of these.
//!
//! ```text
//!   select title from item where id = $1
//!
//!   select merged.of, s.* from unnest($1::pg_catalog.int8[]) with ordinality as merged(a1, of)
//!   cross join lateral (select title from item where id = merged.a1) as s
//! ```
//!
//! Each query has the rows that it has by itself, in the same order, whatever the server makes of
//! the join: rows of different queries may come in any order, and are told apart by `of`. The names
//! are others than any in the statement, which would mean what it has by them. The arrays are of
//! the types that the server has found the values to have; until it was asked for one query, and
//! where a type is none of those that every database has, queries are asked one by one.
//!
//! What fails as one is done twice, and what is late as one is late for all. So either has the next
//! cohorts asked one by one, the more of them the more often it fails: who sends values that are
//! wrong, or take long, costs others little. Nothing is
//! for ever: a statement that the server does not take as one now, since a table is not there, say,
//! is tried as one again, seldom; and where an answer was too long for so many, more and more go
//! together again as others are not.

use super::cells::{oid, write};
use crate::backend::pause::Pause;
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::{Form, Type};
use std::collections::HashMap;

/// Most queries that are asked as one.
const MERGED_MAX: usize = 64;

/// Most bytes of a statement that is merged: what its queries ask for is bounded together with it.
const STATEMENT_BYTES_MAX: usize = 8192;

/// What is known of statements that may be merged, by their forms.
#[derive(Debug, Default)]
pub(super) struct Merging {
    known: HashMap<Form, Known>,
    asked_last: u64,
}

/// So many are known at a time, more than a site has: those that its pages had before they were
/// changed are among them, and the one that was asked longest ago is forgotten for another.
const KNOWN_MAX: usize = 1024;

/// After so many good answers half as many again go together, up to the most.
const GOOD_ANSWERS: u32 = 64;

#[derive(Debug)]
struct Known {
    /// The statement for several queries; `None` where there is none.
    merged: Option<Form>,
    /// How many go as one: fewer where answers were too long.
    most: usize,
    /// How many were answered well since that was changed.
    good: u32,
    /// The log was told that the server does not take the statement.
    is_told: bool,
    /// When it was asked last, as a number that grows.
    asked: u64,
    /// The statement has changed since.
    is_old: bool,
    /// The cohorts that are asked one by one after failures.
    pause: Pause,
}

impl Merging {
    /// The statement for several queries of this form, where it is known.
    pub(super) fn form(&self, form: &Form) -> Option<&Form> {
        self.known.get(form)?.merged.as_ref()
    }

    /// How many queries of this form, of a cohort, go as one now; less than 2: none.
    pub(super) fn most(&mut self, form: &Form) -> usize {
        let Some(known) = self.known.get_mut(form) else {
            return 0;
        };
        self.asked_last += 1;
        known.asked = self.asked_last;
        if known.pause.leaves_out() {
            return 0;
        }
        match known.merged.is_some() && !known.is_old {
            true => known.most,
            false => 0,
        }
    }

    /// A statement's values have these types.
    pub(super) fn learn(&mut self, form: &Form, types: &[u32]) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(form) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.asked);
            let oldest = oldest.map(|(form, _)| form.clone());
            oldest.and_then(|form| self.known.remove(&form));
        }
        self.asked_last += 1;
        let asked = self.asked_last;
        match self.known.get_mut(form) {
            Some(known) if known.is_old => {
                // What is on its way still needs one.
                if let Some(merged) = merged(form, types) {
                    known.merged = Some(merged);
                    known.is_old = false;
                    known.pause = Pause::default();
                }
            }
            None => {
                let known = Known {
                    merged: merged(form, types),
                    most: MERGED_MAX,
                    good: 0,
                    is_told: false,
                    asked,
                    is_old: false,
                    pause: Pause::default(),
                };
                self.known.insert(form.clone(), known);
            }
            _ => {}
        }
    }

    /// What the statement is has changed: its values may have other types.
    pub(super) fn forget(&mut self, form: &Form) {
        if let Some(known) = self.known.get_mut(form) {
            known.is_old = true;
        }
    }

    /// Queries of this form were answered as one, or failed so, or were not answered in time.
    pub(super) fn answered(&mut self, form: &Form, is_well: bool) {
        if let Some(known) = self.known.get_mut(form) {
            match is_well {
                true => {
                    known.pause.went_well();
                    known.is_told = false;
                    known.good += 1;
                    if known.good >= GOOD_ANSWERS && known.most < MERGED_MAX {
                        known.most = (known.most + known.most.div_ceil(2)).min(MERGED_MAX);
                        known.good = 0;
                    }
                }
                false => known.pause.failed(),
            }
        }
    }

    /// The server does not take the statement for several queries of this form: it is left alone
    /// for long. Whether this is news.
    pub(super) fn refuse(&mut self, form: &Form) -> bool {
        let known = self.known.get_mut(form);
        known.is_some_and(|known| {
            known.pause.is_long();
            !std::mem::replace(&mut known.is_told, true)
        })
    }

    /// The answer to several queries of this form is too long: fewer go as one, but two.
    pub(super) fn too_long(&mut self, form: &Form) {
        if let Some(known) = self.known.get_mut(form) {
            known.most = (known.most / 2).max(2);
            known.good = 0;
            known.pause.failed();
        }
    }
}

/// The statement for several queries, whose arguments are arrays in text; `None` where there is no
/// value, or one of a type that has another name in each database.
fn merged(form: &Form, types: &[u32]) -> Option<Form> {
    let bytes: usize = form.pieces.iter().map(|piece| piece.len()).sum();
    if types.is_empty() || types.len() != form.arguments.len() || bytes > STATEMENT_BYTES_MAX {
        return None;
    }
    let names: Option<Vec<&str>> = types.iter().map(|kind| name_of(*kind)).collect();
    let names = names?;
    let alias = alias_for(form);
    let mut pieces: Vec<Box<[u8]>> = vec![
        format!("select {alias}.of, s.* from unnest(")
            .into_bytes()
            .into(),
    ];
    let (last, others) = names.split_last()?;
    for name in others {
        pieces.push(format!("::pg_catalog.{name}[], ").into_bytes().into());
    }
    let mut rest = format!("::pg_catalog.{last}[]) with ordinality as {alias}(").into_bytes();
    for number in 1..=types.len() {
        rest.extend_from_slice(format!("a{number}, ").as_bytes());
    }
    rest.extend_from_slice(b"of) cross join lateral (\n");
    for (number, piece) in form.pieces.iter().enumerate() {
        if number > 0 {
            rest.extend_from_slice(format!("{alias}.a{number}").as_bytes());
        }
        rest.extend_from_slice(piece);
    }
    // A part of a statement ends with no semicolon, and a comment may be the last of it.
    while let Some(b';' | b' ' | b'\t' | b'\r' | b'\n') = rest.last() {
        rest.pop();
    }
    rest.extend_from_slice(b"\n) as s");
    pieces.push(rest.into());
    Some(Form {
        pieces,
        arguments: vec![Type::Text; types.len()],
    })
}

/// A name that stands nowhere in a statement.
fn alias_for(form: &Form) -> String {
    let text = form.pieces.concat().to_ascii_lowercase();
    let mut names = (0..).map(|number| match number {
        0 => "merged".to_owned(),
        number => format!("merged{number}"),
    });
    let is_free = |name: &String| memchr::memmem::find(&text, name.as_bytes()).is_none();
    names.find(is_free).expect("names have no end")
}

/// The name of a type, of those that every database has.
fn name_of(kind: u32) -> Option<&'static str> {
    Some(match kind {
        oid::BOOL => "bool",
        oid::BYTEA => "bytea",
        oid::INT8 => "int8",
        oid::INT2 => "int2",
        oid::INT4 => "int4",
        25 => "text",
        oid::OID => "oid",
        oid::FLOAT4 => "float4",
        oid::FLOAT8 => "float8",
        1042 => "bpchar",
        1043 => "varchar",
        1082 => "date",
        1083 => "time",
        oid::TIMESTAMP => "timestamp",
        oid::TIMESTAMPTZ => "timestamptz",
        1186 => "interval",
        oid::NUMERIC => "numeric",
        2950 => "uuid",
        _ => return None,
    })
}

/// The array of one argument of several queries as a text: the `argument`th of each `width`.
pub(super) fn array(arguments: &[Argument<'_>], argument: usize, width: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (query, of_query) in arguments.chunks(width).enumerate() {
        if query > 0 {
            out.push(b',');
        }
        match of_query[argument] {
            Argument::Text(text) => {
                out.push(b'"');
                for &byte in text {
                    if matches!(byte, b'"' | b'\\') {
                        out.push(b'\\');
                    }
                    out.push(byte);
                }
                out.push(b'"');
            }
            value => write(value, out),
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sql::numbered;

    fn form(pieces: &[&str], kinds: &[Type]) -> Form {
        Form {
            pieces: pieces.iter().map(|piece| piece.as_bytes().into()).collect(),
            arguments: kinds.to_vec(),
        }
    }

    #[test]
    fn values_are_columns_of_what_the_statement_is_joined_with() {
        let one = form(
            &["select a from b where c = ", " and d < ", " -- \n; "],
            &[Type::Text, Type::Int],
        );
        let mut merging = Merging::default();
        assert_eq!(merging.most(&one), 0);
        merging.learn(&one, &[2950, oid::INT8]);
        let mut statement = Vec::new();
        numbered(&merging.form(&one).unwrap().pieces, b'$', &mut statement);
        assert_eq!(
            String::from_utf8(statement).unwrap(),
            "select merged.of, s.* from unnest($1::pg_catalog.uuid[], $2::pg_catalog.int8[]) \
             with ordinality as merged(a1, a2, of) cross join lateral (\n\
             select a from b where c = merged.a1 and d < merged.a2 --\n) as s"
        );
        // A type of the database's own, and no value at all.
        let (other, none) = (form(&["a ", ""], &[Type::Text]), form(&["a"], &[]));
        merging.learn(&other, &[70_000]);
        merging.learn(&none, &[]);
        assert_eq!([merging.most(&other), merging.most(&none)], [0; 2]);
        // A name that the statement has already.
        let named = form(
            &["select MERGED.x, merged1.y from b as Merged where c = ", ""],
            &[Type::Int],
        );
        assert_eq!(alias_for(&named), "merged2");
    }

    #[test]
    fn what_fails_as_one_is_asked_one_by_one_for_a_while() {
        let one = form(&["select ", ""], &[Type::Int]);
        let mut merging = Merging::default();
        merging.learn(&one, &[oid::INT8]);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            merging.answered(&one, false);
            let pause = (0..).find(|_| merging.most(&one) > 0);
            pauses.extend(pause);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 255, 255, 255, 255]);
        (0..300).for_each(|_| merging.answered(&one, true));
        merging.answered(&one, false);
        assert_eq!([merging.most(&one), merging.most(&one)], [0, MERGED_MAX]);
        merging.too_long(&one);
        let next = |merging: &mut Merging| {
            (0..).find_map(|_| match merging.most(&one) {
                0 => None,
                most => Some(most),
            })
        };
        assert_eq!(next(&mut merging), Some(MERGED_MAX / 2));
        (0..GOOD_ANSWERS).for_each(|_| merging.answered(&one, true));
        assert_eq!(next(&mut merging), Some(MERGED_MAX / 2 * 3 / 2));
        (0..9).for_each(|_| merging.too_long(&one));
        assert_eq!(next(&mut merging), Some(2));
        merging.forget(&one);
        assert_eq!(merging.most(&one), 0);
        merging.learn(&one, &[oid::INT4]);
        assert_eq!(merging.most(&one), 2);
        assert!(merging.refuse(&one) && !merging.refuse(&one));
        merging.answered(&one, false);
        assert_eq!((0..).find(|_| merging.most(&one) > 0), Some(255));
        // Another time that it is refused is news.
        merging.answered(&one, true);
        assert!(merging.refuse(&one));
        assert!(merging.form(&one).is_some(), "one may be on its way");
    }

    #[test]
    fn the_one_that_was_asked_longest_ago_is_forgotten_for_another() {
        let of = |number: usize| form(&[&format!("select {number}, "), ""], &[Type::Int]);
        let mut merging = Merging::default();
        for number in 0..KNOWN_MAX {
            merging.learn(&of(number), &[oid::INT8]);
        }
        assert_eq!(merging.most(&of(0)), MERGED_MAX);
        merging.learn(&of(KNOWN_MAX), &[oid::INT8]);
        let known = [0, 1, 2, KNOWN_MAX].map(|number| merging.form(&of(number)).is_some());
        assert_eq!(known, [true, false, true, true]);
    }

    #[test]
    fn arrays_are_texts_that_are_read_back() {
        let arguments = [
            Argument::Text(b"a\"b\\,{}"),
            Argument::Int(-7),
            Argument::Text(b""),
            Argument::Int(8),
            Argument::Text(b"null"),
            Argument::Int(0),
        ];
        let text = |argument: usize| {
            let mut out = Vec::new();
            array(&arguments, argument, 2, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0), r#"{"a\"b\\,{}","","null"}"#);
        assert_eq!(text(1), "{-7,8,0}");
    }
}
