//! What takes the admin listener's thread long to tell, and is told again for a while: so whoever
//! asks for it without end, or many at a time, leaves most of the thread to those who look whether
//! all is well. The figures of a site of some thousand pages take a quarter of a second.

use crate::process;
use rhythm_net::{Time, clock};
use std::borrow::Cow;
use std::time::Duration;

/// What takes less processor time is told anew each time.
const COSTLY: Duration = Duration::from_millis(20);
/// What takes more is told again for so many times as long.
const REST: u32 = 4;

/// What was told at a path.
struct Kept<T> {
    path: Vec<u8>,
    told: T,
    until: Time,
}

/// See the module's text. What is kept is no more than what is told at all paths.
pub(crate) struct Costly<T>(Vec<Kept<T>>);

impl<T> Default for Costly<T> {
    fn default() -> Costly<T> {
        Costly(Vec::new())
    }
}

impl<T: Clone> Costly<T> {
    /// What is told at a path: what `tell` makes of it, or has made a moment ago.
    pub(crate) fn tell(
        &mut self,
        path: &[u8],
        tell: impl FnOnce() -> Option<T>,
    ) -> Option<Cow<'_, T>> {
        let now = clock::monotonic();
        self.0.retain(|kept| now < kept.until);
        let known = self.0.iter().position(|kept| kept.path == path);
        let index = match known {
            Some(index) => index,
            None => {
                let began = process::thread_time();
                let told = tell()?;
                let took = process::thread_time().saturating_sub(began);
                if took < COSTLY {
                    return Some(Cow::Owned(told));
                }
                self.0.push(Kept {
                    path: path.to_vec(),
                    told,
                    until: clock::monotonic() + REST * took,
                });
                self.0.len() - 1
            }
        };
        Some(Cow::Borrowed(&self.0[index].told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so much processor time, and counts.
    fn tells(time: Duration, times: &mut usize) -> Option<usize> {
        let began = process::thread_time();
        while process::thread_time() - began < time {}
        *times += 1;
        Some(*times)
    }

    #[test]
    fn what_takes_long_is_told_again_for_a_while_and_nothing_else_is() {
        let (mut costly, mut times) = (Costly::default(), [0, 0]);
        let long = 10 * COSTLY;
        for _ in 0..3 {
            assert!(costly.tell(b"/a", || tells(long, &mut times[0])).is_some());
            assert!(
                costly
                    .tell(b"/b", || tells(Duration::ZERO, &mut times[1]))
                    .is_some()
            );
        }
        assert_eq!(times, [1, 3]);
        std::thread::sleep(REST * long + long);
        costly.tell(b"/a", || tells(Duration::ZERO, &mut times[0]));
        assert_eq!(times, [2, 3]);
        assert!(costly.0.is_empty(), "nothing is kept that is old");
    }
}
