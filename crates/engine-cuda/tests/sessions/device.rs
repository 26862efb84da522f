//! A device's array, as tests use it: a cohort in, a cohort out.

use crate::typed::Typed;
use rhythm_engine::cohort::LaneError;
use rhythm_engine::session::{Full, Millis, SessionId};
use rhythm_engine_cuda::abi::{LANE_ACTIVE, LANE_FAILED, LANE_FINISHED, LaneResult, SessionKey};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::gpu::{GpuError, Scope, SharedGpu, Stream, scope};
use rhythm_engine_cuda::sessions::DeviceSessions;

pub(crate) const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(5),
];

/// A timeout whose ticks are 1 ms: it is exact.
pub(crate) const EXACT: Millis = 100;

const CREATE: u8 = 1;
pub(crate) const DESTROY: u8 = 2;

/// Random enough for tests, and the same every time.
pub(crate) fn random(seed: u64) -> u128 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    u128::from(z) << 64 | u128::from(z.wrapping_mul(0x94d0_49bb_1331_11eb))
}

/// A device's array, used from one stream.
pub(crate) struct Device<'a> {
    gpu: &'a SharedGpu,
    sessions: &'a DeviceSessions,
    stream: Stream,
}

impl<'a> Device<'a> {
    pub(crate) fn new(gpu: &'a SharedGpu, sessions: &'a DeviceSessions) -> Device<'a> {
        let stream = gpu.stream().unwrap();
        Device {
            gpu,
            sessions,
            stream,
        }
    }

    /// Has the stream do some work.
    fn run<'env>(&self, work: impl for<'s> FnOnce(&Scope<'s, 'env>) -> Result<(), GpuError>) {
        scope(&**self.gpu, &[self.stream], work).unwrap();
    }

    fn key(id: &Option<SessionId>) -> SessionKey {
        id.map_or(SessionKey::NONE, SessionKey::from)
    }

    /// The users of a cohort's sessions.
    pub(crate) fn lookup(&self, ids: &[Option<SessionId>], now: Millis) -> Vec<Option<i64>> {
        let keys: Vec<_> = ids.iter().map(Device::key).collect();
        let keys = Typed::new(self.gpu, &keys);
        let present = Typed::new(self.gpu, &vec![-1i64; ids.len()]);
        let users = Typed::new(self.gpu, &vec![-1i64; ids.len()]);
        let (found, owners) = (present.slice(), users.slice());
        self.run(|queue| (self.sessions).lookup(queue, keys.slice(), now, found, owners));
        let found = present.items().iter().zip(users.items());
        found
            .map(|(present, user)| match *present {
                0 => {
                    assert_eq!(*user, 0);
                    None
                }
                1 => Some(*user),
                other => panic!("present is {other}"),
            })
            .collect()
    }

    /// Creates sessions for the lanes that have a user and random bits.
    pub(crate) fn create(
        &self,
        lanes: &[Option<(i64, u128)>],
        now: Millis,
    ) -> Vec<Result<Option<SessionId>, Full>> {
        // Those that want none have finished, are active, or have failed.
        let result = |lane: usize, wish: &Option<(i64, u128)>| LaneResult {
            outcome: match wish {
                Some(_) => LANE_FINISHED,
                None => [LANE_FINISHED, LANE_ACTIVE, LANE_FAILED + 1][lane % 3],
            },
            session: match wish {
                Some(_) => CREATE,
                None => [0, CREATE, CREATE][lane % 3],
            },
            user: wish.map_or(-99, |wish| wish.0),
            run_length: 7,
            ..LaneResult::default()
        };
        let before: Vec<_> = lanes
            .iter()
            .enumerate()
            .map(|(lane, wish)| result(lane, wish))
            .collect();
        let randoms: Vec<[u64; 2]> = lanes
            .iter()
            .map(|wish| wish.map_or(0, |wish| wish.1))
            .map(|bits| [bits as u64, (bits >> 64) as u64])
            .collect();
        let results = Typed::new(self.gpu, &before);
        let randoms = Typed::new(self.gpu, &randoms);
        let untouched = SessionKey {
            slot: 77,
            present: 77,
            secret: [77; 2],
        };
        let created = Typed::new(self.gpu, &vec![untouched; lanes.len()]);
        let (bits, keys) = (randoms.slice(), created.slice());
        self.run(|queue| (self.sessions).create(queue, results.slice(), now, bits, keys));
        let lane = |lane: usize| {
            let (wish, mut result) = (lanes[lane], results.items()[lane]);
            let key = created.items()[lane];
            let is_refused = result.outcome == LANE_FAILED + LaneError::SessionsFull as u8;
            if is_refused {
                result.outcome = LANE_FINISHED;
            }
            assert_eq!(result, before[lane], "nothing else is changed");
            assert_eq!(key.present == 1, wish.is_some() && !is_refused);
            if key.present != 1 {
                assert_eq!(key, SessionKey::NONE);
            }
            if let (Some(id), Some((_, bits))) = (key.id(), wish) {
                assert_eq!(id.secret(), bits);
            }
            if is_refused {
                assert!(wish.is_some());
                return Err(Full);
            }
            Ok(key.id())
        };
        (0..lanes.len()).map(lane).collect()
    }

    /// Creates sessions of which none may be refused.
    pub(crate) fn create_all(
        &self,
        users: impl IntoIterator<Item = i64>,
        now: Millis,
    ) -> Vec<Option<SessionId>> {
        let wishes: Vec<_> = users
            .into_iter()
            .map(|user| Some((user, random(user as u64))))
            .collect();
        self.create(&wishes, now)
            .into_iter()
            .map(Result::unwrap)
            .collect()
    }

    /// Ends sessions; lanes that have not finished end none.
    pub(crate) fn destroy(&self, ids: &[Option<SessionId>]) {
        let keys: Vec<_> = ids.iter().map(Device::key).collect();
        let result = LaneResult {
            outcome: LANE_FINISHED,
            session: DESTROY,
            ..LaneResult::default()
        };
        self.destroy_where(&vec![result; ids.len()], &keys);
    }

    pub(crate) fn destroy_where(&self, results: &[LaneResult], keys: &[SessionKey]) {
        let results = Typed::new(self.gpu, results);
        let keys = Typed::new(self.gpu, keys);
        self.run(|queue| (self.sessions).destroy(queue, results.slice(), keys.slice()));
    }

    pub(crate) fn sweep(&self, now: Millis, budget: u32) {
        self.run(|queue| self.sessions.sweep(queue, now, budget));
    }

    pub(crate) fn live(&self) -> usize {
        self.sessions.live().unwrap()
    }
}

/// Runs a test on arrays of this capacity, whose refusals are the truth, in every order.
pub(crate) fn in_all_orders(capacity: u32, timeout: Millis, test: impl Fn(Device<'_>)) {
    for order in ORDERS {
        let gpu = Emulated::new(order);
        let sessions = DeviceSessions::new(&gpu, capacity, timeout).unwrap();
        assert_eq!(sessions.capacity(), capacity as usize);
        let sessions = sessions.with_search(capacity);
        test(Device::new(&gpu, &sessions));
    }
}
