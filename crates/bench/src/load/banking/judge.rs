//! Whether an answer is the right one.

use super::super::walk::{Answer, Fault};
use super::chain::Page;
use super::expect::Expected;
use super::files::{Files, fault};
use super::validate::Validator;
use super::visit::{Ask, Probe, Visit};
use rhythm_protocol::http::head::Known;

/// What must come for a request.
#[derive(Debug, Default)]
pub(crate) struct Due {
    pub(crate) page: Expected,
    /// The static file this must equal, for check images.
    pub(crate) file: Option<u16>,
    /// Whether there was a condition, so that 304 must come.
    pub(crate) is_conditional: bool,
}

/// Judges answers; what it must know of files it learns from the first of each.
#[derive(Debug)]
pub(crate) struct Judge {
    validator: Validator,
    /// What a user gets who is not signed in.
    login_form: Expected,
    pub(crate) files: Files,
    /// Whether more than statuses is looked at.
    validate: bool,
}

impl Judge {
    pub(crate) fn new(validate: bool) -> Judge {
        Judge {
            validator: Validator::default(),
            login_form: Expected {
                page: "login_form",
                ..Expected::default()
            },
            files: Files::default(),
            validate,
        }
    }

    /// What was asked for, in words.
    pub(crate) fn describe(&self, ask: Ask) -> String {
        match ask {
            Ask::Page(page) => page.name().to_owned(),
            Ask::Static(file) => self.files.get(file).path.clone(),
            Ask::Probe(Probe::OldCookie) => {
                "account_summary with the cookie of a session logged out".to_owned()
            }
            Ask::Probe(Probe::WrongPassword) => "login with a wrong password".to_owned(),
            Ask::Probe(Probe::UnknownCheck) => "check_detail_html of an unknown check".to_owned(),
            Ask::SignOut => "HEAD logout".to_owned(),
        }
    }

    /// Whether an answer is the right one; after a right login the visit is signed in.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn judge(
        &mut self,
        ask: Ask,
        due: &Due,
        answer: &Answer<'_>,
        visit: &mut Visit,
    ) -> Result<(), Fault> {
        let status = answer.head.status();
        if let (Ask::Static(_), 304, true) = (ask, status, due.is_conditional) {
            return Ok(());
        }
        if status != 200 {
            return Err(Fault::Error(format!(
                "status {status} for {}",
                self.describe(ask)
            )));
        }
        let asks_as_user = match ask {
            Ask::Page(page) => page != Page::Login,
            Ask::Probe(probe) => probe == Probe::UnknownCheck,
            Ask::Static(_) | Ask::SignOut => false,
        };
        if asks_as_user
            && visit.has_lost_connection
            && self.validate
            && self.validator.check(answer.body, &self.login_form).is_ok()
        {
            // A server that was restarted knows nobody. It is no wrong page, but no right one.
            return Err(Fault::Error(
                "signed out: the session did not survive the connection".to_owned(),
            ));
        }
        match ask {
            Ask::SignOut => return Ok(()),
            Ask::Static(file) => return self.judge_file(file, due.is_conditional, answer),
            Ask::Page(Page::CheckDetailImage) => {
                let known = due
                    .file
                    .and_then(|file| self.files.get(file).bytes.as_deref());
                return match known {
                    _ if !self.validate => Ok(()),
                    _ if answer.known(Known::ContentType) != b"image/png" => {
                        Err(Fault::invalid("wrong Content-Type of an image"))
                    }
                    Some(bytes) if bytes != answer.body => Err(Fault::invalid(
                        "an image other than the file that BeSim names",
                    )),
                    _ => Ok(()),
                };
            }
            Ask::Page(_) | Ask::Probe(_) if !self.validate => {}
            Ask::Page(_) | Ask::Probe(_) => {
                if !answer.known(Known::ContentType).starts_with(b"text/html") {
                    return Err(Fault::invalid("wrong Content-Type of a page"));
                }
                self.validator
                    .check(answer.body, &due.page)
                    .map_err(|mismatch| Fault::Invalid {
                        kind: mismatch.kind.to_string(),
                        reason: mismatch.to_string(),
                        offset: mismatch.offset,
                    })?;
            }
        }
        if ask == Ask::Page(Page::Login) {
            let cookie = session_cookie(answer).map_err(Fault::invalid)?;
            visit.cookie.clear();
            visit.cookie.extend_from_slice(cookie);
            (visit.signed_in, visit.has_lost_connection) = (true, false);
        }
        Ok(())
    }

    fn judge_file(
        &mut self,
        file: u16,
        is_conditional: bool,
        answer: &Answer<'_>,
    ) -> Result<(), Fault> {
        let file = self.files.get_mut(file);
        match &file.bytes {
            Some(bytes) if **bytes != *answer.body => {
                Err(Fault::invalid("a static file that differs from before"))
            }
            Some(_) if is_conditional => {
                Err(Fault::invalid("a whole static file where 304 was due"))
            }
            Some(_) => Ok(()),
            None => match fault(&file.path, answer.known(Known::ContentType), answer.body) {
                Some(fault) => Err(Fault::invalid(fault)),
                None => {
                    file.etag = answer.known(Known::ETag).to_vec();
                    file.modified = answer.known(Known::LastModified).to_vec();
                    file.bytes = Some(answer.body.into());
                    Ok(())
                }
            },
        }
    }
}

/// The session's cookie of a login, as it is sent back, if it is set as it should be.
fn session_cookie<'a>(answer: &Answer<'a>) -> Result<&'a [u8], &'static str> {
    let cookie = answer.cookie(b"rhythm_session");
    let (cookie, attributes) = cookie.ok_or("no session cookie after a login")?;
    let has = |attribute: &[u8]| {
        let mut attributes = attributes.split(|byte| *byte == b';');
        attributes.any(|found| found.trim_ascii().eq_ignore_ascii_case(attribute))
    };
    if !has(b"HttpOnly") || !has(b"SameSite=Lax") {
        return Err("a session cookie without HttpOnly and SameSite=Lax");
    }
    Ok(cookie)
}
