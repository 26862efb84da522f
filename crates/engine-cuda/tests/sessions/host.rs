//! Beside the host's array.

use crate::device::{Device, EXACT, ORDERS, random};
use rhythm_engine::session::{Full, Millis, SessionArray, SessionId};
use rhythm_engine_cuda::gpu::emulated::Emulated;
use rhythm_engine_cuda::sessions::DeviceSessions;

/// Cohorts of random calls do what the same calls one by one do to the host's array.
#[test]
fn cohorts_do_what_the_host_does() {
    for (round, (order, lanes)) in ORDERS
        .into_iter()
        .flat_map(|order| [1, 33, 256].map(|lanes| (order, lanes)))
        .enumerate()
    {
        let capacity = [6, 150, 700][round % 3];
        let gpu = Emulated::new(order);
        let sessions = DeviceSessions::new(&gpu, capacity, EXACT)
            .unwrap()
            .with_search(capacity);
        let device = Device::new(&gpu, &sessions);
        let host = SessionArray::new(capacity, EXACT);
        // The device's id and the host's of each session there ever was.
        let mut ids: Vec<(SessionId, SessionId)> = Vec::new();
        let mut seed = round as u64 * 1_000_000;
        let mut below = |n: usize| {
            seed += 1;
            (random(seed) >> 64) as usize % n
        };
        let (mut now, mut user) = (12_345, 0);
        let (mut refused, mut found, mut gone) = (0, 0, 0);
        for _ in 0..if lanes == 1 { 3000 } else { 200 } {
            // Some of the last ones, some never there, some with a wrong secret.
            let chosen = |below: &mut dyn FnMut(usize) -> usize, wrong: usize| -> Vec<_> {
                let mut one = || {
                    let recent = ids.len().min(2 * capacity as usize);
                    if recent == 0 || below(10) == 0 {
                        return (None, None);
                    }
                    let (mut ours, mut theirs) = ids[ids.len() - 1 - below(recent)];
                    if below(10) < wrong {
                        let bit = 1 << below(128);
                        ours = SessionId::new(ours.slot(), ours.secret() ^ bit);
                        theirs = SessionId::new(theirs.slot(), theirs.secret() ^ bit);
                    }
                    (Some(ours), Some(theirs))
                };
                (0..lanes).map(|_| one()).collect()
            };
            match below(8) {
                0..=2 => {
                    let wishes: Vec<_> = (0..lanes)
                        .map(|_| {
                            // No two sessions have the same secret, or an old id could be a new
                            // one.
                            user += 1;
                            (below(4) > 0).then(|| (user, random(user as u64)))
                        })
                        .collect();
                    let created = device.create(&wishes, now);
                    // Which lanes are refused is the device's choice, how many are is not.
                    for (created, wish) in created.iter().zip(&wishes) {
                        if let (Ok(Some(id)), Some((user, bits))) = (created, wish) {
                            ids.push((*id, host.create(*user, *bits, now).unwrap()));
                        }
                    }
                    for _ in created.iter().filter(|created| created.is_err()) {
                        assert_eq!(host.create(0, 0, now), Err(Full));
                        refused += 1;
                    }
                }
                3..=5 => {
                    let (ours, theirs): (Vec<_>, Vec<_>) =
                        chosen(&mut below, 2).into_iter().unzip();
                    let mut expected = vec![None; lanes];
                    host.lookup_batch(&theirs, now, &mut expected);
                    found += expected.iter().flatten().count();
                    gone += expected
                        .iter()
                        .zip(&theirs)
                        .filter(|(user, id)| user.is_none() && id.is_some())
                        .count();
                    assert_eq!(device.lookup(&ours, now), expected);
                }
                6 => {
                    let (ours, theirs): (Vec<_>, Vec<_>) =
                        chosen(&mut below, 1).into_iter().unzip();
                    device.destroy(&ours);
                    for id in theirs.iter().flatten() {
                        host.destroy(id);
                    }
                }
                _ => {
                    now += below(40) as Millis;
                    device.sweep(now, below(capacity as usize) as u32);
                    if below(4) == 0 {
                        device.sweep(now, capacity);
                        host.sweep(now, capacity as usize);
                        assert_eq!(device.live(), host.live());
                    }
                }
            }
        }
        assert!(
            refused > 0 && found > 0 && gone > 0,
            "{refused} {found} {gone}"
        );
    }
}
