//! The switcher (the paper's *SMT Switcher*): gives a server's tasks a set of CPUs.
//!
//! Each way is a [`Switcher`]. It touches what it was opened for and nothing else, says what the
//! kernel has in effect, and how what it found is put back by a process that knows nothing but that
//! ([`Restore`]), after this one was killed.
//!
//! | way | what it is opened for | file |
//! |---|---|---|
//! | cgroup v2, v1 | a group, or a systemd unit's | `cgroup.rs`, `unit.rs` |
//! | affinity | a process and its descendants, with all threads | `affinity.rs`, `pidfile.rs` |
//! | smt/control | the whole machine, only when asked for | `smt.rs` |
//! | dry run | nothing | `dry.rs` |

mod affinity;
mod cgroup;
mod dry;
mod error;
pub mod measure;
pub mod mounts;
mod pidfile;
mod pinned;
mod process;
mod put_back;
mod restore;
mod smt;
mod unit;
mod way;

pub use affinity::Affinity;
pub use cgroup::{Cgroup, Version};
pub use dry::Dry;
pub use error::SwitchError;
pub use pidfile::Pidfile;
pub use process::Process;
pub use put_back::put_back;
pub use restore::Restore;
pub use smt::SmtControl;
pub use unit::{Unit, folder as unit_folder};
pub use way::{Followed, Switcher};
