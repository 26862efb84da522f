//! Parameters over real sockets: in which ways lists come, what each type takes, where paths lead,
//! and what is taken of JSON and of forms with files.

mod common;
use common::*;
use rhythm_server::{Handle, Server};

const SITE: &str = "[limits]\nbody_bytes_max = 40000\n[backend.echo]\nkind = \"besim\"\n";

fn serve(pages: &[(&str, &str)]) -> Handle {
    let service = service_of(pages, SITE);
    let options = options_of(&service);
    let site = site_of(service);
    let again = site.clone();
    let parts = parts(site, Box::new(move || Ok(again.clone())));
    Server::start(options, parts).expect("it starts")
}

const LISTS: &[(&str, &str)] = &[
    (
        "tags.html",
        "+++\nroute = [\"GET /tags\", \"POST /tags\"]\n[params]\n\
         tag = { in = [\"form\", \"query\"], list = 3, type = \"text\" }\n+++\n\
         {{ tag|join(\",\") }}",
    ),
    (
        "pay.html",
        "+++\nroute = \"POST /pay\"\n[params]\n\
         pay = { in = \"form\", list = 2, min_items = 1, fields = { who = { type = \"text\" }, \
         sum = { type = \"int\" } } }\n+++\n\
         {% for p in pay %}{{ p.who }}={{ p.sum }};{% endfor %}",
    ),
    (
        "both.html",
        "+++\nroute = \"GET /both\"\n[params]\n\
         one = { in = \"query\", name = \"x\", type = \"text\" }\n\
         many = { in = \"query\", name = \"x\", list = 3, type = \"text\" }\n+++\n\
         {{ one }} {{ many|join(\",\") }}",
    ),
    (
        "mixed.html",
        "+++\nroute = \"POST /mixed\"\nerrors = \"values\"\n[params]\n\
         a = { in = [\"form\", \"query\"], list = 3, type = \"text\" }\n\
         c = { in = \"form\", list = 3, type = \"text\" }\n\
         n = { in = [\"form\", \"query\"], type = \"int\", default = 0 }\n\
         m = { in = [\"query\", \"form\"], type = \"int\", default = 0 }\n+++\n\
         {{ a|join(\",\") }};{{ c|join(\",\") }};{{ n }};{{ m }};\
         {{ errors.a }}{{ errors.n }}{{ errors.m }}",
    ),
];

#[test]
fn a_list_comes_in_one_of_three_ways() {
    let server = serve(LISTS);
    let mut client = client(&server);
    for (query, tags) in [
        ("", ""),
        ("tag[1]=b&tag[0]=a", "a,b"),
        ("tag=a&tag=b&x=1&tag=c", "a,b,c"),
        ("tag%5B%5D=a&tag[]=%62", "a,b"),
        ("tag=", ""),
        ("tag=a&tag=a", "a,a"),
    ] {
        let answer = client.get(&format!("/tags?{query}"));
        assert_eq!((answer.status, answer.text()), (200, tags), "{query}");
    }
    for (query, problem) in [
        ("tag=a&tag[]=b", "is given in two ways"),
        ("tag[0]=a&tag=b", "is given in two ways"),
        ("tag[]=a&tag[1]=b", "is given in two ways"),
        ("tag=a&tag=b&tag=c&tag=d", "has too many items"),
        ("tag[]=a&tag[]=b&tag[]=c&tag[]=d", "has too many items"),
        ("tag[0]=a&tag[3]=b", "has too many items"),
        ("tag[0]=a&tag[2]=b", "has a gap or an item twice"),
        ("tag[0]=a&tag[0]=b", "has a gap or an item twice"),
        ("tag=a&tag=%zz", "cannot be decoded"),
        ("tag=a&tag=%ff", "is not UTF-8"),
    ] {
        let answer = client.get(&format!("/tags?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        let told = format!("The parameter tag {problem}.");
        assert!(answer.text().contains(&told), "{query}: {}", answer.text());
    }
    // The first of its carriers that has it counts, in whatever way.
    let post = |client: &mut Client, query: &str, form: &str| {
        let answer = client.form(&format!("/tags?{query}"), form);
        (answer.status, answer.text().to_owned())
    };
    assert_eq!(
        post(&mut client, "tag[0]=a", "tag=b&tag=c"),
        (200, "b,c".into())
    );
    assert_eq!(post(&mut client, "tag=a", "x=1"), (200, "a".into()));
    // Of records each field comes so.
    for (form, expected) in [
        ("who=a&sum=1&who=b&sum=2", "a=1;b=2;"),
        ("who[]=a&who[]=b&sum[]=1&sum[]=2", "a=1;b=2;"),
        ("sum=1&who=a", "a=1;"),
    ] {
        let answer = client.form("/pay", form);
        assert_eq!((answer.status, answer.text()), (200, expected), "{form}");
    }
    for form in [
        "who=a&sum[]=1",
        "who=a&sum[0]=1",
        "who=a&who=b&sum=1",
        "who=a",
        "",
        "who=a&who=b&who=c&sum=1&sum=2&sum=3",
        "who=a&sum=x",
    ] {
        assert_eq!(client.form("/pay", form).status, 400, "{form}");
    }
    // Where a value has the same name, it is that.
    assert_eq!(client.get("/both?x=1&x[]=2").text(), "1 2");
    assert_eq!(client.get("/both?x=1&x=2").status, 400);
    stop(server);
}

#[test]
fn what_a_worse_carrier_has_counts_only_where_the_better_ones_have_nothing() {
    let server = serve(LISTS);
    let mut client = client(&server);
    for (query, form, expected) in [
        // The others keep their order where one begins anew.
        ("a=1&a=2&a=3", "c=x&a=9&c=y", "9;x,y;0;0;"),
        ("n=x", "n=5", ";;5;0;"),
        ("n=%zz&n=1", "n=5", ";;5;0;"),
        ("n=7", "n=x", ";;0;0;is not an integer"),
        ("n=7", "", ";;7;0;"),
        ("n=x", "", ";;0;0;is not an integer"),
        ("n=7&n=8", "", ";;0;0;is given twice"),
        ("m=5", "m=%zz", ";;0;5;"),
        ("m=5", "m=x&m=y", ";;0;5;"),
        ("a=%zz", "a=1", "1;;0;0;"),
        ("a=1&a[]=2", "a=1", "1;;0;0;"),
        ("a=1", "a=%zz", ";;0;0;cannot be decoded"),
        ("a=%zz", "", ";;0;0;cannot be decoded"),
    ] {
        let answer = client.form(&format!("/mixed?{query}"), form);
        let got = (answer.status, answer.text());
        assert_eq!(got, (200, expected), "{query} {form}");
    }
    stop(server);
}

const TYPES: &[(&str, &str)] = &[
    (
        "new.html",
        "+++\nroute = \"GET /new\"\nerrors = \"values\"\ncontent_type = \"text/plain\"\n[params]\n\
         agree = { in = \"query\", type = \"bool\" }\n\
         price = { in = \"query\", type = \"float\", min = 0, max = 99.5, default = 1 }\n\
         mail = { in = \"query\", type = \"email\", default = \"\" }\n\
         code = { in = \"query\", type = \"text\", pattern = '[A-Z]{2}\\d+', default = \"AA1\" }\n\
         day = { in = \"query\", type = \"date\", default = \"\" }\n\
         next = { in = \"query\", type = \"path\", default = \"/\" }\n\
         [[step]]\ncheck = \"not errors\"\nelse = \"wrong.html\"\n\
         with = { errors = \"{{ errors }}\" }\n+++\n\
         {{ agree }} {{ price * 2 }} {{ mail }} {{ code }} {{ day }} {{ next }}",
    ),
    (
        "wrong.html",
        "+++\n+++\n{{ errors.agree }}{{ errors.price }}{{ errors.mail }}{{ errors.code }}\
         {{ errors.day }}{{ errors.next }}",
    ),
    (
        "go.html",
        "+++\nroute = \"GET /go\"\n[params]\nnext = { in = \"query\", type = \"path\" }\n\
         [[step]]\nredirect = \"{{ next }}\"\n+++\n",
    ),
];

#[test]
fn types_take_what_browsers_send_and_say_in_words_what_is_wrong() {
    let server = serve(TYPES);
    let mut client = client(&server);
    for (query, expected) in [
        ("", "False 2.0  AA1  /"),
        (
            "agree=on&price=.5&mail=a%40b.c&code=ZZ99",
            "True 1.0 a@b.c ZZ99  /",
        ),
        ("agree=yes&price=1e1&mail=&day=", "True 20.0  AA1  /"),
        // What nothing was typed into.
        ("agree=&price=&mail=&code=&day=&next=", "False 2.0  AA1  /"),
        (
            "agree=false&next=/a%2520b?c=%C3%A9%26d",
            "False 2.0  AA1  /a%20b?c=%C3%A9&d",
        ),
    ] {
        let answer = client.get(&format!("/new?{query}"));
        assert_eq!((answer.status, answer.text()), (200, expected), "{query}");
    }
    for (query, problem) in [
        ("agree=maybe", "is neither on nor off"),
        ("agree=on&agree=on", "is given twice"),
        ("price=a", "is not a number"),
        ("price=99.6", "is out of bounds"),
        ("price=-1", "is out of bounds"),
        ("mail=a%40", "is not an email address"),
        ("code=AA", "does not have the form that is asked for"),
        ("code=xAA1", "does not have the form that is asked for"),
        ("day=2026-02-30", "is not a date"),
        ("next=//b", "is not a path of this site"),
    ] {
        let answer = client.get(&format!("/new?{query}"));
        assert_eq!((answer.status, answer.text()), (200, problem), "{query}");
    }
    stop(server);
}

#[test]
fn a_path_leads_nowhere_else() {
    let server = serve(TYPES);
    let mut client = client(&server);
    for (next, location) in [
        ("/", "/"),
        ("/orders?page=2%26all=1%23top", "/orders?page=2&all=1#top"),
        ("/a%20b%22%3C%C3%A9", "/a%20b%22%3C%C3%A9"),
        ("/a//b", "/a//b"),
    ] {
        let answer = client.get(&format!("/go?next={next}"));
        assert_eq!(answer.status, 303, "{next}");
        assert_eq!(answer.header("location"), Some(location));
    }
    for next in [
        "",
        "a",
        "//b",
        "/%2Fb",
        "/%5Cb",
        "https://b",
        "/%09/b",
        "/%0A/b",
        "/a%0D%0AX:1",
        "%20/a",
        "javascript:1",
        "/a%5C..%5Cb",
        "/%C2%85/b",
    ] {
        let answer = client.get(&format!("/go?next={next}"));
        assert_eq!(
            (answer.status, answer.header("location")),
            (400, None),
            "{next}"
        );
    }
    stop(server);
}

const JSON: &[(&str, &str)] = &[
    (
        "order.html",
        "+++\nroute = \"POST /order\"\n[params]\n\
         name = { in = [\"json\", \"query\"], type = \"text\", max_length = 5, default = \"-\" }\n\
         count = { in = \"json\", type = \"int\", default = 0 }\n\
         price = { in = \"json\", type = \"float\", default = 0 }\n\
         cost = { in = \"json\", type = \"decimal\", default = \"\" }\n\
         gift = { in = \"json\", type = \"bool\" }\n\
         tags = { in = [\"json\", \"query\"], name = \"tag\", list = 3, type = \"text\" }\n\
         [params.lines]\nin = \"json\"\nlist = 2\nname = \"items\"\n\
         fields = { id = { type = \"int\" }, note = { type = \"text\" } }\n+++\n\
         {{ name }}|{{ count }}|{{ price }}|{{ cost }}|{{ gift }}|{{ tags|join(\",\") }}|\
         {% for l in lines %}{{ l.id }}={{ l.note }};{% endfor %}",
    ),
    (
        "either.html",
        "+++\nroute = \"POST /either\"\nerrors = \"values\"\n[params]\n\
         name = { in = [\"json\", \"form\"], type = \"text\" }\n\
         age = { in = [\"json\", \"form\"], type = \"int\", default = 1 }\n+++\n\
         {{ name }} {{ age }} {{ errors.name }}|{{ errors.age }} {{ typed.age }}",
    ),
];

const AS_JSON: &str = "Content-Type: application/json; charset=utf-8\r\n";

#[test]
fn json_is_taken_as_it_is_declared() {
    let server = serve(JSON);
    let mut client = client(&server);
    for (document, expected) in [
        ("{}", "-|0|0.0||False||"),
        (
            r#" {"name": "a\u00e9\"", "count": -7, "price": 1.5e1, "cost": 12.50, "gift": true,
                "tag": ["x", "y"], "items": [{"id": 1, "note": "a", "more": [{}]},
                {"note": "", "id": 2}], "more": {"a": [1, null]}} "#,
            "aé&quot;|-7|15.0|12.50|True|x,y|1=a;2=;",
        ),
        (
            r#"{"name": null, "tag": [], "items": null, "cost": "3"}"#,
            "-|0|0.0|3|False||",
        ),
        (r#"{"name":"","count":0}"#, "|0|0.0||False||"),
    ] {
        let answer = client.with("POST /order", AS_JSON, document);
        assert_eq!(
            (answer.status, answer.text()),
            (200, expected),
            "{document}"
        );
    }
    // The first of its carriers counts.
    let both = client.with("POST /order?name=q", AS_JSON, r#"{"name":"j"}"#);
    assert!(both.text().starts_with("j|"), "{}", both.text());
    for (document, tags) in [(r#"{"tag":[]}"#, ""), (r#"{"tag":null}"#, "q"), ("{}", "q")] {
        let answer = client.with("POST /order?tag=q", AS_JSON, document);
        assert_eq!(
            answer.text(),
            format!("-|0|0.0||False|{tags}|"),
            "{document}"
        );
    }
    let names = |count| (0..count).map(|i| format!("\"{i}\":0"));
    let twice: Vec<String> = names(100).chain(names(100).skip(50)).collect();
    let twice = format!("{{{}}}", twice.join(","));
    let query = client.with("POST /order?name=q", "", "");
    assert!(query.text().starts_with("q|"), "{}", query.text());
    for (document, problem) in [
        (
            "{\n\"a\": tru}",
            "The content is no JSON: line 2, column 9.",
        ),
        ("{\"a\": 01}", "The content is no JSON: line 1, column 8."),
        ("{\"a\": [1,]}", "The content is no JSON"),
        ("{\"a\": 1} x", "The content is no JSON"),
        ("{'a': 1}", "The content is no JSON"),
        ("{\"a\": NaN}", "The content is no JSON"),
        ("[]", "The content is no object: line 1, column 1."),
        (
            "{\"a\":1,\n \"a\":2}",
            "The content has a name twice: line 2, column 6.",
        ),
        (
            r#"{"items":[{"id":1,"id":2,"note":""}]}"#,
            "The content has a name twice",
        ),
        (
            r#"{"name":"a","n\u0061me":"b"}"#,
            "The content has a name twice",
        ),
        (&twice, "The content has a name twice"),
        (r#"{"name":1}"#, "The parameter name is not a text."),
        (r#"{"name":["a"]}"#, "The parameter name is not a text."),
        (r#"{"name":"abcdef"}"#, "The parameter name is too long."),
        (
            r#"{"name":"a\u0000"}"#,
            "The parameter name cannot be decoded.",
        ),
        (
            r#"{"name":"\ud800"}"#,
            "The parameter name is no text of Unicode.",
        ),
        (r#"{"count":"1"}"#, "The parameter count is not an integer."),
        (r#"{"count":1.0}"#, "The parameter count is not an integer."),
        (
            r#"{"count":12345678901234567890}"#,
            "The parameter count is out of bounds.",
        ),
        (r#"{"price":"1"}"#, "The parameter price is not a number."),
        (
            r#"{"price":1e999}"#,
            "The parameter price is out of bounds.",
        ),
        (
            r#"{"gift":"true"}"#,
            "The parameter gift is neither true nor false.",
        ),
        (
            r#"{"gift":1}"#,
            "The parameter gift is neither true nor false.",
        ),
        (r#"{"tag":"x"}"#, "The parameter tag is not a list."),
        (
            r#"{"tag":["a","b","c","d"]}"#,
            "The parameter tag has too many items.",
        ),
        (
            r#"{"tag":["a",null]}"#,
            "The parameter tag has an item that is null.",
        ),
        (r#"{"tag":["a",{}]}"#, "The parameter tag is not a text."),
        (
            r#"{"items":[1]}"#,
            "The parameter items has an item that is no object.",
        ),
        (
            r#"{"items":[{"id":1},{"note":"a"}]}"#,
            "The parameter note is missing in an item.",
        ),
        (
            r#"{"items":[{"id":1,"note":null}]}"#,
            "The parameter note has an item that is null.",
        ),
        (
            r#"{"items":[{"id":1,"note":""},{"id":1,"note":""},{"id":1,"note":""}]}"#,
            "The parameter items has too many items.",
        ),
    ] {
        let answer = client.with("POST /order", AS_JSON, document);
        let told = answer.text();
        assert!(
            answer.status == 400 && told.contains(problem),
            "{document}: {told}"
        );
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(40), "]".repeat(40));
    let answer = client.with("POST /order", AS_JSON, &deep);
    assert!(
        answer
            .text()
            .contains("is nested too deep: line 1, column 37"),
        "{}",
        answer.text()
    );
    let many: Vec<String> = names(257).collect();
    let answer = client.with("POST /order", AS_JSON, &format!("{{{}}}", many.join(",")));
    assert!(
        answer.text().contains("has too many members"),
        "{}",
        answer.text()
    );
    let bad = client.with(
        "POST /order",
        "Content-Type: application/json\r\n",
        "{\"name\":\"\u{7f}\"}",
    );
    assert_eq!(bad.status, 200);
    stop(server);
}

#[test]
fn a_page_takes_what_it_declares_of_forms_and_json() {
    let server = serve(JSON);
    let mut client = client(&server);
    let json = client.with("POST /either", AS_JSON, r#"{"name":"a","age":"x"}"#);
    assert_eq!((json.status, json.text()), (200, "a 0 |is not an integer "));
    let json = client.with("POST /either", AS_JSON, r#"{"name":7,"age":2}"#);
    assert_eq!((json.status, json.text()), (200, " 2 is not a text| 2"));
    assert_eq!(client.form("/either", "name=a&age=2").text(), "a 2 | 2");
    // What cannot be read is refused, whatever the page wants to know.
    assert_eq!(client.with("POST /either", AS_JSON, "{").status, 400);
    for kind in ["text/plain", "application/jsonx", "application/ld+json"] {
        let head = format!("Content-Type: {kind}\r\n");
        assert_eq!(
            client.with("POST /either", &head, "{}").status,
            415,
            "{kind}"
        );
    }
    assert_eq!(client.form("/order", "name=a").status, 415);
    stop(server);
}

const FILES: &[(&str, &str)] = &[
    (
        "add.html",
        "+++\nroute = \"POST /add\"\nerrors = \"values\"\ncontent_type = \"text/plain\"\n[params]\n\
         title = { in = \"form\", type = \"text\", default = \"-\" }\n\
         tag = { in = \"form\", list = 3, type = \"text\" }\n\
         photo = { in = \"form\", type = \"file\", max_bytes = 20, default = \"\" }\n\
         [[step]]\ncall = \"echo\"\nrequest = \"1&3&{{ photo.hex }}\"\n\
         rows = \"answers(text)\"\n+++\n\
         {{ title }}|{{ tag|join(\",\") }}|{{ photo.name }}|{{ photo.type }}|{{ photo.size + 0 }}|\
         {{ photo.base64 }}|{{ answers[0].text }}|{{ errors.photo }}{{ errors.title }}\
         {{ errors.tag }}",
    ),
    (
        "text.html",
        "+++\nroute = \"POST /text\"\n[params]\n\
         list = { in = \"form\", type = \"file\" }\n+++\n{{ list.text }}",
    ),
];

const PARTS: &str = "Content-Type: multipart/form-data; boundary=b\r\n";

/// A form in parts: what stands behind the names in quotes, and contents.
fn form_of(parts: &[(&str, &str)]) -> String {
    let part = |(name, content): &(&str, &str)| {
        format!("--b\r\nContent-Disposition: form-data; name={name}\r\n\r\n{content}\r\n")
    };
    parts.iter().map(part).collect::<String>() + "--b--\r\n"
}

#[test]
fn forms_in_parts_have_texts_and_files() {
    let server = serve(FILES);
    let mut client = client(&server);
    let png = "\"photo\"; filename=\"C:\\dir\\a%22.png\"\r\nContent-Type: image/png";
    for (parts, expected) in [
        (&[][..], "-|||||||"),
        (
            &[
                ("\"title\"", "a<b"),
                ("\"tag\"", "x"),
                ("\"tag\"", "y"),
                (png, "a\0\u{e9}"),
            ],
            "a<b|x,y|a\".png|image/png|4|YQDDqQ==|6100c3a9|",
        ),
        (
            &[(
                "\"photo\"; filename=\"\"\r\nContent-Type: application/octet-stream",
                "",
            )],
            "-||||0|||",
        ),
        (
            &[("\"photo\"; filename=\"../e\"", "")],
            "-||e|application/octet-stream|0|||",
        ),
        (
            &[
                ("title", ""),
                ("other", "x"),
                ("\"other\"; filename=x", "y"),
            ],
            "|||||||",
        ),
    ] {
        let answer = client.with("POST /add", PARTS, &form_of(parts));
        let expected = match expected {
            "-|||||||" => "-||||0|||",
            "|||||||" => "||||0|||",
            expected => expected,
        };
        assert_eq!((answer.status, answer.text()), (200, expected), "{parts:?}");
    }
    for (parts, problem) in [
        (
            &[("\"photo\"; filename=\"a\"", "123456789012345678901")][..],
            "is too large",
        ),
        (&[("\"photo\"", "text")], "is not a file"),
        (&[(png, "1"), (png, "2")], "is given twice"),
        (&[("\"title\"; filename=\"a\"", "1")], "is a file"),
        (&[("\"title\"", "a\0")], "cannot be decoded"),
        (&[("\"tag\"; filename=\"a\"", "1")], "is a file"),
        (
            &[("\"tag[]\"", "1"), ("\"tag\"", "1")],
            "is given in two ways",
        ),
    ] {
        let answer = client.with("POST /add", PARTS, &form_of(parts));
        let told = answer.text();
        assert!(
            answer.status == 200 && told.ends_with(problem),
            "{parts:?}: {told}"
        );
    }
    // One that is no form, and one that is too long.
    let bad = client.with(
        "POST /add",
        PARTS,
        "--b\r\nContent-Disposition: x\r\n\r\n\r\n--b--",
    );
    assert_eq!(bad.status, 400);
    assert!(
        bad.text()
            .contains("The content is no form of parts: line 1, column 4."),
        "{}",
        bad.text()
    );
    let many = form_of(&vec![("a", ""); 300]);
    assert_eq!(client.with("POST /add", PARTS, &many).status, 200);
    let other = "Content-Type: multipart/form-data\r\n";
    assert_eq!(client.with("POST /add", other, "--b--").status, 415);
    // What it holds as a text.
    let text = |client: &mut Client, file: &str| {
        let form = form_of(&[("\"list\"; filename=\"a.csv\"", file)]);
        let answer = client.with("POST /text", PARTS, &form);
        (answer.status, answer.text().to_owned())
    };
    assert_eq!(text(&mut client, "a,<b>\n"), (200, "a,&lt;b&gt;\n".into()));
    let mut form = form_of(&[("\"list\"; filename=\"a.csv\"", "@")]).into_bytes();
    let at = form
        .iter()
        .position(|byte| *byte == b'@')
        .expect("it is there");
    form[at] = 0xff;
    let head = format!(
        "POST /text HTTP/1.1\r\nHost: x\r\n{PARTS}Content-Length: {}\r\n\r\n",
        form.len()
    );
    client.send([head.as_bytes(), &form].concat());
    let bad = client.response(false);
    assert!(bad.status == 400 && bad.text().contains("The parameter list is not UTF-8."));
    assert_eq!(client.form("/text", "list=a").status, 400);
    assert_eq!(client.form("/text", "").status, 400);
    stop(server);
}

/// A value that is empty does not make a host of what follows it, in redirects and in links.
#[test]
fn an_empty_value_leads_nowhere_else() {
    let server = serve(&[
        (
            "a.html",
            "+++\nroute = \"GET /a\"\n[params]\n\
             l = { in = \"query\", type = \"text\", default = \"\" }\n\
             p = { in = \"query\", type = \"text\" }\n\
             [[step]]\nredirect = \"/{{ l }}/{{ p }}\"\n+++\n",
        ),
        (
            "b.html",
            "+++\nroute = \"GET /b\"\n[params]\n\
             l = { in = \"query\", type = \"text\", default = \"\" }\n\
             p = { in = \"query\", type = \"text\" }\n+++\n\
             {{ url_for(\"c.html\", l=l, p=p) }}",
        ),
        (
            "c.html",
            "+++\nroute = \"GET /{l}/{p}/c\"\n[params]\n\
             l = { in = \"path\", type = \"text\" }\n\
             p = { in = \"path\", type = \"text\" }\n+++\n{{ l }}{{ p }}",
        ),
        (
            "d.html",
            "+++\nroute = \"GET /d\"\n[params]\n\
             l = { in = \"query\", type = \"text\", default = \"\" }\n\
             p = { in = \"query\", type = \"text\" }\n\
             [[step]]\nredirect = \"/{{ l }}{{ url_for('e.html', slug=p) }}\"\n+++\n",
        ),
        (
            "e.html",
            "+++\nroute = \"GET /{slug}\"\n[params]\n\
             slug = { in = \"path\", type = \"text\" }\n+++\n{{ slug }}",
        ),
    ]);
    let mut client = client(&server);
    for (l, redirect, link) in [
        ("de", "/de/evil.example", "/de/evil.example/c"),
        ("", "/.//evil.example", "/.//evil.example/c"),
        ("/", "/%2F/evil.example", "/%2F/evil.example/c"),
    ] {
        let query = format!("l={}&p=evil.example", l.replace('/', "%2F"));
        let answer = client.get(&format!("/a?{query}"));
        assert_eq!(answer.header("Location"), Some(redirect), "{l}");
        let answer = client.get(&format!("/d?{query}"));
        assert_eq!(answer.header("Location"), Some(redirect), "{l}, by url_for");
        let answer = client.get(&format!("/b?{query}"));
        assert_eq!(answer.text().replace("&#x2f;", "/"), link, "{l}");
    }
    stop(server);
}
