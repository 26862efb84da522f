//! Answers as a client reads them: framing first, then whether this is what was asked for.

use flate2::bufread::GzDecoder;
use std::io::Read;

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// As it was before it was encoded.
    pub(crate) body: Vec<u8>,
    /// Bytes of it that were sent.
    pub(crate) sent: usize,
}

impl Response {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map(|(_, value)| value.as_str())
    }

    /// Whether it says that the connection ends with it.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Takes an answer off the front of the input, if it is there whole. `to_head`: it has no body.
pub(crate) fn read(input: &mut Vec<u8>, to_head: bool) -> Result<Option<Response>, String> {
    let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match input.len() {
            0..8192 => Ok(None),
            _ => Err("an answer's head has no end".to_owned()),
        };
    };
    let head = std::str::from_utf8(&input[..end]).map_err(|_| "a head is not UTF-8")?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status: u16 = (status.and_then(|digits| digits.parse().ok()))
        .ok_or_else(|| format!("no status line: {status_line:?}"))?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line
            .split_once(": ")
            .ok_or_else(|| format!("no header: {line:?}"))?;
        let name = name.to_ascii_lowercase();
        let alone = !["set-cookie", "cache-control"].contains(&name.as_str());
        if alone && headers.iter().any(|(known, _)| *known == name) {
            return Err(format!("the header {name} twice"));
        }
        headers.push((name, value.to_owned()));
    }
    let mut response = Response {
        status,
        headers,
        body: Vec::new(),
        sent: 0,
    };
    let bare = status < 200 || status == 204 || status == 304;
    let in_chunks = match response.header("transfer-encoding") {
        Some("chunked") if response.header("content-length").is_none() && !bare => true,
        Some(other) => return Err(format!("Transfer-Encoding: {other}")),
        None => false,
    };
    let length = match response.header("content-length") {
        // White space before a value means nothing.
        Some(text) => (text.trim_start().parse()).map_err(|_| format!("Content-Length: {text}"))?,
        None if bare || in_chunks => 0,
        None => return Err(format!("a {status} without a length")),
    };
    if !bare && response.header("date").is_none() {
        return Err(format!("a {status} without a date"));
    }
    if in_chunks && !to_head {
        let Some((body, used)) = read_chunks(&input[end + 4..])? else {
            return Ok(None);
        };
        response.body = body;
        input.drain(..end + 4 + used);
        return Ok(Some(response));
    }
    let body = if bare || to_head { 0 } else { length };
    if input.len() < end + 4 + body {
        return Ok(None);
    }
    let sent = &input[end + 4..end + 4 + body];
    response.sent = sent.len();
    match response.header("content-encoding") {
        Some("gzip") if !sent.is_empty() => {
            let mut decoder = GzDecoder::new(sent);
            (decoder.read_to_end(&mut response.body)).map_err(|error| format!("gzip: {error}"))?;
            if !decoder.into_inner().is_empty() {
                return Err("something behind a stream of gzip".to_owned());
            }
        }
        Some("gzip") | None => response.body = sent.to_vec(),
        Some(other) => return Err(format!("Content-Encoding: {other}")),
    }
    input.drain(..end + 4 + body);
    Ok(Some(response))
}

/// A body in chunks and the bytes that it took, if it is there whole.
fn read_chunks(input: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = input[at..].windows(2).position(|two| two == b"\r\n") else {
            return Ok(None);
        };
        let digits = String::from_utf8_lossy(&input[at..at + line]).into_owned();
        let size = usize::from_str_radix(&digits, 16).map_err(|_| format!("chunk {digits:?}"))?;
        at += line + 2;
        let Some(chunk) = input.get(at..at + size + 2) else {
            return Ok(None);
        };
        if &chunk[size..] != b"\r\n" {
            return Err(format!("a chunk of {size} bytes has no end"));
        }
        body.extend_from_slice(&chunk[..size]);
        at += size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

/// Where two bodies differ, for people.
pub(crate) fn difference(got: &[u8], wanted: &[u8]) -> String {
    let at = got.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        let part = &bytes[at.saturating_sub(30).min(bytes.len())..(at + 30).min(bytes.len())];
        String::from_utf8_lossy(part).into_owned()
    };
    format!(
        "{} bytes instead of {}, from byte {at} on {:?} instead of {:?}",
        got.len(),
        wanted.len(),
        around(got),
        around(wanted)
    )
}
