//! No bytes make a borrower or a donor panic: they are read as messages or refused, none is longer
//! than what is there, and what is read is what it is written as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_venice::memory::wire::{parse_answer, parse_request};

/// Where a message's checksum is.
const SUM: std::ops::Range<usize> = 28..32;

/// The bytes with the checksum that they should have: it would keep the fuzzer out.
fn summed(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if let Some(head) = data.get(..SUM.end) {
        let length = u32::from_le_bytes([head[24], head[25], head[26], head[27]]) as usize;
        // A read has a length and no payload.
        let is_read = head[4] == 2;
        let payload = if is_read { 0 } else { length };
        if let Some(payload) = data.get(SUM.end..).and_then(|rest| rest.get(..payload)) {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&head[..SUM.start]);
            hasher.update(payload);
            bytes[SUM].copy_from_slice(&hasher.finalize().to_le_bytes());
        }
    }
    bytes
}

fuzz_target!(|data: &[u8]| {
    for bytes in [data.to_vec(), summed(data)] {
        if let Ok(Some((request, id, used))) = parse_request(&bytes) {
            let mut again = Vec::new();
            request.put(id, &mut again);
            assert_eq!(parse_request(&again), Ok(Some((request, id, again.len()))));
            assert!(used <= bytes.len() && again.len() == used);
        }
        if let Ok(Some((answer, id, used))) = parse_answer(&bytes) {
            let mut again = Vec::new();
            answer.put(id, &mut again);
            assert_eq!(
                parse_answer(&again).map(|it| it.map(|it| it.1)),
                Ok(Some(id))
            );
            assert!(used <= bytes.len());
        }
    }
});
