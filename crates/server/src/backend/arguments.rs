//! Arguments of a query, kept until it is encoded: the cohort whose columns they are in may have
//! gone on by then.

use rhythm_engine::cohort::Argument;

const TEXT: u8 = 0;
const INT: u8 = 1;
const FLOAT: u8 = 2;
const BOOL: u8 = 3;

/// Appends arguments to `out`, in the form that [`kept`] reads.
pub(super) fn keep<'a>(arguments: impl Iterator<Item = Argument<'a>>, out: &mut Vec<u8>) {
    for argument in arguments {
        match argument {
            Argument::Text(text) => {
                out.push(TEXT);
                out.extend_from_slice(&(text.len() as u64).to_ne_bytes());
                out.extend_from_slice(text);
            }
            Argument::Int(value) => {
                out.push(INT);
                out.extend_from_slice(&value.to_ne_bytes());
            }
            Argument::Float(value) => {
                out.push(FLOAT);
                out.extend_from_slice(&value.to_ne_bytes());
            }
            Argument::Bool(value) => out.extend_from_slice(&[BOOL, u8::from(value)]),
        }
    }
}

/// The arguments that [`keep`] has put into these bytes.
pub(super) fn kept(mut bytes: &[u8]) -> impl Iterator<Item = Argument<'_>> {
    std::iter::from_fn(move || {
        let (&kind, rest) = bytes.split_first()?;
        let argument;
        (argument, bytes) = match kind {
            BOOL => (Argument::Bool(rest[0] != 0), &rest[1..]),
            _ => {
                let (&word, rest) = rest.split_first_chunk().expect("what `keep` wrote");
                match kind {
                    INT => (Argument::Int(i64::from_ne_bytes(word)), rest),
                    FLOAT => (Argument::Float(f64::from_ne_bytes(word)), rest),
                    _ => {
                        let (text, rest) = rest.split_at(u64::from_ne_bytes(word) as usize);
                        (Argument::Text(text), rest)
                    }
                }
            }
        };
        Some(argument)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_kept_comes_back(
            given in proptest::collection::vec((0..4u8, any::<Vec<u8>>(), any::<i64>()), 0..9),
        ) {
            let arguments: Vec<Argument<'_>> = (given.iter())
                .map(|(kind, text, value)| match kind {
                    0 => Argument::Text(text),
                    1 => Argument::Int(*value),
                    2 => Argument::Float(*value as f64 / 7.0),
                    _ => Argument::Bool(*value > 0),
                })
                .collect();
            let mut bytes = Vec::new();
            keep(arguments.iter().copied(), &mut bytes);
            prop_assert_eq!(kept(&bytes).collect::<Vec<_>>(), arguments);
        }
    }
}
