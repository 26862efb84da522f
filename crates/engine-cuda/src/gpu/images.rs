//! The kernels as the binary carries them: compiled for a GPU, and as source.
//!
//! `cargo xtask kernels` compiles `kernels/*.cu` into `kernels/built/`, which is committed: whoever
//! builds the crate needs no CUDA compiler. An image holds machine code for sm_90 (H100, H200,
//! GH200) and PTX, which the driver of any later GPU compiles as it loads it. From the sources
//! NVRTC can make code for a page or for another GPU.

/// Where a machine word may be read: an image begins with one.
#[repr(C, align(16))]
struct Aligned<Bytes: ?Sized>(Bytes);

/// The bytes of a file beside the one that says so.
macro_rules! image {
    ($file:literal) => {{
        const IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!($file));
        &IMAGE.0
    }};
}

// `IMAGES` and `SOURCES`: names and contents, in order of names.
include!("../../kernels/built/images.rs");

/// The image of a module (the name of a file in `kernels/` without `.cu`), as the driver loads it:
/// a fatbin. There is none of a module that `cargo xtask kernels` has not seen.
#[must_use]
pub fn image(module: &str) -> Option<&'static [u8]> {
    IMAGES
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, image)| *image)
}

/// The kernels' sources and headers, by the names they include each other by.
#[must_use]
pub fn sources() -> &'static [(&'static str, &'static str)] {
    SOURCES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::kernel::{Kernel, MODULES};
    use sha2::{Digest, Sha256};
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    /// What the tests read of `kernels/built/resources.toml`.
    #[derive(serde::Deserialize)]
    struct Resources {
        sources: BTreeMap<String, String>,
        images: BTreeMap<String, String>,
        kernels: BTreeMap<String, OfKernel>,
    }

    #[derive(serde::Deserialize)]
    struct OfKernel {
        module: String,
        registers: u32,
    }

    fn resources() -> Resources {
        toml::from_str(include_str!("../../kernels/built/resources.toml")).unwrap()
    }

    fn sha256(bytes: &[u8]) -> String {
        Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The sources that lie in `kernels/` now.
    fn sources_on_disk() -> BTreeMap<String, Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap());
        let sources = entries.filter(|entry| {
            let path = entry.path();
            path.extension().is_some_and(|e| e == "cu" || e == "cuh")
        });
        sources
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read(entry.path()).unwrap())
            })
            .collect()
    }

    fn hashes<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> BTreeMap<String, String> {
        files
            .map(|(name, bytes)| (name.to_owned(), sha256(bytes)))
            .collect()
    }

    #[test]
    fn committed_images_are_those_of_the_sources() {
        let made = resources();
        let disk = sources_on_disk();
        let now = hashes(disk.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])));
        let changed: Vec<&String> = now
            .keys()
            .chain(made.sources.keys())
            .filter(|name| now.get(*name) != made.sources.get(*name))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        assert!(
            changed.is_empty(),
            "kernels/built is not made of these sources as they are: {changed:?}; run \
             cargo xtask kernels"
        );
        let embedded = hashes(
            sources()
                .iter()
                .map(|(name, text)| (*name, text.as_bytes())),
        );
        assert_eq!(embedded, made.sources, "run cargo xtask kernels");
        let images = hashes(IMAGES.iter().map(|(name, image)| (*name, *image)));
        assert_eq!(images, made.images, "run cargo xtask kernels");
    }

    #[test]
    fn every_kernel_is_in_the_image_of_its_module() {
        let made = resources();
        let modules: BTreeSet<&str> = MODULES.iter().copied().collect();
        let images: BTreeSet<&str> = IMAGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            modules, images,
            "gpu::MODULES and kernels/*.cu differ, or run cargo xtask kernels"
        );
        let known: BTreeMap<&str, &str> = Kernel::ALL
            .iter()
            .map(|kernel| (kernel.name(), kernel.module()))
            .collect();
        let compiled: BTreeMap<&str, &str> = made
            .kernels
            .iter()
            // Functions that kernels call have no registers of their own.
            .filter(|(_, of)| of.registers > 0)
            .map(|(name, of)| (name.as_str(), of.module.as_str()))
            .collect();
        assert_eq!(known, compiled, "gpu::Kernel and kernels/*.cu differ");
    }

    #[test]
    fn images_are_fatbins_at_a_word() {
        for (module, _) in IMAGES {
            let image = image(module).expect("it is in the table");
            assert_eq!(image.as_ptr().addr() % 16, 0, "{module}");
            assert_eq!(image[..4], 0xba55_ed50_u32.to_le_bytes(), "{module}");
        }
        assert_eq!(image("no module"), None);
    }
}
