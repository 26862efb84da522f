//! Who asks what: streams of sessions, each with its own random numbers, so that every policy is
//! asked the same.

use super::ModelError;
use super::params::{Kind, Mix, Params};
use super::server::{HEAVY, LIGHT};
use crate::ClassId;
use fastrand::Rng;

/// A workload of the paper.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Sessions of one mix (section II), so many requests a second.
    Mix {
        /// Its name in the parameters.
        mix: String,
        /// Requests a second.
        rate: f64,
    },
    /// S(p), section IV-B: a list of sessions of two sorts, over and over.
    Custom {
        /// The switching probability.
        switching: f64,
        /// Mean seconds between a light session and the next.
        light_s: f64,
        /// Mean seconds between a heavy session and the next.
        heavy_s: f64,
    },
}

impl Workload {
    /// One of a mix.
    #[must_use]
    pub fn mix(name: &str, rate: f64) -> Workload {
        Workload::Mix {
            mix: name.to_owned(),
            rate,
        }
    }

    /// S(percent) at the paper's high load.
    #[must_use]
    pub fn custom(percent: f64) -> Workload {
        Workload::Custom {
            switching: percent / 100.0,
            light_s: 0.02,
            heavy_s: 0.4,
        }
    }
}

/// A session that begins.
pub(super) struct Session {
    pub(super) mix: usize,
    left: u32,
    rng: Rng,
}

/// What a session asks for.
pub(super) struct Asked {
    pub(super) class: ClassId,
    pub(super) kind: usize,
    /// At 1 GHz, in seconds: outside the lock, and under it.
    pub(super) work: [f64; 2],
}

/// The sessions of a workload, one after another.
pub(super) struct Sessions {
    mixes: Vec<PageMix>,
    gaps: Vec<f64>,
    /// Which mix each session of the list is of; one entry where there is only one mix.
    list: Vec<u8>,
    begun: usize,
    think: f64,
    kinds: [Kind; 2],
    seed: u64,
    rng: Rng,
}

/// Pages with their shares summed up, and which part of each is heavy.
struct PageMix {
    pages: Vec<(f64, ClassId, f64)>,
    locked: Option<f64>,
    requests: f64,
}

impl Sessions {
    pub(super) fn new(
        params: &Params,
        workload: &Workload,
        seed: u64,
    ) -> Result<Sessions, ModelError> {
        let mut rng = Rng::with_seed(seed);
        let (mixes, gaps, list) = match workload {
            Workload::Mix { mix, rate } => {
                let mix = params.mix(mix)?;
                let requests = mix.requests.unwrap_or(params.sessions.requests);
                (vec![mix], vec![requests / rate], vec![0])
            }
            Workload::Custom {
                switching,
                light_s,
                heavy_s,
            } => (
                vec![params.mix("light_sessions")?, params.mix("heavy_sessions")?],
                vec![*light_s, *heavy_s],
                order(params.custom.sessions, *switching, &mut rng),
            ),
        };
        Ok(Sessions {
            mixes: mixes
                .into_iter()
                .map(|mix| PageMix::new(params, mix))
                .collect(),
            gaps,
            list,
            begun: 0,
            think: params.sessions.think_s,
            kinds: [params.kinds.light.clone(), params.kinds.heavy.clone()],
            seed,
            rng,
        })
    }

    /// How often the whole list has begun.
    pub(super) fn cycles(&self) -> usize {
        self.begun / self.list.len()
    }

    /// The next session, and how long after it the one that follows begins.
    pub(super) fn begin(&mut self) -> (Session, f64) {
        let mix = usize::from(self.list[self.begun % self.list.len()]);
        let seed = self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (self.begun as u64);
        self.begun += 1;
        let mut rng = Rng::with_seed(seed);
        let requests = self.mixes[mix].requests;
        let more = exponential(&mut rng, 1.0) / -(1.0 - 1.0 / requests).max(1e-9).ln();
        let session = Session {
            mix,
            left: 1 + more as u32,
            rng,
        };
        (session, exponential(&mut self.rng, self.gaps[mix]))
    }

    /// What the session asks for next.
    pub(super) fn ask(&self, session: &mut Session) -> Asked {
        session.left -= 1;
        let mix = &self.mixes[session.mix];
        let (class, heavy) = mix.draw(&mut session.rng);
        let index = if heavy { HEAVY } else { LIGHT };
        let kind = &self.kinds[index];
        let part = kind.demand_ms / 1e3 / f64::from(kind.regularity);
        let demand: f64 = (0..kind.regularity)
            .map(|_| exponential(&mut session.rng, part))
            .sum();
        let locked = demand
            * if heavy {
                mix.locked.unwrap_or(kind.locked)
            } else {
                kind.locked
            };
        Asked {
            class,
            kind: index,
            work: [demand - locked, locked],
        }
    }

    /// How long the session pauses before it asks again; None at its end.
    pub(super) fn pause(&self, session: &mut Session) -> Option<f64> {
        (session.left > 0).then(|| exponential(&mut session.rng, self.think))
    }
}

impl PageMix {
    fn new(params: &Params, mix: &Mix) -> PageMix {
        let weight = |page: &String| mix.shares.get(page).copied().unwrap_or(0.0);
        let sum = |pages: &[String]| pages.iter().map(weight).sum::<f64>();
        let (friendly, others) = (sum(&params.pages.friendly), sum(&params.pages.heaviest));
        let share = mix.friendly.unwrap_or(friendly / (friendly + others));
        let scaled = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        let mut pages = Vec::new();
        let mut left = mix.heavy;
        for (index, page) in params.pages.friendly.iter().enumerate() {
            let share = weight(page) * scaled(share, friendly);
            pages.push((share, class(index), 0.0));
        }
        for (index, page) in params.pages.heaviest.iter().enumerate() {
            let share = weight(page) * scaled(1.0 - share, others);
            let heavy = share.min(left);
            left -= heavy;
            let heavy = if share > 0.0 { heavy / share } else { 0.0 };
            pages.push((share, class(params.pages.friendly.len() + index), heavy));
        }
        let requests = mix.requests.unwrap_or(params.sessions.requests);
        PageMix {
            pages,
            locked: mix.locked,
            requests,
        }
    }

    fn draw(&self, rng: &mut Rng) -> (ClassId, bool) {
        let mut at = rng.f64();
        let mut drawn = None;
        for (share, class, heavy) in &self.pages {
            if *share > 0.0 {
                drawn = Some((*class, *heavy));
                if at < *share {
                    break;
                }
                at -= share;
            }
        }
        let (class, heavy) = drawn.unwrap_or((ClassId::OTHER, 0.0));
        (class, rng.f64() < heavy)
    }
}

fn class(index: usize) -> ClassId {
    ClassId(u16::try_from(index + 1).unwrap_or(0))
}

/// The order of the custom sessions: after each, one of the other sort with the switching
/// probability, as long as both sorts are left. S(0) has a single change, from light to heavy.
fn order(of_each: u32, switching: f64, rng: &mut Rng) -> Vec<u8> {
    let mut left = [of_each, of_each];
    let mut sort = 0;
    let mut list = Vec::with_capacity(2 * of_each as usize);
    while left[0] + left[1] > 0 {
        if left[sort] == 0 || (!list.is_empty() && left[1 - sort] > 0 && rng.f64() < switching) {
            sort = 1 - sort;
        }
        left[sort] -= 1;
        list.push(sort as u8);
    }
    list
}

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_lists_have_the_same_sessions_and_change_as_often_as_asked() {
        for percent in [0.0, 5.0, 15.0, 50.0] {
            let list = order(2000, percent / 100.0, &mut Rng::with_seed(7));
            assert_eq!(list.iter().filter(|sort| **sort == 0).count(), 2000);
            assert_eq!(list.len(), 4000);
            let changes = list.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
            if percent == 0.0 {
                assert_eq!(changes as usize, 1);
            } else {
                let share = changes / 4000.0 * 100.0;
                assert!(
                    share < percent * 1.1 && share > percent * 0.7,
                    "{percent}: {share}"
                );
            }
        }
    }

    #[test]
    fn mixes_have_the_shares_that_the_paper_saw() {
        let params = Params::paper().expect("params/paper.toml");
        let mut rng = Rng::with_seed(1);
        for (name, friendly, heavy) in [
            ("browsing", 0.727, 0.02),
            ("ordering", 0.48, 0.3),
            ("heavy_sessions", 0.0, 0.8),
        ] {
            let mut mix = params.mix(name).expect("a mix of the paper").clone();
            mix.heavy = heavy;
            let mix = PageMix::new(&params, &mix);
            let drawn: Vec<_> = (0..100_000).map(|_| mix.draw(&mut rng)).collect();
            let share = |counts: &dyn Fn(&(ClassId, bool)) -> bool| {
                drawn.iter().filter(|one| counts(one)).count() as f64 / 1e5
            };
            assert!(
                (share(&|(class, _)| class.0 <= 4) - friendly).abs() < 0.01,
                "{name}"
            );
            assert!((share(&|(_, is)| *is) - heavy).abs() < 0.01, "{name}");
        }
    }

    #[test]
    fn sessions_are_as_long_as_asked() {
        let params = Params::paper().expect("params/paper.toml");
        let workload = Workload::mix("browsing", 356.0);
        let mut sessions = Sessions::new(&params, &workload, 3).expect("a mix of the paper");
        let lengths = (0..20_000)
            .map(|_| f64::from(sessions.begin().0.left))
            .sum::<f64>();
        assert!(
            (lengths / 20_000.0 - 8.6).abs() < 0.2,
            "{}",
            lengths / 20_000.0
        );
    }
}
