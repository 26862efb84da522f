//! Compiles each of `kernels/*.cu` with what `abi` says of it as assertions: the place of every
//! field, the type of what it points to, and the number of everything that has one.

use super::declare::{Described, Struct};
use super::{bandwidth, besim, case, lane, layout, parse, resident, sessions, stage};
use crate::gpu::{Kernel, MODULES};
use rhythm_engine::cohort::Segment;
use rhythm_engine::cohort::{LaneError, Span, View};
use rhythm_engine::program::{Arithmetic, Comparison, Escape, TextFunction, TextTest};
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::{Command, Output};

/// Values of an enumeration of the engine. One that is not named here is not compiled.
macro_rules! numbers_of {
    ($type:ident { $($variant:ident),* $(,)? }) => {{
        const _: fn($type) = |value| match value { $($type::$variant => ()),* };
        &[$((stringify!($variant), $type::$variant as u64)),*]
    }};
}

/// Structs of the engine that cross.
const OF_THE_ENGINE: &[Struct] = &[
    Struct {
        name: "View",
        size: size_of::<View>(),
        fields: &[
            ("offset", offset_of!(View, offset), 4, None),
            ("length", offset_of!(View, length), 4, None),
        ],
    },
    Struct {
        name: "Span",
        size: size_of::<Span>(),
        fields: &[
            ("start", offset_of!(Span, start), 4, None),
            ("length", offset_of!(Span, length), 4, None),
        ],
    },
    Struct {
        name: "Segment",
        size: size_of::<Segment>(),
        fields: &[
            ("run_end", offset_of!(Segment, run_end), 4, None),
            ("fragment", offset_of!(Segment, fragment), 4, None),
        ],
    },
];

/// What must hold of a module, as C++.
#[derive(Default)]
struct Assertions(String);

impl Assertions {
    fn holds(mut self, left: &str, right: impl std::fmt::Display) -> Self {
        writeln!(
            self.0,
            "static_assert(static_cast<u64>({left}) == {right}, \"{left}\");"
        )
        .expect("a text takes all");
        self
    }

    fn structs(mut self, structs: &[Struct]) -> Self {
        for Struct { name, size, fields } in structs {
            self = self.holds(&format!("sizeof({name})"), size);
            for (field, offset, size, pointee) in *fields {
                self = self.holds(&format!("__builtin_offsetof({name}, {field})"), offset);
                self = self.holds(&format!("sizeof({name}::{field})"), size);
                if let Some(pointee) = pointee {
                    self = self.points_to(&format!("decltype({name}::{field})"), pointee());
                }
            }
        }
        self
    }

    /// A C++ type is a pointer to a type of Rust, which may be changed there or not.
    fn points_to(mut self, pointer: &str, pointee: &str) -> Self {
        // Of an array its items: `[u64; 2]`.
        let item = pointee.trim_start_matches('[').split(';').next();
        let item = item.and_then(|item| item.rsplit("::").next());
        let item = match item.expect("a split has a first part") {
            "Address" => "u64",
            item => item,
        };
        writeln!(
            self.0,
            "static_assert(__is_same({pointer}, {item}*) || __is_same({pointer}, const {item}*), \
             \"{pointer}\");"
        )
        .expect("a text takes all");
        self
    }

    /// A struct with pointers.
    fn pointing<T: Described>(self) -> Self {
        self.structs(&[T::STRUCT])
    }

    /// Each of these kernels takes this struct.
    fn signatures(mut self, signatures: &[(Kernel, Struct)]) -> Self {
        for (kernel, takes) in signatures {
            self = self.structs(&[*takes]);
            let (kernel, name) = (kernel.name(), takes.name);
            writeln!(
                self.0,
                "void (*const {kernel}_takes)(const {name}&) = {kernel};"
            )
            .expect("a text takes all");
        }
        self
    }

    /// Enumerators of this prefix, named as the variants are: `PutText` is `CODE_PUT_TEXT`.
    fn numbers(mut self, prefix: &str, numbers: &[(&str, u64)]) -> Self {
        for (variant, number) in numbers {
            let mut name = prefix.to_owned();
            for letter in variant.chars() {
                if letter.is_ascii_uppercase() {
                    name.push('_');
                }
                name.push(letter.to_ascii_uppercase());
            }
            self = self.holds(&name, number);
        }
        self
    }
}

fn of_lanes() -> Assertions {
    let names = LaneError::ALL.map(|error| format!("{error:?}"));
    let errors = LaneError::ALL.map(|error| (&names[error.index()][..], error as u64));
    Assertions::default()
        .structs(OF_THE_ENGINE)
        .structs(lane::STRUCTS)
        .numbers("ERROR", &errors)
        .holds("NO_TEXT", lane::NO_TEXT)
        .holds("LANE_ACTIVE", lane::LANE_ACTIVE)
        .holds("LANE_FINISHED", lane::LANE_FINISHED)
        .holds("LANE_ROOM", lane::LANE_ROOM)
        .holds("LANE_HOST", lane::LANE_HOST)
        .holds("LANE_FAILED", lane::LANE_FAILED)
        .holds("SESSION_CREATE", lane::SESSION_CREATE)
        .holds("SESSION_DESTROY", lane::SESSION_DESTROY)
        .holds("WARP", super::WARP)
}

fn of_stages() -> Assertions {
    let text = |function| stage::text_function(function);
    let escape = |escape| stage::escape_number(escape);
    of_lanes()
        .structs(stage::STRUCTS)
        .pointing::<stage::Regions<'_>>()
        .signatures(stage::SIGNATURES)
        .holds("STRETCH_BYTES_MAX", stage::STRETCH_BYTES_MAX)
        .holds("STRETCH_RUN", stage::STRETCH_RUN)
        .holds("STRETCH_FRAGMENT", stage::STRETCH_FRAGMENT)
        .holds("STRETCH_TEXT", stage::STRETCH_TEXT)
        .holds("TEXT_PLAIN", stage::TEXT_PLAIN)
        .structs(case::STRUCTS)
        .numbers("CODE", stage::Code::NUMBERS)
        .numbers(
            "ARITHMETIC",
            numbers_of!(Arithmetic {
                Add,
                Subtract,
                Multiply,
                Divide,
                FloorDivide,
                Remainder,
                Power,
            }),
        )
        .numbers(
            "COMPARISON",
            numbers_of!(Comparison {
                Equal,
                NotEqual,
                Less,
                LessOrEqual,
                Greater,
                GreaterOrEqual,
            }),
        )
        .numbers(
            "TEST",
            numbers_of!(TextTest {
                Contains,
                StartsWith,
                EndsWith,
            }),
        )
        .holds("TEXT_UPPER", text(TextFunction::Upper))
        .holds("TEXT_LOWER", text(TextFunction::Lower))
        .holds("TEXT_TITLE", text(TextFunction::Title))
        .holds("TEXT_CAPITALIZE", text(TextFunction::Capitalize))
        .holds("TEXT_TRIM", text(TextFunction::Trim))
        .holds("TEXT_FIRST", text(TextFunction::First))
        .holds("TEXT_LAST", text(TextFunction::Last))
        .holds("TEXT_URL_ENCODE", text(TextFunction::UrlEncode))
        .holds("TEXT_MD5", text(TextFunction::Md5))
        .holds("TEXT_ESCAPE", text(TextFunction::Escape(Escape::None)))
        .holds("ESCAPE_NONE", escape(Escape::None))
        .holds("ESCAPE_HTML", escape(Escape::Html))
        .holds("ESCAPE_PERCENT", escape(Escape::Percent))
        .holds("ESCAPE_HEADER", escape(Escape::Header))
        .holds("ESCAPE_JSON", escape(Escape::Json))
        .holds("NO_SLOT", stage::NO_SLOT)
        .holds("CASE_BLOCK", case::BLOCK)
        .holds("CASE_LOW_END", case::LOW_END)
        .holds("CASE_HIGH_START", case::HIGH_START)
        .holds("CASE_HIGH_COUNT", case::HIGH_COUNT)
        .holds("CASE_COUNT", case::COUNT_SHIFT)
        .holds("CASE_CLASS", case::CLASS_SHIFT)
        .numbers("CASE", &case::Class::NUMBERS[1..])
}

fn of_layouts() -> Assertions {
    of_lanes()
        .structs(layout::STRUCTS)
        .holds("UNIT", layout::UNIT)
        .holds("PAD", layout::PAD)
}

/// What must hold of each module.
fn modules() -> Vec<(&'static str, Assertions)> {
    vec![
        ("stage", of_stages()),
        (
            "layout",
            of_layouts()
                .pointing::<stage::Regions<'_>>()
                .pointing::<layout::Pieces<'_>>()
                .signatures(layout::SIGNATURES)
                .holds("STATUS_MIN", layout::STATUS_MIN)
                .holds("STATUS_MAX", layout::STATUS_MAX)
                .holds("HEAD_END", layout::HEAD_END)
                .holds("HEAD_LINES", layout::HEAD_LINES),
        ),
        (
            "parse",
            of_lanes()
                .structs(parse::STRUCTS)
                .pointing::<parse::ParserTables<'_>>()
                .pointing::<parse::Requests<'_>>()
                .signatures(parse::SIGNATURES)
                .numbers("PAGE", parse::PageFlag::NUMBERS)
                .numbers("PLACE", parse::ParamPlace::NUMBERS)
                .numbers("PARAM", parse::ParamKind::NUMBERS)
                .holds("HOST_PAGE", parse::HOST_PAGE)
                .holds("NO_SEGMENT_NAME", parse::NO_SEGMENT_NAME)
                .holds("NAME_BYTES", parse::NAME_BYTES),
        ),
        (
            "sessions",
            of_lanes()
                .structs(sessions::STRUCTS)
                .pointing::<sessions::SessionArray<'_>>()
                .signatures(sessions::SIGNATURES)
                .holds("WINDOW_SLOTS", sessions::WINDOW_SLOTS)
                .holds("REGIONS", sessions::REGIONS),
        ),
        (
            "besim",
            of_lanes()
                .structs(besim::STRUCTS)
                .signatures(besim::SIGNATURES),
        ),
        ("resident", of_layouts().signatures(resident::SIGNATURES)),
        (
            "bandwidth",
            Assertions::default().signatures(bandwidth::SIGNATURES),
        ),
    ]
}

/// Compiles a module of the kernels, as the emulation does, with assertions behind it.
fn compile(module: &str, assertions: &str, folder: &Path) -> Output {
    let source = folder.join(format!("{module}.cpp"));
    let text = format!("#include \"{module}.cu\"\n{assertions}");
    std::fs::write(&source, text).expect("a file for the compiler");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    Command::new(compiler)
        .args(["-std=c++17", "-fsyntax-only", "-w", "-DRHYTHM_EMULATION"])
        .args(["emulation", "kernels"].map(|name| format!("-I{}", root.join(name).display())))
        .arg(&source)
        .output()
        .expect("a C++ compiler")
}

/// A folder of this test's own below the target's.
fn scratch(test: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("rhythm-abi-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the compiler");
    folder
}

#[test]
fn both_sides_say_the_same() {
    let modules = modules();
    let named: Vec<_> = modules.iter().map(|(module, _)| *module).collect();
    assert_eq!(named, MODULES, "no module is left out");
    let folder = scratch("same");
    std::thread::scope(|scope| {
        for (module, assertions) in &modules {
            let folder = &folder;
            scope.spawn(move || {
                let output = compile(module, &assertions.0, folder);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(
                    output.status.success(),
                    "{module}.cu is not what abi says: {said}"
                );
            });
        }
    });
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn a_difference_shows() {
    let folder = scratch("difference");
    let of = Struct {
        name: "LaneOffsets",
        size: 24,
        fields: &[("body", 4, 8, None)],
    };
    let wrong = of_layouts().structs(&[of]);
    let output = compile("layout", &wrong.0, &folder);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        said.contains("__builtin_offsetof(LaneOffsets, body)"),
        "{said}"
    );
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn a_pointer_to_another_type_shows() {
    let folder = scratch("pointee");
    let of = Struct {
        name: "OffsetsArgs",
        size: 24,
        fields: &[("offsets", 8, 8, Some(std::any::type_name::<View>))],
    };
    let wrong = of_layouts().structs(&[of]);
    let output = compile("layout", &wrong.0, &folder);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("decltype(OffsetsArgs::offsets)"), "{said}");
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn every_kernel_has_a_struct() {
    let signatures = [
        stage::SIGNATURES,
        layout::SIGNATURES,
        parse::SIGNATURES,
        sessions::SIGNATURES,
        besim::SIGNATURES,
        resident::SIGNATURES,
        bandwidth::SIGNATURES,
    ]
    .concat();
    let kernels: Vec<_> = signatures.iter().map(|(kernel, _)| *kernel).collect();
    assert_eq!(kernels, Kernel::ALL);
}
