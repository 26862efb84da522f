//! What clients ask for: Banking's pages with values that are few, so that the reference need not
//! compute them anew, and awkward; static files; and requests that must be refused.

use crate::hosts;
use crate::reference::{BANK, Reference, Values};
use rhythm_engine::device::conformance::Dice;
use std::rc::Rc;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A page.
    Page {
        name: &'static str,
        values: Rc<Values>,
    },
    /// A static file: its path, and the part of it asked for.
    File { path: String, part: Part },
    /// A host's answer with this body.
    Hosted(Rc<Vec<u8>>),
    /// A redirect to this place.
    Redirect(&'static str),
    /// One of these statuses, and whether the connection must end with it.
    Refusal(&'static [u16], bool),
}

/// How a static file is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Whole.
    Whole,
    /// Only if it is another than this one, which it is not.
    IfNot(String),
    /// These bytes, both included.
    Range(usize, usize),
}

/// A request before it is written.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) wanted: Wanted,
    pub(crate) method: &'static str,
    pub(crate) target: String,
    /// More header lines, each with its end.
    pub(crate) headers: String,
    /// A form.
    pub(crate) form: Option<String>,
    /// All bytes of the request, instead of the above.
    pub(crate) raw: Option<Vec<u8>>,
}

/// Values of forms that pages must escape.
const NAMES: [&str; 4] = [
    "O'Brien & <Sons>",
    "Ann",
    "\"q\" 100% /x",
    "Zo\u{e9} \u{65e5}\u{672c}",
];

/// Encodes a value for a query or a form, in one of the ways that clients do.
fn encode(value: &str, dice: &mut Dice) -> String {
    let (plus, eager) = (dice.once_in(2), dice.once_in(8));
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b' ' if plus => out.push('+'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' if !eager => {
                out.push(byte.into())
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn encode_all(values: &[(String, String)], dice: &mut Dice) -> String {
    let mut pairs = Vec::new();
    for (name, value) in values {
        pairs.push(format!("{}={}", encode(name, dice), encode(value, dice)));
    }
    // A parameter nobody asked for does no harm.
    if dice.once_in(10) {
        pairs.push("x=1".to_owned());
    }
    pairs.join("&")
}

impl Ask {
    fn page(
        dice: &mut Dice,
        method: &'static str,
        name: &'static str,
        values: Vec<(&str, String)>,
    ) -> Ask {
        let values: Values = values.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
        let encoded = encode_all(&values, dice);
        let file = if name == "login_form" { "login" } else { name };
        let mut target = format!("/bank/{file}.php");
        let form = method == "POST";
        if !form && !encoded.is_empty() {
            target = format!("{target}?{encoded}");
        }
        let wanted = Wanted::Page {
            name,
            values: Rc::new(values),
        };
        Ask {
            wanted,
            method,
            target,
            headers: String::new(),
            form: form.then_some(encoded),
            raw: None,
        }
    }

    fn plain(wanted: Wanted, method: &'static str, target: &str) -> Ask {
        Ask {
            wanted,
            method,
            target: target.to_owned(),
            headers: String::new(),
            form: None,
            raw: None,
        }
    }

    /// A login, mostly with the right password.
    pub(crate) fn login(dice: &mut Dice, user: u32) -> Ask {
        let (user, password) = match dice.below(12) {
            0 => (user, "secret".to_owned()),
            1 => (1_000_000 + user, format!("secret-{user}")),
            _ => (user, format!("secret-{user}")),
        };
        let values = vec![("userid", user.to_string()), ("password", password)];
        Ask::page(dice, "POST", "login", values)
    }

    /// A page that needs no session and no backend.
    pub(crate) fn login_form(dice: &mut Dice) -> Ask {
        Ask::page(dice, "GET", "login_form", Vec::new())
    }

    /// A logout.
    pub(crate) fn logout(dice: &mut Dice) -> Ask {
        Ask::page(dice, "GET", "logout", Vec::new())
    }

    /// A page of Banking other than login and logout.
    pub(crate) fn any_page(dice: &mut Dice, user: u32) -> Ask {
        let pick = |dice: &mut Dice, from: &[&str]| (*dice.pick(from)).to_owned();
        let name = |dice: &mut Dice| pick(dice, &NAMES);
        let check = |dice: &mut Dice| pick(dice, &["1", "2", "17", "100000"]);
        let (method, page, values): (_, _, Vec<(&str, String)>) = match dice.below(16) {
            0 | 1 => ("GET", "account_summary", Vec::new()),
            2 => ("GET", "add_payee", Vec::new()),
            3 => ("GET", "bill_pay", Vec::new()),
            4 => {
                let method = if dice.once_in(2) { "GET" } else { "POST" };
                let mut values = Vec::new();
                if dice.once_in(2) {
                    values.push(("start", "2025-11-01".to_owned()));
                }
                if dice.once_in(2) {
                    values.push(("end", "2025-12-31".to_owned()));
                }
                (method, "bill_pay_status_output", values)
            }
            5 => {
                let values = vec![
                    ("street", name(dice)),
                    ("city", "Salem".to_owned()),
                    ("state", "OR".to_owned()),
                    ("zip", "97301".to_owned()),
                    ("email", "a@b.example".to_owned()),
                    ("phone", "555".to_owned()),
                ];
                ("POST", "change_profile", values)
            }
            6 => ("GET", "check_detail_html", vec![("check_no", check(dice))]),
            7 | 8 => {
                let side = pick(dice, &["front", "back"]);
                (
                    "GET",
                    "check_detail_image",
                    vec![("side", side), ("check_no", check(dice))],
                )
            }
            9 => ("GET", "order_check", Vec::new()),
            10 => {
                let account = account(dice, user);
                let values = vec![
                    ("account_no", account),
                    ("number", pick(dice, &["1", "200"])),
                ];
                ("POST", "place_check_order", values)
            }
            11 => {
                // No two are alike, so that none is carried out twice unnoticed.
                let values = vec![
                    ("payee_id", pick(dice, &["42", "43"])),
                    ("name", name(dice)),
                    ("street", "1 Elm".to_owned()),
                    ("city", "Salem".to_owned()),
                    ("state", "OR".to_owned()),
                    ("zip", "97301".to_owned()),
                    ("phone", (dice.roll() % 10_000_000_000).to_string()),
                ];
                ("POST", "post_payee", values)
            }
            12 => {
                let (from, to) = (account(dice, user), account(dice, user));
                let amount = pick(dice, &["1", "12.50", "99999999"]);
                (
                    "POST",
                    "post_transfer",
                    vec![("from", from), ("to", to), ("amount", amount)],
                )
            }
            13 => ("GET", "profile", Vec::new()),
            14 => return Ask::quick_pay(dice, user),
            _ => ("GET", "transfer", Vec::new()),
        };
        Ask::page(dice, method, page, values)
    }

    fn quick_pay(dice: &mut Dice, user: u32) -> Ask {
        let most = *dice.pick(&[1, 3, 16]);
        let count = 1 + dice.below(most);
        let mut values: Values = Vec::new();
        for (index, bill) in BANK.bills(user).cycle().take(count).enumerate() {
            values.push((format!("payee[{index}]"), bill.payee.to_string()));
            values.push((format!("date[{index}]"), bill.date.to_string()));
            values.push((format!("amount[{index}]"), bill.amount.to_string()));
        }
        let page = Wanted::Page {
            name: "quick_pay",
            values: Rc::new(values.clone()),
        };
        let mut ask = Ask::plain(page, "POST", "/bank/quick_pay.php");
        if dice.once_in(2) {
            values.reverse();
        }
        ask.form = Some(encode_all(&values, dice));
        ask
    }

    /// What needs no session.
    pub(crate) fn anonymous(
        reference: &Reference,
        dice: &mut Dice,
        etag: impl Fn(&str) -> Option<String>,
    ) -> Ask {
        match dice.below(10) {
            8 | 9 => Ask::hosted(dice),
            0 => Ask::login_form(dice),
            1 => Ask::plain(Wanted::Redirect("/bank/login.php"), "GET", "/"),
            _ => {
                let index = dice.below(reference.statics.len());
                let (path, bytes) = reference
                    .statics
                    .iter()
                    .nth(index)
                    .expect("below the length");
                let mut part = Part::Whole;
                let mut headers = String::new();
                match dice.below(4) {
                    0 => {
                        let start = dice.below(bytes.len());
                        let end = start + dice.below(bytes.len() - start);
                        part = Part::Range(start, end);
                        headers = format!("Range: bytes={start}-{end}\r\n");
                    }
                    1 | 2 => {
                        if let Some(etag) = etag(path) {
                            headers = format!("If-None-Match: {etag}\r\n");
                            part = Part::IfNot(etag);
                        }
                    }
                    _ => {}
                }
                let target = format!("/bank/static/{path}");
                let mut ask = Ask::plain(
                    Wanted::File {
                        path: path.clone(),
                        part,
                    },
                    "GET",
                    &target,
                );
                ask.headers = headers;
                ask
            }
        }
    }

    /// What a host answers.
    fn hosted(dice: &mut Dice) -> Ask {
        if dice.once_in(2) {
            let length = *dice.pick(&[0, 1, 700, 5_000, 60_000]);
            let wanted = Wanted::Hosted(Rc::new(hosts::body(length)));
            return Ask::plain(wanted, "GET", &format!("{}/{length}", hosts::PATH));
        }
        let content = "x=y&".repeat(1 + dice.below(100));
        let wanted = Wanted::Hosted(Rc::new(content.clone().into_bytes()));
        // Taken whole with a query, else in pieces.
        let more = *dice.pick(&["", "?"]);
        let mut ask = Ask::plain(wanted, "POST", &format!("{}/echo{more}", hosts::PATH));
        ask.form = Some(content);
        ask
    }

    /// What must be refused.
    pub(crate) fn bad(dice: &mut Dice) -> Ask {
        const BAD_VALUE: &[(&str, &str)] = &[
            ("GET", "/bank/check_detail_html.php?check_no=x"),
            ("GET", "/bank/check_detail_html.php"),
            ("GET", "/bank/check_detail_image.php?side=top&check_no=1"),
            ("GET", "/bank/check_detail_html.php?check_no=1&check_no=2"),
            ("GET", "/bank/bill_pay_status_output.php?start=2025-02-30"),
            ("GET", "/bank/bill_pay_status_output.php?start=%zz"),
        ];
        const RAW: &[(&str, &[u16], bool)] = &[
            ("GARBAGE\r\n\r\n", &[400], true),
            ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", &[400], true),
            ("GET / HTTP/1.1\r\n\r\n", &[400], true),
            ("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", &[400], true),
            (
                "GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
                &[400],
                true,
            ),
            ("GET / HTTP/2.0\r\nHost: x\r\n\r\n", &[505], true),
            (
                "POST /bank/login.php HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\
                Transfer-Encoding: chunked\r\n\r\n",
                &[400],
                true,
            ),
            (
                "POST /bank/login.php HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
                &[400],
                true,
            ),
            (
                "POST /bank/login.php HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
                &[413],
                true,
            ),
            (
                "POST /bank/login.php HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
                &[501, 400],
                true,
            ),
            (
                "POST /bank/login.php HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                zz\r\n",
                &[400],
                true,
            ),
            (
                "POST /bank/login.php HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\
                Content-Length: 3\r\n\r\nabc",
                &[415],
                false,
            ),
            (
                "BREW /bank/login.php HTTP/1.1\r\nHost: x\r\n\r\n",
                &[501],
                false,
            ),
            (
                "GET /bank/login.php HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n",
                &[417],
                true,
            ),
        ];
        match dice.below(6) {
            0 => {
                let (method, target) = *dice.pick(BAD_VALUE);
                Ask::plain(Wanted::Refusal(&[400], false), method, target)
            }
            1 => Ask::plain(Wanted::Refusal(&[404], false), "GET", "/bank/nothing.php"),
            2 => Ask::plain(
                Wanted::Refusal(&[405], false),
                "DELETE",
                "/bank/profile.php",
            ),
            3 => {
                let mut ask = Ask::plain(Wanted::Refusal(&[431, 414], true), "GET", "/");
                let long = "x".repeat(40_000);
                if dice.once_in(2) {
                    ask.target = format!("/{long}");
                } else {
                    ask.headers = format!("X-Long: {long}\r\n");
                }
                ask
            }
            _ => {
                let (bytes, statuses, closes) = *dice.pick(RAW);
                let mut ask = Ask::plain(Wanted::Refusal(statuses, closes), "GET", "/");
                ask.raw = Some(bytes.as_bytes().to_vec());
                ask
            }
        }
    }
}

/// One of the user's accounts, or somebody else's.
fn account(dice: &mut Dice, user: u32) -> String {
    let accounts: Vec<String> = BANK.accounts(user).map(|a| a.number.to_string()).collect();
    match dice.once_in(8) {
        true => "1234567890".to_owned(),
        false => dice.pick(&accounts).clone(),
    }
}
