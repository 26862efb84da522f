//! What a backend may answer in BeSim's text form, good and bad.

/// Answers of rows of a text and an integer.
pub(crate) fn bodies() -> Vec<Vec<u8>> {
    let row = |row: &[u8]| [b"<pre>\n0\n", row, b"\n</pre>\n"].concat();
    let rows: &[&[u8]] = &[
        b"a&1",
        b"&0",
        b"a&",
        b"a",
        b"",
        b"a&1&2",
        b"a&1&",
        b"a&+7",
        b"a&-7",
        b"a&--7",
        b"a&- 7",
        b"a&7 ",
        b"a&007",
        b"a&+",
        b"a&-",
        b"a&9223372036854775807",
        b"a&9223372036854775808",
        b"a&-9223372036854775808",
        b"a&-9223372036854775809",
        b"a&18446744073709551617",
        b"a&99999999999999999999999",
        b"a&00000000000000000000000000001",
        "ß日本&1".as_bytes(),
        "a cell of 16 byß&1\nthe next one&2".as_bytes(),
        b"\xc3&1",
        b"a\xc3\xa4&1",
        b"\xff&1",
        b"\xed\xa0\x80&1",
        b"\xc0\x80&1",
        b"\xf4\x90\x80\x80&1",
        b"\xf0\x9f\x98\x80&1",
        b"\xf0\x9f\x98&1",
        b"tab\t&1",
        b"del\x7f&1",
        b"zero\0&1",
        b"cr\r&1",
        b"a&1\nb&2\nc&3",
        b"a&1\nb&x\nc&3",
        b"</pre> &1",
        b"</prf>&1",
    ];
    let mut all: Vec<Vec<u8>> = rows.iter().map(|text| row(text)).collect();
    let texts: &[&[u8]] = &[
        b"",
        b"<pre>",
        b"<pre>\n",
        b"<pre>\n0",
        b"<pre>\n0\n",
        b"<pre>\n0\n</pre>",
        b"<pre>\n0\n</pre>\n",
        b"<pre>\n0\n</pre>\nmore",
        b"<pre>\n0\n</pre",
        b"<pre>\n0\na&1",
        b"<pre>\n0\na&1\n",
        b"<pre>\n0\na&1\n</pre>",
        b"<html>\nbefore\n<pre>\n0\na&1\n</pre>\n",
        b" <pre>\n0\na&1\n</pre>\n",
        b"<pre>\n00\na&1\n</pre>\n",
        b"<pre>\nx\na&1\n</pre>\n",
        b"<pre>\n3\nrefused\n</pre>\n",
        b"<pre>\n9\n",
        b"<pre>\n\n0\na&1\n</pre>\n",
        b"<pre>\r\n0\r\na&1\r\n</pre>\r\n",
    ];
    all.extend(texts.iter().map(|text| text.to_vec()));
    // As many rows as there may be, and one more.
    for rows in [4095, 4096, 4097] {
        all.push(row("r&1\n".repeat(rows).trim_end().as_bytes()));
    }
    all
}
