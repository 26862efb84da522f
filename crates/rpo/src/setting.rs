//! What a controller chooses between.

use std::fmt;

/// Which of its CPUs a server may run on (the paper's SMT policies, section II-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Setting {
    /// All hardware threads of its cores: the paper's HT.
    AllThreads,
    /// One hardware thread of each core: the paper's NOHT.
    OnePerCore,
}

impl Setting {
    /// Both, in the order of [`Setting::index`].
    pub const ALL: [Setting; 2] = [Setting::AllThreads, Setting::OnePerCore];

    /// Its place in tables of both.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Setting {
        match self {
            Setting::AllThreads => Setting::OnePerCore,
            Setting::OnePerCore => Setting::AllThreads,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Setting::AllThreads => "all threads",
            Setting::OnePerCore => "one a core",
        })
    }
}
