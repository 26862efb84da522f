//! A service in the device's memory: the instructions of all its pages, constants, and fragments.
#![allow(unsafe_code)]

use crate::gpu::{Address, DeviceBuffer, GpuError, PinnedBuffer, SharedGpu, Stream};
use crate::launch::{DecodedColumn, Fragment, PAD, StageConstant, UNIT};
use crate::program::Page;
use rhythm_engine::program::Service;

/// Plain data that is uploaded as it lies in memory.
///
/// # Safety
/// Without gaps and pointers: every byte of it is initialized, and any bytes are a value of it.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: integers, or `#[repr(C)]` structs of integers without gaps.
        unsafe impl Plain for $type {}
    )*};
}

plain!(
    u8,
    u16,
    u32,
    u64,
    i64,
    rhythm_engine::cohort::View,
    rhythm_engine::cohort::Span,
    crate::program::Instruction,
    crate::abi::LaneResult,
    crate::launch::LaneOffsets,
    crate::launch::DeliveredText,
    super::slot::Counters,
    rhythm_engine::cohort::Segment,
    StageConstant,
    Fragment,
    DecodedColumn,
);

/// A struct that a kernel wrote.
pub(crate) fn read<T: Plain>(bytes: &[u8], at: usize, index: usize) -> T {
    let start = at + index * size_of::<T>();
    let part = &bytes[start..start + size_of::<T>()];
    // SAFETY: `part` has the size of `T`, whose bytes may have any value.
    unsafe { part.as_ptr().cast::<T>().read_unaligned() }
}

/// Bytes being put together for one copy to the device; places are multiples of 16.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    bytes: Vec<u8>,
}

impl Bundle {
    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends items and gives where they begin.
    pub(crate) fn push<T: Plain>(&mut self, items: &[T]) -> usize {
        let start = self.bytes.len();
        // SAFETY: `T` is plain, so all its bytes are initialized, and bytes have no alignment.
        let bytes = unsafe {
            std::slice::from_raw_parts(items.as_ptr().cast::<u8>(), std::mem::size_of_val(items))
        };
        self.bytes.extend_from_slice(bytes);
        self.align();
        start
    }

    /// Appends so many bytes of nothing.
    pub(crate) fn reserve(&mut self, bytes: usize) -> usize {
        let start = self.bytes.len();
        self.bytes.resize(start + bytes, 0);
        self.align();
        start
    }

    fn align(&mut self) {
        self.bytes
            .resize(self.bytes.len().next_multiple_of(UNIT), 0);
    }

    /// What it has.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies bytes to a new buffer of the device and waits until they are there.
pub(crate) fn upload(
    gpu: &SharedGpu,
    stream: Stream,
    bytes: &[u8],
) -> Result<DeviceBuffer, GpuError> {
    let buffer = DeviceBuffer::new(gpu, bytes.len().max(UNIT))?;
    let mut pinned = PinnedBuffer::new(gpu, bytes.len().max(UNIT))?;
    // SAFETY: nobody else knows the buffer yet.
    unsafe { pinned.bytes_mut()[..bytes.len()].copy_from_slice(bytes) };
    // SAFETY: both buffers are alive until the copy is done, which is waited for.
    unsafe { gpu.copy(stream, buffer.address(), pinned.address(), pinned.len()) }?;
    gpu.synchronize(stream)?;
    Ok(buffer)
}

/// A stage's program on the device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceStage {
    pub(crate) code: Address,
    pub(crate) constants: Address,
    pub(crate) parts: Address,
    pub(crate) constant_count: u32,
    pub(crate) registers: u32,
    /// Does it end with a call?
    pub(crate) has_call: bool,
}

/// A page's programs on the device.
#[derive(Clone, Debug)]
pub(crate) struct DevicePage {
    /// What was encoded, for what the host must know of it.
    pub(crate) page: Page,
    pub(crate) stages: Vec<DeviceStage>,
    pub(crate) tables: Address,
    /// The columns that each call's answers go to.
    pub(crate) decoded: Vec<Address>,
}

/// A service on the device.
#[derive(Debug)]
pub(crate) struct DeviceService {
    pub(crate) pages: Vec<DevicePage>,
    pub(crate) fragments: Address,
    pub(crate) fragment_bytes: Address,
    _memory: DeviceBuffer,
}

impl DeviceService {
    pub(crate) fn new(
        gpu: &SharedGpu,
        stream: Stream,
        service: &Service,
    ) -> Result<DeviceService, GpuError> {
        let mut bundle = Bundle::default();
        let mut bytes: Vec<u8> = Vec::new();
        let mut table: Vec<Fragment> = Vec::new();
        for fragment in &service.fragments {
            table.push(Fragment {
                offset: bytes.len() as u32,
                length: fragment.len() as u32,
            });
            bytes.extend_from_slice(fragment);
            // Filled up, so that a column's last unit of it is padded already.
            bytes.resize(bytes.len().next_multiple_of(UNIT), PAD);
        }
        let fragments = bundle.push(&table);
        let fragment_bytes = bundle.push(&bytes);
        let mut places = Vec::new();
        for program in &service.pages {
            let page = Page::encode(program, &table);
            let stages: Vec<[usize; 3]> = (page.stages.iter())
                .map(|stage| {
                    let constants: Vec<StageConstant> = (stage.constants.iter())
                        .map(|&(register, bits)| StageConstant {
                            register,
                            unused: 0,
                            bits,
                        })
                        .collect();
                    [
                        bundle.push(&stage.code),
                        bundle.push(&constants),
                        bundle.push(&stage.parts),
                    ]
                })
                .collect();
            let decoded: Vec<usize> = (page.decodings.iter())
                .map(|decoding| {
                    let columns: Vec<DecodedColumn> = (decoding.columns.iter())
                        .map(|&(slot, is_text)| DecodedColumn {
                            slot,
                            is_text: u32::from(is_text),
                        })
                        .collect();
                    bundle.push(&columns)
                })
                .collect();
            let tables = bundle.push(&page.tables);
            places.push((page, stages, decoded, tables));
        }
        // What is empty and stands last has an address within the buffer, too.
        bundle.reserve(UNIT);
        let memory = upload(gpu, stream, bundle.bytes())?;
        let at = |place: usize| memory.address().plus(place);
        let pages = places
            .into_iter()
            .map(|(page, stages, decoded, tables)| DevicePage {
                stages: (page.stages.iter().zip(stages).enumerate())
                    .map(|(index, (stage, [code, constants, parts]))| DeviceStage {
                        code: at(code),
                        constants: at(constants),
                        parts: at(parts),
                        constant_count: stage.constants.len() as u32,
                        registers: stage.registers,
                        has_call: index < page.decodings.len(),
                    })
                    .collect(),
                tables: at(tables),
                decoded: decoded.into_iter().map(at).collect(),
                page,
            });
        Ok(DeviceService {
            pages: pages.collect(),
            fragments: at(fragments),
            fragment_bytes: at(fragment_bytes),
            _memory: memory,
        })
    }
}
