//! services/bookstore, the shop of TPC-W: its fourteen interactions, on SQLite and PostgreSQL, and
//! what is in the database after many have bought at once.

use super::postgres::database::{Database, PASSWORD};
use super::server::{Answer, Client, Server};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// What a statement answers: one number.
type Look<'l> = dyn Fn(&str) -> i64 + Sync + 'l;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/bookstore")
}

/// Runs `rhythm bookstore populate`, and gives what it prints.
fn populate(flags: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    let output = command.args(["bookstore", "populate"]).args(flags).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Somebody with a browser: it keeps cookies, and sends the token of the page that it saw last.
struct Visitor {
    client: Client,
    cookies: BTreeMap<String, String>,
    token: String,
}

impl Visitor {
    fn new(server: &Server) -> Visitor {
        Visitor {
            client: server.client(),
            cookies: BTreeMap::new(),
            token: String::new(),
        }
    }

    /// The same browser, by another connection.
    fn beside(&self, server: &Server) -> Visitor {
        Visitor {
            client: server.client(),
            cookies: self.cookies.clone(),
            token: self.token.clone(),
        }
    }

    fn ask(&mut self, method: &str, path: &str, form: &str) -> Answer {
        let cookies: Vec<String> = (self.cookies.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        if !cookies.is_empty() {
            head += &format!("Cookie: {}\r\n", cookies.join("; "));
        }
        if method == "POST" {
            let length = form.len();
            let kind = "application/x-www-form-urlencoded";
            head += &format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n");
        }
        let sent = self.client.send(&format!("{head}\r\n{form}"));
        sent.expect("it listens");
        let answer = self.client.answer().expect("an answer");
        for cookie in &answer.cookies {
            let (name, value) = cookie.split_once('=').expect("a cookie");
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        if let Some(token) = shown(&answer, "name=\"csrf_token\" value").first() {
            self.token.clone_from(token);
        }
        answer
    }

    /// A page of this name.
    fn see(&mut self, path: &str, page: &str) -> Answer {
        let answer = self.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(shown(&answer, "data-page"), [page], "{path}");
        answer
    }

    fn post(&mut self, path: &str, form: &str) -> Answer {
        let form = format!("csrf_token={}&{form}", self.token);
        self.ask("POST", path, &form)
    }

    /// Sends a form, which leads elsewhere.
    fn go(&mut self, path: &str, form: &str) -> String {
        let answer = self.post(path, form);
        assert_eq!(answer.status, 303, "{path} {form}: {}", answer.body);
        answer.location.expect("it leads somewhere")
    }

    fn refused(&mut self, path: &str, form: &str, status: u16) -> Answer {
        let answer = self.post(path, form);
        assert_eq!(answer.status, status, "{path} {form}: {}", answer.body);
        answer
    }

    fn sign_in(&mut self, name: &str) {
        self.see("/register", "CREG");
        let form = format!("uname={name}&password={}", name.to_lowercase());
        assert_eq!(self.go("/sign_in", &form), "/buy");
    }
}

/// The values of an attribute, in their order.
fn shown(answer: &Answer, attribute: &str) -> Vec<String> {
    let begins = format!("{attribute}=\"");
    let parts = answer.body.split(&begins).skip(1);
    let value = |part: &str| part.split('"').next().map(str::to_owned);
    parts.filter_map(value).collect()
}

fn number(answer: &Answer, attribute: &str) -> i64 {
    let values = shown(answer, attribute);
    let first = values.first().and_then(|value| value.parse().ok());
    first.unwrap_or_else(|| panic!("{attribute}: {}", answer.body))
}

const CARD: &str = "card=VISA&number=4111111111119876&name=A+B&expiry=2030-01-31&ship=AIR";

/// What is paid for one line, and 8.25 percent of taxes.
fn total(cost: i64, count: i64, discount: i64) -> i64 {
    let sub_total = (cost * count * (100 - discount) + 50) / 100;
    sub_total + (sub_total * 825 + 5000) / 10_000 + 300 + 100 * count
}

/// All fourteen interactions, and what is refused.
fn walk(server: &Server, look: &Look<'_>) {
    let mut visitor = Visitor::new(server);
    let home = visitor.see("/", "HOME");
    assert_eq!(shown(&home, "data-item").len(), 5);
    let new = visitor.see("/new?subject=ARTS", "NEWP");
    let newest = "select i_id from item where i_subject = 'ARTS'
        order by i_pub_date desc, i_title limit 1";
    assert_eq!(number(&new, "data-item"), look(newest));
    let best = visitor.see("/best?subject=ARTS", "BESS");
    let most = "select ol_i_id from order_line join item on i_id = ol_i_id
        where i_subject = 'ARTS' group by ol_i_id order by sum(ol_qty) desc, ol_i_id limit 1";
    assert_eq!(number(&best, "data-item"), look(most));
    visitor.see("/search", "SREQ");
    // Names are numbers in syllables: 123 is Ogalri, and nobody's title has a percent sign.
    let found = visitor.see("/results?by=title&text=of+ogalri", "SRES");
    assert!(shown(&found, "data-item").contains(&"123".to_owned()));
    for (asked, such) in [
        ("author&text=OGALRI", "a_lname = 'Ogalri'"),
        ("subject&text=travel", "i_subject = 'TRAVEL'"),
        ("title&text=%25", "i_title like '%!%%' escape '!'"),
        ("author&text=%25", "a_lname like '!%%' escape '!'"),
    ] {
        let found = visitor.see(&format!("/results?by={asked}"), "SRES");
        let all = format!("select count(*) from item join author on a_id = i_a_id where {such}");
        let count = shown(&found, "data-item").len() as i64;
        assert_eq!(count, look(&all).min(50), "{asked}");
    }
    assert_eq!(visitor.ask("GET", "/item/1001", "").status, 404);
    let item = visitor.see("/item/7", "PROD");
    let cost = look("select i_cost from item where i_id = 7");
    assert_eq!(number(&item, "data-cents"), cost);

    // A cart, which nobody else sees.
    for add in [7, 7, 9] {
        assert_eq!(visitor.go("/cart", &format!("add={add}")), "/cart");
    }
    visitor.refused("/cart", "add=1001", 404);
    let cart = visitor.see("/cart", "SHOP");
    assert_eq!(shown(&cart, "data-line"), ["7", "9"]);
    assert_eq!(shown(&cart, "data-quantity"), ["2", "1"]);
    let changes = "line%5B0%5D=7&quantity%5B0%5D=3&line%5B1%5D=9&quantity%5B1%5D=0";
    visitor.go("/cart", changes);
    let cart = visitor.see("/cart", "SHOP");
    assert_eq!(shown(&cart, "data-quantity"), ["3"]);
    assert!(shown(&Visitor::new(server).see("/cart", "SHOP"), "data-line").is_empty());

    // Who buys is to be known.
    assert_eq!(
        visitor.ask("GET", "/buy", "").location.unwrap(),
        "/register"
    );
    visitor.see("/register", "CREG");
    visitor.refused("/sign_in", "uname=AL&password=no", 403);
    visitor.refused("/sign_in", "uname=&password=", 403);
    visitor.sign_in("AL");
    let buy = visitor.see("/buy", "BUYR");
    let discount = look("select c_discount from customer where c_id = 2");
    assert_eq!(number(&buy, "data-total"), total(cost, 3, discount));
    let wrong = CARD.replace("4111111111119876", "4111-1111");
    let again = visitor.refused("/buy", &wrong, 422);
    assert!(!again.body.contains("4111"), "{}", again.body);
    let stock = look("select i_stock from item where i_id = 7");
    let address = "street1=%27%3B--+1&city=Rom&zip=1&country=Italy";
    let order = visitor.go("/buy", &format!("{CARD}&{address}"));
    visitor.refused("/buy", CARD, 409);
    let page = visitor.see(&order, "ORDD");
    assert_eq!(format!("/order/{}", number(&page, "data-order")), order);
    assert_eq!(number(&page, "data-total"), total(cost, 3, discount));
    assert!(
        page.body.contains("&#x27;;-- 1, Rom 1, Italy"),
        "{}",
        page.body
    );
    assert!(!page.body.contains("9876"), "{}", page.body);
    let left = if stock - 3 < 10 {
        stock + 18
    } else {
        stock - 3
    };
    assert_eq!(look("select i_stock from item where i_id = 7"), left);
    assert_eq!(
        look("select count(*) from cc_xacts where cx_last4 = 9876"),
        1
    );

    // One's own orders.
    assert_eq!(visitor.ask("GET", "/order/1", "").status, 404);
    assert_eq!(visitor.ask("GET", "/admin/item/7", "").status, 403);
    visitor.refused("/admin/item/7", "cost=1&image=arts", 403);
    assert_eq!(visitor.go("/sign_out", ""), "/");
    assert_eq!(visitor.ask("GET", &order, "").status, 303);
    visitor.see("/order", "ORDI");
    assert_eq!(visitor.go("/order", "uname=AL&password=al"), "/order/last");
    let last = visitor.see("/order/last", "ORDD");
    assert_eq!(number(&last, "data-order"), number(&page, "data-order"));

    // An administrator.
    let mut admin = Visitor::new(server);
    admin.sign_in("OG");
    admin.see("/admin/item/7", "ADMR");
    let changed = admin.post("/admin/item/7", "cost=1234&image=travel");
    assert_eq!(shown(&changed, "data-page"), ["ADMC"], "{}", changed.body);
    assert_eq!(look("select i_cost from item where i_id = 7"), 1234);
    let often = "select count(*) from item as a join (
            select ol_i_id, row_number() over (order by sum(ol_qty) desc, ol_i_id) as n
            from orders join order_line on ol_o_id = o_id
            where ol_i_id <> 7 and o_c_id in (select o_c_id from orders
                join order_line on ol_o_id = o_id where ol_i_id = 7)
            group by ol_i_id) as b
        on n <= 5 and ol_i_id in (i_related1, i_related2, i_related3, i_related4, i_related5)
        where i_id = 7";
    assert_eq!(look(often), 5);

    // Somebody new.
    let mut new = Visitor::new(server);
    new.see("/register", "CREG");
    let form = "uname=j%C3%B6rg&password=secret&fname=J%C3%B6rg&lname=X&street1=A+1&city=B&zip=2\
                &country=Japan&phone=1&email=a%40b&birthdate=1990-02-28";
    new.refused("/register", &form.replace("Japan", "Nowhere"), 422);
    new.refused("/register", &form.replace("1990-02-28", "1990-02-30"), 422);
    new.refused(
        "/register",
        &form.replace("uname=j%C3%B6rg", "uname=AL"),
        422,
    );
    assert_eq!(new.go("/register", form), "/buy");
    assert!(new.see("/buy", "BUYR").body.contains("J\u{f6}rg X"));
    new.go("/sign_out", "");
    new.see("/register", "CREG");
    new.refused("/register", form, 422);
    new.refused("/sign_in", "uname=j%C3%B6rg&password=j%C3%B6rg", 403);
    assert_eq!(
        new.go("/sign_in", "uname=j%C3%B6rg&password=secret"),
        "/buy"
    );
    let count = "select count(*) from customer
        where c_fname = 'J\u{f6}rg' and c_digest <> 'secret' and length(c_salt) = 32";
    assert_eq!(look(count), 1);
}

/// Customers who buy at once, and how often each does.
const BUYERS: [&str; 8] = ["OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN"];
const ROUNDS: usize = 12;

/// Items that all of them want.
const WANTED: [i64; 4] = [11, 12, 13, 14];

/// Many buy the same items at once, and all press twice: each time it is one order.
fn rush(server: &Server, look: &Look<'_>) {
    let stock = |item: i64| look(&format!("select i_stock from item where i_id = {item}"));
    let before = look("select max(o_id) from orders");
    let sold = |item: i64| {
        let of = format!("where ol_i_id = {item} and ol_o_id > {before}");
        look(&format!(
            "select cast(coalesce(sum(ol_qty), 0) as bigint) from order_line {of}"
        ))
    };
    let stocks = WANTED.map(stock);
    thread::scope(|scope| {
        for buyer in 0..BUYERS.len() {
            scope.spawn(move || {
                let mut visitor = Visitor::new(server);
                visitor.sign_in(BUYERS[buyer]);
                for round in 0..ROUNDS {
                    visitor.see("/item/11", "PROD");
                    for item in 0..=(buyer + round) % 3 {
                        let wanted = WANTED[(buyer * 7 + round + item) % WANTED.len()];
                        visitor.go("/cart", &format!("add={wanted}"));
                    }
                    let mut beside = visitor.beside(server);
                    let other = thread::spawn(move || beside.post("/buy", CARD).status);
                    let answer = visitor.post("/buy", CARD);
                    let mut both = [answer.status, other.join().expect("no panic")];
                    both.sort_unstable();
                    assert_eq!(both, [303, 409], "{}", answer.body);
                }
            });
        }
    });
    let orders = format!("select count(*) from orders where o_id > {before}");
    assert_eq!(look(&orders), (BUYERS.len() * ROUNDS) as i64);
    for (item, had) in WANTED.into_iter().zip(stocks) {
        let (has, sold) = (stock(item), sold(item));
        assert!(sold > 20, "{item}: {sold}");
        assert!(
            (10..=30).contains(&has) && (has - had + sold) % 21 == 0,
            "{had} {has} {sold}"
        );
    }
    // Of all orders there are, those that were there from the beginning, too.
    let check = fs::read_to_string(folder().join("check.sql")).expect("it is there");
    let check = check.trim_end().trim_end_matches(';');
    let wrong = format!("select cast(sum(count) as bigint) from (\n{check}\n) as found");
    for wrong in [&wrong[..], "select count(*) from shopping_cart_line"] {
        assert_eq!(look(wrong), 0, "{wrong}");
    }
}

#[test]
fn the_shop_on_sqlite() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bookstore.db");
    // What an earlier run has left.
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", path.display()));
    }
    let file = format!("shop.file={}", path.display());
    let server = Server::start(&folder(), &["--backend", &file]);
    let database = || rusqlite::Connection::open(&path).expect("a database");
    let look = |statement: &str| {
        let number = database().query_row(statement, [], |row| row.get(0));
        number.unwrap_or_else(|why| panic!("{statement}: {why}"))
    };
    walk(&server, &look);
    rush(&server, &look);
    drop(server);
    // As large as one likes, and never over what is there.
    let larger = path.with_extension("larger.db");
    let _ = fs::remove_file(&larger);
    let name = larger.to_str().expect("UTF-8");
    populate(&["--sqlite", name, "--items", "2000", "--browsers", "2"]);
    let connection = rusqlite::Connection::open(&larger).expect("a database");
    let count = "select (select count(*) from customer) || ' ' || (select count(*) from orders)
        || ' ' || (select count(*) from item) || ' ' || (select count(*) from author)";
    let counts: String = connection.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(counts, "5760 5184 2000 500");
    fs::remove_file(larger).expect("it is there");
}

#[test]
fn the_shop_on_postgres() {
    let database = Database::start("bookstore", &[]);
    database.carry_out(&populate(&["--print"]));
    let password = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bookstore.password");
    fs::write(&password, PASSWORD).expect("a file can be written");
    let [url, password] = [
        format!("shop={}", database.url()),
        format!("shop.password_file={}", password.display()),
    ];
    let flags = ["--backend", &url, "--backend", &password];
    let server = Server::start(&folder(), &flags);
    let look = |statement: &str| {
        let text = database.ask(statement);
        let number = text.and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("{statement}"))
    };
    walk(&server, &look);
    rush(&server, &look);
}
