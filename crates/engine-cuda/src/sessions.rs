//! The session array on the device (paper, section 4.3.1), for cohorts whose requests never leave
//! it.
//!
//! It has the ids of the engine's [`SessionArray`](rhythm_engine::session::SessionArray), slot and
//! 128 random bits, and of its rules these: idle sessions expire at most 3 % late and never early,
//! a full array refuses and evicts nobody. Of the others it has none: a session that was never used
//! expires as any does, a user may have any number, and no slots are kept for who has none.
//! `kernels/sessions.cu` says how, and why several streams can use it at the same time.
//!
//! A refusal costs little, which bounds what it can know: a lane that finds no free slot searches a
//! part of the array for expired sessions, and others may have expired elsewhere.
//! [`DeviceSessions::sweep`], called about once per tick for the whole array (a millisecond for
//! millions of slots), keeps those few.

use crate::abi::sessions::{
    CreateArgs, DestroyArgs, InitArgs, LookupArgs, REGIONS, SessionArray, Slot, SweepArgs,
    WINDOW_SLOTS,
};
use crate::abi::{LaneResult, SessionKey};
use crate::gpu::{
    DeviceBuffer, Extent, Extents, GpuError, PinnedBuffer, Queue, SharedGpu, Slice, Stream, scope,
};
use rhythm_engine::session::{Millis, SessionId};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

impl From<SessionId> for SessionKey {
    fn from(id: SessionId) -> SessionKey {
        let secret = id.secret();
        SessionKey {
            slot: id.slot(),
            present: 1,
            secret: [secret as u64, (secret >> 64) as u64],
        }
    }
}

impl SessionKey {
    /// No id.
    pub const NONE: SessionKey = SessionKey {
        slot: 0,
        present: 0,
        secret: [0; 2],
    };

    /// The id, if there is one.
    #[must_use]
    pub fn id(&self) -> Option<SessionId> {
        let [low, high] = self.secret.map(u128::from);
        (self.present != 0).then(|| SessionId::new(self.slot, high << 64 | low))
    }
}

/// More slots than this are refused: it is half of what 32 bits can number, and 64 GiB.
const CAPACITY_MAX: u32 = 1 << 31;

/// Slots that a login searches for expired sessions when none is free.
const SEARCH: u32 = 64;

/// The sessions of a server, in the device's memory, all of it allocated at the start.
#[derive(Debug)]
pub struct DeviceSessions {
    gpu: SharedGpu,
    memory: DeviceBuffer,
    slots: Extent<Slot>,
    free_bits: Extent<u64>,
    /// Of each region.
    free_counts: Extent<u64>,
    cursor: Extent<u64>,
    /// Windows of a region.
    region_windows: u32,
    idle_ticks: u32,
    tick_shift: u32,
    search: u32,
    /// Where the next sweep begins.
    swept: AtomicU32,
    /// What the counts are copied to, and by what stream.
    counts: Mutex<(Stream, PinnedBuffer)>,
}

impl DeviceSessions {
    /// An array for `capacity` sessions, each of which expires when it has not been used for
    /// `idle_timeout`.
    ///
    /// # Errors
    /// There is no room for 32 bytes and a bit a session, or the device failed.
    pub fn new(
        gpu: &SharedGpu,
        capacity: u32,
        idle_timeout: Millis,
    ) -> Result<DeviceSessions, GpuError> {
        let windows = capacity.div_ceil(WINDOW_SLOTS);
        // The regions' counts and the cursor are on lines of their own.
        let mut places = Extents::default();
        let free_counts = places.take::<u64>(REGIONS);
        let cursor = places.take::<u64>(1);
        let free_bits = places.take::<u64>(windows as usize * (WINDOW_SLOTS / u64::BITS) as usize);
        let slots = places.take::<Slot>(capacity as usize);
        if capacity > CAPACITY_MAX {
            return Err(GpuError::OutOfMemory(slots.range().end));
        }
        let memory = DeviceBuffer::new(gpu, slots.range().end)?;
        let tick_shift = (idle_timeout / 64).max(1).ilog2();
        let stream = gpu.stream()?;
        let sessions = DeviceSessions {
            gpu: gpu.clone(),
            memory,
            slots,
            free_bits,
            free_counts,
            cursor,
            region_windows: windows.div_ceil(REGIONS as u32).max(1),
            // At most 128, or 127 where a tick is a millisecond.
            idle_ticks: idle_timeout.div_ceil(1 << tick_shift) as u32,
            tick_shift,
            search: SEARCH,
            swept: AtomicU32::new(0),
            counts: Mutex::new((stream, PinnedBuffer::new(gpu, size_of::<u64>() * REGIONS)?)),
        };
        let array = sessions.array();
        scope(&**gpu, &[stream], |queue| queue.launch(InitArgs { array }))?;
        Ok(sessions)
    }

    /// The array, as kernels take it.
    fn array(&self) -> SessionArray<'_> {
        SessionArray {
            slots: self.memory.slice(self.slots),
            free_bits: self.memory.slice(self.free_bits),
            free_counts: self.memory.slice(self.free_counts),
            cursor: self.memory.slice(self.cursor),
            capacity: self.slots.len() as u32,
            region_windows: self.region_windows,
            idle_ticks: self.idle_ticks,
            padding: 0,
        }
    }

    /// The same, with logins that search so many slots each for expired sessions when none is free
    /// (64 if not said). With as many as there are slots, a refusal is the truth.
    #[must_use]
    pub fn with_search(self, search: u32) -> DeviceSessions {
        DeviceSessions { search, ..self }
    }

    /// The number of slots.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Looks up the sessions of a cohort, whose `keys` these are: of each lane `present` becomes 1
    /// if there is a session of that id which has not expired, and `users` whose it is; else 0 and
    /// 0. It counts as a use.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Panics
    /// There are not as many of each.
    pub fn lookup<'m>(
        &'m self,
        queue: &Queue<'m>,
        keys: Slice<'m, SessionKey>,
        now: Millis,
        present: Slice<'m, i64>,
        users: Slice<'m, i64>,
    ) -> Result<(), GpuError> {
        let lanes = keys.len();
        assert_eq!([present.len(), users.len()], [lanes; 2]);
        queue.launch(LookupArgs {
            array: self.array(),
            keys,
            present,
            users,
            lanes: lanes as u32,
            now: self.tick(now),
        })
    }

    /// Creates a session for each of the `results` that has finished and asks for one, of its
    /// `user`. `randoms` has 128 bits for each lane (low half first) that nobody can predict:
    /// knowing them is all it takes to use the session. `created` gets the key of each lane, absent
    /// where none was created; a lane that finds the array full fails with
    /// [`LaneError::SessionsFull`](rhythm_engine::cohort::LaneError::SessionsFull).
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Panics
    /// There are not as many of each.
    pub fn create<'m>(
        &'m self,
        queue: &Queue<'m>,
        results: Slice<'m, LaneResult>,
        now: Millis,
        randoms: Slice<'m, [u64; 2]>,
        created: Slice<'m, SessionKey>,
    ) -> Result<(), GpuError> {
        let lanes = results.len();
        assert_eq!([randoms.len(), created.len()], [lanes; 2]);
        queue.launch(CreateArgs {
            array: self.array(),
            results,
            randoms,
            created,
            lanes: lanes as u32,
            now: self.tick(now),
            search: self.search,
            padding: 0,
        })
    }

    /// Ends the sessions of `keys`, expired or not, for those of the `results` that have finished
    /// and ask for it.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Panics
    /// There are not as many of each.
    pub fn destroy<'m>(
        &'m self,
        queue: &Queue<'m>,
        results: Slice<'m, LaneResult>,
        keys: Slice<'m, SessionKey>,
    ) -> Result<(), GpuError> {
        let lanes = results.len();
        assert_eq!(keys.len(), lanes);
        queue.launch(DestroyArgs {
            array: self.array(),
            results,
            keys,
            lanes: lanes as u32,
            padding: 0,
        })
    }

    /// Examines the next `budget` slots, each at most once, and frees those whose sessions have
    /// expired. Successive calls go round the array.
    ///
    /// # Errors
    /// The device failed.
    pub fn sweep<'m>(
        &'m self,
        queue: &Queue<'m>,
        now: Millis,
        budget: u32,
    ) -> Result<(), GpuError> {
        let capacity = self.slots.len() as u32;
        let budget = budget.min(capacity);
        let advance = |first: u32| {
            let left = capacity - first;
            Some(if budget < left {
                first + budget
            } else {
                budget - left
            })
        };
        // The closure never says no, so both arms are what was there.
        let first = match self
            .swept
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance)
        {
            Ok(first) | Err(first) => first,
        };
        queue.launch(SweepArgs {
            array: self.array(),
            first,
            budget,
            now: self.tick(now),
            padding: 0,
        })
    }

    /// Sessions that exist, expired ones that nobody has noticed included; a few more or less than
    /// that while others are created and destroyed. Waits for the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn live(&self) -> Result<usize, GpuError> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (stream, buffer) = &mut *counts;
        let place = Extent::<u64>::new(0, REGIONS);
        // Words that only atomics change, whatever other streams do meanwhile.
        let (to, from) = (buffer.slice(place), self.memory.slice(self.free_counts));
        scope(&*self.gpu, &[*stream], |queue| queue.copy(to, from))?;
        let bytes = buffer.host();
        let counts = (0..REGIONS).map(|region| place.read(bytes, region).cast_signed());
        let free = counts.map(|count| count.max(0));
        let free = usize::try_from(free.sum::<i64>()).unwrap_or(0);
        Ok(self.capacity().saturating_sub(free))
    }

    /// The time in ticks, of which the kernels need the low half.
    fn tick(&self, now: Millis) -> u32 {
        (now >> self.tick_shift) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_key() {
        let id = SessionId::new(0x0012_abcd, 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978);
        let key = SessionKey::from(id);
        assert_eq!(key.secret, [0x0f1e_2d3c_4b5a_6978, 0x0123_4567_89ab_cdef]);
        assert_eq!(key.id(), Some(id));
        let text = id.to_text();
        assert_eq!(SessionId::parse(&text).map(SessionKey::from), Some(key));
        assert_eq!(SessionKey::NONE.id(), None);
    }
}
