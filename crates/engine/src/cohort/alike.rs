//! Queries that ask the same: a backend need be asked only once for all of them.

use super::queries::{Argument, Queries};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

/// Finds the queries of a cohort that ask the same. Its memory is kept from one cohort to the next.
#[derive(Debug, Default)]
pub struct Alike {
    /// By the hash of its arguments, the first that has them. The hash's key is random: nobody
    /// outside can make arguments that meet in it.
    firsts: HashMap<u64, u32>,
    first_of: Vec<u32>,
}

impl Alike {
    /// For each query the first with the same arguments: itself where no earlier one has them.
    pub fn find(&mut self, queries: &Queries) -> &[u32] {
        let Alike { firsts, first_of } = self;
        firsts.clear();
        first_of.clear();
        for query in 0..queries.len() {
            let mut hasher = firsts.hasher().build_hasher();
            queries.arguments(query).for_each(|argument| {
                match argument {
                    Argument::Text(text) => text.hash(&mut hasher),
                    Argument::Int(value) => value.hash(&mut hasher),
                    Argument::Float(value) => value.to_bits().hash(&mut hasher),
                    Argument::Bool(value) => value.hash(&mut hasher),
                };
            });
            let first = *firsts.entry(hasher.finish()).or_insert(query as u32);
            // Where two only meet in the hash, the later one stands for itself.
            let is_same = first as usize == query || are_same(queries, first as usize, query);
            first_of.push(if is_same { first } else { query as u32 });
        }
        first_of
    }
}

/// Whether two queries have the same arguments. Floats are bits here: 0 is not -0.
fn are_same(queries: &Queries, a: usize, b: usize) -> bool {
    let mut pairs = queries.arguments(a).zip(queries.arguments(b));
    pairs.all(|(a, b)| match (a, b) {
        (Argument::Float(a), Argument::Float(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn those_without_arguments_are_all_the_same() {
        let mut queries = Queries::default();
        let mut alike = Alike::default();
        assert!(alike.find(&queries).is_empty());
        for lane in 0..3 {
            assert!(queries.push(lane, std::iter::empty()));
        }
        assert_eq!(alike.find(&queries), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn each_is_as_the_first_with_its_arguments(
            given in proptest::collection::vec(
                ("[ab]{0,2}", 0..3i64, prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN)],
                 any::<bool>()),
                0..40,
            ),
        ) {
            let mut queries = Queries::new(1 << 20);
            for (lane, (text, int, float, bool)) in given.iter().enumerate() {
                let arguments = [
                    Argument::Text(text.as_bytes()),
                    Argument::Int(*int),
                    Argument::Float(*float),
                    Argument::Bool(*bool),
                ];
                prop_assert!(queries.push(lane as u32, arguments.into_iter()));
            }
            let key = |(text, int, float, bool): &(String, i64, f64, bool)| {
                (text.clone(), *int, float.to_bits(), *bool)
            };
            let first = |of| given.iter().position(|other| key(other) == key(of)).unwrap() as u32;
            let expected: Vec<u32> = given.iter().map(first).collect();
            let mut alike = Alike::default();
            prop_assert_eq!(alike.find(&queries), &expected[..]);
        }
    }
}
