//! The head of what the binary protocol answers.

use crate::wire::MAGIC_RESPONSE;

/// The head of a response.
#[derive(Clone, Copy, Default)]
pub(super) struct Head {
    pub(super) opcode: u8,
    pub(super) status: u16,
    pub(super) opaque: u32,
    pub(super) cas: u64,
    pub(super) extras: usize,
    pub(super) key: usize,
    pub(super) value: usize,
}

impl Head {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let body = self.extras + self.key + self.value;
        out.extend_from_slice(&[MAGIC_RESPONSE, self.opcode]);
        out.extend_from_slice(&(self.key as u16).to_be_bytes());
        out.extend_from_slice(&[self.extras as u8, 0]);
        out.extend_from_slice(&self.status.to_be_bytes());
        out.extend_from_slice(&(body as u32).to_be_bytes());
        // The client's own bytes, whatever their order.
        out.extend_from_slice(&self.opaque.to_be_bytes());
        out.extend_from_slice(&self.cas.to_be_bytes());
    }
}
