//! What an attack is made with, and why it cannot be.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Whom to attack, and how.
#[derive(Clone, Debug)]
pub struct AttackOptions {
    /// The server: one of this machine.
    pub server: SocketAddr,
    /// Its process, whose memory is looked at.
    pub pid: Option<u32>,
    /// For how long it is quiet before each attack, and for how long each is made.
    pub duration: Duration,
    /// Connections of each attack, in the place of its own number.
    pub connections: Option<usize>,
    /// Whether victims go before all others wherever the system may choose, by a real-time
    /// priority; else they wait for the attack's thread as well.
    pub victims_first: bool,
    /// What is asked for.
    pub aims: Aims,
}

/// What victims and attacks ask for: targets of requests.
#[derive(Clone, Debug)]
pub struct Aims {
    /// A page.
    pub page: String,
    /// A file.
    pub file: String,
    /// A page that takes a form with `userid` and `password`.
    pub sign_in: String,
    /// A page of megabytes, if there is one.
    pub big_page: Option<String>,
}

impl Default for Aims {
    /// Those of services/banking.
    fn default() -> Aims {
        Aims {
            page: "/bank/login.php".to_owned(),
            file: "/bank/static/logo.svg".to_owned(),
            sign_in: "/bank/login.php".to_owned(),
            big_page: None,
        }
    }
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// Others' servers are not attacked.
    #[error("{0} may be another machine: servers on loopback addresses alone are attacked")]
    NotLocal(SocketAddr),
    /// The attack needs a page that was not named.
    #[error("{0} asks for a page of megabytes: name one with --big-page")]
    NoBigPage(&'static str),
    /// The server is not there.
    #[error("cannot connect to {0}")]
    Connect(SocketAddr, #[source] io::Error),
    /// It is not answered even while nothing else happens.
    #[error("{0} is not answered with status 200")]
    Unanswered(String, #[source] io::Error),
    /// What is said of a process cannot be read.
    #[error("cannot read the memory of process {0}")]
    Memory(u32, #[source] io::Error),
    /// Priorities cannot be had.
    #[error("no real-time priority: chrt (of util-linux) and the right to it are needed: {0}")]
    Priority(String),
    /// Threads cannot be had.
    #[error("cannot begin")]
    Begin(#[from] io::Error),
}
