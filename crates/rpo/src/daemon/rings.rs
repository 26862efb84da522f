//! The rings that are read, and those that are waited for.
//!
//! A ring may come and go with its server, so one that cannot be read is looked for again each
//! second. Why it cannot is told when that is new, and once a minute as long as it stays so.

use super::chain::Chain;
use crate::collector::{Counts, Record, Ring, RingError};
use std::path::PathBuf;
use std::time::Duration;

/// The same is told again after this.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Above this are bits of a token that are of no process: Linux has 2^22 at most, above 32 bits.
const PID_END: u32 = 32 + 22;

/// All rings.
#[derive(Debug)]
pub(super) struct Rings {
    rings: Vec<Place>,
    /// What rings counted that are gone.
    past: Counts,
    /// Times that one could not be opened or read.
    errors: u64,
}

/// Where a ring is, or should be.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    ring: Option<Ring>,
    /// Why there is none, as it was told last, and when.
    told: Option<(String, Duration)>,
}

impl Place {
    /// Tells why there is no ring, unless that was told of late.
    fn tell(&mut self, error: &RingError, now: Duration) {
        let why = format!("{}", Chain(error));
        let was_told = |(what, at): &(String, Duration)| *what == why && now < *at + TELL_AGAIN;
        if !self.told.as_ref().is_some_and(was_told) {
            tracing::warn!("{why}; it is looked for each second");
            self.told = Some((why, now));
        }
    }
}

impl Rings {
    pub(super) fn new(paths: Vec<PathBuf>) -> Rings {
        let place = |path| Place {
            path,
            ring: None,
            told: None,
        };
        Rings {
            rings: paths.into_iter().map(place).collect(),
            past: Counts::default(),
            errors: 0,
        }
    }

    /// Gives what is new in all of them.
    pub(super) fn look(&mut self, now: Duration, mut take: impl FnMut(Record<'_>)) {
        for (index, place) in (0..).zip(&mut self.rings) {
            // Processes of two containers may have one number: their requests have two.
            let take = |record: Record<'_>| {
                let token = match record.token {
                    0 => 0,
                    token => token ^ (index << PID_END),
                };
                take(Record { token, ..record });
            };
            if let Some(Err(error)) = place.ring.as_mut().map(|ring| ring.look(now, take)) {
                self.errors += 1;
                place.tell(&error, now);
                if let Some(old) = place.ring.take() {
                    self.past.add(old.counts());
                }
            }
        }
    }

    /// Looks for those that are not there, or that another has taken the place of.
    pub(super) fn upkeep(&mut self, now: Duration) {
        for place in &mut self.rings {
            if let Some(old) = place.ring.take_if(|ring| ring.is_replaced()) {
                self.past.add(old.counts());
            }
            if place.ring.is_some() {
                continue;
            }
            match Ring::open(&place.path) {
                Ok(opened) => {
                    tracing::info!(ring = %place.path.display(), "a ring is read");
                    place.ring = Some(opened);
                }
                Err(error) => {
                    self.errors += 1;
                    place.tell(&error, now);
                }
            }
        }
    }

    /// Whether there is one to look into.
    pub(super) fn are_read(&self) -> bool {
        self.rings.iter().any(|place| place.ring.is_some())
    }

    /// What they counted, those that are gone too.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.past;
        let rings = self.rings.iter().filter_map(|place| place.ring.as_ref());
        rings.for_each(|ring| counts.add(ring.counts()));
        counts
    }

    /// Times that one could not be opened or read.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// Why one is not read, if that is so.
    pub(super) fn missing(&self) -> Option<String> {
        let missing = self.rings.iter().find(|place| place.ring.is_none())?;
        let told = missing.told.as_ref().map(|(why, _)| why.clone());
        Some(told.unwrap_or_else(|| format!("no ring at {}", missing.path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::Writer;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    #[test]
    fn why_there_is_none_is_counted_each_time_and_told_when_it_is_new() {
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("rpo.ring");
        let mut rings = Rings::new(vec![path.clone()]);
        let told = |rings: &Rings| rings.rings[0].told.clone().expect("it is told");
        let seconds = Duration::from_secs;
        for second in 0..=60 {
            rings.upkeep(seconds(second));
            let (why, at) = told(&rings);
            assert!(why.contains("cannot read the ring"), "{why}");
            assert_eq!(at, seconds(if second < 60 { 0 } else { 60 }));
        }
        fs::write(&path, [0; 256]).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        rings.upkeep(seconds(61));
        assert_eq!(told(&rings).1, seconds(61), "this is new");
        assert_eq!((rings.errors(), rings.are_read()), (62, false));
        let why = rings.missing().expect("none is read");
        assert!(why.contains("no ring of records"), "{why}");
        let mut head = vec![0; 128 * 3];
        head[..8].copy_from_slice(b"RPORING1");
        head[8..12].copy_from_slice(&128_u32.to_ne_bytes());
        head[12..16].copy_from_slice(&2_u32.to_ne_bytes());
        fs::write(&path, head).expect("a file");
        rings.upkeep(seconds(62));
        assert!(rings.are_read() && rings.missing().is_none());
        assert_eq!(rings.errors(), 62);
    }

    #[test]
    fn requests_of_two_rings_are_two_whatever_their_processes_are_called() {
        let mut writers = [(); 2].map(|()| Writer::new(8));
        let paths = writers.each_ref().map(|writer| writer.path.clone());
        let mut rings = Rings::new(paths.to_vec());
        rings.upkeep(Duration::ZERO);
        writers.iter_mut().for_each(|writer| writer.write("/a"));
        let mut tokens = Vec::new();
        rings.look(Duration::ZERO, |record| tokens.push(record.token));
        assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
    }
}
