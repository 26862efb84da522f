//! Whether the shop's pages are the ones that must come.
//!
//! A page says its interaction in `data-page`, and stands for what it shows by attributes:
//! `data-item` for an item, whose title and author follow; `data-line`, `data-quantity` and
//! `data-cents` for a line of a cart or an order; `data-total` for what is to be paid. Lists that
//! cannot change (searches) must be exactly right, those that sales and administrators change (new
//! products, best sellers) must have nothing wrong in them.

use super::super::walk::{Answer, Fault};
use super::catalog::{Catalog, Item, LISTED_MAX};
use super::mix::Interaction;
use super::visit::{Ask, Form, Order, Search, User, Visit};
use memchr::memmem;
use rhythm_protocol::http::head::Known;
use std::collections::{BTreeMap, BTreeSet};

/// Judges an answer, and has the visit know what it says.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn judge(
    ask: Ask,
    answer: &Answer<'_>,
    visit: &mut Visit,
    catalog: &Catalog,
    validates: bool,
) -> Result<(), Fault> {
    let status = answer.head.status();
    visit.cookies.take_from(answer);
    let (is_redirect, interaction) = match ask {
        Ask::Page(interaction) => (false, interaction),
        Ask::Look => (false, Interaction::ProductDetail),
        Ask::Token => (false, Interaction::CustomerRegistration),
        Ask::Send(_) | Ask::SignOut => (true, Interaction::Home),
    };
    if status != if is_redirect { 303 } else { 200 } {
        return Err(Fault::Error(format!("status {status} for {ask}")));
    }
    match ask {
        Ask::Send(form) => return taken(form, answer, visit, catalog),
        Ask::SignOut => return Ok(()),
        Ask::Page(_) | Ask::Look | Ask::Token => {}
    }
    let page = Page(answer.body);
    if let Some(token) = page.after(b"name=\"csrf_token\" value=\"") {
        visit.token = token.to_vec();
    }
    if ask == Ask::Token && visit.token.is_empty() {
        // What it is for would ask for it again, and without end.
        return Err(Fault::invalid("no token on a page with a form"));
    }
    visit.listed = match interaction {
        Interaction::ProductDetail | Interaction::AdminRequest => Vec::new(),
        _ => page.items().map(|(item, _)| item).collect(),
    };
    if !validates {
        return Ok(());
    }
    if !answer.known(Known::ContentType).starts_with(b"text/html") {
        return Err(Fault::invalid("wrong Content-Type of a page"));
    }
    page.judge(interaction, ask, visit, catalog)
        .map_err(|(kind, offset, reason)| Fault::Invalid {
            kind: kind.to_owned(),
            reason: format!("{kind}: {reason}"),
            offset,
        })
}

/// A form was taken: what it changed, and who is signed in.
fn taken(
    form: Form,
    answer: &Answer<'_>,
    visit: &mut Visit,
    catalog: &Catalog,
) -> Result<(), Fault> {
    let location = answer.head.values(answer.bytes, "location").next();
    let location = location.unwrap_or_default();
    let order = location
        .strip_prefix(b"/order/")
        .and_then(|number| std::str::from_utf8(number).ok()?.parse::<u64>().ok());
    let is_right = match form {
        Form::Add | Form::Change => location == b"/cart",
        Form::SignIn | Form::Register(_) | Form::BecomeAdmin => location == b"/buy",
        Form::FindOrder => location == b"/order/last",
        Form::LeaveAdmin => location == b"/",
        Form::Buy => order.is_some(),
    };
    if !is_right {
        let location = String::from_utf8_lossy(location);
        return Err(Fault::Error(format!(
            "a redirect to {} for {}",
            // Numbers of orders are many.
            location.trim_end_matches(|char: char| char.is_ascii_digit()),
            Ask::Send(form)
        )));
    }
    let known = |number: Option<u32>| {
        let customer = number.and_then(|number| catalog.customers.get(number as usize - 1));
        Some(User {
            discount: customer.map(|customer| customer.discount),
        })
    };
    match form {
        Form::Add | Form::Change => visit.cart = std::mem::take(&mut visit.changed),
        Form::SignIn | Form::FindOrder => visit.user = known(visit.customer),
        Form::Register(_) => visit.user = Some(User { discount: None }),
        Form::BecomeAdmin | Form::LeaveAdmin => visit.user = None,
        Form::Buy => {
            let lines = std::mem::take(&mut visit.cart);
            let number = order.unwrap_or_default();
            visit.order = Some(Order { number, lines });
        }
    }
    // Tokens end with the session.
    if !matches!(form, Form::Add | Form::Change | Form::Buy) {
        visit.token.clear();
        visit.order = None;
    }
    Ok(())
}

/// What is wrong: its kind, where, and the particulars.
type Wrong = (&'static str, usize, String);

/// A line of a cart or an order.
#[derive(Clone, Copy, Debug)]
struct Line {
    item: u32,
    count: u32,
    cents: u64,
}

/// The content of an answer.
#[derive(Clone, Copy)]
struct Page<'a>(&'a [u8]);

impl<'a> Page<'a> {
    fn judge(
        self,
        interaction: Interaction,
        ask: Ask,
        visit: &mut Visit,
        catalog: &Catalog,
    ) -> Result<(), Wrong> {
        let trimmed = self.0.trim_ascii();
        if !trimmed
            .get(..15)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"<!doctype html>"))
            || !trimmed.ends_with(b"</html>")
        {
            return Err(("not a complete HTML document", 0, String::new()));
        }
        let name = self.after(b"<body data-page=\"").unwrap_or_default();
        let due = match interaction {
            // The order is shown as any.
            Interaction::BuyConfirm => Interaction::OrderDisplay,
            other => other,
        };
        if name != due.short().as_bytes() {
            let name = String::from_utf8_lossy(name);
            return Err((
                "another page",
                0,
                format!("expected {}, found {name}", due.short()),
            ));
        }
        if ask == Ask::Token {
            return Ok(());
        }
        for (number, part) in self.items() {
            let item = catalog.item(number);
            let item = item.ok_or_else(|| self.wrong("an item that is not there", part, ""))?;
            self.has(part, &item.title)?;
        }
        match interaction {
            Interaction::Home => self.listed(catalog, true, |_| true, 5),
            Interaction::NewProducts => {
                let due = catalog.count(visit.subject).min(LISTED_MAX);
                self.listed(catalog, true, |item| item.subject == visit.subject, due)
            }
            Interaction::BestSellers => self.listed(
                catalog,
                false,
                |item| item.subject == visit.subject,
                LISTED_MAX,
            ),
            Interaction::ProductDetail => self.product(visit.item, catalog),
            Interaction::SearchResults => {
                let due = match &visit.search {
                    Search::Nothing => return Ok(()),
                    Search::Author(text) => {
                        catalog.search(|item| item.last_name.starts_with(&text[..]))
                    }
                    Search::Title(text) => {
                        catalog.search(|item| item.title.to_lowercase().contains(&text[..]))
                    }
                    Search::Subject(subject) => catalog.search(|item| item.subject == *subject),
                };
                let found: Vec<u32> = self.items().map(|(item, _)| item).collect();
                match found == due {
                    true => self.listed(catalog, true, |_| true, due.len()),
                    false => Err((
                        "other results",
                        0,
                        format!("of {:?}: expected {due:?}, found {found:?}", visit.search),
                    )),
                }
            }
            Interaction::ShoppingCart => self.lines_are(&visit.cart, catalog).map(drop),
            Interaction::BuyRequest => {
                let lines = self.lines_are(&visit.cart, catalog)?;
                self.total(&lines, visit.user)
            }
            Interaction::BuyConfirm | Interaction::OrderDisplay => {
                self.order(interaction, visit, catalog)
            }
            Interaction::AdminRequest | Interaction::AdminConfirm => match self.items().next() {
                Some((item, _)) if item == visit.item => Ok(()),
                found => Err(("another item", 0, format!("{found:?}"))),
            },
            Interaction::SearchRequest
            | Interaction::CustomerRegistration
            | Interaction::OrderInquiry => Ok(()),
        }
    }

    /// A list: so many items (or at most so many), each once, of those that fit, with authors.
    fn listed(
        self,
        catalog: &Catalog,
        is_exact: bool,
        fits: impl Fn(&Item) -> bool,
        due: usize,
    ) -> Result<(), Wrong> {
        let mut seen = BTreeSet::new();
        for (number, part) in self.items() {
            let Some(item) = catalog.item(number) else {
                continue;
            };
            self.has(part, &item.author)?;
            if !fits(item) || !seen.insert(number) {
                return Err(self.wrong("an item that does not belong there", part, ""));
            }
        }
        match seen.len() == due || !is_exact && seen.len() <= due {
            true => Ok(()),
            false => Err((
                "another number of items",
                0,
                format!("expected {due}, found {}", seen.len()),
            )),
        }
    }

    fn product(self, number: u32, catalog: &Catalog) -> Result<(), Wrong> {
        let mut items = self.items();
        let (Some((found, part)), Some(item)) = (items.next(), catalog.item(number)) else {
            return Err(("no item", 0, String::new()));
        };
        if found != number {
            return Err(self.wrong("another item", part, &number.to_string()));
        }
        self.has(part, &item.isbn)?;
        let cents = Page(part).numbers(b" data-cents=\"");
        match cents[..] {
            [cost, srp] if item.may_cost(cost) && srp == item.srp => {}
            _ => return Err(self.wrong("other prices", part, &format!("{cents:?}"))),
        }
        // The standard's rule keeps it there: below ten, 21 more come.
        match Page(part).numbers(b" data-stock=\"")[..] {
            [10..=30] => Ok(()),
            ref stock => Err(self.wrong("a stock that cannot be", part, &format!("{stock:?}"))),
        }
    }

    /// The lines of a cart or an order, which must be these.
    fn lines_are(self, due: &BTreeMap<u32, u32>, catalog: &Catalog) -> Result<Vec<Line>, Wrong> {
        let lines = self.lines(catalog)?;
        let found: Vec<(u32, u32)> = lines.iter().map(|line| (line.item, line.count)).collect();
        let due: Vec<(u32, u32)> = due.iter().map(|(item, count)| (*item, *count)).collect();
        match found == due {
            true => Ok(lines),
            false => Err((
                "other lines",
                0,
                format!("expected {due:?}, found {found:?}"),
            )),
        }
    }

    fn lines(self, catalog: &Catalog) -> Result<Vec<Line>, Wrong> {
        let mut lines = Vec::new();
        for (item, part) in self.parts(b" data-line=\"") {
            let count = Page(part).numbers(b" data-quantity=\"");
            let cents = Page(part).numbers(b" data-cents=\"");
            let (Some(&count), Some(&cents)) = (count.first(), cents.first()) else {
                return Err(self.wrong("a line without its numbers", part, ""));
            };
            if !catalog.item(item).is_some_and(|item| item.may_cost(cents)) {
                return Err(self.wrong("another price", part, &cents.to_string()));
            }
            lines.push(Line {
                item,
                count: u32::try_from(count).unwrap_or(u32::MAX),
                cents,
            });
        }
        Ok(lines)
    }

    /// What is to be paid for these lines: less the discount, and then 8.25 % of taxes, three
    /// dollars for sending it and one for each copy (clause 2.6.3.3).
    fn total(self, lines: &[Line], user: Option<User>) -> Result<(), Wrong> {
        let cost: u64 = lines
            .iter()
            .map(|line| line.cents * u64::from(line.count))
            .sum();
        let count: u64 = lines.iter().map(|line| u64::from(line.count)).sum();
        let due = |discount: u64| {
            let sub_total = (cost * (100 - discount) + 50) / 100;
            sub_total + (sub_total * 825 + 5000) / 10_000 + 300 + 100 * count
        };
        let found = self.numbers(b" data-total=\"");
        let is_right = match (&found[..], user.and_then(|user| user.discount)) {
            ([found], Some(discount)) => *found == due(discount),
            ([found], None) => (0..=50).any(|discount| *found == due(discount)),
            _ => false,
        };
        match is_right {
            true => Ok(()),
            false => Err((
                "another total",
                0,
                format!("{found:?} of {lines:?} for {user:?}"),
            )),
        }
    }

    /// An order: the one that was bought, if one was; of what customers had before, that it adds
    /// up.
    fn order(
        self,
        interaction: Interaction,
        visit: &Visit,
        catalog: &Catalog,
    ) -> Result<(), Wrong> {
        let number = self.numbers(b" data-order=\"");
        match (&visit.order, &number[..]) {
            (Some(order), [number]) if order.number == *number => {
                let lines = self.lines(catalog)?;
                let found: BTreeMap<u32, u32> =
                    lines.iter().map(|line| (line.item, line.count)).collect();
                if found != order.lines {
                    let due = &order.lines;
                    return Err((
                        "other lines",
                        0,
                        format!("expected {due:?}, found {found:?}"),
                    ));
                }
                self.total(&lines, visit.user)
            }
            (Some(order), found) => Err((
                "another order",
                0,
                format!("expected {}, found {found:?}", order.number),
            )),
            (None, [_]) => self.total(&self.lines(catalog)?, visit.user),
            // Not all have bought something.
            (None, []) if interaction == Interaction::OrderDisplay => Ok(()),
            (None, found) => Err(("not one order", 0, format!("{found:?}"))),
        }
    }

    /// The items that are shown, and what is told of each.
    fn items(self) -> impl Iterator<Item = (u32, &'a [u8])> {
        self.parts(b" data-item=\"")
    }

    /// What has this attribute: its number, and all until the next that has it.
    fn parts(self, attribute: &'static [u8]) -> impl Iterator<Item = (u32, &'a [u8])> {
        let body = self.0;
        let mut starts = memmem::find_iter(body, attribute).peekable();
        std::iter::from_fn(move || {
            let start = starts.next()? + attribute.len();
            let part = &body[start..starts.peek().copied().unwrap_or(body.len())];
            // What is no number is no item that there is.
            Some((number(part).unwrap_or(0) as u32, part))
        })
    }

    /// All numbers that this attribute has.
    fn numbers(self, attribute: &[u8]) -> Vec<u64> {
        let found = memmem::find_iter(self.0, attribute);
        let values = found.filter_map(|at| number(&self.0[at + attribute.len()..]));
        values.collect()
    }

    /// What stands between this text and the next quotation mark.
    fn after(self, text: &[u8]) -> Option<&'a [u8]> {
        let rest = &self.0[memmem::find(self.0, text)? + text.len()..];
        Some(&rest[..memchr::memchr(b'"', rest)?])
    }

    /// Whether a part says this.
    fn has(self, part: &[u8], text: &str) -> Result<(), Wrong> {
        match memmem::find(part, text.as_bytes()) {
            Some(_) => Ok(()),
            None => Err(self.wrong("a text is missing", part, text)),
        }
    }

    /// What is wrong about a part of this page.
    fn wrong(self, kind: &'static str, part: &[u8], what: &str) -> Wrong {
        let offset = (part.as_ptr() as usize).saturating_sub(self.0.as_ptr() as usize);
        (kind, offset, what.to_owned())
    }
}

/// The number that a text begins with, up to a quotation mark.
fn number(text: &[u8]) -> Option<u64> {
    let end = memchr::memchr(b'"', text)?;
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::mix::Path;
    use super::*;
    use rhythm_protocol::http::client::{ResponseHead, parse_response};

    /// A shop as small as there is.
    fn catalog() -> Catalog {
        Catalog::make(100, 1).expect("a population")
    }

    /// What is said of a page with this in it.
    fn of_page(page: &str, ask: Ask, visit: &mut Visit, catalog: &Catalog) -> Result<(), String> {
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n";
        let mut parsed = ResponseHead::default();
        parse_response(&mut parsed, head, 1024, false).expect("a head");
        let answer = Answer {
            head: &parsed,
            bytes: head,
            body: page.as_bytes(),
        };
        judge(ask, &answer, visit, catalog, true).map_err(|fault| match fault {
            Fault::Error(why) => why,
            Fault::Invalid { kind, .. } => kind,
        })
    }

    /// A document of this name.
    fn document(name: &str, content: &str) -> String {
        format!("<!doctype html>\n<body data-page=\"{name}\">{content}</body></html>\n")
    }

    fn listed(catalog: &Catalog, numbers: &[u32]) -> String {
        let one = |number: &u32| {
            let item = catalog.item(*number).expect("an item");
            format!(
                "<p data-item=\"{number}\">{} {}</p>",
                item.title, item.author
            )
        };
        numbers.iter().map(one).collect()
    }

    #[test]
    fn a_page_that_is_asked_for_its_token_has_one() {
        let (catalog, mut visit) = (catalog(), Visit::new(Path::Shopping));
        let mut judged = |content: &str| {
            let page = document(Interaction::CustomerRegistration.short(), content);
            of_page(&page, Ask::Token, &mut visit, &catalog)
        };
        let without = judged("");
        assert_eq!(without, Err("no token on a page with a form".to_owned()));
        assert_eq!(judged("<input name=\"csrf_token\" value=\"a\">"), Ok(()));
    }

    #[test]
    fn lists_must_have_what_belongs_there_and_nothing_else() {
        let catalog = catalog();
        let mut visit = Visit::new(Path::Shopping);
        visit.search = Search::Subject(3);
        let due = catalog.search(|item| item.subject == 3);
        assert!(due.len() > 2, "{due:?}");
        let ask = Ask::Page(Interaction::SearchResults);
        let mut judged = |numbers: &[u32], change: &dyn Fn(String) -> String| {
            let page = change(document("SRES", &listed(&catalog, numbers)));
            of_page(&page, ask, &mut visit, &catalog)
        };
        let as_it_is = |page: String| page;
        assert_eq!(judged(&due, &as_it_is), Ok(()));
        let is_wrong = |judged: Result<(), String>, kind: &str| {
            assert_eq!(judged, Err(kind.to_owned()));
        };
        is_wrong(judged(&due[1..], &as_it_is), "other results");
        let turned: Vec<u32> = due.iter().rev().copied().collect();
        is_wrong(judged(&turned, &as_it_is), "other results");
        let title = &catalog.item(due[1]).expect("an item").title;
        let retitled = |page: String| page.replace(&title[..], "Another Book");
        is_wrong(judged(&due, &retitled), "a text is missing");
        let cut = |page: String| page[..page.len() - 9].to_owned();
        is_wrong(judged(&due, &cut), "not a complete HTML document");
        let home = |page: String| page.replace("SRES", "HOME");
        is_wrong(judged(&due, &home), "another page");
        let unknown = |page: String| page.replace("data-item=\"", "data-item=\"9");
        is_wrong(judged(&due, &unknown), "an item that is not there");

        let ask = Ask::Page(Interaction::Home);
        let mut home = |numbers: &[u32]| {
            let page = document("HOME", &listed(&catalog, numbers));
            of_page(&page, ask, &mut visit, &catalog)
        };
        assert_eq!(home(&[1, 5, 2, 7, 100]), Ok(()));
        is_wrong(home(&[1, 5, 2, 7]), "another number of items");
        is_wrong(home(&[1, 5, 2, 7, 7]), "an item that does not belong there");
    }

    #[test]
    fn a_product_has_its_own_price_and_a_stock_that_can_be() {
        let catalog = catalog();
        let mut visit = Visit::new(Path::Shopping);
        visit.item = 42;
        let item = catalog.item(42).expect("an item");
        let mut judged = |cost: u64, srp: u64, stock: u32| {
            let content = format!(
                "{} {} <b data-cents=\"{cost}\" data-cents=\"{srp}\" data-stock=\"{stock}\">",
                listed(&catalog, &[42]),
                item.isbn
            );
            let ask = Ask::Page(Interaction::ProductDetail);
            of_page(&document("PROD", &content), ask, &mut visit, &catalog)
        };
        assert_eq!(judged(item.at(70), item.srp, 10), Ok(()));
        for (cost, srp) in [
            (item.srp + 1, item.srp),
            (item.srp, item.srp + 1),
            (1, item.srp),
        ] {
            assert_eq!(judged(cost, srp, 10), Err("other prices".to_owned()));
        }
        for stock in [9, 31] {
            let why = "a stock that cannot be".to_owned();
            assert_eq!(judged(item.srp, item.srp, stock), Err(why));
        }
        visit.item = 43;
        let page = document("PROD", &listed(&catalog, &[42]));
        let ask = Ask::Page(Interaction::ProductDetail);
        let judged = of_page(&page, ask, &mut visit, &catalog);
        assert_eq!(judged, Err("another item".to_owned()));
    }

    #[test]
    fn carts_and_orders_add_up() {
        let catalog = catalog();
        let srp = |item: u32| catalog.item(item).expect("an item").srp;
        let mut visit = Visit::new(Path::Shopping);
        visit.cart = BTreeMap::from([(7, 2), (9, 1)]);
        visit.user = Some(User { discount: Some(10) });
        let line = |item: u32, count: u32, cents: u64| {
            format!("<p data-line=\"{item}\" data-quantity=\"{count}\" data-cents=\"{cents}\">")
        };
        let lines = line(7, 2, srp(7)) + &line(9, 1, srp(9));
        let sub_total = ((2 * srp(7) + srp(9)) * 90 + 50) / 100;
        let total = sub_total + (sub_total * 825 + 5000) / 10_000 + 300 + 300;
        let cart = |lines: &str, total: u64, visit: &mut Visit| {
            let page = document("BUYR", &format!("{lines}<b data-total=\"{total}\">"));
            of_page(&page, Ask::Page(Interaction::BuyRequest), visit, &catalog)
        };
        assert_eq!(cart(&lines, total, &mut visit), Ok(()));
        for (lines, total, kind) in [
            (&lines, total + 1, "another total"),
            (&line(7, 2, srp(7)), total, "other lines"),
            (&lines.replace("\"2\"", "\"3\""), total, "other lines"),
            (
                &lines.replace("quantity", "q"),
                total,
                "a line without its numbers",
            ),
            (&line(7, 2, srp(7) + 1), total, "another price"),
        ] {
            assert_eq!(cart(lines, total, &mut visit), Err(kind.to_owned()));
        }
        // Whose discount is not known has one of those that there are.
        visit.user = Some(User { discount: None });
        assert_eq!(cart(&lines, total, &mut visit), Ok(()));
        let why = Err("another total".to_owned());
        assert_eq!(cart(&lines, total / 3, &mut visit), why);

        visit.order = Some(Order {
            number: 5000,
            lines: std::mem::take(&mut visit.cart),
        });
        let order = |number: u64, lines: &str, visit: &mut Visit| {
            let content = format!("<i data-order=\"{number}\">{lines}<b data-total=\"{total}\">");
            let ask = Ask::Page(Interaction::BuyConfirm);
            of_page(&document("ORDD", &content), ask, visit, &catalog)
        };
        assert_eq!(order(5000, &lines, &mut visit), Ok(()));
        assert_eq!(
            order(5001, &lines, &mut visit),
            Err("another order".to_owned())
        );
        let fewer = lines.replace("\"2\"", "\"1\"");
        assert_eq!(
            order(5000, &fewer, &mut visit),
            Err("other lines".to_owned())
        );
    }
}
