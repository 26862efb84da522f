//! What the service manager that started this process is told, by the protocol of sd_notify(3):
//! that the server serves, that it reads its service again, that it leaves, and, where the unit has
//! `WatchdogSec=`, that its workers still turn.
//!
//! The manager names a Unix socket in NOTIFY_SOCKET; each message is a datagram of lines. Only what
//! has a thread of its own waits for a manager that does not read: a stop never does.

use rhythm_net::clock;
use rhythm_net::workers::Watch;
use rhythm_server::Control;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// The longest that is waited for a manager that does not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// The shortest time between two words that all is well.
const WATCH_MIN: Duration = Duration::from_millis(1);

/// The manager, and what it wants to hear.
#[derive(Clone, Debug)]
pub(crate) struct Manager {
    address: SocketAddr,
    /// It takes the server for hung when it has heard nothing for so long.
    watchdog: Option<Duration>,
}

impl Manager {
    /// The manager that the environment names, if it names one.
    ///
    /// # Errors
    /// What it says makes no sense, in words: whoever started this process waits in vain.
    pub(crate) fn from_env() -> Result<Option<Manager>, String> {
        let Some(place) = env::var_os("NOTIFY_SOCKET") else {
            return Ok(None);
        };
        let address = address(&place)?;
        let text = |name: &str| env::var(name).ok();
        let watchdog = watchdog(text("WATCHDOG_USEC"), text("WATCHDOG_PID"), process::id())?;
        Ok(Some(Manager { address, watchdog }))
    }

    /// Begins to tell it of this server.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn tell_of(self, control: &Control) -> io::Result<Told> {
        // One reload is under way, and one follows it, as in the server.
        let (orders, wanted) = sync_channel::<()>(1);
        let (manager, its) = (self.clone(), control.clone());
        let reload = move || {
            for () in wanted {
                manager.say(&reloading());
                let status = match its.reload() {
                    Ok(()) => "serving, reloaded".to_owned(),
                    Err(why) => format!("serving the old service: {}", first_line(&why)),
                };
                if !its.is_draining() {
                    manager.say(&ready(&status));
                }
            }
        };
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        thread("reloads").spawn(reload)?;
        if let Some(limit) = self.watchdog {
            let (manager, control) = (self.clone(), control.clone());
            thread("watchdog").spawn(move || manager.watch(&control, limit))?;
        }
        Ok(Told {
            manager: self,
            orders,
        })
    }

    /// Says again and again that all is well, for as long as it is: until the process ends.
    fn watch(&self, control: &Control, limit: Duration) {
        // What is shorter than anybody can be heard within is not tried without a pause.
        let quarter = (limit / 4).max(WATCH_MIN);
        let mut watch = Watch::default();
        loop {
            match control.ailment(&mut watch) {
                None => self.say("WATCHDOG=1"),
                Some(why) => tracing::error!(
                    "{why}: where that goes on, the service manager ends this process (WatchdogSec)"
                ),
            }
            thread::sleep(quarter);
        }
    }

    /// Says it, and waits for a while where nobody reads. What cannot be said is in the log.
    fn say(&self, message: &str) {
        let said = UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.send_to_addr(message.as_bytes(), &self.address)
        });
        Manager::warn(said);
    }

    /// Says it now or never.
    fn say_at_once(&self, message: &str) {
        let said = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to_addr(message.as_bytes(), &self.address)
        });
        Manager::warn(said);
    }

    fn warn(said: io::Result<usize>) {
        if let Err(error) = said {
            tracing::warn!(
                %error,
                "the service manager cannot be told how the server is (NOTIFY_SOCKET)"
            );
        }
    }
}

/// A manager that is told of a server.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    manager: Manager,
    orders: SyncSender<()>,
}

impl Told {
    /// It serves: who waits for it may go on.
    pub(crate) fn ready(&self, status: &str) {
        self.manager.say(&ready(status));
    }

    /// Reads the service again, and says when that begins and ends. Waits for nothing.
    pub(crate) fn reload(&self) {
        match self.orders.try_send(()) {
            Ok(()) => {}
            Err(TrySendError::Full(())) => tracing::warn!(
                "a reload is under way that has not read the service yet; another follows it"
            ),
            Err(TrySendError::Disconnected(())) => {
                tracing::error!("the thread of reloads has panicked: restart the server");
            }
        }
    }

    /// It leaves. Waits for nothing.
    pub(crate) fn stopping(&self) {
        let message = "STOPPING=1\nSTATUS=finishing what is under way";
        self.manager.say_at_once(message);
    }
}

/// The message that it serves.
fn ready(status: &str) -> String {
    format!("READY=1\nSTATUS={}", first_line(status))
}

/// The message that its configuration is read again, with the time that goes with it.
fn reloading() -> String {
    let now = clock::awake().as_nanos() / 1000;
    format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reading the service again")
}

/// What a status may have: one line.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The address of a socket: a path, or a name that begins with @ in the kernel's own space.
fn address(place: &OsStr) -> Result<SocketAddr, String> {
    let made = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(place),
        _ => Err(io::Error::other("neither a path nor a name behind @")),
    };
    let place = place.display();
    made.map_err(|why| format!("NOTIFY_SOCKET={place} cannot be told anything: {why}"))
}

/// The time within which the process `id` is to be heard of.
fn watchdog(
    usec: Option<String>,
    pid: Option<String>,
    id: u32,
) -> Result<Option<Duration>, String> {
    let (Some(usec), true) = (usec, pid.is_none_or(|pid| pid == id.to_string())) else {
        return Ok(None);
    };
    match usec.parse() {
        Ok(usec @ 1..) => Ok(Some(Duration::from_micros(usec))),
        _ => Err(format!("WATCHDOG_USEC={usec} is no time in microseconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_this_process_s_own() {
        let of = |usec: &str, pid: Option<&str>| {
            watchdog(Some(usec.to_owned()), pid.map(str::to_owned), 42)
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(of("1000000", None), Ok(second));
        assert_eq!(of("1000000", Some("42")), Ok(second));
        assert_eq!(of("1000000", Some("43")), Ok(None));
        assert_eq!(watchdog(None, None, 42), Ok(None));
        for wrong in ["0", "", "-1", "1s"] {
            assert!(of(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn places_are_paths_or_names() {
        for good in ["/run/systemd/notify", "@notify"] {
            assert!(address(OsStr::new(good)).is_ok(), "{good}");
        }
        for wrong in ["", "notify", "vsock:2:1234"] {
            assert!(address(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_said_has_one_status() {
        assert_eq!(ready("a\nREADY=0"), "READY=1\nSTATUS=a");
    }
}
