//! What the tests share: the Banking service, and executors on the emulation.
#![allow(dead_code, unreachable_pub)]

pub mod flight;
pub mod wasteful;

use rhythm_engine::compile::compile;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance;
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_engine_cuda::executor::{CudaExecutor, Options};
use rhythm_engine_cuda::gpu::SharedGpu;
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::layout::Layout;
use std::path::Path;
use std::sync::Arc;

/// The orders in which the emulation runs the threads of a block.
pub const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(7),
];

/// The sample service.
pub fn banking() -> Arc<Service> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/banking");
    let mut sources = Sources::default();
    let read = |path: &Path| std::fs::read_to_string(path).expect("it is UTF-8");
    sources.files.insert(
        "service.toml".to_owned(),
        read(&folder.join("service.toml")),
    );
    for part in ["pages", "templates"] {
        for entry in std::fs::read_dir(folder.join(part)).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            let name = path
                .file_name()
                .expect("files have names")
                .to_string_lossy()
                .into_owned();
            sources.files.insert(format!("{part}/{name}"), read(&path));
        }
    }
    Arc::new(compile(&sources, conformance::BESIM).expect("it compiles"))
}

/// An executor on this GPU.
pub fn executor(gpu: SharedGpu, options: Options) -> CudaExecutor {
    CudaExecutor::new(gpu, options, Arc::new(|| {})).expect("an emulated GPU has room")
}

/// An executor on an emulated GPU, with the backend on the host.
pub fn emulated(order: LaneOrder, layout: Layout, limits: LaneLimits) -> CudaExecutor {
    let options = Options {
        layout,
        limits,
        ..Options::default()
    };
    executor(Emulated::new(order), options)
}
