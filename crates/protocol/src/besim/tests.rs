//! Tests of BeSim's text form.

use super::*;
use proptest::prelude::*;

type Values = Vec<(u32, u32, Vec<u8>)>;

fn decoded(body: &[u8], columns: u32) -> Result<(Answer, Values), BesimError> {
    let mut values = Vec::new();
    let answer = decode(body, columns, 8, &mut values, |start, len| {
        body[start..start + len].to_vec()
    })?;
    let values = values.into_iter().zip(0..);
    let placed = values.map(|(value, i)| (i / columns, i % columns, value));
    Ok((answer, placed.collect()))
}

/// Appends the query of a request with these arguments to `out`.
fn write_request<'a>(
    command: u32,
    arguments: impl IntoIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"1&");
    out.extend_from_slice(itoa::Buffer::new().format(command).as_bytes());
    for argument in arguments {
        out.push(b'&');
        uri::encode(argument, out);
    }
}

#[test]
fn requests_split_and_come_back() {
    let mut query = Vec::new();
    let arguments: [&[u8]; 3] = [b"42", b"a&1&b <\r\n", b""];
    write_request(6, arguments, &mut query);
    assert_eq!(query, b"1&6&42&a%261%26b%20%3C%0D%0A&");
    let request = Request::parse(&query).unwrap();
    assert_eq!(request.command, 6);
    let back: Vec<_> = request
        .arguments()
        .map(|argument| {
            let mut out = Vec::new();
            decode_argument(argument, &mut out).unwrap();
            out
        })
        .collect();
    assert_eq!(back, arguments);
    assert_eq!(Request::parse(b"1&0").unwrap().arguments().count(), 0);
    for bad in [
        "", "1", "1&", "1&&2", "2&1", "1&x", "1&+1", "1&99999", "&1&1",
    ] {
        assert_eq!(
            Request::parse(bad.as_bytes()),
            Err(BesimError::Request),
            "{bad}"
        );
    }
}

#[test]
fn answers() {
    let (answer, values) = decoded(b"<pre>\n0\n12&01&5.50\n13&02&\n</pre>\n", 3).unwrap();
    let plain = |status, rows| Answer {
        status,
        rows,
        is_encoded: false,
    };
    assert_eq!(answer, plain(0, 2));
    assert_eq!(values[2], (0, 2, b"5.50".to_vec()));
    assert_eq!(values[5], (1, 2, b"".to_vec()));
    let framed = b"<html>\n<body><pre>\n<pre>\n1\n</pre>\n</body>\0";
    assert_eq!(decoded(framed, 4), Ok((plain(1, 0), vec![])));
    assert_eq!(decoded(b"<pre>\n0\n\n</pre>", 1).unwrap().0.rows, 1);
}

#[test]
fn malformed_answers() {
    use BesimError::*;
    let cases: [(&[u8], u32, BesimError); 22] = [
        (b"", 1, NoPre),
        (b"<pre>", 1, NoPre),
        (b"<pre>\r\n0\r\n</pre>\r\n", 1, NoPre),
        (b"x<pre>\n0\n</pre>\n", 1, NoPre),
        (b"<pre>\n", 1, Status),
        (b"<pre>\n0", 1, Status),
        (b"<pre>\n10\n</pre>\n", 1, Status),
        (b"<pre>\nx\n</pre>\n", 1, Status),
        (b"<pre>\n</pre>\n", 1, Status),
        (b"<pre>\n0\n", 1, NotClosed),
        (b"<pre>\n0\na\n", 1, NotClosed),
        (b"<pre>\n0\na\n</pre", 1, NotClosed),
        (b"<pre>\n0\na&</pre>", 2, NotClosed),
        (b"<pre>\n0\na\n</pre>\n", 2, Columns),
        (b"<pre>\n0\na&b&c\n</pre>\n", 2, Columns),
        (b"<pre>\n0\na\n</pre>\n", 0, Columns),
        (b"<pre>\n0\n\n</pre>\n", 2, Columns),
        (b"<pre>\n0\na\n</pre> \n</pre>\n", 2, Columns),
        (
            b"<pre>\n0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n</pre>\n",
            1,
            TooManyRows,
        ),
        (b"<pre>\n0\na\rb\n</pre>\n", 1, Control),
        (b"<pre>\n0\na\0\n</pre>\n", 1, Control),
        (b"<pre>\n0\na\xff\n</pre>\n", 1, NotUtf8),
    ];
    for (body, columns, error) in cases {
        assert_eq!(
            decoded(body, columns),
            Err(error),
            "{}",
            body.escape_ascii()
        );
    }
}

#[test]
fn what_is_not_encoded_where_all_is_said_to_be_is_no_value() {
    let mut reader = AnswerReader::default();
    let mut read = |body: &[u8]| reader.read(body, 1, 8).map(|values| values.status);
    assert_eq!(read(b"<pre>\n0%\n%4\n</pre>\n"), Err(BesimError::Encoding));
    assert_eq!(read(b"<pre>\n0\n%4\n</pre>\n"), Ok(0));
    assert_eq!(read(b"<pre>\n0%\n</pre>"), Ok(0));
    assert_eq!(read(b"<pre>\n3%\n%4\n</pre>"), Ok(3));
}

#[test]
fn rows_cannot_break_out() {
    let mut body = Vec::new();
    start_answer(0, &mut body);
    let columns: [&[u8]; 1] = [b"</pre>"];
    write_row(columns, &mut body);
    let columns: [&[u8]; 1] = [b"a&b\r\n</pre>\n"];
    write_row(columns, &mut body);
    end_answer(&mut body);
    let (answer, values) = decoded(&body, 1).unwrap();
    assert_eq!(answer.rows, 2);
    assert_eq!(values[0].2, b" /pre>");
    assert_eq!(values[1].2, b"a b  </pre> ");
}

/// The rows by the definition: lines, split at `&`.
fn naive(text: &str, columns: usize) -> Option<Vec<Vec<String>>> {
    let block = text.split_once("\n</pre>\n")?.0;
    let mut rows = Vec::new();
    for line in block.split('\n').skip(1) {
        let row: Vec<_> = line.split('&').map(str::to_owned).collect();
        if row.len() != columns || line.contains('\x07') {
            return None;
        }
        rows.push(row);
    }
    (rows.len() <= 8).then_some(rows)
}

proptest! {
    #[test]
    fn same_as_naive(
        rows in "(([a-z]{0,40}&){0,2}[a-z\u{e9}\x07]{0,30}\n){0,10}",
        columns in 1u32..4,
    ) {
        let text = format!("0\n{rows}</pre>\n");
        let body = format!("<pre>\n{text}");
        let found = decoded(body.as_bytes(), columns).ok().map(|(answer, values)| {
            let mut rows = vec![Vec::new(); answer.rows as usize];
            for (row, _, value) in values {
                rows[row as usize].push(String::from_utf8(value).unwrap());
            }
            rows
        });
        prop_assert_eq!(found, naive(&text, columns as usize));
    }

    #[test]
    fn encoded_values_are_any_bytes(
        rows in proptest::collection::vec(proptest::collection::vec(any::<Vec<u8>>(), 3), 0..8)
    ) {
        let mut body = Vec::new();
        start_encoded_answer(&mut body);
        for row in &rows {
            write_encoded_row(row.iter().map(Vec::as_slice), &mut body);
        }
        end_answer(&mut body);
        let (answer, values) = decoded(&body, 3).unwrap();
        prop_assert!(answer.is_encoded && answer.rows as usize == rows.len());
        let values = values.into_iter().map(|(_, _, value)| {
            let mut out = Vec::new();
            uri::decode_bytes(&value, &mut out).unwrap();
            out
        });
        prop_assert!(values.eq(rows.iter().flatten().cloned()));
        let mut reader = AnswerReader::default();
        for _ in 0..2 {
            let read = reader.read(&body, 3, 8).unwrap();
            prop_assert!(read.rows().map(|row| row.collect::<Vec<_>>()).eq(rows.clone()));
        }
        let plain = reader.read(b"<pre>\n0\na%41&b\n</pre>\n", 2, 8).unwrap();
        prop_assert!(plain.rows().flatten().eq([&b"a%41"[..], b"b"]));
    }

    #[test]
    fn any_bytes_do_not_panic(
        rows in proptest::collection::vec(any::<u8>(), 0..200),
        columns in 0u32..4,
    ) {
        let mut body = b"<pre>\n0\n".to_vec();
        body.extend_from_slice(&rows);
        let _ = decoded(&body, columns);
    }
}
