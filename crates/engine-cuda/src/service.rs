//! A service in the device's memory: the instructions of all its pages, constants, and fragments.

use crate::abi::layout::{PAD, UNIT};
use crate::abi::stage::{Constant, DecodedColumn, Fragment, Instruction};
use crate::gpu::{DeviceBuffer, Extent, GpuError, SharedGpu, Slice, Stream};
use crate::program::{Form, Page, Stage};
use crate::upload::{Bundle, upload};
use rhythm_engine::program::Service;

/// A stage's program on the device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceStage {
    pub(crate) code: Extent<Instruction>,
    pub(crate) constants: Extent<Constant>,
    pub(crate) parts: Extent<u16>,
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
    pub(crate) tables: Extent<u64>,
    /// The columns that each call's answers go to.
    pub(crate) decoded: Vec<Extent<DecodedColumn>>,
}

impl DevicePage {
    fn push(bundle: &mut Bundle, page: Page) -> DevicePage {
        let calls = page.decodings.len();
        let stages = page.stages.iter().enumerate();
        let decoded = page.decodings.iter();
        DevicePage {
            stages: stages
                .map(|(index, stage)| DeviceStage::push(bundle, stage, index < calls))
                .collect(),
            decoded: decoded
                .map(|decoding| bundle.push(&decoding.columns))
                .collect(),
            tables: bundle.push(&page.tables),
            page,
        }
    }

    /// The most registers that one of its stages has.
    pub(crate) fn registers(&self) -> u32 {
        let registers = self.stages.iter().map(|stage| stage.registers);
        registers.max().unwrap_or(0)
    }
}

impl DeviceStage {
    fn push(bundle: &mut Bundle, stage: &Stage, has_call: bool) -> DeviceStage {
        DeviceStage {
            code: bundle.push(&stage.code),
            constants: bundle.push(&stage.constants),
            parts: bundle.push(&stage.parts),
            registers: stage.registers,
            has_call,
        }
    }
}

/// A service on the device.
#[derive(Debug)]
pub(crate) struct DeviceService {
    pub(crate) pages: Vec<DevicePage>,
    pub(crate) fragments: Extent<Fragment>,
    pub(crate) fragment_bytes: Extent<u8>,
    /// How its stages say what their bodies are.
    pub(crate) form: Form,
    memory: DeviceBuffer,
}

impl DeviceService {
    pub(crate) fn new(
        gpu: &SharedGpu,
        stream: Stream,
        service: &Service,
        form: Form,
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
        let programs = service.pages.iter();
        let pages = programs
            .map(|program| DevicePage::push(&mut bundle, Page::encode(program, &table, form)))
            .collect();
        // What is empty and stands last has an address within the buffer, too.
        bundle.reserve::<u8>(UNIT);
        Ok(DeviceService {
            pages,
            fragments,
            fragment_bytes,
            form,
            memory: upload(gpu, stream, bundle.bytes())?,
        })
    }

    /// What is at one of its places.
    pub(crate) fn at<T>(&self, place: Extent<T>) -> Slice<'_, T> {
        self.memory.slice(place)
    }
}
