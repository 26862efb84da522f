//! `-o`: memcached's extended options, and `busy_poll`, which is ours. Few of memcached's mean
//! something here; the others are known, checked for a value, and remarked on.

use anyhow::{Result, bail};
use rhythm_kv::shared::Settings;
use std::time::Duration;

/// The longest `busy_poll` in microseconds. Who is asked more seldom than that need not be fast.
const BUSY_POLL_MAX: u32 = 1_000_000;

/// Options of memcached's inner workings, which are others here, and whether they have a value.
const WITHOUT_MEANING: &[(&str, bool)] = &[
    ("no_hashexpand", false),
    ("slab_reassign", false),
    ("no_slab_reassign", false),
    ("no_slab_automove", false),
    ("slab_automove_ratio", true),
    ("slab_automove_window", true),
    ("slab_automove_freeratio", true),
    ("slab_sizes", true),
    ("slab_chunk_max", true),
    ("tail_repair_time", true),
    ("hash_algorithm", true),
    ("lru_crawler", false),
    ("no_lru_crawler", false),
    ("lru_crawler_sleep", true),
    ("lru_crawler_tocrawl", true),
    ("lru_maintainer", false),
    ("no_lru_maintainer", false),
    ("hot_lru_pct", true),
    ("warm_lru_pct", true),
    ("hot_max_factor", true),
    ("warm_max_factor", true),
    ("temporary_ttl", true),
    ("watcher_logbuf_size", true),
    ("worker_logbuf_size", true),
    ("track_sizes", false),
    ("no_inline_ascii_resp", false),
    ("inline_ascii_resp", false),
    ("no_chunked_items", false),
    ("modern", false),
    ("no_modern", false),
    ("drop_privileges", false),
    ("no_drop_privileges", false),
    ("resp_obj_mem_limit", true),
];

/// Puts one list of options into the settings, and appends a remark for each that means nothing.
pub(super) fn apply(list: &str, settings: &mut Settings, remarks: &mut Vec<String>) -> Result<()> {
    for option in list.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let number = || -> Result<u32> {
            match value.map(str::parse) {
                Some(Ok(number)) => Ok(number),
                Some(Err(_)) => {
                    let value = value.unwrap_or("");
                    bail!("-o {name} needs a number, not {value}: {name}=NUM")
                }
                None => bail!("-o {name} needs a number: {name}=NUM"),
            }
        };
        match name {
            "maxconns_fast" => settings.turn_away = true,
            "no_maxconns_fast" => settings.turn_away = false,
            "idle_timeout" => {
                let seconds = number()?;
                settings.idle_timeout = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
            }
            "busy_poll" => match number()? {
                micros @ 0..=BUSY_POLL_MAX => {
                    settings.busy_poll = Duration::from_micros(micros.into());
                }
                micros => bail!(
                    "-o busy_poll is in microseconds, from 0 (not at all) to {BUSY_POLL_MAX}, not \
                     {micros}"
                ),
            },
            // Ours is never without a limit: 0 stands for the usual one.
            "read_buf_mem_limit" => match number()? {
                0 => {}
                megabytes => settings.buffers_max = (megabytes as usize) << 20,
            },
            "hashpower" => match number()? {
                power @ 12..=32 => settings.hash_power = power,
                power => bail!("-o hashpower is from 12 to 32, not {power}"),
            },
            // With a value or without.
            "slab_automove" => remarks.push(remark(name)),
            _ if name.starts_with("ext_") => {
                bail!("-o {name}: there is no external storage here; items are in memory alone")
            }
            _ if name.starts_with("ssl_") => {
                bail!("-o {name}: there is no TLS here; put a proxy that has it in front")
            }
            _ if name.starts_with("proxy_") => bail!("-o {name}: there is no proxy here"),
            _ => match WITHOUT_MEANING.iter().find(|(known, _)| *known == name) {
                Some((_, true)) if value.is_none() => bail!("-o {name} needs a value"),
                Some(_) => remarks.push(remark(name)),
                None => bail!("-o {name}: there is no such option"),
            },
        }
    }
    Ok(())
}

fn remark(name: &str) -> String {
    format!("-o {name} is accepted and means nothing here")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(list: &str) -> Result<(Settings, Vec<String>)> {
        let (mut settings, mut remarks) = (Settings::default(), Vec::new());
        apply(list, &mut settings, &mut remarks)?;
        Ok((settings, remarks))
    }

    #[test]
    fn options_are_taken_or_remarked_on() {
        let (settings, remarks) =
            applied("idle_timeout=7,no_maxconns_fast,hashpower=20,modern,slab_automove=1").unwrap();
        assert_eq!(settings.idle_timeout, Some(Duration::from_secs(7)));
        assert!(!settings.turn_away);
        assert_eq!(settings.hash_power, 20);
        assert_eq!(settings.busy_poll, Duration::ZERO);
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        let (settings, remarks) = applied("busy_poll=200").unwrap();
        assert_eq!(settings.busy_poll, Duration::from_micros(200));
        assert!(remarks.is_empty(), "{remarks:?}");
    }

    #[test]
    fn mistakes_are_named() {
        for (list, said) in [
            ("idle_timeout", "needs a number"),
            ("idle_timeout=x", "not x"),
            ("hashpower=40", "from 12 to 32"),
            ("busy_poll", "needs a number"),
            ("busy_poll=200us", "not 200us"),
            ("busy_poll=1000001", "from 0 (not at all) to 1000000"),
            ("hash_algorithm", "needs a value"),
            ("ext_path=/x:1g", "no external storage"),
            ("nonsense", "no such option"),
        ] {
            let error = applied(list).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
