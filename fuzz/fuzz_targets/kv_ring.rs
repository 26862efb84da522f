//! No bytes make the parser of the ring's frames panic; what it reads is written the same; and
//! messages under a sound head end where they are none.
#![no_main]

use rhythm_kv::ring::wire::{Claim, Head, Messages, Stay, length, read, write};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(Some(length)) = length(data, 1 << 20)
        && let Some(frame) = data.get(..length)
        && let Ok((head, messages)) = read(frame)
    {
        // Bytes between the fields, which nobody reads, may differ.
        let mut again = Vec::new();
        write(&head, messages, &mut again);
        assert_eq!(read(&again), Ok((head, messages)));
    }
    // The checksum keeps the fuzzer out: what is in a frame comes without it, too.
    let mut messages = Messages::new(data);
    let mut body = Vec::new();
    for message in messages.by_ref() {
        message.write(&mut body);
    }
    assert!(data.starts_with(&body));
    assert_eq!(messages.is_at_end(), body.len() == data.len());
    let head = Head {
        heard: 0,
        from: 1,
        ring: 2,
        session: 3,
        peer: 4,
        count: 5,
        seq: 6,
        ack: 7,
        credit: 8,
        gap: false,
        parts: 0,
        stay: Stay::Leaves,
        complete: 9,
        claims: vec![Claim { epoch: 1, node: 1 }; 3],
        counts: vec![1, 0, 0],
        awaited: 6,
    };
    let mut frame = Vec::new();
    write(&head, data, &mut frame);
    assert_eq!(read(&frame), Ok((head, data)));
});
