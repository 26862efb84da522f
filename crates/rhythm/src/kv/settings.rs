//! From what was typed to the settings of the server.

use super::args::Args;
use super::values::in_bytes;
use super::{extended, ring};
use crate::exits::wrong;
use anyhow::{Context, Result, bail};
use rhythm_kv::membership::Replicate;
use rhythm_kv::ring::{Elsewhere, Scheme};
use rhythm_kv::shared::{Listen, MEMORY_GROWTH, Settings};
use rhythm_kv::wire::{Protocol, Users};
use rhythm_net::files::open_regular;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The most users, and the longest line of one, as in memcached.
const USERS_MAX: usize = 8;
const USER_LINE_MAX: usize = 256;
/// Their file has no more bytes than that.
const USERS_FILE_MAX: u64 = 64 << 10;

/// The settings, and remarks on what was typed and means nothing here.
pub(super) fn from_args(args: &Args) -> Result<(Settings, Vec<String>)> {
    if args.enable_sasl {
        bail!(wrong(
            "-S: there is no SASL here; -Y has users over the ASCII protocol"
        ));
    }
    if args.enable_ssl {
        bail!(wrong(
            "-Z: there is no TLS here; put a proxy that has it in front"
        ));
    }
    if args.memory_file.is_some() && args.ring.is_some() {
        bail!(wrong(
            "-e: a node of a ring gets its items from the others, who may have changed them while \
             it was away; leave -e out, or --ring"
        ));
    }
    let mut remarks = Vec::new();
    for (is_given, flag) in [
        (args.napi_ids.is_some(), "-N"),
        (args.disable_dumping, "-X"),
        (args.disable_watch, "-W"),
        (args.max_reqs_per_event.is_some(), "-R"),
    ] {
        if is_given {
            remarks.push(format!("{flag} is accepted and means nothing here"));
        }
    }
    let port = |given: i32| match given {
        0 => None,
        port => Some(u16::try_from(port).unwrap_or(0)),
    };
    let mut listen = Vec::new();
    for list in &args.listen {
        for place in list.split([',', ';']).filter(|place| !place.is_empty()) {
            listen.push(parse_listen(place)?);
        }
    }
    let usual = Settings::default();
    // A UDP port alone is meant for both.
    let tcp = match (args.port, args.udp_port) {
        (Some(tcp), _) => tcp,
        (None, 0) => usual.port.map_or(0, i32::from),
        (None, udp) => udp,
    };
    let memory = u64::from(args.memory_limit) << 20;
    if args.max_item_size > memory / 2 {
        // The sentence is memcached's.
        bail!(wrong(format_args!(
            "Cannot set item size limit higher than 1/2 of memory max. For -I {size} give \
             -m {half} or more, or -I {memory} or less for -m {limit}",
            size = in_bytes(args.max_item_size),
            half = (2 * args.max_item_size).div_ceil(1 << 20),
            memory = in_bytes(memory / 2),
            limit = args.memory_limit
        )));
    }
    let mut settings = Settings {
        port: port(tcp),
        udp_port: port(args.udp_port),
        unix_socket: args.unix_socket.clone(),
        unix_mask: args.unix_mask,
        listen,
        memory,
        // With -k all addresses are memory, and the room of a file is taken at the start.
        memory_max: if args.lock_memory || args.memory_file.is_some() {
            0
        } else {
            MEMORY_GROWTH * memory
        },
        memory_file: args.memory_file.clone(),
        evict: !args.disable_evictions,
        connections_max: args.conn_limit,
        threads: args.threads.into(),
        cas: !args.disable_cas,
        backlog: args.listen_backlog,
        protocol: args.protocol.unwrap_or_default(),
        item_max: args.max_item_size,
        flush: !args.disable_flush_all,
        shutdown: args.enable_shutdown,
        verbosity: args.verbose.into(),
        detail: args.delimiter.is_some(),
        admin: args.admin,
        admin_hosts: args.admin_hosts.clone(),
        growth_factor: args.slab_growth_factor,
        resident: args.enable_largepages,
        chunk_size: args.slab_min_size,
        ..usual
    };
    if let Some(requests) = args.max_reqs_per_event {
        settings.requests_per_event = requests;
    }
    if let Some(delimiter) = args.delimiter {
        settings.prefix_delimiter = delimiter;
    }
    if let Some(file) = &args.auth_file {
        if !matches!(args.protocol, None | Some(Protocol::Ascii)) {
            bail!(wrong(
                "-Y has users over the ASCII protocol alone: leave -B out, or say -B ascii"
            ));
        }
        if settings.udp_port.is_some() {
            bail!(wrong(
                "-Y knows who is who by the connection: UDP (-U) has none"
            ));
        }
        settings.protocol = Protocol::Ascii;
        settings.users = Arc::new(users(file)?);
        settings.auth_file = Some(file.clone());
    }
    if let (Some(file), Some(node)) = (&args.ring, &args.node) {
        if settings.udp_port.is_some() {
            bail!(wrong(
                "--ring: answers wait here for other nodes, in the order of their connection, and \
                 datagrams have none; leave -U out, and have clients ask over TCP"
            ));
        }
        if args.scheme == Scheme::Chain && args.replicate != Replicate::ACKED {
            bail!(wrong(
                "--scheme chain: a write is answered when it has come to the end of its chain; say \
                 --replicate acked"
            ));
        }
        if args.scheme == Scheme::Chain && args.elsewhere == Some(Elsewhere::Serve) {
            bail!(wrong(
                "--scheme chain: the last node of a chain alone shows what is confirmed; leave \
                 --elsewhere out"
            ));
        }
        ring::join(file, node, args, &mut settings)?;
    }
    for list in &args.extended {
        extended::apply(list, &mut settings, &mut remarks).map_err(wrong)?;
    }
    Ok((settings, remarks))
}

/// `ADDR`, `ADDR:PORT`, `[ADDR]:PORT`, `*` or `*:PORT`.
fn parse_listen(place: &str) -> Result<Listen> {
    let (host, port) = if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest
            .split_once(']')
            .with_context(|| format!("-l {place}: a closing bracket is missing"))?;
        (host, rest.strip_prefix(':'))
    } else {
        match place.split_once(':') {
            // More than one colon: an IPv6 address without brackets, and without a port.
            Some((_, rest)) if rest.contains(':') => (place, None),
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        }
    };
    let port = port.map(|port| {
        port.parse()
            .with_context(|| format!("-l {place}: {port} is no port"))
    });
    Ok(Listen {
        host: (host != "*").then(|| host.to_owned()),
        port: port.transpose()?,
    })
}

/// The users in a file: a line `USER:PASSWORD` each. It is read when the server is asked to, too,
/// whatever is there by then: what may have no end, or never begin, is refused.
pub(super) fn users(file: &Path) -> Result<Users> {
    let mut text = Vec::new();
    open_regular(file)
        .and_then(|opened| opened.take(USERS_FILE_MAX + 1).read_to_end(&mut text))
        .with_context(|| format!("-Y: cannot read {}", file.display()))?;
    if text.len() as u64 > USERS_FILE_MAX {
        bail!(
            "-Y {}: it is longer than {USERS_FILE_MAX} bytes",
            file.display()
        );
    }
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    let mut users = Users::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':');
        let Some(colon) = colon.filter(|_| line.len() < USER_LINE_MAX) else {
            bail!("-Y {}: each line is USER:PASSWORD", file.display());
        };
        users.push((line[..colon].to_vec(), line[colon + 1..].to_vec()));
    }
    match users.len() {
        0 => bail!("-Y {}: there is no user in it", file.display()),
        1..=USERS_MAX => Ok(users),
        _ => bail!("-Y {}: it has more than {USERS_MAX} users", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_memcached_does() {
        for (text, host, port) in [
            ("127.0.0.1", Some("127.0.0.1"), None),
            ("127.0.0.1:7", Some("127.0.0.1"), Some(7)),
            ("localhost:7", Some("localhost"), Some(7)),
            ("*", None, None),
            ("*:7", None, Some(7)),
            ("::1", Some("::1"), None),
            ("[::1]", Some("::1"), None),
            ("[::1]:7", Some("::1"), Some(7)),
        ] {
            let place = parse_listen(text).unwrap();
            assert_eq!((place.host.as_deref(), place.port), (host, port), "{text}");
        }
        assert!(parse_listen("[::1").is_err());
        assert!(parse_listen("127.0.0.1:x").is_err());
    }

    fn typed(line: &str) -> Result<(Settings, Vec<String>)> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("kv"));
        let words = ["kv"].into_iter().chain(line.split_whitespace());
        from_args(&Args::from_arg_matches(
            &command.try_get_matches_from(words)?,
        )?)
    }

    #[test]
    fn memcacheds_command_lines_are_understood() {
        let (settings, remarks) = typed("").unwrap();
        assert_eq!((settings.port, settings.udp_port), (Some(11211), None));
        assert_eq!((settings.memory, settings.threads), (64 << 20, 4));
        assert!(remarks.is_empty());
        // Debian's.
        let line = "-m 64 -p 11211 -u memcache -l 127.0.0.1 -P /var/run/memcached/memcached.pid";
        let (settings, _) = typed(line).unwrap();
        assert_eq!(settings.listen[0].host.as_deref(), Some("127.0.0.1"));
        let line = "-d -vv -c 4096 -t 2 -M -C -F -A -b 10 -B ascii -I 2m -R 5 -f 1.1 -n 64 -k -r \
                    -L -D / -o idle_timeout=9,modern -s /tmp/x -a 666 -X -W";
        let (settings, remarks) = typed(line).unwrap();
        assert_eq!(settings.connections_max, 4096);
        assert!(!settings.evict && !settings.cas && !settings.flush && settings.shutdown);
        assert_eq!(settings.unix_mask, 0o666);
        assert_eq!((settings.prefix_delimiter, settings.detail), (b'/', true));
        assert_eq!((remarks.len(), settings.resident), (4, true), "{remarks:?}");
        assert_eq!(settings.admin, None);
        let (settings, _) = typed("--admin [::1]:0 --admin-hosts a,b.example").unwrap();
        assert_eq!(settings.admin, Some("[::1]:0".parse().unwrap()));
        assert_eq!(settings.admin_hosts, ["a", "b.example"]);
        let (settings, _) = typed("-p -1 -U -1").unwrap();
        assert_eq!((settings.port, settings.udp_port), (Some(0), Some(0)));
        let (settings, _) = typed("-p 1 -m 64 -p 2 -m 65").unwrap();
        assert_eq!((settings.port, settings.memory), (Some(2), 65 << 20));
        let (settings, _) = typed("-U 7").unwrap();
        assert_eq!((settings.port, settings.udp_port), (Some(7), Some(7)));
        let (settings, _) = typed("--port=0 --udp-port 7").unwrap();
        assert_eq!((settings.port, settings.udp_port), (None, Some(7)));
        let long = [
            "--memory-limit=100 --disable-evictions --conn-limit=5 --threads=1 --disable-cas",
            "--listen-backlog 3 --protocol binary --max-item-size 1k --extended modern",
            "--enable-shutdown --unix-mask 700 --user nobody --lock-memory",
        ];
        let long = long.join(" ");
        assert_eq!(typed(&long).unwrap().0.item_max, 1024);
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        for (line, said) in [
            ("-S", "no SASL"),
            ("-Z", "no TLS"),
            ("-e /tmp/x --ring x --node a", "leave -e out"),
            ("-o ext_path=/x", "no external storage"),
            ("-Y /nonexistent", "cannot read"),
            ("-t 0", "a number from 1 to 1024"),
            ("-t x", "a number from 1 to 1024"),
            ("-m 64m", "megabytes, as a number from 1 to"),
            ("-p 65536", "a port from -1 to 65535"),
            (
                "-I 33m",
                "1/2 of memory max. For -I 33m give -m 66 or more, or -I 32m or less",
            ),
            (
                "-m 1",
                "For -I 1m give -m 2 or more, or -I 512k or less for -m 1",
            ),
            ("-B x", "auto, ascii or binary"),
            ("--ring /nonexistent --node a", "cannot read"),
            ("--ring /nonexistent", "--node <NAME>"),
            ("--replicas 2", "--ring <FILE|etcd://...>"),
            ("--ring x --node a --replicate now", "async or acked"),
            (
                "--ring x --node a --replicate acked,gets=async",
                "\"gets\" is no class",
            ),
            ("--elsewhere serve", "--ring <FILE|etcd://...>"),
            ("--ring x --node a --elsewhere refuse", "forward or serve"),
            (
                "--ring x --node a --scheme chain --replicate acked --elsewhere serve",
                "leave --elsewhere out",
            ),
            (
                "--ring x --node a --scheme chain --replicate acked,touch=async",
                "say --replicate acked",
            ),
            ("--ring x --node a --scheme line", "ring, primary or chain"),
            (
                "--ring x --node a --scheme chain --replicate async",
                "say --replicate acked",
            ),
            ("--ring x --node a --scheme chain", "say --replicate acked"),
            ("--ring x --node a -U 7", "leave -U out"),
            ("--ring etcd://h:1 --node a", "no place of etcd"),
            ("--ring etcd://h:1/x --node a", "--client"),
            ("--ring etcd://h:1/x --node a --client h:1", "--backbone"),
            (
                "--ring etcd://h:1/x --node a --client h:1 --backbone 0.0.0.0:1",
                "is where a node listens, and not where the others find it",
            ),
            (
                "--ring etcd://h:1/x --node a --client h:1 --backbone ether:eth1",
                "with etcd nodes speak over TCP",
            ),
            (
                "--ring x --node a --lease 1",
                "seconds, as a number from 2 to 60",
            ),
            ("-m 64 ring status x", "cannot be used with"),
            ("--admin 11212", "an IP address and a port"),
            ("--admin-hosts cache.example", "--admin <ADDR:PORT>"),
            ("--admin [::1]:0 --admin-hosts a:1", "without a port"),
        ] {
            let error = format!("{:#}", typed(line).unwrap_err());
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
