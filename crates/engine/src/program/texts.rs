//! The text constants of a page.

use super::value::Constant;
use std::collections::BTreeMap;

/// Text constants of a page under construction: equal texts are stored once.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextPool {
    bytes: Vec<u8>,
    known: BTreeMap<String, u32>,
}

impl TextPool {
    /// Stores a text, or finds it stored.
    pub(crate) fn intern(&mut self, text: &str) -> Constant {
        let offset = *self.known.entry(text.to_owned()).or_insert_with(|| {
            let offset = self.bytes.len() as u32;
            self.bytes.extend_from_slice(text.as_bytes());
            offset
        });
        Constant::Text {
            offset,
            length: text.len() as u32,
        }
    }

    /// Bytes of all.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes for [`PageProgram::texts`](super::PageProgram::texts).
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
