//! Tests of one answer's text form.

use super::*;
use crate::bank::{MAX_ACCOUNTS, MAX_BILLS, MAX_PAYMENTS, TODAY};
use crate::money::Cents;

const BANK: Bank = Bank::new(100_000);

fn answer(query: &str) -> String {
    let mut out = b"before".to_vec();
    BANK.answer(query.as_bytes(), &mut out);
    String::from_utf8(out)
        .unwrap()
        .strip_prefix("before")
        .unwrap()
        .to_owned()
}

/// The rows of an answer of status 0.
fn rows(query: &str) -> Vec<Vec<String>> {
    let answer = answer(query);
    let block = answer
        .strip_prefix("<pre>\n0\n")
        .and_then(|rest| rest.strip_suffix("</pre>\n"));
    let block = block.unwrap_or_else(|| panic!("{query}: {answer}"));
    block
        .lines()
        .map(|line| line.split('&').map(str::to_owned).collect())
        .collect()
}

fn refusal(query: &str) -> String {
    let answer = answer(query);
    let block = answer
        .strip_prefix("<pre>\n1\n")
        .and_then(|rest| rest.strip_suffix("\n</pre>\n"));
    block
        .unwrap_or_else(|| panic!("{query}: {answer}"))
        .to_owned()
}

/// Users at both ends and many between.
fn users() -> impl Iterator<Item = u32> {
    (1..=500)
        .chain((501..99_999).step_by(97))
        .chain([99_999, 100_000])
}

#[test]
fn some_answers() {
    let queries = [
        "1&0&1000&100000",
        "1&1&7",
        "1&2&7",
        "1&3&7",
        "1&4&7&1",
        "1&5&7",
        "1&6&7&42&Joe&1+Elm%20St&Salem&OR&97301&555",
        "1&7&7&1234567&2026-01-20&12.50",
        "1&8&7&2025-12-16&2026-01-15",
        "1&9&7",
        "1&10&7&1+Elm%20St&Salem&OR&97301&a%40b.example&555",
        "1&9&100000",
        "1&9&0",
        "1&5&",
    ];
    let mut all = String::new();
    for query in queries {
        all += &format!("{query}\n{}", answer(query));
    }
    let expected = include_str!("../answers.txt");
    assert!(all == expected, "answers changed:\n{all}");
}

#[test]
fn passwords() {
    assert_eq!(rows("1&1&7"), [["dbf60ed9f736cbeb51800e6021b73379"]]);
    assert_eq!(rows("1&1&100000"), [["a004bd305f61636054a70bbfbdc8fa9a"]]);
}

#[test]
fn account_rows_agree_and_are_in_range() {
    let mut numbers = std::collections::HashSet::new();
    let mut counts = [0; MAX_ACCOUNTS as usize + 1];
    for user in users() {
        let (balances, summary) = (rows(&format!("1&2&{user}")), rows(&format!("1&3&{user}")));
        counts[summary.len()] += 1;
        assert_eq!(balances.len(), summary.len());
        for (index, (balance, row)) in balances.iter().zip(&summary).enumerate() {
            assert_eq!(balance[..], row[..3]);
            assert_eq!(row.len(), 7);
            assert_eq!(row[0].len(), 10);
            assert!(numbers.insert(row[0].clone()), "account {} twice", row[0]);
            let kind: usize = row[1].parse().unwrap();
            assert!(
                row[1].len() == 2 && (kind == index + 1 || index >= 2 && (1..=4).contains(&kind))
            );
            let cents = |i: usize| Cents::parse(row[i].as_bytes()).unwrap().0;
            assert!((100_000..10_000_000).contains(&cents(2)));
            assert!(cents(3) % cents(4) == 0 && (1..=20).contains(&(cents(3) / cents(4))));
            assert!(cents(5) % cents(6) == 0 && (1..=40).contains(&(cents(5) / cents(6))));
        }
    }
    assert_eq!(counts[0], 0);
    assert!(counts[1..].iter().all(|count| *count > 100), "{counts:?}");
}

#[test]
fn bills_are_due_and_payments_are_past() {
    let today = TODAY.to_string();
    for user in users() {
        let bills = rows(&format!("1&5&{user}"));
        assert!((2..=MAX_BILLS as usize).contains(&bills.len()));
        for row in &bills {
            assert!(
                row.len() == 3
                    && row[0].len() == 7
                    && row[1] > today
                    && row[1].as_str() <= "2026-02-12"
            );
        }
        let all = rows(&format!("1&8&{user}&1970-01-01&9999-12-31"));
        assert!((8..=MAX_PAYMENTS as usize).contains(&all.len()));
        assert!(
            all.windows(2).all(|pair| pair[0][1] > pair[1][1]),
            "latest first"
        );
        assert!(all[0][1] < today);
        let (first, last) = (all[5][1].clone(), all[2][1].clone());
        assert_eq!(rows(&format!("1&8&{user}&{first}&{last}")), all[2..=5]);
        assert!(rows(&format!("1&8&{user}&{last}&{first}")).is_empty());
    }
}

#[test]
fn checks_have_numbers_from_one_on() {
    let mut images = std::collections::HashSet::new();
    for user in users() {
        let last = BANK.checks(user);
        assert!((200..1000).contains(&last));
        for number in [1, 2, last] {
            let check = &rows(&format!("1&4&{user}&{number}"))[0];
            assert_eq!(check.len(), 3);
            images.extend(check[1..].iter().cloned());
        }
        for number in ["0", &(last + 1).to_string(), "4294967297", "x", "-1", ""] {
            assert_eq!(refusal(&format!("1&4&{user}&{number}")), "no such check");
        }
    }
    let all = (0..10).flat_map(|k| {
        [
            format!("checks/front_{k}.png"),
            format!("checks/back_{k}.png"),
        ]
    });
    assert_eq!(images, all.collect());
}

#[test]
fn confirmations_depend_on_everything_sent() {
    let base = "1&6&7&42&Joe&1+Elm%20St&Salem&OR&97301&555";
    assert_eq!(rows(base), rows(&base.replace('+', "%20")));
    let sent: [&[u8]; 7] = [
        b"42",
        b"Joe",
        b"1 Elm St",
        b"Salem",
        b"OR",
        b"97301",
        b"555",
    ];
    assert_eq!(
        rows(base)[0][0].as_bytes(),
        BANK.confirmation(6, 7, sent).text()
    );
    let mut seen = std::collections::HashSet::from([rows(base)]);
    for (from, to) in [
        ("&7&", "&8&"),
        ("&42&", "&43&"),
        ("Joe", "joe"),
        ("Joe&1", "Jo&e1"),
        ("555", "556"),
    ] {
        assert!(
            seen.insert(rows(&base.replacen(from, to, 1))),
            "{from} and {to} are the same"
        );
    }
    assert_eq!(refusal(&base.replace("Joe", "")), "empty argument");
    assert_eq!(refusal(&base.replace("42", "4x")), "no such payee");
    for bad in ["%", "%4", "%4g", "a%zz"] {
        assert_eq!(refusal(&base.replace("Joe", bad)), "malformed argument");
    }
    let order = |account: u64, rest: &str| format!("1&11&7&{account}&{rest}");
    let account = BANK.accounts(7).next().unwrap().number;
    assert_eq!(rows(&order(account, "2026-01-15&100")).len(), 1);
    assert_eq!(
        refusal(&order(account + 1, "2026-01-15&100")),
        "no such account"
    );
    assert_eq!(
        refusal(&order(account, "2026-01-15&0")),
        "bad number of checks"
    );
    assert_eq!(refusal(&order(account, "2026-01-32&1")), "bad date");
    assert_eq!(refusal("1&7&7&1&2026-01-20&1.234"), "bad amount");
}

#[test]
fn transfers_move_money_between_own_accounts() {
    let user = users()
        .find(|user| BANK.accounts(*user).len() >= 2)
        .unwrap();
    let accounts: Vec<_> = BANK.accounts(user).collect();
    let (from, to) = (accounts[0], accounts[1]);
    let query =
        |from: u64, to: u64, amount: Cents| format!("1&12&{user}&{from}&{to}&{amount}&2026-01-15");
    let moved = rows(&query(from.number, to.number, Cents(12_34)));
    assert_eq!(
        moved[0],
        [
            from.number.to_string(),
            Cents(from.balance.0 - 12_34).to_string()
        ]
    );
    assert_eq!(
        moved[1],
        [
            to.number.to_string(),
            Cents(to.balance.0 + 12_34).to_string()
        ]
    );
    assert_eq!(
        rows(&query(from.number, to.number, from.balance))[0][1],
        "0.00"
    );
    let too_much = Cents(from.balance.0 + 1);
    assert_eq!(
        refusal(&query(from.number, to.number, too_much)),
        "transfer refused"
    );
    assert_eq!(
        refusal(&query(from.number, from.number, Cents(1))),
        "transfer refused"
    );
    assert_eq!(
        refusal(&query(from.number, 1, Cents(1))),
        "transfer refused"
    );
}

#[test]
fn no_value_upsets_the_protocol_and_some_need_escaping() {
    let mut special = 0;
    for user in users() {
        for query in [format!("1&9&{user}"), format!("1&4&{user}&5")] {
            let row = rows(&query);
            let columns = if query.starts_with("1&9") { 6 } else { 3 };
            assert!(row.len() == 1 && row[0].len() == columns, "{row:?}");
            for value in &row[0] {
                assert!(
                    value
                        .bytes()
                        .all(|b| (b' '..0x7f).contains(&b) && b != b'<')
                );
                special += u32::from(value.contains(['\'', '"']));
            }
        }
    }
    assert!(special > 100);
}

#[test]
fn bad_queries_are_refused() {
    for query in [
        "",
        "1",
        "1&",
        "1&x&7",
        "1&13&7",
        "1&4294967299&7",
        "1&-3&7",
        "1&99999999999999999999&7",
    ] {
        assert!(
            refusal(query).starts_with("unknown command") || query.is_empty(),
            "{query}"
        );
    }
    for query in ["", "2&3&7", "&1&3&7", "01&3&7", "%31&3&7"] {
        assert_eq!(refusal(query), "unknown workload", "{query}");
    }
    for query in [
        "1&3",
        "1&3&7&",
        "1&12&7",
        "1&6&7&1&a&b&c&d&e&f&g",
        "1&8&7&2026-01-01",
    ] {
        assert_eq!(refusal(query), "wrong number of arguments", "{query}");
    }
    for user in [
        "",
        "0",
        "100001",
        "x",
        "-1",
        "+1",
        "1.0",
        " 1",
        "4294967303",
        "99999999999999999999",
    ] {
        assert_eq!(refusal(&format!("1&3&{user}")), "no such user", "{user}");
    }
    assert_eq!(rows("1&0&12345&100"), Vec::<Vec<String>>::new());
}
