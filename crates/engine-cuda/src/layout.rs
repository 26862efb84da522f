//! The layouts that answers are made in on the device.

use crate::program::Form;
use rhythm_engine::device::FOLD_BYTES_MAX;
use std::fmt;
use std::str::FromStr;

/// How a cohort's answers lie in the device's memory, and what of them comes to the host.
///
/// The first three are the paper's systems (section 5.3.2), named as there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layout {
    /// Column-major: neighboring lanes write neighboring words, with white space where a lane's
    /// text is shorter than its neighbors' (section 4.3.2); then transposed, so that each answer is
    /// in one piece. The backend is on the host.
    A,
    /// As A, with the backend on the device.
    B,
    /// As B, but the answers stay column-major: a network card that gathers them is left to
    /// transpose.
    C,
    /// Row-major: a warp writes one request's answer, 16 bytes a thread.
    Row,
    /// Only the dynamic bytes leave the device; the host stitches them and the page's fragments
    /// together as it sends.
    #[default]
    Runs,
}

impl Layout {
    /// All of them.
    pub const ALL: &[Layout] = &[Layout::A, Layout::B, Layout::C, Layout::Row, Layout::Runs];

    /// Its name in flags and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Layout::A => "a",
            Layout::B => "b",
            Layout::C => "c",
            Layout::Row => "row",
            Layout::Runs => "runs",
        }
    }

    /// What it is, in a sentence for people.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Layout::A => {
                "backend on the host across PCIe; column-major rendering, padded with white space, \
                 and the transpose back"
            }
            Layout::B => "as a, with the backend on the device",
            Layout::C => "as b, without the transpose back",
            Layout::Row => "row-major rendering, a warp for each request",
            Layout::Runs => "only the dynamic bytes leave the device",
        }
    }

    /// Whether bodies are made column-major.
    pub(crate) const fn is_column(self) -> bool {
        matches!(self, Layout::A | Layout::B | Layout::C)
    }

    /// How stages say what bodies are, where a host sends them or not.
    ///
    /// Before a segment the lanes of a column are brought level, which pads; and to a host that
    /// sends, a short piece costs more than a copy costs the device: there short fragments are
    /// folded into a lane's run. Elsewhere what is said instead of copied costs little: the n-th
    /// stretches of neighbors lie side by side, while each word of a run is a store of its own.
    pub(crate) const fn form(self, host_sends: bool) -> Form {
        match self {
            Layout::Row => Form::Stretches,
            Layout::Runs if !host_sends => Form::Stretches,
            _ => Form::Segments {
                folded_max: FOLD_BYTES_MAX,
            },
        }
    }

    /// Whether the backend runs on the device, too.
    #[must_use]
    pub const fn has_device_backend(self) -> bool {
        matches!(self, Layout::B | Layout::C)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no layout of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no layout {0:?}: it is a, b, c, row or runs")]
pub struct UnknownLayout(pub String);

impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(text: &str) -> Result<Layout, UnknownLayout> {
        let named = Layout::ALL.iter().find(|layout| layout.name() == text);
        named.copied().ok_or_else(|| UnknownLayout(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for layout in Layout::ALL {
            assert_eq!(layout.to_string().parse(), Ok(*layout));
        }
        let error = "d".parse::<Layout>().expect_err("there is no such layout");
        for layout in Layout::ALL {
            assert!(error.to_string().contains(layout.name()), "{error}");
        }
    }
}
