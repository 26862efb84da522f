use super::probe::{Kind, Probe};
use super::*;
use crate::loan::{LoanId, LoanKey};
use crate::name::NodeName;
use crate::resource::{self, Offer, Share};
use crate::secret::{ProbeKey, Secret};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

fn name() -> impl Strategy<Value = NodeName> {
    "[a-zA-Z0-9._-]{1,64}".prop_map(|text| text.parse().expect("a name"))
}

fn address() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<[u8; 4]>().prop_map(IpAddr::from);
    // One that stands for an IPv4 address is that address.
    let v6 = any::<[u8; 16]>().prop_map(|octets| IpAddr::from(octets).to_canonical());
    (prop_oneof![v4, v6], any::<u16>()).prop_map(SocketAddr::from)
}

fn loan() -> impl Strategy<Value = LoanId> {
    any::<u64>().prop_map(LoanId)
}

fn apart() -> impl Strategy<Value = Vec<LoanId>> {
    vec(loan(), 0..=APART_MAX)
}

fn key() -> impl Strategy<Value = LoanKey> {
    any::<[u8; 32]>().prop_map(LoanKey)
}

fn share() -> impl Strategy<Value = Share> {
    let kind = (0..resource::Kind::ALL.len()).prop_map(|index| resource::Kind::ALL[index]);
    (kind, any::<u64>()).prop_map(|(kind, amount)| Share { kind, amount })
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let amounts = any::<[(bool, u64, u64); resource::Kind::ALL.len()]>();
    amounts.prop_map(|amounts| {
        let all = resource::Kind::ALL.into_iter().zip(amounts);
        let there = all.filter(|(_, (is_there, ..))| *is_there);
        let offer = |(kind, (_, size, idle))| Offer { kind, size, idle };
        there.map(offer).collect()
    })
}

fn reason() -> impl Strategy<Value = Reason> {
    (0..Reason::ALL.len()).prop_map(|index| Reason::ALL[index])
}

fn not_lent() -> impl Strategy<Value = NotLent> {
    prop_oneof![
        share().prop_map(|most| NotLent::NoRoom { most }),
        Just(NotLent::TooMany),
        Just(NotLent::NoDisk),
        Just(NotLent::NoMonitor),
        Just(NotLent::AgentEnds),
        Just(NotLent::Plain),
    ]
}

fn link() -> impl Strategy<Value = LinkReport> {
    (
        name(),
        any::<u64>(),
        any::<u64>(),
        0_u16..=1000,
        any::<u32>(),
    )
        .prop_map(
            |(to, latency_ns, bandwidth, loss_permille, silent_ms)| LinkReport {
                to,
                latency_ns,
                bandwidth,
                loss_permille,
                silent_ms,
            },
        )
}

fn register() -> impl Strategy<Value = Register> {
    let node = (
        name(),
        any::<u64>(),
        "([a-z0-9]{1,5}(/[a-z0-9]{1,5}){0,3})?",
        address(),
    );
    (
        node,
        offers(),
        vec((loan(), share()), 0..9),
        vec(loan(), 0..9),
    )
        .prop_map(
            |((name, incarnation, place, probe), offers, lent, borrowed)| Register {
                name,
                incarnation,
                place,
                probe,
                offers,
                lent,
                borrowed,
            },
        )
}

fn message() -> impl Strategy<Value = Message> {
    let greeting = prop_oneof![
        (any::<u16>(), any::<[u8; 32]>())
            .prop_map(|(version, nonce)| Message::Hello { version, nonce }),
        any::<([u8; 32], [u8; 32])>()
            .prop_map(|(nonce, proof)| Message::Challenge { nonce, proof }),
        any::<[u8; 32]>().prop_map(|proof| Message::Proof { proof }),
        prop_oneof![
            Just(TurnedAway::Version),
            Just(TurnedAway::Secret),
            Just(TurnedAway::NameTaken),
            Just(TurnedAway::TooMany),
            Just(TurnedAway::Name),
            Just(TurnedAway::Plain),
            Just(TurnedAway::NotLeading)
        ]
        .prop_map(Message::Away),
        register().prop_map(Message::Register),
        Just(Message::Heard),
        Just(Message::Leaving),
        any::<u32>().prop_map(|heartbeat_ms| Message::Registered { heartbeat_ms }),
        any::<[u8; 32]>().prop_map(|key| Message::ProbeKey { key: ProbeKey(key) }),
        vec((name(), address()), 0..9).prop_map(|peers| {
            let peers = peers.into_iter();
            Message::Peers(
                peers
                    .map(|(name, probe)| PeerNode { name, probe })
                    .collect(),
            )
        }),
        (offers(), vec(link(), 0..9))
            .prop_map(|(offers, links)| Message::Heartbeat { offers, links }),
    ];
    let donors = prop_oneof![
        (loan(), share(), key()).prop_map(|(loan, share, key)| Message::Grant { loan, share, key }),
        (loan(), address(), any::<bool>()).prop_map(|(loan, address, is_sealed)| {
            Message::Granted {
                loan,
                address,
                is_sealed,
            }
        }),
        (loan(), any::<u64>()).prop_map(|(loan, idle)| Message::NoRoom { loan, idle }),
        loan().prop_map(|loan| Message::Revoke { loan }),
        (loan(), reason()).prop_map(|(loan, why)| Message::Revoked { loan, why }),
        (loan(), any::<u32>())
            .prop_map(|(loan, within_ms)| Message::Reclaiming { loan, within_ms }),
    ];
    let borrowers = prop_oneof![
        (any::<u64>(), share(), apart()).prop_map(|(request, share, apart)| Message::Borrow {
            request,
            share,
            apart
        }),
        loan().prop_map(|loan| Message::GiveBack { loan }),
        (
            (any::<u64>(), share()),
            loan(),
            key(),
            address(),
            of(name())
        )
            .prop_map(
                |((request, share), loan, key, donor, sealed_by)| Message::Lent {
                    request,
                    loan,
                    share,
                    key,
                    donor,
                    sealed_by
                }
            ),
        (any::<u64>(), not_lent()).prop_map(|(request, why)| Message::NotLent { request, why }),
        (loan(), reason()).prop_map(|(loan, why)| Message::Broken { loan, why }),
        (loan(), any::<u32>())
            .prop_map(|(loan, within_ms)| Message::ReclaimWanted { loan, within_ms }),
    ];
    prop_oneof![greeting, donors, borrowers]
}

fn sealed_by() -> impl Strategy<Value = Box<SealedBy>> {
    (name(), "[a-z/]{1,40}").prop_map(|(node, identity)| Box::new(SealedBy { node, identity }))
}

fn local() -> impl Strategy<Value = Local> {
    prop_oneof![
        (any::<u32>(), share(), apart()).prop_map(|(request, share, apart)| Local::Borrow {
            request,
            share,
            apart
        }),
        loan().prop_map(|loan| Local::Renew { loan }),
        loan().prop_map(|loan| Local::GiveBack { loan }),
        (
            (any::<u32>(), share()),
            loan(),
            key(),
            address(),
            of(sealed_by())
        )
            .prop_map(|((request, share), loan, key, donor, sealed)| Local::Lent {
                request,
                loan,
                share,
                key,
                donor,
                sealed
            }),
        (any::<u32>(), not_lent()).prop_map(|(request, why)| Local::NotLent { request, why }),
        (loan(), any::<bool>()).prop_map(|(loan, stands)| Local::Stands { loan, stands }),
        (loan(), reason()).prop_map(|(loan, why)| Local::Broken { loan, why }),
        (loan(), any::<u32>())
            .prop_map(|(loan, within_ms)| Local::ReclaimWanted { loan, within_ms }),
    ]
}

/// All beginnings of a message are none yet, and the whole is that message.
fn round_trip<M: Framed + PartialEq + std::fmt::Debug>(message: &M) {
    let mut bytes = Vec::new();
    put(message, &mut bytes);
    for end in 0..bytes.len() {
        assert_eq!(first::<M>(&bytes[..end], MESSAGE_MAX), Ok(None));
    }
    let length = bytes.len();
    bytes.extend_from_slice(b"more");
    let (read, end) = first::<M>(&bytes, MESSAGE_MAX)
        .expect("a message")
        .expect("all of it");
    assert_eq!((&read, end), (message, length));
    // One byte more or less in the frame is none.
    for other in [length - 3, length - 5] {
        bytes[..HEAD].copy_from_slice(&(other as u32).to_le_bytes());
        assert_eq!(first::<M>(&bytes, MESSAGE_MAX), Err(Garbage::Unread));
    }
}

proptest! {
    #[test]
    fn messages_are_read_as_they_were_written(message in message()) {
        round_trip(&message);
    }

    #[test]
    fn what_borrowers_say_is_read_as_it_was_written(message in local()) {
        round_trip(&message);
    }

    #[test]
    fn any_bytes_are_a_message_or_garbage(mut bytes in vec(any::<u8>(), 0..200), kind in 0_u8..25) {
        let _ = first::<Message>(&bytes, MESSAGE_MAX);
        let _ = Message::take_from(&bytes);
        let _ = Local::take_from(&bytes);
        let _ = Probe::read(&bytes, &Secret::of(b"0123456789abcdef"));
        // With a first byte that is good.
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let _ = Message::take_from(&bytes);
        let _ = Local::take_from(&bytes);
    }
}

#[test]
fn a_list_is_no_longer_than_what_is_there() {
    // A heartbeat with four thousand million links, of which none is there.
    let mut said = vec![6];
    said.extend_from_slice(&[0; 4]);
    said.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Message::take_from(&said), None);
}

#[test]
fn a_length_beyond_what_may_be_is_refused_before_it_is_there() {
    let head = 200_u32.to_le_bytes();
    assert_eq!(
        first::<Message>(&head, SMALL_MAX),
        Err(Garbage::TooLong(200))
    );
}

#[test]
fn a_kind_is_offered_once() {
    let offer = |kind| Offer {
        kind,
        size: 1,
        idle: 1,
    };
    for kinds in [
        [resource::Kind::Aes; 2],
        [resource::Kind::Aes, resource::Kind::Fft],
    ] {
        let offers = kinds.map(offer).to_vec();
        let mut bytes = Vec::new();
        let links = Vec::new();
        put(&Message::Heartbeat { offers, links }, &mut bytes);
        assert_eq!(first::<Message>(&bytes, MESSAGE_MAX), Err(Garbage::Unread));
    }
}

#[test]
fn the_longest_messages_fit() {
    let name: NodeName = "x".repeat(64).parse().expect("a name");
    let offer = |kind| Offer {
        kind,
        size: 1,
        idle: 1,
    };
    let offers: Vec<Offer> = resource::Kind::ALL.map(offer).to_vec();
    let register = Register {
        name: name.clone(),
        incarnation: 1,
        place: "x".repeat(64),
        probe: ([127, 0, 0, 1], 1).into(),
        offers: offers.clone(),
        lent: vec![(LoanId(1), Share::memory(1)); NODE_LOANS_MAX],
        borrowed: vec![LoanId(1); NODE_LOANS_MAX],
    };
    let link = LinkReport {
        to: name,
        latency_ns: 1,
        bandwidth: 1,
        loss_permille: 1,
        silent_ms: 1,
    };
    let links = vec![link; NODES_MAX];
    round_trip_once(&Message::Register(register));
    round_trip_once(&Message::Heartbeat { offers, links });
}

fn round_trip_once(message: &Message) {
    let mut bytes = Vec::new();
    put(message, &mut bytes);
    let read = first::<Message>(&bytes, MESSAGE_MAX)
        .expect("a message")
        .expect("all of it");
    assert_eq!(&read.0, message);
}

#[test]
fn probes_are_of_who_has_the_secret() {
    let secret = Secret::of(b"0123456789abcdef");
    for kind in [Kind::Ask, Kind::Answer, Kind::Burst, Kind::BurstAnswer] {
        let probe = Probe {
            kind,
            sequence: 7,
            number: 3,
        };
        let mut bytes = probe.bytes(&secret);
        assert_eq!(Probe::read(&bytes, &secret), Some(probe));
        assert_eq!(Probe::read(&bytes, &Secret::of(b"0123456789abcdee")), None);
        assert_eq!(Probe::read(&bytes[..bytes.len() - 1], &secret), None);
        if let Some(answer) = probe.answer() {
            assert!(answer.bytes(&secret).len() <= bytes.len());
        }
        bytes[6] ^= 1;
        assert_eq!(Probe::read(&bytes, &secret), None);
    }
}
