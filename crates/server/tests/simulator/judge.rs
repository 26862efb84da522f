//! Whether an answer is right: the page as the reference makes it, or an error that a fault of the
//! run explains.

use crate::answers::{self, Response};
use crate::backends::{Met, who};
use crate::clients::Client;
use crate::manners::{Pending, Session, Shared};
use crate::reference::Values;
use crate::requests::{Part, Wanted};
use crate::world::{SECOND, World};
use rhythm_engine::cohort::SessionChange;
use std::rc::Rc;

impl Client {
    /// Whether this answers that.
    pub(crate) fn judge(
        &mut self,
        pending: &Pending,
        response: &Response,
        world: &World,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        let status = response.status;
        shared.books.seen.insert(status.to_string());
        if response.header("content-encoding").is_some() {
            shared.books.seen.insert("gzip".to_owned());
        }
        let waited = world.now - pending.begun;
        // When a drain's grace is over, a head that is not whole is not waited for long.
        let is_hurried = world.now >= shared.drain.0 && waited >= SECOND / 10 * 9;
        let slow = !pending.complete || waited >= shared.explains.patience || is_hurried;
        if shared.explains.soon.is_some_and(|soon| waited > soon) && self.is_prompt(pending, shared)
        {
            return Err(format!("answered after {waited} ns: {pending:?}"));
        }
        if status == 408 && pending.rest.is_some() && !is_hurried {
            return Err(format!("a 408 instead of a 100: {pending:?}"));
        }
        if status == 408 && slow || status == 400 && !pending.complete {
            return self.honest_error(pending, shared);
        }
        match &pending.wanted {
            Wanted::Refusal(statuses, closes) => {
                if !statuses.contains(&status) || *closes && !response.closes() {
                    return Err(format!("a {status} for {pending:?}"));
                }
                if status == 405 && response.header("allow").is_none() {
                    return Err("a 405 without Allow".to_owned());
                }
                shared.books.others += 1;
                Ok(())
            }
            Wanted::Hosted(body) => {
                check_body(pending, response, 200, body)?;
                shared.books.others += 1;
                shared.books.seen.insert("host".to_owned());
                Ok(())
            }
            Wanted::Redirect(to) => {
                if status != 303 || response.header("location") != Some(to) {
                    return Err(format!("a {status} for {pending:?}"));
                }
                shared.books.others += 1;
                Ok(())
            }
            Wanted::File { .. } if status == 503 && shared.explains.disk => {
                shared.books.seen.insert("files that fail".to_owned());
                self.honest_error(pending, shared)
            }
            Wanted::File { path, part } => {
                let bytes = &shared.reference.statics[path];
                let (expected, body) = match part {
                    Part::Whole => (200, &bytes[..]),
                    Part::IfNot(_) => (304, &[][..]),
                    Part::Range(start, end) => (206, &bytes[*start..=*end]),
                };
                // A range does not apply to HEAD (RFC 9110, section 14.2).
                let (expected, body) = match part {
                    Part::Range(..) if pending.head => (200, &bytes[..]),
                    _ => (expected, body),
                };
                check_body(pending, response, expected, body)?;
                if let Some(etag) = response.header("etag") {
                    self.etags.insert(path.clone(), etag.to_owned());
                }
                shared.books.others += 1;
                Ok(())
            }
            Wanted::Page { name, values } => {
                self.judge_page(pending, response, (name, values), shared)
            }
        }
    }

    fn judge_page(
        &mut self,
        pending: &Pending,
        response: &Response,
        (name, values): (&str, &Rc<Values>),
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        let explains = shared.explains;
        let uses_session = shared.reference.uses_session(name);
        let users = match pending.user.filter(|_| uses_session) {
            Some(user) if pending.fading => vec![Some(user), None],
            user => vec![user],
        };
        // Versions alternate, so two epochs are all there is.
        let epochs = pending.epoch..=shared.epoch.min(pending.epoch + 1);
        let mut why = String::new();
        let mut has_calls = false;
        for version in epochs.map(|epoch| epoch % 2) {
            let Some(page) = shared.reference.page(version, name) else {
                if response.status == 404 {
                    shared.books.others += 1;
                    return Ok(());
                }
                continue;
            };
            let calls = shared.reference.calls(version, page);
            has_calls |= calls > 0;
            let refused = (0..calls).filter(|_| explains.refused).map(Some);
            for refused in std::iter::once(None).chain(refused) {
                for user in &users {
                    let answer = shared
                        .reference
                        .answer(version, page, values, *user, refused);
                    let result = check_body(pending, response, answer.status, &answer.body);
                    let result = result.and_then(|()| match response.header("content-type") {
                        Some(kind) if kind == answer.content_type => Ok(()),
                        other => Err(format!("{other:?} instead of {}", answer.content_type)),
                    });
                    match result {
                        Ok(()) => {
                            if refused.is_some() {
                                self.blame(shared, |met| &mut met.refusals)?;
                            }
                            shared.books.pages += 1;
                            shared.books.seen.insert(name.to_owned());
                            let missing = pending.user.is_some() && uses_session && user.is_none();
                            let kept = name == "login" && !pending.fading;
                            return self.take_session(
                                response,
                                answer.session,
                                missing,
                                kept,
                                shared,
                            );
                        }
                        // The first is what should have been.
                        Err(problem) if why.is_empty() => why = problem,
                        Err(_) => {}
                    }
                }
            }
        }
        let is_hated = explains.fails_for(self.user);
        let hangs = explains.hangs == Some(name) || pending.waits_for_own(shared);
        let backend = (explains.backend || is_hated || hangs) && has_calls;
        let status = response.status;
        let file = explains.disk && name == "check_detail_image";
        if status == 500 && explains.device
            || status == 503 && file
            || status == 503 && explains.memory
            || status == 503 && name == "login" && explains.sessions_scarce
            || status == 429 && name == "login" && explains.sign_ins_limited
        {
            return self.honest_error(pending, shared);
        }
        if matches!(status, 502..=504) && backend {
            self.blame(shared, |met| &mut met.faults).map_err(|why| {
                format!(
                    "{why}: {status} {}; {pending:?}",
                    String::from_utf8_lossy(&response.body)
                )
            })?;
            return self.honest_error(pending, shared);
        }
        Err(format!(
            "a {} that is wrong: {why}; {pending:?}",
            response.status
        ))
    }

    /// Takes a fault of the backend as the reason of what this client got.
    fn blame(
        &self,
        shared: &Shared<'_>,
        kind: impl Fn(&mut Met) -> &mut usize,
    ) -> Result<(), String> {
        let Some(blame) = &shared.blame else {
            return Ok(());
        };
        let mut blame = blame.borrow_mut();
        let left = kind(blame.entry(who(u64::from(self.user))).or_default());
        *left = left
            .checked_sub(1)
            .ok_or("an error for which the backend gave no reason")?;
        Ok(())
    }

    fn honest_error(&mut self, _: &Pending, shared: &mut Shared<'_>) -> Result<(), String> {
        shared.books.errors += 1;
        Ok(())
    }

    /// What the answer does to the session; `kept`: where it begins none, the client's lives on.
    fn take_session(
        &mut self,
        response: &Response,
        change: SessionChange,
        missing: bool,
        kept: bool,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        let cookie = response.header("set-cookie");
        let value = cookie.and_then(|cookie| cookie.strip_prefix("rhythm_session="));
        let value = value.and_then(|rest| rest.split(';').next());
        match (change, cookie, value) {
            (SessionChange::None, None, _) => {
                if missing {
                    self.end_session(shared);
                }
                if kept {
                    self.unfade(shared);
                }
                Ok(())
            }
            (SessionChange::Create(_), _, Some(id)) if id.len() == 40 => {
                // The browser's one before has ended with it.
                self.end_session(shared);
                shared.books.live += 1;
                self.session = Session {
                    cookie: Some(id.to_owned()),
                    fading: self.haunted,
                };
                shared.books.fading += i64::from(self.haunted);
                Ok(())
            }
            (SessionChange::Destroy, _, Some("")) => {
                self.end_session(shared);
                Ok(())
            }
            _ => Err(format!("{change:?} with the cookie {cookie:?}")),
        }
    }
}

/// Whether status and body are these.
fn check_body(
    pending: &Pending,
    response: &Response,
    status: u16,
    body: &[u8],
) -> Result<(), String> {
    if response.status != status {
        return Err(format!("{} instead of {status}", response.status));
    }
    let length = response.header("content-length").map(str::trim_start);
    let in_chunks = response.header("transfer-encoding").is_some();
    if in_chunks && !matches!(pending.wanted, Wanted::Hosted(_)) {
        return Err("a page in chunks".to_owned());
    }
    let is_encoded = response.header("content-encoding").is_some();
    let sent = if is_encoded {
        response.sent
    } else {
        body.len()
    };
    let is_known = !(is_encoded && pending.head);
    if status != 304 && !in_chunks && is_known && length != Some(&sent.to_string()) {
        return Err(format!("Content-Length {length:?} for {sent} bytes"));
    }

    if !pending.head && response.body != body {
        return Err(answers::difference(&response.body, body));
    }
    Ok(())
}
