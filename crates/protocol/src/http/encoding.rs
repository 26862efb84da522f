//! How content is encoded, and in which encodings a client takes it (RFC 9110 sections 8.4 and
//! 12.5.3).
//!
//! What answers knows the [`Encodings`] that it has its content in, a request those that its client
//! takes; both have [`Encoding::Identity`] in them, so there is always one to answer with.

use super::head::{elements, trim};

/// A content coding (RFC 9110 section 8.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// None: content as it is.
    #[default]
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
}

impl Encoding {
    /// Its name in Content-Encoding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Identity => "identity",
            Encoding::Gzip => "gzip",
            Encoding::Brotli => "br",
        }
    }

    /// What it adds to a set of encodings.
    const fn bits(self) -> u8 {
        match self {
            Encoding::Identity => 0,
            Encoding::Gzip => 1,
            Encoding::Brotli => 2,
        }
    }
}

/// Whoever takes gzip and brotli would rather have gzip.
const GZIP_FIRST: u8 = 4;

/// A set of encodings; identity is always in it. That of a client says, too, which it would rather
/// have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encodings(u8);

impl Encodings {
    /// With one more.
    #[must_use]
    pub const fn with(self, encoding: Encoding) -> Encodings {
        Encodings(self.0 | encoding.bits())
    }

    /// Whether an encoding is in it.
    #[inline]
    #[must_use]
    pub const fn contains(self, encoding: Encoding) -> bool {
        self.0 & encoding.bits() == encoding.bits()
    }

    /// Those other than identity, what is to be preferred first: what the client likes best, and of
    /// what it likes alike, brotli, which is the smaller.
    #[inline]
    pub fn in_order(self) -> impl Iterator<Item = Encoding> {
        let order = match self.0 & GZIP_FIRST {
            0 => [Encoding::Brotli, Encoding::Gzip],
            _ => [Encoding::Gzip, Encoding::Brotli],
        };
        order.into_iter().filter(move |it| self.contains(*it))
    }
}

/// How much an encoding is wanted, in thousandths; 0: not at all.
type Weight = u16;

/// What Accept-Encoding lines say together (RFC 9110 section 12.5.3); where one says nothing, that
/// is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptEncoding {
    identity: Option<Weight>,
    gzip: Option<Weight>,
    brotli: Option<Weight>,
    /// `*`: all that are not named.
    others: Option<Weight>,
}

impl AcceptEncoding {
    /// Adds a line's encodings. What is malformed, or not known here, is left out.
    #[inline(always)]
    pub(crate) fn add(&mut self, value: &[u8]) {
        match value {
            // What nearly all clients send.
            b"gzip, deflate, br, zstd" | b"gzip, deflate, br" => {
                self.gzip = Some(1000);
                self.brotli = Some(1000);
            }
            b"gzip, deflate" => self.gzip = Some(1000),
            _ => self.add_list(value),
        }
    }

    fn add_list(&mut self, value: &[u8]) {
        for element in elements(value) {
            let end = element.iter().position(|byte| *byte == b';');
            let (name, weight) = match end {
                None => (element, Some(1000)),
                Some(end) => (trim(&element[..end]), weight(trim(&element[end + 1..]))),
            };
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            let of = if is(b"gzip") || is(b"x-gzip") {
                &mut self.gzip
            } else if is(b"br") {
                &mut self.brotli
            } else if is(b"identity") {
                &mut self.identity
            } else if name == b"*" {
                &mut self.others
            } else {
                continue;
            };
            *of = weight.or(*of);
        }
    }

    /// The encodings that the client takes, and likes no less than identity. That it refuses
    /// identity is not heeded: an answer it may have to cope with is better than none.
    pub(crate) fn accepted(self) -> Encodings {
        let weight = |of: Option<Weight>| of.or(self.others).unwrap_or(0);
        let (gzip, brotli) = (weight(self.gzip), weight(self.brotli));
        let least = weight(self.identity).max(1);
        let mut accepted = Encodings::default();
        if gzip >= least {
            accepted = accepted.with(Encoding::Gzip);
        }
        if brotli >= least {
            accepted = accepted.with(Encoding::Brotli);
        }
        if gzip > brotli {
            accepted.0 |= GZIP_FIRST;
        }
        accepted
    }
}

/// Reads `q=` and its value (RFC 9110 section 12.4.2): at most 1, with three digits behind the
/// point at most.
fn weight(parameter: &[u8]) -> Option<Weight> {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), rest @ ..] = parameter else {
        return None;
    };
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] => digits,
        _ => return None,
    };
    if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let whole = Weight::from(whole - b'0') * 1000;
    let parts = digits.iter().zip([100, 10, 1]);
    let part: Weight = parts
        .map(|(digit, worth)| Weight::from(digit - b'0') * worth)
        .sum();
    Some(whole + part).filter(|weight| *weight <= 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_by_those_who_like_it_no_less_than_identity() {
        for (lines, takes_gzip) in [
            (&["gzip"][..], true),
            (&["gzip, deflate, br, zstd"], true),
            (&["gzip, deflate, br", "identity;q=0.5"], true),
            (&["gzip,deflate,br"], true),
            (&["deflate , GZip"], true),
            (&["x-gzip"], true),
            (&["br", "gzip"], true),
            (&["*"], true),
            (&["gzip;q=0.001"], true),
            (&["gzip ; q=1.000, identity;q=0.5"], true),
            (&["gzip;Q=0.5, *;q=0"], true),
            (&["identity;q=0, *;q=0.1"], true),
            (&["gzip;q=0.5, identity;q=0.5"], true),
            (&[""], false),
            (&["deflate, br"], false),
            (&["identity"], false),
            (&["gzip;q=0"], false),
            (&["gzip;q=0.000, *"], false),
            (&["*;q=0"], false),
            (&["gzip;q=0.5, identity;q=0.501"], false),
            (&["gzip;q=0.5, *"], false),
            (&["gzip;q=1.001"], false),
            (&["gzip;q=0.0001"], false),
            (&["gzip;q=2"], false),
            (&["gzip;q=.5"], false),
            (&["gzip;q"], false),
            (&["gzip;level=9"], false),
            (&["gzip deflate"], false),
            (&["gzipped"], false),
        ] {
            let mut said = AcceptEncoding::default();
            for line in lines {
                said.add(line.as_bytes());
            }
            let accepted = said.accepted();
            assert_eq!(accepted.contains(Encoding::Gzip), takes_gzip, "{lines:?}");
            assert!(accepted.contains(Encoding::Identity));
        }
    }

    #[test]
    fn what_is_liked_best_comes_first_and_brotli_among_equals() {
        use Encoding::{Brotli, Gzip};
        for (line, expected) in [
            ("gzip, deflate, br, zstd", &[Brotli, Gzip][..]),
            ("gzip, deflate, br", &[Brotli, Gzip]),
            ("gzip, deflate", &[Gzip]),
            ("BR", &[Brotli]),
            ("*", &[Brotli, Gzip]),
            ("br;q=0.5, gzip", &[Gzip, Brotli]),
            ("br, gzip;q=0.5", &[Brotli, Gzip]),
            ("*;q=0.5, gzip;q=0.6", &[Gzip, Brotli]),
            ("br;q=0, gzip", &[Gzip]),
            ("br;q=0, *", &[Gzip]),
            ("gzip;q=0.4, br;q=0.6, identity;q=0.5", &[Brotli]),
            ("identity;q=0, br;q=0.001", &[Brotli]),
            ("identity;q=0", &[]),
            ("broth", &[]),
            ("", &[]),
        ] {
            let mut said = AcceptEncoding::default();
            said.add(line.as_bytes());
            let order: Vec<Encoding> = said.accepted().in_order().collect();
            assert_eq!(order, expected, "{line}");
        }
    }
}
