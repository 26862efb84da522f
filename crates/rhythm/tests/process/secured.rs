//! Backends over TLS: PostgreSQL, Redis and HTTP, whom a site believes and whom it does not.

use super::memcached::Cache;
use super::postgres::database::{Database, PASSWORD, USER};
use super::redis::Keeper;
use super::server::{NEVER, Server};
use super::site::{Site, until};
use super::sqlite::{get, post};
use super::tls::make;
use rhythm_etcd::testing::free_places;
use rustix::process::{Signal, geteuid};
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A folder with certificates where whoever runs a database may read them; removed when dropped.
struct Papers(PathBuf);

impl Papers {
    fn new(test: &str) -> Papers {
        let name = format!("rhythm-{test}-papers-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        Papers(folder)
    }

    /// The certificate and the key of a server of this name.
    fn of(&self, name: &str) -> [String; 2] {
        let certificate = make(&self.0, name, &[name]);
        let key = certificate.with_file_name("key.pem");
        for path in [&certificate, &key] {
            if geteuid().is_root() {
                let nobody = Some(65_534);
                chown(path, nobody, nobody).expect("root may");
            }
        }
        [certificate, key].map(|path| path.to_string_lossy().into_owned())
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What `rhythm check --backends` says of a folder.
fn check(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.arg("check").arg(folder).arg("--backends");
    let run = command.output().expect("it runs");
    String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout)
}

/// Why TLS with a backend fails, as a server's log has it.
fn why(server: &Server) -> String {
    let said = server.said("TLS with a server failed");
    let why = said["fields"]["why"].as_str();
    why.expect("a reason").to_owned()
}

/// Asks until what a reload brings cannot be asked.
fn until_it_fails(server: &Server, path: &str) {
    let start = Instant::now();
    while get(server, path).0 < 500 {
        assert!(start.elapsed() < NEVER, "{path} is answered still");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A table of a PostgreSQL at this host.
fn postgres(database: &Database, host: &str, mode: &str, more: &str) -> String {
    let user = USER.replace(' ', "%20");
    let port = database.port;
    format!(
        "kind = \"postgres\"\nurl = \"postgres://{user}@{host}:{port}/postgres{mode}\"\n\
         password_file = \"password\"\ntimeout = \"5s\"\n{more}"
    )
}

fn trusting(certificate: &str) -> String {
    format!("tls_ca = \"{certificate}\"\n")
}

/// A page that tells whether its connection is encrypted, and one of a statement that is changed
/// by what is typed.
fn pages(site: &Site) {
    site.write("password", PASSWORD);
    let sealed = "query = \"select ssl from pg_stat_ssl where pid = pg_backend_pid()\"\n\
                  row = \"it(ssl:bool)\"";
    site.page("sealed", sealed, "{{ it.ssl }}");
    let long = "query = \"select repeat('x', 300000) as long\"\nrow = \"it(long)\"";
    site.page("long", long, "{{ it.long|length }}");
}

#[test]
fn a_database_is_asked_over_tls_and_nobody_in_its_place() {
    let papers = Papers::new("pg_tls");
    let [certificate, key] = papers.of("localhost");
    let [other, _] = papers.of("other.test");
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={certificate}"),
        format!("ssl_key_file={key}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut database = Database::start("pg_tls", &settings);
    let table = postgres(
        &database,
        "localhost",
        "?sslmode=verify-full",
        &trusting(&certificate),
    );
    let site = Site::new("pg_tls", &table);
    pages(&site);
    let told = check(&site.folder);
    assert!(
        !told.contains("error") && !told.contains("warning"),
        "{told}"
    );
    let server = Server::start(&site.folder, &[]);
    for _ in 0..3 {
        assert_eq!(get(&server, "/sealed"), (200, "True".to_owned()));
        // More than a record.
        assert_eq!(get(&server, "/long"), (200, "300000".to_owned()));
    }
    database.kill();
    assert!(get(&server, "/sealed").0 >= 500);
    database.start_again();
    until(&server, "/sealed", 200);
    // Without TLS no more, which a reload can have: connections are other ones.
    site.write(
        "service.toml",
        &format!(
            "[backend.asked]\n{}",
            postgres(&database, "localhost", "", "")
        ),
    );
    server.signal(Signal::HUP);
    server.said("reloaded");
    assert_eq!(get(&server, "/sealed"), (200, "False".to_owned()));
    // Whom another has signed, or who is called otherwise, is not asked.
    for (host, trusted) in [("localhost", &other), ("127.0.0.1", &certificate)] {
        let table = postgres(&database, host, "?sslmode=require", &trusting(trusted));
        site.write("service.toml", &format!("[backend.asked]\n{table}"));
        server.signal(Signal::HUP);
        until_it_fails(&server, "/sealed");
        let why = why(&server);
        assert!(why.contains("invalid peer certificate"), "{why}");
        let told = check(&site.folder);
        assert!(told.contains("invalid peer certificate"), "{told}");
    }
}

#[test]
fn a_database_that_speaks_no_tls_is_not_asked() {
    let papers = Papers::new("pg_no_tls");
    let [certificate, _] = papers.of("localhost");
    let database = Database::start("pg_no_tls", &[]);
    let secured = postgres(
        &database,
        "localhost",
        "?sslmode=verify-full",
        &trusting(&certificate),
    );
    let site = Site::new("pg_no_tls", &secured);
    pages(&site);
    let told = check(&site.folder);
    assert!(told.contains("it does not speak TLS"), "{told}");
    let server = Server::start(&site.folder, &[]);
    assert!(get(&server, "/sealed").0 >= 500);
    assert_eq!(why(&server), "it does not speak TLS");
    drop(server);
    // Where no backend was asked over TLS at the start, a reload brings none.
    let plain = postgres(&database, "localhost", "", "");
    site.write("service.toml", &format!("[backend.asked]\n{plain}"));
    let server = Server::start(&site.folder, &[]);
    assert_eq!(get(&server, "/sealed").1, "False");
    site.write("service.toml", &format!("[backend.asked]\n{secured}"));
    server.signal(Signal::HUP);
    server.said_of(|line| line.to_string().contains("is asked over TLS now"));
    assert_eq!(get(&server, "/sealed").1, "False");
    // What is of no use is said.
    let table = postgres(&database, "localhost", "", &trusting(&certificate));
    site.write("service.toml", &format!("[backend.asked]\n{table}"));
    let told = check(&site.folder);
    assert!(told.contains("`url` does not ask for TLS"), "{told}");
}

#[test]
fn a_redis_that_knows_its_clients_by_their_certificates() {
    let papers = Papers::new("redis_tls");
    let [certificate, key] = papers.of("localhost");
    let port = free_places(1)[0].port().to_string();
    let keeper = Keeper::start(
        "redis_tls",
        &[
            "--tls-port",
            &port,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &certificate,
            "--tls-auth-clients",
            "yes",
        ],
    );
    keeper.ask(&["SET", "greeting", "hello"]);
    let table = |more: &str| {
        format!(
            "[backend.asked]\nkind = \"redis\"\nurl = \"rediss://localhost:{port}\"\n\
             timeout = \"5s\"\n{}{more}",
            trusting(&certificate)
        )
    };
    let own = format!("tls_certificate = \"{certificate}\"\ntls_key = \"{key}\"\n");
    let site = Site::new("redis_tls", "");
    site.write("service.toml", &table(&own));
    site.page(
        "greeting",
        "command = [\"GET\", \"greeting\"]\nrow = \"it(text)\"",
        "{{ it.text }}",
    );
    let told = check(&site.folder);
    assert!(
        !told.contains("error") && !told.contains("warning"),
        "{told}"
    );
    let server = Server::start(&site.folder, &[]);
    assert_eq!(get(&server, "/greeting"), (200, "hello".to_owned()));
    // Nobody without one.
    site.write("service.toml", &table(""));
    server.signal(Signal::HUP);
    until_it_fails(&server, "/greeting");
    let why = why(&server);
    assert!(why.contains("CertificateRequired"), "{why}");
    site.write("service.toml", &table("tls_key = \"nowhere\"\n"));
    let told = check(&site.folder);
    assert!(told.contains("cannot read `tls_key`"), "{told}");
}

#[test]
fn memcached_is_asked_over_tls_and_nobody_in_its_place() {
    let papers = Papers::new("memcached_tls");
    let [certificate, key] = papers.of("localhost");
    let [other, _] = papers.of("other.test");
    let sealed = [
        "-Z".to_owned(),
        format!("-o ssl_chain_cert={certificate},ssl_key={key}"),
    ];
    let sealed: Vec<&str> = sealed.iter().flat_map(|it| it.split(' ')).collect();
    let cache = Cache::start_with(true, &sealed);
    let url = cache
        .url()
        .replace("memcached://127.0.0.1", "memcacheds://localhost");
    let table = |more: &str| {
        format!("[backend.asked]\nkind = \"memcached\"\nurl = \"{url}\"\ntimeout = \"5s\"\n{more}")
    };
    let site = Site::new("memcached_tls", "");
    site.write("service.toml", &table(&trusting(&certificate)));
    site.form("put", "set = \"greeting\"\nvalue = \"{{ text }}\"", "put");
    site.page(
        "greeting",
        "get = \"greeting\"\nrow = \"it(text)\"",
        "{{ it.text }}",
    );
    let told = check(&site.folder);
    assert!(
        !told.contains("error") && !told.contains("warning"),
        "{told}"
    );
    let server = Server::start(&site.folder, &[]);
    let mut client = server.client();
    assert_eq!(
        post(&mut client, "/put", "name=n&text=hello").expect("an answer"),
        200
    );
    assert_eq!(get(&server, "/greeting"), (200, "hello".to_owned()));
    // One that nobody believed in has signed is none.
    site.write("service.toml", &table(&trusting(&other)));
    server.signal(Signal::HUP);
    until_it_fails(&server, "/greeting");
    let why = why(&server);
    assert!(why.contains("no authority that is trusted"), "{why}");
    // Keys of TLS go with an address that has it alone, and one that speaks none says so.
    let plain = table(&trusting(&certificate)).replace("memcacheds://", "memcached://");
    site.write("service.toml", &plain);
    let told = check(&site.folder);
    assert!(told.contains("`tls_ca`"), "{told}");
    let kv = Cache::start(false);
    let url = kv
        .url()
        .replace("memcached://127.0.0.1", "memcacheds://localhost");
    let table = format!("[backend.asked]\nkind = \"memcached\"\nurl = \"{url}\"\n");
    site.write("service.toml", &(table + &trusting(&certificate)));
    let told = check(&site.folder);
    assert!(told.contains("error") && told.contains("TLS"), "{told}");
}

#[test]
fn a_site_answers_json_to_another_over_tls() {
    let papers = Papers::new("https_json");
    let [certificate, key] = papers.of("localhost");
    let answers = Site::new(
        "https_json_answers",
        "kind = \"sqlite\"\nurl = \":memory:\"\n",
    );
    answers.write(
        "service.toml",
        &format!("[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n"),
    );
    answers.write(
        "pages/number.html",
        "+++\nroute = \"GET /number\"\ncontent_type = \"application/json\"\n\
         [params]\nn = { in = \"query\", type = \"int\" }\n\
         +++\n{\"n\": {{ n + 1 }}}",
    );
    let there = Server::start(&answers.folder, &["--tls-listen", "127.0.0.1:0"]);
    let [_, tls] = there.places()[..] else {
        panic!("two places: {:?}", there.places());
    };
    let port = tls.port();
    let asks = Site::new(
        "https_json_asks",
        &format!(
            "kind = \"http\"\nurl = \"https://localhost:{port}\"\n{}",
            trusting(&certificate)
        ),
    );
    asks.page(
        "next",
        "get = \"/number?n=41\"\nrow = \"it(n:int)\"",
        "{{ it.n }}",
    );
    let server = Server::start(&asks.folder, &[]);
    for _ in 0..5 {
        assert_eq!(get(&server, "/next"), (200, "42".to_owned()));
    }
}
