//! The borrower's end of CRMA and RDMA on one connection, without I/O.

use super::broken::Broken;
use super::crma::{Answer, Crma};
use super::frame::{self, Frame, Kind};
use super::rdma::{self, Chunk, Rdma};

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came<'a> {
    /// For an operation of CRMA, by its id.
    Operation(u64, Answer<'a>),
    /// For a transfer.
    Transfer(Chunk<'a>),
}

/// Both channels. Each keeps its order; between the two there is none.
#[derive(Debug, Default)]
pub(crate) struct Borrow {
    pub(crate) crma: Crma,
    pub(crate) rdma: Rdma,
}

impl Borrow {
    /// Something was asked that has not been answered.
    pub(crate) fn is_waiting(&self) -> bool {
        self.crma.under_way() + self.rdma.under_way() > 0
    }

    /// Takes a frame.
    ///
    /// # Errors
    /// [`Broken`]: the connection is over.
    pub(crate) fn came<'a>(&mut self, frame: &Frame<'a>) -> Result<Came<'a>, Broken> {
        match frame.kind {
            Kind::Refused => Err(Broken::Refused(frame::legible(frame.payload))),
            Kind::Done | Kind::Chunk if rdma::is_transfer(frame) => {
                Ok(Came::Transfer(self.rdma.answer(frame)?))
            }
            Kind::Data | Kind::Done | Kind::Swapped | Kind::Mapped => {
                let (id, answer) = self.crma.answer(frame)?;
                Ok(Came::Operation(id, answer))
            }
            kind => Err(Broken::NotDue(format!("{kind:?}"))),
        }
    }
}
