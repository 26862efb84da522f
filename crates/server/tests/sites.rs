//! Several sites in one server: requests of one connection go each to its own, and what is counted,
//! refused and replaced is one site's.

mod common;

use common::*;
use rhythm_server::{Handle, Server, ServerOptions, Site, SiteSettings, Sites, Statics};
use std::sync::Arc;

/// A site of the pages that all tests have, and one that tells its label.
fn site(label: &str, names: &[&str], settings: &str) -> Arc<Site> {
    let told = format!("+++\nroute = \"GET /told\"\n+++\nthis is {label}");
    let error = format!("+++\n+++\n{label}: {{{{ status }}}}");
    let pages = [("told.html", &*told), ("error.html", &*error)];
    let settings = format!("{SERVICE}{settings}\n[errors]\ndefault = \"error.html\"\n");
    let service = service_of(&[PAGES, &pages[..]].concat(), &settings);
    let settings = SiteSettings {
        label: Some(label.to_owned()),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..SiteSettings::of(&service)
    };
    let statics = Statics::new(&service.config.statics.mount, statics());
    Arc::new(Site::new(Arc::new(service), statics, settings).expect("it is sound"))
}

/// A server of these sites, which a reload gives as the next ones say.
fn start_sites(
    all: Vec<Arc<Site>>,
    next: Vec<Result<Arc<Site>, String>>,
    change: impl FnOnce(&mut ServerOptions),
) -> Handle {
    let services: Vec<_> = all.iter().map(|site| &**site.service()).collect();
    let mut options = ServerOptions {
        sessions: ServerOptions::of_all(&services).sessions,
        sign_ins: ServerOptions::of_all(&services).sign_ins,
        ..options_of(services[0])
    };
    change(&mut options);
    let sites = Sites::new(all).expect("they can be told apart");
    let parts = parts_of(sites, Box::new(move |_| next.clone()));
    Server::start(options, parts).expect("it starts")
}

fn two() -> Vec<Arc<Site>> {
    vec![site("bank", &["bank"], ""), site("shop", &["shop"], "")]
}

#[test]
fn one_connection_asks_several_sites_and_is_answered_in_its_order() {
    let server = start_sites(two(), Vec::new(), |_| {});
    let mut client = client(&server);
    let asked = ["bank", "shop", "none", "shop", "bank"];
    // All at once, and so of one turn: those of one page are no cohort where their sites differ.
    let request = |host: &str| format!("GET /told HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.send(asked.map(request).concat());
    for host in asked {
        let answer = client.response(false);
        match host {
            "none" => assert_eq!(answer.status, 421),
            host => assert_eq!(answer.text(), format!("this is {host}")),
        }
    }
    // Slow answers of one keep their place before quick ones of the other.
    client.send("GET /ask?q=late HTTP/1.1\r\nHost: bank\r\n\r\n");
    client.send(request("shop"));
    assert_eq!(client.response(false).text(), "[late]");
    assert_eq!(client.response(false).text(), "this is shop");
    let metrics = server.metrics().worker(0);
    for index in 0..2 {
        let told = metrics.site(index).page("told");
        assert_eq!(told.requests.get(), 2 + index as u64);
        eventually("it is launched", || {
            told.launches.iter().any(|it| it.get() > 0)
        });
    }
    stop(server);
}

#[test]
fn refusals_look_as_the_site_has_them_where_it_is_known() {
    let server = start_sites(two(), Vec::new(), |_| {});
    let ask = |request: &str| {
        let mut client = client(&server);
        client.send(request);
        client.response(false)
    };
    let of = |host: &str, line: &str, rest: &str| {
        ask(&format!("{line} HTTP/1.1\r\nHost: {host}\r\n{rest}\r\n"))
    };
    let long = "Content-Length: 9999\r\n";
    assert_eq!(of("shop", "POST /hello", long).text(), "shop: 413");
    assert_eq!(of("bank", "GET /no", "").text(), "bank: 404");
    // Nobody's, as far as it can be told.
    for (request, status) in [
        ("GET /told HTTP/1.1\r\nHost: other\r\n\r\n".to_owned(), 421),
        (
            format!("POST /hello HTTP/1.1\r\nHost: other\r\n{long}\r\n"),
            413,
        ),
        ("GET /told\r\nHost: bank\r\n\r\n".to_owned(), 400),
        (
            format!("GET /{} HTTP/1.1\r\nHost: bank\r\n\r\n", "x".repeat(9000)),
            414,
        ),
        ("GET /told HTTP/1.0\r\n\r\n".to_owned(), 421),
    ] {
        let answer = ask(&request);
        assert_eq!(answer.status, status, "{request}");
        let said = answer.text();
        assert!(!said.contains("bank:") && !said.contains("shop:"), "{said}");
    }
    // Whose content would be of no use is told before it is sent.
    let expects = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 6\r\n\
                   Expect: 100-continue\r\n";
    assert_eq!(of("other", "POST /hello", expects).status, 421);
    assert_eq!(of("shop", "POST /hello", expects).status, 100);
    assert_eq!(of("shop", "POST /told", expects).text(), "shop: 405");
    // And as anything else where only the head is asked for.
    for (host, path, status) in [("other", "/hello", 421), ("shop", "/list", 405)] {
        let mut client = client(&server);
        client.send(format!(
            "HEAD {path} HTTP/1.1\r\nHost: {host}\r\n{expects}\r\n"
        ));
        assert_eq!(client.response(true).status, status);
        assert!(client.closed());
    }
    stop(server);
}

#[test]
fn sessions_and_sign_ins_are_counted_by_site() {
    let server = start_sites(two(), Vec::new(), |options| {
        for (sessions, sign_ins) in options.sessions.iter_mut().zip(&mut options.sign_ins) {
            sessions.capacity = 1;
            sessions.per_user_max = None;
            sign_ins.failed_per_address_max = std::num::NonZeroU32::new(2);
        }
    });
    let mut client = client(&server);
    let mut sign_in = |host: &str, user: &str| {
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let form = format!("user={user}");
        let length = form.len();
        client.send(format!(
            "POST /login HTTP/1.1\r\nHost: {host}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n\
             {form}"
        ));
        client.response(false).status
    };
    // One session each, whoever has the other.
    assert_eq!(sign_in("bank", "1"), 200);
    assert_eq!(sign_in("shop", "1"), 200);
    assert_eq!(sign_in("shop", "2"), 503);
    // User 0 is nobody: it fails, as do sessions that find no room.
    let tried = [
        sign_in("bank", "0"),
        sign_in("bank", "0"),
        sign_in("bank", "0"),
    ];
    assert_eq!(tried, [500, 500, 429]);
    assert_eq!(sign_in("bank", "1"), 429);
    assert_eq!(
        sign_in("shop", "0"),
        500,
        "the other site knows nothing of that"
    );
    let figures = |index: usize| server.metrics().worker(0).site(index);
    assert_eq!(figures(0).sign_ins.get(), 1);
    assert_eq!(figures(0).sign_ins_refused.get(), 2);
    assert_eq!(figures(1).sign_ins_refused.get(), 0);
    stop(server);
}

#[test]
fn a_reload_of_one_leaves_the_other_as_it_is() {
    let bank = site("bank", &["bank"], "");
    let next = vec![Err("broken".to_owned()), Ok(site("store", &["shop"], ""))];
    let all = vec![bank.clone(), site("shop", &["shop"], "")];
    let server = start_sites(all, next, |_| {});
    let mut clients = [client(&server), client(&server)];
    let request = |host: &str| format!("GET /ask?q=late HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (client, host) in clients.iter_mut().zip(["bank", "shop"]) {
        client.send(request(host));
    }
    let asked = |index: usize| {
        server
            .metrics()
            .worker(0)
            .site(index)
            .backend("echo")
            .requests
            .get()
    };
    eventually("both are asked", || asked(0) + asked(1) == 2);
    assert_eq!(server.reload(), Err("broken".to_owned()));
    for client in &mut clients {
        assert_eq!(client.response(false).text(), "[late]");
    }
    let told = |client: &mut Client, host: &str| {
        client.send(format!("GET /told HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        String::from_utf8(client.response(false).body).expect("text")
    };
    assert_eq!(told(&mut clients[0], "bank"), "this is bank");
    assert_eq!(told(&mut clients[0], "shop"), "this is store");
    assert!(Arc::ptr_eq(&server.control().sites().all()[0], &bank));
    stop(server);
}

#[test]
fn sites_that_a_reload_would_mix_up_are_served_as_they_were() {
    let next = vec![
        Ok(site("bank", &["bank", "shop"], "")),
        Ok(site("shop", &["shop"], "")),
    ];
    let server = start_sites(two(), next, |_| {});
    let why = server.reload().expect_err("both have a name");
    assert!(
        why.contains("bank and shop both have the host shop"),
        "{why}"
    );
    let mut client = client(&server);
    client.send("GET /told HTTP/1.1\r\nHost: shop\r\n\r\n");
    assert_eq!(client.response(false).text(), "this is shop");
    stop(server);
}
