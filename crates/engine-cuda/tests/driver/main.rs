//! The driver on libraries that are not NVIDIA's: each test builds a libcuda.so that fails in its
//! own way, and runs one of the parts below in a process that finds it there first.

#![allow(unsafe_code)]

use rhythm_engine_cuda::gpu::driver::Driver;
use rhythm_engine_cuda::gpu::{
    Address, DeviceBuffer, DeviceId, Field, GpuError, Grid, Kernel, Launch, PinnedBuffer,
    SharedGpu, Slice, scope,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A folder with the libraries of a test.
struct Libraries(PathBuf);

impl Libraries {
    fn new(test: &str) -> Libraries {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("driver-{test}"));
        std::fs::create_dir_all(&folder).expect("a folder for the libraries");
        Libraries(folder)
    }

    /// Compiles one of the C files beside this one.
    fn with(self, source: &str, library: &str, options: &[&str]) -> Libraries {
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/driver")
            .join(source);
        let status = Command::new(compiler)
            .args([
                "-std=gnu11",
                "-Wall",
                "-Werror",
                "-shared",
                "-fPIC",
                "-pthread",
                "-o",
            ])
            .arg(self.0.join(library))
            .arg(source)
            .args(options)
            .status()
            .expect("a C compiler");
        assert!(status.success(), "{library} is not compiled");
        self
    }

    fn cuda(test: &str) -> Libraries {
        Libraries::new(test).with("fake_cuda.c", "libcuda.so", &[])
    }

    /// Runs a part of this file, an ignored test, with these libraries.
    fn run(&self, part: &str, environment: &[(&str, &str)]) -> Output {
        let this = std::env::current_exe().expect("the test's own file");
        Command::new(this)
            .args(["--ignored", "--exact", "--nocapture", part])
            .env("LD_LIBRARY_PATH", &self.0)
            .envs(environment.iter().copied())
            .output()
            .expect("the test runs itself")
    }

    /// Runs a part, which must succeed.
    fn succeed(&self, part: &str, environment: &[(&str, &str)]) -> String {
        let output = self.run(part, environment);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{report}{text}");
        assert!(report.contains("1 passed"), "{part}: {report}");
        text
    }

    /// Opens the device, which must fail; what it says.
    fn absent(&self, options: &str) -> String {
        let text = self.succeed("part_absent", &[("FAKE_CUDA", options)]);
        let said = text.lines().find_map(|line| line.strip_prefix("absent: "));
        said.expect("the sentence").to_owned()
    }
}

/// A kernel of the fake: it writes the number of its threads to `result`.
#[derive(Clone, Copy)]
struct CountThreads<'m> {
    result: Option<Slice<'m, u8>>,
    grid: Grid,
}

impl Field for CountThreads<'_> {
    type Raw = Address;
    type Counted = Self;

    fn counted(self) -> Self {
        self
    }

    fn lower(self, device: DeviceId) -> Address {
        self.result.lower(device)
    }
}

// SAFETY: an address is what the fake's kernels take, of eight bytes; null it takes for a failure.
unsafe impl<'m> Launch<'m> for CountThreads<'m> {
    fn kernel(&self) -> Kernel {
        Kernel::CopyBytes
    }

    fn grid(&self) -> Grid {
        self.grid
    }
}

#[test]
#[ignore = "a part of the others"]
fn part_absent() {
    match Driver::open(0) {
        Err(GpuError::Absent(why)) => eprintln!("absent: {why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "a part of the others"]
fn part_everything() {
    let driver = Driver::open(0).expect("the fake is whole");
    let description = driver.describe();
    assert_eq!(description.name, "Fake 0");
    assert_eq!(
        (description.multiprocessors, description.clock_khz),
        (132, 1_980_000)
    );
    assert_eq!(
        (description.l2_bytes, description.memory_bytes),
        (50 << 20, 1 << 30)
    );
    assert_eq!(description.driver_version, "13.0");
    assert_eq!(description.pci_bus, "0000:00:00.0");
    let gpu: SharedGpu = driver;
    let stream = gpu.stream().expect("a stream");
    let device = DeviceBuffer::new(&gpu, 64).expect("memory");
    let mut host = PinnedBuffer::new(&gpu, 64).expect("pinned memory");
    assert_eq!(host.host(), [0; 64], "zeroed");
    let (from, to) = (gpu.mark().expect("a mark"), gpu.mark().expect("a mark"));
    assert!(gpu.elapsed_ms(from, to).is_err(), "not recorded");
    gpu.record(stream, from).expect("recorded");
    let grid = Grid::over(1000, 256).with_shared(200 << 10);
    scope(&*gpu, &[stream], |queue| {
        queue.fill(device.first(64), 7).expect("filled");
        let result = Some(device.first(16).part(8..16));
        queue
            .launch(CountThreads { result, grid })
            .expect("launched");
        queue
            .copy(host.first(64), device.first(64))
            .expect("copied");
        let nothing = device.first(0);
        queue.copy(nothing, nothing).expect("nothing is copied");
        gpu.record(stream, to).expect("recorded");
        gpu.wait(stream, from).expect("a stream waits");
        let (told, tells) = channel();
        // From another thread, whose context is another until the call.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let call = Box::new(move |result| told.send(result).expect("somebody waits"));
                gpu.on_completion(stream, call).expect("a call is put in");
            });
        });
        let result = tells.recv_timeout(Duration::from_secs(30));
        assert_eq!(result.expect("called"), Ok(()));
        Ok(())
    })
    .expect("done");
    assert_eq!(gpu.elapsed_ms(from, to), Ok(1.5));
    let mut expected = [7u8; 64];
    expected[8..16].copy_from_slice(&1024u64.to_ne_bytes());
    assert_eq!(host.host(), expected);

    // A call that panics does not end the driver's thread.
    let (told, tells) = channel::<()>();
    let call = Box::new(move |_| {
        let _told = told;
        panic!("as planned");
    });
    gpu.on_completion(stream, call).expect("a call is put in");
    assert!(
        tells.recv_timeout(Duration::from_secs(30)).is_err(),
        "dropped as it panicked"
    );

    let much = 3usize << 30;
    assert_eq!(
        DeviceBuffer::new(&gpu, much).map(drop),
        Err(GpuError::OutOfMemory(much))
    );
    assert_eq!(
        PinnedBuffer::new(&gpu, much).map(drop),
        Err(GpuError::OutOfMemory(much))
    );
    drop((device, host, gpu));
}

#[test]
#[ignore = "a part of the others"]
fn part_failure() {
    let gpu: SharedGpu = Driver::open(0).expect("the fake is whole");
    let stream = gpu.stream().expect("a stream");
    let buffer = DeviceBuffer::new(&gpu, 16).expect("memory");
    let failed = |doing: &str| {
        GpuError::Failed(format!(
            "CUDA_ERROR_ILLEGAL_ADDRESS: as the fake says, in {doing}; \
             restart the server, and report it with the service's folder: a kernel failed"
        ))
    };
    let waited = scope(&*gpu, &[stream], |queue| {
        let nowhere = CountThreads {
            result: None,
            grid: Grid::over(1, 32),
        };
        queue.launch(nowhere).expect("launched");
        let (told, tells) = channel();
        let call = Box::new(move |result| told.send(result).expect("somebody waits"));
        gpu.on_completion(stream, call).expect("a call is put in");
        let result = tells.recv_timeout(Duration::from_secs(30)).expect("called");
        assert_eq!(result, Err(failed("what was in the stream")));
        Ok(())
    });
    assert_eq!(waited, Err(failed("cuStreamSynchronize")));
    assert_eq!(gpu.allocate(16).map(|_| ()), Err(failed("cuMemAlloc")));
    // What can be given back is given back all the same.
    drop((buffer, gpu));
}

#[test]
#[ignore = "a part of the others"]
fn part_deaf() {
    let gpu: SharedGpu = Driver::open(0).expect("the fake is whole");
    let stream = gpu.stream().expect("a stream");
    let kept = Arc::new(());
    let inside = kept.clone();
    let refused = gpu.on_completion(stream, Box::new(move |_| drop(inside)));
    assert!(matches!(refused, Err(GpuError::Failed(_))), "{refused:?}");
    assert_eq!(Arc::strong_count(&kept), 1, "the call is dropped");
}

#[test]
#[ignore = "a part of the others"]
fn part_full() {
    let gpu: SharedGpu = Driver::open(0).expect("the fake is whole");
    let error = gpu.stream().expect_err("streams need memory, too");
    assert_eq!(error, GpuError::OutOfMemory(0));
    assert_eq!(error.to_string(), "the GPU's memory has no room");
}

#[test]
#[ignore = "a part of the others"]
fn part_opens() {
    let gpu: SharedGpu = Driver::open(0).expect("it can be used");
    eprintln!("opened: {}", gpu.name());
}

#[test]
fn all_that_a_gpu_does() {
    let libraries = Libraries::cuda("everything");
    let said = libraries.succeed("part_everything", &[]);
    assert!(said.contains("fake_cuda: 0 left"), "{said}");
}

#[test]
fn a_failure_is_told_to_all() {
    let libraries = Libraries::cuda("failure");
    let said = libraries.succeed("part_failure", &[]);
    assert!(said.contains("fake_cuda: 0 left"), "{said}");
    libraries.succeed("part_deaf", &[("FAKE_CUDA", "deaf=1")]);
    libraries.succeed("part_full", &[("FAKE_CUDA", "busy=2")]);
}

#[test]
fn what_is_missing_is_said() {
    let libraries = Libraries::cuda("missing");
    let begins = |options: &str, text: &str| {
        let said = libraries.absent(options);
        assert!(said.starts_with(text), "{options}: {said}");
    };
    begins(
        "version=11040",
        "the CUDA driver is too old: it knows CUDA 11.4; install NVIDIA's driver (580",
    );
    begins(
        "init=100",
        "the CUDA driver is here, but no GPU: check that nvidia-smi lists one",
    );
    begins("devices=0", "there is no GPU number 0: there is none");
    begins(
        "capability=75",
        "the GPU Fake 0 is too old: it has compute capability 7.5, and 8.0 or higher",
    );
    begins(
        "init=803",
        "the GPU cannot be used: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: as the fake says, in \
         cuInit; kernel module and libcuda.so",
    );
    // An error that nobody knows yet.
    begins(
        "retain=4711",
        "the GPU cannot be used: error 4711: unknown, in cuDevicePrimaryCtxRetain; or use \
         --device host",
    );
    begins(
        "load=2",
        "the kernels of stage cannot be loaded: error 2: unknown, in cuModuleLoadDataEx \
         (not for me)",
    );
    let old = Libraries::new("old").with("fake_cuda.c", "libcuda.so", &["-DWITHOUT_CALLBACKS"]);
    assert_eq!(
        old.absent(""),
        "the CUDA driver is too old: it has no cuStreamAddCallback; install NVIDIA's \
         driver (580 or later), or use --device host"
    );
}

#[test]
fn kernels_are_compiled_where_no_image_fits() {
    let libraries = Libraries::cuda("nvrtc").with("fake_nvrtc.c", "libnvrtc.so", &[]);
    // NVRTC knows the first and is older than the second.
    for options in ["load=209,capability=80", "load=209,capability=103"] {
        libraries.succeed("part_opens", &[("FAKE_CUDA", options)]);
    }
    let refuses = [("FAKE_CUDA", "load=209"), ("FAKE_NVRTC_REFUSES", "1")];
    let said = libraries.succeed("part_absent", &refuses);
    for part in [
        "takes no image of stage",
        "(not for me)",
        "NVRTC failed",
        "error: as the fake says",
        "install",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
