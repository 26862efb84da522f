//! The session array on the device (paper, section 4.3.1), for cohorts whose requests never leave
//! it.
//!
//! It has the ids and the rules of the engine's
//! [`SessionArray`](rhythm_engine::session::SessionArray): slot and 128 random bits, idle sessions
//! expire at most 3 % late and never early, a full array refuses and evicts nobody.
//! `kernels/sessions.cu` says how, and why several streams can use it at the same time.
//!
//! A refusal costs little, which bounds what it can know: a lane that finds no free slot searches a
//! part of the array for expired sessions, and others may have expired elsewhere.
//! [`DeviceSessions::sweep`], called about once per tick for the whole array (a millisecond for
//! millions of slots), keeps those few.

#![allow(unsafe_code)]

use crate::abi::SessionKey;
use crate::gpu::{
    Address, Arguments, DeviceBuffer, GpuError, Grid, Kernel, PinnedBuffer, SharedGpu, Stream,
    launch,
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

/// Slots of a window: what a warp looks at at once.
const WINDOW_SLOTS: u32 = 2048;

/// Parts of the array that count their free slots.
const REGIONS: usize = 32;

/// Where in the array's memory what is: the regions' counts and the cursor on lines of their own,
/// the free bits, the slots.
const CURSOR: usize = 8 * REGIONS;
const FREE_BITS: usize = 512;

/// More slots than this are refused: it is half of what 32 bits can number, and 64 GiB.
const CAPACITY_MAX: u32 = 1 << 31;

/// Slots that a login searches for expired sessions when none is free.
const SEARCH: u32 = 64;

/// The kernels' struct; see `kernels/sessions.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Array {
    slots: Address,
    free_bits: Address,
    free_counts: Address,
    cursor: Address,
    capacity: u32,
    region_windows: u32,
    idle_ticks: u32,
    padding: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct InitArguments {
    array: Array,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct LookupArguments {
    array: Array,
    keys: Address,
    present: Address,
    users: Address,
    lanes: u32,
    now: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct CreateArguments {
    array: Array,
    results: Address,
    randoms: Address,
    created: Address,
    lanes: u32,
    now: u32,
    search: u32,
    padding: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct DestroyArguments {
    array: Array,
    results: Address,
    keys: Address,
    lanes: u32,
    padding: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct SweepArguments {
    array: Array,
    first: u32,
    budget: u32,
    now: u32,
    padding: u32,
}

// SAFETY: as `InitArgs` in kernels/sessions.cu, field by field.
unsafe impl Arguments for InitArguments {
    const KERNEL: Kernel = Kernel::SessionsInit;
}
// SAFETY: as `LookupArgs`.
unsafe impl Arguments for LookupArguments {
    const KERNEL: Kernel = Kernel::SessionsLookup;
}
// SAFETY: as `CreateArgs`.
unsafe impl Arguments for CreateArguments {
    const KERNEL: Kernel = Kernel::SessionsCreate;
}
// SAFETY: as `DestroyArgs`.
unsafe impl Arguments for DestroyArguments {
    const KERNEL: Kernel = Kernel::SessionsDestroy;
}
// SAFETY: as `SweepArgs`.
unsafe impl Arguments for SweepArguments {
    const KERNEL: Kernel = Kernel::SessionsSweep;
}

/// The sessions of a server, in the device's memory, all of it allocated at the start.
#[derive(Debug)]
pub struct DeviceSessions {
    gpu: SharedGpu,
    /// Of the array; never read, but it must live.
    _memory: DeviceBuffer,
    array: Array,
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
        let slots = FREE_BITS + windows as usize * (WINDOW_SLOTS as usize / 8);
        let bytes = slots + capacity as usize * 32;
        if capacity > CAPACITY_MAX {
            return Err(GpuError::OutOfMemory(bytes));
        }
        let memory = DeviceBuffer::new(gpu, bytes)?;
        let tick_shift = (idle_timeout / 64).max(1).ilog2();
        let array = Array {
            slots: memory.address().plus(slots),
            free_bits: memory.address().plus(FREE_BITS),
            free_counts: memory.address(),
            cursor: memory.address().plus(CURSOR),
            capacity,
            region_windows: windows.div_ceil(REGIONS as u32).max(1),
            // At most 128, or 127 where a tick is a millisecond.
            idle_ticks: idle_timeout.div_ceil(1 << tick_shift) as u32,
            padding: 0,
        };
        let stream = gpu.stream()?;
        let threads = (capacity as usize).max(windows as usize * 32).max(REGIONS);
        // SAFETY: the array is so large and nobody knows it yet.
        unsafe {
            launch(
                &**gpu,
                stream,
                Grid::over(threads, 256),
                &InitArguments { array },
            )?;
        }
        gpu.synchronize(stream)?;
        Ok(DeviceSessions {
            gpu: gpu.clone(),
            _memory: memory,
            array,
            tick_shift,
            search: SEARCH,
            swept: AtomicU32::new(0),
            counts: Mutex::new((stream, PinnedBuffer::new(gpu, 8 * REGIONS)?)),
        })
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
        self.array.capacity as usize
    }

    /// Looks up the sessions of a cohort: for each of `lanes` [`SessionKey`]s at `keys` an `i64` at
    /// `present`, 1 if there is a session of that id which has not expired, and one at `users`,
    /// whose it is; else 0 and 0. It counts as a use.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Safety
    /// The arrays are so long, alive and left alone by others until the stream has done it; the
    /// sessions are alive until then, too.
    pub unsafe fn lookup(
        &self,
        stream: Stream,
        keys: Address,
        lanes: u32,
        now: Millis,
        present: Address,
        users: Address,
    ) -> Result<(), GpuError> {
        let arguments = LookupArguments {
            array: self.array,
            keys,
            present,
            users,
            lanes,
            now: self.tick(now),
        };
        // SAFETY: the array's addresses are ours, the others the caller's.
        unsafe {
            launch(
                &*self.gpu,
                stream,
                Grid::over(lanes as usize, 256),
                &arguments,
            )
        }
    }

    /// Creates a session for each of `lanes` [`LaneResult`](crate::abi::LaneResult)s at `results`
    /// that has finished and asks for one, of its `user`. `randoms` has 128 bits for each lane (low
    /// half first) that nobody can predict: knowing them is all it takes to use the session.
    /// `created` gets a [`SessionKey`] for each lane, absent where none was created; a lane that
    /// finds the array full fails with
    /// [`LaneError::SessionsFull`](rhythm_engine::cohort::LaneError::SessionsFull).
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Safety
    /// As [`DeviceSessions::lookup`].
    pub unsafe fn create(
        &self,
        stream: Stream,
        results: Address,
        lanes: u32,
        now: Millis,
        randoms: Address,
        created: Address,
    ) -> Result<(), GpuError> {
        let arguments = CreateArguments {
            array: self.array,
            results,
            randoms,
            created,
            lanes,
            now: self.tick(now),
            search: self.search,
            padding: 0,
        };
        // SAFETY: the array's addresses are ours, the others the caller's.
        unsafe {
            launch(
                &*self.gpu,
                stream,
                Grid::over(lanes as usize, 128),
                &arguments,
            )
        }
    }

    /// Ends the sessions of `keys`, expired or not, for those of `lanes` results that have finished
    /// and ask for it.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Safety
    /// As [`DeviceSessions::lookup`].
    pub unsafe fn destroy(
        &self,
        stream: Stream,
        results: Address,
        lanes: u32,
        keys: Address,
    ) -> Result<(), GpuError> {
        let arguments = DestroyArguments {
            array: self.array,
            results,
            keys,
            lanes,
            padding: 0,
        };
        // SAFETY: the array's addresses are ours, the others the caller's.
        unsafe {
            launch(
                &*self.gpu,
                stream,
                Grid::over(lanes as usize, 256),
                &arguments,
            )
        }
    }

    /// Examines the next `budget` slots, each at most once, and frees those whose sessions have
    /// expired. Successive calls go round the array.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Safety
    /// The sessions are alive until the stream has done it.
    pub unsafe fn sweep(&self, stream: Stream, now: Millis, budget: u32) -> Result<(), GpuError> {
        let capacity = self.array.capacity;
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
        let arguments = SweepArguments {
            array: self.array,
            first,
            budget,
            now: self.tick(now),
            padding: 0,
        };
        // SAFETY: the array's addresses are ours.
        unsafe {
            launch(
                &*self.gpu,
                stream,
                Grid::over(budget as usize, 256),
                &arguments,
            )
        }
    }

    /// Sessions that exist, expired ones that nobody has noticed included; a few more or less than
    /// that while others are created and destroyed. Waits for the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn live(&self) -> Result<usize, GpuError> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (stream, buffer) = &*counts;
        let bytes = 8 * REGIONS;
        // SAFETY: both are so large, and this stream alone uses the buffer, which the lock keeps to
        // one call at a time. Counts are words that only atomics change.
        unsafe {
            self.gpu
                .copy(*stream, buffer.address(), self.array.free_counts, bytes)?;
        }
        self.gpu.synchronize(*stream)?;
        // SAFETY: the stream has done it.
        let (words, _) = unsafe { buffer.bytes() }[..bytes].as_chunks::<8>();
        let free = words.iter().map(|word| i64::from_ne_bytes(*word).max(0));
        let free = usize::try_from(free.sum::<i64>()).unwrap_or(0);
        Ok(self.capacity().saturating_sub(free))
    }

    /// The time in ticks, of which the kernels need the low half.
    fn tick(&self, now: Millis) -> u32 {
        (now >> self.tick_shift) as u32
    }
}

const _: () = assert!(size_of::<Array>() == 48 && size_of::<CreateArguments>() == 88);

#[cfg(all(test, feature = "emulation"))]
mod tests {
    use super::*;
    use crate::gpu::emulated::Emulated;

    fn same_size<A: Arguments>() {
        let size = Emulated::arguments_size(A::KERNEL);
        assert_eq!(size, Some(size_of::<A>()), "{:?}", A::KERNEL);
    }

    #[test]
    fn the_kernels_take_the_same_structs() {
        same_size::<InitArguments>();
        same_size::<LookupArguments>();
        same_size::<CreateArguments>();
        same_size::<DestroyArguments>();
        same_size::<SweepArguments>();
    }

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
