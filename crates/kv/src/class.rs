//! Classes of commands, whichever the protocol: those whose writes are confirmed alike, and of
//! which it is told together how long they take.

use crate::wire::{Commands, Kind, Mode, Verb, What};
use std::fmt;
use std::ops::Not;

macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident = $name:literal),* $(,)?) => {
        /// What a command is, as clients call it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Class {
            $($(#[$doc])* $class),*
        }

        impl Class {
            /// All of them, in the order of their numbers.
            pub(crate) const ALL: [Class; [$($name),*].len()] = [$(Class::$class),*];

            /// What it is called.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Class::$class => $name),*
                }
            }
        }
    };
}

classes! {
    /// `get`, `gets`, `mg`, GET: a key. (`mg` writes where it makes an item, or wins one.)
    Get = "get",
    /// `touch`, `gat`, `gats`, `mg` with `T`, TOUCH, GAT: a key.
    Touch = "touch",
    /// `set`, `ms`, SET.
    Set = "set",
    /// `add`, `ms` with `ME`, ADD.
    Add = "add",
    /// `replace`, `ms` with `MR`, REPLACE.
    Replace = "replace",
    /// `append`, `ms` with `MA`, APPEND.
    Append = "append",
    /// `prepend`, `ms` with `MP`, PREPEND.
    Prepend = "prepend",
    /// `cas`, and what sets under a CAS id.
    Cas = "cas",
    /// `incr`, `ma`, INCREMENT.
    Incr = "incr",
    /// `decr`, `ma` with `MD`, DECREMENT.
    Decr = "decr",
    /// `delete`, `md`, DELETE.
    Delete = "delete",
    /// All else: what is about no key, and what is refused before the store is asked.
    Other = "other",
}

impl Class {
    /// How many there are.
    pub(crate) const COUNT: usize = Class::ALL.len();

    /// A command's.
    #[inline]
    pub(crate) fn of(kind: Kind, commands: &Commands) -> Class {
        let of_store = |mode| match mode {
            Mode::Set => Class::Set,
            Mode::Add => Class::Add,
            Mode::Replace => Class::Replace,
            Mode::Append => Class::Append,
            Mode::Prepend => Class::Prepend,
            Mode::Cas => Class::Cas,
        };
        let of_get = |touches| if touches { Class::Touch } else { Class::Get };
        let of_sum = |up| if up { Class::Incr } else { Class::Decr };
        match kind {
            Kind::Get { touch, .. } => of_get(touch.is_some()),
            Kind::Store { store, .. } => of_store(store.mode),
            // A value was refused, and what it was to take the place of goes.
            Kind::Drop => Class::Set,
            Kind::Delete { .. } => Class::Delete,
            Kind::Arithmetic { up, .. } => of_sum(up),
            Kind::Touch { .. } => Class::Touch,
            Kind::Meta { verb, index } => {
                let flags = &commands.meta[index as usize];
                match verb {
                    Verb::Get => of_get(flags.exptime.is_some()),
                    Verb::Set => flags.store.map_or(Class::Set, |store| of_store(store.mode)),
                    Verb::Delete => Class::Delete,
                    Verb::Arithmetic => of_sum(flags.up),
                    Verb::Debug => Class::Other,
                }
            }
            Kind::Binary { index } => match commands.binary[index as usize].what {
                What::Get { touch, .. } => of_get(touch.is_some()),
                What::Store(store) => of_store(store.mode),
                What::Delete => Class::Delete,
                What::Arithmetic { up, .. } => of_sum(up),
                _ => Class::Other,
            },
            _ => Class::Other,
        }
    }

    /// The one that is called so.
    pub(crate) fn named(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes(u16);

const _: () = assert!(Class::COUNT <= u16::BITS as usize, "a bit for each");

impl Classes {
    /// None.
    pub(crate) const NONE: Classes = Classes(0);
    /// All.
    pub(crate) const ALL: Classes = Classes(u16::MAX >> (u16::BITS as usize - Class::COUNT));

    /// Whether there is none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether one is among them.
    #[inline]
    pub(crate) fn has(self, class: Class) -> bool {
        self.0 & 1 << class as u16 != 0
    }

    /// With one more.
    #[must_use]
    pub(crate) fn with(self, class: Class) -> Classes {
        Classes(self.0 | 1 << class as u16)
    }

    /// Each of them, in the order of their numbers.
    pub(crate) fn each(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.has(*class))
    }
}

/// All others.
impl Not for Classes {
    type Output = Classes;

    fn not(self) -> Classes {
        Classes(!self.0 & Classes::ALL.0)
    }
}

/// How many commands of each class there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Those of which there was one.
    seen: Classes,
    counts: [u32; Class::COUNT],
}

impl Counts {
    /// One more.
    #[inline]
    pub(crate) fn add(&mut self, class: Class) {
        self.seen = self.seen.with(class);
        self.counts[class as usize] += 1;
    }

    /// Takes all: the classes of which there were some, and how many.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (Class, u32)> {
        let seen = std::mem::take(&mut self.seen);
        (seen.each()).map(|class| (class, std::mem::take(&mut self.counts[class as usize])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Rules, Stream, parse};

    fn classes(bytes: &[u8]) -> Vec<Class> {
        let (mut stream, mut commands) = (Stream::default(), Commands::default());
        parse(
            &mut stream,
            &Rules::default(),
            bytes,
            usize::MAX,
            &mut commands,
        );
        let each = commands.list.iter();
        each.map(|command| Class::of(command.kind, &commands))
            .collect()
    }

    #[test]
    fn what_clients_call_alike_is_of_one_class_in_all_protocols() {
        let lines = "get a\r\ngat 0 a\r\ntouch a 0\r\nset a 0 0 1\r\nx\r\nadd a 0 0 1\r\nx\r\n\
                     replace a 0 0 1\r\nx\r\nappend a 0 0 1\r\nx\r\nprepend a 0 0 1\r\nx\r\n\
                     cas a 0 0 1 5\r\nx\r\nincr a 1\r\ndecr a 1\r\ndelete a\r\nversion\r\n";
        let all = classes(lines.as_bytes());
        let (get, others) = all.split_first().unwrap();
        assert_eq!((*get, others[0]), (Class::Get, Class::Touch));
        assert_eq!(others[1..], Class::ALL[1..]);
        let meta = "mg a v\r\nmg a T5\r\nms a 1\r\nx\r\nms a 1 ME\r\nx\r\nms a 1 MR\r\nx\r\n\
                    ms a 1 MA\r\nx\r\nms a 1 MP\r\nx\r\nms a 1 C5\r\nx\r\nma a\r\nma a MD\r\n\
                    md a\r\nme a\r\n";
        assert_eq!(classes(meta.as_bytes()), Class::ALL);
        let packet = |opcode: u8, extras: u8, cas: u8, value: &[u8]| {
            let mut packet = vec![0x80, opcode, 0, 1, extras, 0, 0, 0];
            packet.extend((u32::from(extras) + 1 + value.len() as u32).to_be_bytes());
            packet.extend([0; 11]);
            packet.push(cas);
            packet.extend(vec![0; extras.into()]);
            packet.push(b'a');
            packet.extend(value);
            packet
        };
        let binary = [
            packet(0x00, 0, 0, b""),
            packet(0x1d, 4, 0, b""),
            packet(0x01, 8, 0, b"x"),
            packet(0x02, 8, 0, b"x"),
            packet(0x03, 8, 0, b"x"),
            packet(0x0e, 0, 0, b"x"),
            packet(0x0f, 0, 0, b"x"),
            packet(0x01, 8, 5, b"x"),
            packet(0x05, 20, 0, b""),
            packet(0x06, 20, 0, b""),
            packet(0x04, 0, 0, b""),
        ];
        let last = Class::COUNT - 1;
        assert_eq!(classes(&binary.concat()), Class::ALL[..last]);
    }

    #[test]
    fn what_is_counted_is_taken_once() {
        let mut counts = Counts::default();
        for class in [Class::Get, Class::Other, Class::Get] {
            counts.add(class);
        }
        let taken: Vec<_> = counts.take().collect();
        assert_eq!(taken, [(Class::Get, 2), (Class::Other, 1)]);
        assert_eq!(counts.take().count(), 0);
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let some = Classes::default().with(Class::Cas).with(Class::Other);
        let all: Vec<Class> = some.each().collect();
        assert_eq!(all, [Class::Cas, Class::Other]);
        assert!(!(!some).has(Class::Cas) && (!some).has(Class::Get));
        assert_eq!(!Classes::ALL, Classes::default());
        for class in Class::ALL {
            assert_eq!(Class::named(class.name()), Some(class));
        }
    }
}
