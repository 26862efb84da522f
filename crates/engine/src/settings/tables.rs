//! The tables of `service.toml`: each setting is defined here, and nowhere else.

use super::definition::{
    Mistake, address, addresses, bytes, choice, count, file, map, switch, text, time, timeout,
};
use super::listen::ListenAt;
use super::network::trusted;
use super::stored::{self, StoredField};
use crate::{choice, section, zone};
use rhythm_protocol::http::head::{HEAD_CAPACITY, HEADERS_CAPACITY, is_token};
use rhythm_protocol::http::response::HeaderName;
use rhythm_protocol::http::uri::is_host_name;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// The service.
    pub struct ServiceSettings = "service" {
        /// The service's name, for logs and metrics.
        name: String = "service".to_owned(); text(Ok),
        /// The names by which clients ask for it (`Host`), separated by spaces and without ports,
        /// such as "bank.example www.bank.example"; "*.bank.example" is every name below that one.
        /// Requests for other names answer 421, unless another service of the server has them.
        /// Empty: all names that no other service has; requests without any, too.
        host: String = String::new(); text(served_names),
        /// In which time zone `dateformat` prints: a name of the IANA database, such as
        /// "Europe/Berlin".
        time_zone: String = zone::UTC.to_owned(); text(time_zone),
    }
}

section! {
    /// Where and how it is served.
    pub struct ServerSettings = "server" {
        /// Where clients connect. Those of a Unix socket have no address: what is counted by
        /// address is not counted of them, as of those of a proxy.
        listen: Vec<ListenAt> = vec![local(8080)]; addresses().flag("listen").restart(),
        /// Where clients connect that speak TLS, as `[tls]` says.
        tls_listen: Option<Vec<ListenAt>> = None;
            addresses().or_none("nobody speaks TLS").flag("tls-listen").restart(),
        /// Permissions of Unix sockets, in octal: who may write may connect.
        socket_mode: String = "660".to_owned(); text(octal_mode).flag("socket-mode").restart(),
        /// Where a dashboard is shown, and health, metrics and the settings in effect are told (/,
        /// /healthz, /readyz, /metrics, /config).
        admin: Option<ListenAt> = Some(local(8079));
            address().or_none("no admin listener").flag("admin").restart(),
        /// The file of a certificate, and of those between it and one that is known (PEM): TLS is
        /// spoken at `admin`, and nothing else. It is read again by a reload.
        admin_certificate: Option<PathBuf> = None;
            file().or_none("no TLS at `admin`").flag("admin-certificate").restart(),
        /// The file of its private key (PEM).
        admin_key: Option<PathBuf> = None;
            file().or_none("no TLS at `admin`").flag("admin-key").restart(),
        /// A file with the certificates (PEM) of those who have signed the admin listener's
        /// clients': who shows none of theirs learns nothing, so that it may listen where others
        /// reach it. It is read again by a reload.
        admin_client_ca: Option<PathBuf> = None;
            file().or_none("whoever reaches it may ask").flag("admin-client-ca").restart(),
        /// More names by which the admin listener is asked, separated by spaces. It answers where
        /// `Host` is an address, `localhost` or one of these, and 421 otherwise: a site that has
        /// its own name lead to this machine would have a browser read it.
        admin_hosts: String = String::new(); text(host_names).restart(),
        /// A folder in which a client of ACME (certbot, lego) puts its answers to an authority's
        /// challenges, as its web root: GET of /.well-known/acme-challenge/TOKEN without TLS is
        /// answered from there, for any host, and before `tls.redirect_port` sends clients on.
        acme_webroot: Option<PathBuf> = None;
            file().or_none("pages and routes have that path").flag("acme-webroot").restart(),
        /// Speak HTTP/2 with clients that do: over TLS by ALPN, and where they begin with it. It
        /// takes memory: docs/operations.md, *TLS*.
        http2: bool = false; switch().flag("http2").restart(),
        /// Clients that may wait to be let in by each worker (the system's `somaxconn` bounds it).
        /// Others try again after a second: those who wait longer than they have patience are work
        /// for nothing.
        backlog: u32 = 1024; count(1, 65_535).restart(),
        /// Threads, each with its own event loop.
        workers: Option<NonZeroU32> = None;
            count(1, 1024).or_none("one a core").flag("workers").restart(),
        /// Keep each worker on a core of its own.
        pin: bool = false; switch().flag("pin").restart(),
        /// For how long after something came each worker looks for more before it sleeps. A client
        /// alone is answered sooner, since no thread is to be woken; each worker's core does
        /// nothing else meanwhile, so that it is for machines with a core to spare. 0: not at all.
        busy_poll: Duration = Duration::ZERO; time().flag("busy-poll").restart(),
        /// The longest that a shutdown takes, `drain_delay` and `drain_grace` included.
        drain_timeout: Duration = Duration::from_secs(10); time().flag("drain-timeout").restart(),
        /// For how long a shutdown goes on taking clients, while /readyz says that it is not ready:
        /// what a balancer needs to notice.
        drain_delay: Duration = Duration::ZERO; time().flag("drain-delay").restart(),
        /// For how long after that connections that wait for no answer may ask once more.
        drain_grace: Duration = Duration::from_secs(3); time().flag("drain-grace").restart(),
        /// Write an access log to this file; "-" is standard output.
        access_log: Option<PathBuf> = None;
            file().or_none("no access log").flag("access-log").restart(),
        /// The access log's format.
        access_log_format: AccessLogFormat = AccessLogFormat::Common;
            choice(AccessLogFormat::WORDS).flag("access-log-format").restart(),
        /// Give each request an id: `"logged"`, in the access log and in the log of slow requests,
        /// and to servers that are proxied to and backends over HTTP (`X-Request-Id`);
        /// `"answered"`, in its answer's head, too.
        request_ids: RequestIds = RequestIds::Off;
            choice(RequestIds::WORDS).flag("request-ids").restart(),
        /// Whose `X-Request-Id` is taken over, and whose choice of the requests to be traced:
        /// addresses and networks such as "10.0.0.0/8", and `unix` for clients at a Unix socket,
        /// with spaces between them.
        trusted_proxies: String = String::new(); text(trusted).restart(),
        /// The log tells of requests that take so long, and where their time went: at most one a
        /// second of each page by each worker. All are counted in `rhythm_slow_requests_total`.
        slow_request: Option<Duration> = None;
            time().or_none("it tells of none").flag("slow-request").restart(),
        /// How log lines look; RHYTHM_LOG says which there are (error, warn, info, debug, trace).
        log_format: LogFormat = LogFormat::Text;
            choice(LogFormat::WORDS).flag("log-format").restart(),
    }
}

section! {
    /// TLS, for clients at `server.tls_listen`: what they are shown who ask for this service.
    pub struct TlsSettings = "tls" {
        /// The file of the certificate, and of those between it and one that clients know (PEM).
        /// In service.toml a path is from the service's folder on. It is read again by a reload.
        certificate: Option<PathBuf> = None;
            file().or_none("no certificate").flag("tls-certificate"),
        /// The file of its private key (PEM).
        key: Option<PathBuf> = None; file().or_none("no key").flag("tls-key"),
        /// Send clients that do not speak TLS on to https (308), at this port; 443 goes without
        /// saying. Not those that come through a Unix socket. It needs `server.tls_listen`.
        redirect_port: Option<NonZeroU32> = None;
            count(1, 65_535).or_none("they are answered").flag("tls-redirect-port"),
    }
}

section! {
    /// Files served as they are, and redirects.
    pub struct StaticSettings = "static" {
        /// The path under which files of static/ are served.
        mount: String = "/static/".to_owned(); text(mount_path),
        /// Paths that redirect to others, such as `/` to a page.
        index: BTreeMap<String, String> = BTreeMap::new(); map(index_path),
        /// Files and folders in static/, and likewise in pages/ and templates/. With more the
        /// service is refused.
        files_max: u32 = 65_536; count(0, 1 << 20),
        /// Bytes of a file that is kept in memory. A longer one is streamed: read from where it is
        /// while it is sent.
        kept_bytes_max: u32 = 1 << 20; bytes(0, 1 << 30),
        /// Bytes of all files that are kept in memory. With more the service is refused. The forms
        /// that are made of them (`compress_time`) come on top, at most 1.76 times as many bytes.
        kept_bytes_sum_max: u32 = 256 << 20; bytes(0, u32::MAX),
        /// Files that are streamed, each of which is held open. With more the service is refused.
        streamed_files_max: u32 = 128; count(0, 65_536),
        /// The longest that a streamed file is waited for, each time some of it is read. Then its
        /// request answers 503, or is cut off.
        read_timeout: Duration = Duration::from_secs(5); timeout(),
        /// Cache-Control of files, such as `public, max-age=3600`: for so many seconds browsers use
        /// what they have without asking. Empty: none is sent, and browsers go by the file's age.
        cache_control: String = String::new(); text(header_value),
        /// Time for compressing texts that are kept in memory, by gzip and brotli, at a start or
        /// reload; `0s`: they are not. What has not changed since the last load takes none; what
        /// alone takes longer than this is never made.
        compress_time: Duration = Duration::from_secs(2); time(),
        /// Take what symbolic links lead to that is outside of pages/, templates/ or static/.
        outside_links: bool = false; switch(),
    }
}

section! {
    /// Sessions and their cookie.
    pub struct SessionSettings = "session" {
        /// The cookie's name.
        cookie: String = "rhythm_session".to_owned(); text(cookie_name),
        /// Mark the cookie Secure: behind a proxy that speaks TLS.
        cookie_secure: bool = false; switch().flag("secure-cookie"),
        /// Sessions at once, of 48 bytes each, and 24 more with `store`. A sign-in beyond them
        /// answers 503.
        sessions_max: u32 = 262_144; count(1, 1 << 28).restart().was("capacity"),
        /// What a session keeps beside its user, by name: `"int"`, `"bool"` or `"text(40)"`, a text
        /// of at most so many bytes (docs/pages.md, *What a session keeps*). Memory for it is there
        /// for all of `sessions_max`. Values stay over a reload with the same fields, and are lost
        /// with others.
        fields: BTreeMap<String, String> = BTreeMap::new(); map(stored::check),
        /// A session unused for so long is over.
        idle_timeout: Duration = Duration::from_secs(30 * 60); timeout().restart(),
        /// A session that was never used after its sign-in is over sooner.
        unused_timeout: Duration = Duration::from_secs(5 * 60); timeout().restart(),
        /// Sessions of one user. A sign-in beyond them ends the user's oldest.
        per_user_max: Option<NonZeroU32> = NonZeroU32::new(64);
            count(1, 64).or_none("any number, and no reserve").restart(),
        /// Sessions for users who have none. While fewer are free, a sign-in ends the user's
        /// others.
        reserve: Option<NonZeroU32> = None;
            count(1, 1 << 28).or_none("a sixteenth of `sessions_max`").restart(),
        /// Sign-ins of one user in `sign_in_window`. More answer 429.
        sign_ins_per_user_max: Option<NonZeroU32> = NonZeroU32::new(600);
            count(1, 1_000_000).or_none("any number").restart(),
        /// Sign-ins from one address (for IPv6, a network of 64 bits) that may fail in
        /// `sign_in_window`. After them all from there answer 429. One fails where a page that can
        /// begin a session, and does not say `sign_in = false`, does not, or fails, unless it is
        /// its backend that is down or slow. To be 0 behind a proxy, whose address is that of all.
        failed_sign_ins_per_address_max: Option<NonZeroU32> = NonZeroU32::new(120);
            count(1, 1_000_000).or_none("any number").restart(),
        /// For how long sign-ins count. They drain evenly: after all that may be, the next may be
        /// as soon as its share of this time is over.
        sign_in_window: Duration = Duration::from_secs(60); timeout().restart(),
        /// Refuse (403) what other sites have a browser send: requests that are no GET or HEAD, for
        /// pages with a session or that begin one, whose `Origin` is neither `Host` nor in
        /// `origins`. With `cookie_secure`, `Origin` must be https.
        origin_check: bool = true; switch(),
        /// Refuse (403) requests that are no GET or HEAD and bring no CSRF token of their visitor,
        /// for all pages but those that say `csrf = false` (docs/pages.md, *Forms of this site
        /// alone*).
        csrf: bool = false; switch(),
        /// More origins that are this service's, separated by spaces, such as
        /// `https://bank.example`.
        origins: String = String::new(); text(origins),
        /// The backend, of kind `redis` or `memcached`, in which the sessions of several machines
        /// are that serve this site (docs/pages.md, *Sessions of several machines*). Empty: they
        /// are this machine's alone.
        store: String = String::new(); text(Ok).restart(),
        /// For how long this machine trusts what it knows of a session before it asks `store`
        /// again: so long a session that has ended elsewhere may live on here.
        store_refresh: Duration = Duration::from_secs(5); time().restart(),
        /// What CSRF tokens, messages and what is in `store` are sealed with, the same on all
        /// machines: `${NAME}`, a variable of the environment. Empty, and without `secret_file`: a
        /// secret that is made at each start.
        secret: String = String::new(); text(secret).restart(),
        /// The same, as the first line of a file.
        secret_file: Option<PathBuf> = None;
            file().or_none("what `secret` says").restart(),
    }
}

section! {
    /// Headers that tell browsers to be careful. A page's own header of the same name goes before.
    pub struct HeaderSettings = "headers" {
        /// Content-Security-Policy; empty: none is sent.
        content_security_policy: String =
            "frame-ancestors 'self'; base-uri 'self'; object-src 'none'".to_owned();
            text(header_value),
        /// Referrer-Policy; empty: none is sent. With `no-referrer` browsers send `Origin: null`,
        /// which `session.origin_check` refuses.
        referrer_policy: String = "same-origin".to_owned(); text(header_value),
        /// X-Content-Type-Options; empty: none is sent.
        content_type_options: String = "nosniff".to_owned(); text(header_value),
        /// Strict-Transport-Security, such as `max-age=31536000`: browsers that were here over TLS
        /// come over nothing else for so many seconds. Empty: none is sent. Begin with few: what
        /// browsers have been told is theirs to keep.
        strict_transport_security: String = String::new(); text(header_value),
        /// Permissions-Policy, such as `camera=(), geolocation=()`; empty: none is sent.
        permissions_policy: String = String::new(); text(header_value),
    }
}

section! {
    /// Compression of pages, for clients that accept gzip; `static.compress_time` is for files.
    pub struct GzipSettings = "gzip" {
        /// Compress pages: their texts when they are loaded, the rest as they are answered.
        pages: bool = true; switch(),
        /// Bytes of a page. A shorter one is sent as it is.
        bytes_min: u32 = 512; bytes(0, 1 << 30),
        /// Bytes of a page. A longer one is sent as it is, since others wait while it is compressed
        /// (2 to 8 ms a megabyte).
        bytes_max: u32 = 1 << 20; bytes(0, 1 << 30),
    }
}

section! {
    /// How requests form cohorts.
    pub struct CohortSettings = "cohort" {
        /// When a cohort is launched: as soon as the device is free and no more input waits, or
        /// only when full or after the delay.
        policy: CohortPolicy = CohortPolicy::WorkConserving;
            choice(CohortPolicy::WORDS).flag("cohort-policy").restart(),
        /// Most requests of a cohort.
        size: u32 = 1024; count(1, 65_536).flag("cohort-size").restart(),
        /// Longest time a request waits for others, such as 2ms.
        delay: Duration = Duration::from_millis(2); time().flag("cohort-delay").restart(),
        /// Cohorts of a worker that form or run at a time. Where they are few, those that wait for
        /// a backend have others.
        contexts_max: Option<NonZeroU32> = None;
            count(1, 65_536).or_none("two a page, and at least 16").restart().was("contexts"),
        /// Bytes of a cohort's texts: parameters, answers of backends (and 8 bytes for each cell of
        /// their lists), what its pages make. A request that finds no room left goes with the next
        /// cohort, and one too large for any answers 413; a page that finds none answers 500.
        arena_bytes_max: u32 = 64 << 20; bytes(16 << 20, 1 << 31).restart(),
        /// Bytes that the cohorts of a worker may take together, of texts, answers and what is kept
        /// of their requests, beyond 4 MiB of each that are always there. Where none are left,
        /// pages are run one after the other, and what a backend answers may get 503.
        common_bytes_max: u32 = 128 << 20; bytes(1 << 20, 1 << 31).restart(),
        /// Bytes of a cohort's answers, if each is as long as its page's were of late: more
        /// requests go with the next cohort. Whatever they are, `arena_bytes_max` bounds them, too:
        /// where one finds no room beside others, its page is run after those are answered.
        answer_bytes_max: u32 = 32 << 20; bytes(1 << 20, 1 << 31),
    }
}

/// Most bytes that a head may be allowed: what the protocol's offsets reach.
const HEAD_MAX: u32 = HEAD_CAPACITY as u32;

section! {
    /// Limits on clients, requests and answers.
    pub struct Limits = "limits" {
        /// Connections of clients at once, shared out evenly to the workers. More wait in the
        /// system's queue; those that have been silent for longest, and for a second, are closed
        /// for them. Fewer where the limit of open files (`ulimit -n`) has no room for so many.
        connections_max: u32 = 16_384; count(1, 1 << 24).restart().was("max_connections"),
        /// Connections of one address (for IPv6, a network of 64 bits) at once. More are turned
        /// away. To be 0 behind a proxy, whose address is that of all.
        connections_per_address_max: Option<NonZeroU32> = None;
            count(1, 1 << 24).or_none("any number").restart(),
        /// Bytes of request line and headers together. More answer 431.
        head_bytes_max: u32 = 16_384; bytes(512, HEAD_MAX).was("head_bytes"),
        /// Bytes of a request's target, which is its path and query. More answer 414.
        target_bytes_max: u32 = 8 * 1024; bytes(64, HEAD_MAX),
        /// Header fields of a request. More answer 431.
        headers_max: u32 = 100; count(8, HEADERS_CAPACITY as u32).was("headers"),
        /// Bytes of a request's body. More answer 413.
        body_bytes_max: u32 = 65_536; bytes(0, 1 << 30).was("body_bytes"),
        /// Time to send the whole head.
        header_timeout: Duration = Duration::from_secs(10); timeout().restart(),
        /// Time to send the whole body.
        body_timeout: Duration = Duration::from_secs(30); timeout().restart(),
        /// Time between two requests of a connection.
        idle_timeout: Duration = Duration::from_secs(60); timeout().restart(),
        /// Time for a client to take an answer, beside what its bytes take at `rate_bytes_min`.
        send_timeout: Duration = Duration::from_secs(30); timeout().restart(),
        /// Bytes a second: who takes an answer more slowly is dropped when it is `send_timeout`
        /// behind.
        rate_bytes_min: u32 = 16_384; bytes(1, 1 << 30).restart(),
        /// Requests of one connection under way at a time. More are not read until one is answered.
        pipelined_max: u32 = 64; count(1, 65_536).restart(),
        /// Requests of one HTTP/2 connection under way at a time. More are refused, and come again.
        /// To all other limits but `connections_per_address_max` each of them is a connection of
        /// its own. Together they are as many as `connections_max` at most, of which one client has
        /// half (docs/operations.md, *TLS*).
        http2_streams_max: u32 = 100; count(1, 10_000).restart(),
        /// Requests after which a connection is closed.
        requests_per_connection_max: Option<NonZeroU32> = None;
            count(1, u32::MAX).or_none("any number").restart().was("requests_per_connection"),
        /// Bytes of an answer's body. A page that gives more answers 500.
        response_bytes_max: u32 = 8 << 20; bytes(1024, 1 << 30).restart().was("response_bytes"),
        /// Bytes of answers that a connection may have under way: that the client has not taken, or
        /// that are expected of requests that were taken. With more, no further request is taken
        /// from it, and no more of an answer in pieces is made. One answer may be longer.
        unsent_bytes_max: u32 = 65_536; bytes(1024, 1 << 30).restart(),
        /// Bytes that the connections of a worker may hold together: requests that are incomplete
        /// or wait, and answers that clients have not taken. With more than half of it, one request
        /// of a connection is taken at a time; with more, the slowest connections are dropped.
        worker_bytes_max: u32 = 64 << 20; bytes(1 << 20, 1 << 31).restart(),
        /// Bytes of text that a page may make for a request in one stage: concatenations,
        /// conversions, functions, requests to backends. Of what is only looked through, as by
        /// `in` or `|int`, a part counts. More answer 500.
        stage_text_bytes_max: u32 = 1 << 20; bytes(1024, 1 << 30).restart(),
        /// Turns of all loops that a page may take for a request in one stage, those that a
        /// condition skips included. More answer 500.
        stage_turns_max: u32 = 1 << 17; count(1, 1 << 30).restart(),
    }
}

choice! {
    /// When a cohort is launched.
    pub enum CohortPolicy {
        /// As soon as the device is free and no more input waits, at the latest when full or after
        /// the delay.
        WorkConserving = "work-conserving",
        /// When full or after the delay.
        Fixed = "fixed",
    }
}

choice! {
    /// How lines of the access log look.
    pub enum AccessLogFormat {
        /// The common log format.
        Common = "common",
        /// The same with the request's `Referer` and `User-Agent` behind it.
        Combined = "combined",
        /// A JSON object a line.
        Json = "json",
    }
}

choice! {
    /// Which requests have ids, and who is told.
    pub enum RequestIds {
        /// None has.
        Off = "off",
        /// All have, for logs and whoever is asked for them.
        Logged = "logged",
        /// Clients are told, too.
        Answered = "answered",
    }
}

choice! {
    /// How lines of the log look.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// A JSON object a line, for machines.
        Json = "json",
    }
}

/// This machine alone.
fn local(port: u16) -> ListenAt {
    ListenAt::Tcp((Ipv4Addr::LOCALHOST, port).into())
}

/// Permissions as `chmod` takes them.
fn octal_mode(mode: String) -> Result<String, Mistake> {
    match u32::from_str_radix(&mode, 8) {
        Ok(bits) if bits <= 0o777 && !mode.starts_with('+') => Ok(mode),
        _ => {
            let hint = "such as \"660\", for the owner and the group, or \"666\", for everybody";
            Err(Mistake::new(
                "`socket_mode` must be permissions in octal",
                hint,
            ))
        }
    }
}

impl ServerSettings {
    /// The permissions of Unix sockets.
    pub fn socket_mode(&self) -> u32 {
        // It was read as such.
        u32::from_str_radix(&self.socket_mode, 8).unwrap_or(0o600)
    }
}

/// A path that begins and ends with `/`.
fn mount_path(mut path: String) -> Result<String, Mistake> {
    if !path.starts_with('/') {
        let message = "`mount` must begin with `/`";
        return Err(Mistake::new(message, "such as \"/static/\""));
    }
    if !path.ends_with('/') {
        path.push('/');
    }
    Ok(path)
}

fn index_path(from: &str, to: Option<&str>) -> Result<(), Mistake> {
    if !from.starts_with('/') || to.is_none() {
        let message = "`index` maps paths that begin with `/` to others";
        return Err(Mistake::new(message, "index = { \"/\" = \"/home\" }"));
    }
    Ok(())
}

impl SessionSettings {
    /// What `fields` declares, in the order of the names.
    pub fn stored(&self) -> Vec<StoredField> {
        stored::declared(&self.fields)
    }
}

impl HeaderSettings {
    /// The names and values of those that are sent.
    pub fn lines(&self) -> impl Iterator<Item = (HeaderName<'static>, &str)> {
        const fn name(name: &'static str) -> HeaderName<'static> {
            HeaderName::new(name).expect("a token")
        }
        let all = [
            (
                const { name("Content-Security-Policy") },
                &self.content_security_policy,
            ),
            (const { name("Referrer-Policy") }, &self.referrer_policy),
            (
                const { name("X-Content-Type-Options") },
                &self.content_type_options,
            ),
            (
                const { name("Strict-Transport-Security") },
                &self.strict_transport_security,
            ),
            (
                const { name("Permissions-Policy") },
                &self.permissions_policy,
            ),
        ];
        let all = all.map(|(name, value)| (name, value.as_str()));
        all.into_iter().filter(|(_, value)| !value.is_empty())
    }
}

/// Schemes and authorities (RFC 6454, section 6.2).
fn origins(origins: String) -> Result<String, Mistake> {
    let is_one = |origin: &str| {
        let authority = (origin.strip_prefix("https://")).or(origin.strip_prefix("http://"));
        authority.is_some_and(|authority| !authority.is_empty() && !authority.contains('/'))
    };
    match origins.split_ascii_whitespace().find(|text| !is_one(text)) {
        Some(text) => {
            let message = format!("`{text}` is no origin");
            let hint = "a scheme, a host and perhaps a port, such as \"https://bank.example\"";
            Err(Mistake::new(message, hint))
        }
        None => Ok(origins.to_ascii_lowercase()),
    }
}

/// The name of a time zone.
fn time_zone(name: String) -> Result<String, Mistake> {
    match zone::table(&name) {
        Some(_) => Ok(name),
        None => {
            let message = format!("there is no time zone `{name}`");
            Err(Mistake::new(
                message,
                "a name such as \"Europe/Berlin\" or \"UTC\"",
            ))
        }
    }
}

/// Names of hosts, and of all below one, as they are compared with those that clients send: in
/// lower case, without a dot at the end, each once.
fn served_names(names: String) -> Result<String, Mistake> {
    let mut all: Vec<String> = Vec::new();
    for said in names.split_ascii_whitespace() {
        let name = said.strip_suffix('.').unwrap_or(said).to_ascii_lowercase();
        let plain = name.strip_prefix("*.").unwrap_or(&name);
        let is_name = is_host_name(plain) && plain.split('.').all(|label| !label.is_empty());
        if !is_name || name.len() > HOST_NAME_MAX {
            let message = format!("`{said}` is no name of a host");
            let hint = "names without scheme and port, such as \"bank.example www.bank.example\", \
                        or \"*.bank.example\" for all below one";
            return Err(Mistake::new(message, hint));
        }
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Ok(all.join(" "))
}

/// Most bytes of a name that a service has: no name in the DNS is longer (RFC 1035, section 3.1).
pub const HOST_NAME_MAX: usize = 253;

/// Names of hosts, without ports.
fn host_names(names: String) -> Result<String, Mistake> {
    match (names.split_ascii_whitespace()).find(|name| !is_host_name(name)) {
        Some(name) => {
            let message = format!("`{name}` is no name of a host");
            let hint = "names without ports, such as \"admin.bank.example metrics\"";
            Err(Mistake::new(message, hint))
        }
        None => Ok(names.to_ascii_lowercase()),
    }
}

/// A variable's name, since a secret is not to stand in the file itself.
fn secret(secret: String) -> Result<String, Mistake> {
    let is_variable = secret.starts_with("${") && secret.ends_with('}');
    match secret.is_empty() || is_variable {
        true => Ok(secret),
        false => Err(Mistake::new(
            "a secret is not to stand here, where many can read it",
            "`secret = \"${NAME}\"` is a variable of the environment, and `secret_file` names a \
             file",
        )),
    }
}

/// What a header's line can hold.
fn header_value(value: String) -> Result<String, Mistake> {
    if value.bytes().any(|byte| !(b' '..=b'~').contains(&byte)) {
        let message = "this is no header's value";
        return Err(Mistake::new(message, "printable ASCII, in one line"));
    }
    Ok(value)
}

/// A token (RFC 6265, section 4.1.1).
fn cookie_name(name: String) -> Result<String, Mistake> {
    if !is_token(name.as_bytes()) {
        let hint = "letters, digits, `_` and `-` (RFC 6265, section 4.1.1)";
        return Err(Mistake::new("this is no cookie name", hint));
    }
    Ok(name)
}
