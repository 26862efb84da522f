//! Messages that one page leaves for the next: "Saved.", told once, by the page that a redirect
//! leads to.
//!
//! A message is kept by the browser, in a cookie, so that nothing is kept here. It is sealed for
//! the session, or the visitor, that it is for: no other host of the domain can have a page tell
//! something that no page of this service said. A page that shows messages removes the cookie that
//! it came by.

use crate::seal::{Purpose, Sealer, is_same};
use rhythm_engine::session::SessionId;
use rhythm_protocol::http::uri;

/// Most bytes of a message.
pub(crate) const FLASH_BYTES_MAX: usize = 1000;
/// What the cookie's name has behind that of the session's.
pub(crate) const SUFFIX: &str = "_flash";
/// For how many seconds it is kept: nobody is told what happened long ago.
pub(crate) const AGE_MAX: u64 = 300;

/// Digits of a seal.
const SEAL_DIGITS: usize = 32;

/// Writes a message as the cookie's value.
pub(crate) fn write(sealer: &Sealer, of: &SessionId, message: &[u8], out: &mut Vec<u8>) {
    let seal = sealer.seal(Purpose::Flash, of, message);
    out.extend_from_slice(format!("{seal:0SEAL_DIGITS$x}").as_bytes());
    for byte in message {
        match byte {
            b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => out.push(*byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}

/// Reads a cookie's value into an empty message. Whether it is one for whoever has this id.
pub(crate) fn read(sealer: &Sealer, of: &SessionId, value: &[u8], message: &mut Vec<u8>) -> bool {
    let Some((seal, text)) = value.split_at_checked(SEAL_DIGITS) else {
        return false;
    };
    let seal = std::str::from_utf8(seal).ok();
    let Some(seal) = seal.and_then(|seal| u128::from_str_radix(seal, 16).ok()) else {
        return false;
    };
    // What is longer than any message is not looked at.
    text.len() <= 3 * FLASH_BYTES_MAX
        && uri::decode(text, message).is_ok()
        && std::str::from_utf8(message).is_ok()
        && is_same(seal, sealer.seal(Purpose::Flash, of, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a browser sends, nobody has a seal for it but this server.
        #[test]
        fn no_other_bytes_are_a_message(value: Vec<u8>, digits in "[0-9a-f]{32}", text: String) {
            let (sealer, id) = (Sealer::new(7), SessionId::of_nobody(1));
            let made = [digits.as_bytes(), text.as_bytes()].concat();
            for value in [&value, &made] {
                prop_assert!(!read(&sealer, &id, value, &mut Vec::new()));
            }
        }
    }

    #[test]
    fn a_message_is_for_whom_it_was_left_alone() {
        let sealer = Sealer::new(7);
        let [one, other] = [1, 2].map(SessionId::of_nobody);
        for message in [
            "",
            "Saved.",
            "\u{e9};,=\" %\r\n+",
            &"x".repeat(FLASH_BYTES_MAX),
        ] {
            let mut value = Vec::new();
            write(&sealer, &one, message.as_bytes(), &mut value);
            let is_fit = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
            assert!(value.iter().all(is_fit));
            let read = |sealer: &Sealer, of: &SessionId, value: &[u8]| {
                let mut message = Vec::new();
                let is_read = read(sealer, of, value, &mut message);
                is_read.then(|| String::from_utf8(message).expect("it was looked at"))
            };
            assert_eq!(read(&sealer, &one, &value).as_deref(), Some(message));
            assert_eq!(read(&sealer, &other, &value), None);
            assert_eq!(read(&Sealer::new(8), &one, &value), None);
            for at in 0..value.len() {
                let mut changed = value.clone();
                changed[at] ^= 1;
                assert_ne!(read(&sealer, &one, &changed).as_deref(), Some(message));
                assert_eq!(read(&sealer, &one, &value[..at]), None, "{at} of {message}");
            }
        }
        for odd in [&b""[..], b"zz", &[b'%'; 40], &[b'f'; 32], &[0xff; 50]] {
            assert!(!read(&sealer, &one, odd, &mut Vec::new()));
        }
    }
}
