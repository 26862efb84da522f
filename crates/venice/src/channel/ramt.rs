//! The paper's Remote Address Mapping Table (section 5.1.2, Figure 8): windows of addresses, and
//! what each leads to. The borrower has one, and the donor a matching one; an access that is not
//! wholly within a window is refused at both.

use thiserror::Error;

/// Windows of a table, at most.
const WINDOWS_MAX: usize = 64;

/// An access that lies in no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{length} bytes at address {address:#x} are not within a window")]
pub struct OutOfWindow {
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub length: u64,
}

/// A window that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoWindow {
    /// Empty, or beyond the last address.
    #[error("a window of {bytes} bytes at {start:#x} is none")]
    Bounds { start: u64, bytes: u64 },
    /// It would lie over another.
    #[error("a window is there already")]
    Overlaps,
    /// The table is full.
    #[error("there are {WINDOWS_MAX} windows already")]
    Full,
}

#[derive(Debug)]
struct Window<T> {
    start: u64,
    bytes: u64,
    target: T,
}

/// Windows in the order of their addresses.
#[derive(Debug)]
pub(crate) struct Ramt<T> {
    windows: Vec<Window<T>>,
}

impl<T> Default for Ramt<T> {
    fn default() -> Self {
        Self {
            windows: Vec::new(),
        }
    }
}

impl<T> Ramt<T> {
    /// Adds a window.
    ///
    /// # Errors
    /// [`NoWindow`].
    pub(crate) fn insert(&mut self, start: u64, bytes: u64, target: T) -> Result<(), NoWindow> {
        let end = start.checked_add(bytes).filter(|_| bytes > 0);
        let end = end.ok_or(NoWindow::Bounds { start, bytes })?;
        if self.windows.len() >= WINDOWS_MAX {
            return Err(NoWindow::Full);
        }
        let at = self.windows.partition_point(|window| window.start < start);
        let before = at.checked_sub(1).and_then(|at| self.windows.get(at));
        let after = self.windows.get(at);
        if before.is_some_and(|window| window.start + window.bytes > start)
            || after.is_some_and(|window| window.start < end)
        {
            return Err(NoWindow::Overlaps);
        }
        let window = Window {
            start,
            bytes,
            target,
        };
        self.windows.insert(at, window);
        Ok(())
    }

    /// What an access leads to, and where in the window it begins.
    ///
    /// # Errors
    /// [`OutOfWindow`]: not all of it lies in one window.
    pub(crate) fn find(&self, address: u64, length: u64) -> Result<(&T, u64), OutOfWindow> {
        let at = self
            .windows
            .partition_point(|window| window.start <= address);
        let window = at.checked_sub(1).and_then(|at| self.windows.get(at));
        let found = window.and_then(|window| {
            let offset = address - window.start;
            let end = offset.checked_add(length)?;
            (end <= window.bytes).then_some((&window.target, offset))
        });
        found.ok_or(OutOfWindow { address, length })
    }

    /// How many windows there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.windows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn accesses_are_found_as_by_looking_at_every_window(
            windows in prop::collection::vec((0u64..200, 0u64..40), 0..20),
            accesses in prop::collection::vec((0u64..260, 0u64..50), 0..50),
        ) {
            let mut ramt = Ramt::default();
            let mut plain: Vec<(u64, u64, usize)> = Vec::new();
            for (number, &(start, bytes)) in windows.iter().enumerate() {
                let meets = |&(s, b, _): &(u64, u64, usize)| s < start + bytes && start < s + b;
                let fits = bytes > 0 && !plain.iter().any(meets);
                prop_assert_eq!(ramt.insert(start, bytes, number).is_ok(), fits);
                if fits {
                    plain.push((start, bytes, number));
                }
            }
            prop_assert_eq!(ramt.len(), plain.len());
            for (address, length) in accesses {
                // The one in which it begins.
                let within = plain.iter().find(|(s, b, _)| {
                    *s <= address && address + length <= s + b
                        && !plain.iter().any(|(other, ..)| *other == address && other != s)
                });
                let found = ramt.find(address, length).map(|(number, at)| (*number, at));
                let plain = within.map(|(start, _, number)| (*number, address - start));
                prop_assert_eq!(found.ok(), plain);
            }
        }
    }

    #[test]
    fn nothing_is_beyond_the_last_address() {
        let mut ramt = Ramt::default();
        assert!(ramt.insert(u64::MAX - 4, 8, ()).is_err());
        ramt.insert(u64::MAX - 4, 4, ()).unwrap();
        assert!(ramt.find(u64::MAX - 4, u64::MAX).is_err());
        assert!(ramt.find(u64::MAX - 4, 4).is_ok());
        for start in 0..WINDOWS_MAX as u64 - 1 {
            ramt.insert(start, 1, ()).unwrap();
        }
        assert_eq!(ramt.insert(4096, 1, ()), Err(NoWindow::Full));
    }
}
