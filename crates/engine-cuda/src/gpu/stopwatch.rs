//! A GPU that says how long each kernel took.
//!
//! It passes everything on to another GPU; while it runs, it puts a mark before and behind each
//! launch. Marks cost a stream about a microsecond each, so launches are to be long, and what other
//! streams do meanwhile counts, too: it is for one cohort at a time.

use super::interface::{Address, Completion, Gpu, GpuError, Grid, Mark, SharedGpu, Stream};
use super::kernel::Kernel;
use std::sync::{Arc, Mutex, PoisonError};

/// Another GPU, timed.
#[derive(Debug)]
pub struct Stopwatch {
    gpu: SharedGpu,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    is_running: bool,
    /// Launches in the order in which they were made, each between its marks.
    launches: Vec<(Kernel, [Mark; 2])>,
    /// Marks that can be used again.
    spare: Vec<[Mark; 2]>,
}

impl Stopwatch {
    /// Over this GPU; it does not run yet.
    #[must_use]
    pub fn new(gpu: &SharedGpu) -> Arc<Stopwatch> {
        Arc::new(Stopwatch {
            gpu: gpu.clone(),
            noted: Mutex::default(),
        })
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Times what is launched from now on. Profilers that look at a part alone begin here.
    pub fn start(&self) {
        self.noted().is_running = true;
        self.gpu.profile(true);
    }

    /// Stops, and gives the milliseconds of each launch since the start. All of them must be done.
    ///
    /// # Errors
    /// The GPU failed, or a launch is not done.
    pub fn stop(&self) -> Result<Vec<(Kernel, f32)>, GpuError> {
        self.gpu.profile(false);
        let mut noted = self.noted();
        noted.is_running = false;
        let launches = std::mem::take(&mut noted.launches);
        noted.spare.extend(launches.iter().map(|(_, marks)| *marks));
        let times = launches.iter().map(|(kernel, [before, behind])| {
            let took = self.gpu.elapsed_ms(*before, *behind)?;
            Ok((*kernel, took))
        });
        times.collect()
    }

    /// Marks for a launch, where it runs.
    fn marks(&self) -> Result<Option<[Mark; 2]>, GpuError> {
        let mut noted = self.noted();
        if !noted.is_running {
            return Ok(None);
        }
        match noted.spare.pop() {
            Some(marks) => Ok(Some(marks)),
            None => Ok(Some([self.gpu.mark()?, self.gpu.mark()?])),
        }
    }
}

// SAFETY: all of it is the other GPU's, which keeps these promises.
unsafe impl Gpu for Stopwatch {
    fn name(&self) -> String {
        self.gpu.name()
    }

    fn multiprocessors(&self) -> u32 {
        self.gpu.multiprocessors()
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        self.gpu.allocate(bytes)
    }

    unsafe fn free(&self, address: Address) {
        // SAFETY: the caller's promise.
        unsafe { self.gpu.free(address) }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<(*mut u8, Address), GpuError> {
        self.gpu.allocate_pinned(bytes)
    }

    unsafe fn free_pinned(&self, pointer: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.gpu.free_pinned(pointer) }
    }

    fn stream(&self) -> Result<Stream, GpuError> {
        self.gpu.stream()
    }

    unsafe fn copy(
        &self,
        stream: Stream,
        to: Address,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.gpu.copy(stream, to, from, bytes) }
    }

    unsafe fn fill(
        &self,
        stream: Stream,
        to: Address,
        value: u8,
        bytes: usize,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.gpu.fill(stream, to, value, bytes) }
    }

    unsafe fn launch_raw(
        &self,
        stream: Stream,
        kernel: Kernel,
        grid: Grid,
        arguments: *const u8,
        bytes: usize,
    ) -> Result<(), GpuError> {
        let marks = self.marks()?;
        if let Some([before, _]) = marks {
            self.gpu.record(stream, before)?;
        }
        // SAFETY: the caller's promise.
        unsafe { self.gpu.launch_raw(stream, kernel, grid, arguments, bytes) }?;
        if let Some(marks) = marks {
            self.gpu.record(stream, marks[1])?;
            self.noted().launches.push((kernel, marks));
        }
        Ok(())
    }

    fn on_completion(&self, stream: Stream, call: Completion) -> Result<(), GpuError> {
        self.gpu.on_completion(stream, call)
    }

    fn synchronize(&self, stream: Stream) -> Result<(), GpuError> {
        self.gpu.synchronize(stream)
    }

    fn mark(&self) -> Result<Mark, GpuError> {
        self.gpu.mark()
    }

    fn record(&self, stream: Stream, mark: Mark) -> Result<(), GpuError> {
        self.gpu.record(stream, mark)
    }

    fn wait(&self, stream: Stream, mark: Mark) -> Result<(), GpuError> {
        self.gpu.wait(stream, mark)
    }

    fn elapsed_ms(&self, from: Mark, to: Mark) -> Result<f32, GpuError> {
        self.gpu.elapsed_ms(from, to)
    }
}
