//! What the batches of the paper's rule were like.

use crate::Setting;

/// What the batches were like: Tables VII, VIII, XI and XV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Batches by the setting that they asked for ([`Setting::index`]).
    pub batches: [u64; 2],
    /// Requests in them: by the batch's setting, then by the request's own.
    pub requests: [[u64; 2]; 2],
}

impl Batches {
    /// Share of the batches that asked for this setting.
    #[must_use]
    pub fn share(&self, setting: Setting) -> f64 {
        ratio(
            self.batches[setting.index()],
            self.batches[0] + self.batches[1],
        )
    }

    /// Share of the requests in batches of `setting` that would have asked for the other one.
    #[must_use]
    pub fn minority(&self, setting: Setting) -> f64 {
        let requests = self.requests[setting.index()];
        ratio(requests[setting.other().index()], requests[0] + requests[1])
    }
}

fn ratio(part: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        part as f64 / of as f64
    }
}
