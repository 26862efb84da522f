//! What executes jobs: one accelerator of a kind.

use super::crypt;
use super::fft::Fft;
use super::request::{Failure, Kind, Operation, Request};
use rustfft::FftDirection;

/// One accelerator.
#[derive(Debug)]
pub(super) enum Engine {
    Fft(Box<Fft>),
    Aes,
}

impl Engine {
    /// One of a kind.
    pub(super) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Fft => Self::Fft(Box::default()),
            Kind::Aes => Self::Aes,
        }
    }

    /// Does what is asked for: how many bytes of `output` are the result.
    ///
    /// # Errors
    /// [`Failure`].
    pub(super) fn run(
        &mut self,
        request: &Request,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Failure> {
        match (self, request.operation) {
            (Self::Fft(fft), Operation::Forward) => fft.run(FftDirection::Forward, input, output),
            (Self::Fft(fft), Operation::Inverse) => fft.run(FftDirection::Inverse, input, output),
            (Self::Aes, Operation::Seal) => crypt::seal(request, input, output),
            (Self::Aes, Operation::Open) => crypt::open(request, input, output),
            _ => Err(Failure::Operation),
        }
    }
}
