//! Shares: of what there is for all clients together, nobody takes all.
//!
//! Who holds some has another only while more than these are left. So one has half of them at most,
//! two have a third each, and so on, and who has none finds one while any is left.

use std::collections::HashMap;

/// How many each client holds, by its number.
#[derive(Debug)]
pub(crate) struct Shares {
    left: usize,
    held: HashMap<u64, usize>,
}

impl Shares {
    /// Nobody holds any of so many.
    pub(crate) fn new(most: usize) -> Shares {
        Shares {
            left: most,
            held: HashMap::new(),
        }
    }

    /// Takes another for a client, if it may have one. Whether it may.
    pub(crate) fn take(&mut self, client: u64) -> bool {
        let held = self.held.get(&client).copied().unwrap_or_default();
        let may = self.left > 0 && (held == 0 || held < self.left);
        if may {
            self.left -= 1;
            self.held.insert(client, held + 1);
        }
        may
    }

    /// Whether a client may have another once this one has given one.
    pub(crate) fn may_have_of(&self, client: u64, giver: u64) -> bool {
        let held = self.held.get(&client).copied().unwrap_or_default();
        let held = held - usize::from(client == giver && held > 0);
        held == 0 || held <= self.left
    }

    /// A client has one less.
    pub(crate) fn give(&mut self, client: u64) {
        let Some(held) = self.held.get_mut(&client) else {
            debug_assert!(false, "it was taken");
            return;
        };
        *held -= 1;
        if *held == 0 {
            self.held.remove(&client);
        }
        self.left += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_and_what_is_given_back_can_be_taken() {
        let mut shares = Shares::new(64);
        let take_all = |shares: &mut Shares, client| {
            std::iter::from_fn(|| shares.take(client).then_some(())).count()
        };
        assert_eq!(take_all(&mut shares, 1), 32);
        assert_eq!(take_all(&mut shares, 2), 16);
        assert_eq!(take_all(&mut shares, 1), 0);
        (0..32).for_each(|_| shares.give(1));
        assert_eq!(take_all(&mut shares, 3), 24);
        // So it has where another gives one first.
        assert!(shares.may_have_of(3, 2) && shares.may_have_of(3, 3));
        // However few are left, who has none finds one.
        assert!((4..20).all(|client| shares.take(client)));
        assert!(!shares.may_have_of(3, 2) && shares.may_have_of(20, 2));
        assert_eq!(take_all(&mut Shares::new(1), 1), 1);
    }
}
