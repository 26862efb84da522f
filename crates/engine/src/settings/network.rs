//! Networks: addresses, and prefixes of them (RFC 4632, section 3.1), of those that are trusted to
//! say for whom they ask.

use super::definition::Mistake;
use std::net::IpAddr;
use std::str::FromStr;

/// The word for clients at a Unix socket, which have no address.
const UNIX: &str = "unix";

/// Who is trusted: networks, and clients at Unix sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    networks: Vec<(IpAddr, u8)>,
    unix: bool,
}

/// What is no address and no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an IP address, nor one with a prefix's length, nor `unix`")]
pub struct NoNetwork(pub String);

impl Trusted {
    /// Whether a client at this address, or at a Unix socket, is trusted. An IPv4 address may be
    /// written as an IPv6 one (RFC 4291, section 2.5.5.2).
    pub fn has(&self, client: Option<IpAddr>) -> bool {
        let Some(client) = client else {
            return self.unix;
        };
        let client = client.to_canonical();
        self.networks.iter().any(|(network, bits)| {
            let same = |a: u128, b: u128, width: u32| {
                let rest = width - u32::from(*bits);
                rest == width || a >> rest == b >> rest
            };
            match (network, client) {
                (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
                (IpAddr::V6(a), IpAddr::V6(b)) => *bits == 0 || same(a.to_bits(), b.to_bits(), 128),
                _ => false,
            }
        })
    }
}

impl FromStr for Trusted {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Trusted, NoNetwork> {
        let mut trusted = Trusted::default();
        for word in text.split_ascii_whitespace() {
            if word == UNIX {
                trusted.unix = true;
                continue;
            }
            let none = || NoNetwork(word.to_owned());
            let (address, bits) = match word.split_once('/') {
                Some((address, bits)) => (address, Some(bits)),
                None => (word, None),
            };
            let address: IpAddr = address.parse().map_err(|_| none())?;
            let width = if address.is_ipv4() { 32 } else { 128 };
            let bits = match bits {
                None => width,
                Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    let bits = bits.parse().ok().filter(|bits| *bits <= width);
                    bits.ok_or_else(none)?
                }
                Some(_) => return Err(none()),
            };
            trusted.networks.push((address, bits));
        }
        Ok(trusted)
    }
}

/// The value of a setting that says who is trusted.
pub(super) fn trusted(text: String) -> Result<String, Mistake> {
    match text.parse::<Trusted>() {
        Ok(_) => Ok(text),
        Err(wrong) => Err(Mistake::new(
            wrong.to_string(),
            "such as \"127.0.0.1 10.0.0.0/8 unix\", with spaces between them",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_addresses_that_begin_alike() {
        let trusted: Trusted = "10.0.0.0/8 192.0.2.7 fd00::/8 ::1"
            .parse()
            .expect("networks");
        for (address, is_in) in [
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("::ffff:10.1.2.3", true),
            ("fdff::1", true),
            ("fe00::1", false),
            ("::1", true),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(trusted.has(Some(address)), is_in, "{address}");
        }
        assert!(!trusted.has(None));
        let all: Trusted = "0.0.0.0/0 ::/0 unix".parse().expect("networks");
        assert!(all.has(None));
        for address in ["1.2.3.4", "ffff::1"] {
            assert!(all.has(Some(address.parse().expect("an address"))));
        }
        assert!(!Trusted::default().has(Some([127, 0, 0, 1].into())));
    }

    #[test]
    fn what_is_no_network_is_named() {
        for word in [
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "host",
            "/8",
        ] {
            let refused = format!("127.0.0.1 {word}").parse::<Trusted>();
            assert_eq!(refused, Err(NoNetwork(word.to_owned())));
        }
    }
}
