//! The file that names the nodes of a ring, or of a keyspace: a table for each, in their order.
//!
//! What is wrong with one is said in a sentence, with the line, and what is to stand there.

use anyhow::{Result, anyhow, bail, ensure};
use rhythm_kv::status::NAME_MAX;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a node's table looks like.
const TABLE: &str = "a node is a table [[node]] with name, client and backbone";

/// A text in the file.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// Where it stands, from 1.
    pub(super) line: usize,
}

impl Text {
    /// A place as all nodes are told it, however they write it: a name is the same for all, though
    /// each may find it elsewhere.
    pub(super) fn as_told(&self) -> String {
        match self.text.parse::<SocketAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => self.text.clone(),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What it says of a node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: Text,
    /// Where clients reach it.
    pub(super) client: Text,
    /// Where other nodes reach it.
    pub(super) backbone: Text,
}

/// The nodes in a file's text, as they stand there: whether they can be what they are to be is not
/// looked at.
pub(super) fn nodes(text: &str) -> Result<Vec<Node>> {
    let one_bracket = text.lines().position(|line| line.trim() == "[node]");
    if let Some(before) = one_bracket {
        bail!(
            "line {}: write [[node]], with two brackets: {TABLE}",
            before + 1
        );
    }
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map(|span| Range::clone(&span));
        let quotes = match text[..at.clone().map_or(0, |at| at.end.min(text.len()))].rfind('=') {
            Some(_) => "; names and addresses stand in quotes",
            None => "",
        };
        let said = error.message().replace('\n', ", ");
        match at {
            Some(at) => anyhow!("line {}: {said}{quotes}", line(text, at.start)),
            None => anyhow!("{said}{quotes}"),
        }
    })?;
    for (key, _) in table.get_ref() {
        let (key, at) = (key.get_ref(), key.span().start);
        ensure!(
            key == "node",
            "line {}: {key:?} means nothing here: {TABLE}, and there is nothing else",
            line(text, at)
        );
    }
    let Some(listed) = table.get_ref().get("node") else {
        bail!("it names no node: {TABLE}");
    };
    let at = line(text, listed.span().start);
    let Some(listed) = listed.get_ref().as_array() else {
        bail!("line {at}: write [[node]], with two brackets: {TABLE}");
    };
    listed.iter().map(|listed| node(text, listed)).collect()
}

/// What is said of a node.
fn node(text: &str, listed: &Spanned<DeValue<'_>>) -> Result<Node> {
    let at = line(text, listed.span().start);
    let Some(table) = listed.get_ref().as_table() else {
        bail!("line {at}: {TABLE}");
    };
    const FIELDS: [&str; 3] = ["name", "client", "backbone"];
    for (key, _) in table {
        let (key, at) = (key.get_ref(), line(text, key.span().start));
        ensure!(
            FIELDS.contains(&&**key),
            "line {at}: a node has no {key:?}: {TABLE}"
        );
    }
    let field = |field: &str| {
        let Some(value) = table.get(field) else {
            bail!("line {at}: the node that begins here has no {field}: {TABLE}");
        };
        let line = line(text, value.span().start);
        let Some(text) = value.get_ref().as_str() else {
            bail!("line {line}: {field} is a text in quotes");
        };
        let text = text.to_owned();
        Ok(Text { text, line })
    };
    Ok(Node {
        name: field("name")?,
        client: field("client")?,
        backbone: field("backbone")?,
    })
}

/// The line of a place in a text, from 1.
fn line(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    1 + before.filter(|byte| *byte == b'\n').count()
}

/// Whether a node can be called so: others say it in their logs, and clients read it in lines.
pub(super) fn check_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ensure!(
        !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(plain),
        "{name:?} is no name: letters, digits, \"-\", \"_\" and \".\", {NAME_MAX} at most"
    );
    Ok(())
}

/// `HOST:PORT`, `[ADDR]:PORT` or `HOST`, whose port is memcached's.
pub(super) fn host_and_port(place: &str) -> Result<(String, u16)> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let number = port.parse().ok().filter(|port| *port > 0);
            let Some(number) = number else {
                bail!("{place} has the port {port:?}: a port is a number from 1 to 65535");
            };
            (host, number)
        }
        _ => (place, 11211),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ensure!(!host.is_empty(), "{place:?} has no host: write HOST:PORT");
    Ok((host.to_owned(), port))
}

/// The host and the port of a place, which has to say both.
pub(super) fn place(place: &str) -> Result<(String, u16)> {
    ensure!(place.contains(':'), "{place} has no port: write ADDR:PORT");
    host_and_port(place)
}

/// Whether a place of a node can be one for the others: it says a port, and no address that means
/// another machine on each.
pub(super) fn check_backbone(backbone: &str) -> Result<()> {
    let (host, _) = place(backbone)?;
    let is_any = host
        .parse()
        .is_ok_and(|address: IpAddr| address.is_unspecified());
    ensure!(
        !is_any,
        "{backbone} is where a node listens, and not where the others find it: write its address"
    );
    Ok(())
}

/// Whether places for the others can be those of nodes that find each other: not some of them on
/// this machine alone, and others elsewhere. They are given with what the file says.
pub(super) fn check_reach<'a>(
    backbones: impl Iterator<Item = (&'a Node, SocketAddr)> + Clone,
) -> Result<()> {
    let is_local = |(_, address): &(&Node, SocketAddr)| address.ip().is_loopback();
    let elsewhere = backbones.clone().find(|node| !is_local(node));
    let local = backbones.clone().find(is_local);
    if let (Some((other, _)), Some((node, address))) = (elsewhere, local) {
        let (name, backbone) = (&node.name, &node.backbone);
        let found = match backbone.text.parse::<SocketAddr>() {
            Ok(_) => String::new(),
            Err(_) => format!(
                ", which is {} here (/etc/hosts may have this machine's name so)",
                address.ip()
            ),
        };
        bail!(
            "line {}: node {name} has the backbone {backbone}{found}, and is reached there from \
             its own machine alone, while {} is at {}: write the address by which the others reach \
             it",
            backbone.line,
            other.name,
            other.backbone
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for name in ["a", "node-1", "cache_2.example", &"n".repeat(64)] {
            check_name(name).unwrap();
        }
        for name in ["", "a b", "a/b", "ä", &"n".repeat(65)] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains("is no name"), "{error}");
        }
    }

    #[test]
    fn what_is_no_list_of_nodes_is_said_in_a_sentence_with_its_line() {
        let good = "[[node]]\nname = \"a\"\nclient = \"h:1\"\nbackbone = \"h:2\"\n";
        assert_eq!(nodes(good).unwrap()[0].backbone.line, 4);
        let cases: [(String, &str); 10] = [
            (
                String::new(),
                "it names no node: a node is a table [[node]] with name",
            ),
            (
                good.replace("[[node]]", "[node]"),
                "line 1: write [[node]], with two brackets",
            ),
            (
                format!("{good}port = 1\n"),
                "line 5: a node has no \"port\": a node is",
            ),
            (
                format!("nodes = 3\n{good}"),
                "line 1: \"nodes\" means nothing here",
            ),
            (
                good.replace("\"a\"", "7"),
                "line 2: name is a text in quotes",
            ),
            (good.replace("\"h:1\"", "h:1"), "line 3: "),
            (
                good.replace("\"h:1\"", "h:1"),
                "; names and addresses stand in quotes",
            ),
            (
                good.replace("client", "cleint"),
                "line 3: a node has no \"cleint\"",
            ),
            (
                good.replace("client = \"h:1\"\n", ""),
                "line 1: the node that begins here has no client",
            ),
            (
                "node = [1]".to_owned(),
                "line 1: a node is a table [[node]]",
            ),
        ];
        for (text, said) in cases {
            let error = nodes(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}, and not {said}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
