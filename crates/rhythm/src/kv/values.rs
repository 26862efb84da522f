//! What stands behind flags, read.

use rhythm_engine::settings::{LogFormat, Typed, Value};
use rhythm_kv::membership::Transport;
use rhythm_kv::ring::{Elsewhere, Scheme};
use rhythm_kv::wire::Protocol;
use rhythm_protocol::http::uri::is_host_name;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Reads a number, `what` of which it is said where there is none, or one that is out of range.
pub(super) fn number<T: TryFrom<i64>>(
    what: &'static str,
    range: RangeInclusive<i64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("{what} from {} to {}", range.start(), range.end()))
    }
}

/// A number of bytes, as `-I` is written.
pub(super) fn in_bytes(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        _ => bytes.to_string(),
    }
}

pub(super) fn octal(text: &str) -> Result<u32, &'static str> {
    let mask = u32::from_str_radix(text, 8).ok();
    mask.filter(|mask| *mask <= 0o777)
        .ok_or("an octal number such as 700")
}

pub(super) fn factor(text: &str) -> Result<f64, &'static str> {
    let factor = text.parse().ok();
    factor
        .filter(|factor| *factor > 1.0)
        .ok_or("a number greater than 1")
}

pub(super) fn delimiter(text: &str) -> Result<u8, &'static str> {
    text.bytes().next().ok_or("a character")
}

pub(super) fn protocol(text: &str) -> Result<Protocol, &'static str> {
    match text {
        "auto" => Ok(Protocol::Negotiating),
        "ascii" => Ok(Protocol::Ascii),
        "binary" => Ok(Protocol::Binary),
        _ => Err("auto, ascii or binary"),
    }
}

pub(super) fn item_size(text: &str) -> Result<u64, &'static str> {
    let (digits, unit) = match text.as_bytes() {
        [.., b'k' | b'K'] => (&text[..text.len() - 1], 1 << 10),
        [.., b'm' | b'M'] => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let size = digits
        .parse::<u64>()
        .ok()
        .and_then(|size| size.checked_mul(unit));
    size.filter(|size| (1 << 10..=1 << 30).contains(size))
        .ok_or("a size from 1k to 1024m")
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.unwrap_or(11281);
        format!(
            "an IP address and a port, such as 127.0.0.1:{port}, for this machine alone, or \
             0.0.0.0:{port}, or [::]:{port} with IPv6"
        )
    })
}

pub(super) fn backbone(text: &str) -> Result<Transport, String> {
    match text.strip_prefix("ether:") {
        Some("") => Err("ether: and the name of an interface, such as ether:eth1".to_owned()),
        Some(interface) => Ok(Transport::Ether(interface.to_owned())),
        None => address(text)
            .map(Transport::Tcp)
            .map_err(|error| format!("{error}; or ether: and the name of an interface")),
    }
}

pub(super) fn scheme(text: &str) -> Result<Scheme, &'static str> {
    let all = [Scheme::Ring, Scheme::Primary, Scheme::Chain];
    let found = all.into_iter().find(|scheme| scheme.name() == text);
    found.ok_or("ring, primary or chain")
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    let format = LogFormat::from_value(Value::Text(text.to_owned()));
    format.ok_or_else(|| LogFormat::WORDS.join(" or "))
}

pub(super) fn elsewhere(text: &str) -> Result<Elsewhere, &'static str> {
    let all = [Elsewhere::Forward, Elsewhere::Serve];
    let found = all.into_iter().find(|what| what.name() == text);
    found.ok_or("forward or serve")
}

pub(super) fn host_name(text: &str) -> Result<String, &'static str> {
    match is_host_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name without a port, such as cache.example"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_range() {
        let number = number::<u8>("seconds", 2..=60);
        assert_eq!((number("2"), number("60")), (Ok(2), Ok(60)));
        for text in ["1", "61", "x", "", "5s", "-3", "99999999999999999999"] {
            assert_eq!(number(text), Err("seconds from 2 to 60".to_owned()));
        }
    }

    #[test]
    fn a_log_is_for_people_or_machines() {
        assert_eq!(log_format("text"), Ok(LogFormat::Text));
        assert_eq!(log_format("json"), Ok(LogFormat::Json));
        assert_eq!(log_format("xml"), Err("text or json".to_owned()));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(in_bytes(1 << 20), "1m");
        assert_eq!(in_bytes(1536 << 10), "1536k");
        assert_eq!(in_bytes(1025), "1025");
        assert_eq!(item_size("1m"), Ok(1 << 20));
        assert_eq!(item_size("2048"), Ok(2048));
        assert_eq!(item_size("16K"), Ok(16384));
        assert!(item_size("1023").is_err());
        assert!(item_size("1025m").is_err());
    }
}
