//! What is a request, if an odd one.

use crate::cases::*;

#[test]
fn well_formed() {
    expect(&[
        (
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /? h none keep +0"),
        ),
        (
            "GET /a/b.php?x=1&y=%20 HTTP/1.1\r\nhost:h.example:8080\r\n\r\n",
            Ok("GET /a/b.php?x=1&y=%20 h.example:8080 none keep +0"),
        ),
        (
            "GET /?a?b HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /?a?b h none keep +0"),
        ),
        (
            "GET /x? HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /x? h none keep +0"),
        ),
        (
            "GET /a|b[c]{d}^`~ HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /a|b[c]{d}^`~? h none keep +0"),
        ),
        (
            "HEAD / HTTP/1.1\r\nHOST:\t h \t\r\n\r\n",
            Ok("HEAD /? h none keep +0"),
        ),
        (
            "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /? h none keep +0"),
        ),
        (
            "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\nGET",
            Ok("GET /? h none keep +3"),
        ),
        ("GET / HTTP/1.0\r\n\r\n", Ok("GET /?  none 1.0 close +0")),
        (
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            Ok("GET /?  none 1.0 keep +0"),
        ),
        (
            "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\n",
            Ok("GET /? h none 1.0 close +0"),
        ),
        (
            "GET / HTTP/1.9\r\nHost: h\r\n\r\n",
            Ok("GET /? h none keep +0"),
        ),
        (
            "GET http://other:80/p?q HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /p?q other:80 none keep +0"),
        ),
        (
            "GET HTTPS://other HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /? other none keep +0"),
        ),
        (
            "GET http://other?q HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /?q other none keep +0"),
        ),
        (
            "GET http://other/ HTTP/1.0\r\n\r\n",
            Ok("GET /? other none 1.0 close +0"),
        ),
        (
            "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("OPTIONS *? h none keep +0"),
        ),
        (
            "OPTIONS http://other HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("OPTIONS *? other none keep +0"),
        ),
        (
            "OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("OPTIONS /? h none keep +0"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            Ok("GET /? [::1]:80 none keep +0"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:\r\n\r\n",
            Ok("GET /? 127.0.0.1: none keep +0"),
        ),
        (
            "PUT / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("PUT /? h none keep +0"),
        ),
        (
            "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("DELETE /? h none keep +0"),
        ),
        (
            "PATCH / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("PATCH /? h none keep +0"),
        ),
        (
            "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("TRACE /? h none keep +0"),
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
            Ok("POST /? h 5 keep +5"),
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Ok("POST /? h chunked keep +5"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n\0\n",
            Ok("GET /? h 2 keep +2"),
        ),
    ]);
    expect_headers(&[
        ("Content-Length: 0\r\n", Ok("0 keep")),
        ("Content-Length:   007  \r\n", Ok("7 keep")),
        (
            "content-length: 18446744073709551615\r\n",
            Ok("18446744073709551615 keep"),
        ),
        ("Transfer-Encoding: Chunked\r\n", Ok("chunked keep")),
        ("transfer-encoding:\tchunked \r\n", Ok("chunked keep")),
        ("Connection: close\r\n", Ok("none close")),
        ("Connection: Upgrade, Close\r\n", Ok("none close")),
        (
            "Connection: upgrade\r\nConnection: close\r\n",
            Ok("none close"),
        ),
        ("Connection: closed\r\n", Ok("none keep")),
        (
            "Content-Length: 3\r\nExpect: 100-continue\r\n",
            Ok("3 keep expect"),
        ),
        (
            "Content-Length: 3\r\nExpect: 100-Continue\r\n",
            Ok("3 keep expect"),
        ),
        (
            "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
            Ok("chunked keep expect"),
        ),
        ("Expect: 100-continue\r\n", Ok("none keep")),
        (
            "Content-Length: 0\r\nExpect: 100-continue\r\n",
            Ok("0 keep"),
        ),
        ("Connection: Keep-Alive, X\r\n", Ok("none keep")),
        ("Connection: x,,\tCLOSE ,\r\n", Ok("none close")),
        ("Connection:\r\n", Ok("none keep")),
        (
            "Connection: keep-alive\r\nConnection: x, close\r\n",
            Ok("none close"),
        ),
        (
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n",
            Ok("none keep"),
        ),
        (
            "Connection: close, Content-Length\r\nContent-Length: 3\r\n",
            Ok("3 close"),
        ),
        ("TE: trailers, chunked\r\n", Ok("none keep")),
        (
            "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n",
            Ok("chunked keep"),
        ),
        ("Content-Length:\t0\t\r\n", Ok("0 keep")),
        ("X:\t \r\nY: z\r\n", Ok("none keep")),
        ("X: :\r\nY:: z\r\n", Ok("none keep")),
        ("Cookie: a=1\r\nCookie: b=2\r\n", Ok("none keep")),
        ("X-Empty:\r\n", Ok("none keep")),
        ("X-Obs: \u{e9}\u{ff}\r\n", Ok("none keep")),
        ("X: a\tb: c,;\"\r\n", Ok("none keep")),
        ("!#$%&'*+-.^_`|~09azAZ: x\r\n", Ok("none keep")),
        ("Transfer_Encoding: chunked\r\n", Ok("none keep")),
        (
            "X-Transfer-Encoding: chunked\r\nContent-Length-X: 1\r\n",
            Ok("none keep"),
        ),
    ]);
    expect(&[(
        "POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        Ok("POST /?  3 1.0 close +0"),
    )]);
}
