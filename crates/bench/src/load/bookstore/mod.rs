//! Users of services/bookstore: they walk TPC-W's matrices, and every page is compared with a
//! population made of the same SQL.
//!
//! `mix` says who goes where, `visit` what one user knows and asks for, `judge` what he must be
//! shown, `catalog` what the shop has.

mod catalog;
mod jar;
mod judge;
mod mix;
mod visit;

pub use mix::Mix;

use super::rng::Rng;
use super::walk::{Answer, Fault, Kind, Next, PageShare, Walk, Workload};
use catalog::Catalog;
use mix::{Interaction, Path};
use rhythm_net::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use visit::{Ask, Form, Visit};

/// The users of a bookstore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bookstore {
    /// Where they go.
    pub mix: Mix,
    /// How many items the shop was populated with.
    pub items: u32,
    /// And for how many browsers: 2880 customers each.
    pub browsers: u32,
    /// Pages of a visit on average, if not the mix's own number.
    pub visit_pages: Option<f64>,
}

impl Default for Bookstore {
    fn default() -> Bookstore {
        Bookstore {
            mix: Mix::default(),
            items: 1000,
            browsers: 1,
            visit_pages: None,
        }
    }
}

/// The same, and what their shop has.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    options: Bookstore,
    catalog: Arc<Catalog>,
    /// How long it is loaded.
    duration: Duration,
}

impl Shop {
    /// Populates it; large ones take a while. It is loaded for `duration`.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn open(options: Bookstore, duration: Duration) -> rusqlite::Result<Shop> {
        let catalog = Catalog::make(options.items.max(1), options.browsers.max(1))?;
        Ok(Shop {
            options,
            catalog: Arc::new(catalog),
            duration,
        })
    }
}

impl Workload for Shop {
    type Walk = Users;

    const SERVICE: &'static str = "services/bookstore";

    fn pages(&self) -> Vec<PageShare> {
        let shares = self.options.mix.shares();
        let share = |page: Interaction| PageShare {
            name: page.name(),
            share: shares[page as usize],
        };
        Interaction::ALL.into_iter().map(share).collect()
    }

    fn is_walk(&self) -> bool {
        true
    }

    fn check(&self, _: bool) -> Result<(), &'static str> {
        match self.options {
            Bookstore { items: ..100, .. } => Err("a bookstore has at least 100 items"),
            Bookstore { browsers: 0, .. } => Err("a bookstore has customers of at least 1 browser"),
            Bookstore {
                visit_pages: Some(pages),
                ..
            } if !(pages >= 1.0 && pages.is_finite()) => Err("a visit has at least one page"),
            _ => Ok(()),
        }
    }

    fn walk(&self, worker: usize, workers: usize, validates: bool) -> Users {
        let pages = self.options.visit_pages;
        let is_own = |number: &u32| *number as usize % workers == worker;
        let numbers = (1..=self.catalog.customers.len() as u32).filter(is_own);
        let (admins, mut customers): (VecDeque<u32>, VecDeque<u32>) =
            numbers.partition(|number| self.catalog.customers[*number as usize - 1].is_admin);
        let mut rng = Rng::new(worker as u64 ^ 0x5409);
        for at in (1..customers.len()).rev() {
            customers.swap(at, rng.below(at as u32 + 1) as usize);
        }
        Users {
            mix: self.options.mix,
            catalog: Arc::clone(&self.catalog),
            visit_pages: pages.unwrap_or(self.options.mix.visit_pages()),
            validates,
            duration: self.duration,
            since: None,
            is_looking: true,
            customers,
            admins,
            // New customers' names are new in each run, too.
            names: Rng::new(new_seed() ^ worker as u64),
        }
    }
}

/// A seed that no other run has.
fn new_seed() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// A worker's users. A customer is one user at a time, so that what he bought last is known.
#[derive(Debug)]
pub(crate) struct Users {
    mix: Mix,
    catalog: Arc<Catalog>,
    visit_pages: f64,
    validates: bool,
    duration: Duration,
    /// When the first came.
    since: Option<Time>,
    /// S(p): whether who comes next only looks.
    is_looking: bool,
    /// Who is not there.
    customers: VecDeque<u32>,
    admins: VecDeque<u32>,
    names: Rng,
}

impl Users {
    /// How the next one walks.
    fn path(&mut self, due: Time, rng: &mut Rng) -> Path {
        let since = *self.since.get_or_insert(due);
        match self.mix {
            Mix::Browsing => return Path::Browsing,
            Mix::Shopping => return Path::Shopping,
            Mix::Ordering => return Path::Ordering,
            Mix::S(0) => self.is_looking = due.since(since) < self.duration / 11,
            Mix::S(switching) => self.is_looking ^= rng.below(100) < u32::from(switching),
        }
        match self.is_looking {
            true => Path::Friendly,
            false => Path::Unfriendly,
        }
    }

    /// Who was somebody is nobody's any more.
    fn give_back(&mut self, visit: &mut Visit) {
        self.customers.extend(visit.customer.take());
        self.admins.extend(visit.admin.take());
    }

    /// What is asked for so that an interaction's page comes.
    fn plan(&mut self, to: Interaction, visit: &mut Visit, rng: &mut Rng) {
        let from = std::mem::replace(&mut visit.last, to);
        let administers = matches!(to, Interaction::AdminRequest | Interaction::AdminConfirm);
        if visit.admin.is_some() && !administers {
            visit.plan.push_back(Ask::Send(Form::LeaveAdmin));
        }
        match to {
            Interaction::ProductDetail => visit.choose(&self.catalog, rng),
            Interaction::NewProducts | Interaction::BestSellers => {
                visit.subject = rng.below(self.catalog.subjects.len() as u32) as usize;
            }
            Interaction::SearchResults => visit.search_for(&self.catalog, rng),
            Interaction::ShoppingCart => match from {
                Interaction::ShoppingCart if !visit.cart.is_empty() => {
                    visit.plan.push_back(Ask::Send(Form::Change));
                }
                Interaction::ProductDetail => visit.plan.push_back(Ask::Send(Form::Add)),
                _ => self.fill_cart(visit, rng),
            },
            Interaction::BuyRequest | Interaction::BuyConfirm => {
                self.fill_cart(visit, rng);
                self.sign_in(Form::SignIn, visit, rng);
                if to == Interaction::BuyConfirm {
                    visit.plan.push_back(Ask::Send(Form::Buy));
                }
            }
            Interaction::OrderDisplay => self.sign_in(Form::FindOrder, visit, rng),
            Interaction::AdminRequest | Interaction::AdminConfirm => {
                if visit.admin.is_none() {
                    visit.admin = self.admins.pop_front();
                    if visit.admin.is_none() {
                        // All administrators are busy.
                        visit.last = Interaction::Home;
                        return visit.plan.push_back(Ask::Page(Interaction::Home));
                    }
                    visit.plan.push_back(Ask::Send(Form::BecomeAdmin));
                }
                if to == Interaction::AdminRequest {
                    visit.choose(&self.catalog, rng);
                }
            }
            _ => {}
        }
        visit.plan.push_back(Ask::Page(to));
    }

    /// The standard's cart is never shown empty (clause 2.4.3): any item is put into it, by the
    /// form on the item's page.
    fn fill_cart(&self, visit: &mut Visit, rng: &mut Rng) {
        if visit.cart.is_empty() {
            visit.choose(&self.catalog, rng);
            visit.plan.extend([Ask::Look, Ask::Send(Form::Add)]);
        }
    }

    /// Signs in by this form who is not: four of five have been here before (clause 5.3.5).
    fn sign_in(&mut self, form: Form, visit: &mut Visit, rng: &mut Rng) {
        if visit.user.is_some() && visit.admin.is_none() {
            return;
        }
        if visit.customer.is_none() && !rng.one_in(5) {
            visit.customer = self.customers.pop_front();
        }
        visit.plan.push_back(Ask::Send(match visit.customer {
            Some(_) => form,
            None => Form::Register(self.names.bits()),
        }));
    }
}

impl Walk for Users {
    type Ask = Ask;
    type Visit = Visit;
    type Expected = ();

    fn arrive(&mut self, due: Time, rng: &mut Rng, queue: &mut VecDeque<Ask>) -> Visit {
        let path = self.path(due, rng);
        let mut visit = Visit::new(path);
        let first = path.begin(rng);
        self.plan(first, &mut visit, rng);
        queue.extend(visit.plan.pop_front());
        visit
    }

    fn next(&mut self, visit: &mut Visit, rng: &mut Rng) -> Option<Next<Ask>> {
        if f64::from(rng.below(1 << 30)) < f64::from(1 << 30) / self.visit_pages {
            return None;
        }
        let to = visit.path.next(visit.last, rng);
        self.plan(to, visit, rng);
        let ask = visit.plan.pop_front()?;
        Some(Next { ask, thinks: true })
    }

    fn leave(&mut self, visit: &mut Visit) -> Option<Ask> {
        let is_signed_in = visit.user.take().is_some() | visit.admin.is_some();
        self.give_back(visit);
        (is_signed_in && !visit.token.is_empty()).then_some(Ask::SignOut)
    }

    fn ask(
        &mut self,
        ask: Ask,
        visit: &mut Visit,
        rng: &mut Rng,
        host: &str,
        out: &mut Vec<u8>,
        (): &mut (),
    ) -> Result<(), Ask> {
        visit.ask(ask, &self.catalog, rng, host, out)
    }

    fn kind(&self, ask: Ask) -> Kind {
        match ask {
            Ask::Page(page) => Kind::Page(page as usize),
            Ask::Look | Ask::Token | Ask::Send(_) => Kind::Step,
            Ask::SignOut => Kind::SignOut,
        }
    }

    fn describe(&self, ask: Ask) -> String {
        ask.to_string()
    }

    fn judge(
        &mut self,
        ask: Ask,
        (): &(),
        answer: &Answer<'_>,
        visit: &mut Visit,
    ) -> Result<(), Fault> {
        judge::judge(ask, answer, visit, &self.catalog, self.validates)?;
        if ask == Ask::Send(Form::LeaveAdmin) {
            self.admins.extend(visit.admin.take());
        }
        Ok(())
    }

    fn follow(
        &mut self,
        _: Ask,
        (): &(),
        _: &Answer<'_>,
        visit: &mut Visit,
        _: &mut Rng,
        queue: &mut VecDeque<Ask>,
    ) {
        if queue.is_empty() {
            queue.extend(visit.plan.pop_front());
        }
    }

    fn goes_on(&mut self, _: Ask, is_right: bool, _: &mut Visit) -> bool {
        is_right
    }

    fn lost(&mut self, _: &mut Visit) {}

    fn given_up(&mut self, visit: &mut Visit) {
        self.give_back(visit);
        *visit = Visit::default();
    }
}
