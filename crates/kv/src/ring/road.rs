//! Which way a command goes that is executed on another node.

/// The commands of one road are executed in the order in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Road {
    /// The range of its key.
    pub range: usize,
    /// It only reads, and nothing that was written before it on the same connection is under way:
    /// who reads the copies may answer it.
    pub reads: bool,
}

impl Road {
    /// To none: what is about all ranges is executed by the thread of the ring of this node, which
    /// says it to the others at once.
    pub const HERE: Road = Road {
        range: usize::MAX,
        reads: false,
    };

    /// To who serves a range.
    pub fn to_server(range: usize) -> Road {
        Road {
            range,
            reads: false,
        }
    }
}
