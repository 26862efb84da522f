//! The CUDA driver, loaded at run time.
//!
//! Nothing of CUDA is needed to build, and a program without a GPU gets an error that says what is
//! missing. Only [`Driver::open`] looks for it.
//!
//! - `library`: the driver's functions, looked up by name, and its errors;
//! - `context`: a device and its primary context;
//! - `modules`, `nvrtc`: the kernels, from images in the binary or compiled from its sources.

mod context;
mod library;
mod modules;
mod nvrtc;

pub use context::DeviceDescription;

use super::interface::{Address, Completion, Gpu, GpuError, Grid, Mark, Stream};
use super::kernel::Kernel;
use context::Context;
use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUevent, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUstream, CUstream_flags,
};
use library::{Code, Cuda, OUT_OF_MEMORY, is_end_of_process, is_lost};
use modules::Modules;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

/// A GPU through NVIDIA's driver.
#[derive(Debug)]
pub struct Driver {
    modules: Modules,
    /// By [`Stream`].
    streams: Handles<CUstream>,
    /// By [`Mark`].
    marks: Handles<CUevent>,
    context: Context,
}

impl Driver {
    /// Opens the GPU of this number, as CUDA counts them (see `CUDA_VISIBLE_DEVICES` and
    /// `CUDA_DEVICE_ORDER`), and loads the kernels.
    ///
    /// # Errors
    /// [`GpuError::Absent`], with the cause and what to do, where there is no driver, no such
    /// device, or none that can be used.
    pub fn open(ordinal: u32) -> Result<Arc<Driver>, GpuError> {
        let context = Context::open(ordinal)?;
        context.enter()?;
        Ok(Arc::new(Driver {
            modules: Modules::load(&context)?,
            streams: Handles::default(),
            marks: Handles::default(),
            context,
        }))
    }

    /// What it is.
    #[must_use]
    pub fn describe(&self) -> &DeviceDescription {
        &self.context.description
    }

    fn stream_of(&self, stream: Stream) -> Result<CUstream, GpuError> {
        self.streams.get(stream.0, "stream")
    }

    fn event_of(&self, mark: Mark) -> Result<CUevent, GpuError> {
        self.marks.get(mark.0, "mark")
    }
}

/// What the driver gave, by numbers of ours.
#[derive(Debug)]
struct Handles<T>(RwLock<Vec<T>>);

// SAFETY: the pointers in it are the driver's names for things that may be used from any thread.
unsafe impl<T> Send for Handles<T> {}
// SAFETY: as above; the list itself is locked.
unsafe impl<T> Sync for Handles<T> {}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles(RwLock::default())
    }
}

impl<T: Copy> Handles<T> {
    /// Adds one, and says its number.
    fn add(&self, handle: T) -> u32 {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.push(handle);
        all.len() as u32 - 1
    }

    #[inline]
    fn get(&self, number: u32, what: &str) -> Result<T, GpuError> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let handle = all.get(number as usize).copied();
        handle.ok_or_else(|| GpuError::Failed(format!("there is no {what} {number}")))
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of an allocation: an error of its own where there is no room.
fn allocated(cuda: &Cuda, code: Code, bytes: usize, doing: &str) -> Result<(), GpuError> {
    match code {
        OUT_OF_MEMORY => Err(GpuError::OutOfMemory(bytes)),
        _ => cuda.check(code, doing),
    }
}

/// Of giving something back, which nobody waits for: a failure is for the log, but for those of a
/// device that is lost, which has been told.
fn released(cuda: &Cuda, code: Code, doing: &str) {
    if code != 0 && !is_end_of_process(code) && !is_lost(code) {
        tracing::warn!(
            error = cuda.explain(code, doing),
            "the GPU did not take something back"
        );
    }
}

/// A call to be made by the driver's own thread.
struct Pending {
    call: Completion,
    cuda: &'static Cuda,
}

/// Makes the call in `data`, a [`Pending`] of [`Driver::on_completion`].
unsafe extern "C" fn completed(_: CUstream, code: Code, data: *mut c_void) {
    // SAFETY: the box was given up to the driver, which calls back once.
    let pending = unsafe { Box::from_raw(data.cast::<Pending>()) };
    let Pending { call, cuda } = *pending;
    let result = cuda.check(code, "what was in the stream");
    // The driver's thread must not unwind. The panic's message is on stderr already.
    if catch_unwind(AssertUnwindSafe(move || call(result))).is_err() {
        tracing::error!("what was to be done after the GPU's work panicked");
    }
}

// SAFETY: memory is what the driver gave; it is asked to synchronize, and calls back in the order
// of the stream or when the context has failed, which ends all work in it.
unsafe impl Gpu for Driver {
    fn name(&self) -> String {
        self.describe().name.clone()
    }

    fn multiprocessors(&self) -> u32 {
        self.describe().multiprocessors
    }

    fn allocate(&self, bytes: usize) -> Result<Address, GpuError> {
        let cuda = self.context.enter()?;
        let mut address = 0;
        // SAFETY: the context is current; `address` is written to.
        let code = unsafe { (cuda.cuMemAlloc_v2)(&mut address, bytes) };
        allocated(cuda, code, bytes, "cuMemAlloc")?;
        Ok(Address(address))
    }

    unsafe fn free(&self, address: Address) {
        if let Ok(cuda) = self.context.enter() {
            // SAFETY: the caller's promise.
            released(cuda, unsafe { (cuda.cuMemFree_v2)(address.0) }, "cuMemFree");
        }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<(*mut u8, Address), GpuError> {
        let cuda = self.context.enter()?;
        let mut pointer = std::ptr::null_mut();
        // Not write-combined: the CPU reads what the device wrote.
        let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the context is current; `pointer` is written to.
        let code = unsafe { (cuda.cuMemHostAlloc)(&mut pointer, bytes, flags) };
        allocated(cuda, code, bytes, "cuMemHostAlloc")?;
        let mut address = 0;
        // SAFETY: the pointer was just given; `address` is written to.
        let code = unsafe { (cuda.cuMemHostGetDevicePointer_v2)(&mut address, pointer, 0) };
        let pointer = pointer.cast::<u8>();
        if let Err(error) = cuda.check(code, "cuMemHostGetDevicePointer") {
            // SAFETY: nobody has it yet.
            unsafe { self.free_pinned(pointer) };
            return Err(error);
        }
        // SAFETY: the driver gave so many bytes, and nobody else has them.
        unsafe { pointer.write_bytes(0, bytes) };
        Ok((pointer, Address(address)))
    }

    unsafe fn free_pinned(&self, pointer: *mut u8) {
        if let Ok(cuda) = self.context.enter() {
            // SAFETY: the caller's promise.
            let code = unsafe { (cuda.cuMemFreeHost)(pointer.cast()) };
            released(cuda, code, "cuMemFreeHost");
        }
    }

    fn stream(&self) -> Result<Stream, GpuError> {
        let cuda = self.context.enter()?;
        let mut stream = std::ptr::null_mut();
        // Streams that do not wait for the default one, which nobody uses here.
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is current; `stream` is written to.
        let code = unsafe { (cuda.cuStreamCreate)(&mut stream, flags) };
        cuda.check(code, "cuStreamCreate")?;
        Ok(Stream(self.streams.add(stream)))
    }

    unsafe fn copy(
        &self,
        stream: Stream,
        to: Address,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.stream_of(stream)?;
        let cuda = self.context.enter()?;
        // Host and device share one space of addresses, so the driver sees which way it goes.
        // SAFETY: the caller's promise.
        let code = unsafe { (cuda.cuMemcpyAsync)(to.0, from.0, bytes, stream) };
        cuda.check(code, "cuMemcpyAsync")
    }

    unsafe fn fill(
        &self,
        stream: Stream,
        to: Address,
        value: u8,
        bytes: usize,
    ) -> Result<(), GpuError> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.stream_of(stream)?;
        let cuda = self.context.enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { (cuda.cuMemsetD8Async)(to.0, value, bytes, stream) };
        cuda.check(code, "cuMemsetD8Async")
    }

    unsafe fn launch_raw(
        &self,
        stream: Stream,
        kernel: Kernel,
        grid: Grid,
        arguments: *const u8,
        _bytes: usize,
    ) -> Result<(), GpuError> {
        if grid.blocks == 0 {
            return Ok(());
        }
        let stream = self.stream_of(stream)?;
        let cuda = self.context.enter()?;
        let function = self.modules.function(kernel);
        let mut pointers = [arguments.cast::<c_void>().cast_mut()];
        let [last, first] = self.context.priorities;
        let mut priority = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY,
            pad: [0; 4],
            value: CUlaunchAttributeValue {
                priority: if kernel.gives_way() { last } else { first },
            },
        };
        let config = CUlaunchConfig {
            gridDimX: grid.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared_bytes,
            hStream: stream,
            attrs: &mut priority,
            numAttrs: 1,
        };
        // SAFETY: the kernel takes one struct, which `arguments` points to and the driver copies;
        // the configuration and its one attribute live on; the rest is the caller's promise.
        let code = unsafe {
            (cuda.cuLaunchKernelEx)(
                &config,
                function,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        cuda.check(code, kernel.name())
    }

    fn on_completion(&self, stream: Stream, call: Completion) -> Result<(), GpuError> {
        let stream = self.stream_of(stream)?;
        let cuda = self.context.enter()?;
        let data = Box::into_raw(Box::new(Pending { call, cuda }));
        // Unlike a host function, a callback comes also when the device has failed.
        // SAFETY: the stream is alive; `data` is given up to `completed`.
        let code = unsafe { (cuda.cuStreamAddCallback)(stream, completed, data.cast(), 0) };
        if code != 0 {
            // SAFETY: it was refused, so nobody else has it.
            drop(unsafe { Box::from_raw(data) });
        }
        cuda.check(code, "cuStreamAddCallback")
    }

    fn synchronize(&self, stream: Stream) -> Result<(), GpuError> {
        let stream = self.stream_of(stream)?;
        let cuda = self.context.enter()?;
        // SAFETY: the stream is alive.
        let code = unsafe { (cuda.cuStreamSynchronize)(stream) };
        cuda.check(code, "cuStreamSynchronize")
    }

    fn mark(&self) -> Result<Mark, GpuError> {
        let cuda = self.context.enter()?;
        let mut event = std::ptr::null_mut();
        // SAFETY: the context is current; `event` is written to. Without flags it has a time.
        let code = unsafe { (cuda.cuEventCreate)(&mut event, 0) };
        cuda.check(code, "cuEventCreate")?;
        Ok(Mark(self.marks.add(event)))
    }

    fn record(&self, stream: Stream, mark: Mark) -> Result<(), GpuError> {
        let (stream, event) = (self.stream_of(stream)?, self.event_of(mark)?);
        let cuda = self.context.enter()?;
        // SAFETY: both are alive and of this context.
        let code = unsafe { (cuda.cuEventRecord)(event, stream) };
        cuda.check(code, "cuEventRecord")
    }

    fn wait(&self, stream: Stream, mark: Mark) -> Result<(), GpuError> {
        let (stream, event) = (self.stream_of(stream)?, self.event_of(mark)?);
        let cuda = self.context.enter()?;
        // SAFETY: both are alive and of this context.
        let code = unsafe { (cuda.cuStreamWaitEvent)(stream, event, 0) };
        cuda.check(code, "cuStreamWaitEvent")
    }

    fn elapsed_ms(&self, from: Mark, to: Mark) -> Result<f32, GpuError> {
        let (from, to) = (self.event_of(from)?, self.event_of(to)?);
        let cuda = self.context.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: both are alive and of this context; `milliseconds` is written to.
        let code = unsafe { (cuda.cuEventElapsedTime)(&mut milliseconds, from, to) };
        cuda.check(code, "cuEventElapsedTime")?;
        Ok(milliseconds)
    }

    fn profile(&self, is_begin: bool) {
        let Ok(cuda) = self.context.enter() else {
            return;
        };
        // Most often nobody is attached, and then it is an error, which does not matter.
        let tell = match is_begin {
            true => cuda.cuProfilerStart,
            false => cuda.cuProfilerStop,
        };
        // SAFETY: neither has requirements.
        let _ = unsafe { tell() };
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let Ok(cuda) = self.context.enter() else {
            return;
        };
        let streams = self.streams.take();
        for &stream in &streams {
            // SAFETY: the stream is alive. Nothing may be under way when modules go.
            unsafe { (cuda.cuStreamSynchronize)(stream) };
        }
        for stream in streams {
            // SAFETY: the stream is alive, and is used no more.
            released(
                cuda,
                unsafe { (cuda.cuStreamDestroy_v2)(stream) },
                "cuStreamDestroy",
            );
        }
        for event in self.marks.take() {
            // SAFETY: the event is alive, and is used no more.
            released(
                cuda,
                unsafe { (cuda.cuEventDestroy_v2)(event) },
                "cuEventDestroy",
            );
        }
        self.modules.unload(&self.context);
    }
}
