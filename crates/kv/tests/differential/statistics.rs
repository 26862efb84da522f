//! What both tell of themselves: the same names in the same order, and the same settings.

use crate::generate::{self, packet};
use crate::pair::{Pair, ask};

/// Settings that each has its own of.
const OWN_SETTINGS: &[&str] = &[
    "tcpport",
    "udpport",
    "inter",
    "hash_algorithm",
    "read_buf_mem_limit",
];
/// What memcached tells of its workings as they are set.
const SETTINGS_WITHOUT_MEANING: &[&str] = &[
    "oldest",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_chunk_max",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "tail_repair_time",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "ext_item_size",
    "ext_item_age",
    "ext_low_ttl",
    "ext_recache_rate",
    "ext_wbuf_size",
    "ext_compact_under",
    "ext_drop_under",
    "ext_max_sleep",
    "ext_max_frag",
    "slab_automove_freeratio",
    "ext_drop_unread",
    "ssl_enabled",
    "ssl_chain_cert",
    "ssl_key",
    "ssl_verify_mode",
    "ssl_keyformat",
    "ssl_ciphers",
    "ssl_ca_cert",
    "ssl_wbuf_size",
    "ssl_session_cache",
    "ssl_kernel_tls",
    "ssl_min_version",
    "num_napi_ids",
];
/// What memcached tells of its workings, which are others here.
const WITHOUT_MEANING: &[&str] = &[
    "libevent",
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes_free",
    "reserved_fds",
    "hash_is_expanding",
    "malloc_fails",
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    "unexpected_napi_ids",
    "round_robin_fallback",
    "slab_global_page_pool",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
];
/// What it does not tell.
const OWN_STATS: &[&str] = &["cohorts", "cohort_commands"];

impl Pair {
    /// Asks both for all statistics there are, and compares what can be: the lines' names, and the
    /// settings.
    pub(crate) fn compare_statistics(&mut self) {
        let mut streams = [self.connect(0), self.connect(1)];
        let mut ask_both = |command: &[u8]| {
            let command = [command, b"\r\n"].concat();
            (streams.each_mut()).map(|stream| ask(stream, &command, b"mn\r\n", b"MN\r\n"))
        };
        for command in [
            "set d:k 0 0 1\r\nv",
            "stats detail on",
            "get d:k d:l",
            "delete d:k",
            "stats detail dump",
            "stats detail off",
            "stats detail",
            "stats cachedump",
            "stats cachedump 1",
            "stats cachedump x 0",
            "stats reset",
            "stats reset x",
            "stats sizes",
            "stats sizes_disable",
            // A time before the server's start; then which CAS id comes next.
            "flush_all 99999999999",
            "flush_all 1000000000",
            "ms d:k 1 c\r\nv",
            "stats extstore",
            "stats extstore x",
            "stats nonsense",
            "extstore",
            "extstore noreply",
            "extstore item_size",
            "extstore item_size 5",
            "extstore item_size 5 6",
            "extstore item_size -1",
            "extstore item_age 5 noreply",
            "extstore low_ttl 4294967296",
            "extstore recache_rate x",
            "extstore compact_under 5",
            "extstore drop_under 5",
            "extstore max_sleep 5",
            "extstore drop_unread 2",
            "extstore max_frag 0.5",
            "extstore max_frag x",
            "extstore free_memchunks 63",
            "extstore free_memchunks 63 1",
            "extstore free_memchunks 64 1",
            "extstore free_memchunks 1 x",
            "extstore x 1",
            "extstore x 1 noreply",
            "refresh_certs",
            "refresh_certs noreply",
            "lru mode flat",
            "lru mode flat noreply",
            "lru temp_ttl 5",
            "lru_crawler enable",
            "lru_crawler disable",
            "lru_crawler mgdump",
            "stats  noreply",
            "version",
            "version x",
        ] {
            let [ours, theirs] = ask_both(command.as_bytes());
            assert_eq!(
                without_version(&ours),
                without_version(&theirs),
                "{command}"
            );
        }
        self.compare_prefixes();
        let [ours, theirs] = ask_both(b"stats settings").map(|answer| stats(&answer));
        compare_names(&ours, &theirs, SETTINGS_WITHOUT_MEANING, &[]);
        for (name, theirs) in &theirs {
            let ours = ours.iter().find(|(same, _)| same == name);
            // The ports, and the hash.
            if let Some((_, ours)) = ours.filter(|_| !OWN_SETTINGS.contains(&name.as_str())) {
                assert_eq!(ours, theirs, "{name}");
            }
        }
        let [ours, theirs] = ask_both(b"stats").map(|answer| stats(&answer));
        compare_names(&ours, &theirs, WITHOUT_MEANING, OWN_STATS);
    }
}

impl Pair {
    /// What is counted of prefixes, in whatever order it is told, and the topics of the binary
    /// protocol that are not told of by numbers of one's own.
    fn compare_prefixes(&mut self) {
        let mut lines = [self.connect(0), self.connect(1)];
        let large = format!("p:l 0 0 2000000\r\n{}", "x".repeat(2_000_000));
        for line in [
            "stats detail on",
            "set p:a 0 0 1\r\nxyz",
            "set p:a 0 0 1\r\nx",
            &format!("set {large}"),
            &format!("add {large}"),
            "set q:a 0 0 x",
            "append q:b 0 0 1\r\nx",
            &format!("get p:a p:b {} q:a", "k".repeat(251)),
            &format!("gat 0 q:a {}", "k".repeat(251)),
            "gat 0 p:a q:a",
            "ms r:a 1\r\nx",
            "mg r:a v",
            "md r:a",
            "incr q:n 1",
            "touch q:n 1",
            "delete p:b",
            "delete none",
        ] {
            let line = format!("{line}\r\n").into_bytes();
            let [ours, theirs] =
                (lines.each_mut()).map(|stream| ask(stream, &line, b"mn\r\n", b"MN\r\n"));
            self.assert_same(&line, &ours, &theirs);
        }
        let (noop, answer) = generate::noop();
        let mut packets = [self.connect(0), self.connect(1)];
        let large = vec![b'x'; 2_000_000];
        for packet in [
            packet(0x01, &[0; 8], b"s:a", b"x", 0),
            packet(0x01, &[0; 8], b"s:b", &large, 0),
            packet(0x0e, &[], b"s:b", &large, 0),
            packet(0x0e, &[], b"\xff\xfe:b", b"x", 0),
            packet(0x00, &[], b"s\0:b", &[], 0),
            packet(0x1c, &[0; 4], b"s:b", &[], 0),
            packet(0x04, &[], b"s:b", &[], 0),
            packet(0x10, &[], b"conns", &[], 0),
            packet(0x10, &[], b"extstore", &[], 0),
            packet(0x10, &[], b"sizes", &[], 0),
            packet(0x10, &[], b"sizes_disable", &[], 0),
            packet(0x10, &[], b"sizesx", &[], 0),
            packet(0x10, &[], b"detail", &[], 0),
            packet(0x10, &[], b"detail x", &[], 0),
            packet(0x10, &[], b"detail on", &[], 0),
        ] {
            let [ours, theirs] =
                (packets.each_mut()).map(|stream| ask(stream, &packet, &noop, &answer));
            self.assert_same(&packet, &ours, &theirs);
        }
        let sorted = |dump: Vec<u8>| {
            let mut lines: Vec<_> = dump.split(|byte| *byte == b'\n').collect();
            lines.sort_unstable();
            lines.join(&b'\n')
        };
        let dump = b"stats detail dump\r\n";
        let [ours, theirs] =
            (lines.each_mut()).map(|stream| sorted(ask(stream, dump, b"mn\r\n", b"MN\r\n")));
        self.assert_same(dump, &ours, &theirs);
        // The head of the binary answer tells the length.
        let dump = packet(0x10, &[], b"detail dump", &[], 0);
        let [ours, theirs] =
            (packets.each_mut()).map(|stream| sorted(ask(stream, &dump, &noop, &answer)));
        assert_eq!(ours.len(), theirs.len());
        assert!(ours.windows(4).any(|bytes| bytes == b" \xff\xfe "));
    }
}

/// Names and values of statistics.
pub(crate) fn stats(answer: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(answer);
    let lines = text.lines().filter_map(|line| line.strip_prefix("STAT "));
    let split = |line: &str| match line.split_once(' ') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (line.to_owned(), String::new()),
    };
    lines.map(split).collect()
}

/// The names of statistics are in the same order, but for those that mean nothing here, and our
/// own.
fn compare_names(
    ours: &[(String, String)],
    theirs: &[(String, String)],
    without_meaning: &[&str],
    own: &[&str],
) {
    let names = |stats: &[(String, String)]| -> Vec<String> {
        stats.iter().map(|(name, _)| name.clone()).collect()
    };
    let (ours, theirs) = (names(ours), names(theirs));
    let split = |all: &[String], of: &[String]| -> (Vec<String>, Vec<String>) {
        all.iter().cloned().partition(|name| of.contains(name))
    };
    let (ours_common, ours_own) = split(&ours, &theirs);
    let (theirs_common, lacking) = split(&theirs, &ours);
    assert_eq!(ours_common, theirs_common);
    assert_eq!(
        (lacking, ours_own),
        (names_of(without_meaning), names_of(own))
    );
}

fn names_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Text with the version of either in the place of which the other's may stand.
fn without_version(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    text.replace("1.6.18", "#")
        .replace(rhythm_kv::shared::VERSION, "#")
}
