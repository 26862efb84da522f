//! A device's primary context, and the threads that it is current on.

use super::library::{Cuda, cuda, version_text};
use crate::gpu::interface::GpuError;
use cudarc::driver::sys::{CUcontext, CUctx_flags, CUdevice, CUdevice_attribute as Attribute};
use serde::Serialize;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

/// The driver before this one does not know functions and rules that the kernels use.
const VERSION_MIN: c_int = 12_000;
/// Compute capability 8.0: the first with the reductions over a warp that the kernels use.
const CAPABILITY_MIN: (u32, u32) = (8, 0);

/// What is known of a GPU, for reports and logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceDescription {
    /// Its name, as NVIDIA gives it.
    pub name: String,
    /// Its compute capability, such as 9 and 0.
    pub capability: (u32, u32),
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of its L2 cache.
    pub l2_bytes: u64,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: u32,
    /// Its highest clock in kHz; 0 where the driver does not say.
    pub clock_khz: u32,
    /// The newest CUDA version that the driver knows, such as "13.0".
    pub driver_version: String,
    /// Where it is on the PCI bus, as `nvidia-smi` says it: what
    /// [`PowerMeter`](crate::gpu::power::PowerMeter) is started with.
    pub pci_bus: String,
}

/// A device's primary context, retained while this is.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) cuda: &'static Cuda,
    device: CUdevice,
    handle: CUcontext,
    /// Never that of an earlier one, unlike the handle.
    id: u64,
    pub(super) description: DeviceDescription,
    /// The priorities of what comes last and of what comes first, lower numbers first; twice the
    /// same where the device knows none.
    pub(super) priorities: [c_int; 2],
}

// SAFETY: a context may be used from any thread; the pointer is only the driver's name for it.
unsafe impl Send for Context {}
// SAFETY: as above: the driver locks what it must.
unsafe impl Sync for Context {}

thread_local! {
    /// The context that this thread has made current last, by its id.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

impl Context {
    /// Opens a device.
    pub(super) fn open(ordinal: u32) -> Result<Context, GpuError> {
        let cuda = cuda()?;
        let version = cuda.version();
        if version < VERSION_MIN {
            return Err(GpuError::Absent(format!(
                "the CUDA driver is too old: it knows CUDA {}; install NVIDIA's \
                 driver (580 or later), or use --device host",
                version_text(version)
            )));
        }
        let mut count = 0;
        // SAFETY: `cuInit` has no requirements; `count` is written to.
        unsafe {
            cuda.check_present((cuda.cuInit)(0), "cuInit")?;
            cuda.check_present((cuda.cuDeviceGetCount)(&mut count), "cuDeviceGetCount")?;
        }
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        if ordinal >= count {
            let have = match count {
                0 => "there is none".to_owned(),
                1 => "there is one, number 0".to_owned(),
                _ => format!("there are {count}, from 0 to {}", count - 1),
            };
            return Err(GpuError::Absent(format!(
                "there is no GPU number {ordinal}: {have}; nvidia-smi lists them"
            )));
        }
        let mut device = 0;
        // SAFETY: `device` is written to.
        let code = unsafe { (cuda.cuDeviceGet)(&mut device, ordinal) };
        cuda.check_present(code, "cuDeviceGet")?;
        let description = describe(cuda, device, version)?;
        if description.capability < CAPABILITY_MIN {
            let ((major, minor), (least, lesser)) = (description.capability, CAPABILITY_MIN);
            return Err(GpuError::Absent(format!(
                "the GPU {} is too old: it has compute capability {major}.{minor}, and \
                 {least}.{lesser} or higher is needed; use --device host",
                description.name
            )));
        }
        // Whoever waits for a stream sleeps instead of spinning: with layout A as many threads wait
        // as cohorts are in flight, beside the backend that works for them. A driver that will not
        // have it spins. SAFETY: the device was given by the driver.
        let _ = unsafe {
            (cuda.cuDevicePrimaryCtxSetFlags_v2)(
                device,
                CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC as u32,
            )
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the device was given by the driver; `handle` is written to.
        let code = unsafe { (cuda.cuDevicePrimaryCtxRetain)(&mut handle, device) };
        cuda.check_present(code, "cuDevicePrimaryCtxRetain")?;
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let mut context = Context {
            cuda,
            device,
            handle,
            id: OPENED.fetch_add(1, Ordering::Relaxed) + 1,
            description,
            priorities: [0; 2],
        };
        context.enter()?;
        let [least, greatest] = &mut context.priorities;
        // SAFETY: the context is current; both numbers are written to.
        let code = unsafe { (cuda.cuCtxGetStreamPriorityRange)(least, greatest) };
        cuda.check_present(code, "cuCtxGetStreamPriorityRange")?;
        Ok(context)
    }

    /// Makes it current on the calling thread, where it is not.
    #[inline]
    pub(super) fn enter(&self) -> Result<&'static Cuda, GpuError> {
        if CURRENT.get() != self.id {
            // SAFETY: the context is alive as long as `self` is.
            let code = unsafe { (self.cuda.cuCtxSetCurrent)(self.handle) };
            self.cuda.check(code, "cuCtxSetCurrent")?;
            CURRENT.set(self.id);
        }
        Ok(self.cuda)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once. What it fails with helps nobody any more.
        unsafe { (self.cuda.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

/// Asks the driver what the device is.
fn describe(cuda: &Cuda, device: CUdevice, version: c_int) -> Result<DeviceDescription, GpuError> {
    let attribute = |which: Attribute| -> Result<u32, GpuError> {
        let mut value = 0;
        // SAFETY: the device was given by the driver; `value` is written to.
        let code = unsafe { (cuda.cuDeviceGetAttribute)(&mut value, which, device) };
        cuda.check_present(code, "cuDeviceGetAttribute")?;
        Ok(value.max(0) as u32)
    };
    let text = |ask: unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> c_int, doing| {
        let mut bytes = [0u8; 256];
        // SAFETY: the driver writes at most so many bytes, and a zero at the end; the last byte
        // stays zero.
        let code = unsafe { ask(bytes.as_mut_ptr().cast(), bytes.len() as c_int - 1, device) };
        cuda.check_present(code, doing)?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok::<_, GpuError>(text.to_string_lossy().into_owned())
    };
    let mut memory = 0;
    // SAFETY: the device was given by the driver; `memory` is written to.
    let code = unsafe { (cuda.cuDeviceTotalMem_v2)(&mut memory, device) };
    cuda.check_present(code, "cuDeviceTotalMem")?;
    Ok(DeviceDescription {
        name: text(cuda.cuDeviceGetName, "cuDeviceGetName")?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        memory_bytes: memory as u64,
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).unwrap_or(0),
        driver_version: version_text(version),
        pci_bus: text(cuda.cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId")?,
    })
}
