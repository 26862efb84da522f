//! Kernels compiled when the program runs, by NVRTC: for devices and drivers that the binary's
//! images are not for.

use super::library::{Code, Nvrtc, nvrtc};
use crate::gpu::images;
use cudarc::nvrtc::sys::nvrtcProgram;
use std::ffi::{CString, c_char, c_int};

/// Why there is no image.
#[derive(Debug)]
pub(super) enum CompileError {
    /// NVRTC is not here; why.
    NoCompiler(&'static str),
    /// It did not compile the module; what it says.
    Failed(String),
}

/// Compiles a module for a device's compute capability: machine code, or PTX where NVRTC is older
/// than the device.
pub(super) fn compile(module: &str, capability: (u32, u32)) -> Result<Vec<u8>, CompileError> {
    let nvrtc = nvrtc().map_err(CompileError::NoCompiler)?;
    let text = |text: &str| CString::new(text).map_err(|error| failed(error.to_string()));
    let file = format!("{module}.cu");
    let source = images::sources()
        .iter()
        .find(|(name, _)| *name == file)
        .ok_or_else(|| failed(format!("the binary has no source of {module}")))?;
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for (name, header) in images::sources() {
        if name.ends_with(".cuh") {
            names.push(text(name)?);
            texts.push(text(header)?);
        }
    }
    let (source, file) = (text(source.1)?, text(&file)?);
    let (name_pointers, text_pointers) = (pointers(&names), pointers(&texts));
    let mut program = Program(nvrtc, std::ptr::null_mut());
    // SAFETY: all texts end with a zero and are alive until the program is gone; there are as many
    // names as headers.
    let code = unsafe {
        (nvrtc.nvrtcCreateProgram)(
            &mut program.1,
            source.as_ptr(),
            file.as_ptr(),
            names.len() as c_int,
            text_pointers.as_ptr(),
            name_pointers.as_ptr(),
        )
    };
    check(code, "nvrtcCreateProgram")?;
    let wanted = capability.0 * 10 + capability.1;
    let highest = highest_known(nvrtc, wanted)?;
    let exact = highest == wanted;
    let kind = if exact { "sm" } else { "compute" };
    // As nvcc is called for the images: see kernels/built.
    let options = [
        text(&format!("--gpu-architecture={kind}_{highest}"))?,
        text("--std=c++17")?,
        text("--fmad=false")?,
    ];
    let option_pointers = pointers(&options);
    // SAFETY: the program was made above; there are as many options as said, each ending with a
    // zero.
    let code = unsafe {
        (nvrtc.nvrtcCompileProgram)(program.1, options.len() as c_int, option_pointers.as_ptr())
    };
    if code != 0 {
        let log = program.log();
        return Err(failed(format!("{module}.cu: error {code}: {log}")));
    }
    let (size, get) = match exact {
        true => (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
        false => (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
    };
    program.read(size, get)
}

/// A program that is given back.
struct Program(&'static Nvrtc, nvrtcProgram);

impl Program {
    /// One of its results.
    fn read(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> Code,
        get: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> Code,
    ) -> Result<Vec<u8>, CompileError> {
        let mut bytes = 0;
        // SAFETY: the program is alive; `bytes` is written to.
        let code = unsafe { size(self.1, &mut bytes) };
        check(code, "asking for its size")?;
        let mut result = vec![0u8; bytes];
        // SAFETY: the program is alive; NVRTC writes as many bytes as it said.
        let code = unsafe { get(self.1, result.as_mut_ptr().cast()) };
        check(code, "asking for it")?;
        Ok(result)
    }

    /// What the compiler said.
    fn log(&self) -> String {
        let log = self.read(self.0.nvrtcGetProgramLogSize, self.0.nvrtcGetProgramLog);
        let log = log.unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        text.trim_end_matches('\0').trim().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.1.is_null() {
            // SAFETY: the program was made by NVRTC and is used no more.
            unsafe { (self.0.nvrtcDestroyProgram)(&mut self.1) };
        }
    }
}

/// The highest compute capability that NVRTC knows and that is not above `wanted`, as 10 times the
/// major and the minor.
fn highest_known(nvrtc: &Nvrtc, wanted: u32) -> Result<u32, CompileError> {
    let mut count = 0;
    // SAFETY: `count` is written to.
    let code = unsafe { (nvrtc.nvrtcGetNumSupportedArchs)(&mut count) };
    check(code, "nvrtcGetNumSupportedArchs")?;
    let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: NVRTC writes as many numbers as it said.
    let code = unsafe { (nvrtc.nvrtcGetSupportedArchs)(known.as_mut_ptr()) };
    check(code, "nvrtcGetSupportedArchs")?;
    let known = known
        .into_iter()
        .filter_map(|known| u32::try_from(known).ok());
    let highest = known.filter(|known| *known <= wanted).max();
    highest.ok_or_else(|| failed(format!("it does not know compute capability {wanted}")))
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

fn check(code: Code, doing: &str) -> Result<(), CompileError> {
    match code {
        0 => Ok(()),
        _ => Err(failed(format!("error {code} in {doing}"))),
    }
}

fn failed(why: impl Into<String>) -> CompileError {
    CompileError::Failed(why.into())
}
