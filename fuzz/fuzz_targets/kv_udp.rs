//! No datagram makes the parser of frames panic, and any answer comes whole out of its datagrams.
#![no_main]

use rhythm_kv::wire::udp::{DATAGRAM_MAX, FRAME, answer, request};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some((_, commands)) = request(data) {
        assert!(data.ends_with(commands));
    }
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    answer(7, data, &mut out, &mut ends);
    let mut joined = Vec::new();
    let mut start = 0;
    for end in ends {
        assert!(end - start <= DATAGRAM_MAX);
        joined.extend_from_slice(&out[start + FRAME..end]);
        start = end;
    }
    assert_eq!(joined, data);
});
