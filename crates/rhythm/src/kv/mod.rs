//! `rhythm kv`: the memcached server, with memcached's own flags.

mod extended;
mod relaunch;
mod settings;

use crate::logs;
use anyhow::{Context, Result};
use rhythm_engine::settings::LogFormat;
use rhythm_kv::server::{Address, Server};
use rhythm_net::{resource, signal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::{env, fs};

/// Where the ports go that the server listens on, as memcached's own tests ask for them.
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// Serve a cache: a memcached that executes the commands of many connections together.
///
/// It takes memcached's flags, long and short, speaks its protocols over TCP, UDP and Unix sockets,
/// and starts without any flag: port 11211, 64 MiB, 4 threads. SIGTERM and SIGINT end it, SIGUSR1
/// ends it when the answers under way are taken, SIGHUP reads the file of users again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// TCP port; 0: none, -1: one that the system chooses [default: 11211, or that of -U]
    #[arg(short, long, value_name = "NUM", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-1..=65535))]
    port: Option<i32>,

    /// UDP port; 0: none, -1: one that the system chooses
    #[arg(short = 'U', long, value_name = "NUM", default_value_t = 0)]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i32).range(-1..=65535))]
    udp_port: i32,

    /// Unix socket to listen on, instead of ports
    #[arg(short = 's', long, value_name = "FILE")]
    unix_socket: Option<PathBuf>,

    /// Permissions of the Unix socket, in octal
    #[arg(short = 'a', long, value_name = "MASK", default_value = "700")]
    #[arg(value_parser = settings::octal)]
    unix_mask: u32,

    /// Obey the command `shutdown`
    #[arg(short = 'A', long)]
    enable_shutdown: bool,

    /// Addresses to listen on: ADDR, ADDR:PORT, [ADDR]:PORT or *, several with commas
    /// [default: all]
    #[arg(short, long, value_name = "ADDR")]
    listen: Vec<String>,

    /// Run in the background
    #[arg(short, long, visible_alias = "daemonize")]
    daemon: bool,

    /// Raise the limit of core files
    #[arg(short = 'r', long)]
    enable_coredumps: bool,

    /// Become this user, when started as root
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,

    /// Memory for items, in megabytes
    #[arg(short, long, value_name = "NUM", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    memory_limit: u32,

    /// Refuse values when memory is full, instead of evicting old ones
    #[arg(short = 'M', long)]
    disable_evictions: bool,

    /// Connections at one time
    #[arg(short, long, value_name = "NUM", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    conn_limit: u32,

    /// Keep all memory from being paged out
    #[arg(short = 'k', long)]
    lock_memory: bool,

    /// Say more: what is accepted and means nothing here
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Say under which licenses this is, and end
    #[arg(short = 'i', long)]
    license: bool,

    /// Write the process id there, with -d
    #[arg(short = 'P', long, value_name = "FILE")]
    pidfile: Option<PathBuf>,

    /// Growth of slab classes: told by `stats`, there are none
    #[arg(short = 'f', long, value_name = "FACTOR", default_value_t = 1.25)]
    #[arg(value_parser = settings::factor)]
    slab_growth_factor: f64,

    /// Smallest slab: told by `stats`, there are none
    #[arg(short = 'n', long, value_name = "BYTES", default_value_t = 48)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    slab_min_size: u32,

    /// Large memory pages: the system's own choice here
    #[arg(short = 'L', long)]
    enable_largepages: bool,

    /// Count by the prefixes of keys, which end with this character
    #[arg(short = 'D', value_name = "CHAR", value_parser = settings::delimiter)]
    delimiter: Option<u8>,

    /// Threads
    #[arg(short, long, value_name = "NUM", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// Requests of one connection in one go: told by `stats`, a turn takes what was read
    #[arg(short = 'R', long, value_name = "NUM", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    max_reqs_per_event: u32,

    /// Items without CAS ids
    #[arg(short = 'C', long)]
    disable_cas: bool,

    /// Clients that may wait to be let in
    #[arg(short = 'b', long, value_name = "NUM", default_value_t = 1024)]
    listen_backlog: u32,

    /// Protocol: auto, ascii or binary
    #[arg(short = 'B', long, value_name = "NAME", value_parser = settings::protocol)]
    protocol: Option<rhythm_kv::wire::Protocol>,

    /// Largest item, in bytes or with k or m: from 1k to 1024m
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m")]
    #[arg(value_parser = settings::item_size)]
    max_item_size: u64,

    /// SASL: there is none here
    #[arg(short = 'S', long)]
    enable_sasl: bool,

    /// TLS: there is none here
    #[arg(short = 'Z', long)]
    enable_ssl: bool,

    /// Refuse `flush_all`
    #[arg(short = 'F', long)]
    disable_flush_all: bool,

    /// Refuse dumps: there are none here
    #[arg(short = 'X', long)]
    disable_dumping: bool,

    /// Refuse `watch`: it is refused anyway
    #[arg(short = 'W', long)]
    disable_watch: bool,

    /// Users that may come in, a line USER:PASSWORD each; over the ASCII protocol
    #[arg(short = 'Y', long, value_name = "FILE")]
    auth_file: Option<PathBuf>,

    /// Keep items in a file: not here
    #[arg(short = 'e', long, value_name = "FILE")]
    memory_file: Option<PathBuf>,

    /// NAPI ids: the system's own choice here
    #[arg(short = 'N', long, value_name = "NUM")]
    napi_ids: Option<u32>,

    /// Extended options, with commas between them; see docs/kv.md
    #[arg(short = 'o', long, value_name = "OPTIONS")]
    extended: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    if args.license {
        println!("rhythm is free under the Apache License 2.0 or the MIT license, as you like.");
        return Ok(ExitCode::SUCCESS);
    }
    let (settings, remarks) = settings::from_args(&args)?;
    if let Some(code) = relaunch::as_asked(&args)? {
        return Ok(code);
    }
    logs::start(LogFormat::Text)?;
    if args.verbose > 0 {
        remarks.iter().for_each(|remark| tracing::info!("{remark}"));
    }
    relaunch::limits(&args)?;
    resource::raise_open_files().context("cannot raise the limit of open files")?;
    let auth_file = settings.auth_file.clone();
    // Who ends it, and whether gracefully; the first word counts.
    let (ending, endings) = mpsc::channel();
    let by_client = ending.clone();
    let server = Server::start(settings, move |graceful| {
        // None listens any more when it ends already.
        let _ = by_client.send(graceful);
    })?;
    let handle = server.handle();
    let users = handle.clone();
    let _watch = signal::watch(move |signal| match signal {
        signal::Signal::Terminate | signal::Signal::Interrupt => drop(ending.send(false)),
        signal::Signal::User1 => drop(ending.send(true)),
        signal::Signal::Reload => {
            let Some(file) = &auth_file else { return };
            match settings::users(file) {
                Ok(read) => users.set_users(Arc::new(read)),
                Err(error) => tracing::warn!("the users stay as they were: {error:#}"),
            }
        }
    })
    .context("cannot watch for signals")?;
    if let Some(file) = env::var_os(PORT_FILE) {
        tell_ports(Path::new(&file), server.addresses())
            .with_context(|| format!("cannot write {}", Path::new(&file).display()))?;
    }
    if let (Some(file), true) = (&args.pidfile, args.daemon) {
        fs::write(file, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    for address in server.addresses() {
        match address {
            Address::Tcp(at) => tracing::info!(address = %at, "kv is serving over TCP"),
            Address::Udp(at) => tracing::info!(address = %at, "kv is serving over UDP"),
            Address::Unix(at) => tracing::info!(path = %at.display(), "kv is serving"),
        }
    }
    std::thread::Builder::new()
        .name("ending".into())
        .spawn(move || match endings.recv() {
            Ok(true) => handle.end(),
            Ok(false) | Err(_) => handle.stop(),
        })
        .context("cannot start a thread")?;
    let ended = server.join();
    if let (Some(file), true) = (&args.pidfile, args.daemon) {
        // It may be gone, or be another's by now.
        let _ = fs::remove_file(file);
    }
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a line for each port, in memcached's form. The file has them all when it appears.
fn tell_ports(file: &Path, addresses: &[Address]) -> std::io::Result<()> {
    let family = |at: &std::net::SocketAddr| if at.is_ipv4() { "INET" } else { "INET6" };
    let lines: String = addresses
        .iter()
        .map(|address| match address {
            Address::Tcp(at) => format!("TCP {}: {}\n", family(at), at.port()),
            Address::Udp(at) => format!("UDP {}: {}\n", family(at), at.port()),
            Address::Unix(_) => String::new(),
        })
        .collect();
    let mut lock = file.as_os_str().to_owned();
    lock.push(".lck");
    fs::write(&lock, lines)?;
    fs::rename(&lock, file)
}
