//! What a node that joins and its monitor say to each other, in TLS that only the monitor has shown
//! a certificate in.
//!
//! ```text
//!   node                                       monitor
//!   Ask(secret of a token, request) ---------->
//!     <--------------------------------------- Has(certificates), or Not(why); the connection ends
//! ```

use super::Framed;
use super::bytes::{Put, Taker};

/// Most bytes of such a message.
pub(crate) const JOIN_MAX: usize = 16 << 10;
/// Most bytes of a text in it.
const TEXT_MAX: usize = 4 << 10;

/// One message.
#[derive(Clone, PartialEq, Eq)]
pub enum Join {
    /// A node asks for a certificate.
    Ask {
        /// Of its token.
        secret: [u8; 16],
        /// PKCS #10, in DER, signed with the key that the certificate is to be for.
        request: Vec<u8>,
    },
    /// It has one.
    Has {
        /// As PEM.
        certificate: String,
        /// Its authority's, which the token names.
        authority: String,
    },
    /// It has none.
    Not {
        /// Why, for a person.
        why: String,
    },
}

impl Framed for Join {
    fn put_into(&self, out: &mut Vec<u8>) {
        match self {
            Join::Ask { secret, request } => {
                out.push(1);
                out.extend_from_slice(secret);
                out.put_u32(request.len() as u32);
                out.extend_from_slice(request);
            }
            Join::Has {
                certificate,
                authority,
            } => {
                out.push(2);
                out.put_text(cut(certificate));
                out.put_text(cut(authority));
            }
            Join::Not { why } => {
                out.push(3);
                out.put_text(cut(why));
            }
        }
    }

    fn take_from(bytes: &[u8]) -> Option<Join> {
        let mut from = Taker(bytes);
        let join = match from.u8()? {
            1 => Join::Ask {
                secret: from.array()?,
                request: from.list(1, Taker::u8)?,
            },
            2 => Join::Has {
                certificate: from.text()?.to_owned(),
                authority: from.text()?.to_owned(),
            },
            3 => Join::Not {
                why: from.text()?.to_owned(),
            },
            _ => return None,
        };
        from.0.is_empty().then_some(join)
    }
}

/// What a text may have; a certificate of a node is shorter.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

// Nothing of a token's secret is shown.
impl std::fmt::Debug for Join {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Join::Ask { .. } => "Ask",
            Join::Has { .. } => "Has",
            Join::Not { .. } => "Not",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{first, put};

    #[test]
    fn what_is_put_is_taken_and_nothing_else() {
        let all = [
            Join::Ask {
                secret: [7; 16],
                request: vec![1, 2, 3],
            },
            Join::Has {
                certificate: "-----BEGIN".to_owned(),
                authority: "-----BEGIN".to_owned(),
            },
            Join::Not {
                why: "ä".repeat(5000),
            },
        ];
        for join in all {
            let mut bytes = Vec::new();
            put(&join, &mut bytes);
            let (taken, end) = first::<Join>(&bytes, JOIN_MAX)
                .expect("it is one")
                .expect("it is whole");
            assert_eq!(end, bytes.len());
            match (&taken, &join) {
                (Join::Not { why }, Join::Not { why: long }) => assert!(long.starts_with(why)),
                _ => assert_eq!(taken, join),
            }
            for end in 4..bytes.len() {
                assert_eq!(Join::take_from(&bytes[4..end]), None);
            }
        }
    }
}
