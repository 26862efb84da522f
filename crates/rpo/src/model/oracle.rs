//! Who sees into the simulated server: how fast every request would be in either setting.
//!
//! It sums up what the setting in force loses against the other one, never below nothing, and
//! switches once that is worth `patience` switches: the work function's rule for two states, which
//! is never far from what one could have done knowing the future. What knows the best is the best
//! of several patiences and of both settings alone ([`Oracle::all`]).

use super::server::Server;
use crate::Setting;

/// Who sees into the server.
#[derive(Clone, Debug)]
pub struct Oracle {
    patience: f64,
    lost: f64,
}

impl Oracle {
    /// One that waits until so many switches' cost is lost.
    #[must_use]
    pub fn new(patience: f64) -> Oracle {
        Oracle {
            patience,
            lost: 0.0,
        }
    }

    /// Those of which the best counts.
    #[must_use]
    pub fn all() -> Vec<Oracle> {
        [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0]
            .map(Oracle::new)
            .into()
    }

    pub(super) fn pass(&mut self, seconds: f64, server: &Server) {
        let setting = server.setting();
        let (ours, other) = (server.progress(setting), server.progress(setting.other()));
        self.lost = (self.lost + seconds * (other - ours)).max(0.0);
    }

    /// The setting that it wants instead, at `switch` seconds of standstill.
    pub(super) fn choose(&mut self, server: &Server, switch: f64) -> Option<Setting> {
        let setting = server.setting();
        let cost = switch * server.progress(setting);
        (self.lost > 0.0 && self.lost >= self.patience * cost).then(|| {
            self.lost = 0.0;
            setting.other()
        })
    }
}
