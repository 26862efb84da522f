//! Resources of several kinds.

use super::*;

fn borrow_of(request: u64, share: Share) -> Message {
    let apart = Vec::new();
    Message::Borrow {
        request,
        share,
        apart,
    }
}

#[test]
fn each_kind_is_lent_by_who_has_it_alone_or_in_turn() {
    let mut monitor = monitor(&Memory::default());
    node(&mut monitor, 1, "a");
    greet(&mut monitor, 2, &secret());
    let Message::Register(mut register) = register("b", 1) else {
        panic!("it registers");
    };
    let two = Share::of_all(Kind::Fft, 2).amount;
    register.offers.push(Offer {
        kind: Kind::Fft,
        size: two,
        idle: two,
    });
    monitor.received(2, Message::Register(register), at(0));
    let _ = sent(&mut monitor, 2);
    let name = "b".parse().expect("a name");
    let free = |monitor: &Monitor<Memory>| {
        let rows = [Kind::Memory, Kind::Fft].map(|kind| monitor.rrt().get(&name, kind));
        rows.map(|row| row.map_or(0, rrt::Resource::free))
    };
    assert_eq!(free(&monitor), [100, two]);
    // One alone, one in turn; what is left of the other cannot be had alone.
    for (request, is_alone) in [(1, true), (2, false)] {
        let share = Share::of_one(Kind::Fft, is_alone);
        monitor.received(1, borrow_of(request, share), at(1));
        let (said, _) = sent(&mut monitor, 2);
        let [
            Message::Grant {
                loan, share: asked, ..
            },
        ] = said[..]
        else {
            panic!("{said:?}");
        };
        assert_eq!(asked, share);
        let (address, is_sealed) = (([127, 0, 0, 1], 2).into(), false);
        let granted = Message::Granted {
            loan,
            address,
            is_sealed,
        };
        monitor.received(2, granted, at(1));
        let (said, _) = sent(&mut monitor, 1);
        assert!(
            matches!(&said[..], [Message::Lent { share: lent, .. }] if *lent == share),
            "{said:?}"
        );
    }
    assert_eq!(free(&monitor), [100, 15]);
    // Nobody is on its way any more.
    for connection in [1, 2] {
        monitor.received(connection, heartbeat(100), at(4000));
    }
    monitor.tick(at(6000));
    for (share, most) in [
        (Share::of_one(Kind::Fft, true), 15),
        (Share::of_one(Kind::Device, false), 0),
        // Of what is shared a loan has one share, or all.
        (
            Share {
                kind: Kind::Fft,
                amount: 2,
            },
            15,
        ),
    ] {
        monitor.received(2, heartbeat(100), at(6000));
        monitor.received(1, borrow_of(3, share), at(6000));
        let (said, _) = sent(&mut monitor, 1);
        let most = Share {
            amount: most,
            ..share
        };
        let why = crate::wire::NotLent::NoRoom { most };
        let told = Message::NotLent { request: 3, why };
        assert!(said.contains(&told), "{said:?}");
    }
}
