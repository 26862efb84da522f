//! Users of services/banking: SPECweb's chain, every value known from [`rhythm_besim`].
//!
//! A page is requested and foretold by `visit` and `expect`, and compared by `judge` and
//! `validate`; `files` does the same for static files and check images.

mod chain;
mod expect;
mod files;
mod judge;
mod validate;
mod visit;

pub use chain::Page;
pub(crate) use expect::Expected;
pub(crate) use visit::Visit;

use super::rng::Rng;
use super::walk::{Answer, Fault, Kind, Next, PageShare, Walk, Workload};
use judge::{Due, Judge};
use rhythm_besim::Bank;
use rhythm_net::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;
use visit::{Ask, Probe, Side};

/// The time between two wrong passwords of all workers: servers refuse addresses from which many
/// come.
const WRONG_EVERY: Duration = Duration::from_secs(2);

/// The users of a bank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Banking {
    /// 1 to this number log in.
    pub users: u32,
    /// Whether the static files of pages are asked for, as browsers do.
    pub files: bool,
    /// One page only, again and again after one login for each session.
    pub page: Option<Page>,
    /// Requests sent on a connection before the first is answered; only with `page`.
    pub pipeline: usize,
    /// Whether things that must be refused are tried now and then: old cookies, wrong passwords,
    /// unknown checks.
    pub refusals: bool,
    /// Whether the session of a user who leaves without logging out is ended behind the scenes,
    /// since servers keep them for long.
    pub sign_out: bool,
}

impl Default for Banking {
    fn default() -> Banking {
        Banking {
            users: Bank::USERS_DEFAULT,
            files: true,
            page: None,
            pipeline: 1,
            refusals: true,
            sign_out: true,
        }
    }
}

impl Workload for Banking {
    type Walk = Users;

    const SERVICE: &'static str = "services/banking";

    fn pages(&self) -> Vec<PageShare> {
        let share = |page: Page| PageShare {
            name: page.name(),
            share: page.mix(),
        };
        Page::ALL.into_iter().map(share).collect()
    }

    fn is_walk(&self) -> bool {
        self.page.is_none()
    }

    fn pipeline(&self) -> usize {
        self.pipeline
    }

    fn check(&self, is_open_loop: bool) -> Result<(), &'static str> {
        Err(match self {
            Banking { users: 0, .. } => "the bank must have at least one user",
            Banking { pipeline: 0, .. } => "at least one request must be sent at a time",
            Banking {
                pipeline: 2..,
                page: None,
                ..
            } => {
                "users who walk read a page before they ask for the next: pipelining needs one page"
            }
            Banking { page: Some(_), .. } if is_open_loop => {
                "one page again and again is closed loop, and has no rate of arrivals: leave out \
                 --rate, and say with --sessions how many ask at a time, or leave out --page"
            }
            _ => return Ok(()),
        })
    }

    fn walk(&self, _: usize, workers: usize, validates: bool) -> Users {
        Users {
            options: self.clone(),
            bank: Bank::new(self.users),
            judge: Judge::new(validates),
            validates,
            next_wrong: Time::default(),
            wrong_every: WRONG_EVERY * workers as u32,
        }
    }
}

/// A worker's users.
#[derive(Debug)]
pub(crate) struct Users {
    options: Banking,
    bank: Bank,
    judge: Judge,
    validates: bool,
    /// When a wrong password may be tried again.
    next_wrong: Time,
    wrong_every: Duration,
}

impl Walk for Users {
    type Ask = Ask;
    type Visit = Visit;
    type Expected = Due;

    fn arrive(&mut self, due: Time, rng: &mut Rng, queue: &mut VecDeque<Ask>) -> Visit {
        let user = 1 + rng.below(self.options.users);
        // Three of four browsers have been here before.
        let visit = Visit::new(user, rng.one_in(4));
        let may_probe = self.options.refusals && self.options.is_walk();
        if may_probe && rng.one_in(64) && due >= self.next_wrong {
            self.next_wrong = due + self.wrong_every;
            queue.push_back(Ask::Probe(Probe::WrongPassword));
        }
        queue.push_back(Ask::Page(Page::Login));
        visit
    }

    fn next(&mut self, visit: &mut Visit, rng: &mut Rng) -> Option<Next<Ask>> {
        if let Some(page) = self.options.page {
            visit.side = Side::Front;
            let ask = Ask::Page(page);
            return Some(Next { ask, thinks: false });
        }
        let page = if visit.last == Page::CheckDetailImage && visit.side == Side::Front {
            visit.side = Side::Back;
            Page::CheckDetailImage
        } else {
            visit.side = Side::Front;
            visit.last.follow(rng)?
        };
        Some(Next {
            ask: Ask::Page(page),
            // It is part of the page before.
            thinks: page != Page::CheckDetailImage,
        })
    }

    fn leave(&mut self, visit: &mut Visit) -> Option<Ask> {
        let signs_out = visit.signed_in && self.options.sign_out;
        visit.signed_in = false;
        signs_out.then_some(Ask::SignOut)
    }

    fn ask(
        &mut self,
        ask: Ask,
        visit: &mut Visit,
        rng: &mut Rng,
        host: &str,
        out: &mut Vec<u8>,
        expected: &mut Due,
    ) -> Result<(), Ask> {
        expected.file = match ask {
            Ask::Page(Page::CheckDetailImage) if self.validates => {
                visit.check = visit.check.max(1);
                self.judge.files.of_check(&self.bank, visit)
            }
            _ => None,
        };
        // An image is compared with the file, so that must be known.
        let is_unknown = |file: &u16| self.judge.files.get(*file).bytes.is_none();
        let unknown = expected.file.filter(is_unknown);
        if let Some(file) = unknown.filter(|_| unknown != visit.compared) {
            visit.compared = unknown;
            return Err(Ask::Static(file));
        }
        expected.is_conditional = false;
        match ask {
            Ask::Page(page) => {
                visit.page(page, &self.bank, host, rng, out, &mut expected.page);
                visit.last = page;
            }
            Ask::Static(file) => {
                let files = &self.judge.files;
                let condition = files.condition(file, !visit.fresh, rng);
                expected.is_conditional = !condition.is_empty();
                visit.static_file(&files.get(file).path, &condition, host, out);
            }
            Ask::Probe(probe) => visit.probe(probe, &self.bank, host, out, &mut expected.page),
            Ask::SignOut => visit.sign_out(host, out),
        }
        Ok(())
    }

    fn kind(&self, ask: Ask) -> Kind {
        match ask {
            Ask::Page(page) => Kind::Page(page as usize),
            Ask::Static(_) => Kind::File,
            Ask::Probe(_) => Kind::Refusal,
            Ask::SignOut => Kind::SignOut,
        }
    }

    fn describe(&self, ask: Ask) -> String {
        self.judge.describe(ask)
    }

    fn judge(
        &mut self,
        ask: Ask,
        expected: &Due,
        answer: &Answer<'_>,
        visit: &mut Visit,
    ) -> Result<(), Fault> {
        let verdict = self.judge.judge(ask, expected, answer, visit);
        if matches!(verdict, Err(Fault::Error(_))) {
            visit.signed_in = false;
        }
        verdict
    }

    fn follow(
        &mut self,
        ask: Ask,
        expected: &Due,
        answer: &Answer<'_>,
        visit: &mut Visit,
        rng: &mut Rng,
        queue: &mut VecDeque<Ask>,
    ) {
        let Ask::Page(page) = ask else {
            return;
        };
        if !self.options.is_walk() {
            return;
        }
        if self.options.files && page != Page::CheckDetailImage {
            for file in self.judge.files.of_page(expected.page.page, answer.body) {
                let bit = 1 << file;
                if visit.seen & bit == 0 {
                    visit.seen |= bit;
                    queue.push_back(Ask::Static(*file));
                }
            }
        }
        let probe = match page {
            Page::Logout if rng.one_in(8) => Probe::OldCookie,
            Page::AccountSummary if rng.one_in(64) => Probe::UnknownCheck,
            _ => return,
        };
        if self.options.refusals {
            queue.push_back(Ask::Probe(probe));
        }
    }

    fn goes_on(&mut self, ask: Ask, is_right: bool, visit: &mut Visit) -> bool {
        if ask == Ask::Page(Page::Logout) {
            visit.signed_in = false;
        }
        visit.signed_in || is_right
    }

    fn lost(&mut self, visit: &mut Visit) {
        visit.has_lost_connection = true;
    }

    fn given_up(&mut self, visit: &mut Visit) {
        visit.signed_in = false;
    }
}
