//! The libraries of CUDA, found when the program runs: functions by name, and what their errors
//! mean.
//!
//! cudarc finds the libraries and knows their types. Its own functions look a symbol up when they
//! are first called and panic where it is missing; here all that are needed are looked up once, and
//! one that is missing is an answer. A result is a plain number here, because a newer driver may
//! give one that no enumeration of ours has.

use crate::gpu::interface::GpuError;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUjit_option, CUlaunchConfig, CUmodule, CUstream,
};
use cudarc::nvrtc::sys::nvrtcProgram;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::OnceLock;

/// What a call of the driver returns: 0 where it went well.
pub(super) type Code = c_int;

/// Called when a stream has come to a point, with the stream's state.
pub(super) type Callback = unsafe extern "C" fn(CUstream, Code, *mut c_void);

/// Declares a table of a library's functions, and how it is filled.
macro_rules! library {
    ($(#[$doc:meta])* $table:ident from $library:expr;
     $($name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        #[derive(Debug)]
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument: $kind),*) -> Code,)*
        }

        impl $table {
            /// Looks all functions up; the name of the first that is missing otherwise. The library
            /// must be there.
            fn find() -> Result<$table, &'static str> {
                // SAFETY: the caller has seen that the library can be loaded; its initialization is
                // CUDA's own.
                let library = unsafe { $library() };
                Ok($table {
                    // SAFETY: these are the C declarations of CUDA's headers, which never change
                    // for a name.
                    $($name: *unsafe { library.get(stringify!($name).as_bytes()) }
                        .map_err(|_| stringify!($name))?,)*
                })
            }
        }
    };
}

library! {
    /// The driver's functions.
    Cuda from cudarc::driver::sys::culib;
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetErrorName(code: Code, name: *mut *const c_char);
    cuGetErrorString(code: Code, text: *mut *const c_char);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
    cuDeviceGetPCIBusId(id: *mut c_char, bytes: c_int, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxSetCurrent(context: CUcontext);
    cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void,
        options: c_uint, names: *mut CUjit_option, values: *mut *mut c_void,
    );
    cuModuleUnload(module: CUmodule);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(address: CUdeviceptr);
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
    cuMemFreeHost(pointer: *mut c_void);
    cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream);
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamAddCallback(stream: CUstream, callback: Callback, data: *mut c_void, flags: c_uint);
    cuStreamSynchronize(stream: CUstream);
    cuStreamDestroy_v2(stream: CUstream);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    // The first version: all drivers have it, the second only those of CUDA 12.8 and later.
    cuEventElapsedTime(milliseconds: *mut f32, from: CUevent, to: CUevent);
    cuEventDestroy_v2(event: CUevent);
    cuProfilerStart();
    cuProfilerStop();
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    cuLaunchKernelEx(
        config: *const CUlaunchConfig, function: CUfunction,
        arguments: *mut *mut c_void, extra: *mut *mut c_void,
    );
}

library! {
    /// The functions of NVRTC, which compiles CUDA C++ when the program runs.
    Nvrtc from cudarc::nvrtc::sys::culib;
    nvrtcGetNumSupportedArchs(count: *mut c_int);
    nvrtcGetSupportedArchs(capabilities: *mut c_int);
    nvrtcCreateProgram(
        program: *mut nvrtcProgram, source: *const c_char, name: *const c_char,
        headers: c_int, texts: *const *const c_char, names: *const *const c_char,
    );
    nvrtcCompileProgram(program: nvrtcProgram, options: c_int, texts: *const *const c_char);
    nvrtcGetProgramLogSize(program: nvrtcProgram, bytes: *mut usize);
    nvrtcGetProgramLog(program: nvrtcProgram, text: *mut c_char);
    nvrtcGetCUBINSize(program: nvrtcProgram, bytes: *mut usize);
    nvrtcGetCUBIN(program: nvrtcProgram, image: *mut c_char);
    nvrtcGetPTXSize(program: nvrtcProgram, bytes: *mut usize);
    nvrtcGetPTX(program: nvrtcProgram, text: *mut c_char);
    nvrtcDestroyProgram(program: *mut nvrtcProgram);
}

/// The driver that machines need, in the words of NVIDIA's packages.
const DRIVER_WANTED: &str = "NVIDIA's driver (580 or later)";

/// Out of memory, of the device or for page-locking.
pub(super) const OUT_OF_MEMORY: Code = 2;
/// The driver ends with the process.
const DEINITIALIZED: Code = 4;
const NO_DEVICE: Code = 100;

/// The driver's functions, looked up once.
pub(super) fn cuda() -> Result<&'static Cuda, GpuError> {
    static FOUND: OnceLock<Result<Cuda, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // SAFETY: loading the driver runs its initialization, which has no requirements.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            return Err(format!(
                "no CUDA driver: libcuda.so.1 was not found; install {DRIVER_WANTED}, or \
                 use --device host"
            ));
        }
        Cuda::find().map_err(|missing| {
            format!(
                "the CUDA driver is too old: it has no {missing}; install {DRIVER_WANTED}, or use \
                 --device host"
            )
        })
    });
    found.as_ref().map_err(|why| GpuError::Absent(why.clone()))
}

/// NVRTC's functions, looked up once; why there are none otherwise.
pub(super) fn nvrtc() -> Result<&'static Nvrtc, &'static str> {
    static FOUND: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        // SAFETY: as for the driver.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            return Err("libnvrtc.so was not found".to_owned());
        }
        Nvrtc::find().map_err(|missing| format!("libnvrtc.so is too old: it has no {missing}"))
    });
    found.as_ref().map_err(String::as_str)
}

impl Cuda {
    /// What a call returned, as this crate says it; `doing` names the call.
    pub(super) fn check(&self, code: Code, doing: &str) -> Result<(), GpuError> {
        match code {
            0 => Ok(()),
            // Nothing is lost: streams need memory, too, and so do kernels when they are launched
            // first.
            OUT_OF_MEMORY => Err(GpuError::OutOfMemory(0)),
            _ => Err(GpuError::Failed(self.explain(code, doing))),
        }
    }

    /// The same for what comes before there is a device: a failure means that there is none.
    pub(super) fn check_present(&self, code: Code, doing: &str) -> Result<(), GpuError> {
        match code {
            0 => Ok(()),
            NO_DEVICE => Err(GpuError::Absent(
                "the CUDA driver is here, but no GPU: check that nvidia-smi lists one and that \
                 CUDA_VISIBLE_DEVICES does not hide it, or use --device host"
                    .to_owned(),
            )),
            _ => Err(GpuError::Absent(format!(
                "the GPU cannot be used: {}; or use --device host",
                self.explain(code, doing)
            ))),
        }
    }

    /// An error's name and text, in which call, and what can be done.
    pub(super) fn explain(&self, code: Code, doing: &str) -> String {
        let said = |ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text = std::ptr::null();
            // SAFETY: `text` is written to; what it points to afterwards is static.
            let known = unsafe { ask(code, &mut text) } == 0 && !text.is_null();
            // SAFETY: the driver gave a text that ends with a zero.
            let text = known.then(|| unsafe { CStr::from_ptr(text) });
            text.map(|text| text.to_string_lossy().into_owned())
        };
        let name = said(self.cuGetErrorName).unwrap_or_else(|| format!("error {code}"));
        let text = said(self.cuGetErrorString).unwrap_or_else(|| "unknown".to_owned());
        let cure = cure(code);
        let then = if cure.is_empty() { "" } else { "; " };
        format!("{name}: {text}, in {doing}{then}{cure}")
    }

    /// The newest CUDA version that the driver knows, as 1000 times the major and 10 times the
    /// minor.
    pub(super) fn version(&self) -> c_int {
        let mut version = 0;
        // SAFETY: `version` is written to; the call works before the driver is initialized.
        match unsafe { (self.cuDriverGetVersion)(&mut version) } {
            0 => version,
            _ => 0,
        }
    }
}

/// Whether an error says only that the process ends, and its memory with it.
pub(super) fn is_end_of_process(code: Code) -> bool {
    code == DEINITIALIZED
}

/// Whether an error is of a device that is lost: whatever is asked of it from then on says so.
pub(super) fn is_lost(code: Code) -> bool {
    // ECC, NVLink, and what a kernel did or the hardware: it goes with the context.
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709..=719)
}

/// What to do about an error, where something is known to help.
fn cure(code: Code) -> &'static str {
    match code {
        // Stub library.
        34 => {
            "libcuda.so is the toolkit's stub: install NVIDIA's driver, and leave stubs/ out of \
             LD_LIBRARY_PATH"
        }
        // Device unavailable.
        46 => "another process has it for itself: see nvidia-smi, compute mode",
        // System not ready, driver mismatch, device not supported by this compatibility package.
        802 => "the fabric manager must run: systemctl start nvidia-fabricmanager",
        803 | 804 => {
            "kernel module and libcuda.so are of different drivers: restart the machine, or \
             install one driver"
        }
        // Memory or link that corrects no more.
        214 | 220 => {
            "restart the server; where it comes again the GPU is broken: see nvidia-smi -q and \
             the kernel's log"
        }
        // Illegal address, timeout, assertion, and what else a kernel can do wrong.
        700 | 702 | 710 | 714..=719 => {
            "restart the server, and report it with the service's folder: a kernel failed"
        }
        // Unknown.
        999 => "see the kernel's log, and whether nvidia-smi works",
        _ => "",
    }
}

/// A CUDA version, 1000 times its major and 10 times its minor, as people write it.
pub(super) fn version_text(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
