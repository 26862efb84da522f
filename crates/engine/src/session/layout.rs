//! Where a session's fields lie in its record, and how: an integer or truth value in a word, a text
//! in one for its length and those of its bytes.

use super::fields::FieldStore;
use super::id::SessionId;
use crate::settings::{StoredField, StoredKind};
use rhythm_protocol::http::uri;

/// The fields of all sessions.
pub struct StoredFields {
    fields: Vec<StoredField>,
    /// Where the words of each begin.
    starts: Vec<usize>,
    words: usize,
    store: FieldStore,
    sessions_max: usize,
}

/// What a field is set to, as programs give it: a text, or a number as a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text is longer than its field")]
pub struct TooLong;

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// A number, or 1 for true.
    Int(i64),
    /// A text: where the word of its length is.
    Text(usize),
}

impl StoredFields {
    /// Those that are declared so, empty, for this many sessions.
    pub fn new(fields: Vec<StoredField>, sessions_max: usize) -> StoredFields {
        let (starts, words) = layout(&fields);
        StoredFields {
            store: FieldStore::new(sessions_max, words),
            sessions_max,
            fields,
            starts,
            words,
        }
    }

    /// The bytes that such fields take.
    pub fn bytes(fields: &[StoredField], sessions_max: usize) -> usize {
        FieldStore::bytes(sessions_max, layout(fields).1)
    }

    /// What is declared.
    pub fn fields(&self) -> &[StoredField] {
        &self.fields
    }

    /// For how many sessions they are.
    pub fn sessions_max(&self) -> usize {
        self.sessions_max
    }

    /// Reads all of a session that was looked up into words, for [`StoredFields::value`].
    pub fn read(&self, id: &SessionId, words: &mut Vec<u64>) {
        words.resize(self.words, 0);
        self.store.read(id, words);
    }

    /// A field's value among the words that were read.
    pub fn value(&self, field: usize, words: &[u64]) -> StoredValue {
        let start = self.starts[field];
        match self.fields[field].kind {
            StoredKind::Int | StoredKind::Bool => StoredValue::Int(words[start] as i64),
            StoredKind::Text(_) => StoredValue::Text(start),
        }
    }

    /// Appends the text whose word of its length is there.
    pub fn text(words: &[u64], start: usize, to: &mut Vec<u8>) {
        let (length, bytes) = (words[start] as usize, &words[start + 1..]);
        let end = to.len() + length;
        for word in &bytes[..length.div_ceil(size_of::<u64>())] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        to.truncate(end);
    }

    /// Appends what a field's words are to be set to.
    ///
    /// # Errors
    /// It has no room for so long a text.
    pub fn change(
        &self,
        field: usize,
        text: &[u8],
        changes: &mut Vec<(usize, u64)>,
    ) -> Result<(), TooLong> {
        let start = self.starts[field];
        match self.fields[field].kind {
            StoredKind::Int | StoredKind::Bool => {
                // Whoever compiled the page has made a number of it.
                let number: Option<i64> =
                    std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
                changes.push((start, number.unwrap_or_default() as u64));
            }
            StoredKind::Text(most) => {
                if text.len() > usize::from(most) {
                    return Err(TooLong);
                }
                changes.push((start, text.len() as u64));
                for (index, bytes) in text.chunks(size_of::<u64>()).enumerate() {
                    let mut word = [0; size_of::<u64>()];
                    word[..bytes.len()].copy_from_slice(bytes);
                    changes.push((start + 1 + index, u64::from_le_bytes(word)));
                }
            }
        }
        Ok(())
    }

    /// Changes words that were read.
    pub fn apply(changes: &[(usize, u64)], words: &mut [u64]) {
        for (index, word) in changes {
            words[*index] = *word;
        }
    }

    /// Words of a session in which nothing is set.
    pub fn clear(&self, words: &mut Vec<u64>) {
        words.clear();
        words.resize(self.words, 0);
    }

    /// Appends what words hold, as a form has it: `&name=Ann&level=3`, without what is not set.
    pub fn write_form(&self, words: &[u64], out: &mut Vec<u8>) {
        let mut text = Vec::new();
        for (number, field) in self.fields.iter().enumerate() {
            text.clear();
            match self.value(number, words) {
                StoredValue::Int(0) => {}
                StoredValue::Int(value) => text.extend_from_slice(value.to_string().as_bytes()),
                StoredValue::Text(start) => StoredFields::text(words, start, &mut text),
            }
            if !text.is_empty() {
                out.push(b'&');
                out.extend_from_slice(field.name.as_bytes());
                out.push(b'=');
                uri::encode(&text, out);
            }
        }
    }

    /// Reads that into words. What is not declared, or no value of the field's type, is left out:
    /// others may have other fields.
    pub fn read_form(&self, form: &[u8], words: &mut Vec<u64>) {
        self.clear(words);
        let (mut text, mut changes) = (Vec::new(), Vec::new());
        for (name, value) in uri::pairs(form) {
            let is_it = |field: &StoredField| field.name.as_bytes() == name;
            let Some(number) = self.fields.iter().position(is_it) else {
                continue;
            };
            text.clear();
            let is_text = uri::decode_bytes(value, &mut text).is_ok();
            if is_text && std::str::from_utf8(&text).is_ok() {
                changes.clear();
                if self.change(number, &text, &mut changes).is_ok() {
                    StoredFields::apply(&changes, words);
                }
            }
        }
    }

    /// Makes all words those of a session, if it `is_there`.
    pub fn write_all(&self, id: &SessionId, words: &[u64], is_there: impl FnOnce() -> bool) {
        let changes: Vec<(usize, u64)> = words.iter().copied().enumerate().collect();
        self.store.write(id, &changes, is_there);
    }

    /// Makes changes in a session, if it `is_there`.
    pub fn write(&self, id: &SessionId, changes: &[(usize, u64)], is_there: impl FnOnce() -> bool) {
        self.store.write(id, changes, is_there);
    }
}

impl core::fmt::Debug for StoredFields {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "StoredFields({:?}, values hidden)", self.fields)
    }
}

/// Where the words of each field begin, and how many there are.
fn layout(fields: &[StoredField]) -> (Vec<usize>, usize) {
    let mut words = 0;
    let start = |field: &StoredField| {
        let start = words;
        words += match field.kind {
            StoredKind::Int | StoredKind::Bool => 1,
            StoredKind::Text(most) => 1 + usize::from(most).div_ceil(size_of::<u64>()),
        };
        start
    };
    (fields.iter().map(start).collect(), words)
}
