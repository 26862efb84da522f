use super::*;

fn head() -> Head {
    Head {
        from: 2,
        ring: 0x1122_3344_5566_7788,
        session: 1 << 63,
        peer: 7,
        count: 8,
        seq: 9,
        ack: 10,
        heard: 12,
        credit: 11,
        gap: true,
        parts: 0x1234,
        stay: Stay::Leaves,
        complete: 0b101,
        counts: vec![0, 7, 1 << 40],
        awaited: 0b10,
        claims: [(1, 0), (2, 2), (3, 1)]
            .map(|(epoch, node)| Claim { epoch, node })
            .to_vec(),
    }
}

fn messages() -> Vec<Message<'static>> {
    let of = Of { range: 1, epoch: 5 };
    let copy = Copy {
        key: b"key",
        flags: 4,
        left: 100,
        marks: STALE | ENCODED,
        value: b"value",
    };
    vec![
        Message::Put(of, copy),
        Message::Drop(of, b"other"),
        Message::Flush(Flush {
            by: 2,
            life: 1 << 40,
            number: 3,
        }),
        Message::Begin(of, 1 << 20),
        Message::Ready(of, 1 << 20),
        Message::End(of),
        Message::Complete(of),
        Message::Leave(of),
        Message::Serve(of, 6),
        Message::Forward(of, 1 << 40, b"get key\r\n"),
        Message::Answer(1 << 40, b"END\r\n"),
        Message::Refused(3),
        Message::Reads(of),
        Message::Unknown(4),
        Message::Pass(Pass {
            of,
            head: 2,
            view: 3,
            place: 5,
            batch: 1 << 50,
            done: 7,
            is_last: true,
            rest: &[4, 1],
            write: b"writes",
        }),
        Message::Passed(of, 1 << 50),
        Message::Tail(of, 3, Some(1)),
        Message::Tail(of, 4, None),
        Message::Read(of, 1 << 40, b"get key\r\n"),
        Message::Counts(of),
        Message::Looks(of, 1 << 50),
        Message::Heard(Flush {
            by: 3,
            life: 1 << 40,
            number: 4,
        }),
    ]
}

fn written(messages: &[Message<'_>]) -> Vec<u8> {
    let (mut body, mut frame) = (Vec::new(), Vec::new());
    messages.iter().for_each(|message| message.write(&mut body));
    write(&head(), &body, &mut frame);
    frame
}

#[test]
fn what_is_written_is_read() {
    let frame = written(&messages());
    assert_eq!(sender(&frame[..16], head().ring), Some(2));
    assert_eq!(sender(&frame[..15], head().ring), None);
    assert_eq!(sender(&frame, !head().ring), None);
    let (read_head, body) = read(&frame).unwrap();
    assert_eq!(read_head, head());
    let mut read = Messages::new(body);
    assert_eq!(read.by_ref().collect::<Vec<_>>(), messages());
    assert!(read.is_at_end());
}

#[test]
fn every_change_of_a_frame_is_seen() {
    let mut frame = written(&messages());
    for at in 0..frame.len() {
        for bit in 0..8 {
            frame[at] ^= 1 << bit;
            // Who sends is in no checksum of the rest but in that of the frame.
            assert!(read(&frame).is_err(), "byte {at}, bit {bit}");
            frame[at] ^= 1 << bit;
        }
        assert!(read(&frame[..at]).is_err(), "{at} bytes of it");
    }
    assert_eq!(
        length(&frame, frame.len() - 1),
        Err(WireError::Length(frame.len()))
    );
    assert_eq!(length(&frame[..PREFIX - 1], 1 << 20), Ok(None));
}

#[test]
fn who_speaks_another_version_is_known_by_it() {
    let mut frame = written(&messages());
    let version = VERSION - 1;
    frame[2] = version;
    let expected = Err(WireError::Version { from: 2, version });
    assert_eq!(length(&frame, usize::MAX), expected);
    assert_eq!(read(&frame).map(|_| ()), expected.map(|_| ()));
    frame[0] = b'G';
    assert_eq!(length(&frame, usize::MAX), Err(WireError::Foreign));
}

#[test]
fn messages_that_are_cut_short_are_none() {
    for message in messages() {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        for end in 0..bytes.len() {
            let mut cut = Messages::new(&bytes[..end]);
            assert_eq!(cut.next(), None, "{message:?}");
            assert_eq!(cut.is_at_end(), end == 0);
        }
    }
}
