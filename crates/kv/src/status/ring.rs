//! A ring: whether all who are to be there are, all ranges are where they are to be, and each has
//! the copies that `--replicas` wants.

use super::ask::{AskError, Said, ask_all};
use super::lacks::{Lack, Lacks};
use super::place::{NAME_MAX, Place};
use super::text;
use crate::ring::{Member, NODES_MAX};

/// What is asked.
const COMMAND: &str = "stats ring";
/// What nodes are nodes of.
const RING: &str = "ring";

/// What who asks knows of the ring.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// Its nodes in their order, by a file that they were started with.
    File(&'a [Member]),
    /// The nodes that etcd knows.
    Etcd(&'a [Member]),
    /// Where one node is.
    Node(&'a str),
}

impl Known<'_> {
    fn places(self) -> Vec<Place> {
        match self {
            Known::File(members) | Known::Etcd(members) => {
                let place = |member: &Member| Place {
                    name: Some(member.name.clone()),
                    at: member.at(),
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

/// How a ring is: asks its nodes, all at one time. What to show of each, in lines, and behind that
/// one that says whether all is well; and whether it is.
pub fn look(known: Known<'_>) -> (Vec<String>, bool) {
    let places = known.places();
    let said = ask_all(&places, COMMAND, RING);
    judge(known, &places, said)
}

fn judge(
    known: Known<'_>,
    places: &[Place],
    said: Vec<Result<Said, AskError>>,
) -> (Vec<String>, bool) {
    let (mut lacks, mut shown) = (Lacks::default(), Vec::new());
    let mut replicas = 0;
    for (place, said) in places.iter().zip(said) {
        match said.and_then(View::of) {
            Ok(view) => {
                shown.push(view.shown());
                replicas = view.replicas;
                view.judge(place, known, &mut lacks);
            }
            Err(error) => {
                shown.push(format!("{}: {error}", place.shown()));
                let said = format!("{} does not answer", place.called());
                lacks.add(Lack::Silent(said));
            }
        }
    }
    let lack = lacks.line();
    let is_well = lack.is_none();
    shown.push(lack.unwrap_or_else(|| {
        let copies = match replicas {
            1 => "its copy".to_owned(),
            _ => format!("its {replicas} copies"),
        };
        match known {
            Known::Node(_) => format!("well, as this node sees it: what it serves has {copies}"),
            _ => format!("well: every range is where it is to be, and has {copies}"),
        }
    }));
    (shown, is_well)
}

/// How a node sees the ring.
struct View {
    said: Said,
    replicas: usize,
    names: Vec<String>,
}

impl View {
    fn of(said: Said) -> Result<View, AskError> {
        let no_node = AskError::NoNode(RING);
        let names = said.keys().filter_map(|name| name.strip_suffix(":alive"));
        let names: Vec<String> = names.map(str::to_owned).collect();
        let of = |name: &str| said.get(name).map_or("", String::as_str);
        // Each is shown with each other.
        if of("node").len() > NAME_MAX || names.len() > NODES_MAX {
            return Err(no_node);
        }
        let Ok(replicas) = of("replicas").parse() else {
            return Err(no_node);
        };
        Ok(View {
            said,
            replicas,
            names,
        })
    }

    fn stat(&self, name: &str) -> &str {
        self.said.get(name).map_or("", String::as_str)
    }

    /// What it says of another node, or of itself.
    fn stat_of(&self, node: &str, what: &str) -> &str {
        self.stat(&format!("{node}:{what}"))
    }

    fn me(&self) -> &str {
        self.stat("node")
    }

    /// Whether nodes have no range of their own, but a share of all.
    fn is_ranked(&self) -> bool {
        self.said.contains_key("ranges")
    }

    /// A line for it, and one for each node.
    fn shown(&self) -> String {
        let me = self.me();
        let [scheme, replicate] = ["scheme", "replicate"].map(|name| self.stat(name));
        let mut text = format!("{me}: {scheme}, {} copies, {replicate}", self.replicas);
        if let Some(protocol) = self.said.get("protocol") {
            let release = self.stat("release");
            text += &format!("; rhythm {release}, nodes' protocol {protocol}");
        }
        if self.is_ranked() {
            let [ranges, away, missing] =
                ["ranges", "ranges_away", "ranges_without_copies"].map(|name| self.stat(name));
            text += &format!(
                "; of {ranges} ranges {away} are not where they are to be, and of its own \
                 {missing} have too few copies"
            );
        }
        for name in &self.names {
            let of = |what| self.stat_of(name, what);
            text += &format!("\n  {name}: {}, ", self.presence(name));
            match self.is_ranked() {
                true => {
                    text += &format!("serves {}", of("serves"));
                    for (what, count) in [("has", of("copies")), ("is being given", of("copying"))]
                    {
                        if !matches!(count, "" | "0") {
                            text += &format!(", {what} copies of {count} of {me}'s");
                        }
                    }
                }
                false => text += &self.range_of(name),
            }
            match of("unacknowledged") {
                "" | "0" => {}
                bytes => text += &format!(", {bytes} bytes and {} ms behind", of("lag_ms")),
            }
        }
        text
    }

    /// Whether a node is there, and why not.
    fn presence(&self, name: &str) -> String {
        let of = |what| self.stat_of(name, what);
        match of("why") {
            _ if of("alive") == "1" => "there".to_owned(),
            _ if of("refused") != "1" => "not there".to_owned(),
            "" => "not there: it is refused, or refuses this one (see the log)".to_owned(),
            why => format!("not there: {why}"),
        }
    }

    /// Who serves a node's own range, and who has copies of it.
    fn range_of(&self, name: &str) -> String {
        let of = |what| self.stat_of(name, what);
        let server = of("server");
        let by = if server.is_empty() { "nobody" } else { server };
        let mut text = format!("its range is served by {by}");
        if server == self.me() {
            for (what, whom) in [("copied", of("copies")), ("being copied", of("copying"))] {
                if !whom.is_empty() {
                    text += &format!(", {what} to {whom}");
                }
            }
        } else if of("complete") == "1" {
            text += ", copied here";
        }
        text
    }

    /// Adds what lacks, as this node sees it.
    fn judge(&self, place: &Place, known: Known<'_>, lacks: &mut Lacks) {
        let me = self.me();
        match &place.name {
            // What it says is another's, and was said there.
            Some(name) if name != me => {
                return lacks.add(Lack::Otherwise(format!(
                    "the node at {} calls itself {me}, and not {}",
                    text::shown(&place.at),
                    place.called()
                )));
            }
            _ => {}
        }
        self.compare(known, lacks);
        if self.stat("may_write") == "0" {
            let said = format!("{me} has no lease, so that it takes no writes");
            lacks.add(Lack::Away(said));
        }
        for name in &self.names {
            if self.stat_of(name, "alive") != "1" {
                let said = format!("{name} is {}, as {me} sees it", self.presence(name));
                lacks.add(Lack::Away(said));
            }
        }
        if self.is_ranked() {
            let wanted = self.replicas + 1;
            let there = self.names.len();
            if there < wanted {
                lacks.add(Lack::Nodes { there, wanted });
            }
            for (stat, what) in [
                ("ranges_away", "are not where they are to be, as"),
                (
                    "ranges_without_copies",
                    "have too few copies, of those that",
                ),
            ] {
                match self.stat(stat) {
                    "0" => {}
                    count => {
                        let verb = if stat == "ranges_away" {
                            "sees it"
                        } else {
                            "serves"
                        };
                        let said = format!("{count} ranges {what} {me} {verb}");
                        lacks.add(Lack::Moving(said));
                    }
                }
            }
            return;
        }
        for name in &self.names {
            let of = |what| self.stat_of(name, what);
            let server = of("server");
            let copies = of("copies").split(',').filter(|name| !name.is_empty());
            if server != name {
                let by = if server.is_empty() { "nobody" } else { server };
                let said = format!("the range of {name} is served by {by}, as {me} sees it");
                lacks.add(Lack::Moving(said));
            } else if server == me && (copies.count() != self.replicas || !of("copying").is_empty())
            {
                lacks.add(Lack::Moving(format!(
                    "the range of {me} has too few copies"
                )));
            }
        }
    }

    /// Adds what this node was told otherwise than who asks.
    fn compare(&self, known: Known<'_>, lacks: &mut Lacks) {
        let (members, is_file) = match known {
            Known::File(members) => (members, true),
            Known::Etcd(members) => (members, false),
            Known::Node(_) => return,
        };
        let me = self.me();
        // What etcd has, nodes know a moment later.
        let add_unknown = |said: String, lacks: &mut Lacks| {
            lacks.add(match is_file {
                true => Lack::Otherwise(said),
                false => Lack::Moving(said),
            });
        };
        let source = if is_file { "this file" } else { "etcd" };
        for (index, member) in members.iter().enumerate() {
            let name = &member.name;
            if !self.names.contains(name) {
                let said = format!("{me} knows of no node {name}, which {source} has");
                add_unknown(said, lacks);
                continue;
            }
            let (client, backbone) = (member.at(), member.place.clone());
            let number = (index + 1).to_string();
            let told = [("client", client), ("backbone", backbone)];
            // The order of a file decides who has copies of whose keys.
            let place = is_file.then_some(("place", number));
            for (what, here) in told.into_iter().chain(place) {
                match self.stat_of(name, what) {
                    there if there == here || there.is_empty() => {}
                    there => lacks.add(Lack::Otherwise(format!(
                        "{me} was told that the {what} of {name} is {there}, and {source} has \
                         {here}"
                    ))),
                }
            }
        }
        let is_known = |name: &&String| members.iter().any(|member| member.name == **name);
        for name in self.names.iter().filter(|name| !is_known(name)) {
            let said = format!("{me} knows of a node {name}, which {source} has not");
            add_unknown(said, lacks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::ask::heard;

    fn said(pairs: &[(&str, &str)]) -> Said {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        pairs.iter().map(owned).collect()
    }

    fn member(name: &str, port: u16) -> Member {
        Member {
            name: name.to_owned(),
            host: "10.0.0.1".to_owned(),
            port,
            backbone: ([10, 1, 0, 1], port).into(),
            place: format!("10.1.0.1:{port}"),
        }
    }

    /// What a node of etcd says that sees these nodes.
    fn of_etcd(me: &str, replicas: &str, without_copies: &str, nodes: &[&str]) -> Said {
        let mut told = said(&[
            ("node", me),
            ("scheme", "ring"),
            ("replicas", replicas),
            ("replicate", "acked"),
            ("protocol", "8"),
            ("release", "0.1.0"),
            ("ranges", "64"),
            ("ranges_away", "0"),
            ("ranges_without_copies", without_copies),
        ]);
        for name in nodes {
            told.extend(said(&[
                (&format!("{name}:alive"), "1"),
                (&format!("{name}:serves"), "32"),
                (&format!("{name}:unacknowledged"), "0"),
            ]));
        }
        told
    }

    fn judged(known: Known<'_>, said: Vec<Result<Said, AskError>>) -> (String, bool) {
        let (shown, is_well) = judge(known, &known.places(), said);
        (shown.last().unwrap().clone(), is_well)
    }

    #[test]
    fn a_node_that_serves_tells_who_has_copies() {
        let mut told = of_etcd("a", "2", "1", &["a", "b", "c"]);
        told.extend(said(&[
            ("a:copies", "0"),
            ("b:copies", "1"),
            ("b:copying", "0"),
            ("c:copies", "0"),
            ("c:copying", "1"),
            ("c:unacknowledged", "7"),
            ("c:lag_ms", "3"),
        ]));
        let known = Known::Node("h:1");
        let (shown, is_well) = judge(known, &known.places(), vec![Ok(told)]);
        let lines: Vec<&str> = shown[0].lines().collect();
        assert_eq!(
            lines,
            [
                "a: ring, 2 copies, acked; rhythm 0.1.0, nodes' protocol 8; of 64 ranges 0 are \
                 not where they are to be, and of its own 1 have too few copies",
                "  a: there, serves 32",
                "  b: there, serves 32, has copies of 1 of a's",
                "  c: there, serves 32, is being given copies of 1 of a's, 7 bytes and 3 ms behind",
            ]
        );
        assert!(!is_well, "a copy is missing");
    }

    /// Who waits for that before he ends the next node would lose what it has.
    #[test]
    fn the_last_node_of_etcd_is_not_well_without_copies() {
        let [a, b] = [member("a", 1), member("b", 2)];
        let alone = || Ok(of_etcd("a", "2", "64", &["a"]));
        let one = std::slice::from_ref(&a);
        let (line, is_well) = judged(Known::Etcd(one), vec![alone()]);
        assert!(!is_well);
        let expected = "not well: 1 of the 3 nodes are there that --replicas 2 takes; 64 ranges \
                        have too few copies, of those that a serves: start 2 more; until then end \
                        no node";
        assert_eq!(line, expected);
        let both = [a, b];
        let of = |me| Ok(of_etcd(me, "1", "0", &["a", "b"]));
        let (line, is_well) = judged(Known::Etcd(&both), vec![of("a"), of("b")]);
        assert_eq!(
            (&*line, is_well),
            (
                "well: every range is where it is to be, and has its copy",
                true
            )
        );
        // Two of one address: one of them answers for both.
        let (line, is_well) = judged(Known::Etcd(&both), vec![of("a"), of("a")]);
        assert!(!is_well);
        let expected = "not well: the node at 10.0.0.1:2 calls itself a, and not b: ";
        assert!(line.starts_with(expected), "{line}");
    }

    #[test]
    fn a_node_without_a_lease_is_not_well() {
        for (may_write, said) in [
            (
                "1",
                "well, as this node sees it: what it serves has its copy",
            ),
            (
                "0",
                "not well: a has no lease, so that it takes no writes: see its /readyz and its \
                 log; until it is there end no other node",
            ),
        ] {
            let mut told = of_etcd("a", "1", "0", &["a", "b"]);
            told.extend(self::said(&[("may_write", may_write)]));
            let (line, is_well) = judged(Known::Node("h:1"), vec![Ok(told)]);
            assert_eq!((&*line, is_well), (said, may_write == "1"));
        }
    }

    #[test]
    fn a_file_that_the_nodes_were_not_started_with_is_told() {
        let node = |me: &str| {
            let mut told = said(&[("node", me), ("replicas", "1"), ("scheme", "ring")]);
            for (name, place, other) in [("a", "1", "b"), ("b", "2", "a")] {
                told.extend(said(&[
                    (&format!("{name}:alive"), "1"),
                    (&format!("{name}:server"), name),
                    (
                        &format!("{name}:copies"),
                        if name == me { other } else { "" },
                    ),
                    (&format!("{name}:place"), place),
                    (&format!("{name}:client"), &format!("10.0.0.1:{place}")),
                    (&format!("{name}:backbone"), &format!("10.1.0.1:{place}")),
                ]));
            }
            Ok(told)
        };
        let [a, b] = [member("a", 1), member("b", 2)];
        let both = || vec![node("a"), node("b")];
        let (line, is_well) = judged(Known::File(&[a.clone(), b.clone()]), both());
        assert!(is_well, "{line}");
        let mut moved = b.clone();
        moved.place = "10.1.0.1:9".to_owned();
        let mut readdressed = a.clone();
        readdressed.port = 3;
        for (file, said) in [
            (
                vec![b.clone(), a.clone()],
                "the place of b is 2, and this file has 1",
            ),
            (
                vec![a.clone(), moved],
                "a was told that the backbone of b is 10.1.0.1:2, and this file has 10.1.0.1:9",
            ),
            (
                vec![readdressed, b.clone()],
                "a was told that the client of a is 10.0.0.1:1, and this file has 10.0.0.1:3",
            ),
            (
                vec![a.clone()],
                "a knows of a node b, which this file has not",
            ),
            (
                vec![a.clone(), b, member("c", 3)],
                "a knows of no node c, which this file has",
            ),
        ] {
            let count = file.len().min(2);
            let answers = (file.iter()).map(|member| match &*member.name {
                "c" => Err(AskError::NoAddress),
                name => node(name),
            });
            let (line, is_well) = judged(Known::File(&file), answers.collect());
            assert!(!is_well && line.contains(said), "{count}: {line}");
            // One that is not there yet is not to be started into the ring of before.
            assert!(line.contains(": end all nodes, then start all"), "{line}");
        }
    }

    #[test]
    fn what_a_node_says_is_shown_as_text_or_not_at_all() {
        let bytes = "STAT node \u{1b}[2Ja\r\nSTAT replicas 1\r\nSTAT b\u{202e}:alive 1\r\nEND\r\n";
        let told = heard(bytes.as_bytes(), RING).unwrap();
        let text = View::of(told).unwrap().shown();
        assert!(text.starts_with("\\u{1b}[2Ja: "), "{text}");
        assert!(text.contains("  b\\u{202e}: there"), "{text}");
        assert!(text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')));
        // With too many or too long names.
        let many: String = (0..65).map(|n| format!("STAT {n}:alive 1\r\n")).collect();
        let long = format!("STAT node {}\r\n", "x".repeat(65));
        for more in [many, long] {
            let bytes = format!("STAT replicas 1\r\n{more}END\r\n");
            let told = heard(bytes.as_bytes(), RING).unwrap();
            assert!(View::of(told).is_err(), "{more}");
        }
    }
}
