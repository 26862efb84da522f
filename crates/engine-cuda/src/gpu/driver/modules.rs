//! The kernels on a device: one module for each file of `kernels/`.
//!
//! The binary has each module as machine code for compute capability 9.0 and as PTX, which the
//! driver translates for newer devices. Where neither can be used (an older device, or a driver
//! older than the PTX) the source is compiled here, by NVRTC, if it is there.

use super::context::Context;
use super::library::Code;
use super::nvrtc::{CompileError, compile};
use crate::gpu::images;
use crate::gpu::interface::GpuError;
use crate::gpu::kernel::{Kernel, MODULES};
use cudarc::driver::sys::{CUfunction, CUfunction_attribute as Attribute, CUjit_option, CUmodule};
use std::ffi::{CString, c_int, c_uint, c_void};

/// The modules loaded into a context, and their kernels.
#[derive(Debug)]
pub(super) struct Modules {
    modules: Vec<CUmodule>,
    /// By [`Kernel`], in its order.
    functions: Vec<CUfunction>,
}

// SAFETY: the pointers are the driver's names for things that may be used from any thread.
unsafe impl Send for Modules {}
// SAFETY: as above; nothing changes after loading.
unsafe impl Sync for Modules {}

/// Bytes for what the driver says about an image it cannot take.
const LOG_BYTES: usize = 4096;

impl Modules {
    /// Loads all of them into the context, which is current.
    pub(super) fn load(context: &Context) -> Result<Modules, GpuError> {
        let mut loaded = Modules {
            modules: Vec::new(),
            functions: Vec::new(),
        };
        let result = loaded.fill(context);
        if result.is_err() {
            loaded.unload(context);
        }
        result.map(|()| loaded)
    }

    fn fill(&mut self, context: &Context) -> Result<(), GpuError> {
        for name in MODULES {
            self.modules.push(load_module(context, name)?);
        }
        for kernel in Kernel::ALL {
            let module = MODULES.iter().position(|name| *name == kernel.module());
            let module = module.and_then(|index| self.modules.get(index)).copied();
            let module = module.unwrap_or(std::ptr::null_mut());
            self.functions.push(function(context, module, *kernel)?);
        }
        Ok(())
    }

    /// A kernel.
    #[inline]
    pub(super) fn function(&self, kernel: Kernel) -> CUfunction {
        // `fill` has put one there for each kernel; the driver refuses a null one.
        let function = self.functions.get(kernel as usize);
        function.copied().unwrap_or(std::ptr::null_mut())
    }

    /// Gives them back, with the context current and no kernel under way.
    pub(super) fn unload(&mut self, context: &Context) {
        self.functions.clear();
        for module in self.modules.drain(..) {
            // SAFETY: the module was loaded into this context, and is used no more.
            unsafe { (context.cuda.cuModuleUnload)(module) };
        }
    }
}

/// Loads one module: from the image in the binary, or compiled here.
fn load_module(context: &Context, name: &str) -> Result<CUmodule, GpuError> {
    let embedded = match images::image(name) {
        Some(image) => match load_image(context, image) {
            Ok(module) => return Ok(module),
            Err(refused) if !refused.is_for_other_devices() => {
                return Err(GpuError::Absent(format!(
                    "the kernels of {name} cannot be loaded: {}",
                    refused.text
                )));
            }
            Err(refused) => refused.text,
        },
        None => "the binary has none".to_owned(),
    };
    let description = &context.description;
    tracing::info!(
        module = name,
        gpu = description.name,
        "no image of the kernels is for this GPU: compiling them"
    );
    let why = match compile(name, description.capability) {
        Ok(image) => match load_image(context, &image) {
            Ok(module) => return Ok(module),
            Err(refused) => format!("what NVRTC made was refused: {}", refused.text),
        },
        Err(CompileError::NoCompiler(why)) => format!("{why}, so none can be compiled here"),
        Err(CompileError::Failed(why)) => format!("NVRTC failed: {why}"),
    };
    let (major, minor) = description.capability;
    Err(GpuError::Absent(format!(
        "the GPU {} (compute capability {major}.{minor}) with a driver for CUDA {} takes no image \
         of {name}: {embedded}; {why}; install NVIDIA's driver (580 or later), or libnvrtc of the \
         driver's CUDA version, or use --device host",
        description.name, description.driver_version
    )))
}

/// Why an image was not loaded.
struct Refused {
    code: Code,
    text: String,
}

impl Refused {
    /// Whether the image is sound, but not for this device or this driver.
    fn is_for_other_devices(&self) -> bool {
        // Invalid image (a newer format), no binary for the GPU, invalid PTX, unsupported PTX
        // version, no JIT compiler, compilation disabled, invalid source, not supported.
        matches!(self.code, 200 | 209 | 218 | 221 | 222 | 223 | 300 | 801)
    }
}

/// Loads machine code, PTX that ends with a zero, or several of them in one.
fn load_image(context: &Context, image: &[u8]) -> Result<CUmodule, Refused> {
    let cuda = context.cuda;
    let mut log = vec![0u8; LOG_BYTES];
    let mut module = std::ptr::null_mut();
    let mut names = [
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [
        log.as_mut_ptr().cast::<c_void>(),
        // The driver reads this value as a number.
        std::ptr::without_provenance_mut(LOG_BYTES),
    ];
    // SAFETY: the image is whole; the arrays have as many entries as said, and the log as many
    // bytes.
    let code = unsafe {
        (cuda.cuModuleLoadDataEx)(
            &mut module,
            image.as_ptr().cast(),
            names.len() as c_uint,
            names.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if code == 0 {
        return Ok(module);
    }
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let said = String::from_utf8_lossy(said).trim().replace('\n', " ");
    let text = cuda.explain(code, "cuModuleLoadDataEx");
    let text = match said.as_str() {
        "" => text,
        said => format!("{text} ({said})"),
    };
    Err(Refused { code, text })
}

/// How much of a multiprocessor's cache is to be shared memory, the same for all kernels: where it
/// is not, a block of one waits until all of another have left the multiprocessor, and kernels that
/// could run side by side follow each other. About half goes best (docs/gpu.md).
const SHARED_PERCENT: c_int = 50;

/// Finds a kernel in its module, and lets it have all the shared memory of the device.
fn function(context: &Context, module: CUmodule, kernel: Kernel) -> Result<CUfunction, GpuError> {
    let cuda = context.cuda;
    let absent = |code: Code, doing: &str| {
        GpuError::Absent(format!(
            "the kernel {} of {} cannot be used: {}",
            kernel.name(),
            kernel.module(),
            cuda.explain(code, doing)
        ))
    };
    let name = CString::new(kernel.name()).unwrap_or_default();
    let mut function = std::ptr::null_mut();
    // SAFETY: the module was loaded into this context; the name ends with a zero.
    let code = unsafe { (cuda.cuModuleGetFunction)(&mut function, module, name.as_ptr()) };
    if code != 0 {
        return Err(absent(code, "cuModuleGetFunction"));
    }
    let mut own = 0;
    let which = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
    // SAFETY: the function is of this context; `own` is written to.
    let code = unsafe { (cuda.cuFuncGetAttribute)(&mut own, which, function) };
    if code != 0 {
        return Err(absent(code, "cuFuncGetAttribute"));
    }
    // Without this a launch may ask for 48 KiB only. What the kernel declares itself is part of the
    // device's limit.
    let dynamic = i32::try_from(context.description.shared_bytes).unwrap_or(i32::MAX) - own;
    let which = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function is of this context.
    let code = unsafe { (cuda.cuFuncSetAttribute)(function, which, dynamic.max(0)) };
    if code != 0 {
        return Err(absent(code, "cuFuncSetAttribute"));
    }
    let which = Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    // It is a hint: a device that does not take it is right all the same.
    // SAFETY: the function is of this context.
    let _ = unsafe { (cuda.cuFuncSetAttribute)(function, which, SHARED_PERCENT) };
    Ok(function)
}
