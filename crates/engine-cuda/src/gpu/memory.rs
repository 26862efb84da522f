//! Buffers that give their memory back.

use super::extent::{Extent, Slice};
use super::interface::{Address, DeviceId, GpuError, SharedGpu};

/// How large a buffer becomes that must have so many bytes: more, so that it rarely grows again,
/// but under the emulation's sanitizers just as many, so that they see its end.
pub(crate) fn grown(bytes: usize) -> usize {
    if cfg!(emulation_sanitized) {
        bytes
    } else {
        bytes.next_power_of_two()
    }
}

/// Where a buffer's memory is.
pub trait Home: Sized {
    /// No memory.
    const NOWHERE: Self;

    /// So many bytes, more than none, and where the device finds them.
    ///
    /// # Errors
    /// There is no room.
    fn allocate(gpu: &SharedGpu, bytes: usize) -> Result<(Self, Address), GpuError>;

    /// Gives back what `allocate` gave.
    ///
    /// # Safety
    /// It is not used any more, by the host or by work in any stream.
    unsafe fn free(&self, gpu: &SharedGpu, address: Address);
}

/// In the device.
#[derive(Debug)]
pub struct Device;

impl Home for Device {
    const NOWHERE: Self = Device;

    fn allocate(gpu: &SharedGpu, bytes: usize) -> Result<(Self, Address), GpuError> {
        Ok((Device, gpu.allocate(bytes)?))
    }

    unsafe fn free(&self, gpu: &SharedGpu, address: Address) {
        // SAFETY: the caller's promise.
        unsafe { gpu.free(address) };
    }
}

/// In the host, page-locked, at this place.
#[derive(Debug)]
pub struct Pinned(*mut u8);

// SAFETY: it is the place of memory that its buffer owns; it says nothing of threads.
unsafe impl Send for Pinned {}
// SAFETY: through a shared reference nobody on the host gets at what is there.
unsafe impl Sync for Pinned {}

impl Home for Pinned {
    const NOWHERE: Self = Pinned(std::ptr::dangling_mut());

    fn allocate(gpu: &SharedGpu, bytes: usize) -> Result<(Self, Address), GpuError> {
        let (pointer, address) = gpu.allocate_pinned(bytes)?;
        Ok((Pinned(pointer), address))
    }

    unsafe fn free(&self, gpu: &SharedGpu, _address: Address) {
        // SAFETY: the caller's promise.
        unsafe { gpu.free_pinned(self.0) };
    }
}

/// Memory that the device can use.
#[derive(Debug)]
pub struct Buffer<H: Home> {
    gpu: SharedGpu,
    home: H,
    address: Address,
    bytes: usize,
}

/// Memory of the device; contents undefined when new.
pub type DeviceBuffer = Buffer<Device>;

/// Page-locked memory of the host that the device can read and write, too; zeroed when new.
pub type PinnedBuffer = Buffer<Pinned>;

impl<H: Home> Buffer<H> {
    /// So many bytes, a whole number of 16; none cost nothing.
    ///
    /// # Errors
    /// There is no room.
    pub fn new(gpu: &SharedGpu, bytes: usize) -> Result<Self, GpuError> {
        let bytes = bytes.next_multiple_of(16);
        let (home, address) = match bytes {
            0 => (H::NOWHERE, Address::NULL),
            _ => H::allocate(gpu, bytes)?,
        };
        Ok(Buffer {
            gpu: gpu.clone(),
            home,
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

    /// The items at a place of it.
    ///
    /// # Panics
    /// The place is not within the buffer.
    #[must_use]
    pub fn slice<T>(&self, place: Extent<T>) -> Slice<'_, T> {
        Slice::of(DeviceId::of(&*self.gpu), self.address, self.bytes, place)
    }

    /// Its first bytes.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn first(&self, bytes: usize) -> Slice<'_, u8> {
        self.slice(Extent::new(0, bytes))
    }

    /// Makes it at least so large; contents are lost where it grows. It must not be in use by the
    /// device.
    ///
    /// # Errors
    /// There is no room; the buffer is empty then.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), GpuError> {
        if bytes > self.bytes {
            return self.grow_to(grown(bytes));
        }
        Ok(())
    }

    /// The same, but no larger than said: for buffers that are many and large, and rarely grow.
    ///
    /// # Errors
    /// As [`Buffer::grow`].
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), GpuError> {
        if bytes > self.bytes {
            // The old one goes first: both may not fit.
            *self = Buffer::new(&self.gpu, 0)?;
            *self = Buffer::new(&self.gpu, bytes)?;
        }
        Ok(())
    }
}

impl PinnedBuffer {
    /// The bytes. Whoever may borrow the buffer alone knows that no stream has work on it: what a
    /// stream is given stays borrowed until it is done.
    #[must_use]
    pub fn host(&mut self) -> &mut [u8] {
        // SAFETY: it is ours, of so many bytes, zeroed when it was made; the host has no other
        // reference to it, and no work in a stream, as above.
        unsafe { std::slice::from_raw_parts_mut(self.home.0, self.bytes) }
    }
}

impl<H: Home> Drop for Buffer<H> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: what a stream is given stays borrowed until it is done.
            unsafe { self.home.free(&self.gpu, self.address) };
        }
    }
}
