//! What the system says is available.

use std::fs;
use std::io;

const PATH: &str = "/proc/meminfo";

/// Bytes that programs can have without others being swapped out, by the system's estimate
/// (`MemAvailable`, proc_meminfo(5)).
///
/// # Errors
/// The system does not say it.
pub(super) fn available() -> io::Result<u64> {
    let text = fs::read_to_string(PATH)?;
    parse(&text).ok_or_else(|| io::Error::other(format!("{PATH} has no MemAvailable in kB")))
}

fn parse(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_found() {
        let text = "MemTotal:       24646064 kB\nMemFree: 1 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(parse(text), Some(23_000_000 * 1024));
        for other in [
            "",
            "MemAvailable: 1 MB\n",
            "MemAvailable: x kB\n",
            "MemAvailable: 1\n",
        ] {
            assert_eq!(parse(other), None, "{other:?}");
        }
        assert!(available().expect("Linux says it") > 0);
    }
}
