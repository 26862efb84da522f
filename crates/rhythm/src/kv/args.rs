//! memcached's flags.

use super::values;
use rhythm_engine::settings::LogFormat;
use rhythm_kv::membership::{Replicate, Transport};
use rhythm_kv::ring::{Elsewhere, PROTOCOL, Scheme};
use rhythm_kv::shared::Settings;
use std::net::SocketAddr;
use std::path::PathBuf;

const LISTEN_HELP: &str = "Addresses to listen on: ADDR, ADDR:PORT, [ADDR]:PORT or *, several with \
                           commas [default: all]";

/// The largest number of a flag that has no bound of its own.
const MANY: i64 = u32::MAX as i64;

/// Serve a cache: a memcached that executes the commands of many connections together.
///
/// It takes memcached's flags, long and short, speaks its protocols over TCP, UDP and Unix sockets,
/// and starts without any flag: port 11211, 64 MiB, 4 threads. SIGTERM and SIGINT end it when what
/// has come is answered and the answers are taken, within 2 seconds, or at once when said again;
/// SIGUSR1 has 5 seconds for that. A node of a ring first hands over what it serves. SIGHUP reads
/// the file of users again.
// Of a flag that is given twice the last counts, as memcached's wrappers expect.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, args_conflicts_with_subcommands = true)]
#[command(long_version = long_version())]
pub(crate) struct Args {
    /// TCP port; 0: none, -1: one that the system chooses [default: 11211, or that of -U]
    #[arg(short, long, value_name = "NUM", allow_negative_numbers = true)]
    #[arg(value_parser = values::number::<i32>("a port", -1..=65535))]
    pub(super) port: Option<i32>,

    /// UDP port; 0: none, -1: one that the system chooses. Not with --ring, where answers wait for
    /// other nodes
    #[arg(short = 'U', long, value_name = "NUM", default_value_t = 0)]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = values::number::<i32>("a port", -1..=65535))]
    pub(super) udp_port: i32,

    /// Unix socket to listen on, instead of ports
    #[arg(short = 's', long, value_name = "FILE")]
    pub(super) unix_socket: Option<PathBuf>,

    /// Permissions of the Unix socket, in octal
    #[arg(short = 'a', long, value_name = "MASK", default_value = "700")]
    #[arg(value_parser = values::octal)]
    pub(super) unix_mask: u32,

    /// Obey the command `shutdown`
    #[arg(short = 'A', long)]
    pub(super) enable_shutdown: bool,

    // What is in brackets would be a link in a docstring.
    #[arg(short, long, value_name = "ADDR", help = LISTEN_HELP)]
    pub(super) listen: Vec<String>,

    /// Run in the background
    #[arg(short, long, visible_alias = "daemonize")]
    pub(super) daemon: bool,

    /// Raise the limit of core files
    #[arg(short = 'r', long)]
    pub(super) enable_coredumps: bool,

    /// Become this user, when started as root
    #[arg(short, long, value_name = "USER")]
    pub(super) user: Option<String>,

    /// Memory for items, in megabytes
    #[arg(short, long, value_name = "NUM")]
    #[arg(default_value_t = (Settings::default().memory >> 20) as u32)]
    #[arg(value_parser = values::number::<u32>("megabytes, as a number", 1..=MANY))]
    pub(super) memory_limit: u32,

    /// Refuse values when memory is full, instead of evicting old ones
    #[arg(short = 'M', long)]
    pub(super) disable_evictions: bool,

    /// Connections at one time
    #[arg(short, long, value_name = "NUM", default_value_t = Settings::default().connections_max)]
    #[arg(value_parser = values::number::<u32>("a number", 1..=10_000_000))]
    pub(super) conn_limit: u32,

    /// Keep all memory from being paged out
    #[arg(short = 'k', long)]
    pub(super) lock_memory: bool,

    /// Say more: what is accepted and means nothing here
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,

    /// Say under which licenses this is, and end
    #[arg(short = 'i', long)]
    pub(super) license: bool,

    /// Write the process id there, with -d
    #[arg(short = 'P', long, value_name = "FILE")]
    pub(super) pidfile: Option<PathBuf>,

    /// Growth of slab classes: told by `stats`, there are none
    #[arg(short = 'f', long, value_name = "FACTOR")]
    #[arg(default_value_t = Settings::default().growth_factor)]
    #[arg(value_parser = values::factor)]
    pub(super) slab_growth_factor: f64,

    /// Smallest slab: told by `stats`, there are none
    #[arg(short = 'n', long, value_name = "BYTES")]
    #[arg(default_value_t = Settings::default().chunk_size)]
    #[arg(value_parser = values::number::<u32>("bytes, as a number", 1..=MANY))]
    pub(super) slab_min_size: u32,

    /// Have all memory of -m resident before anything is served, in large pages where the system
    /// has them: no write waits for a page's first touch, but the start does
    #[arg(short = 'L', long)]
    pub(super) enable_largepages: bool,

    /// Count by the prefixes of keys, which end with this character
    #[arg(short = 'D', value_name = "CHAR", value_parser = values::delimiter)]
    pub(super) delimiter: Option<u8>,

    /// Threads
    #[arg(short, long, value_name = "NUM", default_value_t = Settings::default().threads as u16)]
    #[arg(value_parser = values::number::<u16>("a number", 1..=1024))]
    pub(super) threads: u16,

    /// Requests of one connection in one go: only told by `stats settings`
    /// [default: 20]
    #[arg(short = 'R', long, value_name = "NUM")]
    #[arg(value_parser = values::number::<u32>("a number", 1..=MANY))]
    pub(super) max_reqs_per_event: Option<u32>,

    /// Items without CAS ids
    #[arg(short = 'C', long)]
    pub(super) disable_cas: bool,

    /// Clients that may wait to be let in
    #[arg(short = 'b', long, value_name = "NUM", default_value_t = Settings::default().backlog)]
    #[arg(value_parser = values::number::<u32>("a number", 0..=MANY))]
    pub(super) listen_backlog: u32,

    /// Protocol: auto, ascii or binary
    #[arg(short = 'B', long, value_name = "NAME", value_parser = values::protocol)]
    pub(super) protocol: Option<rhythm_kv::wire::Protocol>,

    /// Largest item, in bytes or with k or m: from 1k to 1024m
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1m")]
    #[arg(value_parser = values::item_size)]
    pub(super) max_item_size: u64,

    /// SASL: there is none here
    #[arg(short = 'S', long)]
    pub(super) enable_sasl: bool,

    /// TLS: there is none here
    #[arg(short = 'Z', long)]
    pub(super) enable_ssl: bool,

    /// Refuse `flush_all`
    #[arg(short = 'F', long)]
    pub(super) disable_flush_all: bool,

    /// Refuse dumps: there are none here
    #[arg(short = 'X', long)]
    pub(super) disable_dumping: bool,

    /// Refuse `watch`: it is refused anyway
    #[arg(short = 'W', long)]
    pub(super) disable_watch: bool,

    /// Users that may come in, a line USER:PASSWORD each; over the ASCII protocol
    #[arg(short = 'Y', long, value_name = "FILE")]
    pub(super) auth_file: Option<PathBuf>,

    /// Keep items in this file, and find them again after a restart: it lies best on a tmpfs or a
    /// DAX mount, and takes all of -m at once. See docs/kv.md
    #[arg(short = 'e', long, value_name = "FILE")]
    pub(super) memory_file: Option<PathBuf>,

    /// NAPI ids: the system's own choice here
    #[arg(short = 'N', long, value_name = "NUM")]
    #[arg(value_parser = values::number::<u32>("a number", 0..=MANY))]
    pub(super) napi_ids: Option<u32>,

    /// Tell health and figures over HTTP at this address (a page for browsers; /healthz, /readyz,
    /// /metrics)
    /// [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::address)]
    pub(super) admin: Option<SocketAddr>,

    /// More names by which the admin listener may be asked, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "admin")]
    #[arg(value_parser = values::host_name)]
    pub(super) admin_hosts: Vec<String>,

    /// How log lines look: text, or a JSON object each (json); RHYTHM_LOG says which there are
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    #[arg(value_parser = values::log_format)]
    pub(super) log_format: LogFormat,

    /// The nodes of the ring that this server is one of: a file, or a prefix of keys in etcd
    /// (`etcd://HOST:PORT,.../PREFIX`); see docs/kv-ring.md
    #[arg(long, value_name = "FILE|etcd://...", requires = "node")]
    pub(super) ring: Option<String>,

    /// Which of the nodes this is: its name in the file, or the one to register with etcd
    #[arg(long, value_name = "NAME", requires = "ring")]
    pub(super) node: Option<String>,

    /// Where it listens for the other nodes, which is also where they look for it where etcd knows
    /// the nodes; or the interface on which Ethernet frames go to and from them, without TCP and IP
    /// (needs CAP_NET_RAW, and a file) [default: its address in the file]
    #[arg(long, value_name = "ADDR:PORT|ether:IFACE", requires = "ring")]
    #[arg(value_parser = values::backbone)]
    pub(super) backbone: Option<Transport>,

    /// The address that clients know it by, for etcd
    #[arg(long, value_name = "HOST:PORT", requires = "ring")]
    pub(super) client: Option<String>,

    /// Seconds that its lease in etcd lasts, 2 to 60: so long it is waited for when it dies
    /// [default: 3]
    #[arg(long, value_name = "SECONDS", requires = "ring")]
    #[arg(value_parser = values::number::<u8>("seconds, as a number", 2..=60))]
    pub(super) lease: Option<u8>,

    /// How copies are kept: each node serves keys of its own, with copies on the next nodes (ring);
    /// one node writes all keys, and those with copies of them answer `get`, too (primary); or as a
    /// ring, but writes go from one node to the next, and the last answers `get` (chain)
    #[arg(long, value_name = "SCHEME", default_value = "ring", requires = "ring")]
    #[arg(value_parser = values::scheme)]
    pub(super) scheme: Scheme,

    /// Nodes that have what this one serves, beside it: 1 to 8
    #[arg(long, value_name = "NUM", default_value_t = 1, requires = "ring")]
    #[arg(value_parser = values::number::<u8>("a number", 1..=8))]
    pub(super) replicas: u8,

    /// Answer writes at once (async), or when the copies exist (acked); and some commands in the
    /// other way, such as acked,touch=async,incr=async
    #[arg(
        long,
        value_name = "WHEN[,COMMAND=WHEN...]",
        default_value = "async",
        requires = "ring"
    )]
    pub(super) replicate: Replicate,

    /// What becomes of a `get` of a key that another node serves: it is passed on to that
    /// (forward), or answered from the copy, if there is one here (serve). All else is passed on
    /// [default: forward; with --scheme primary serve]
    #[arg(long, value_name = "WHAT", requires = "ring", value_parser = values::elsewhere)]
    pub(super) elsewhere: Option<Elsewhere>,

    /// Extended options, with commas between them: idle_timeout=SECONDS, maxconns_fast,
    /// no_maxconns_fast, read_buf_mem_limit=MEGABYTES, hashpower=NUM; and ours,
    /// busy_poll=MICROSECONDS: for how long each thread looks for more before it sleeps. Others of
    /// memcached's mean nothing here; see docs/kv.md
    #[arg(short = 'o', long, value_name = "OPTIONS")]
    pub(super) extended: Vec<String>,

    #[command(subcommand)]
    pub(super) tool: Option<Tool>,
}

/// The release, and what has to be the same for nodes of a ring to stand side by side.
fn long_version() -> String {
    let release = env!("CARGO_PKG_VERSION");
    format!("{release}\nprotocol between the nodes of a ring (--ring): version {PROTOCOL}")
}

/// What else can be done.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Tool {
    /// Ask how a ring is, or change its file
    #[command(subcommand)]
    Ring(RingTool),

    /// Serve a small keyspace that nodes agree on, and that none of them forgets, or ask how it is;
    /// see docs/kv-keyspace.md
    #[cfg(feature = "consensus")]
    Keyspace(super::keyspace::Args),
}

/// What can be asked of a ring.
#[derive(Debug, clap::Subcommand)]
pub(super) enum RingTool {
    /// Show what its nodes see: who is there, who serves what, and who has copies
    ///
    /// The status is 0 where all nodes answer and are alike, and every range is where it is to be,
    /// with as many copies as --replicas wants: then a node can be ended, and nothing is lost. Else
    /// it is 1, and the last line says what lacks and what to do. Each node's line says which
    /// version of the nodes' protocol it speaks: nodes of one version understand each other.
    Status {
        /// The file of the ring, its place in etcd, or the address of one node
        #[arg(value_name = "FILE|etcd://...|ADDR:PORT")]
        of: String,
    },
    /// Add a node to the file of a ring. With etcd nodes add themselves when they start
    Add {
        /// The file of the ring
        #[arg(value_name = "FILE")]
        of: String,
        /// What it is to be called
        name: String,
        /// Where clients reach it
        #[arg(value_name = "HOST:PORT")]
        client: String,
        /// Where other nodes reach it
        #[arg(value_name = "ADDR:PORT")]
        backbone: String,
    },
    /// Remove a node from the file of a ring; with etcd, have it hand over what it serves and end
    Remove {
        /// The file of the ring, or its place in etcd
        #[arg(value_name = "FILE|etcd://...")]
        of: String,
        /// What it is called
        name: String,
    },
}
