//! Rules from method and path to a class, the first that fits; what was asked lately is
//! remembered, so that a request costs one look-up.

use super::glob::Glob;
use super::{ClassId, ClassTable, Friendly, MAX_CLASSES, tpcw};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// So many paths are remembered with their class.
const REMEMBERED: usize = 1024;
/// A class of which none of the last so many looks was may give way: what is so seldom is not what
/// a choice rests on.
const SELDOM: u64 = 200_000;
/// Longer paths than this are cut.
const PATH_MAX: usize = 512;

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It has no pattern.
    #[error("a rule for class {0:?} has no pattern")]
    Empty(String),
    /// There are too many classes.
    #[error("class {0:?} is one too many: there can be {max}", max = super::MAX_CLASSES)]
    Full(String),
}

/// Says which class a request is of.
#[derive(Debug)]
pub struct Classifier {
    rules: Vec<Rule>,
    table: ClassTable,
    /// Whether paths that no rule fits may make classes of their own.
    open: bool,
    remembered: Vec<Option<(u64, ClassId)>>,
    /// Its keys are of this process alone: who asks cannot make two paths meet on purpose.
    hasher: RandomState,
    made: HashMap<String, ClassId>,
    /// How many looks there were, and which was the last of each class.
    looks: u64,
    looked: [u64; MAX_CLASSES],
}

#[derive(Debug)]
struct Rule {
    method: Option<String>,
    path: Glob,
    class: ClassId,
}

impl Default for Classifier {
    /// Without rules: the first part of a path is its class, once that was learned.
    fn default() -> Self {
        Classifier {
            rules: Vec::new(),
            table: ClassTable::default(),
            open: true,
            remembered: vec![None; REMEMBERED],
            hasher: RandomState::new(),
            made: HashMap::new(),
            looks: 0,
            looked: [0; MAX_CLASSES],
        }
    }
}

impl Classifier {
    /// With the rules that follow only: what none of them fits is [`ClassId::OTHER`].
    #[must_use]
    pub fn closed() -> Classifier {
        Classifier {
            open: false,
            ..Classifier::default()
        }
    }

    /// With the classes of TPC-W and what the paper says of them (Table V).
    #[must_use]
    pub fn tpcw() -> Classifier {
        let mut classifier = Classifier::closed();
        for (pattern, class, friendly) in tpcw::rules() {
            // Fourteen classes, each with a pattern.
            let _ = classifier.rule(pattern, class, friendly);
        }
        classifier
    }

    /// Adds a rule: a pattern such as `POST /cart`, `/item/*` or `**/*.png`, of any method where
    /// none is named.
    ///
    /// # Errors
    ///
    /// Where there is no pattern, or there are too many classes.
    pub fn rule(
        &mut self,
        pattern: &str,
        class: &str,
        friendly: Option<Friendly>,
    ) -> Result<ClassId, RuleError> {
        let pattern = pattern.trim();
        let (method, path) = match pattern.split_once(char::is_whitespace) {
            Some((method, path)) => (Some(method), path.trim()),
            None => (None, pattern),
        };
        if path.is_empty() {
            return Err(RuleError::Empty(class.to_owned()));
        }
        let id = self
            .table
            .add(class, friendly)
            .ok_or_else(|| RuleError::Full(class.into()))?;
        let method = method
            .filter(|method| *method != "*")
            .map(str::to_ascii_uppercase);
        self.rules.push(Rule {
            method,
            path: Glob::new(path),
            class: id,
        });
        self.remembered.fill(None);
        Ok(id)
    }

    /// The class of a request; what follows a `?` or `#` of the path does not count.
    pub fn classify(&mut self, method: &str, path: &str) -> ClassId {
        let path = bare(path.as_bytes());
        let key = self.hasher.hash_one((method, path));
        let place = key as usize % REMEMBERED;
        let class = match self.remembered[place] {
            Some((known, class)) if known == key => class,
            _ => {
                let class = self.look_up(method, path);
                self.remembered[place] = Some((key, class));
                class
            }
        };
        self.looks += 1;
        self.looked[usize::from(class.0)] = self.looks;
        class
    }

    /// The class of a request that somebody vouches for, such as by an answer of success: where no
    /// rule is given, it is made if it is none yet and there is room. What strangers ask for makes
    /// none, lest they take all the room.
    pub fn learn(&mut self, method: &str, path: &str) -> ClassId {
        let class = self.classify(method, path);
        if class != ClassId::OTHER || !self.open || !self.table.has_room() {
            return class;
        }
        let name = own_name(method, bare(path.as_bytes()));
        let Some(id) = self.table.add(&name, None) else {
            return class;
        };
        self.made.insert(name, id);
        self.remembered.fill(None);
        self.looked[usize::from(id.0)] = self.looks;
        id
    }

    /// Where a request that somebody vouches for is of no class, and there is no room for its own:
    /// has that take the number of the one that was asked for least lately, if that was long ago.
    /// Gives this number, of which what was known is of another class.
    pub(crate) fn replace(&mut self, method: &str, path: &str) -> Option<ClassId> {
        if self.classify(method, path) != ClassId::OTHER || !self.open || self.table.has_room() {
            return None;
        }
        let seldom = self.made.values().copied();
        let seldom = seldom.min_by_key(|id| self.looked[usize::from(id.0)])?;
        if self.looked[usize::from(seldom.0)] + SELDOM > self.looks {
            return None;
        }
        let name = own_name(method, bare(path.as_bytes()));
        self.made.remove(&self.table.get(seldom).name);
        self.table.replace(seldom, &name);
        self.made.insert(name, seldom);
        self.remembered.fill(None);
        self.looked[usize::from(seldom.0)] = self.looks;
        Some(seldom)
    }

    /// The classes there are.
    #[must_use]
    pub fn table(&self) -> &ClassTable {
        &self.table
    }

    fn look_up(&mut self, method: &str, path: &[u8]) -> ClassId {
        let fits = |rule: &&Rule| {
            rule.method
                .as_ref()
                .is_none_or(|named| named.eq_ignore_ascii_case(method))
                && rule.path.matches(path)
        };
        match self.rules.iter().find(fits) {
            Some(rule) => rule.class,
            None if self.open => {
                let own = self.made.get(&own_name(method, path));
                own.copied().unwrap_or(ClassId::OTHER)
            }
            None => ClassId::OTHER,
        }
    }
}

/// The class of `GET /item/7` is `GET /item`.
fn own_name(method: &str, path: &[u8]) -> String {
    let first = path.iter().skip(1).position(|byte| *byte == b'/');
    let first = &path[..first.map_or(path.len(), |at| at + 1)];
    format!("{method} {}", String::from_utf8_lossy(first))
}

fn bare(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .position(|byte| matches!(byte, b'?' | b'#'))
        .unwrap_or(path.len());
    &path[..end.min(PATH_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_says_the_class() {
        let mut classifier = Classifier::closed();
        let cart = classifier
            .rule("POST /cart", "cart", Some(Friendly::OnePerCore))
            .expect("room");
        let rest = classifier.rule("/**", "rest", None).expect("room");
        assert_eq!(classifier.classify("POST", "/cart?item=7"), cart);
        assert_eq!(classifier.classify("GET", "/cart"), rest);
        assert_eq!(classifier.classify("GET", "*"), ClassId::OTHER);
        assert_eq!(
            classifier.table().get(cart).friendly,
            Some(Friendly::OnePerCore)
        );
        assert_eq!(
            classifier.rule("GET ", "x", None),
            Ok(ClassId(3)),
            "a path of its own"
        );
        assert_eq!(
            classifier.rule(" ", "x", None),
            Err(RuleError::Empty("x".into()))
        );
    }

    #[test]
    fn without_rules_the_first_part_is_the_class_and_their_number_is_bounded() {
        let mut classifier = Classifier::default();
        assert_eq!(classifier.classify("GET", "/item/7"), ClassId::OTHER);
        let item = classifier.learn("GET", "/item/7");
        assert_eq!(classifier.table().get(item).name, "GET /item");
        for path in ["/item/7", "/item/8?x=1"] {
            assert_eq!(classifier.classify("GET", path), item);
            assert_eq!(classifier.learn("GET", path), item);
        }
        assert_ne!(classifier.learn("POST", "/item/8"), item);
        for index in 0..10_000 {
            classifier.classify("GET", &format!("/made-up-{index}"));
        }
        assert_eq!(classifier.table().count(), 3, "who only asks makes none");
        for index in 0..10_000 {
            classifier.learn("GET", &format!("/made-up-{index}"));
        }
        assert_eq!(classifier.table().count(), MAX_CLASSES);
        assert_eq!(classifier.classify("GET", "/one-more"), ClassId::OTHER);
        assert_eq!(classifier.classify("GET", "/item/9"), item);
    }

    #[test]
    fn classes_that_nobody_asks_for_give_way() {
        let mut classifier = Classifier::default();
        let item = classifier.learn("GET", "/item/7");
        // A server that answers whatever is asked for was asked for much that nobody wants.
        for index in 0..MAX_CLASSES {
            classifier.learn("GET", &format!("/made-up-{index}"));
        }
        assert_eq!(classifier.replace("GET", "/new/1"), None, "all are in use");
        for _ in 0..SELDOM {
            classifier.classify("GET", "/item/7");
        }
        let new = classifier.replace("GET", "/new/1").expect("there is room");
        assert_eq!(classifier.table().count(), MAX_CLASSES);
        assert_eq!(classifier.table().get(new).name, "GET /new");
        assert_eq!(classifier.classify("GET", "/new/2"), new);
        assert_eq!(classifier.replace("GET", "/new/2"), None, "it is one");
        assert_eq!(classifier.classify("GET", "/item/7"), item);
        // The one that gave way is none any more, and no rule's class ever does.
        let gone = (0..MAX_CLASSES).filter(|index| {
            classifier.classify("GET", &format!("/made-up-{index}")) == ClassId::OTHER
        });
        assert_eq!(gone.count(), 3);
    }
}
