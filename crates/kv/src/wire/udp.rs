//! The frame of a datagram, before the commands in it and before the answers to them.
//!
//! ```text
//!   0           2              4               6
//!   request id  which of them  how many there  0        8 bytes, big-endian
//! ```
//!
//! A request is one datagram: memcached takes no others. An answer is as many as it needs, of at
//! most [`DATAGRAM_MAX`] bytes. As in memcached each answer is counted for itself, and each key of
//! a `get` is one; a key that is not there may be answered by a frame alone, that says "0 of 0".
//! Where an answer needs more datagrams than there are numbers, memcached's have the same ones
//! again: here it is not sent.

/// The longest datagram that is sent, in bytes: with the headers of IP and UDP it fits an Ethernet
/// frame.
pub const DATAGRAM_MAX: usize = 1400;
/// The length of a frame, in bytes.
pub const FRAME: usize = 8;
/// What one datagram has of an answer at most.
const PART_MAX: usize = DATAGRAM_MAX - FRAME;
/// The longest answer whose datagrams can be counted.
pub const ANSWER_MAX: usize = u16::MAX as usize * PART_MAX;

/// The request id of a datagram and the commands in it; `None` if it is to be dropped.
pub fn request(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (frame, commands) = datagram.split_first_chunk::<FRAME>()?;
    let is_whole = frame[4..6] == [0, 1];
    let id = u16::from_be_bytes([frame[0], frame[1]]);
    (is_whole && !commands.is_empty()).then_some((id, commands))
}

/// Appends the datagrams of an answer, of at most [`ANSWER_MAX`] bytes, to `out`, and the end of
/// each to `ends`.
pub fn answer(id: u16, answer: &[u8], out: &mut Vec<u8>, ends: &mut Vec<usize>) {
    debug_assert!(answer.len() <= ANSWER_MAX);
    let total = answer.len().div_ceil(PART_MAX) as u16;
    let mut datagram = |sequence: u16, part: &[u8]| {
        for field in [id, sequence, total, 0] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.extend_from_slice(part);
        ends.push(out.len());
    };
    if answer.is_empty() {
        datagram(0, &[]);
    }
    for (sequence, part) in answer.chunks(PART_MAX).enumerate() {
        datagram(sequence as u16, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_datagram_are_taken() {
        assert_eq!(
            request(b"\x12\x34\0\0\0\x01\0\0get a\r\n"),
            Some((0x1234, &b"get a\r\n"[..]))
        );
        assert_eq!(request(b"\x12\x34\0\0\0\x02\0\0get a\r\n"), None);
        assert_eq!(request(b"\x12\x34\0\0\0\x01\0\0"), None);
        assert_eq!(request(b"\x12"), None);
    }

    #[test]
    fn answers_are_cut_into_datagrams() {
        for (length, parts) in [(0, 1), (1, 1), (1392, 1), (1393, 2), (10_000, 8)] {
            let whole: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (mut out, mut ends) = (Vec::new(), Vec::new());
            answer(7, &whole, &mut out, &mut ends);
            assert_eq!(ends.len(), parts);
            let mut joined = Vec::new();
            let mut start = 0;
            for (sequence, end) in ends.into_iter().enumerate() {
                let datagram = &out[start..end];
                assert!(datagram.len() <= DATAGRAM_MAX);
                let total = if length == 0 { 0 } else { parts as u8 };
                assert_eq!(datagram[..FRAME], [0, 7, 0, sequence as u8, 0, total, 0, 0]);
                joined.extend_from_slice(&datagram[FRAME..]);
                start = end;
            }
            assert_eq!(joined, whole);
        }
    }
}
