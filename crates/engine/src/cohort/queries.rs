//! What the lanes of a cohort ask a backend: a column of lanes, and a typed column for each
//! argument of the call.

use super::arena::{Arena, View};
use super::budget::Share;
use super::need::Need;
use std::rc::Rc;

/// One argument of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument<'a> {
    /// A text, UTF-8.
    Text(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl Argument<'_> {
    /// How many bytes it takes where it is kept, at most.
    pub fn bytes(self) -> usize {
        9 + match self {
            Argument::Text(text) => text.len(),
            _ => 0,
        }
    }
}

/// The values of one argument, one a query.
#[derive(Debug)]
enum Values {
    Text(Vec<View>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
}

/// Does the same to the values of every type.
macro_rules! each_type {
    ($values:expr, $of:ident => $do:expr) => {
        match $values {
            Values::Text($of) => $do,
            Values::Int($of) => $do,
            Values::Float($of) => $do,
            Values::Bool($of) => $do,
        }
    };
}

/// Stands for a text that was given up: a query that was asked already has moved without it.
const NO_TEXT: View = View {
    offset: u32::MAX,
    length: 0,
};

/// The queries of a stage, in order of lanes, and for one lane in the order asked.
///
/// They have their texts in an arena of their own, so that a backend reads arguments while what it
/// answers is appended to the cohort's.
#[derive(Debug, Default)]
pub struct Queries {
    lanes: Vec<u32>,
    arguments: Vec<Values>,
    texts: Arena,
    pub(super) need: Need,
}

impl Queries {
    /// None yet, whose texts take at most so many bytes.
    pub fn new(texts_bytes_max: usize) -> Queries {
        Queries {
            texts: Arena::new(texts_bytes_max),
            ..Queries::default()
        }
    }

    /// The same, of a cohort's share.
    pub(super) fn of_share(share: &Rc<Share>, texts_bytes_max: usize) -> Queries {
        Queries {
            texts: Arena::of_share(share, texts_bytes_max),
            ..Queries::default()
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Who asks, by query.
    pub fn lanes(&self) -> &[u32] {
        &self.lanes
    }

    /// An argument of a query.
    ///
    /// # Panics
    /// If the query or the argument does not exist: the caller's mistake.
    #[inline]
    pub fn argument(&self, query: usize, argument: usize) -> Argument<'_> {
        match &self.arguments[argument] {
            Values::Text(views) if views[query] == NO_TEXT => Argument::Text(b""),
            Values::Text(views) => Argument::Text(self.texts.get(views[query])),
            Values::Int(values) => Argument::Int(values[query]),
            Values::Float(values) => Argument::Float(values[query]),
            Values::Bool(values) => Argument::Bool(values[query]),
        }
    }

    /// Whether a query still has all that it asks for, and can be asked again.
    pub fn is_whole(&self, query: usize) -> bool {
        let lost =
            |values: &Values| matches!(values, Values::Text(views) if views[query] == NO_TEXT);
        !self.arguments.iter().any(lost)
    }

    /// Appends a query that was asked already, without its texts.
    pub(super) fn push_without_texts<'a>(
        &mut self,
        lane: u32,
        arguments: impl Iterator<Item = Argument<'a>> + Clone,
    ) {
        let without = arguments.map(|argument| match argument {
            Argument::Text(_) => Argument::Text(b""),
            other => other,
        });
        let pushed = self.push(lane, without);
        debug_assert!(pushed, "no texts need no room");
        for values in &mut self.arguments {
            if let Values::Text(views) = values
                && let Some(last) = views.last_mut()
            {
                *last = NO_TEXT;
            }
        }
    }

    /// All arguments of a query.
    pub fn arguments(&self, query: usize) -> impl Iterator<Item = Argument<'_>> + Clone {
        (0..self.arguments.len()).map(move |argument| self.argument(query, argument))
    }

    /// Empties it, keeping its memory but what was not needed of late.
    pub fn clear(&mut self) {
        self.need.needed(self.len());
        self.truncate(0);
        self.need.shrink(&mut self.lanes);
        for values in &mut self.arguments {
            each_type!(values, of => self.need.shrink(of));
        }
        self.texts.rest(0);
    }

    /// Gives all memory of empty ones back.
    pub(super) fn forget(&mut self) {
        debug_assert!(self.is_empty(), "what is in use is not forgotten");
        self.lanes = Vec::new();
        self.arguments = Vec::new();
        self.texts.forget();
    }

    /// Whether there was no room for their texts, but that a cohort that is alone has, since this
    /// was last asked.
    pub(crate) fn take_short(&self) -> bool {
        self.texts.take_short()
    }

    /// Appends a query. All queries between two calls of [`Queries::clear`] have arguments of
    /// the same types. False: there is no room for its texts, and nothing was appended.
    #[must_use]
    pub fn push<'a>(
        &mut self,
        lane: u32,
        arguments: impl Iterator<Item = Argument<'a>> + Clone,
    ) -> bool {
        let mut text_bytes = 0;
        for argument in arguments.clone() {
            if let Argument::Text(text) = argument {
                text_bytes += text.len();
            }
        }
        if !self.texts.reserve(text_bytes) {
            return false;
        }
        let mut count = 0;
        for (index, argument) in arguments.enumerate() {
            count = index + 1;
            if self.lanes.is_empty() {
                self.prepare(index, argument);
            }
            match (&mut self.arguments[index], argument) {
                (Values::Text(views), Argument::Text(text)) => views.push(self.texts.push(text)),
                (Values::Int(values), Argument::Int(value)) => values.push(value),
                (Values::Float(values), Argument::Float(value)) => values.push(value),
                (Values::Bool(values), Argument::Bool(value)) => values.push(value),
                _ => unreachable!("the queries of a call have arguments of the same types"),
            }
        }
        if self.lanes.is_empty() {
            self.arguments.truncate(count);
        }
        debug_assert_eq!(self.arguments.len(), count);
        self.lanes.push(lane);
        true
    }

    /// Makes the column at `index` one for arguments such as this one.
    fn prepare(&mut self, index: usize, argument: Argument<'_>) {
        let fits = matches!(
            (self.arguments.get(index), argument),
            (Some(Values::Text(_)), Argument::Text(_))
                | (Some(Values::Int(_)), Argument::Int(_))
                | (Some(Values::Float(_)), Argument::Float(_))
                | (Some(Values::Bool(_)), Argument::Bool(_))
        );
        if !fits {
            self.arguments.truncate(index);
            self.arguments.push(match argument {
                Argument::Text(_) => Values::Text(Vec::new()),
                Argument::Int(_) => Values::Int(Vec::new()),
                Argument::Float(_) => Values::Float(Vec::new()),
                Argument::Bool(_) => Values::Bool(Vec::new()),
            });
        }
    }

    /// Bytes that it has of the system.
    pub(super) fn capacity(&self) -> usize {
        fn bytes<T>(of: &Vec<T>) -> usize {
            of.capacity() * size_of::<T>()
        }
        let mut all = bytes(&self.lanes) + self.texts.capacity();
        for values in &self.arguments {
            all += each_type!(values, of => bytes(of));
        }
        all
    }

    /// Keeps the first `len` queries.
    pub fn truncate(&mut self, len: usize) {
        self.lanes.truncate(len);
        for values in &mut self.arguments {
            each_type!(values, of => of.truncate(len));
        }
    }

    /// Of the queries from `start` on keeps those of lanes that `keep` says.
    pub(crate) fn retain_from(&mut self, start: usize, keep: impl Fn(u32) -> bool) {
        let order: Vec<usize> = (start..self.len())
            .filter(|&query| keep(self.lanes[query]))
            .collect();
        self.reorder(start, &order);
    }

    /// Puts the queries from `start` on into the order of lanes; those of one lane stay in theirs.
    pub fn sort_from(&mut self, start: usize) {
        if self.lanes[start..].is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (start..self.len()).collect();
        order.sort_by_key(|&query| self.lanes[query]);
        self.reorder(start, &order);
    }

    /// Puts the queries at these places in place of all from `start` on.
    fn reorder(&mut self, start: usize, order: &[usize]) {
        fn pick<T: Copy>(of: &mut Vec<T>, start: usize, order: &[usize]) {
            let picked: Vec<T> = order.iter().map(|&at| of[at]).collect();
            of.truncate(start);
            of.extend(picked);
        }
        pick(&mut self.lanes, start, order);
        for values in &mut self.arguments {
            each_type!(values, of => pick(of, start, order));
        }
    }
}
