//! A bank to be loaded: right, or with one flaw.

use rhythm_besim::{Bank, Date};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const USERS: u32 = 500;
pub(crate) const BANK: Bank = Bank::new(USERS);

/// The bytes of a PNG of one pixel, and one of another.
pub(crate) const IMAGES: [&[u8]; 2] = [
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\
      \0\0\0\0IEND\xae\x42\x60\x82",
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x02\x08\0\0\0\0\xbc\xea\xe9\xfb\
      \0\0\0\0IEND\xae\x42\x60\x82",
];

/// What is wrong with the bank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Flaw {
    None,
    OthersBalance,
    NotEscaped,
    RowMissing,
    LogoutForgotten,
    WrongImage,
    /// Images of static files are style sheets.
    WrongFile,
    AnyPassword,
    NeverUnchanged,
    Unavailable,
    ClosesAlways,
    Hangs,
    /// A page has chunks without end.
    Endless,
    /// Each page takes 700 ms.
    Slow,
    Restarts,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) sessions: Mutex<HashMap<String, u32>>,
    pub(crate) next: AtomicU64,
    /// Requests, and how often it began anew.
    pub(crate) requests: AtomicU64,
    pub(crate) lives: AtomicU64,
}

impl State {
    /// A request came on a connection of this life. Now and then the bank begins anew: it forgets
    /// who is signed in, and its connections end. Whether this is one of them.
    pub(crate) fn is_over(&self, life: u64) -> bool {
        if self.requests.fetch_add(1, Ordering::AcqRel) % 97 == 96 {
            let mut sessions = self.sessions.lock().unwrap();
            self.lives.fetch_add(1, Ordering::AcqRel);
            sessions.clear();
        }
        self.lives.load(Ordering::Acquire) != life
    }
}

pub(crate) fn start(flaw: Flaw) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    listen_as(flaw, listener);
    url
}

pub(crate) fn listen_as(flaw: Flaw, listener: TcpListener) {
    let state = Arc::new(State::default());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&state);
            std::thread::spawn(move || serve(stream, &state, flaw));
        }
    });
}

pub(crate) fn serve(stream: TcpStream, state: &State, flaw: Flaw) -> Option<()> {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let life = state.lives.load(Ordering::Acquire);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut parts = line.split(' ');
        let (method, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(": ") else {
                break;
            };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let length = headers
            .get("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut content = vec![0; length];
        reader.read_exact(&mut content).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let form = String::from_utf8(content).unwrap() + query;
        if flaw == Flaw::Endless && path == "/bank/bill_pay.php" {
            return endless(&mut stream);
        }
        let (status, extra, body) = answer(state, flaw, &method, path, &form, &headers);
        if flaw == Flaw::Restarts && state.is_over(life) {
            return None;
        }
        let close = if flaw == Flaw::ClosesAlways {
            "Connection: close\r\n"
        } else {
            ""
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\n{extra}{close}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let body = if method == "HEAD" || status == 304 {
            &[]
        } else {
            &body[..]
        };
        stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
        if flaw == Flaw::ClosesAlways {
            return None;
        }
    }
}

/// Sends a page until the client has had enough.
fn endless(stream: &mut TcpStream) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).ok()?;
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    loop {
        stream.write_all(chunk.as_bytes()).ok()?;
    }
}

pub(crate) fn answer(
    state: &State,
    flaw: Flaw,
    method: &str,
    path: &str,
    form: &str,
    headers: &HashMap<String, String>,
) -> (u16, String, Vec<u8>) {
    let html = "Content-Type: text/html; charset=utf-8\r\n".to_owned();
    let fields: HashMap<String, String> = form
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    if let Some(file) = path.strip_prefix("/bank/static/") {
        let validators =
            format!("ETag: \"{file}\"\r\nLast-Modified: Thu, 15 Jan 2026 00:00:00 GMT\r\n");
        let conditional =
            headers.contains_key("if-none-match") || headers.contains_key("if-modified-since");
        let status = if conditional && flaw != Flaw::NeverUnchanged {
            304
        } else {
            200
        };
        return match file.rsplit('.').next() {
            Some("png") if flaw != Flaw::WrongFile => (
                status,
                format!("Content-Type: image/png\r\n{validators}"),
                image(file).to_vec(),
            ),
            _ => (
                status,
                format!("Content-Type: text/css\r\n{validators}"),
                b"a{}".to_vec(),
            ),
        };
    }
    let name = path
        .strip_prefix("/bank/")
        .and_then(|name| name.strip_suffix(".php"))
        .unwrap();
    if flaw == Flaw::Unavailable && name == "bill_pay" {
        return (503, html, b"busy".to_vec());
    }
    if flaw == Flaw::Hangs && name == "bill_pay" {
        std::thread::sleep(Duration::from_secs(60));
    }
    if flaw == Flaw::Slow {
        std::thread::sleep(Duration::from_millis(700));
    }
    if name == "login" && method == "POST" {
        let user: u32 = field("userid").parse().unwrap();
        if field("password") != format!("secret-{user}") && flaw != Flaw::AnyPassword {
            return (200, html, page("login_form", &[]));
        }
        let id = format!("s{}", state.next.fetch_add(1, Ordering::Relaxed));
        state.sessions.lock().unwrap().insert(id.clone(), user);
        let cookie =
            format!("{html}Set-Cookie: rhythm_session={id}; Path=/; HttpOnly; SameSite=Lax\r\n");
        return (
            200,
            cookie,
            page("login", &values("login", user, &fields, flaw)),
        );
    }
    let id = headers
        .get("cookie")
        .and_then(|cookie| cookie.strip_prefix("rhythm_session="))
        .unwrap_or_default();
    let user = state.sessions.lock().unwrap().get(id).copied();
    if name == "logout" {
        if flaw != Flaw::LogoutForgotten {
            state.sessions.lock().unwrap().remove(id);
        }
        return (200, html, page("logout", &[]));
    }
    let Some(user) = user else {
        return (200, html, page("login_form", &[]));
    };
    let check = field("check_no")
        .parse()
        .ok()
        .and_then(|number| BANK.check(user, number));
    match (name, check) {
        ("check_detail_html", None) => (200, html, page("message", &[])),
        ("check_detail_image", Some(check)) => {
            let mut path = Vec::new();
            let front = (field("side") == "front") != (flaw == Flaw::WrongImage);
            if front {
                check.write_front(&mut path)
            } else {
                check.write_back(&mut path)
            }
            (
                200,
                "Content-Type: image/png\r\n".into(),
                image(std::str::from_utf8(&path).unwrap()).to_vec(),
            )
        }
        ("post_transfer", _) if field("from") == field("to") => (200, html, page("message", &[])),
        _ => (200, html, page(name, &values(name, user, &fields, flaw))),
    }
}

/// Fronts and backs look different.
pub(crate) fn image(path: &str) -> &'static [u8] {
    IMAGES[usize::from(path.contains("back"))]
}

pub(crate) fn decode(text: &str) -> String {
    let mut out = Vec::new();
    rhythm_protocol::http::uri::decode_form(text.as_bytes(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// What BeSim answers, and the names of its columns.
pub(crate) fn values(
    name: &str,
    user: u32,
    fields: &HashMap<String, String>,
    flaw: Flaw,
) -> Vec<(String, String)> {
    let field = |name: &str| fields.get(name).map_or("", String::as_str).to_owned();
    let all = |names: &[&str]| names.iter().map(|name| field(name)).collect::<Vec<_>>();
    let (columns, queries): (&[&str], Vec<(u32, Vec<String>)>) = match name {
        "login" | "order_check" | "transfer" => {
            (&["account", "kind", "balance"], vec![(2, vec![])])
        }
        "account_summary" => (
            &[
                "account",
                "kind",
                "balance",
                "deposits",
                "avg_deposit",
                "withdrawals",
                "avg_withdrawal",
            ],
            vec![(3, vec![])],
        ),
        "bill_pay" => (&["payee", "date", "amount"], vec![(5, vec![])]),
        "bill_pay_status_output" => {
            assert!(Date::parse(field("start").as_bytes()).is_some());
            (
                &["payee", "date", "amount"],
                vec![(8, all(&["start", "end"]))],
            )
        }
        "check_detail_html" => (&["detail", "", ""], vec![(4, all(&["check_no"]))]),
        "profile" => (
            &["street", "city", "state", "zip", "email", "phone"],
            vec![(9, vec![])],
        ),
        "change_profile" => (
            &["confirmation"],
            vec![(
                10,
                all(&["street", "city", "state", "zip", "email", "phone"]),
            )],
        ),
        "post_payee" => (
            &["confirmation"],
            vec![(
                6,
                all(&[
                    "payee_id", "name", "street", "city", "state", "zip", "phone",
                ]),
            )],
        ),
        "place_check_order" => {
            let order = vec![field("account_no"), "2026-01-15".into(), field("number")];
            (&["confirmation"], vec![(11, order)])
        }
        "post_transfer" => {
            let mut transfer = all(&["from", "to", "amount"]);
            transfer.push("2026-01-15".into());
            (&["account", "new_balance"], vec![(12, transfer)])
        }
        "quick_pay" => {
            let one = |i| {
                all(&[
                    &format!("payee[{i}]"),
                    &format!("date[{i}]"),
                    &format!("amount[{i}]"),
                ])
            };
            (
                &["confirmation"],
                (0..fields.len() / 3).map(|i| (7, one(i))).collect(),
            )
        }
        _ => (&[], vec![]),
    };
    let mut values = Vec::new();
    match name {
        "login" => values.push(("userid".to_owned(), user.to_string())),
        "check_detail_html" => values.push(("check_no".to_owned(), field("check_no"))),
        _ => {}
    }
    for (command, arguments) in queries {
        let asked = if flaw == Flaw::OthersBalance && command == 3 {
            user % USERS + 1
        } else {
            user
        };
        let mut query = format!("1&{command}&{asked}").into_bytes();
        for argument in arguments {
            query.push(b'&');
            rhythm_protocol::http::uri::encode(argument.as_bytes(), &mut query);
        }
        let mut body = Vec::new();
        BANK.answer(&query, &mut body);
        let body = String::from_utf8(body).unwrap();
        let rows = body
            .strip_prefix("<pre>\n0\n")
            .unwrap_or_else(|| panic!("{body}"));
        let mut rows: Vec<_> = rows.strip_suffix("</pre>\n").unwrap().lines().collect();
        if flaw == Flaw::RowMissing && command == 5 {
            rows.pop();
        }
        for row in rows {
            let columns = columns
                .iter()
                .zip(row.split('&'))
                .filter(|(name, _)| !name.is_empty());
            values.extend(columns.map(|(name, value)| {
                let value = match flaw {
                    Flaw::NotEscaped => value.replace('\'', "&amp;#39;"),
                    _ => value.replace('"', "&quot;").replace('\'', "&#39;"),
                };
                ((*name).to_owned(), value)
            }));
        }
    }
    values
}

pub(crate) fn page(name: &str, values: &[(String, String)]) -> Vec<u8> {
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><title>{name}</title>\
         <link rel=\"stylesheet\" href=\"/bank/static/bank.css\"></head>\n\
         <body data-page=\"{name}\"><img src=\"/bank/static/front.png\">"
    );
    for (name, value) in values {
        page += &format!("<b data-f=\"{name}\">{value}</b>\n");
    }
    (page + "</body></html>\n").into_bytes()
}
