//! Statements of SQL as databases are sent them.

/// Appends a statement: its pieces, and between them its arguments by number, `?1` or `$1`.
pub(super) fn numbered(pieces: &[Box<[u8]>], mark: u8, out: &mut Vec<u8>) {
    for (piece, number) in pieces.iter().zip(0..) {
        if number > 0 {
            out.push(mark);
            out.extend_from_slice(itoa::Buffer::new().format::<u32>(number).as_bytes());
        }
        out.extend_from_slice(piece);
    }
}
