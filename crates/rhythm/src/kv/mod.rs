//! `rhythm kv`: the memcached server, with memcached's own flags.

mod args;
mod extended;
#[cfg(feature = "consensus")]
mod keyspace;
mod nodes;
mod relaunch;
mod ring;
mod settings;
mod values;
mod verdict;

use crate::output::print_line;
use crate::{allocator, logs};
use anyhow::{Context, Result, ensure};
pub(crate) use args::Args;
use rhythm_kv::registration::RegistrationError;
use rhythm_kv::server::{self, Address, BindError, Handle, Server, ServerError};
use rhythm_net::resource;
use rhythm_net::signal::{self, Signal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{env, fs, io, thread};

/// Where the ports go that the server listens on, as memcached's own tests ask for them.
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// How long clients have at SIGTERM to take their answers.
const DRAINED_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match &args.tool {
        Some(args::Tool::Ring(tool)) => return ring::tool::run(tool),
        #[cfg(feature = "consensus")]
        Some(args::Tool::Keyspace(args)) => return keyspace::run(args),
        None => {}
    }
    if args.license {
        print_line("rhythm is free under the Apache License 2.0 or the MIT license, as you like.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (settings, remarks) = settings::from_args(&args)?;
    // As memcached, as long as it is root: what it may not is said below.
    let _ = resource::allow_open_files(server::files_needed(&settings));
    if let Some(code) = relaunch::as_asked(&args)? {
        return Ok(code);
    }
    // Who ends it, and whether gracefully; the first word counts. It may come while it starts.
    let (ending, endings) = mpsc::channel();
    let by_client = ending.clone();
    let started = Arc::new(OnceLock::<Handle>::new());
    let users = settings.auth_file.clone();
    let users = users.map(|file| users_reader(file, Arc::clone(&started)));
    let users = users.transpose().context("cannot start a thread")?;
    let is_told = Arc::new(AtomicBool::new(false));
    // Whether it may be registered with etcd, or has ended without: who asks first decides.
    let registers = Arc::new(OnceLock::new());
    let end = {
        let is_told = Arc::clone(&is_told);
        move |graceful| {
            is_told.store(true, Ordering::Release);
            // None listens any more when it ends already.
            let _ = ending.send(graceful);
        }
    };
    let in_ring = args.ring.is_some();
    let has_nothing = {
        let (started, registers) = (Arc::clone(&started), Arc::clone(&registers));
        move || in_ring && started.get().is_none() && !*registers.get_or_init(|| false)
    };
    let on_signal = on_signal(end, users, has_nothing);
    let _watch = signal::watch(on_signal).context("cannot watch for signals")?;
    logs::start(args.log_format)?;
    if args.verbose > 0 {
        remarks.iter().for_each(|remark| tracing::info!("{remark}"));
    }
    relaunch::limits(&args)?;
    let open_files =
        resource::raise_open_files().context("cannot raise the limit of open files")?;
    let connections_max = u64::from(settings.connections_max);
    // As memcached. (Where nothing is left for what else is opened, fewer are let in.)
    ensure!(
        connections_max <= open_files,
        "-c {connections_max}: the system lets this process have {open_files} open files; raise \
         that limit (ulimit -n, LimitNOFILE= of systemd), or give -c {open_files} or less"
    );
    // Where there is no room now, it is looked for as clients come.
    let _ = resource::make_room_for_files(connections_max);
    allocator::give_back().context("cannot start a thread")?;
    let mut settings = settings;
    settings.open_files = open_files;
    let is_told = move || is_told.load(Ordering::Acquire);
    let may_register = || *registers.get_or_init(|| true) && !is_told();
    let server = Server::start_unless(settings, &is_told, may_register, move |graceful| {
        // As above.
        let _ = by_client.send(graceful);
    });
    if let Err(ServerError::Register(RegistrationError::Ended)) = server {
        return Ok(ExitCode::SUCCESS);
    }
    let server = server.map_err(|error| {
        let is_told = in_ring && args.listen.is_empty();
        // What the other nodes are told of it.
        let is_where = is_told
            && match &error {
                ServerError::Bind(BindError::Backbone(_)) => args.client.is_none(),
                ServerError::Bind(why) => {
                    matches!(why, BindError::Listen(_) | BindError::Host { .. })
                }
                _ => false,
            };
        let error = anyhow::Error::new(error);
        if is_where {
            // How it comes that a node listens where it was not told to.
            let (told, more) = match args.client {
                Some(_) => ("--client and --backbone say", "-l and -p"),
                None => ("--ring says", "-l and --backbone"),
            };
            error.context(format!(
                "a node listens where {told} that it is; {more} say where else"
            ))
        } else {
            error
        }
    })?;
    let handle = server.handle();
    let handle = started.get_or_init(|| handle).clone();
    if let Err(error) = tell(&args, &server).and_then(|()| obey(endings, handle.clone())) {
        // In order: it has the items of its memory file, if there is one.
        handle.stop();
        let _ = server.join();
        return Err(error);
    }
    let ended = server.join();
    if let (Some(file), true) = (&args.pidfile, args.daemon) {
        // It may be gone, or be another's by now.
        let _ = fs::remove_file(file);
    }
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Tells who may wait for it that it serves, and where.
fn tell(args: &Args, server: &Server) -> Result<()> {
    if let Some(file) = env::var_os(PORT_FILE) {
        tell_ports(Path::new(&file), server.addresses())
            .with_context(|| format!("cannot write {}", Path::new(&file).display()))?;
    }
    if let (Some(file), true) = (&args.pidfile, args.daemon) {
        fs::write(file, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    relaunch::serving(args)?;
    for address in server.addresses() {
        match address {
            Address::Tcp(at) => tracing::info!(address = %at, "kv is serving over TCP"),
            Address::Udp(at) => tracing::info!(address = %at, "kv is serving over UDP"),
            Address::Unix(at) => tracing::info!(path = %at.display(), "kv is serving"),
        }
    }
    if let Some(at) = server.admin_address() {
        tracing::info!(address = %at, "health and figures are told over HTTP");
    }
    Ok(())
}

/// Starts the thread that ends the server when it is told to.
fn obey(endings: Receiver<bool>, handle: Handle) -> Result<()> {
    thread::Builder::new()
        .name("ending".into())
        .spawn(move || {
            // Nobody is left who could say so: it never comes to that.
            let Ok(graceful) = endings.recv() else {
                return;
            };
            tracing::info!("shutting down: answers under way are finished");
            match graceful {
                true => handle.end(),
                // A node of a ring hands over what it serves, however long that takes.
                false => handle.end_within(DRAINED_WITHIN),
            }
            // Who cannot wait says so again.
            if endings.recv().is_ok() {
                tracing::info!("shutting down at once");
                handle.stop();
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// What signals do, before the server is started and from then on. Nothing that waits is done on
/// their thread: a stop works whatever else hangs. A node of a ring that is to end before
/// `has_nothing` to leave, and is not waited for, as it may wait for long, unless etcd may know of
/// it: others would wait for it as long as its lease lasts. Without a ring there may be items of a
/// memory file at hand, which are left in order.
fn on_signal(
    end: impl Fn(bool),
    users: Option<SyncSender<()>>,
    has_nothing: impl Fn() -> bool,
) -> impl FnMut(Signal) {
    move |signal| match signal {
        Signal::Terminate | Signal::Interrupt | Signal::User1 if has_nothing() => {
            logs::finish();
            std::process::exit(0);
        }
        Signal::Terminate | Signal::Interrupt => end(false),
        Signal::User1 => end(true),
        Signal::Reload => {
            if let Some(users) = &users {
                // Where it is full, the file will be read after this all the same.
                let _ = users.try_send(());
            }
        }
    }
}

/// A thread that reads the file of users whenever it is asked to, once the server has `started`.
fn users_reader(file: PathBuf, started: Arc<OnceLock<Handle>>) -> io::Result<SyncSender<()>> {
    let (ask, asked) = mpsc::sync_channel(1);
    let read = move || {
        for () in asked {
            // What it starts with was read just before.
            let Some(handle) = started.get() else {
                continue;
            };
            match settings::users(&file) {
                Ok(read) => {
                    handle.set_users(Arc::new(read));
                    tracing::info!(file = %file.display(), "the users were read again");
                }
                Err(error) => tracing::warn!("the users stay as they were: {error:#}"),
            }
        }
    };
    thread::Builder::new().name("users".into()).spawn(read)?;
    Ok(ask)
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
