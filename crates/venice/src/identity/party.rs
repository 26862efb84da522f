//! Who a party is. A certificate says it as a URI in its alternative names (RFC 5280, section
//! 4.2.1.6), as SPIFFE does: names of nodes are no names of hosts, and are compared to the letter.

use crate::name::NodeName;
use std::fmt;
use x509_parser::extensions::GeneralName;

/// What all names begin with.
const SCHEME: &str = "rhythm-venice:";
const NODE: &str = "node/";
const MONITOR: &str = "monitor";

/// A party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// Whoever has the authority's key.
    Monitor,
    /// The node of this name.
    Node(NodeName),
}

impl Party {
    /// As a certificate has it.
    pub(super) fn uri(&self) -> String {
        match self {
            Party::Monitor => format!("{SCHEME}{MONITOR}"),
            Party::Node(name) => format!("{SCHEME}{NODE}{name}"),
        }
    }

    fn parse(uri: &str) -> Option<Party> {
        let name = uri.strip_prefix(SCHEME)?;
        match name.strip_prefix(NODE) {
            Some(node) => node.parse().ok().map(Party::Node),
            None => (name == MONITOR).then_some(Party::Monitor),
        }
    }

    /// Whose a certificate is, in DER; nothing where it names none, or several.
    pub(super) fn of(certificate: &[u8]) -> Option<Party> {
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let names = certificate.subject_alternative_name().ok()??;
        match &names.value.general_names[..] {
            [GeneralName::URI(uri)] => Party::parse(uri),
            _ => None,
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Monitor => f.write_str("the monitor"),
            Party::Node(name) => write!(f, "node {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_is_what_its_name_says_to_the_letter() {
        let node = |name: &str| Party::Node(name.parse().expect("a name"));
        for party in [Party::Monitor, node("a.b_c-D"), node("monitor"), node("..")] {
            assert_eq!(Party::parse(&party.uri()), Some(party));
        }
        for other in [
            "",
            "monitor",
            "rhythm-venice:node/",
            "rhythm-venice:node/a b",
        ] {
            assert_eq!(Party::parse(other), None, "{other}");
        }
        assert_eq!(Party::parse("rhythm-venice:monitor/x"), None);
        assert_ne!(node("left"), node("Left"));
    }
}
