//! Servers that are proxied to over TLS: this server's own pages behind another of it.

use super::super::server::{Server, service};
use super::super::site::check;
use super::super::tls::make;
use super::{folder, get};
use rustix::process::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A server of pages with a certificate for `localhost`: where it is, without TLS and with it, and
/// the certificate.
fn pages(test: &str) -> (Server, [SocketAddr; 2], PathBuf) {
    let folder = service(test);
    let certificate = make(&folder, "tls", &["localhost"]);
    let tls = "[tls]\ncertificate = \"tls/cert.pem\"\nkey = \"tls/key.pem\"\n";
    fs::write(folder.join("service.toml"), tls).expect("a file can be written");
    let server = Server::start(&folder, &["--tls-listen", "127.0.0.1:0"]);
    let places = server.places().try_into().expect("two places");
    (server, places, certificate)
}

fn to(url: &str, more: &str) -> String {
    format!("[[proxy]]\nmatch = \"/**\"\nto = \"{url}\"\n{more}\n")
}

#[test]
fn servers_are_asked_over_tls_that_are_whom_they_should_be() {
    let (_pages, [plain, sealed], certificate) = pages("proxy-sealed-pages");
    let trusting = format!(
        "tls_ca = \"{}\"\nhealth = \"/hello\"",
        certificate.display()
    );
    let url = format!("https://localhost:{}", sealed.port());
    let at = folder("sealed", &to(&url, &trusting));
    let server = Server::start(&at, &[]);
    let hello = |name: &str| (200, format!("<h1>Hello, {name}</h1>"));
    // The second is asked on the same connection, or on the other worker's.
    for _ in 0..4 {
        assert_eq!(get(&server, "/hello?name=x"), hello("x"));
    }
    let mut client = server.client();
    let posted = client
        .ask("POST", "/hello", "name=form")
        .expect("an answer");
    assert_eq!((posted.status, posted.body), hello("form"));
    drop(server);
    let other = make(&at, "other", &["localhost"]);
    let other = format!("tls_ca = \"{}\"", other.display());
    // Not by another name than the certificate's, not where it is not trusted, and not where no
    // TLS is spoken.
    for (url, more, kind) in [
        (
            format!("https://127.0.0.1:{}", sealed.port()),
            &*trusting,
            "denied",
        ),
        (url.clone(), &*other, "denied"),
        (
            format!("https://localhost:{}", plain.port()),
            &*trusting,
            "invalid",
        ),
    ] {
        let server = Server::start(&folder("unsealed", &to(&url, more)), &[]);
        assert_eq!(get(&server, "/hello").0, 502, "{url}");
        server.said("TLS with a server failed");
        let line = server.said("could not be proxied");
        let cause = line["fields"]["cause"].as_str();
        assert!(cause.is_some_and(|it| it.contains(kind)), "{url}: {line}");
        assert!(line.to_string().contains("the line about TLS"), "{line}");
    }
    // One that was started without any does not speak it after a reload, and says so.
    let plainly = to(&format!("http://{plain}"), "");
    let at = folder("resealed", &plainly);
    let server = Server::start(&at, &[]);
    assert_eq!(get(&server, "/hello"), hello("you"));
    fs::write(at.join("service.toml"), to(&url, &trusting)).expect("a file can be written");
    server.signal(Signal::HUP);
    server.said_of(|line| line.to_string().contains("is asked over TLS now"));
    assert_eq!(get(&server, "/hello"), hello("you"));
}

#[test]
fn what_is_said_of_tls_is_read_as_the_service_is() {
    for (url, more, said) in [
        (
            "http://127.0.0.1:9",
            "tls_ca = \"ca.pem\"",
            "`to` does not ask for TLS",
        ),
        (
            "https://127.0.0.1:9",
            "tls_ca = \"none.pem\"",
            "cannot read `tls_ca`",
        ),
        (
            "https://127.0.0.1:9",
            "tls_ca = \"service.toml\"",
            "`tls_ca`: ",
        ),
    ] {
        let told = check(&folder("check-sealed", &to(url, more)));
        assert!(told.contains(said), "{url}: {told}");
        assert!(told.contains("[[proxy]] /**"), "{told}");
    }
}
