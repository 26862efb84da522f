//! What an operator sees: the access log and the admin listener.

use crate::busy_count;
use crate::common::*;
use rhythm_engine::settings::AccessLogFormat;

#[test]
fn answers_are_logged() {
    let written = Written::default();
    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    options.log_format = AccessLogFormat::Common;
    let site = site_of(service);
    let mut parts = parts(site, Box::new(|| Err("no".into())));
    parts.log = Some(log_to(written.clone()));
    let server = rhythm_server::Server::start(options, parts).expect("it starts");
    let mut client = client(&server);
    client.get("/hello?name=ab");
    client.get("/static/a.css");
    let nothing = client.get("/nothing").body.len();
    stop(server);
    let text = written.text();
    let ends = [
        "\"GET /hello?name=ab HTTP/1.1\" 200 16",
        "\"GET /static/a.css HTTP/1.1\" 200 21",
        &format!("\"GET /nothing HTTP/1.1\" 404 {nothing}"),
    ];
    assert_eq!(text.lines().count(), 3, "{text}");
    for (line, end) in text.lines().zip(ends) {
        assert!(
            line.starts_with("127.0.0.1 - - [") && line.ends_with(end),
            "{line}"
        );
    }
}

#[test]
fn the_admin_listener_tells_health_metrics_and_configuration() {
    let server = start(|options| options.admin = Some(any_port()));
    let mut user = client(&server);
    user.get("/hello");
    let admin = server.admin_addr().expect("an admin listener");
    let ask = |path: &str| Client::new(admin).get(path);
    let health = ask("/healthz");
    assert_eq!((health.status, health.text()), (200, "ok\n"));
    assert_eq!(ask("/readyz").status, 200);
    let metrics = ask("/metrics");
    for line in [
        "rhythm_requests_total{page=\"hello\"} 1",
        "rhythm_launches_total{page=\"hello\",reason=\"idle\"} 1",
    ] {
        assert!(metrics.text().contains(line), "{line}: {}", metrics.text());
    }
    assert!(ask("/config").text().contains("\"size\": 1024"));
    let nothing = ask("/dashboard");
    assert_eq!(nothing.status, 404);
    assert!(nothing.text().starts_with("/ (the dashboard), /healthz, "));
    user.send("GET /ask?q=held-ready HTTP/1.1\r\nHost: x\r\n\r\n");
    busy_count(&server);
    server.shutdown();
    let ready = ask("/readyz");
    assert_eq!((ready.status, ready.text()), (503, "draining\n"));
    assert_eq!(ask("/healthz").status, 200, "nothing is wrong with it");
    answer_held("held-ready");
    assert_eq!(user.response(false).text(), "[held-ready]");
    end(server).expect("its workers were well");
}

#[test]
fn the_dashboard_is_a_page_that_uses_nothing_from_elsewhere() {
    let server = start(|options| options.admin = Some(any_port()));
    let admin = server.admin_addr().expect("an admin listener");
    let ask = |path: &str| Client::new(admin).get(path);
    let board = || -> serde_json::Value {
        serde_json::from_str(ask("/dashboard.json").text()).expect("JSON")
    };
    let page = ask("/");
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; "),
        "{policy}"
    );
    assert!(!page.text().contains("style=") && !page.text().contains("://"));
    let hint = board()["hint"].to_string();
    assert!(hint.contains(&server.local_addr().to_string()), "{hint}");
    client(&server).get("/hello");
    // An answer is counted once it has left.
    eventually("the answer counts", || board()["hint"].is_null());
    let told = board();
    let panels = told["panels"].as_array().expect("panels");
    let pages = panels.iter().find(|panel| panel["id"] == "pages");
    let rows = &pages.expect("a panel of pages")["parts"][0]["table"]["rows"];
    let of_hello = (rows.as_array().expect("rows").iter())
        .find(|row| row[0]["text"] == "hello")
        .expect("each page has one");
    assert_eq!(of_hello[1]["rate"], 1.0, "{of_hello}");
    let waited = &told["histograms"]["wait hello"];
    let counts = waited.as_array().expect("buckets").iter();
    let counts = counts.map(|bucket| bucket[1].as_u64().unwrap_or(0));
    assert_eq!(counts.sum::<u64>(), 1, "one value: {waited}");
    server.shutdown();
    end(server).expect("its workers were well");
}

#[test]
fn the_configuration_has_every_setting_and_where_it_comes_from() {
    let server = start(|options| options.admin = Some(any_port()));
    let admin = server.admin_addr().expect("an admin listener");
    let answer = Client::new(admin).get("/config");
    let told: serde_json::Value = serde_json::from_str(answer.text()).expect("JSON");
    let config = service_of(PAGES, SERVICE).config;
    for section in config.sections() {
        let (values, origins) = (
            &told["settings"][section.name()],
            &told["from"][section.name()],
        );
        for definition in section.definitions() {
            let key = definition.key;
            assert!(values.get(key).is_some(), "{key}: {}", answer.text());
            assert_eq!(
                origins[key],
                config.origin(section.name(), key).name(),
                "{key}"
            );
        }
    }
    assert_eq!(told["settings"]["limits"]["body_bytes_max"], 2000);
    assert_eq!(told["from"]["limits"]["body_bytes_max"], "file");
    assert_eq!(told["settings"]["cohort"]["delay"], "2ms");
    assert_eq!(told["from"]["cohort"]["delay"], "default");
    assert_eq!(told["memory"]["workers"], 1);
    stop(server);
}

#[test]
fn what_devices_have_on_the_host_is_in_the_sum_of_memory() {
    let most = |device_bytes: usize| {
        let server = start(|options| {
            options.admin = Some(any_port());
            options.workers = 2;
            options.device_buffer_bytes_max = device_bytes;
        });
        let admin = server.admin_addr().expect("an admin listener");
        let answer = Client::new(admin).get("/config");
        let told: serde_json::Value = serde_json::from_str(answer.text()).expect("JSON");
        stop(server);
        let bytes = &told["memory"]["bytes_max"];
        ["device_buffers", "sum"].map(|part| bytes[part].as_u64().expect("bytes"))
    };
    let ([none, sum], [some, larger]) = (most(0), most(1_000_000));
    assert_eq!((none, some, larger - sum), (0, 2_000_000, 2_000_000));
}
