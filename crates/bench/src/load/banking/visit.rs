//! One user's visit: the requests it makes, and what must come back.

use super::super::rng::Rng;
use super::chain::Page;
use super::expect::Expected;
use rhythm_besim::{Bank, Cents, Date, TODAY};
use rhythm_protocol::http::uri;
use std::io::Write;

/// Where the bank's pages are.
pub(crate) const BASE: &str = "/bank/";

/// Where its static files are.
pub(crate) const STATIC: &str = "/bank/static/";

/// A request made to see something refused; not part of the mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The cookie of a session that was logged out: the login form must come.
    OldCookie,
    /// A login with a wrong password: the login form must come.
    WrongPassword,
    /// A check the user has not written: a message must come.
    UnknownCheck,
}

/// A request a user makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// A dynamic page.
    Page(Page),
    /// A static file by its number.
    Static(u16),
    /// Something that must be refused.
    Probe(Probe),
    /// A logout behind the scenes, for a user who leaves without one; the session would stay in the
    /// server for long.
    SignOut,
}

/// Which side of a check an image shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Front,
    Back,
}

/// A user from login to leaving.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) user: u32,
    /// The `Cookie` value once signed in; kept after the logout for the probe.
    pub(crate) cookie: Vec<u8>,
    pub(crate) signed_in: bool,
    /// The connection was lost since the sign-in: the server may have been restarted.
    pub(crate) has_lost_connection: bool,
    /// The page the chain goes on from.
    pub(crate) last: Page,
    /// The check looked at.
    pub(crate) check: u32,
    pub(crate) side: Side,
    /// The file asked for last to compare a check's image with: once for each image, or a server
    /// whose file is wrong would be asked for it without end.
    pub(crate) compared: Option<u16>,
    /// A browser that has nothing in its cache.
    pub(crate) fresh: bool,
    /// The static files already asked for, a bit each.
    pub(crate) seen: u64,
}

/// Nobody has come yet.
impl Default for Visit {
    fn default() -> Visit {
        Visit::new(1, true)
    }
}

impl Visit {
    pub(crate) const fn new(user: u32, fresh: bool) -> Visit {
        Visit {
            user,
            cookie: Vec::new(),
            signed_in: false,
            has_lost_connection: false,
            last: Page::Login,
            check: 0,
            side: Side::Back,
            compared: None,
            fresh,
            seen: 0,
        }
    }

    /// Appends the request for a page to `out`, and says what must come.
    pub(crate) fn page(
        &mut self,
        page: Page,
        bank: &Bank,
        host: &str,
        rng: &mut Rng,
        out: &mut Vec<u8>,
        expected: &mut Expected,
    ) {
        let user = self.user;
        expected.page(page.name());
        let mut form = Form::default();
        match page {
            Page::Login => {
                form.number("userid", user.into());
                form.field("password", format_args!("secret-{user}"));
                expected.value("userid", user.to_string().as_bytes());
                expected.balances(bank, user);
            }
            Page::AccountSummary => expected.account_summary(bank, user),
            Page::AddPayee | Page::Logout => {}
            Page::BillPay => expected.bills(bank.bills(user)),
            Page::BillPayStatusOutput => {
                let end = Date::from_days(TODAY.days() - rng.below(20));
                let start = Date::from_days(end.days() - rng.below(60));
                form.field("start", start);
                form.field("end", end);
                expected.payments(bank, user, start, end);
                if rng.one_in(2) {
                    return self.get(page, form.encoded(), host, out);
                }
            }
            Page::ChangeProfile => {
                change_profile(&mut form, rng);
                form.confirmation(10, bank, user, expected);
            }
            Page::CheckDetailHtml => {
                self.check = 1 + rng.below(bank.checks(user));
                form.number("check_no", self.check.into());
                match bank.check(user, self.check.into()) {
                    Some(check) => expected.check(self.check, &check),
                    None => expected.page("message"),
                }
                return self.get(page, form.encoded(), host, out);
            }
            Page::CheckDetailImage => {
                self.check = self.check.max(1);
                let side = if self.side == Side::Front {
                    "front"
                } else {
                    "back"
                };
                form.field("side", side);
                form.number("check_no", self.check.into());
                return self.get(page, form.encoded(), host, out);
            }
            Page::OrderCheck | Page::Transfer => expected.balances(bank, user),
            Page::PlaceCheckOrder => {
                let accounts = bank.accounts(user);
                let chosen = rng.below(accounts.len() as u32) as usize;
                let account = accounts
                    .clone()
                    .nth(chosen)
                    .map_or(0, |account| account.number);
                let number = u64::from(1 + rng.below(500));
                form.number("account_no", account);
                form.field("date", TODAY);
                form.number("number", number);
                form.confirmation(11, bank, user, expected);
                // The page knows the date itself.
                form = Form::default();
                form.number("account_no", account);
                form.number("number", number);
            }
            Page::PostPayee => {
                post_payee(&mut form, rng);
                form.confirmation(6, bank, user, expected);
            }
            Page::PostTransfer => transfer(&mut form, bank, user, rng, expected),
            Page::Profile => expected.profile(bank, user),
            Page::QuickPay => {
                let bills = bank.bills(user);
                let count = 1 + rng.below(bills.len() as u32) as usize;
                for (i, bill) in bills.take(count).enumerate() {
                    let mut one = Form::default();
                    one.number("payee", bill.payee.into());
                    one.field("date", bill.date);
                    one.field("amount", bill.amount);
                    one.confirmation(7, bank, user, expected);
                    for (name, value) in one.fields {
                        form.fields.push((format!("{name}[{i}]"), value));
                    }
                }
            }
        }
        if form.fields.is_empty() {
            self.get(page, Vec::new(), host, out);
        } else {
            self.post(page, &form.encoded(), host, out);
        }
    }

    /// Appends the request of a probe, and says what must come.
    pub(crate) fn probe(
        &self,
        probe: Probe,
        bank: &Bank,
        host: &str,
        out: &mut Vec<u8>,
        expected: &mut Expected,
    ) {
        let mut form = Form::default();
        match probe {
            Probe::OldCookie => {
                expected.page("login_form");
                self.get(Page::AccountSummary, Vec::new(), host, out);
            }
            Probe::WrongPassword => {
                expected.page("login_form");
                form.number("userid", self.user.into());
                form.field("password", format_args!("secret-{}", self.user - 1));
                self.post(Page::Login, &form.encoded(), host, out);
            }
            Probe::UnknownCheck => {
                expected.page("message");
                form.number("check_no", u64::from(bank.checks(self.user)) + 1);
                self.get(Page::CheckDetailHtml, form.encoded(), host, out);
            }
        }
    }

    /// Appends the request that ends the session of a user who leaves. HEAD: its page is not looked
    /// at.
    pub(crate) fn sign_out(&self, host: &str, out: &mut Vec<u8>) {
        let target = format!("{BASE}logout.php");
        self.head("HEAD", &target, host, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the request for a static file; `condition` is a header line or nothing.
    pub(crate) fn static_file(&self, path: &str, condition: &[u8], host: &str, out: &mut Vec<u8>) {
        self.head("GET", path, host, out);
        out.extend_from_slice(condition);
        out.extend_from_slice(b"\r\n");
    }

    fn get(&self, page: Page, query: Vec<u8>, host: &str, out: &mut Vec<u8>) {
        let mark = if query.is_empty() { "" } else { "?" };
        let query = String::from_utf8_lossy(&query);
        self.head(
            "GET",
            &format!("{BASE}{}.php{mark}{query}", page.name()),
            host,
            out,
        );
        out.extend_from_slice(b"\r\n");
    }

    fn post(&self, page: Page, form: &[u8], host: &str, out: &mut Vec<u8>) {
        self.head("POST", &format!("{BASE}{}.php", page.name()), host, out);
        // Writing to a vector does not fail.
        let _ = write!(
            out,
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            form.len()
        );
        out.extend_from_slice(form);
    }

    /// Request line and the headers that all requests have, about as a browser sends them.
    fn head(&self, method: &str, target: &str, host: &str, out: &mut Vec<u8>) {
        for part in [method, " ", target, " HTTP/1.1\r\nHost: ", host] {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(
            b"\r\nUser-Agent: rhythm-load\r\nAccept: text/html,image/*,*/*;q=0.8\r\n",
        );
        if !self.cookie.is_empty() {
            out.extend_from_slice(b"Cookie: ");
            out.extend_from_slice(&self.cookie);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Names and values to be sent, in order.
#[derive(Debug, Default)]
struct Form {
    fields: Vec<(String, String)>,
}

impl Form {
    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        self.fields.push((name.to_owned(), value.to_string()));
    }

    fn number(&mut self, name: &str, value: u64) {
        self.field(name, value);
    }

    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        for (name, value) in &self.fields {
            if !out.is_empty() {
                out.push(b'&');
            }
            uri::encode(name.as_bytes(), &mut out);
            out.push(b'=');
            uri::encode(value.as_bytes(), &mut out);
        }
        out
    }

    /// Expects the confirmation of a command whose arguments are the fields.
    fn confirmation(&self, command: u32, bank: &Bank, user: u32, expected: &mut Expected) {
        let arguments = self.fields.iter().map(|(_, value)| value.as_bytes());
        let confirmation = bank.confirmation(command, user, arguments);
        expected.value("confirmation", &confirmation.text());
    }
}

/// A new address; some with characters that end something somewhere if they are not escaped.
fn change_profile(form: &mut Form, rng: &mut Rng) {
    let street = *pick(
        &[
            "12 Main Street",
            "7 O'Hara & Sons Way",
            "1/2 \"Upper\" Rd",
            "9 <Old> Mill Lane",
        ],
        rng,
    );
    form.field("street", format_args!("{} {street}", 1 + rng.below(99)));
    form.field(
        "city",
        pick(&["Springfield", "Saint-Étienne", "Land O' Lakes"], rng),
    );
    form.field("state", pick(&["OR", "ME", "VT"], rng));
    form.field("zip", format_args!("{:05}", rng.below(100_000)));
    form.field(
        "email",
        format_args!("user+{}@example.org", rng.below(1_000_000)),
    );
    form.field("phone", format_args!("(555) 010-{:04}", rng.below(10_000)));
}

fn post_payee(form: &mut Form, rng: &mut Rng) {
    form.number("payee_id", u64::from(1 + rng.below(9_999_999)));
    form.field(
        "name",
        pick(
            &[
                "City Water",
                "Bell & Ward <Plumbing>",
                "Dolan's \"Garage\"",
                "A=B; 100%",
            ],
            rng,
        ),
    );
    form.field("street", format_args!("{} Elm Street", 1 + rng.below(999)));
    form.field("city", pick(&["Salem", "Coeur d'Alene", "Fargo"], rng));
    form.field("state", pick(&["OR", "ID", "ND"], rng));
    form.field("zip", format_args!("{:05}", rng.below(100_000)));
    form.field("phone", format_args!("555-{:04}", rng.below(10_000)));
}

/// A transfer between two accounts; who has only one is refused.
fn transfer(form: &mut Form, bank: &Bank, user: u32, rng: &mut Rng, expected: &mut Expected) {
    let accounts = bank.accounts(user);
    let count = accounts.len() as u32;
    let from = rng.below(count);
    let to = (from + 1 + rng.below(count - 1)) % count;
    let number = |index: u32| {
        accounts
            .clone()
            .nth(index as usize)
            .map_or(0, |account| account.number)
    };
    // Nobody has less than 1000.00.
    let amount = Cents(i64::from(1 + rng.below(99_999)));
    let (from, to) = (number(from), number(to));
    form.number("from", from);
    form.number("to", to);
    form.field("amount", amount);
    match bank.transfer(user, from, to, amount) {
        Some(rows) => {
            for (number, balance) in rows {
                expected.value("account", number.to_string().as_bytes());
                expected.written("new_balance", |out| balance.write(out));
            }
        }
        None => expected.page("message"),
    }
}

fn pick<'a, T>(choices: &'a [T], rng: &mut Rng) -> &'a T {
    &choices[rng.below(choices.len() as u32) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_protocol::http::head::{Known, Progress};
    use rhythm_protocol::http::request::{HeadLimits, RequestHead, parse_head};

    const BANK: Bank = Bank::new(1000);

    /// The request line and the content of a page's request, and what is expected.
    fn request(user: u32, page: Page, seed: u64) -> (String, String, Expected) {
        let mut visit = Visit::new(user, true);
        visit.cookie = b"rhythm_session=abc".to_vec();
        let (mut out, mut expected) = (Vec::new(), Expected::default());
        visit.page(
            page,
            &BANK,
            "bank.example",
            &mut Rng::new(seed),
            &mut out,
            &mut expected,
        );
        let mut head = RequestHead::new();
        let progress = parse_head(&mut head, &out, &HeadLimits::default());
        let Ok(Progress::Complete { head_len }) = progress else {
            panic!(
                "{}: {progress:?} in {}",
                page.name(),
                String::from_utf8_lossy(&out)
            );
        };
        assert_eq!(
            head.known(Known::Cookie).unwrap().of(&out),
            b"rhythm_session=abc"
        );
        let line = String::from_utf8(out.split(|b| *b == b'\r').next().unwrap().to_vec()).unwrap();
        (
            line,
            String::from_utf8(out[head_len..].to_vec()).unwrap(),
            expected,
        )
    }

    #[test]
    fn every_request_is_well_formed_and_has_its_method() {
        use Page::*;
        for page in Page::ALL {
            for seed in 0..20 {
                let (line, content, expected) = request(7, page, seed);
                let is_post = match page {
                    Login | ChangeProfile | PlaceCheckOrder | PostPayee | PostTransfer
                    | QuickPay => true,
                    BillPayStatusOutput => line.starts_with("POST"),
                    _ => false,
                };
                let start = format!(
                    "{} /bank/{}.php",
                    if is_post { "POST" } else { "GET" },
                    page.name()
                );
                assert!(line.starts_with(&start), "{line}");
                assert_eq!(content.is_empty(), !is_post, "{line}");
                assert_eq!(expected.page, page.name());
            }
        }
    }

    #[test]
    fn forms() {
        assert_eq!(request(7, Page::Login, 0).1, "userid=7&password=secret-7");
        let (_, content, expected) = request(7, Page::QuickPay, 3);
        let bill = BANK.bills(7).next().unwrap();
        let first = format!(
            "payee%5B0%5D={}&date%5B0%5D={}&amount%5B0%5D={}",
            bill.payee, bill.date, bill.amount
        );
        assert!(content.starts_with(&first), "{content}");
        let payments = content.matches("payee").count();
        assert_eq!(
            expected
                .values
                .iter()
                .filter(|byte| **byte == b'\n')
                .count(),
            payments
        );
        assert!(!request(7, Page::PlaceCheckOrder, 0).1.contains("date"));
    }

    #[test]
    fn the_only_account_cannot_be_both_ends_of_a_transfer() {
        let users = 1..100;
        let (single, several): (Vec<u32>, Vec<u32>) =
            users.partition(|user| BANK.accounts(*user).len() == 1);
        assert_eq!(request(single[0], Page::PostTransfer, 0).2.page, "message");
        for seed in 0..50 {
            let (_, content, expected) = request(several[0], Page::PostTransfer, seed);
            assert_eq!(expected.page, "post_transfer", "{content}");
        }
    }
}
