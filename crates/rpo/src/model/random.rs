//! Parameters drawn at random, to see how a policy does where nobody has tuned it.

use super::params::Params;
use fastrand::Rng;

/// The paper's server with other mixes, demands, lock shares and effects of SMT.
#[must_use]
pub fn random(paper: &Params, seed: u64) -> Params {
    let mut rng = Rng::with_seed(seed ^ 0x5EED_0F9A_9E00);
    let mut params = paper.clone();
    let mut between = |low: f64, high: f64| low + (high - low) * rng.f64();
    params.kinds.light.demand_ms *= between(0.5, 1.5);
    params.kinds.heavy.demand_ms *= between(0.5, 1.4);
    params.kinds.heavy.locked = between(0.0, 0.4);
    for kind in [&mut params.kinds.light, &mut params.kinds.heavy] {
        kind.alone = between(0.7, 0.95);
        kind.pair = between(1.0, 1.4).max(kind.alone);
    }
    params.server.pairing = between(0.1, 0.6);
    for mix in params.mixes.values_mut() {
        mix.heavy *= between(0.5, 1.2);
        for share in mix.shares.values_mut() {
            *share *= between(0.5, 2.0);
        }
    }
    params
}
