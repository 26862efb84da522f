//! One user's visit to the shop: what he knows, and the requests he makes.

use super::super::rng::Rng;
use super::catalog::Catalog;
use super::jar::Jar;
use super::mix::{Interaction, Path};
use rhythm_protocol::http::uri;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Write;

/// A form that answers with a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Puts the item into the cart.
    Add,
    /// Other numbers of what is in it.
    Change,
    /// Of a customer whom the shop knows.
    SignIn,
    /// Of a new one; the number makes his name one that nobody has.
    Register(u64),
    /// Buys what is in the cart.
    Buy,
    /// Signs in to see the last order.
    FindOrder,
    /// Signs in as somebody who may change items.
    BecomeAdmin,
    /// And out again.
    LeaveAdmin,
}

/// A request a user makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// An interaction's page.
    Page(Interaction),
    /// An item's page, since what comes next is on it.
    Look,
    /// A page with a form, for its token.
    Token,
    /// What leads to a page.
    Send(Form),
    /// The user leaves.
    SignOut,
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ask::Page(interaction) => interaction.name(),
            Ask::Look => "an item before it is put into the cart",
            Ask::Token => "a page with a form",
            Ask::Send(Form::Add) => "an item into the cart",
            Ask::Send(Form::Change) => "other numbers in the cart",
            Ask::Send(Form::SignIn) => "a sign-in",
            Ask::Send(Form::Register(_)) => "a registration",
            Ask::Send(Form::Buy) => "the order",
            Ask::Send(Form::FindOrder) => "a sign-in to see the last order",
            Ask::Send(Form::BecomeAdmin) => "an administrator's sign-in",
            Ask::Send(Form::LeaveAdmin) => "an administrator's sign-out",
            Ask::SignOut => "a sign-out",
        })
    }
}

/// Who is signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// In percent; of a new customer what the shop gave him is not known.
    pub(crate) discount: Option<u64>,
}

/// What was searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Search {
    /// Nothing yet.
    #[default]
    Nothing,
    /// What the author's last name begins with.
    Author(String),
    /// What is in the title.
    Title(String),
    /// A subject's number.
    Subject(usize),
}

/// An order as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) lines: BTreeMap<u32, u32>,
}

/// A user from arriving to leaving.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visit {
    pub(crate) path: Path,
    /// The interaction the walk goes on from.
    pub(crate) last: Interaction,
    /// What is asked for until its page comes.
    pub(crate) plan: VecDeque<Ask>,
    pub(crate) cookies: Jar,
    /// What forms are sent with (CSRF), once a page has shown one.
    pub(crate) token: Vec<u8>,
    /// The customer he is, signed in or not; new ones have no number.
    pub(crate) customer: Option<u32>,
    /// The administrator he is just now.
    pub(crate) admin: Option<u32>,
    pub(crate) user: Option<User>,
    /// The item looked at.
    pub(crate) item: u32,
    pub(crate) subject: usize,
    pub(crate) search: Search,
    /// Items that the last page listed: one of them is looked at next.
    pub(crate) listed: Vec<u32>,
    /// Items and how many of each.
    pub(crate) cart: BTreeMap<u32, u32>,
    /// The cart as it is when the form under way was taken.
    pub(crate) changed: BTreeMap<u32, u32>,
    /// Bought last in this visit.
    pub(crate) order: Option<Order>,
}

impl Visit {
    pub(crate) fn new(path: Path) -> Visit {
        Visit {
            path,
            ..Visit::default()
        }
    }

    /// Looks at an item of those listed, or at any.
    pub(crate) fn choose(&mut self, catalog: &Catalog, rng: &mut Rng) {
        let listed = rng.below(self.listed.len() as u32) as usize;
        let any = 1 + rng.below(catalog.items());
        self.item = self.listed.get(listed).copied().unwrap_or(any);
    }

    /// Thinks of what to search for (clause 2.8: by author, title or subject, a third each).
    pub(crate) fn search_for(&mut self, catalog: &Catalog, rng: &mut Rng) {
        let item = catalog.item(1 + rng.below(catalog.items()));
        let start = |text: &str, most: u32, rng: &mut Rng| -> String {
            text.chars().take(2 + rng.below(most) as usize).collect()
        };
        self.search = match (item, rng.below(3)) {
            (Some(item), 0) => Search::Author(start(&item.last_name, 4, rng)),
            (Some(item), 1) => {
                let words = item.title.split(' ').count() as u32;
                let word = item.title.split(' ').nth(rng.below(words) as usize);
                Search::Title(start(&word.unwrap_or_default().to_lowercase(), 6, rng))
            }
            _ => Search::Subject(rng.below(catalog.subjects.len() as u32) as usize),
        };
    }

    /// Appends a request.
    ///
    /// # Errors
    /// What has to be asked for before: forms need a token.
    pub(crate) fn ask(
        &mut self,
        ask: Ask,
        catalog: &Catalog,
        rng: &mut Rng,
        host: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Ask> {
        let is_form = matches!(
            ask,
            Ask::Send(_) | Ask::SignOut | Ask::Page(Interaction::AdminConfirm)
        );
        if is_form && self.token.is_empty() {
            return Err(Ask::Token);
        }
        match ask {
            Ask::Page(Interaction::AdminConfirm) => {
                let cost = catalog.item(self.item).map_or(1, |item| {
                    // As the population has it: up to half less than the publisher's price.
                    item.at(50 + u64::from(rng.below(51))).max(1)
                });
                let subject = rng.below(catalog.subjects.len() as u32) as usize;
                let image = catalog.subjects[subject].to_lowercase();
                let form = [("cost", cost.to_string()), ("image", image)];
                self.post(&format!("/admin/item/{}", self.item), &form, host, out);
            }
            Ask::Page(interaction) => self.get(&self.path_of(interaction, catalog), host, out),
            Ask::Look => self.get(&format!("/item/{}", self.item), host, out),
            Ask::Token => self.get("/register", host, out),
            Ask::Send(form) => {
                let (path, fields) = self.form(form, catalog, rng);
                self.post(path, &fields, host, out);
            }
            Ask::SignOut => self.post("/sign_out", &[], host, out),
        }
        Ok(())
    }

    /// Where an interaction's page is.
    fn path_of(&self, interaction: Interaction, catalog: &Catalog) -> String {
        let of_subject = |path: &str| format!("{path}?subject={}", catalog.subjects[self.subject]);
        match interaction {
            Interaction::Home => "/".to_owned(),
            Interaction::NewProducts => of_subject("/new"),
            Interaction::BestSellers => of_subject("/best"),
            Interaction::ProductDetail => format!("/item/{}", self.item),
            Interaction::SearchRequest => "/search".to_owned(),
            Interaction::SearchResults => {
                let (by, text) = match &self.search {
                    Search::Nothing => ("title", ""),
                    Search::Author(text) => ("author", &text[..]),
                    Search::Title(text) => ("title", &text[..]),
                    Search::Subject(subject) => ("subject", &catalog.subjects[*subject][..]),
                };
                let mut path = format!("/results?by={by}&text=").into_bytes();
                uri::encode(text.as_bytes(), &mut path);
                String::from_utf8_lossy(&path).into_owned()
            }
            Interaction::ShoppingCart => "/cart".to_owned(),
            Interaction::CustomerRegistration => "/register".to_owned(),
            Interaction::BuyRequest => "/buy".to_owned(),
            Interaction::BuyConfirm => {
                let number = self.order.as_ref().map_or(0, |order| order.number);
                format!("/order/{number}")
            }
            Interaction::OrderInquiry => "/order".to_owned(),
            Interaction::OrderDisplay => "/order/last".to_owned(),
            Interaction::AdminRequest | Interaction::AdminConfirm => {
                format!("/admin/item/{}", self.item)
            }
        }
    }

    /// Where a form is sent, and its fields; what the cart is when it was taken is noted.
    fn form(
        &mut self,
        form: Form,
        catalog: &Catalog,
        rng: &mut Rng,
    ) -> (&'static str, Vec<(&'static str, String)>) {
        let sign_in = |number: Option<u32>| {
            let customer = number.and_then(|number| catalog.customers.get(number as usize - 1));
            let uname = customer.map_or("", |customer| &customer.uname);
            vec![
                ("uname", uname.to_owned()),
                ("password", uname.to_lowercase()),
            ]
        };
        match form {
            Form::Add => {
                self.changed = self.cart.clone();
                let count = self.changed.entry(self.item).or_default();
                *count = (*count + 1).min(999);
                ("/cart", vec![("add", self.item.to_string())])
            }
            Form::Change => {
                let one = rng.below(self.cart.len() as u32) as usize;
                let mut fields = Vec::new();
                self.changed = BTreeMap::new();
                for (at, (item, count)) in self.cart.iter().enumerate() {
                    // Never to nothing: the cart is not to be empty.
                    let count = if at == one { 1 + rng.below(9) } else { *count };
                    self.changed.insert(*item, count);
                    fields.push(("line[]", item.to_string()));
                    fields.push(("quantity[]", count.to_string()));
                }
                ("/cart", fields)
            }
            Form::SignIn => ("/sign_in", sign_in(self.customer)),
            Form::FindOrder => ("/order", sign_in(self.customer)),
            Form::BecomeAdmin => ("/sign_in", sign_in(self.admin)),
            Form::LeaveAdmin => ("/sign_out", Vec::new()),
            Form::Register(number) => ("/register", register(number, rng)),
            Form::Buy => ("/buy", buy(rng)),
        }
    }

    fn get(&self, path: &str, host: &str, out: &mut Vec<u8>) {
        self.head("GET", path, host, out);
        out.extend_from_slice(b"\r\n");
    }

    fn post(&self, path: &str, fields: &[(&str, String)], host: &str, out: &mut Vec<u8>) {
        let mut form = b"csrf_token=".to_vec();
        uri::encode(&self.token, &mut form);
        let mut lists: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, value) in fields {
            form.push(b'&');
            match name.strip_suffix("[]") {
                Some(list) => {
                    let at = lists.entry(list).or_default();
                    // Writing to a vector does not fail.
                    let _ = write!(form, "{list}[{at}]");
                    *at += 1;
                }
                None => uri::encode(name.as_bytes(), &mut form),
            }
            form.push(b'=');
            uri::encode(value.as_bytes(), &mut form);
        }
        self.head("POST", path, host, out);
        let _ = write!(
            out,
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            form.len()
        );
        out.extend_from_slice(&form);
    }

    /// Request line and the headers that all requests have, about as a browser sends them.
    fn head(&self, method: &str, path: &str, host: &str, out: &mut Vec<u8>) {
        for part in [method, " ", path, " HTTP/1.1\r\nHost: ", host] {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(
            b"\r\nUser-Agent: rhythm-load\r\nAccept: text/html,image/*,*/*;q=0.8\r\n",
        );
        self.cookies.write(out);
    }
}

/// A new customer, with characters that end something somewhere if they are not escaped.
fn register(number: u64, rng: &mut Rng) -> Vec<(&'static str, String)> {
    let street = [
        "Main Street",
        "O'Hara & Sons Way",
        "\"Upper\" Rd",
        "<Old> Mill Lane",
    ];
    let street = street[rng.below(4) as usize];
    [
        ("uname", format!("load-{number:016x}")),
        ("password", format!("secret of {number}")),
        ("fname", "Ann-Sofie".to_owned()),
        ("lname", "O'Neil <&>".to_owned()),
        ("street1", format!("{} {street}", 1 + rng.below(99))),
        ("city", "Saint-Étienne".to_owned()),
        ("state", "OR".to_owned()),
        ("zip", format!("{:05}", rng.below(100_000))),
        ("country", "United States".to_owned()),
        ("phone", format!("555-{:04}", rng.below(10_000))),
        ("email", "somebody@example.org".to_owned()),
        ("birthdate", "1980-02-29".to_owned()),
        ("data", "100 % 'new'; -- \\ \u{1f4da}".to_owned()),
    ]
    .into()
}

/// How an order is paid and sent. One of twenty goes to another address (clause 2.7.3).
fn buy(rng: &mut Rng) -> Vec<(&'static str, String)> {
    let cards = ["VISA", "MASTERCARD", "DISCOVER", "DINERS", "AMEX"];
    let ships = ["AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL"];
    let number = 1_000_000_000_000_000 + rng.bits() % 8_999_999_999_999_999;
    let mut fields: Vec<(&'static str, String)> = vec![
        ("card", cards[rng.below(5) as usize].to_owned()),
        ("number", number.to_string()),
        ("name", "ANN-SOFIE O'NEIL".to_owned()),
        ("expiry", "2031-12-31".to_owned()),
        ("ship", ships[rng.below(6) as usize].to_owned()),
    ];
    if rng.one_in(20) {
        fields.extend([
            (
                "street1",
                format!("{} \"Other\" Street", 1 + rng.below(999)),
            ),
            ("city", "Coeur d'Alene".to_owned()),
            ("state", "ID".to_owned()),
            ("zip", format!("{:05}", rng.below(100_000))),
            ("country", "Canada".to_owned()),
        ]);
    }
    fields
}
