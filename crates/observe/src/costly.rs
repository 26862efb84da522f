//! What costs the admin listener much to tell, time of its thread or memory, and is told again for
//! a while. So whoever asks for it without end, or many at a time, leaves most of the thread to
//! those who look whether all is well, and those who take it slowly have one between them. The
//! figures of a site of some thousand pages take a quarter of a second, and tens of megabytes.

use crate::process;
use rhythm_net::{Time, clock};
use std::time::Duration;

/// What takes less processor time is told anew each time, unless it is long.
const COSTLY: Duration = Duration::from_millis(20);
/// Bytes of what is long.
const LONG: usize = 256 << 10;
/// What is kept is told again for so many times as long as it took.
const REST: u32 = 4;
/// And, at a path, until no more than so many of before are on their way to clients: they bound the
/// memory that slow ones hold.
const OLD_MAX: usize = 2;

/// What can be kept: a clone of it shares its bytes.
pub(crate) trait Lasting: Clone {
    /// Its bytes.
    fn length(&self) -> usize;

    /// Whether a clone of it is somewhere else.
    fn is_shared(&self) -> bool;
}

/// What was told at a path.
struct Kept<T> {
    path: Vec<u8>,
    told: T,
    until: Time,
}

/// See the module's text. What comes later stands behind.
pub(crate) struct Costly<T>(Vec<Kept<T>>);

impl<T> Default for Costly<T> {
    fn default() -> Costly<T> {
        Costly(Vec::new())
    }
}

impl<T: Lasting> Costly<T> {
    /// What is told at a path: what `tell` makes of it, or has made a moment ago.
    pub(crate) fn tell(&mut self, path: &[u8], tell: impl FnOnce() -> Option<T>) -> Option<T> {
        let now = clock::monotonic();
        self.0
            .retain(|kept| now < kept.until || kept.told.is_shared());
        let of_path = self.0.iter().filter(|kept| kept.path == path);
        if let Some(last) = of_path.clone().last()
            && (now < last.until || of_path.count() > OLD_MAX)
        {
            return Some(last.told.clone());
        }
        let began = process::thread_time();
        let told = tell()?;
        let took = process::thread_time().saturating_sub(began);
        if took >= COSTLY || told.length() >= LONG {
            self.0.push(Kept {
                path: path.to_vec(),
                told: told.clone(),
                until: clock::monotonic() + REST * took,
            });
        }
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    impl Lasting for Arc<[u8]> {
        fn length(&self) -> usize {
            self.len()
        }

        fn is_shared(&self) -> bool {
            Arc::strong_count(self) > 1
        }
    }

    /// Takes so much processor time, for so many bytes, and counts.
    fn tells(time: Duration, length: usize, times: &mut usize) -> Option<Arc<[u8]>> {
        let began = process::thread_time();
        while process::thread_time() - began < time {}
        *times += 1;
        Some(vec![0; length].into())
    }

    #[test]
    fn what_takes_long_is_told_again_for_a_while_and_nothing_else_is() {
        let (mut costly, mut times) = (Costly::default(), [0, 0]);
        let long = 10 * COSTLY;
        for _ in 0..3 {
            costly.tell(b"/a", || tells(long, 1, &mut times[0]));
            costly.tell(b"/b", || tells(Duration::ZERO, 1, &mut times[1]));
        }
        assert_eq!(times, [1, 3]);
        std::thread::sleep(REST * long + long);
        costly.tell(b"/a", || tells(Duration::ZERO, 1, &mut times[0]));
        assert_eq!(times, [2, 3]);
        assert!(costly.0.is_empty(), "nothing is kept that is old");
    }

    #[test]
    fn slow_clients_have_few_long_ones_between_them() {
        let (mut costly, mut times) = (Costly::default(), 0);
        let took = Duration::from_millis(1);
        let slow: Vec<Option<Arc<[u8]>>> = (0..9)
            .map(|_| {
                let told = costly.tell(b"/a", || tells(took, LONG, &mut times));
                std::thread::sleep(20 * REST * took);
                told
            })
            .collect();
        assert_eq!(times, 1 + OLD_MAX);
        drop(slow);
        costly.tell(b"/a", || tells(took, LONG, &mut times));
        assert_eq!((times, costly.0.len()), (2 + OLD_MAX, 1));
    }
}
