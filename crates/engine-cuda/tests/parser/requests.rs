//! Requests as the benchmark's users make them, and what chance makes of them.

use rhythm_protocol::http::uri;

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// A page of the bank, whether it is posted, and what it is sent.
pub(crate) fn bank_request(rng: &mut Rng) -> Vec<u8> {
    const PAGES: [&str; 16] = [
        "login",
        "account_summary",
        "add_payee",
        "bill_pay",
        "bill_pay_status_output",
        "change_profile",
        "check_detail_html",
        "check_detail_image",
        "order_check",
        "place_check_order",
        "post_payee",
        "post_transfer",
        "profile",
        "quick_pay",
        "transfer",
        "logout",
    ];
    let page = *rng.pick(&PAGES.each_ref());
    let number = |rng: &mut Rng, below: usize| (1 + rng.below(below)).to_string();
    let date = |rng: &mut Rng| format!("2026-{:02}-{:02}", 1 + rng.below(12), 1 + rng.below(28));
    let amount = |rng: &mut Rng| format!("{}.{:02}", rng.below(100_000), rng.below(100));
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut field = |name: &str, value: String| fields.push((name.to_owned(), value));
    let mut post = true;
    match page {
        "login" => {
            let user = number(rng, 100_000);
            field("userid", user.clone());
            field("password", format!("secret-{user}"));
        }
        "bill_pay_status_output" => {
            field("start", date(rng));
            field("end", date(rng));
            post = rng.below(2) == 0;
        }
        "change_profile" => {
            let streets = [
                "12 Main Street",
                "7 O'Hara & Sons Way",
                "1/2 \"Upper\" Rd",
                "9 <Old> Mill Lane",
            ];
            field("street", rng.pick(&streets).to_owned());
            let cities = ["Springfield", "Saint-Étienne", "Land O' Lakes", "東京都"];
            field("city", rng.pick(&cities).to_owned());
            field("state", rng.pick(&["OR", "ME", "VT"]).to_owned());
            field("zip", format!("{:05}", rng.below(100_000)));
            field(
                "email",
                format!("user+{}@example.org", rng.below(1_000_000)),
            );
            field("phone", format!("(555) 010-{:04}", rng.below(10_000)));
        }
        "check_detail_html" => {
            field("check_no", number(rng, 60));
            post = false;
        }
        "check_detail_image" => {
            field("side", rng.pick(&["front", "back"]).to_owned());
            field("check_no", number(rng, 60));
            post = false;
        }
        "place_check_order" => {
            field("account_no", number(rng, 9_999_999_999));
            field("number", number(rng, 500));
        }
        "post_payee" => {
            field("payee_id", number(rng, 9_999_999));
            let names = ["City Water", "Bell & Ward <Plumbing>", "A=B; 100%"];
            field("name", rng.pick(&names).to_owned());
            field("street", format!("{} Elm Street", 1 + rng.below(999)));
            field("city", rng.pick(&["Salem", "Coeur d'Alene"]).to_owned());
            field("state", rng.pick(&["OR", "ID", "ND"]).to_owned());
            field("zip", format!("{:05}", rng.below(100_000)));
            field("phone", format!("555-{:04}", rng.below(10_000)));
        }
        "post_transfer" => {
            field("from", number(rng, 9_999_999_999));
            field("to", number(rng, 9_999_999_999));
            field("amount", amount(rng));
        }
        "quick_pay" => {
            for item in 0..1 + rng.below(8) {
                field(&format!("payee[{item}]"), number(rng, 9_999_999));
                field(&format!("date[{item}]"), date(rng));
                field(&format!("amount[{item}]"), amount(rng));
            }
        }
        _ => post = false,
    }
    let mut encoded = Vec::new();
    for (name, value) in &fields {
        if !encoded.is_empty() {
            encoded.push(b'&');
        }
        uri::encode(name.as_bytes(), &mut encoded);
        encoded.push(b'=');
        uri::encode(value.as_bytes(), &mut encoded);
    }
    let encoded = String::from_utf8(encoded).unwrap();
    let session = match rng.below(8) {
        0 => String::new(),
        _ => format!(
            "Cookie: rhythm_session={:08x}{:016x}{:016x}\r\n",
            rng.below(1 << 20),
            rng.next(),
            rng.next()
        ),
    };
    let user = "User-Agent: rhythm-load\r\nAccept: text/html,image/*,*/*;q=0.8\r\n";
    if post {
        let length = encoded.len();
        format!(
            "POST /bank/{page}.php HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{user}{session}\
             Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {length}\r\n\r\n{encoded}"
        )
    } else {
        let mark = if encoded.is_empty() { "" } else { "?" };
        format!(
            "GET /bank/{page}.php{mark}{encoded} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\
             {user}{session}\r\n"
        )
    }
    .into_bytes()
}

/// Changes a request in one to three ways, some of which it survives.
pub(crate) fn mutate(request: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(3) {
        mutate_once(request, rng);
    }
    if rng.below(3) > 0 {
        mend_length(request);
    }
}

fn mutate_once(request: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(request.len().max(1)).min(request.len());
    match rng.below(10) {
        0 => request.truncate(at),
        1 | 2 => {
            const BYTES: &[u8] =
                b"\0\t\n\r \"#%&'+,-./09:;<=>?@AZ[\\]^_`az{|}~\x7f\x80\xc3\xa9\xff";
            if let Some(byte) = request.get_mut(at) {
                *byte = BYTES[rng.below(BYTES.len())];
            }
        }
        3 => {
            if at < request.len() {
                request.remove(at);
            }
        }
        4 => {
            // A header line again, or one that says something else.
            let lines: Vec<&[u8]> = request.split(|byte| *byte == b'\n').collect();
            let mut line = lines[rng.below(lines.len())].to_vec();
            line.push(b'\n');
            insert_line(request, &line, rng);
        }
        5 => {
            const LINES: [&str; 15] = [
                "Connection: keep-alive\r\n",
                "Connection: close\r\n",
                "connection: Keep-Alive\r\n",
                "COOKIE: a=b; rhythm_session=0000000100000000000000020000000000000003\r\n",
                "Cookie: rhythm_session=\"00000001000000000000000200000000000000ff\" ; c\r\n",
                "Transfer-Encoding: chunked\r\n",
                "Expect: 100-continue\r\n",
                "Range: bytes=0-1\r\n",
                "If-None-Match: \"a\"\r\n",
                "X-Odd_name~: \t a\tb\u{e9} \r\n",
                "content-type:application/x-www-form-urlencoded ; charset=utf-8\r\n",
                "Host: example.org\r\n",
                " folded: x\r\n",
                "Content-Length: 0\r\n",
                "Accept-Encoding: gzip, deflate, br\r\n",
            ];
            let line = *rng.pick(&LINES.each_ref());
            insert_line(request, line.as_bytes(), rng);
        }
        6 | 7 => {
            // Something odd after the separator of a pair, a name or a value.
            const TEXTS: [&str; 18] = [
                "%20",
                "+",
                "%",
                "%4",
                "%00",
                "%zz",
                "%C3%A9",
                "%ff",
                "&",
                "&&",
                "=",
                "&x=1",
                "&start=2026-01-02",
                "%5B0%5D",
                "&payee[0]=1",
                "&payee=1",
                "&payee[]=1",
                "0000",
            ];
            let text = *rng.pick(&TEXTS.each_ref());
            let places: Vec<usize> = (0..request.len())
                .filter(|at| matches!(request[*at], b'&' | b'=' | b'?' | b'%'))
                .collect();
            if !places.is_empty() {
                let at = places[rng.below(places.len())] + rng.below(2);
                request.splice(at..at, text.bytes());
            }
        }
        8 => {
            if let Some(byte) = request.get_mut(at) {
                *byte ^= 0x20;
            }
        }
        _ => {
            // A run of bytes again, somewhere else.
            let end = (at + 1 + rng.below(24)).min(request.len());
            let run = request[at..end].to_vec();
            let to = rng.below(request.len() + 1);
            request.splice(to..to, run);
        }
    }
}

/// Puts a line behind another one of the head.
fn insert_line(request: &mut Vec<u8>, line: &[u8], rng: &mut Rng) {
    let ends: Vec<usize> = (0..request.len())
        .filter(|at| request[*at] == b'\n')
        .collect();
    if !ends.is_empty() {
        let at = ends[rng.below(ends.len())] + 1;
        request.splice(at..at, line.iter().copied());
    }
}

/// Makes the first Content-Length the length of what follows the head.
fn mend_length(request: &mut Vec<u8>) {
    let find = |request: &[u8], text: &[u8]| {
        request
            .windows(text.len())
            .position(|window| window == text)
    };
    const NAME: &[u8] = b"Content-Length: ";
    let (Some(name), Some(end)) = (find(request, NAME), find(request, b"\r\n\r\n")) else {
        return;
    };
    if name > end {
        return;
    }
    let from = name + NAME.len();
    let to = from + find(&request[from..], b"\r").unwrap_or(0);
    let length = (request.len() - end - 4).to_string();
    request.splice(from..to, length.into_bytes());
}
