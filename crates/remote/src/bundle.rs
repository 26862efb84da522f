//! A service on its way to a node: its sources, as they were read, and what else programs and their
//! stages depend on; and what says that both ends have compiled the same.
//!
//! What does not stand in the files themselves stays at home: values of the environment and of
//! files (passwords, secrets). A node compiles with something in their place, which programs do not
//! depend on; where they did, the digests of the programs would differ, and the node is not used.

use crate::wire::bytes::{Put, Taker, Wrong};
use crate::wire::message::{Digest, SOURCES_MAX};
use rhythm_engine::compile::{Size, compile_within};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::cost::Operations;
use rhythm_engine::kind::BackendKind;
use rhythm_engine::program::{Op, Service};
use rhythm_engine::settings::{BackendKey, Outside};
use rhythm_engine::source::Sources;
use rhythm_server::backend::kinds;
use sha2::{Digest as _, Sha256};
use std::cell::Cell;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Most that a node compiles of a service.
const SIZE_MAX: Size = Size {
    pages: 4096,
    nodes: 2_000_000,
    text_bytes: 64 << 20,
};

/// Operations that a turn of a loop may have where lanes may take as many turns as a node lets
/// them: with fewer turns, more.
const TURN_OPERATIONS: usize = 512;

/// What a node lets a service ask for, for a request in a stage. While a lane is run nobody else
/// has a turn, and it is run to its end. The default is that of `[limits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageMax {
    /// Turns of loops: most that `stage_turns_max` may be.
    pub turns: usize,
    /// Bytes of text: most that `stage_text_bytes_max` may be.
    pub text_bytes: usize,
}

impl Default for StageMax {
    fn default() -> StageMax {
        let usual = LaneLimits::default();
        StageMax {
            turns: usual.turns_max,
            text_bytes: usual.text_bytes_max,
        }
    }
}

impl StageMax {
    /// Sees that lanes may not ask for more.
    ///
    /// # Errors
    /// They may.
    fn check_limits(&self, limits: LaneLimits) -> Result<(), String> {
        for (key, asked, most, flag) in [
            ("stage_turns_max", limits.turns_max, self.turns, "turns"),
            (
                "stage_text_bytes_max",
                limits.text_bytes_max,
                self.text_bytes,
                "text",
            ),
        ] {
            if asked > most {
                return Err(format!(
                    "its `[limits] {key}` is {asked}, and that node takes {most} at most \
                     (--stage-{flag} there)"
                ));
            }
        }
        Ok(())
    }

    /// Sees that no stage may take longer than as many turns are to take.
    ///
    /// # Errors
    /// One may.
    fn check_stages(&self, service: &Service, limits: LaneLimits) -> Result<(), String> {
        let most = self.turns.saturating_mul(TURN_OPERATIONS);
        for page in &service.pages {
            for stage in &page.stages {
                let operations = Operations::of(&stage.body).in_turns(limits.turns_max);
                if operations > most {
                    return Err(format!(
                        "page {} may take {operations} steps for a request in a stage, and that \
                         node takes {most} at most: its longest loop has many, so make its \
                         `[limits] stage_turns_max` smaller, or --stage-turns there larger",
                        page.name
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The sources of a service, as bytes, and their digest.
#[derive(Clone, Debug)]
pub struct Bundle {
    pub(crate) digest: Digest,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) limits: LaneLimits,
}

impl Bundle {
    /// Of these sources, whose stages may ask for so much.
    ///
    /// # Errors
    /// They are more than a node takes, in words.
    pub fn new(sources: &Sources, limits: LaneLimits) -> Result<Bundle, String> {
        let mut bytes = Vec::new();
        for limit in [
            limits.body_bytes_max,
            limits.text_bytes_max,
            limits.turns_max,
        ] {
            bytes.put_u64(limit as u64);
        }
        bytes.put_u32(sources.files.len() as u32);
        for (name, text) in &sources.files {
            bytes.put_text(name.as_bytes());
            bytes.put_text(text.as_bytes());
        }
        for names in [&sources.static_files, &sources.others] {
            bytes.put_u32(names.len() as u32);
            names
                .iter()
                .for_each(|name| bytes.put_text(name.as_bytes()));
        }
        if bytes.len() > SOURCES_MAX {
            return Err(format!(
                "its pages and templates have {} bytes, and a node takes {SOURCES_MAX}",
                bytes.len()
            ));
        }
        Ok(Bundle {
            digest: Sha256::digest(&bytes).into(),
            bytes: bytes.into(),
            limits,
        })
    }
}

/// A service as a node has it.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) service: Arc<Service>,
    pub(crate) limits: LaneLimits,
    /// What it was compiled to.
    pub(crate) programs: Digest,
    /// What of memory it takes, roughly.
    pub(crate) bytes: usize,
}

/// Compiles what came.
///
/// # Errors
/// It is no bundle, does not compile here, or asks for more than that; in words.
pub(crate) fn compile_bundle(bytes: &[u8], most: StageMax) -> Result<Compiled, String> {
    let (sources, limits) = read(bytes).map_err(|wrong| wrong.to_string())?;
    most.check_limits(limits)?;
    let service = compile_within(&sources, node_kinds(), SIZE_MAX, &mut |_, _| ());
    let mut service = service.map_err(|found| match found.first() {
        Some(first) => format!("it does not compile there: {first}"),
        None => "it does not compile there".to_owned(),
    })?;
    most.check_stages(&service, limits)?;
    // Front ends have made theirs.
    service.error_pages = None;
    Ok(Compiled {
        programs: digest_of(&service),
        bytes: bytes.len() + bytes_of(&service),
        service: Arc::new(service),
        limits,
    })
}

/// Bytes of a service's programs and texts.
fn bytes_of(service: &Service) -> usize {
    let ops = Cell::new(0);
    let mut bytes: usize = service.fragments.iter().map(|text| text.len()).sum();
    for page in &service.pages {
        bytes += page.texts.len();
        page.any_op(|_| {
            ops.set(ops.get() + 1);
            false
        });
    }
    bytes + ops.get() * size_of::<Op>()
}

fn read(bytes: &[u8]) -> Result<(Sources, LaneLimits), Wrong> {
    let mut from = Taker(bytes);
    let mut limit = || Ok(usize::try_from(from.u64()?).unwrap_or(usize::MAX));
    let limits = LaneLimits {
        body_bytes_max: limit()?,
        text_bytes_max: limit()?,
        turns_max: limit()?,
    };
    if !limits.can_be_set() {
        return Err(Wrong("its limits are none that [limits] can say"));
    }
    // As many digits as a secret has letters at least, and a number, too.
    const STAND_IN: &str = "00000000000000000000000000000000000001";
    let mut sources = Sources {
        outside: Outside {
            variable: |_| Ok(STAND_IN.to_owned()),
            first_line: |_| Ok(STAND_IN.to_owned()),
        },
        ..Sources::default()
    };
    for _ in 0..from.u32()? {
        let name = from.text()?.to_owned();
        sources.files.insert(name, from.text()?.to_owned());
    }
    for names in [&mut sources.static_files, &mut sources.others] {
        for _ in 0..from.u32()? {
            names.insert(from.text()?.to_owned());
        }
    }
    from.end()?;
    Ok((sources, limits))
}

/// The kinds of backends, as a node has them that asks none: addresses may be anything, and no
/// statement is tried.
fn node_kinds() -> &'static [BackendKind] {
    static KINDS: OnceLock<Vec<BackendKind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let kinds = kinds().into_iter().map(|kind| {
            let keys = kind.keys.iter().map(|key| BackendKey {
                check: |_| true,
                ..*key
            });
            BackendKind {
                // Made once a process.
                keys: Vec::leak(keys.collect()),
                check: |_| None,
                check_backend: |_| None,
                ..kind
            }
        });
        kinds.collect()
    })
}

/// What a service's pages and fragments were compiled to: two that have the same digest render the
/// same.
pub(crate) fn digest_of(service: &Service) -> Digest {
    struct Hashed(Sha256);
    impl fmt::Write for Hashed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut hashed = Hashed(Sha256::new());
    let written = write!(hashed, "{:?}{:?}", service.pages, service.fragments);
    debug_assert!(written.is_ok(), "a hash takes everything");
    hashed.0.finalize().into()
}

/// A service that is served, and its bundle.
#[derive(Clone, Debug)]
struct Served {
    service: Weak<Service>,
    bundle: Bundle,
    programs: Digest,
}

/// The services that a front end serves, for all of its workers.
#[derive(Debug, Default)]
pub struct Bundles {
    served: Mutex<Vec<Served>>,
}

impl Bundles {
    /// Adds a service; what nobody serves any more is forgotten.
    pub fn add(&self, service: &Arc<Service>, bundle: Bundle) {
        let programs = digest_of(service);
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.retain(|it| it.service.strong_count() > 0);
        served.push(Served {
            service: Arc::downgrade(service),
            bundle,
            programs,
        });
    }

    /// A service's bundle, and the digest of its programs.
    pub(crate) fn find(&self, service: &Arc<Service>) -> Option<(Bundle, Digest)> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |it: &&Served| std::ptr::eq(it.service.as_ptr(), Arc::as_ptr(service));
        let found = served.iter().find(is_it)?;
        Some((found.bundle.clone(), found.programs))
    }

    /// The digests of all.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let there = served.iter().filter(|it| it.service.strong_count() > 0);
        there.map(|it| it.bundle.digest).collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Service>> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served
            .iter()
            .filter_map(|it| it.service.upgrade())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_engine::compile::compile;

    /// Of a node that lets services ask for anything.
    const ANY: StageMax = StageMax {
        turns: usize::MAX,
        text_bytes: usize::MAX,
    };

    fn sources() -> Sources {
        let mut sources = Sources {
            outside: Outside {
                variable: |_| Ok("http://127.0.0.1:1/b".to_owned()),
                first_line: |_| Ok("a secret of the front end's, 32 long".to_owned()),
            },
            ..Sources::default()
        };
        let files = [
            (
                "service.toml",
                "[session]\nsecret_file = \"key\"\n[backend.b]\nkind = \"besim\"\n\
                 url = \"${AT}\"\n",
            ),
            (
                "pages/hello.html",
                "+++\nroute = \"GET /hello\"\n[params]\n\
                 name = { in = \"query\", type = \"text\" }\n+++\n<h1>{{ name }}</h1>\n",
            ),
        ];
        for (name, text) in files {
            sources.files.insert(name.to_owned(), text.to_owned());
        }
        sources.static_files.insert("a.png".to_owned());
        sources
    }

    #[test]
    fn both_ends_compile_the_same_though_secrets_stay() {
        let sources = sources();
        let service = compile(&sources, &kinds()).expect("a good service");
        let limits = LaneLimits::default();
        let bundle = Bundle::new(&sources, limits).expect("a small one");
        let text = String::from_utf8_lossy(&bundle.bytes);
        assert!(!text.contains("secret of") && !text.contains("127.0.0.1"));
        let compiled = compile_bundle(&bundle.bytes, ANY).expect("it compiles there, too");
        assert_eq!(compiled.programs, digest_of(&service));
        assert_eq!(compiled.limits, limits);
        let mut other = sources.clone();
        let page = other.files.get_mut("pages/hello.html").expect("it has one");
        *page = page.replace("h1", "h2");
        let other = Bundle::new(&other, limits).expect("a small one");
        assert_ne!(other.digest, bundle.digest);
        let compiled = compile_bundle(&other.bytes, ANY).expect("it compiles");
        assert_ne!(compiled.programs, digest_of(&service));
    }

    #[test]
    fn a_service_of_too_many_pages_is_told_so() {
        let mut sources = sources();
        for index in 0..SIZE_MAX.pages {
            let page = format!("+++\nroute = \"GET /{index}\"\n+++\nhello");
            sources.files.insert(format!("pages/{index}.html"), page);
        }
        let bundle = Bundle::new(&sources, LaneLimits::default()).expect("its bytes are few");
        let why = compile_bundle(&bundle.bytes, ANY).expect_err("it has one more");
        assert!(why.contains("larger than any that is taken"), "{why}");
    }

    #[test]
    fn limits_that_nobody_can_set_are_none() {
        let usual = LaneLimits::default();
        let beyond = (1 << 30) + 1;
        for limits in [
            LaneLimits {
                body_bytes_max: beyond,
                ..usual
            },
            LaneLimits {
                text_bytes_max: beyond,
                ..usual
            },
            LaneLimits {
                turns_max: beyond,
                ..usual
            },
            LaneLimits {
                turns_max: 0,
                ..usual
            },
        ] {
            let bundle = Bundle::new(&sources(), limits).expect("a small one");
            let why = compile_bundle(&bundle.bytes, ANY).expect_err("no settings say so");
            assert!(why.contains("[limits]"), "{limits:?}: {why}");
        }
        let most = LaneLimits {
            turns_max: beyond - 1,
            ..usual
        };
        let bundle = Bundle::new(&sources(), most).expect("a small one");
        assert!(compile_bundle(&bundle.bytes, ANY).is_ok());
    }

    #[test]
    fn what_would_keep_others_waiting_is_not_taken() {
        let usual = LaneLimits::default();
        let why = |body: &str, limits: LaneLimits| {
            let mut sources = sources();
            let page = format!(
                "+++\nroute = \"GET /long\"\n+++\n{{% for i in range(9) %}}{body}{{% endfor %}}"
            );
            sources.files.insert("pages/long.html".to_owned(), page);
            let bundle = Bundle::new(&sources, limits).expect("a small one");
            compile_bundle(&bundle.bytes, StageMax::default()).err()
        };
        let step = "{% if i % 7 == 3 %}{{ i }}{% endif %}";
        assert_eq!(why(step, usual), None);
        let more_turns = LaneLimits {
            turns_max: usual.turns_max + 1,
            ..usual
        };
        let told = why(step, more_turns).expect("it may take more");
        assert!(told.contains("stage_turns_max` is 131073"), "{told}");
        let more_text = LaneLimits {
            text_bytes_max: usual.text_bytes_max + 1,
            ..usual
        };
        let told = why(step, more_text).expect("it may make more");
        assert!(told.contains("stage_text_bytes_max` is 1048577"), "{told}");
        let long = step.repeat(TURN_OPERATIONS);
        let told = why(&long, usual).expect("its turns are long");
        assert!(
            told.contains("page long") && told.contains("steps"),
            "{told}"
        );
        // A few of them are as short as many others.
        let few_turns = LaneLimits {
            turns_max: 100,
            ..usual
        };
        assert_eq!(why(&long, few_turns), None);
    }

    #[test]
    fn what_is_cut_is_no_bundle_and_what_is_wrong_is_told() {
        let bundle = Bundle::new(&sources(), LaneLimits::default()).expect("a small one");
        for cut in 0..bundle.bytes.len() {
            assert!(read(&bundle.bytes[..cut]).is_err(), "{cut}");
        }
        let mut wrong = sources();
        let page = wrong.files.get_mut("pages/hello.html").expect("it has one");
        *page = page.replace("{{ name }}", "{{ nobody }}");
        let wrong = Bundle::new(&wrong, LaneLimits::default()).expect("a small one");
        let why = compile_bundle(&wrong.bytes, ANY).expect_err("it has a mistake");
        assert!(why.contains("nobody"), "{why}");
    }
}
