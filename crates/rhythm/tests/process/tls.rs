//! Clients that speak TLS, to a server with certificates that `rhythm cert` has made.

use crate::server::{Client, NEVER, Server, service};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A new certificate for these names, in a folder below that of a service; its file.
pub(crate) fn make(folder: &Path, name: &str, names: &[&str]) -> PathBuf {
    let into = folder.join(name);
    let _ = fs::remove_dir_all(&into);
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["cert", "self-signed"]).arg(&into);
    for name in names {
        command.args(["--name", name]);
    }
    assert!(command.output().expect("it runs").status.success());
    let key = fs::metadata(into.join("key.pem")).expect("it is there");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let again = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success(), "it overwrites one");
    assert!(said.contains("is not overwritten"), "{said}");
    // No key without a certificate is left, which were in the way of the next try.
    fs::remove_file(into.join("key.pem")).expect("it is there");
    assert!(!command.output().expect("it runs").status.success());
    assert!(!into.join("key.pem").exists());
    fs::remove_file(into.join("cert.pem")).expect("it is there");
    assert!(command.output().expect("it runs").status.success());
    into.join("cert.pem")
}

/// A service in a folder whose settings say these and a certificate; the certificate's file.
fn service_of(test: &str, settings: &str, names: &[&str]) -> (PathBuf, PathBuf) {
    let folder = service(test);
    let trusted = make(&folder, "tls", names);
    let tls = "[tls]\ncertificate = \"tls/cert.pem\"\nkey = \"tls/key.pem\"\n";
    fs::write(folder.join("service.toml"), format!("{settings}\n{tls}")).expect("a file");
    (folder, trusted)
}

const LISTEN: [&str; 2] = ["--tls-listen", "127.0.0.1:0"];

/// What a client with these certificates greets a server by.
fn config(trusted: &[&Path]) -> Arc<ClientConfig> {
    config_of(trusted, None)
}

/// As [`config`], with a certificate and its key that it shows if it is asked.
pub(crate) fn config_of(trusted: &[&Path], own: Option<(&Path, PathBuf)>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for path in trusted {
        let der = CertificateDer::from_pem_file(path).expect("a certificate");
        roots.add(der).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("some");
    let builder = builder.with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
            let key = PrivateKeyDer::from_pem_file(key).expect("a key");
            let own = builder.with_client_auth_cert(vec![certificate], key);
            own.expect("they are one another's")
        }
    })
}

/// A client that has greeted the server, or why it did not.
fn greeted(
    address: SocketAddr,
    name: &str,
    config: &Arc<ClientConfig>,
) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(NEVER))?;
    socket.set_nodelay(true)?;
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut connection = ClientConnection::new(config.clone(), name).expect("a client");
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// As [`greeted`], to be read and written.
pub(crate) fn stream(
    address: SocketAddr,
    name: &str,
    config: &Arc<ClientConfig>,
) -> std::io::Result<impl Read + Write + Send + use<>> {
    greeted(address, name, config)
}

pub(crate) fn client(address: SocketAddr, trusted: &Path) -> Client {
    let stream = greeted(address, "localhost", &config(&[trusted]));
    Client::over(stream.expect("the certificate is known"))
}

#[test]
fn pages_are_the_same_over_tls() {
    let (folder, trusted) = service_of("tls_pages", "", &["localhost"]);
    let long: Vec<u8> = (0..3_000_000_u32)
        .map(|byte| b'a' + (byte % 23) as u8)
        .collect();
    fs::create_dir_all(folder.join("static")).expect("a folder");
    fs::write(folder.join("static/long.txt"), &long).expect("a file");
    let server = Server::start(&folder, &LISTEN);
    let [plain, tls] = server.places()[..] else {
        panic!("two places: {:?}", server.places());
    };
    let mut clients = [Client::new(plain), client(tls, &trusted)];
    for (path, form) in [
        ("/hello?name=x", ""),
        ("/hello", "name=form"),
        ("/none", ""),
    ] {
        let method = if form.is_empty() { "GET" } else { "POST" };
        let answers = clients
            .each_mut()
            .map(|it| it.ask(method, path, form).expect("an answer"));
        assert_eq!(
            (answers[0].status, &answers[0].body),
            (answers[1].status, &answers[1].body)
        );
    }
    let over_tls = &mut clients[1];
    // Files are longer than a record, and than what sockets take at a time.
    for _ in 0..2 {
        let answer = over_tls
            .ask("GET", "/static/long.txt", "")
            .expect("an answer");
        assert!(answer.body.as_bytes() == long, "another file");
    }
    let many = "GET /hello?name=many HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50);
    over_tls.send(&many).expect("they are taken");
    for _ in 0..50 {
        let answer = over_tls.answer().expect("an answer");
        assert_eq!(answer.body, "<h1>Hello, many</h1>");
    }
    let last = "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    over_tls.send(last).expect("it is taken");
    assert!(over_tls.answer().expect("an answer").closes);
    // Without its farewell this were an error.
    assert!(over_tls.closed());
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn a_socket_that_was_passed_is_in_the_place_of_its_own_setting_alone() {
    let (folder, trusted) = service_of("tls_passed", "", &["localhost"]);
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Server::start_with(&socket, &folder, &LISTEN);
    let [plain, tls] = server.places()[..] else {
        panic!("two places: {:?}", server.places());
    };
    assert_eq!(plain, socket.local_addr().expect("it is bound"));
    let answer = client(tls, &trusted).ask("GET", "/hello", "");
    assert_eq!(answer.expect("an answer").status, 200);
    // It is started with --listen, which is of no use here.
    server.said("`listen` of [server] is not used");
    let config = server.ask_admin("/config").1;
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["from"]["server"]["listen"], "inherited");
    assert_eq!(config["from"]["server"]["tls_listen"], "flag");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn what_is_not_tls_is_turned_away_and_disturbs_nobody() {
    let limits = "[limits]\nheader_timeout = \"2s\"\nidle_timeout = \"2s\"";
    let (folder, trusted) = service_of("tls_garbage", limits, &["localhost"]);
    let server = Server::start(&folder, &LISTEN);
    let tls = server.places()[1];
    for sent in [
        &b""[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        &[0xff; 70_000],
    ] {
        let mut socket = TcpStream::connect(tls).expect("it listens");
        socket.set_read_timeout(Some(NEVER)).expect("a duration");
        let _ = socket.write_all(sent);
        let mut got = Vec::new();
        // An alert at most, and then the end, though a greeting may be under way.
        let _ = socket.read_to_end(&mut got);
        assert!(got.len() < 16 && !got.starts_with(b"HTTP"), "{got:?}");
    }
    let answer = client(tls, &trusted)
        .ask("GET", "/hello", "")
        .expect("an answer");
    assert_eq!(answer.status, 200);
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn who_speaks_http_where_tls_is_spoken_is_told_so() {
    let (folder, trusted) = service_of("tls_strangers", "", &["localhost"]);
    let server = Server::start(&folder, &LISTEN);
    let tls = server.places()[1];
    // What is sent of a form is taken, so that its answer is not lost.
    for (method, form) in [("GET", String::new()), ("POST", "a".repeat(200_000))] {
        let mut plain = Client::new(tls);
        let answer = plain.ask(method, "/hello", &form).expect("an answer");
        assert_eq!((answer.status, answer.closes), (400, true));
        let told = "HTTPS is spoken at this port, and this came as plain HTTP: ask for https://";
        assert!(answer.body.starts_with(told), "{}", answer.body);
        assert!(plain.closed());
    }
    let line = server.said("spoke plain HTTP at a port for HTTPS");
    assert_eq!(line["fields"]["peer"], "127.0.0.1");
    let (_, metrics) = server.ask_admin("/metrics");
    let failed = "rhythm_tls_handshakes_failed_total";
    let counted = metrics.lines().filter_map(|line| line.strip_prefix(failed));
    let counted = counted.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok());
    assert_eq!(counted.sum::<u64>(), 2);
    let answer = client(tls, &trusted).ask("GET", "/hello", "");
    assert_eq!(answer.expect("an answer").status, 200);
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn a_reload_shows_another_certificate_and_keeps_one_that_is_good() {
    let (folder, trusted) = service_of("tls_reload", "", &["localhost"]);
    let before = config(&[&trusted]);
    let server = Server::start(&folder, &LISTEN);
    let tls = server.places()[1];
    let mut first = client(tls, &trusted);
    make(&folder, "tls", &["localhost"]);
    server.signal(Signal::HUP);
    server.said("the service is reloaded");
    // The certificate of before is not shown any more.
    let fresh = config(&[&trusted]);
    assert!(greeted(tls, "localhost", &fresh).is_ok());
    let refused = greeted(tls, "localhost", &before).map(drop);
    assert!(refused.is_err(), "the certificate of before is shown");
    assert_eq!(
        first.ask("GET", "/hello", "").expect("an answer").status,
        200
    );
    fs::write(folder.join("tls/key.pem"), "no key").expect("a file");
    server.signal(Signal::HUP);
    let line = server.said("the service cannot be reloaded");
    let said = line["fields"]["message"].as_str().unwrap_or_default();
    assert!(
        said.contains("key.pem") && said.contains("no private key"),
        "{said}"
    );
    assert!(greeted(tls, "localhost", &fresh).is_ok());
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn mistakes_are_shown_over_tls_with_the_certificate_of_the_folder() {
    let (folder, trusted) = service_of("tls_mistakes", "", &["localhost"]);
    let page = folder.join("pages/hello.html");
    let right = fs::read_to_string(&page).expect("a page");
    fs::write(&page, format!("{right}{{% esle %}}")).expect("a file");
    let server = Server::start(&folder, &["--watch", LISTEN[0], LISTEN[1]]);
    let mut client = client(server.places()[1], &trusted);
    let until = |client: &mut Client, status| {
        let start = Instant::now();
        while client.ask("GET", "/hello", "").expect("an answer").status != status {
            assert!(start.elapsed() < NEVER, "never {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until(&mut client, 500);
    fs::write(&page, &right).expect("a file");
    until(&mut client, 200);
    fs::write(&page, format!("{right}{{% esle %}}")).expect("a file");
    until(&mut client, 500);
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn of_several_services_each_has_its_certificate() {
    let (one, of_one) = service_of("tls_one", "[service]\nhost = \"one.test\"", &["one.test"]);
    let (two, of_two) = service_of("tls_two", "[service]\nhost = \"two.test\"", &["two.test"]);
    let two = two.display().to_string();
    let server = Server::start(&one, &[&two, LISTEN[0], LISTEN[1]]);
    let tls = server.places()[1];
    for (name, trusted) in [("one.test", &of_one), ("two.test", &of_two)] {
        let stream = greeted(tls, name, &config(&[trusted]));
        let mut client = Client::over(stream.expect("its own certificate"));
        let ask = format!("GET /hello HTTP/1.1\r\nHost: {name}\r\n\r\n");
        client.send(&ask).expect("it is taken");
        assert_eq!(client.answer().expect("an answer").status, 200);
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn what_is_missing_is_said() {
    let folder = service("tls_missing");
    let other = make(&folder, "other", &["localhost"]);
    let trusted = make(&folder, "tls", &["localhost"]);
    let said = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command.arg("serve").arg(&folder).args(LISTEN);
        command
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(flags);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let [certificate, key] =
        [&trusted, &other.with_file_name("key.pem")].map(|path| path.display().to_string());
    let nobody = said(&["--tls-listen", "none", "--tls-redirect-port", "443"]);
    assert!(
        nobody.contains("--tls-listen") && nobody.contains("tls.redirect_port"),
        "{nobody}"
    );
    let none = said(&[]);
    assert!(
        none.contains("--tls-listen") && none.contains("`rhythm cert self-signed tls`"),
        "{none}"
    );
    let half = said(&["--tls-certificate", &certificate]);
    assert!(
        half.contains("no `key`") && half.contains("--tls-key"),
        "{half}"
    );
    let others = said(&["--tls-certificate", &certificate, "--tls-key", &key]);
    assert!(
        others.contains("the private key is not the certificate's"),
        "{others}"
    );
    let gone = said(&["--tls-certificate", "none.pem", "--tls-key", &key]);
    for told in [
        "--tls-certificate: cannot read none.pem: No such file",
        "begins at the current folder",
        "`rhythm cert self-signed tls`",
    ] {
        assert!(gone.contains(told), "{told}: {gone}");
    }
    let settings = "[tls]\ncertificate = \"none.pem\"\nkey = \"tls/key.pem\"\n";
    fs::write(folder.join("service.toml"), settings).expect("a file");
    let gone = said(&[]);
    for told in [
        "`certificate` of [tls]: cannot read ",
        "begins at the service's folder",
    ] {
        assert!(gone.contains(told), "{told}: {gone}");
    }
}

#[test]
fn who_speaks_no_tls_is_sent_on_to_https() {
    let (folder, trusted) = service_of("tls_redirect", "", &["localhost"]);
    let path = folder.join("socket");
    let listen = format!("unix:{}", path.display());
    let port = ["--tls-redirect-port", "8443"];
    let flags = [&LISTEN[..], &["--listen", &listen], &port].concat();
    let server = Server::start(&folder, &flags);
    let [plain, tls] = server.places()[..] else {
        panic!("two with addresses: {:?}", server.places());
    };
    let mut in_the_clear = Client::new(plain);
    for (method, path, form) in [
        ("GET", "/hello?name=a&b", ""),
        ("POST", "/hello", "name=form"),
        ("GET", "/none", ""),
    ] {
        let answer = in_the_clear.ask(method, path, form).expect("an answer");
        let to = answer.location.unwrap_or_default();
        assert_eq!(
            (answer.status, to),
            (308, format!("https://localhost:8443{path}"))
        );
        assert!(!answer.body.contains("Hello"));
    }
    for (asked, status, location) in [
        (
            "GET / HTTP/1.1\r\nHost: [::1]:80",
            308,
            "https://[::1]:8443/",
        ),
        (
            "GET http://localhost:8/?q HTTP/1.1\r\nHost: x",
            308,
            "https://localhost:8443/?q",
        ),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost", 204, ""),
        // Without a host nobody knows where to.
        ("GET /hello HTTP/1.0\r\nConnection: keep-alive", 400, ""),
    ] {
        in_the_clear
            .send(&format!("{asked}\r\n\r\n"))
            .expect("it is read");
        let answer = in_the_clear.answer().expect("an answer");
        let to = answer.location.unwrap_or_default();
        assert_eq!((answer.status, &*to), (status, location), "{asked}");
    }
    // Nobody is asked for a form in the clear.
    in_the_clear = Client::new(plain);
    in_the_clear
        .send(
            "POST /hello?a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n",
        )
        .expect("it is read");
    let answer = in_the_clear.answer().expect("an answer");
    let to = answer.location.unwrap_or_default();
    assert_eq!(
        (answer.status, &*to),
        (308, "https://localhost:8443/hello?a")
    );
    // Those who speak it are answered, and a proxy beside, which has spoken it.
    for mut client in [client(tls, &trusted), Client::at(&path)] {
        let answer = client.ask("GET", "/hello?name=x", "").expect("an answer");
        assert_eq!(answer.body, "<h1>Hello, x</h1>");
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}
