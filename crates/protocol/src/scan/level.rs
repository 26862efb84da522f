//! Which instruction set to use: detection, the override by environment variable, and the call into
//! the copy of a task compiled for it.

use super::Task;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use super::aarch64::Neon;
use super::portable::Portable;
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Avx512, Sse2};
use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Portable,
    Sse2,
    Avx2,
    Avx512,
    Neon,
}

/// An instruction set this CPU has. Ordered from the least to the most capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Kind);

/// Why the level asked for is not used. [`LevelError::fallback`] is what to use instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// The name is none of portable, sse2, avx2, avx512, neon.
    #[error("RHYTHM_SIMD={0}: not one of portable, sse2, avx2, avx512, neon")]
    Unknown(String),
    /// The CPU does not have the instructions.
    #[error("RHYTHM_SIMD={0}: this CPU does not have it")]
    Unsupported(String),
}

impl LevelError {
    /// The best level this CPU has.
    #[must_use]
    pub fn fallback(&self) -> Level {
        Level::detect()
    }
}

impl Level {
    /// Plain 64-bit arithmetic, on every CPU.
    pub const PORTABLE: Level = Level(Kind::Portable);

    /// The level with this name, if the CPU has it.
    ///
    /// # Errors
    /// For an unknown name and for a level the CPU lacks.
    pub fn named(name: &str) -> Result<Level, LevelError> {
        let kind = match name {
            "portable" => Kind::Portable,
            "sse2" => Kind::Sse2,
            "avx2" => Kind::Avx2,
            "avx512" => Kind::Avx512,
            "neon" => Kind::Neon,
            _ => return Err(LevelError::Unknown(name.to_owned())),
        };
        if supported(kind) {
            Ok(Level(kind))
        } else {
            Err(LevelError::Unsupported(name.to_owned()))
        }
    }

    /// The best level this CPU has.
    #[must_use]
    pub fn detect() -> Level {
        Level::all().last().unwrap_or(Level::PORTABLE)
    }

    /// The level the environment variable `RHYTHM_SIMD` names, or the best one where it is not set.
    ///
    /// # Errors
    /// When the variable names no level or one the CPU lacks.
    pub fn from_env() -> Result<Level, LevelError> {
        match std::env::var_os("RHYTHM_SIMD") {
            Some(name) => Level::named(&name.to_string_lossy()),
            None => Ok(Level::detect()),
        }
    }

    /// What this process uses: [`Level::from_env`] or its fallback, decided at the first call.
    #[inline]
    #[must_use]
    pub fn active() -> Level {
        static ACTIVE: OnceLock<Level> = OnceLock::new();
        *ACTIVE.get_or_init(|| Level::from_env().unwrap_or_else(|error| error.fallback()))
    }

    /// All levels this CPU has, the least capable first.
    pub fn all() -> impl Iterator<Item = Level> {
        use Kind::{Avx2, Avx512, Neon, Portable, Sse2};
        let all = [Portable, Sse2, Avx2, Avx512, Neon].into_iter();
        all.filter(|kind| supported(*kind)).map(Level)
    }

    /// The name `RHYTHM_SIMD` knows it by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            Kind::Sse2 => "sse2",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
            Kind::Neon => "neon",
        }
    }

    /// Runs `task` with this level's instructions.
    #[inline]
    pub fn run<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            Kind::Portable => task.run(Portable),
            #[cfg(target_arch = "x86_64")]
            Kind::Sse2 => task.run(Sse2::new()),
            // SAFETY: a level of this kind is only made where the CPU has AVX2, BMI1, BMI2 and
            // POPCNT.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2(task) },
            // SAFETY: a level of this kind is only made where the CPU has AVX-512F and BW, BMI1,
            // BMI2 and POPCNT.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { run_avx512(task) },
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Kind::Neon => task.run(Neon::new()),
            _ => unreachable!("such a level is only made on a CPU that has it"),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run_avx2<T: Task>(task: T) -> T::Output {
    // SAFETY: this function only runs on a CPU with these features.
    task.run(unsafe { Avx2::new() })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn run_avx512<T: Task>(task: T) -> T::Output {
    // SAFETY: this function only runs on a CPU with these features.
    task.run(unsafe { Avx512::new() })
}

#[cfg(target_arch = "x86_64")]
fn supported(kind: Kind) -> bool {
    let bits = is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt");
    match kind {
        Kind::Portable | Kind::Sse2 => true,
        Kind::Avx2 => bits && is_x86_feature_detected!("avx2"),
        Kind::Avx512 => {
            bits && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
        }
        Kind::Neon => false,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn supported(kind: Kind) -> bool {
    let has_neon = cfg!(all(target_arch = "aarch64", target_endian = "little"));
    kind == Kind::Portable || (has_neon && kind == Kind::Neon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_levels() {
        for level in Level::all() {
            assert_eq!(Level::named(level.name()), Ok(level));
        }
        let error = Level::named("mmx").unwrap_err();
        assert_eq!(error, LevelError::Unknown("mmx".to_owned()));
        assert_eq!(error.fallback(), Level::detect());
    }

    #[test]
    fn what_every_cpu_of_an_architecture_has_is_used() {
        let names: Vec<_> = Level::all().map(Level::name).collect();
        #[cfg(target_arch = "x86_64")]
        assert!(names.starts_with(&["portable", "sse2"]), "{names:?}");
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        assert_eq!(names, ["portable", "neon"]);
        let foreign = if cfg!(target_arch = "x86_64") {
            "neon"
        } else {
            "sse2"
        };
        let error = Level::named(foreign).unwrap_err();
        assert_eq!(error, LevelError::Unsupported(foreign.to_owned()));
    }
}
