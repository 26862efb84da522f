//! What the queries of a form ask BeSim: the command and where its arguments come from, found
//! once for all of them, so that no text is made of a query and read again.

use rhythm_besim::{ARGUMENTS_MAX, Argument, Query};
use rhythm_engine::cohort::{self, Queries};
use rhythm_engine::program::{Form, Type};

/// Where a part of a query comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source<'f> {
    /// The form has it.
    Literal(&'f [u8]),
    /// It is this argument of the query.
    Argument(usize),
}

/// What queries of a form ask.
#[derive(Debug)]
pub(super) struct QueryPlan<'f> {
    command: u32,
    parts: [Source<'f>; ARGUMENTS_MAX],
    count: usize,
}

impl<'f> QueryPlan<'f> {
    /// What all queries of this form ask. `None` where they do not ask for one command, an
    /// argument is put together of several parts, or is of a type that BeSim has no other form for
    /// than text.
    pub(super) fn of(form: &'f Form) -> Option<QueryPlan<'f>> {
        let is_known = |kind: &Type| matches!(kind, Type::Int | Type::Text);
        if !form.arguments.iter().all(is_known) {
            return None;
        }
        // Workload and command come before the arguments.
        let mut parts = [Source::Literal(b""); ARGUMENTS_MAX + 2];
        let mut last = 0;
        for (index, piece) in form.pieces.iter().enumerate() {
            let nothing = Source::Literal(b"");
            if let Some(argument) = index.checked_sub(1) {
                (parts[last] == nothing).then_some(())?;
                parts[last] = Source::Argument(argument);
            }
            for (at, literal) in piece.split(|byte| *byte == b'&').enumerate() {
                if at > 0 {
                    last += 1;
                }
                let part = parts.get_mut(last)?;
                if !literal.is_empty() {
                    (*part == nothing).then_some(())?;
                    *part = Source::Literal(literal);
                }
            }
        }
        match parts {
            [Source::Literal(b"1"), Source::Literal(command), parts @ ..] if last > 0 => {
                Some(QueryPlan {
                    command: Query::command_named(command)?,
                    parts,
                    count: last - 1,
                })
            }
            _ => None,
        }
    }

    /// What a query asks.
    #[inline]
    pub(super) fn query<'a>(&self, queries: &'a Queries, query: usize) -> Query<'a>
    where
        'f: 'a,
    {
        let arguments = self.parts[..self.count].iter().map(|part| match *part {
            Source::Literal(text) => Argument::Encoded(text),
            Source::Argument(argument) => match queries.argument(query, argument) {
                cohort::Argument::Text(text) => Argument::Text(text),
                cohort::Argument::Int(value) => Argument::Int(value),
                other => unreachable!("a query plan has no arguments such as {other:?}"),
            },
        });
        Query::new(self.command, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_command_have_a_plan() {
        let form = |pieces: &[&str]| Form {
            pieces: pieces.iter().map(|piece| piece.as_bytes().into()).collect(),
            arguments: vec![Type::Int; pieces.len() - 1],
        };
        let plan = form(&["1&12&", "&", "&2026-01-15&&", ""]);
        let plan = QueryPlan::of(&plan).unwrap();
        assert_eq!((plan.command, plan.count), (12, 5));
        let [one, two] = [0, 1].map(Source::Argument);
        let (date, three) = (Source::Literal(b"2026-01-15"), Source::Argument(2));
        assert_eq!(
            plan.parts[..5],
            [one, two, date, Source::Literal(b""), three]
        );
        assert_eq!(QueryPlan::of(&form(&["1&0"])).unwrap().count, 0);
        for pieces in [
            // Another workload or none, a command that each names itself, arguments of two parts,
            // and too many.
            &["2&3&", ""][..],
            &["", "&3"],
            &["1"],
            &["1&", ""],
            &["1&x&", ""],
            &["1&3", "&"],
            &["1&3&0", ""],
            &["1&3&", "0"],
            &["1&6&1&2&3&4&5&6&7&8&", ""],
        ] {
            assert!(QueryPlan::of(&form(pieces)).is_none(), "{pieces:?}");
        }
        let mut float = form(&["1&3&", ""]);
        float.arguments[0] = Type::Float;
        assert!(QueryPlan::of(&float).is_none());
    }
}
