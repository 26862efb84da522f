//! A ring, as one of its nodes is told of it at the start: by a file, or by etcd.

use crate::class::{Class, Classes};
use crate::registration::{Registration, RegistrationError};
use crate::ring::{Elsewhere, Member, Placement, Roster, Scheme, Terms};
use rhythm_etcd::Etcd;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// What says that writes are answered when the copies exist, and what says that at once.
const ACKED: &str = "acked";
const ASYNC: &str = "async";

/// How a node reaches the others, and they it. All of a ring do it in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over TCP: it listens here.
    Tcp(SocketAddr),
    /// By Ethernet frames on the interface of this name.
    Ether(String),
}

/// When writes are answered: `async` or `acked`, and for some classes of commands the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replicate {
    is_acked: bool,
    /// Those of which the other is true.
    others: Classes,
}

impl Replicate {
    /// All writes are answered when the copies exist.
    pub const ACKED: Replicate = Replicate {
        is_acked: true,
        others: Classes::NONE,
    };

    /// The classes of commands that are answered when the copies of what they write exist.
    pub(crate) fn acked(self) -> Classes {
        match self.is_acked {
            true => !self.others,
            false => self.others,
        }
    }
}

/// As it is read: `acked`, or `acked,touch=async`.
impl fmt::Display for Replicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (usual, other) = match self.is_acked {
            true => (ACKED, ASYNC),
            false => (ASYNC, ACKED),
        };
        f.write_str(usual)?;
        (self.others.each()).try_for_each(|class| write!(f, ",{class}={other}"))
    }
}

/// Why a text says nothing about when writes are answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicateError {
    /// What is to stand there is no such word.
    #[error("async or acked is to stand in the place of {0:?}")]
    When(String),
    /// There is no such class.
    #[error(
        "{0:?} is no class of commands that write: get (where mg writes), touch, set, add, \
         replace, append, prepend, cas, incr, decr, delete"
    )]
    Class(String),
    /// It is said twice of a class.
    #[error("{0} stands there twice")]
    Twice(&'static str),
}

impl FromStr for Replicate {
    type Err = ReplicateError;

    fn from_str(text: &str) -> Result<Replicate, ReplicateError> {
        let is_acked = |word: &str| match word {
            ACKED => Ok(true),
            ASYNC => Ok(false),
            _ => Err(ReplicateError::When(word.to_owned())),
        };
        let mut parts = text.split(',');
        let mut replicate = Replicate {
            is_acked: is_acked(parts.next().unwrap_or(""))?,
            others: Classes::NONE,
        };
        let mut said = Classes::NONE;
        for part in parts {
            let (name, word) = part.split_once('=').unwrap_or((part, ""));
            let class = Class::named(name).filter(|class| *class != Class::Other);
            let class = class.ok_or_else(|| ReplicateError::Class(name.to_owned()))?;
            if said.has(class) {
                return Err(ReplicateError::Twice(class.name()));
            }
            said = said.with(class);
            if is_acked(word)? != replicate.is_acked {
                replicate.others = replicate.others.with(class);
            }
        }
        Ok(replicate)
    }
}

/// A ring, and a place in it.
#[derive(Clone, Debug)]
pub struct Membership {
    /// All nodes, by their numbers, below 64.
    pub members: BTreeMap<usize, Member>,
    /// Which of them this is.
    pub me: usize,
    /// How it reaches the others.
    pub transport: Transport,
    /// How copies are kept.
    pub scheme: Scheme,
    /// How many nodes have what one serves, beside it.
    pub replicas: usize,
    /// When writes are confirmed to clients.
    pub replicate: Replicate,
    /// Who answers what is asked about keys that another node serves.
    pub elsewhere: Elsewhere,
    /// This node among those that etcd knows, which come and go; none: they stay.
    pub etcd: Option<Registration>,
}

/// A node of a ring that etcd knows, which has no place in it yet. It speaks over TCP, where the
/// others are told that it is.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where the ring is known.
    pub etcd: Etcd,
    /// What the others are to know of it.
    pub me: Member,
    /// Seconds that its lease lasts.
    pub lease: u64,
    /// As of [`Membership`], as well as the next three.
    pub scheme: Scheme,
    /// See there.
    pub replicas: usize,
    /// See there.
    pub replicate: Replicate,
    /// See there.
    pub elsewhere: Elsewhere,
}

impl Candidate {
    /// Registers it, as [`Registration::new`] does, if it `may`: from then on the others count on
    /// it. While something is waited for, `waits` is told what.
    ///
    /// # Errors
    /// As of [`Registration::new`].
    pub fn register(
        self,
        waits: impl FnMut(&str),
        may: impl Fn() -> bool,
    ) -> Result<Membership, RegistrationError> {
        let transport = Transport::Tcp(self.me.backbone);
        let registration = Registration::new(self.etcd, self.me, self.lease, waits, may)?;
        Ok(Membership {
            members: registration.members.clone(),
            me: registration.number,
            transport,
            scheme: self.scheme,
            replicas: self.replicas,
            replicate: self.replicate,
            elsewhere: self.elsewhere,
            etcd: Some(registration),
        })
    }
}

impl Membership {
    /// This node.
    pub fn this(&self) -> &Member {
        &self.members[&self.me]
    }

    /// Which key is in which range.
    pub fn placement(&self) -> Placement {
        let servers = self.members.values();
        match &self.etcd {
            None => {
                (self.scheme).placement(servers.map(|member| (member.host.as_str(), member.port)))
            }
            Some(_) => self.scheme.slots(),
        }
    }

    /// Who is to serve what.
    pub fn roster(&self) -> Roster {
        match &self.etcd {
            None => self.scheme.round(self.members.len()),
            Some(_) => self.scheme.ranked(&self.members),
        }
    }

    /// What this node was told that all are to be told alike; of items, that they have so many
    /// bytes at most.
    pub fn terms(&self, item_max: u64) -> Terms {
        let mut told = vec![
            ("--scheme".to_owned(), self.scheme.name().to_owned()),
            ("--replicas".to_owned(), self.replicas.to_string()),
            ("--replicate".to_owned(), self.replicate.to_string()),
            ("--elsewhere".to_owned(), self.elsewhere.name().to_owned()),
            ("-I".to_owned(), item_max.to_string()),
        ];
        match &self.etcd {
            None => told.extend(self.members.values().enumerate().map(|(index, member)| {
                let (name, host, port) = (&member.name, &member.host, member.port);
                let value = format!("{name} {host}:{port} {}", member.place);
                (format!("node {} of the file", index + 1), value)
            })),
            Some(registration) => {
                let lasts = registration.lasts().as_secs();
                told.push(("--ring".to_owned(), registration.prefix().to_owned()));
                told.push(("--lease".to_owned(), lasts.to_string()));
            }
        }
        Terms::new(&self.this().name, told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a name stands for is each machine's own; what the file says is not.
    #[test]
    fn nodes_that_find_each_other_elsewhere_were_told_the_same() {
        let told = |backbone: &str, place: &str| {
            let member = |name: &str| Member {
                name: name.to_owned(),
                host: "cache".to_owned(),
                port: 11211,
                backbone: backbone.parse().unwrap(),
                place: place.to_owned(),
            };
            let membership = Membership {
                members: [member("a"), member("b")].into_iter().enumerate().collect(),
                me: 0,
                transport: Transport::Ether("eth0".to_owned()),
                scheme: Scheme::Ring,
                replicas: 1,
                replicate: Replicate::ACKED,
                elsewhere: Elsewhere::Forward,
                etcd: None,
            };
            membership.terms(1 << 20).digest()
        };
        let one = told("10.0.0.1:1", "node.example:1");
        assert_eq!(told("[fd00::1]:1", "node.example:1"), one);
        assert_ne!(told("10.0.0.1:1", "other.example:1"), one);
    }

    #[test]
    fn what_is_answered_when_is_said_for_all_and_for_some() {
        for (text, acked) in [
            ("async", Classes::NONE),
            ("acked", Classes::ALL),
            ("acked,touch=async", !Classes::NONE.with(Class::Touch)),
            ("async,cas=acked", Classes::NONE.with(Class::Cas)),
        ] {
            let replicate: Replicate = text.parse().unwrap();
            assert_eq!(replicate.acked(), acked, "{text}");
            assert_eq!(replicate.to_string(), text);
        }
        // Nodes that were told the same in other words are told the same.
        let [one, other] = [
            "acked,incr=async,touch=async,set=acked",
            "acked,touch=async,incr=async",
        ]
        .map(|text| text.parse::<Replicate>().unwrap());
        assert_eq!(one, other);
        for (text, said) in [
            ("", "async or acked"),
            ("now", "async or acked"),
            ("acked,touch", "async or acked"),
            ("acked,touch=1", "async or acked"),
            ("acked,gets=async", "\"gets\" is no class"),
            ("acked,other=async", "is no class"),
            ("acked,set=async,set=acked", "set stands there twice"),
        ] {
            let error = text.parse::<Replicate>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
