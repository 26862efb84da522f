//! A keyspace: whether one node leads, most of them follow it, and each has what is agreed on.

use super::ask::{AskError, Said, ask_all, ask_line};
use super::lacks::{Lack, Lacks};
use super::place::{NAME_MAX, Place};
use super::text;
use crate::consensus::server::{Member, NODES_MAX};
use std::thread;
use std::time::{Duration, Instant};

/// What is asked.
const COMMAND: &str = "stats";
/// What a node alone is asked, too: a read, which most nodes have to agree to, of a key that need
/// not be there.
const READ: &str = "mg status";
/// What nodes are nodes of.
const KEYSPACE: &str = "keyspace";
/// How long is waited until each node has what was agreed on when it was asked first: while there
/// are writes the last of them are always under way.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(50);

/// What who asks knows of the keyspace.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// Its nodes, by a file that they were started with.
    File(&'a [Member]),
    /// Where one node is.
    Node(&'a str),
}

impl Known<'_> {
    fn places(self) -> Vec<Place> {
        match self {
            Known::File(members) => {
                let place = |member: &Member| Place {
                    name: Some(member.name.clone()),
                    at: member.client.to_string(),
                };
                members.iter().map(place).collect()
            }
            Known::Node(at) => vec![Place {
                name: None,
                at: at.to_owned(),
            }],
        }
    }
}

/// How a keyspace is: asks its nodes, all at one time. What to show of each, in lines, and behind
/// that one that says whether all is well; and whether it is.
pub fn look(known: Known<'_>) -> (Vec<String>, bool) {
    let places = known.places();
    let ask = || -> Vec<Result<View, AskError>> {
        let said = ask_all(&places, COMMAND, KEYSPACE);
        said.into_iter().map(|said| View::of(said?)).collect()
    };
    let mut views = ask();
    let agreed = views.iter().flatten().map(|view| view.committed).max();
    let agreed = agreed.unwrap_or(0);
    let until = Instant::now() + CATCHES_UP_WITHIN;
    while views.iter().flatten().any(|view| view.applied < agreed) && Instant::now() < until {
        thread::sleep(AGAIN);
        views = ask();
    }
    // One node learns only by and by that others are gone.
    let unread = match known {
        Known::Node(at) if views[0].is_ok() => unread(at),
        _ => None,
    };
    judge(known, &places, &views, agreed, unread.as_deref())
}

/// Why a node cannot read, if so.
fn unread(at: &str) -> Option<String> {
    match ask_line(at, READ) {
        Ok(line) if line == "EN" || line == "HD" => None,
        Ok(line) => Some(line),
        Err(error) => Some(error.to_string()),
    }
}

fn judge(
    known: Known<'_>,
    places: &[Place],
    views: &[Result<View, AskError>],
    agreed: u64,
    unread: Option<&str>,
) -> (Vec<String>, bool) {
    let (mut lacks, mut shown) = (Lacks::default(), Vec::new());
    let mut followers = 0;
    let answered: Vec<&View> = views.iter().flatten().collect();
    // Of the last term, since a node that is cut off may not have heard that its leader's is over.
    let leads = answered.iter().filter(|view| !view.leader.is_empty());
    let leads = leads.max_by_key(|view| view.term).copied();
    for (place, view) in places.iter().zip(views) {
        match view {
            Ok(view) => {
                shown.push(view.shown(agreed));
                view.judge(place, known, agreed, &mut lacks);
                let follows = |of: &View| (of.term, &of.leader) == (view.term, &view.leader);
                if leads.is_some_and(follows) {
                    followers += 1;
                } else {
                    let whom = match &*view.leader {
                        "" => "nobody that it knows of leads".to_owned(),
                        leader => format!("{leader} leads in term {}", view.term),
                    };
                    let said = format!("as {} sees it {whom}", view.node);
                    lacks.add(Lack::Away(said));
                }
            }
            Err(error) => {
                shown.push(format!("{}: {error}", place.shown()));
                let said = format!("{} does not answer", place.called());
                lacks.add(Lack::Silent(said));
            }
        }
    }
    let nodes = match known {
        Known::File(members) => members.len(),
        Known::Node(_) => answered.first().map_or(1, |view| view.nodes.len().max(1)),
    };
    let most = nodes / 2 + 1;
    let is_alone = matches!(known, Known::Node(_));
    if leads.is_none() {
        lacks.add(Lack::Unled(format!(
            "no node leads, so nothing is read or written: {} of {nodes} nodes answer, and {most} \
             have to reach each other",
            answered.len()
        )));
    } else if let Some(why) = unread {
        lacks.add(Lack::Unled(format!(
            "nothing is read here, for which {most} of {nodes} nodes have to reach each other \
             ({why})"
        )));
    } else if !is_alone && followers < most {
        lacks.add(Lack::Unled(format!(
            "{followers} of {nodes} nodes follow the leader, and {most} are most of them"
        )));
    }
    let lack = lacks.line();
    let is_well = lack.is_none();
    shown.push(lack.unwrap_or_else(|| {
        let leader = leads.map_or("", |view| &view.leader);
        match (is_alone, nodes - most) {
            (true, _) => format!("well, as this node sees it: {leader} leads"),
            (_, 0) => format!("well: {leader} leads, and no node may fail"),
            (_, may) => format!(
                "well: {leader} leads, and all {nodes} nodes have what is agreed on: {may} may fail"
            ),
        }
    }));
    (shown, is_well)
}

/// How a node sees the keyspace.
#[derive(Debug)]
struct View {
    node: String,
    leader: String,
    term: u64,
    committed: u64,
    applied: u64,
    revision: u64,
    is_full: bool,
    /// Names in the order of its file, and where others reach them.
    nodes: Vec<(String, String)>,
    /// Who was told something else.
    otherwise: String,
    release: String,
}

impl View {
    fn of(mut said: Said) -> Result<View, AskError> {
        let mut take = |name: &str| said.remove(name).unwrap_or_default();
        let [node, leader] = ["node", "leader"].map(&mut take);
        let [term, committed, applied, revision, is_full] =
            ["term", "committed", "applied", "revision", "disk_full"]
                .map(|name| take(name).parse::<u64>().ok());
        let nodes = take("nodes");
        let nodes: Vec<(String, String)> = (nodes.split(',').filter(|node| !node.is_empty()))
            .map(|node| {
                let (name, place) = node.split_once('@').unwrap_or((node, ""));
                (name.to_owned(), place.to_owned())
            })
            .collect();
        let numbers = (term, committed, applied, revision, is_full);
        let (Some(term), Some(committed), Some(applied), Some(revision), Some(is_full)) = numbers
        else {
            return Err(AskError::NoNode(KEYSPACE));
        };
        if node.is_empty() || node.len() > NAME_MAX || nodes.len() > NODES_MAX {
            return Err(AskError::NoNode(KEYSPACE));
        }
        Ok(View {
            node,
            leader,
            term,
            committed,
            applied,
            revision,
            is_full: is_full > 0,
            nodes,
            otherwise: take("otherwise"),
            release: take("release"),
        })
    }

    /// How many entries of what is agreed on it has yet to execute.
    fn behind(&self, agreed: u64) -> u64 {
        agreed.saturating_sub(self.applied)
    }

    fn shown(&self, agreed: u64) -> String {
        let role = match &*self.leader {
            "" => "nobody leads".to_owned(),
            leader if leader == self.node => "leads".to_owned(),
            leader => format!("follows {leader}"),
        };
        let far = match self.behind(agreed) {
            0 => "has all that is agreed on".to_owned(),
            behind => format!("{behind} entries of the log behind"),
        };
        let mut text = format!(
            "{}: {role}, term {}, {far} (log {}, revision {})",
            self.node, self.term, self.applied, self.revision
        );
        if self.is_full {
            text += ", its disk is full";
        }
        if !self.release.is_empty() {
            text += &format!("; rhythm {}", self.release);
        }
        text
    }

    /// Adds what lacks, as this node sees it.
    fn judge(&self, place: &Place, known: Known<'_>, agreed: u64, lacks: &mut Lacks) {
        let me = &self.node;
        match &place.name {
            Some(name) if name != me => {
                return lacks.add(Lack::Otherwise(format!(
                    "the node at {} calls itself {me}, and not {}",
                    text::shown(&place.at),
                    place.called()
                )));
            }
            _ => {}
        }
        if let Known::File(members) = known
            && !self.nodes.is_empty()
        {
            let of_file = members.iter().map(|member| (&*member.name, &*member.place));
            let of_file: Vec<_> = of_file.collect();
            let told = self.nodes.iter().map(|(name, place)| (&**name, &**place));
            let told: Vec<_> = told.collect();
            if told != of_file {
                let listed = |nodes: &[(&str, &str)]| {
                    let nodes = nodes
                        .iter()
                        .map(|(name, place)| format!("{name} at {place}"));
                    nodes.collect::<Vec<_>>().join(", ")
                };
                lacks.add(Lack::Otherwise(format!(
                    "{me} was started with {}, and this file has {}",
                    listed(&told),
                    listed(&of_file)
                )));
            }
        }
        if !self.otherwise.is_empty() {
            let said = format!("as {me} sees it {}", self.otherwise);
            lacks.add(Lack::Otherwise(said));
        }
        if self.is_full {
            lacks.add(Lack::Full(format!("the disk of {me} is full")));
        }
        let behind = self.behind(agreed);
        if behind > 0 {
            let said = format!("{me} is {behind} entries of the log behind");
            lacks.add(Lack::Moving(said));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<Member> {
        let member = |(index, name): (u16, &str)| Member {
            name: name.to_owned(),
            client: ([10, 0, 0, 1], index).into(),
            backbone: ([10, 1, 0, 1], index).into(),
            place: format!("10.1.0.1:{index}"),
        };
        [(1, "a"), (2, "b"), (3, "c")].map(member).into()
    }

    fn view(node: &str, leader: &str, term: u64, applied: u64) -> Result<View, AskError> {
        let nodes = "a@10.1.0.1:1,b@10.1.0.1:2,c@10.1.0.1:3";
        let [term, applied] = [term, applied].map(|number| number.to_string());
        let said = [
            ("node", node),
            ("leader", leader),
            ("term", &term),
            ("committed", "9"),
            ("applied", &applied),
            ("revision", "5"),
            ("disk_full", "0"),
            ("nodes", nodes),
            ("release", "0.1.0"),
        ];
        View::of(
            said.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }

    fn silent() -> Result<View, AskError> {
        Err(AskError::NoAddress)
    }

    fn judged(views: [Result<View, AskError>; 3]) -> (Vec<String>, bool) {
        let members = members();
        let known = Known::File(&members);
        judge(known, &known.places(), &views, 9, None)
    }

    /// The others died just now.
    #[test]
    fn a_node_that_sees_a_leader_and_cannot_read_is_not_well() {
        let known = Known::Node("10.0.0.1:1");
        let views = [view("a", "a", 7, 9)];
        let judged = |unread| judge(known, &known.places(), &views, 9, unread);
        let (shown, is_well) = judged(None);
        assert!(is_well, "{shown:?}");
        let (shown, is_well) = judged(Some("it takes too long"));
        let said = "not well: nothing is read here, for which 2 of 3 nodes have to reach each \
                    other (it takes too long): start those that do not answer";
        let line = shown.last().unwrap();
        assert!(!is_well && line.starts_with(said), "{line}");
    }

    #[test]
    fn all_who_follow_one_leader_and_have_all_are_well() {
        let (shown, is_well) = judged(["a", "b", "c"].map(|node| view(node, "b", 7, 9)));
        assert!(is_well);
        assert_eq!(
            shown,
            [
                "a: follows b, term 7, has all that is agreed on (log 9, revision 5); rhythm 0.1.0",
                "b: leads, term 7, has all that is agreed on (log 9, revision 5); rhythm 0.1.0",
                "c: follows b, term 7, has all that is agreed on (log 9, revision 5); rhythm 0.1.0",
                "well: b leads, and all 3 nodes have what is agreed on: 1 may fail",
            ]
        );
    }

    #[test]
    fn what_lacks_is_said_with_what_to_do() {
        let full = |node| {
            view(node, "b", 7, 9).map(|view| View {
                is_full: true,
                ..view
            })
        };
        let otherwise = |node| {
            view(node, "b", 7, 9).map(|mut view| {
                view.nodes[2].1 = "10.1.0.1:4".to_owned();
                view
            })
        };
        for (views, said) in [
            (
                [view("a", "b", 7, 9), view("b", "b", 7, 9), silent()],
                "not well: c does not answer: start it, or see why it is not reached; until then \
                 end no other node",
            ),
            (
                [view("a", "", 7, 9), silent(), silent()],
                "not well: no node leads, so nothing is read or written: 1 of 3 nodes answer, and \
                 2 have to reach each other; b does not answer; c does not answer; as a sees it \
                 nobody that it knows of leads: start those that do not answer",
            ),
            (
                [
                    view("a", "b", 7, 6),
                    view("b", "b", 7, 9),
                    view("c", "b", 7, 9),
                ],
                "not well: a is 3 entries of the log behind: wait, and ask again",
            ),
            // One that is cut off has not heard of the next term.
            (
                [
                    view("a", "c", 6, 9),
                    view("b", "b", 7, 9),
                    view("c", "b", 7, 9),
                ],
                "not well: as a sees it c leads in term 6: see its /readyz",
            ),
            (
                [
                    view("a", "b", 7, 9),
                    view("b", "b", 7, 9),
                    view("b", "b", 7, 9),
                ],
                "not well: the node at 10.0.0.1:3 calls itself b, and not c: ",
            ),
            (
                [view("a", "b", 7, 9), full("b"), view("c", "b", 7, 9)],
                "not well: the disk of b is full: make room",
            ),
            (
                [otherwise("a"), view("b", "b", 7, 9), view("c", "b", 7, 9)],
                "not well: a was started with a at 10.1.0.1:1, b at 10.1.0.1:2, c at 10.1.0.1:4, \
                 and this file has a at 10.1.0.1:1, b at 10.1.0.1:2, c at 10.1.0.1:3: ",
            ),
        ] {
            let (shown, is_well) = judged(views);
            let line = shown.last().unwrap();
            assert!(!is_well && line.starts_with(said), "{line}");
        }
    }

    #[test]
    fn a_cache_is_no_node_of_a_keyspace() {
        let said = Said::from([("version".to_owned(), "1.6.45".to_owned())]);
        let error = View::of(said).unwrap_err().to_string();
        assert_eq!(error, "it is no node of a keyspace");
    }
}
