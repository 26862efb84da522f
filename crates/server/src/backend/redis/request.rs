//! Commands as they are sent: lists of words, each behind its length, so that nothing in one is
//! anything but a part of it.

/// Appends a command of so many words, with each of which `words` calls what it is given.
pub(super) fn write_words(
    count: usize,
    out: &mut Vec<u8>,
    words: impl FnOnce(&mut dyn FnMut(&[u8])),
) {
    let length = |kind: u8, length: usize, out: &mut Vec<u8>| {
        out.push(kind);
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    length(b'*', count, out);
    words(&mut |word| {
        length(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    });
}
