//! What is found by a method and a path.

use super::*;

fn route(method: &str, path: &str) -> Route {
    let segments = (path.split('/').skip(1))
        .map(|segment| match segment.strip_prefix('{') {
            Some(name) => Segment::Param(name.trim_end_matches('}').to_owned()),
            None => Segment::Literal(segment.to_owned()),
        })
        .collect();
    Route {
        method: method.to_owned(),
        segments,
    }
}

fn routes(list: &[(&str, &str)]) -> Routes {
    let mut routes = Routes::default();
    for (index, (method, path)) in list.iter().enumerate() {
        routes
            .add_route(&route(method, path), Target::Page(index as u32))
            .unwrap();
    }
    routes
}

fn find(routes: &Routes, method: Method, path: &str) -> (Option<u32>, String) {
    let mut captures = Captures::default();
    match routes.find(method, path.as_bytes(), &mut captures) {
        Found::Target(Target::Page(page), pattern) => {
            let values: Vec<String> = (0..routes.names(pattern).len())
                .map(|index| String::from_utf8_lossy(captures.get(index).unwrap()).into())
                .collect();
            (Some(page), values.join("|"))
        }
        Found::Target(..) => unreachable!("only pages here"),
        Found::OtherMethod => (None, routes.allowed(path.as_bytes())),
        Found::Nothing => (None, String::new()),
    }
}

#[test]
fn the_route_of_a_line_is_the_one_that_was_found() {
    let of_page = [
        ("GET", "/"),
        ("GET", "/a/{id}"),
        ("GET", "/a/new"),
        ("POST", "/a/{id}"),
        ("GET", "/{x}/new"),
    ];
    let all = of_page.map(|(method, path)| route(method, path));
    for (line, wanted) in [
        ("GET / HTTP/1.1", Some(0)),
        ("GET /?a=/a/new HTTP/1.1", Some(0)),
        ("GET /a/7?b HTTP/2.0", Some(1)),
        ("HEAD /a/%6eew HTTP/1.1", Some(2)),
        ("POST /a/new HTTP/1.1", Some(3)),
        ("GET /b/new HTTP/1.1", Some(4)),
        ("PUT /a/7 HTTP/1.1", None),
        ("GET /a/ HTTP/1.1", None),
        ("GET http://h/a/7 HTTP/1.1", None),
        ("GET /a/%zz HTTP/1.1", None),
        ("", None),
    ] {
        let found = found_by(&all, line.as_bytes());
        let wanted = wanted.map(|index: usize| &all[index]);
        assert!(found == wanted, "{line}: {found:?}");
    }
}

#[test]
fn finds_literal_paths_by_method() {
    let routes = routes(&[
        ("GET", "/"),
        ("GET", "/a.php"),
        ("POST", "/a.php"),
        ("GET", "/a b"),
    ]);
    assert_eq!(find(&routes, Method::Get, "/").0, Some(0));
    assert_eq!(find(&routes, Method::Head, "/a.php").0, Some(1));
    assert_eq!(find(&routes, Method::Post, "/a.php").0, Some(2));
    assert_eq!(find(&routes, Method::Post, "/").1, "GET, HEAD, OPTIONS");
    assert_eq!(
        find(&routes, Method::Put, "/a.php").1,
        "GET, HEAD, OPTIONS, POST"
    );
    assert_eq!(find(&routes, Method::Get, "/a%20b").0, Some(3));
    assert_eq!(find(&routes, Method::Get, "/%61.php").0, Some(1));
    for path in ["/a", "/a.php/", "//", "/a.php%2f", "/%zz", "*"] {
        assert_eq!(
            find(&routes, Method::Get, path),
            (None, String::new()),
            "{path}"
        );
    }
}

#[test]
fn many_paths_are_added_in_time_that_grows_with_them() {
    const PATHS: u32 = 10_000;
    let path = |index: u32| format!("/files/{index}");
    let mut table = RawTable::default();
    for index in 0..PATHS {
        table.insert(path(index).as_bytes(), index);
        assert!(table.keys.len() * 2 <= table.places.len());
    }
    table.insert(path(7).as_bytes(), 8);
    assert!(table.placed <= 3 * PATHS as usize, "{} times", table.placed);
    for index in 0..PATHS {
        assert_eq!(table.get(path(index).as_bytes()), Some(index));
    }
    assert_eq!(table.get(path(PATHS).as_bytes()), None);
}

#[test]
fn hosts_get_what_is_below_their_path_and_nothing_else() {
    let mut routes = routes(&[("GET", "/a/page"), ("GET", "/a/{b}/c")]);
    for (index, path) in (0..).zip(["/a", "/a/deep/", "/b/", "/a"]) {
        routes.add_host(path.as_bytes(), index);
    }
    let host = |path: &str| {
        let found = routes.find(Method::Post, path.as_bytes(), &mut Captures::default());
        match found {
            Found::Target(Target::Host(host), None) => Some(host),
            Found::OtherMethod | Found::Nothing => None,
            found => panic!("{path} is {found:?}"),
        }
    };
    for path in ["/a", "/a/", "/a/x%2f", "/a/%zz", "/a/deeper", "/a//"] {
        assert_eq!(host(path), Some(0), "{path}");
    }
    assert_eq!(host("/a/deep/c/d"), Some(1));
    assert_eq!((host("/b"), host("/b/c")), (Some(2), Some(2)));
    // Pages have their paths for themselves, whatever the method.
    for path in ["/", "/ab", "/bc", "/a/page", "/a/x/c", "*"] {
        assert_eq!(host(path), None, "{path}");
    }
    routes.add_host(b"/", 4);
    assert_eq!(
        find_target(&routes, "/ab"),
        Found::Target(Target::Host(4), None)
    );
    assert_eq!(find_target(&routes, "*"), Found::Nothing);
}

fn find_target(routes: &Routes, path: &str) -> Found {
    routes.find(Method::Get, path.as_bytes(), &mut Captures::default())
}

#[test]
fn literal_segments_go_before_parameters() {
    let list = [
        ("GET", "/u/{id}/x"),
        ("GET", "/u/me/x"),
        ("PUT", "/u/{id}/x"),
        ("GET", "/{a}/{b}"),
    ];
    let routes = routes(&list);
    assert_eq!(
        find(&routes, Method::Get, "/u/7%2f8/x"),
        (Some(0), "7/8".into())
    );
    assert_eq!(find(&routes, Method::Get, "/u/me/x").0, Some(1));
    assert_eq!(find(&routes, Method::Put, "/u/9/x"), (Some(2), "9".into()));
    assert_eq!(
        find(&routes, Method::Delete, "/u/9/x").1,
        "GET, HEAD, OPTIONS, PUT"
    );
    assert_eq!(find(&routes, Method::Get, "/v/w"), (Some(3), "v|w".into()));
    assert_eq!(find(&routes, Method::Get, "/v/"), (None, String::new()));
}

#[test]
fn a_path_leads_to_the_same_however_it_is_spelled() {
    let list = [
        ("GET", "/"),
        ("GET", "/a/new"),
        ("POST", "/a/{id}"),
        ("HEAD", "/a/{id}"),
        ("GET", "/{x}/new"),
        ("GET", "/b/{id}"),
        ("HEAD", "/b/{id}"),
        ("PUT", "/b/new"),
        ("DELETE", "/{x}"),
        ("GET", "/b"),
    ];
    let (all, routes) = (
        list.map(|(method, path)| route(method, path)),
        routes(&list),
    );
    let methods = ["GET", "HEAD", "POST", "PUT", "DELETE"];
    for (plain, escaped) in [
        ("/", "/"),
        ("/a/new", "/a/%6eew"),
        ("/a/7", "/%61/7"),
        ("/b/new", "/b/n%65w"),
        ("/b/7", "/b/%37"),
        ("/c/new", "/c/new"),
        ("/b", "/%62"),
        ("/b/", "/%62/"),
        ("/none/at/all", "/none/at/%61ll"),
    ] {
        for name in methods {
            let method = Method::named(name.as_bytes()).expect("it is known");
            let (page, values) = find(&routes, method, plain);
            let other = find(&routes, method, escaped);
            assert_eq!((page, &values), (other.0, &other.1), "{name} {plain}");
            for path in [plain, escaped] {
                let by = found_by(&all, format!("{name} {path} HTTP/1.1").as_bytes());
                let of_page = page.map(|page| &all[page as usize]);
                assert!(by == of_page, "{name} {path}: {by:?} and {of_page:?}");
            }
        }
    }
    // A literal path has the methods of those with parameters, too.
    assert_eq!(
        find(&routes, Method::Post, "/a/new"),
        (Some(2), "new".into())
    );
    assert_eq!(find(&routes, Method::Delete, "/b"), (Some(8), "b".into()));
    // And is told of them.
    let allowed = |path| find(&routes, Method::Patch, path).1;
    for path in ["/a/new", "/a/%6eew"] {
        assert_eq!(allowed(path), "GET, HEAD, OPTIONS, POST");
    }
    assert_eq!(allowed("/b/new"), "GET, HEAD, OPTIONS, PUT");
    assert_eq!(allowed("/b"), "DELETE, GET, HEAD, OPTIONS");
}

#[test]
fn no_spelling_gets_past_a_page_to_the_server_behind() {
    let list = [("GET", "/u/{id}"), ("GET", "/u/{id}/x"), ("POST", "/in")];
    let mut routes = routes(&list);
    routes.add_host(b"/host", 0);
    routes.add_proxy(&"/**".parse().expect("a pattern"), 7);
    let find = |method, path: &str| routes.find_proxy(method, path.as_bytes());
    for path in [
        "//u/7",
        "/u//7",
        "/u;x/7",
        "/u%2f7",
        "/u%5c7",
        "/u\\7",
        "/u/7;x",
        "/u;/7;x=1/x",
        "/u/7/;/x",
        "//host/x",
        "/host;x",
        "/%68ost/x",
        "/hos%74",
        "/host%2fx",
        "/u;a%2fb/7",
        "/u;%2f/7",
        "/u%2f7;%2fx",
        "/u;%5cx/7",
        "/u;\\x/7",
        "/u/7;%2fy",
        "/u//a%2fb",
    ] {
        for method in [Method::Get, Method::Head] {
            assert_eq!(find(method, path), ProxyFound::Unclear, "{path}");
        }
    }
    assert_eq!(find(Method::Post, "/in;x"), ProxyFound::Unclear);
    // What no page answers goes on, however it is spelled; and so does what a page passes on.
    for (method, path) in [
        (Method::Post, "//u/7"),
        (Method::Get, "//in"),
        (Method::Get, "/u/7"),
        (Method::Get, "/u/a%20b"),
        (Method::Get, "/u/7/"),
        (Method::Get, "/u;x"),
        (Method::Get, "/u;x/"),
        (Method::Get, "/u//7/y"),
        (Method::Get, "/hosts"),
        (Method::Get, "/%68osts/x"),
    ] {
        assert_eq!(find(method, path), ProxyFound::Proxy(7), "{path}");
    }
}
