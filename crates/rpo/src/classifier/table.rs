//! The classes, by number.

use crate::Setting;
use std::fmt;

/// No more classes than these, the other one among them: what a server is asked for must not fill
/// memory.
pub(crate) const MAX_CLASSES: usize = 256;

/// The number of a class in its table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u16);

impl ClassId {
    /// The class of what no rule names.
    pub const OTHER: ClassId = ClassId(0);
}

/// Whom requests of a class are friendly to, in the paper's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
pub enum Friendly {
    /// HT-friendly: faster with all hardware threads.
    #[serde(rename = "all-threads")]
    AllThreads,
    /// NOHT-friendly: faster with one a core.
    #[serde(rename = "one-per-core")]
    OnePerCore,
}

impl Friendly {
    /// The setting that it asks for.
    #[must_use]
    pub fn setting(self) -> Setting {
        match self {
            Friendly::AllThreads => Setting::AllThreads,
            Friendly::OnePerCore => Setting::OnePerCore,
        }
    }

    pub(crate) fn index(self) -> usize {
        self.setting().index()
    }
}

impl fmt::Display for Friendly {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Friendly::AllThreads => "HT-friendly",
            Friendly::OnePerCore => "NOHT-friendly",
        })
    }
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// What people call it.
    pub name: String,
    /// Whom it is friendly to, where that is known.
    pub friendly: Option<Friendly>,
}

/// The classes. The first is that of what no rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    classes: Vec<Class>,
}

impl Default for ClassTable {
    fn default() -> Self {
        ClassTable {
            classes: vec![Class {
                name: "other".to_owned(),
                friendly: None,
            }],
        }
    }
}

impl ClassTable {
    /// All classes, by number.
    pub fn classes(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter()
    }

    /// How many there are, the other one among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.classes.len()
    }

    /// Whether there can be another one.
    pub(crate) fn has_room(&self) -> bool {
        self.classes.len() < MAX_CLASSES
    }

    /// The class of this number; the other one where there is none.
    #[must_use]
    pub fn get(&self, id: ClassId) -> &Class {
        self.classes
            .get(usize::from(id.0))
            .unwrap_or(&self.classes[0])
    }

    /// The number of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ClassId> {
        let index = self.classes.iter().position(|class| class.name == name)?;
        Some(ClassId(u16::try_from(index).ok()?))
    }

    /// Has a class give its number to a new one.
    pub(super) fn replace(&mut self, id: ClassId, name: &str) {
        self.classes[usize::from(id.0)] = Class {
            name: name.to_owned(),
            friendly: None,
        };
    }

    /// Makes a class, or says more of the one of that name; None where there is no room.
    pub fn add(&mut self, name: &str, friendly: Option<Friendly>) -> Option<ClassId> {
        if let Some(id) = self.find(name) {
            let class = &mut self.classes[usize::from(id.0)];
            class.friendly = friendly.or(class.friendly);
            return Some(id);
        }
        if !self.has_room() {
            return None;
        }
        self.classes.push(Class {
            name: name.to_owned(),
            friendly,
        });
        Some(ClassId(u16::try_from(self.classes.len() - 1).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_bounded_and_found_again() {
        let mut table = ClassTable::default();
        for index in 1..MAX_CLASSES {
            let id = table.add(&format!("class {index}"), None).expect("room");
            assert_eq!(usize::from(id.0), index);
        }
        assert_eq!(table.add("one more", None), None);
        assert_eq!(
            table.add("class 7", Some(Friendly::OnePerCore)),
            Some(ClassId(7))
        );
        assert_eq!(table.get(ClassId(7)).friendly, Some(Friendly::OnePerCore));
        assert_eq!(table.get(ClassId(9999)).name, "other");
    }
}
