//! Transactions of pages, on whatever database: all of one is done or nothing, and what a statement
//! has answered is for those behind it and for the page.

use super::server::Server;
use super::sqlite::{get, post};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// What both databases take, but for the column that numbers orders.
pub(crate) const TABLES: &str = "
    create table item (id bigint primary key, stock bigint not null check (stock >= 0));
    create table line (purchase bigint not null, item bigint not null, count bigint not null);
    create table told (text text unique);
    insert into item values (1, 40), (2, 40), (3, 0);";

/// Writes the pages of a shop.
pub(crate) fn write_pages(folder: &Path) {
    let page = |name: &str, route: &str, statements: &str, rest: &str| {
        let page = format!(
            "+++\nroute = \"{route}\"\n[params]\nitem = {{ in = \"form\", type = \"int\" }}\n\
             other = {{ in = \"form\", type = \"int\", default = \"1\" }}\n\
             buyer = {{ in = \"form\", type = \"text\", max_length = 2000 }}\n\
             [[step]]\ncall = \"board\"\n{statements}\n{rest}"
        );
        fs::write(folder.join(format!("pages/{name}.html")), page).expect("it can be written");
    };
    let check = "[[step]]\ncheck = \"made.status == 0\"\nelse = \"sold_out.html\"\nstatus = 409\n";
    let buy = "args = { order = \"made.id\", whose = \"made.buyer\", twice = \"other * 2\" }
        transaction = [
          { exec = \"insert into purchase (buyer) values (:buyer) returning id, buyer, null\",
            row = \"made(id:int, buyer, nothing)\" },
          \"insert into line values (:order, :item, :other)\",
          { exec = \"update item set stock = stock - :other where id = :item returning stock\",
            row = \"left(stock:int)\" },
          { query = \"select count(*) from line where purchase = :order\", row = \"all(n:int)\" },
          \"insert into told values (:whose || ' ' || :order || ' ' || :twice)\",
        ]"
    .replace(",\n            row", ", row");
    let shown = "+++\n{{ made.id }}|{{ made.buyer }}|{{ made.nothing }}|{{ left.stock }}|\
                 {{ all.n }}|{{ all.status }}\n";
    page("buy", "POST /buy", &buy, &format!("{check}{shown}"));
    // Nobody looks at what these answer: they are one way to the database.
    let swap = "transaction = [
          \"update item set stock = stock - 1 where id = :item\",
          \"update item set stock = stock + 1 where id = :other\",
          \"insert into told values ('swap ' || :buyer)\",
        ]";
    page("swap", "POST /swap", swap, "+++\nswapped\n");
    let several = "transaction = [
          \"insert into told values (:buyer)\",
          { query = \"select id from item\", row = \"one(id:int)\" },
          \"update item set stock = :item + :other\",
        ]";
    page("several", "POST /several", several, "+++\n{{ one.id }}\n");
    fs::write(folder.join("pages/sold_out.html"), "+++\n+++\nsold out\n").expect("a file");
}

/// The state of the shop: stock of all items, orders, lines, and what was told.
pub(crate) type Look<'l> = dyn Fn() -> [i64; 4] + 'l;

/// Buys, and sees what is done and what is not.
pub(crate) fn trade(server: &Server, look: &Look<'_>) {
    assert_eq!(look(), [80, 0, 0, 0]);
    let mut client = server.client();
    let mut ask = |path: &str, form: &str| {
        let answer = client.ask("POST", path, form).expect("an answer");
        (answer.status, answer.body.trim().to_owned())
    };
    // Quotes and bytes that a protocol might make something of.
    let answer = ask("/buy", "item=1&other=3&buyer=%27%3B+x%5C%C3%A9%7F%22");
    assert_eq!(
        answer,
        (200, "1|&#x27;; x\\\u{e9}\u{7f}&quot;||37|1|0".to_owned())
    );
    assert_eq!(look(), [77, 1, 1, 1]);
    // Too many are wanted, which breaks a rule; there is no such item, so no row.
    for form in [
        "item=2&other=41&buyer=a",
        "item=9&buyer=a",
        "item=3&buyer=a",
    ] {
        assert_eq!(ask("/buy", form), (409, "sold out".to_owned()), "{form}");
        assert_eq!(look(), [77, 1, 1, 1], "{form}");
    }
    assert_eq!(
        ask("/swap", "item=1&other=2&buyer=b"),
        (200, "swapped".to_owned())
    );
    assert_eq!(look(), [77, 1, 1, 2]);
    // A rule is broken by the last statement, and nobody can see it.
    assert_eq!(ask("/swap", "item=1&other=2&buyer=b").0, 502);
    assert_eq!(look(), [77, 1, 1, 2]);
    // Three rows where one must be.
    assert_eq!(ask("/several", "item=1&buyer=c").0, 502);
    assert_eq!(look(), [77, 1, 1, 2]);
}

/// Many buy at once, in ways that stand in each other's way: what was answered is what was done.
pub(crate) fn compete(server: &Server, look: &Look<'_>) {
    let before = look();
    let (bought, swapped) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for buyer in 0..12 {
            let (bought, swapped) = (&bought, &swapped);
            scope.spawn(move || {
                let mut client = server.client();
                for turn in 0..8 {
                    let form = format!("item={}&buyer=n{buyer}-{turn}", 1 + buyer % 2);
                    match post(&mut client, "/buy", &form) {
                        Ok(200) => bought.fetch_add(1, Ordering::Relaxed),
                        Ok(409) => 0,
                        other => panic!("{other:?}"),
                    };
                    // Each way round, so that they wait for each other.
                    let other = 2 - buyer % 2;
                    let form =
                        format!("item={}&other={other}&buyer=s{buyer}-{turn}", 1 + buyer % 2);
                    match post(&mut client, "/swap", &form) {
                        Ok(200) => swapped.fetch_add(1, Ordering::Relaxed),
                        // Where none is left, that breaks a rule.
                        Ok(502) => 0,
                        other => panic!("{other:?}"),
                    };
                }
            });
        }
    });
    let [bought, swapped] = [bought, swapped].map(|count| i64::from(count.into_inner()));
    let [stock, orders, lines, told] = before;
    let expected = [
        stock - bought,
        orders + bought,
        lines + bought,
        told + bought + swapped,
    ];
    assert_eq!(look(), expected);
    assert!(bought >= 60 && swapped > 20, "{bought} {swapped}");
    assert_eq!(get(server, "/topics/1").0, 200);
}
