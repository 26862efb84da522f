//! CSRF tokens: how a request shows that a page of this service had it sent, whatever a browser
//! tells of its origin.
//!
//! A token is a keyed hash of what the session's cookie says, so that nothing is kept for it: it is
//! its session's alone, another after each sign-in, and nobody who cannot read the service's pages
//! can make it. Who has no session yet, and is shown a form, gets an id of no session for a cookie
//! (`SessionId::of_nobody`): a form that signs in needs a token, too, or another site could sign
//! visitors in as somebody else. Another host of the domain can put a cookie of its own in its
//! place and know the token of that, but of nobody's session.
//!
//! Each token has a number in it, which the hash covers, so that hardly two pages show the same:
//! whoever has pages compressed beside texts of his own finds nothing out by their lengths
//! (BREACH).

use crate::intake::origin::is_safe;
use crate::intake::parser::session_of;
use crate::intake::scratch::empty;
use crate::seal::{Purpose, Sealer};
use crate::site::Site;
use crate::site::content::ContentKind;
use rhythm_engine::program::Csrf;
use rhythm_engine::session::SessionId;
use rhythm_http::Incoming;
use rhythm_protocol::http::{multipart, uri};

/// The header in which scripts send a token.
const HEADER: &str = "x-csrf-token";

/// Why a request is refused, as the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoToken(pub(crate) &'static str);

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Tokens {
    sealer: Sealer,
    /// Of the token made last.
    number: u32,
    // Memory kept from request to request.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Tokens {
    /// Those of a key, numbered from behind this one on: each worker begins with another, so that
    /// they make the same one seldom.
    pub(crate) fn new(sealer: Sealer, number: u32) -> Tokens {
        Tokens {
            sealer,
            number,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// What seals them, and whatever else the site gives away.
    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// A token of whoever has this id.
    pub(crate) fn next(&mut self, of: &SessionId) -> [u8; SessionId::TEXT_LEN] {
        self.number = self.number.wrapping_add(1);
        self.numbered(of, self.number).to_text()
    }

    /// The token of a number. It is spelled, and compared, as ids are: a number of 32 bits, and 128
    /// bits that nobody can guess.
    fn numbered(&self, of: &SessionId, number: u32) -> SessionId {
        let seal = (self.sealer).seal(Purpose::Token, of, &number.to_be_bytes());
        SessionId::new(number, seal)
    }

    /// Whether a request may do what it asks its page for.
    ///
    /// # Errors
    /// It needs a token, and has none that is its session's.
    #[inline]
    pub(crate) fn check(
        &mut self,
        site: &Site,
        page: u32,
        request: Incoming<'_>,
    ) -> Result<(), NoToken> {
        let is_checked = site.service.pages[page as usize].csrf.is_checked;
        match is_checked && !is_safe(request.head) {
            true => self.check_token(site, request),
            false => Ok(()),
        }
    }

    fn check_token(&mut self, site: &Site, request: Incoming<'_>) -> Result<(), NoToken> {
        let Incoming { head, bytes, .. } = request;
        let session = session_of(site, head, bytes).ok_or(NoToken("it has no session's cookie"))?;
        let given = match head.values(bytes, HEADER).next() {
            Some(given) => SessionId::parse(given),
            None => self.read_form(request).ok_or(NoToken("it has no token"))?,
        };
        let given = given.ok_or(NoToken("what it has is no token"))?;
        match given == self.numbered(&session, given.slot()) {
            true => Ok(()),
            false => Err(NoToken(
                "its token is another session's, or of before a restart",
            )),
        }
    }

    /// What a request's form has for a token, if it has something: the inner is `None` where that
    /// is no token.
    fn read_form(&mut self, request: Incoming<'_>) -> Option<Option<SessionId>> {
        let given = self.of_form(request).map(SessionId::parse);
        empty(&mut self.name);
        empty(&mut self.value);
        given
    }

    fn of_form<'r>(&'r mut self, request: Incoming<'r>) -> Option<&'r [u8]> {
        let Incoming {
            head,
            bytes,
            content,
        } = request;
        let Tokens { name, value, .. } = self;
        match ContentKind::of(head, bytes) {
            ContentKind::Form => {
                let (_, given) = uri::pairs(content)
                    .find(|(raw, _)| uri::form_value(raw, name) == Ok(Csrf::NAME.as_bytes()))?;
                uri::form_value(given, value).ok()
            }
            ContentKind::Multipart(boundary) => {
                let mut parts = multipart::parts(content, boundary).map_while(Result::ok);
                let given = parts.find(|part| part.name == Csrf::NAME.as_bytes())?;
                given.file.is_none().then_some(given.content)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_session_and_one_key() {
        let mut tokens = Tokens::new(Sealer::new(7), 9);
        let [one, other] = [1, 2].map(|random| SessionId::new(3, random));
        let [first, second] = [tokens.next(&one), tokens.next(&one)];
        assert_ne!(first, second, "no page shows what another has shown");
        for token in [first, second] {
            let token = SessionId::parse(&token).expect("it is spelled as ids are");
            let is_of = |tokens: &Tokens, of| token == tokens.numbered(of, token.slot());
            assert!(is_of(&tokens, &one));
            assert!(!is_of(&tokens, &other));
            assert!(!is_of(&Tokens::new(Sealer::new(8), 9), &one));
        }
    }
}
