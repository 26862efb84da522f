//! How much memory a process has that is its own.

use std::fs;

/// Anonymous bytes of a process, or of this one, that are in memory; 0 where the system does not
/// say.
pub(crate) fn resident_bytes(process: Option<u32>) -> u64 {
    let path = match process {
        Some(process) => format!("/proc/{process}/status"),
        None => "/proc/self/status".to_owned(),
    };
    fs::read_to_string(path).map_or(0, |status| of_status(&status))
}

fn of_status(status: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_is_there() {
        assert_eq!(
            of_status("Name:\tx\nRssAnon:\t     132 kB\nRssFile:\t 9 kB\n"),
            132 << 10
        );
        assert_eq!(of_status("Name:\tx\n"), 0);
        let before = resident_bytes(None);
        let data = vec![7_u8; 32 << 20];
        let grown = resident_bytes(Some(std::process::id())).saturating_sub(before);
        assert!(grown > 24 << 20, "{grown} of {}", data.len());
    }
}
