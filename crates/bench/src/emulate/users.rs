//! Users of the bank without connections: their requests, as an emulation feeds them to a pipeline
//! or to a device.

use crate::load::{Expected, Page, Rng, Visit};
use rhythm_besim::Bank;

/// The host that requests name.
const HOST: &str = "bench";

/// Users, each with a session of its own once it has been told its cookie. The same calls give the
/// same requests, cookies aside.
#[derive(Debug)]
pub struct Users {
    visits: Vec<Visit>,
    rng: Rng,
    bank: Bank,
    expected: Expected,
}

impl Users {
    /// So many, anyone of the bank's.
    #[must_use]
    pub fn new(count: usize, bank: Bank) -> Users {
        let mut rng = Rng::new(7);
        Users {
            visits: (0..count)
                .map(|_| Visit::new(1 + rng.below(bank.users()), true))
                .collect(),
            rng,
            bank,
            expected: Expected::default(),
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.visits.len()
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// A request for the page of each user.
    pub fn requests(&mut self, page: Page) -> Vec<Vec<u8>> {
        (0..self.len())
            .map(|user| self.request(user, page))
            .collect()
    }

    /// A request of each user for a page drawn from the workload's mix (but pages that
    /// `leaves_out`), by their shares.
    pub fn mixed(&mut self, leaves_out: &[Page]) -> Vec<Vec<u8>> {
        let pages: Vec<Page> = Page::ALL
            .into_iter()
            .filter(|page| !leaves_out.contains(page))
            .collect();
        let whole: f64 = pages.iter().map(|page| page.mix()).sum();
        (0..self.len())
            .map(|user| {
                let mut at = f64::from(self.rng.below(1 << 24)) / f64::from(1 << 24) * whole;
                let drawn = pages.iter().find(|page| {
                    at -= page.mix();
                    at < 0.0
                });
                self.request(user, *drawn.unwrap_or(&Page::Login))
            })
            .collect()
    }

    fn request(&mut self, user: usize, page: Page) -> Vec<u8> {
        let mut request = Vec::new();
        let visit = &mut self.visits[user];
        visit.page(
            page,
            &self.bank,
            HOST,
            &mut self.rng,
            &mut request,
            &mut self.expected,
        );
        request
    }

    /// Takes a user's session cookie from the answer to its login; whether it has one.
    pub fn logged_in(&mut self, user: usize, answer: &[u8]) -> bool {
        let visit = &mut self.visits[user];
        visit.cookie = cookie_of(answer).to_vec();
        visit.signed_in = !visit.cookie.is_empty();
        visit.signed_in
    }
}

/// `name=value` of the first Set-Cookie of an answer.
fn cookie_of(answer: &[u8]) -> &[u8] {
    let start = memchr::memmem::find(answer, b"Set-Cookie: ").map_or(answer.len(), |at| at + 12);
    let rest = &answer[start..];
    &rest[..memchr::memchr2(b';', b'\r', rest).unwrap_or(0)]
}
