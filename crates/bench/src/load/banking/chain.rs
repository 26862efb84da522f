//! The user's path: SPECweb's Banking as a Markov chain over its sixteen pages.
//!
//! A user starts at [`Page::Login`]; each page's row gives the chances of the next, and what is
//! left to 1 is the user leaving. A check's two images follow its details. The shares of the pages
//! this leads to are the workload's mix ([`Page::mix`]).

use super::super::rng::Rng;
use serde::{Deserialize, Serialize};

macro_rules! pages {
    ($($variant:ident $name:literal $mix:literal,)*) => {
        /// The dynamic pages, in the order of the workload's table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum Page {
            $(#[doc = $name] $variant,)*
        }

        impl Page {
            /// All of them.
            pub const ALL: [Page; 16] = [$(Page::$variant),*];

            /// The name: that of its file without `.php`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Page::$variant => $name,)* }
            }

            /// Its share of all dynamic requests of the workload, in percent.
            #[must_use]
            pub const fn mix(self) -> f64 {
                match self { $(Page::$variant => $mix,)* }
            }
        }
    };
}

pages! {
    Login "login" 21.53,
    AccountSummary "account_summary" 15.14,
    AddPayee "add_payee" 1.11,
    BillPay "bill_pay" 13.84,
    BillPayStatusOutput "bill_pay_status_output" 2.21,
    ChangeProfile "change_profile" 0.87,
    CheckDetailHtml "check_detail_html" 8.48,
    OrderCheck "order_check" 1.21,
    PlaceCheckOrder "place_check_order" 0.87,
    PostPayee "post_payee" 0.80,
    PostTransfer "post_transfer" 1.24,
    Profile "profile" 1.21,
    Transfer "transfer" 1.72,
    Logout "logout" 6.15,
    QuickPay "quick_pay" 6.64,
    CheckDetailImage "check_detail_image" 16.96,
}

impl Page {
    /// The page of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.name() == name)
    }

    /// Where users go from here, with the chances in percent. The images of a check are one step
    /// here: of the two, the back is where the row applies.
    const fn next(self) -> &'static [(Page, u32)] {
        use Page::*;
        match self {
            Login => &[
                (AccountSummary, 32),
                (BillPay, 32),
                (Transfer, 8),
                (Logout, 8),
            ],
            AccountSummary => &[
                (CheckDetailHtml, 56),
                (Profile, 8),
                (OrderCheck, 8),
                (Logout, 8),
            ],
            CheckDetailHtml => &[(CheckDetailImage, 100)],
            CheckDetailImage => &[(AccountSummary, 72), (Logout, 8)],
            BillPay => &[
                (QuickPay, 48),
                (BillPayStatusOutput, 16),
                (AddPayee, 8),
                (Logout, 8),
            ],
            AddPayee => &[(PostPayee, 72), (Logout, 8)],
            PostPayee | QuickPay | BillPayStatusOutput => &[(BillPay, 72), (Logout, 8)],
            Profile => &[(ChangeProfile, 72), (Logout, 8)],
            OrderCheck => &[(PlaceCheckOrder, 72), (Logout, 8)],
            Transfer => &[(PostTransfer, 72), (Logout, 8)],
            ChangeProfile | PlaceCheckOrder | PostTransfer => &[(AccountSummary, 72), (Logout, 8)],
            Logout => &[],
        }
    }

    /// The page after this one; `None` when the user leaves.
    pub(crate) fn follow(self, rng: &mut Rng) -> Option<Page> {
        let mut chance = rng.below(100);
        for (page, share) in self.next() {
            if chance < *share {
                return Some(*page);
            }
            chance -= share;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visits of each page per user who logs in, by following the chances until next to nobody is
    /// left.
    fn visits() -> [f64; 16] {
        let mut total = [0.0; 16];
        let mut here = [0.0; 16];
        here[Page::Login as usize] = 1.0;
        for _ in 0..500 {
            let mut there = [0.0; 16];
            for page in Page::ALL {
                let users: f64 = here[page as usize];
                // Both images are asked for, one after the other.
                total[page as usize] += if page == Page::CheckDetailImage {
                    2.0 * users
                } else {
                    users
                };
                for (next, share) in page.next() {
                    there[*next as usize] += users * f64::from(*share) / 100.0;
                }
            }
            here = there;
        }
        assert!(here.iter().sum::<f64>() < 1e-9);
        total
    }

    #[test]
    fn the_chain_leads_to_the_mix() {
        let visits = visits();
        let all: f64 = visits.iter().sum();
        for page in Page::ALL {
            let share = 100.0 * visits[page as usize] / all;
            assert!((share - page.mix()).abs() < 0.1, "{}: {share}", page.name());
        }
        let mix: f64 = Page::ALL.iter().map(|page| page.mix()).sum();
        assert!((mix - 100.0).abs() < 0.05);
    }

    #[test]
    fn a_walk_follows_the_chances() {
        let mut rng = Rng::new(1);
        let mut counts = [0; 17];
        for _ in 0..100_000 {
            counts[Page::Login
                .follow(&mut rng)
                .map_or(16, |page| page as usize)] += 1;
        }
        let near = |count: i32, percent: i32| (count - percent * 1000).abs() < 600;
        assert!(near(counts[Page::AccountSummary as usize], 32));
        assert!(near(counts[Page::Transfer as usize], 8));
        assert!(near(counts[16], 20), "leaving");
        assert_eq!(counts.iter().filter(|count| **count > 0).count(), 5);
    }

    #[test]
    fn names() {
        assert_eq!(Page::named("quick_pay"), Some(Page::QuickPay));
        assert_eq!(Page::named("quick"), None);
        assert_eq!(
            serde_json::to_string(&Page::CheckDetailHtml).unwrap(),
            "\"check_detail_html\""
        );
    }
}
