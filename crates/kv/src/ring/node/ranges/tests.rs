use super::super::super::{Options, Placement, Roster, Terms, View};
use super::super::tenure::TENURE;
use super::*;
use std::sync::Arc;

/// Where two took a range at once, as they did not hear each other, and one of them renewed its
/// claim, it said things here that were dropped.
#[test]
fn who_followed_the_other_of_two_is_sent_all_anew() {
    let placement = Placement::new(["a", "b", "c"].map(|name| (name, 1)));
    let (terms, roster) = (Terms::new("node", []), Roster::round(3, 3));
    let view = Arc::new(View::new(placement, 2));
    let mut node = Node::new(terms, 1, Options::default(), view, roster, Time::ZERO);
    let claim = |epoch, node| Claim { epoch, node };
    node.complete = 1;
    let mut has_after = |claim| {
        node.learn(0, claim);
        node.claims[0] == claim && node.complete == 1
    };
    assert!(has_after(claim(1, 0)));
    // The next tenure: what the one before confirmed is here.
    assert!(has_after(claim(TENURE + 1, 0)));
    assert!(has_after(claim(TENURE + 2, 0)));
    // Of one epoch: whatever came of the second, it was adopted.
    assert!(has_after(claim(2 * TENURE + 2, 0)));
    assert!(has_after(claim(2 * TENURE + 2, 1)));
    assert!(!has_after(claim(2 * TENURE + 3, 0)));
    // And who serves it does not count on one who follows another.
    let epoch = 3 * TENURE;
    node.adopt(0, claim(epoch + 5, 2));
    node.complete = 1;
    for (other, is_kept) in [
        (claim(2 * TENURE + 3, 0), true),
        (claim(epoch + 5, 2), true),
        (claim(epoch + 4, 2), true),
        (claim(epoch + 4, 1), false),
    ] {
        node.syncs[0][0] = Sync::Done;
        node.follows_another(0, 0, other);
        assert_eq!(node.syncs[0][0] == Sync::Done, is_kept, "{other:?}");
    }
}

/// It was kept from its processor for so long that its node had the range complete anew.
#[test]
fn what_is_written_late_in_a_complete_copy_has_it_sent_anew() {
    let placement = Placement::new(["a", "b"].map(|name| (name, 1)));
    let (terms, roster) = (Terms::new("node", []), Roster::round(2, 2));
    let view = Arc::new(View::new(placement, 1));
    let mut node = Node::new(terms, 1, Options::default(), view, roster, Time::ZERO);
    let claim = |node| Claim {
        epoch: TENURE,
        node,
    };
    node.claims = vec![claim(0), claim(1)];
    (node.complete, node.reads) = (0b11, 0b01);
    node.wrote_late(0, 7);
    // Nothing goes before it comes, and nothing is shown of it.
    assert_eq!((node.complete, &node.stale[..]), (0b10, &[0, 0][..]));
    assert_eq!(node.reads, 0);
    node.wrote_late(0, 8);
    assert_eq!(node.stale, [9, 0]);
    // By then it is served here.
    node.wrote_late(1, 8);
    assert_eq!((node.complete, node.stale[1]), (0b10, 0));
}

/// It was given up, and is there again, and who served the range is dead before he told it so.
#[test]
fn who_has_less_than_one_that_takes_a_range_is_told_that_it_is_old() {
    let placement = Placement::new(["a", "b", "c", "d"].map(|name| (name, 1)));
    let (terms, roster) = (Terms::new("node", []), Roster::round(4, 4));
    let view = Arc::new(View::new(placement, 1));
    let mut node = Node::new(terms, 1, Options::default(), view, roster, Time::ZERO);
    let given_up = TENURE;
    node.complete = 1;
    node.counts[0] = given_up + 1;
    for (other, complete, counts) in [(2, 1, given_up), (3, 1, given_up + 1)] {
        let peer = &mut node.peers[other];
        (peer.session, peer.complete, peer.counts[0]) = (1, complete, counts);
    }
    let (epoch, me) = (2 * TENURE, 1);
    node.adopt(0, Claim { epoch, node: me });
    assert_eq!(node.syncs[0][2..], [Sync::None, Sync::Kept]);
    // Nothing is confirmed before it knows that.
    node.aim(0);
    assert_eq!(node.peers[2].link.confirmed(), Some(node.batch - 1));
    assert_eq!(node.peers[3].link.confirmed(), None);
}

/// He died, who had been given the range, before he told one of those that he counted on that it
/// counts with him, too.
#[test]
fn who_was_not_told_yet_that_it_counts_keeps_what_it_has_unless_one_was_given_up_since() {
    let placement = Placement::new(["a", "b", "c"].map(|name| (name, 1)));
    let (terms, roster) = (Terms::new("node", []), Roster::round(3, 3));
    let view = Arc::new(View::new(placement, 1));
    let mut node = Node::new(terms, 1, Options::default(), view, roster, Time::ZERO);
    let before = TENURE + 7;
    node.complete = 1;
    let peer = &mut node.peers[2];
    (peer.session, peer.complete, peer.counts[0]) = (1, 1, before);
    for (counts, is_behind) in [
        (before, false),
        (before + 1, true),
        (before + TENURE, false),
        (before + TENURE + 1, true),
        (before + 2 * TENURE, true),
    ] {
        node.counts[0] = counts;
        assert_eq!(node.is_behind(2, 0), is_behind, "{counts}");
    }
    // So who serves it without one that may have it has it look as if that one were given up.
    let (epoch, me) = (before + TENURE, 1);
    node.adopt(0, Claim { epoch, node: me });
    assert_eq!(node.claims[0].epoch, epoch + 1);
    node.peers[0].session = 1;
    node.adopt(0, Claim { epoch, node: me });
    assert_eq!(node.claims[0].epoch, epoch);
}

/// Another life of a node speaks, which is not met yet: another may have met it, and have sent it
/// what it gives to this one.
#[test]
fn who_begins_to_serve_confirms_nothing_before_one_that_speaks_is_met() {
    let placement = Placement::new(["a", "b", "c"].map(|name| (name, 1)));
    let (terms, roster) = (Terms::new("node", []), Roster::round(3, 3));
    let view = Arc::new(View::new(placement, 1));
    let mut node = Node::new(terms, 1, Options::default(), view, roster, Time::ZERO);
    let (now, me) = (Time::ZERO + Duration::from_secs(9), 1);
    node.complete = 1;
    node.look(now);
    node.adopt(
        0,
        Claim {
            epoch: TENURE,
            node: me,
        },
    );
    assert!(!node.holds_back(now));
    node.hears_another(2, 5, now);
    node.adopt(
        0,
        Claim {
            epoch: 2 * TENURE,
            node: me,
        },
    );
    assert!(node.holds_back(now));
    node.peers[2].session = 5;
    assert!(!node.holds_back(now));
}

/// When it hears of a flush that this node said, it drops all that it has: also what it wrote
/// since, and this node was sent.
#[test]
fn who_has_not_heard_of_a_flush_is_sent_all_anew_by_who_begins_to_serve() {
    let placement = Placement::new(["a", "b", "c"].map(|name| (name, 1)));
    let (terms, roster) = (Terms::new("node", []), Roster::round(3, 3));
    let (view, me) = (Arc::new(View::new(placement, 1)), 1);
    let mut node = Node::new(terms, 1, Options::default(), view, roster, Time::ZERO);
    node.complete = 1;
    for other in [0, 2] {
        let peer = &mut node.peers[other];
        (peer.session, peer.complete) = (1, 1);
    }
    let flush = node.flushes.next(me);
    node.flushes.begin(flush, 1 << 2, 1);
    let (epoch, me) = (TENURE, me as u8);
    node.adopt(0, Claim { epoch, node: me });
    assert_eq!(node.syncs[0], [Sync::Kept, Sync::None, Sync::None]);
    // Whoever gives it the range may not know of that.
    let (epoch, range) = (2 * TENURE, 0);
    node.adopt(0, Claim { epoch, node: 0 });
    node.serve(0, Of { range, epoch }, 0b101);
    assert_eq!(node.claims[0].node, me);
    assert_eq!(node.syncs[0], [Sync::Done, Sync::None, Sync::None]);
}
