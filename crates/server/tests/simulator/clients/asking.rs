//! What a client asks for next, and how it says it.

use super::{Client, RESET, REST};
use crate::manners::{Pending, Session, Shared};
use crate::requests::{Ask, Wanted};
use crate::world::{LinkId, SECOND, World};

impl Client {
    /// The next thing to ask for.
    fn choose(&mut self, shared: &mut Shared<'_>) -> Ask {
        let manners = self.manners;
        if manners.one_page {
            return Ask::login_form(&mut self.dice);
        }
        if self.chance(manners.bad) {
            return Ask::bad(&mut self.dice);
        }
        if self.chance(manners.anonymous) {
            let etags = &self.etags;
            let etag = |path: &str| etags.get(path).cloned();
            return Ask::anonymous(shared.reference, &mut self.dice, etag);
        }
        // Now and then by a browser that has a session.
        let again = if self.session.cookie.is_none() { 6 } else { 24 };
        if self.dice.once_in(again) == self.session.cookie.is_some() {
            return Ask::login(&mut self.dice, self.user);
        }
        if self.chance(manners.logout) {
            return Ask::logout(&mut self.dice);
        }
        Ask::any_page(&mut self.dice, self.user)
    }

    /// Asks for something; says whether to wait for the answer before asking more.
    pub(super) fn ask(&mut self, link: LinkId, world: &mut World, shared: &mut Shared<'_>) -> bool {
        let manners = self.manners;
        if self.session.cookie.is_some() && self.chance(manners.forget) {
            // The session stays, but nobody knows of it; later logins may end it.
            if shared.explains.sessions_limited {
                self.fade(shared);
                // Also for what is under way.
                for other in &mut self.pending {
                    other.fading = true;
                }
            }
            self.session = Session::default();
        }
        let ask = self.choose(shared);
        let head = ask.method == "GET" && ask.raw.is_none() && self.chance(manners.head);
        let http10 = ask.raw.is_none() && self.chance(manners.http10);
        let close = http10 || ask.raw.is_none() && self.chance(manners.close);
        let (mut bytes, mut rest) = (Vec::new(), None);
        match &ask.raw {
            Some(raw) => bytes.extend_from_slice(raw),
            None => {
                let method = if head { "HEAD" } else { ask.method };
                let version = if http10 { "1.0" } else { "1.1" };
                let mut text = format!("{method} {} HTTP/{version}\r\nHost: bank\r\n", ask.target);
                text += &ask.headers;
                if self.dice.once_in(3) {
                    text += "Accept-Encoding: gzip\r\n";
                }
                if let Some(cookie) = &self.session.cookie {
                    text += &format!("Cookie: a=b; rhythm_session={cookie}\r\n");
                }
                if close && !http10 {
                    text += "Connection: close\r\n";
                }
                let mut content = Vec::new();
                if let Some(form) = &ask.form {
                    text += "Content-Type: application/x-www-form-urlencoded\r\n";
                    if !http10 && self.chance(manners.chunked) {
                        text += "Transfer-Encoding: chunked\r\n";
                        content = self.in_chunks(form.as_bytes());
                    } else {
                        text += &format!("Content-Length: {}\r\n", form.len());
                        content = form.clone().into_bytes();
                    }
                    if !http10 && !content.is_empty() && self.chance(manners.expect) {
                        text += "Expect: 100-continue\r\n";
                        rest = Some(std::mem::take(&mut content));
                    }
                }
                bytes.extend_from_slice(text.as_bytes());
                bytes.extend_from_slice(b"\r\n");
                bytes.extend_from_slice(&content);
            }
        }
        let mut pending = Pending {
            head,
            close,
            ends_at: 0,
            begun: world.now,
            epoch: shared.epoch,
            complete: true,
            user: self.session.cookie.as_ref().map(|_| i64::from(self.user)),
            fading: self.session.fading || shared.explains.sessions_expire,
            rest: None,
            wanted: ask.wanted,
        };
        if let Some((hangs_for, _)) = shared.explains.hangs_for
            && let Some(user) = pending.user
            && pending.is_page(shared.explains.hangs)
        {
            (shared.books.hung_until).push((user, world.now + hangs_for));
        }
        let mut waits = false;
        if let Wanted::Page { name, .. } = pending.wanted {
            if name == "login" {
                waits = true;
                // It ends the session that the cookie names, and its answer may be lost.
                if self.session.cookie.is_some() {
                    self.fade(shared);
                    for other in &mut self.pending {
                        other.fading = true;
                    }
                }
            } else if name == "logout" && self.session.cookie.is_some() {
                // From now on, and for what is under way already, it may be gone.
                self.fade(shared);
                for other in &mut self.pending {
                    other.fading = true;
                }
                pending.fading = true;
            }
        }
        self.last_sent |= close;
        world.say(|| format!("client {} asks {} {}", self.id, ask.method, ask.target));
        if self.chance(manners.stall) {
            let part = 1 + self
                .dice
                .below(bytes.len() + rest.as_ref().map_or(0, Vec::len));
            bytes.append(rest.as_mut().unwrap_or(&mut Vec::new()));
            rest = None;
            if part < bytes.len() {
                bytes.truncate(part);
                pending.complete = false;
                self.last_sent = true;
                match self.dice.below(3) {
                    0 => {}
                    1 => world.wake(self.id, SECOND, Client::token(link, RESET)),
                    _ => self.finish(link, world),
                }
            }
        }
        self.sent += bytes.len() as u64;
        pending.ends_at = self.sent;
        world.send_from(link, &bytes);
        if let Some(rest) = rest {
            // Known to be longer, even if it is never sent.
            pending.ends_at += rest.len() as u64;
            pending.rest = Some(rest);
            // Some wait for nothing but the server's word.
            if self.dice.once_in(2) {
                world.wake(self.id, SECOND, Client::token(link, REST));
            }
            waits = true;
        }
        self.pending.push_back(pending);
        if !self.last_sent && !waits && self.chance(manners.half_close) {
            self.last_sent = true;
            self.finish(link, world);
        }
        waits
    }

    fn in_chunks(&mut self, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = content;
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(1 + self.dice.below(rest.len()));
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
            rest = more;
        }
        out.extend_from_slice(b"0\r\n\r\n");
        out
    }
}
