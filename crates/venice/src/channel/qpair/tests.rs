//! Two ends with a connection between them that delivers in any pieces, and breaks; and peers that
//! lie.

use super::*;
use crate::channel::frame::parse;
use proptest::prelude::*;
use std::collections::VecDeque;

/// One end, what is on its way to it, and what its program got.
struct End {
    pair: QPair,
    incoming: VecDeque<u8>,
    parsed: Vec<u8>,
    sent: u64,
    got: Vec<Vec<u8>>,
}

impl End {
    fn new(settings: QueueSettings) -> Self {
        Self {
            pair: QPair::new(settings),
            incoming: VecDeque::new(),
            parsed: Vec::new(),
            sent: 0,
            got: Vec::new(),
        }
    }

    /// Puts what there is for the other end.
    fn put(&mut self, to: &mut End, most: usize) {
        let mut out = Vec::new();
        if let Some(until) = self.pair.credit_word() {
            frame::put(&mut out, Kind::CreditWrite, 0, until, &[]);
            self.pair.credit_word_written();
        }
        self.pair.put(&mut out, most);
        to.incoming.extend(out);
    }

    /// So many bytes arrive.
    fn arrive(&mut self, bytes: usize) {
        let bytes = bytes.min(self.incoming.len());
        self.parsed.extend(self.incoming.drain(..bytes));
        let mut start = 0;
        while let Some((frame, used)) = parse(&self.parsed[start..]).unwrap() {
            self.pair.came(&frame).unwrap();
            start += used;
        }
        self.parsed.drain(..start);
    }

    fn lose(&mut self) {
        self.pair.lost_connection();
        self.incoming.clear();
        self.parsed.clear();
    }

    fn take(&mut self) {
        let mut message = Vec::new();
        if self.pair.take(&mut message) {
            self.got.push(message);
        }
    }
}

/// Message `number` of an end: any length, told by its number.
fn text(from: usize, number: u64, most: u32) -> Vec<u8> {
    let length = (number * 7 + from as u64) % (u64::from(most) + 1);
    (0..length).map(|at| (at + number) as u8).collect()
}

fn settings() -> impl Strategy<Value = QueueSettings> {
    (1u32..9, 1u32..40, any::<bool>(), 1u32..9).prop_map(|(messages, bytes, crma, every)| {
        QueueSettings {
            messages,
            message_bytes: bytes,
            credits: if crma {
                Credits::Crma
            } else {
                Credits::Message
            },
            credit_every: every,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn messages_come_in_order_and_once_over_connections_that_break(
        settings in settings(),
        steps in prop::collection::vec((0usize..100, 0usize..2, 1usize..200), 1..600),
    ) {
        let mut ends = [End::new(settings), End::new(settings)];
        let send = |ends: &mut [End; 2], who: usize| {
            let end = &mut ends[who];
            let message = text(who, end.sent, settings.message_bytes);
            if end.pair.send(&message).is_ok() {
                end.sent += 1;
            }
        };
        for (what, who, amount) in steps {
            match what {
                0..30 => send(&mut ends, who),
                30..50 => {
                    let [a, b] = &mut ends;
                    let (from, to) = if who == 0 { (a, b) } else { (b, a) };
                    from.put(to, amount);
                }
                50..75 => ends[who].arrive(amount),
                75..98 => ends[who].take(),
                _ => ends.iter_mut().for_each(End::lose),
            }
            for end in &ends {
                let buffers = settings.messages as usize;
                prop_assert!(end.pair.made.len() == buffers && end.pair.came.len() == buffers);
                prop_assert!(end.pair.waiting.len() <= buffers);
                prop_assert!(end.pair.told <= end.pair.given);
            }
        }
        // Quiet: everything arrives.
        for _ in 0..2000 {
            let [a, b] = &mut ends;
            a.put(b, 4096);
            b.put(a, 4096);
            for end in &mut ends {
                end.arrive(usize::MAX);
                end.take();
            }
        }
        for who in 0..2 {
            let sent = ends[who].sent;
            prop_assert_eq!(ends[1 - who].got.len() as u64, sent);
            for (number, got) in ends[1 - who].got.iter().enumerate() {
                prop_assert_eq!(got, &text(who, number as u64, settings.message_bytes));
            }
            // Credits came back: a full load fits again, but for those that are not due yet.
            let least = u64::from(settings.messages) + 1
                - u64::from(settings.credit_every.min(settings.messages));
            prop_assert!(ends[who].pair.until - ends[who].pair.next >= least);
            prop_assert!(!ends[who].pair.has_output());
        }
    }

    #[test]
    fn peers_that_lie_are_refused_and_cost_no_more_memory(
        settings in settings(),
        lies in prop::collection::vec((0usize..5, 0u64..20, 0u64..20, 0usize..60), 1..60),
    ) {
        let mut pair = QPair::new(settings);
        let (mut sent, mut got) = (0, 0);
        for (kind, id, address, bytes) in lies {
            let kinds = [Kind::Open, Kind::Message, Kind::Credit, Kind::CreditWrite, Kind::Data];
            let mut payload = vec![7; bytes];
            if kinds[kind] == Kind::Open {
                payload.clear();
                payload.extend(u64::from(settings.clamped().messages).to_le_bytes());
                payload.extend(u64::from(settings.clamped().message_bytes).to_le_bytes());
            }
            let length = payload.len() as u32;
            let frame = Frame { kind: kinds[kind], id, address, length, payload: &payload };
            let due = pair.due;
            if pair.came(&frame).is_ok() {
                prop_assert!(kinds[kind] != Kind::Message || (id == due && id < pair.given));
            }
            if pair.send(b"").is_ok() {
                sent += 1;
            }
            pair.put(&mut Vec::new(), 4096);
            let mut message = Vec::new();
            if id % 3 == 0 && pair.take(&mut message) {
                got += 1;
            }
            prop_assert!(pair.untaken() <= u64::from(pair.settings.messages));
            prop_assert!(pair.due - pair.taken <= u64::from(pair.settings.messages));
            prop_assert_eq!((pair.next, pair.taken), (sent, got));
        }
    }
}

#[test]
fn each_lie_has_its_own_words() {
    let settings = QueueSettings {
        messages: 2,
        message_bytes: 4,
        credits: Credits::Crma,
        credit_every: 1,
    };
    let frame = |kind, id, address, payload| Frame {
        kind,
        id,
        address,
        length: 0,
        payload,
    };
    let said = |pair: &mut QPair, frame: Frame<'_>| pair.came(&frame).unwrap_err().to_string();
    let mut pair = QPair::new(settings);
    let early = said(&mut pair, frame(Kind::Message, 0, 0, b""));
    assert_eq!(early, "Message is not due here");
    let other = said(&mut pair, frame(Kind::Open, 0, 2, &[1; 16]));
    assert!(other.contains("ours of 2 messages of 4 bytes"), "{other}");
    let mut shape = [0; 16];
    (shape[0], shape[8]) = (2, 4);
    let ahead = said(&mut pair, frame(Kind::Open, 1, 2, &shape));
    assert!(ahead.contains("waits for message 1"), "{ahead}");
    pair.came(&frame(Kind::Open, 0, 2, &shape)).unwrap();
    let twice = said(&mut pair, frame(Kind::Open, 0, 2, &shape));
    assert_eq!(twice, "Open is not due here");
    let gap = said(&mut pair, frame(Kind::Message, 1, 0, b""));
    assert_eq!(gap, "message 1 came where 0 is due");
    let long = said(&mut pair, frame(Kind::Message, 0, 0, b"12345"));
    assert_eq!(long, "a message of 5 bytes, of at most 4");
    pair.came(&frame(Kind::Message, 0, 0, b"1")).unwrap();
    pair.came(&frame(Kind::Message, 1, 0, b"2")).unwrap();
    let third = said(&mut pair, frame(Kind::Message, 2, 0, b"3"));
    assert_eq!(third, "message 2 came, and credits go up to 2");
    for until in [1, 3] {
        let credits = said(&mut pair, frame(Kind::Credit, 0, until, b""));
        assert!(
            credits.contains("can go from 2 to 2 only"),
            "{until}: {credits}"
        );
    }
}

/// Otherwise one that reads nothing, and sends on, would have ever more credits wait for it here.
#[test]
fn who_was_not_told_of_credits_has_none() {
    let settings = QueueSettings {
        messages: 2,
        message_bytes: 8,
        credits: Credits::Message,
        credit_every: 1,
    };
    let (mut one, mut other) = (End::new(settings), End::new(settings));
    one.put(&mut other, 1 << 10);
    other.put(&mut one, 1 << 10);
    one.arrive(usize::MAX);
    let message = |id| Frame {
        kind: Kind::Message,
        id,
        address: 0,
        length: 0,
        payload: &[],
    };
    for id in 0..2 {
        one.pair.came(&message(id)).unwrap();
        one.take();
    }
    assert_eq!(one.got.len(), 2);
    let refused = one.pair.came(&message(2));
    assert_eq!(refused, Err(Broken::NoCredit { came: 2, until: 2 }));
    one.put(&mut other, 1 << 10);
    one.pair.came(&message(2)).unwrap();
}
