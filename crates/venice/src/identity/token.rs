//! A token, by which a node joins once: a secret that the authority knows, and whom to tell it.

use aws_lc_rs::digest::{SHA256, digest};
use std::fmt;
use std::str::FromStr;

/// Bytes of a token's secret: nobody guesses 128 bits.
pub(super) const SECRET_BYTES: usize = 16;

/// SHA-256 of an authority's certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub(super) [u8; 32]);

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(crate) secret: [u8; SECRET_BYTES],
    /// Of the authority: who answers must show a certificate that it has signed.
    pub(crate) authority: Fingerprint,
}

/// What is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no token: copy the whole line that `rhythm venice token` wrote")]
pub struct NoToken;

impl Fingerprint {
    pub(crate) fn of(certificate: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }
}

impl Token {
    /// The authority whose monitor is to be told the secret, and nobody else.
    pub fn authority(&self) -> Fingerprint {
        self.authority
    }
}

/// The bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    // Numbers may begin with a +, too.
    if digits.len() != 2 * N || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

impl FromStr for Token {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Token, NoToken> {
        let (secret, authority) = text.trim().split_once('.').ok_or(NoToken)?;
        Ok(Token {
            secret: bytes(secret).ok_or(NoToken)?,
            authority: authority.parse()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", hex(&self.secret), self.authority)
    }
}

impl FromStr for Fingerprint {
    type Err = NoToken;

    fn from_str(digits: &str) -> Result<Fingerprint, NoToken> {
        bytes(digits).map(Fingerprint).ok_or(NoToken)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

// Nothing of its secret is shown.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(.., {})", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_line_of_text() {
        let token = Token {
            secret: [0xa5; SECRET_BYTES],
            authority: Fingerprint::of(b"a certificate"),
        };
        let text = token.to_string();
        assert_eq!(format!("{text}\n").parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains("a5a5"));
        for wrong in ["", ".", &text[1..], &text[..90], &text.replace('a', "+")] {
            assert_eq!(wrong.parse::<Token>(), Err(NoToken), "{wrong}");
        }
    }
}
