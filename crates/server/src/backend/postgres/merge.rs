//! Queries of one call, asked as one: their values go as arrays, and the statement is executed for
//! each row of these.
//!
//! ```text
//!   select title from item where id = $1
//!
//!   select m.n, s.* from unnest($1::pg_catalog.int8[]) with ordinality as m(a1, n)
//!   cross join lateral (select title from item where id = m.a1) as s
//! ```
//!
//! Each query has the rows that it has by itself, in the same order, whatever the server makes of
//! the join: rows of different queries may come in any order, and are told apart by `n`. The arrays
//! are of the types that the server has found the values to have; until it was asked for one query,
//! and where a type is none of those that every database has, queries are asked one by one.

use super::cells::{oid, write};
use rhythm_engine::cohort::Argument;
use rhythm_engine::program::{Form, Type};
use std::collections::HashMap;

/// What is known of statements that may be merged, by their forms.
#[derive(Debug, Default)]
pub(super) struct Merging {
    known: HashMap<Form, Known>,
}

/// So many are known at a time, more than a site has; beyond, others are asked one by one.
const KNOWN_MAX: usize = 1024;

#[derive(Debug)]
struct Known {
    /// The statement for several queries; `None` where there is none.
    merged: Option<Form>,
    /// The server does not take it.
    is_refused: bool,
}

impl Merging {
    /// The statement for several queries of this form, where it is known.
    pub(super) fn form(&self, form: &Form) -> Option<&Form> {
        self.known.get(form)?.merged.as_ref()
    }

    /// Whether queries of this form can be asked as one.
    pub(super) fn merges(&self, form: &Form) -> bool {
        let known = self.known.get(form);
        known.is_some_and(|known| known.merged.is_some() && !known.is_refused)
    }

    /// A statement's values have these types.
    pub(super) fn learn(&mut self, form: &Form, types: &[u32]) {
        if self.known.len() < KNOWN_MAX && !self.known.contains_key(form) {
            let merged = merged(form, types);
            let known = Known {
                merged,
                is_refused: false,
            };
            self.known.insert(form.clone(), known);
        }
    }

    /// The server does not take the statement for several queries of this form, or its answers are
    /// too long. Whether this is news.
    pub(super) fn refuse(&mut self, form: &Form) -> bool {
        let known = self.known.get_mut(form);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_refused, true))
    }
}

/// The statement for several queries, whose arguments are arrays in text; `None` where there is no
/// value, or one of a type that has another name in each database.
fn merged(form: &Form, types: &[u32]) -> Option<Form> {
    if types.is_empty() || types.len() != form.arguments.len() {
        return None;
    }
    let names: Option<Vec<&str>> = types.iter().map(|kind| name_of(*kind)).collect();
    let names = names?;
    let mut pieces: Vec<Box<[u8]>> = vec![(*b"select m.n, s.* from unnest(").into()];
    let (last, others) = names.split_last()?;
    pieces.extend(
        others
            .iter()
            .map(|name| format!("::pg_catalog.{name}[], ").into_bytes().into()),
    );
    let mut rest = format!("::pg_catalog.{last}[]) with ordinality as m(").into_bytes();
    for number in 1..=types.len() {
        rest.extend_from_slice(format!("a{number}, ").as_bytes());
    }
    rest.extend_from_slice(b"n) cross join lateral (\n");
    for (number, piece) in form.pieces.iter().enumerate() {
        if number > 0 {
            rest.extend_from_slice(format!("m.a{number}").as_bytes());
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
        assert!(!merging.merges(&one));
        merging.learn(&one, &[2950, oid::INT8]);
        let mut statement = Vec::new();
        numbered(&merging.form(&one).unwrap().pieces, b'$', &mut statement);
        assert_eq!(
            String::from_utf8(statement).unwrap(),
            "select m.n, s.* from unnest($1::pg_catalog.uuid[], $2::pg_catalog.int8[]) with \
             ordinality as m(a1, a2, n) cross join lateral (\n\
             select a from b where c = m.a1 and d < m.a2 --\n) as s"
        );
        assert!(merging.merges(&one));
        assert!(merging.refuse(&one) && !merging.refuse(&one));
        assert!(!merging.merges(&one) && merging.form(&one).is_some());
        // A type of the database's own, and no value at all.
        let (other, none) = (form(&["a ", ""], &[Type::Text]), form(&["a"], &[]));
        merging.learn(&other, &[70_000]);
        merging.learn(&none, &[]);
        assert!(!merging.merges(&other) && !merging.merges(&none));
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
