//! The kernels on the CPU: the C++ of `emulation/` behind the trait [`Gpu`].
//!
//! Copies and launches are done at the call, on the calling thread, so that streams are ordered by
//! themselves. A kernel that fails takes the device with it, as on a GPU: every later call fails
//! with its text.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_ulonglong, c_void};
use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::interface::{Address, Completion, Gpu, GpuError, Grid, Mark, SharedGpu, Stream};
use super::kernel::Kernel;

unsafe extern "C" {
    fn rhythm_emulation_arguments_size(name: *const c_char) -> c_long;
    fn rhythm_emulation_allocate(bytes: c_ulong, zeroed: c_int) -> *mut c_void;
    fn rhythm_emulation_free(memory: *mut c_void);
    fn rhythm_emulation_copy(to: *mut c_void, from: *const c_void, bytes: c_ulong);
    fn rhythm_emulation_fill(to: *mut c_void, value: c_int, bytes: c_ulong);
    fn rhythm_emulation_launch(
        name: *const c_char,
        blocks: c_uint,
        threads: c_uint,
        shared_bytes: c_uint,
        args: *const c_void,
        args_size: c_ulong,
        order: c_uint,
        seed: c_ulonglong,
        error: *mut c_char,
        error_size: c_ulong,
    ) -> c_int;
}

/// In which order the blocks of a grid, the warps of a block and the lanes of a warp get their
/// turns. A kernel without mistakes does the same under each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneOrder {
    /// The lowest first.
    #[default]
    Ascending,
    /// The highest first.
    Descending,
    /// By chance from a seed, anew at each turn; atomics are turns, too.
    Shuffled(u64),
}

/// What an emulated GPU is like.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whose turn it is.
    pub order: LaneOrder,
    /// Completions are called by a thread of its own instead of at once, and a failure shows only
    /// when a completion or a wait has told.
    pub deferred: bool,
    /// Which launch fails, counted from 0.
    pub fail_launch: Option<u64>,
    /// Bytes of device and pinned memory that can be allocated.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            order: LaneOrder::default(),
            deferred: false,
            fail_launch: None,
            memory: usize::MAX,
        }
    }
}

/// Runs a kernel to its end on the calling thread: what tests of the emulation itself use.
///
/// # Errors
/// It cannot be launched so, or it did what CUDA leaves undefined: says what, where, and by whom.
///
/// # Safety
/// What `arguments` points to is alive and used as the kernel says.
pub unsafe fn run(
    name: &str,
    grid: Grid,
    arguments: &[u8],
    order: LaneOrder,
) -> Result<(), String> {
    // SAFETY: `arguments` is as long as it says; the rest is the caller's promise.
    unsafe { run_raw(name, grid, arguments.as_ptr(), arguments.len(), order) }
}

/// # Safety
/// `arguments` points to so many bytes; as [`run`].
unsafe fn run_raw(
    name: &str,
    grid: Grid,
    arguments: *const u8,
    arguments_size: usize,
    order: LaneOrder,
) -> Result<(), String> {
    let c_name = CString::new(name).map_err(|_| "a kernel's name has no zero byte".to_owned())?;
    let (order, seed) = match order {
        LaneOrder::Ascending => (0, 0),
        LaneOrder::Descending => (1, 0),
        LaneOrder::Shuffled(seed) => (2, seed),
    };
    let mut error = [0u8; 1024];
    // SAFETY: the pointers are to what their lengths say, and the name ends with a zero; the rest
    // is the caller's promise.
    let outcome = unsafe {
        rhythm_emulation_launch(
            c_name.as_ptr(),
            grid.blocks,
            grid.threads,
            grid.shared_bytes,
            arguments.cast(),
            arguments_size as c_ulong,
            order,
            seed,
            error.as_mut_ptr().cast(),
            error.len() as c_ulong,
        )
    };
    if outcome == 0 {
        return Ok(());
    }
    let length = error
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(error.len());
    Err(String::from_utf8_lossy(&error[..length]).into_owned())
}

/// A GPU that is emulated.
#[derive(Debug)]
pub struct Emulated {
    options: Options,
    state: Arc<Mutex<State>>,
    /// Where completions go when they are deferred.
    later: Option<Sender<Later>>,
}

type Later = Box<dyn FnOnce() + Send>;

#[derive(Debug, Default)]
struct State {
    /// What is allocated: start and length.
    allocations: BTreeMap<u64, usize>,
    allocated: usize,
    launches: u64,
    streams: u32,
    marks: Vec<Option<Instant>>,
    failed: Option<String>,
    /// Whether somebody has been told that it failed.
    known: bool,
}

impl State {
    fn fail(&mut self, error: String) {
        self.failed.get_or_insert(error);
    }

    fn allocated(&self, range: &Range<u64>) -> bool {
        self.allocations
            .range(..=range.start)
            .next_back()
            .is_some_and(|(start, length)| range.end <= start + *length as u64)
    }

    /// The failure, which is known now.
    fn tell(&mut self) -> Result<(), GpuError> {
        match &self.failed {
            None => Ok(()),
            Some(error) => {
                self.known = true;
                Err(GpuError::Failed(error.clone()))
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Emulated {
    /// A GPU without limits and failures.
    #[allow(clippy::new_ret_no_self)]
    #[must_use]
    pub fn new(order: LaneOrder) -> SharedGpu {
        Emulated::with(Options {
            order,
            ..Options::default()
        })
    }

    /// A GPU.
    #[must_use]
    pub fn with(options: Options) -> SharedGpu {
        let later = options.deferred.then(|| {
            let (sender, receiver) = channel::<Later>();
            // Ends when the GPU is dropped and everything has been called.
            thread::spawn(move || receiver.into_iter().for_each(|call| call()));
            sender
        });
        Arc::new(Emulated {
            options,
            state: Arc::default(),
            later,
        })
    }

    /// Bytes of a kernel's struct of arguments; nothing where there is no such kernel.
    #[must_use]
    pub fn arguments_size(kernel: Kernel) -> Option<usize> {
        let name = CString::new(kernel.name()).ok()?;
        // SAFETY: the name ends with a zero.
        let size = unsafe { rhythm_emulation_arguments_size(name.as_ptr()) };
        usize::try_from(size).ok()
    }

    /// Does some work unless the device has failed; work on a device that has failed, which nobody
    /// knows yet, is skipped.
    fn work(&self, work: impl FnOnce(&mut State)) -> Result<(), GpuError> {
        let mut state = lock(&self.state);
        if state.failed.is_some() {
            return if self.options.deferred && !state.known {
                Ok(())
            } else {
                state.tell()
            };
        }
        work(&mut state);
        Ok(())
    }

    fn allocate_bytes(&self, bytes: usize, zeroed: bool) -> Result<*mut u8, GpuError> {
        let mut state = lock(&self.state);
        if state.known || !self.options.deferred {
            state.tell()?;
        }
        if bytes > self.options.memory.saturating_sub(state.allocated) {
            return Err(GpuError::OutOfMemory(bytes));
        }
        // SAFETY: it takes any number.
        let memory = unsafe { rhythm_emulation_allocate(bytes as c_ulong, c_int::from(zeroed)) };
        if memory.is_null() {
            return Err(GpuError::OutOfMemory(bytes));
        }
        state.allocated += bytes;
        state.allocations.insert(memory as u64, bytes);
        Ok(memory.cast())
    }

    fn free_bytes(&self, start: u64) {
        let mut state = lock(&self.state);
        match state.allocations.remove(&start) {
            Some(bytes) => {
                state.allocated -= bytes;
                // SAFETY: it is an allocation of ours, and the last time we see it.
                unsafe { rhythm_emulation_free(start as *mut c_void) };
            }
            None => state.fail(format!("free of {start:#x}, which is not allocated")),
        }
    }
}

// SAFETY: memory is what the allocator gave. Work is done when the call that puts it in returns.
unsafe impl Gpu for Emulated {
    fn name(&self) -> String {
        format!("emulated GPU, lanes {:?}", self.options.order)
    }

    fn multiprocessors(&self) -> u32 {
        2
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        self.allocate_bytes(bytes, false)
            .map(|pointer| Address(pointer as u64))
    }

    unsafe fn free(&self, address: Address) {
        self.free_bytes(address.0);
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<(*mut u8, Address), GpuError> {
        self.allocate_bytes(bytes, true)
            .map(|pointer| (pointer, Address(pointer as u64)))
    }

    unsafe fn free_pinned(&self, pointer: *mut u8) {
        self.free_bytes(pointer as u64);
    }

    fn stream(&self) -> Result<Stream, GpuError> {
        let mut stream = Stream(0);
        self.work(|state| {
            stream = Stream(state.streams);
            state.streams += 1;
        })?;
        Ok(stream)
    }

    unsafe fn copy(
        &self,
        _stream: Stream,
        to: Address,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.work(|state| {
            for (what, start) in [("to", to), ("from", from)] {
                if bytes > 0 && !state.allocated(&(start.0..start.0 + bytes as u64)) {
                    return state.fail(format!(
                        "copy {what} {:#x} of {bytes} bytes, which are not all allocated",
                        start.0
                    ));
                }
            }
            // SAFETY: both ranges are allocated; that nobody else uses them is the caller's
            // promise.
            unsafe {
                rhythm_emulation_copy(
                    to.0 as *mut c_void,
                    from.0 as *const c_void,
                    bytes as c_ulong,
                );
            }
        })
    }

    unsafe fn fill(
        &self,
        _stream: Stream,
        to: Address,
        value: u8,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.work(|state| {
            if bytes > 0 && !state.allocated(&(to.0..to.0 + bytes as u64)) {
                return state.fail(format!(
                    "fill of {:#x}, {bytes} bytes, which are not all allocated",
                    to.0
                ));
            }
            // SAFETY: the range is allocated; that nobody else uses it is the caller's promise.
            unsafe {
                rhythm_emulation_fill(to.0 as *mut c_void, c_int::from(value), bytes as c_ulong);
            }
        })
    }

    unsafe fn launch_raw(
        &self,
        _stream: Stream,
        kernel: Kernel,
        grid: Grid,
        arguments: *const u8,
        bytes: usize,
    ) -> Result<(), GpuError> {
        let mut number = None;
        self.work(|state| {
            number = Some(state.launches);
            state.launches += 1;
        })?;
        let Some(number) = number else {
            return Ok(());
        };
        let outcome = if self.options.fail_launch == Some(number) {
            Err(format!("launch {number} was to fail"))
        } else {
            // SAFETY: `arguments` points to so many bytes, and the rest, too, is the caller's
            // promise. A kernel whose struct has another size is not run. The state is not locked:
            // launches of several threads run beside each other.
            unsafe { run_raw(kernel.name(), grid, arguments, bytes, self.options.order) }
        };
        if let Err(error) = outcome {
            lock(&self.state).fail(error);
        }
        Ok(())
    }

    fn on_completion(&self, _stream: Stream, call: Completion) -> Result<(), GpuError> {
        match &self.later {
            None => {
                lock(&self.state).tell()?;
                call(Ok(()));
            }
            Some(later) => {
                let mut state = lock(&self.state);
                if state.known {
                    return state.tell();
                }
                drop(state);
                let state = self.state.clone();
                let later_call: Later = Box::new(move || {
                    let outcome = lock(&state).tell();
                    call(outcome);
                });
                if later.send(later_call).is_err() {
                    return Err(GpuError::Failed("a completion panicked".to_owned()));
                }
            }
        }
        Ok(())
    }

    fn synchronize(&self, _stream: Stream) -> Result<(), GpuError> {
        lock(&self.state).tell()
    }

    fn mark(&self) -> Result<Mark, GpuError> {
        let mut mark = Mark(0);
        self.work(|state| {
            mark = Mark(state.marks.len() as u32);
            state.marks.push(None);
        })?;
        Ok(mark)
    }

    fn record(&self, _stream: Stream, mark: Mark) -> Result<(), GpuError> {
        self.work(|state| {
            if let Some(slot) = state.marks.get_mut(mark.0 as usize) {
                *slot = Some(Instant::now());
            }
        })
    }

    /// Whatever was launched before has been run before.
    fn wait(&self, _stream: Stream, _mark: Mark) -> Result<(), GpuError> {
        self.work(|_| ())
    }

    fn elapsed_ms(&self, from: Mark, to: Mark) -> Result<f32, GpuError> {
        let mut state = lock(&self.state);
        state.tell()?;
        let passed = |mark: Mark| {
            let slot = state.marks.get(mark.0 as usize).copied().flatten();
            slot.ok_or_else(|| GpuError::Failed(format!("mark {} has not been passed", mark.0)))
        };
        Ok(passed(to)?.duration_since(passed(from)?).as_secs_f32() * 1e3)
    }
}
