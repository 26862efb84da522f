use super::super::super::{Options, Placement, Roster, Terms, View};
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
