//! Buffers that give their memory back.

use super::{Address, GpuError, SharedGpu};

/// How large a buffer becomes that must have so many bytes: more, so that it rarely grows again,
/// but under the emulation's sanitizers just as many, so that they see its end.
fn grown(bytes: usize) -> usize {
    if cfg!(emulation_sanitized) {
        bytes
    } else {
        bytes.next_power_of_two()
    }
}

/// Memory of the device.
#[derive(Debug)]
pub struct DeviceBuffer {
    gpu: SharedGpu,
    address: Address,
    bytes: usize,
}

impl DeviceBuffer {
    /// So many bytes, contents undefined, a whole number of 16; none cost nothing.
    ///
    /// # Errors
    /// There is no room.
    pub fn new(gpu: &SharedGpu, bytes: usize) -> Result<DeviceBuffer, GpuError> {
        let bytes = bytes.next_multiple_of(16);
        let address = match bytes {
            0 => Address(0),
            _ => gpu.allocate(bytes)?,
        };
        Ok(DeviceBuffer {
            gpu: gpu.clone(),
            address,
            bytes,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// How much it is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Makes it at least so large; contents are lost where it grows. It must not be in use by the
    /// device.
    ///
    /// # Errors
    /// There is no room; the buffer is empty then.
    pub fn grow(&mut self, bytes: usize) -> Result<(), GpuError> {
        if bytes > self.bytes {
            return self.grow_to(grown(bytes));
        }
        Ok(())
    }

    /// The same, but no larger than said: for buffers that are many and large, and rarely grow.
    ///
    /// # Errors
    /// As [`DeviceBuffer::grow`].
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), GpuError> {
        if bytes > self.bytes {
            // The old one goes first: both may not fit.
            *self = DeviceBuffer::new(&self.gpu, 0)?;
            *self = DeviceBuffer::new(&self.gpu, bytes)?;
        }
        Ok(())
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: whoever put work into a stream keeps the buffer until that is done.
            unsafe { self.gpu.free(self.address) };
        }
    }
}

/// Page-locked memory of the host that the device can read and write, too.
#[derive(Debug)]
pub struct PinnedBuffer {
    gpu: SharedGpu,
    pointer: *mut u8,
    address: Address,
    bytes: usize,
}

// SAFETY: it is owned memory; the pointer says nothing of threads.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    /// So many bytes, zeroed, a whole number of 16.
    ///
    /// # Errors
    /// There is no room.
    pub fn new(gpu: &SharedGpu, bytes: usize) -> Result<PinnedBuffer, GpuError> {
        let bytes = bytes.next_multiple_of(16);
        let (pointer, address) = match bytes {
            0 => (std::ptr::dangling_mut(), Address(0)),
            _ => gpu.allocate_pinned(bytes)?,
        };
        Ok(PinnedBuffer {
            gpu: gpu.clone(),
            pointer,
            address,
            bytes,
        })
    }

    /// Where the device finds it.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// How much it is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Makes it at least so large; contents are lost where it grows. It must not be in use by the
    /// device.
    ///
    /// # Errors
    /// There is no room; the buffer is empty then.
    pub fn grow(&mut self, bytes: usize) -> Result<(), GpuError> {
        if bytes > self.bytes {
            *self = PinnedBuffer::new(&self.gpu, 0)?;
            *self = PinnedBuffer::new(&self.gpu, grown(bytes))?;
        }
        Ok(())
    }

    /// The bytes.
    ///
    /// # Safety
    /// No work in any stream writes to it.
    #[must_use]
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: it is ours, zeroed when it was made, and nobody writes, as the caller promises.
        unsafe { std::slice::from_raw_parts(self.pointer, self.bytes) }
    }

    /// The bytes, to be written.
    ///
    /// # Safety
    /// No work in any stream uses it.
    #[must_use]
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: it is ours, zeroed when it was made, and nobody uses it, as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: whoever put work into a stream keeps the buffer until that is done.
            unsafe { self.gpu.free_pinned(self.pointer) };
        }
    }
}
