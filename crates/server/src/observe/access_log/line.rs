//! A line of the access log: what it tells, and its three formats.

use crate::trace::RequestId;
use rhythm_engine::settings::AccessLogFormat;
use rhythm_http::Answered;
use rhythm_net::Client;
use rhythm_protocol::calendar::date_of;
use rhythm_protocol::http::request::RequestHead;
use serde::Serializer;
use std::io::Write;
use std::time::Duration;

/// Bytes of a line besides those of its request, at most.
const LINE_BYTES_MAX: usize = 256 + 2 * SERVICE_BYTES_MAX + RequestId::BYTES_MAX;

/// Most bytes of a service's name in a line.
const SERVICE_BYTES_MAX: usize = 64;

/// A service's name as lines have it: of what can be seen, so that it is one word.
pub(super) fn service_name(label: &str) -> String {
    let mut name = String::new();
    for letter in label.chars() {
        let shown = match letter.is_whitespace() || letter.is_control() {
            true => '_',
            false => letter,
        };
        if name.len() + shown.len_utf8() > SERVICE_BYTES_MAX {
            break;
        }
        name.push(shown);
    }
    name
}

/// The most bytes of a line: all that is ever escaped of a request's line are characters that take
/// two; of its fields, any byte may take four.
pub(super) fn line_max(format: AccessLogFormat, request: usize) -> usize {
    let each = match format {
        AccessLogFormat::Common | AccessLogFormat::Json => 2,
        AccessLogFormat::Combined => 4,
    };
    LINE_BYTES_MAX.saturating_add(request.saturating_mul(each))
}

/// What stands between the request line and the fields behind it: no head has it.
const BETWEEN: u8 = 0;

/// What a line tells of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEntry<'a> {
    /// The index of the site that it is for, if that is known.
    pub(crate) site: Option<usize>,
    /// Where the client is.
    pub(crate) peer: Client,
    /// Method and target as they came, and the version. All of it is ASCII: the parser of heads
    /// lets nothing else through. In the format `combined`, what `Referer` and `User-Agent` say
    /// behind it, of any bytes but control characters.
    pub(crate) request: &'a [u8],
    /// Its id, where requests have some.
    pub(crate) id: Option<RequestId>,
}

impl<'a> LogEntry<'a> {
    /// Appends the text of [`LogEntry::request`] for a request whose head is complete, and which
    /// came by HTTP/2 or not.
    pub(crate) fn write(
        head: &RequestHead,
        bytes: &[u8],
        (format, is_http2): (AccessLogFormat, bool),
        to: &mut Vec<u8>,
    ) {
        to.extend_from_slice(head.method_name(bytes));
        to.push(b' ');
        to.extend_from_slice(head.target().of(bytes));
        let version = match is_http2 {
            true => "2.0",
            false if head.is_http10() => "1.0",
            false => "1.1",
        };
        to.extend_from_slice(b" HTTP/");
        to.extend_from_slice(version.as_bytes());
        if format == AccessLogFormat::Combined {
            for name in ["referer", "user-agent"] {
                to.push(BETWEEN);
                let mut all = head.headers().iter();
                let found = all.find(|header| {
                    let its = header.name.of(bytes);
                    its.eq_ignore_ascii_case(name.as_bytes())
                });
                to.extend_from_slice(found.map_or(&[], |header| header.value.of(bytes)));
            }
        }
    }

    /// The request line.
    pub(crate) fn line(&self) -> &'a [u8] {
        self.request
            .split(|byte| *byte == BETWEEN)
            .next()
            .unwrap_or_default()
    }
}

/// What a line is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) entry: LogEntry<'a>,
    /// The name of its service, where there are several: `-` where it is none's.
    pub(super) service: Option<&'a str>,
    pub(super) answered: Answered,
    /// From the request's last byte to its answer.
    pub(super) took: Duration,
    /// Seconds since 1970.
    pub(super) at: u64,
}

/// Appends it in the common log format, or in the combined one; where there are several services,
/// behind the name of one; where requests have ids, before that.
pub(super) fn write_common(line: &Line<'_>, is_combined: bool, to: &mut Vec<u8>) {
    let (year, month, day) = date_of((line.at / 86_400) as i64);
    let of_day = line.at % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    if let Some(service) = line.service {
        to.extend_from_slice(service.as_bytes());
        to.push(b' ');
    }
    // Writing to a Vec cannot fail.
    let _ = write!(
        to,
        "{} - - [{day:02}/{}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000] \"",
        line.entry.peer,
        MONTHS[month as usize - 1],
    );
    write_escaped(line.entry.line(), to);
    let Answered {
        status,
        body_length,
    } = line.answered;
    // As the format has it, no bytes are a dash.
    let _ = match body_length {
        0 => write!(to, "\" {status} -"),
        length => write!(to, "\" {status} {length}"),
    };
    if is_combined {
        let mut fields = line.entry.request.split(|byte| *byte == BETWEEN).skip(1);
        for _ in 0..2 {
            let field = fields.next().filter(|field| !field.is_empty());
            to.extend_from_slice(b" \"");
            write_escaped(field.unwrap_or(b"-"), to);
            to.push(b'"');
        }
    }
    if let Some(id) = line.entry.id {
        to.push(b' ');
        to.extend_from_slice(id.as_bytes());
    }
    to.push(b'\n');
}

/// Appends what a client said: what could be mistaken for the end of the field, or for a line of
/// its own, as Apache does.
fn write_escaped(said: &[u8], to: &mut Vec<u8>) {
    for &byte in said {
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', byte]),
            0x20..0x7f => to.push(byte),
            // Writing to a Vec cannot fail.
            _ => drop(write!(to, "\\x{byte:02x}")),
        }
    }
}

fn as_shown<S: Serializer>(client: &Client, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(client)
}

/// Appends it as an object of JSON.
pub(super) fn write_json(line: &Line<'_>, to: &mut Vec<u8>) {
    #[derive(serde::Serialize)]
    struct Json<'a> {
        time: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        service: Option<&'a str>,
        #[serde(serialize_with = "as_shown")]
        peer: Client,
        request: &'a str,
        status: u16,
        bytes: u64,
        seconds: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
    }
    // Neither the values nor writing to a Vec can fail.
    let _ = serde_json::to_writer(
        &mut *to,
        &Json {
            time: line.at,
            service: line.service,
            peer: line.entry.peer,
            request: &String::from_utf8_lossy(line.entry.line()),
            status: line.answered.status,
            bytes: line.answered.body_length,
            seconds: line.took.as_secs_f64(),
            id: line.entry.id.as_ref().map(RequestId::as_str),
        },
    );
    to.push(b'\n');
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rhythm_protocol::http::head::Progress;
    use rhythm_protocol::http::request::{HeadLimits, parse_head};

    pub(in super::super) fn entry(request: &str) -> LogEntry<'_> {
        LogEntry {
            site: None,
            peer: Client::At(([192, 0, 2, 1], 4711).into()),
            request: request.as_bytes(),
            id: None,
        }
    }

    fn line(entry: LogEntry<'_>) -> Line<'_> {
        let answered = Answered {
            status: 200,
            body_length: 5,
        };
        Line {
            entry,
            service: None,
            answered,
            took: Duration::from_millis(2),
            at: 1_709_164_801,
        }
    }

    #[test]
    fn tells_the_request_line() {
        let get = b"GET /a?b=%20 HTTP/1.1\r\nHost: h\r\n\r\n";
        for (bytes, is_http2, line) in [
            (&get[..], false, "GET /a?b=%20 HTTP/1.1"),
            (get, true, "GET /a?b=%20 HTTP/2.0"),
            (b"HEAD / HTTP/1.0\r\n\r\n", false, "HEAD / HTTP/1.0"),
        ] {
            let mut head = RequestHead::new();
            let parsed = parse_head(&mut head, bytes, &HeadLimits::default());
            assert!(matches!(parsed, Ok(Progress::Complete { .. })), "{line}");
            let mut text = Vec::new();
            let by = (AccessLogFormat::Common, is_http2);
            LogEntry::write(&head, bytes, by, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), line);
        }
    }

    #[test]
    fn common_and_json_tell_the_same() {
        let mut out = Vec::new();
        write_common(&line(entry("GET /a\"b\n HTTP/1.1")), false, &mut out);
        write_json(&line(entry("GET / HTTP/1.1")), &mut out);
        let mut of_proxy = line(entry("GET / HTTP/1.1"));
        of_proxy.entry.peer = Client::Unix;
        write_common(&of_proxy, false, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "192.0.2.1 - - [29/Feb/2024:00:00:01 +0000] \"GET /a\\\"b\\x0a HTTP/1.1\" 200 5\n\
             {\"time\":1709164801,\"peer\":\"192.0.2.1\",\"request\":\"GET / HTTP/1.1\",\
             \"status\":200,\"bytes\":5,\"seconds\":0.002}\n\
             unix - - [29/Feb/2024:00:00:01 +0000] \"GET / HTTP/1.1\" 200 5\n"
        );
    }
    #[test]
    fn fields_stand_behind_in_the_combined_format_and_ids_last() {
        let bytes = b"GET /a HTTP/1.1\r\nHost: h\r\nUser-Agent: a \"b\" \xff\tc\r\n\r\n";
        let mut head = RequestHead::new();
        let parsed = parse_head(&mut head, bytes, &HeadLimits::default());
        assert!(matches!(parsed, Ok(Progress::Complete { .. })));
        let (mut text, mut out) = (Vec::new(), Vec::new());
        let by = (AccessLogFormat::Combined, false);
        LogEntry::write(&head, bytes, by, &mut text);
        let mut its = line(LogEntry {
            request: &text,
            id: RequestId::taken(b"id-1"),
            ..entry("")
        });
        write_common(&its, true, &mut out);
        write_json(&its, &mut out);
        its.entry.request = b"-";
        its.entry.id = None;
        write_common(&its, true, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "192.0.2.1 - - [29/Feb/2024:00:00:01 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \
             \"a \\\"b\\\" \\xff\\x09c\" id-1\n\
             {\"time\":1709164801,\"peer\":\"192.0.2.1\",\"request\":\"GET /a HTTP/1.1\",\
             \"status\":200,\"bytes\":5,\"seconds\":0.002,\"id\":\"id-1\"}\n\
             192.0.2.1 - - [29/Feb/2024:00:00:01 +0000] \"-\" 200 5 \"-\" \"-\"\n"
        );
    }
}
