//! `stats`, with memcached's names where they mean something here.
//!
//! Slab classes, the LRU and its crawler mean nothing: what tells of them alone is left out, as
//! memcached leaves it out with them off.

use super::packet::Head;
use crate::ring::{PROTOCOL, RangeStatus};
use crate::shared::{Clock, Counter, RELEASE, Settings, Shared, VERSION};
use crate::wire::Request;
use rhythm_net::clock;
use std::fmt::Display;

/// Where statistics go: lines, or packets of the binary protocol.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    request: Option<&'a Request>,
}

impl Sink<'_> {
    fn put(&mut self, name: &str, value: impl Display) {
        self.put_bytes(name, value.to_string().as_bytes());
    }

    fn put_bytes(&mut self, name: &str, value: &[u8]) {
        match self.request {
            None => {
                for part in [b"STAT ", name.as_bytes(), b" ", value, b"\r\n"] {
                    self.out.extend_from_slice(part);
                }
            }
            Some(request) => {
                let head = Head {
                    opcode: request.opcode,
                    opaque: request.opaque,
                    key: name.len(),
                    value: value.len(),
                    ..Head::default()
                };
                head.write(self.out);
                self.out.extend_from_slice(name.as_bytes());
                self.out.extend_from_slice(value);
            }
        }
    }

    fn end(&mut self) {
        match self.request {
            None => self.out.extend_from_slice(b"END\r\n"),
            Some(request) => {
                let head = Head {
                    opcode: request.opcode,
                    opaque: request.opaque,
                    ..Head::default()
                };
                head.write(self.out);
            }
        }
    }
}

/// Answers an ASCII `stats` with what stands behind it.
pub(super) fn lines(shared: &Shared, clock: &Clock, about: &[u8], out: &mut Vec<u8>) {
    let mut words = about
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let say = |out: &mut Vec<u8>, text: &[u8]| out.extend_from_slice(text);
    let topic = words.next().unwrap_or(b"");
    match topic {
        b"reset" => {
            shared.reset_stats();
            say(out, b"RESET\r\n");
        }
        b"detail" => match words.next() {
            Some(b"dump") => shared.prefixes.dump(out),
            Some(word @ (b"on" | b"off")) => {
                shared.prefixes.turn(word == b"on");
                say(out, b"OK\r\n");
            }
            _ => say(out, b"CLIENT_ERROR usage: stats detail on|off|dump\r\n"),
        },
        b"cachedump" => say(out, b"CLIENT_ERROR stats cachedump not allowed\r\n"),
        _ => {
            let mut sink = Sink { out, request: None };
            if !tell(shared, clock, topic, &mut sink) {
                say(out, b"ERROR\r\n");
            }
        }
    }
}

/// Answers a binary STAT. Whether the topic is known; else nothing is appended.
pub(super) fn packets(
    shared: &Shared,
    clock: &Clock,
    topic: &[u8],
    request: &Request,
    out: &mut Vec<u8>,
) -> bool {
    let mut sink = Sink {
        out,
        request: Some(request),
    };
    if topic.starts_with(b"reset") {
        shared.reset_stats();
    } else if let Some(what) = topic.strip_prefix(b"detail") {
        if what.starts_with(b" dump") {
            let mut dump = Vec::new();
            shared.prefixes.dump(&mut dump);
            sink.put_bytes("detailed", &dump);
        } else if what.starts_with(b" on") {
            shared.prefixes.turn(true);
        } else if what.starts_with(b" off") {
            shared.prefixes.turn(false);
        } else {
            return false;
        }
    } else {
        return match topic {
            // Known to the lines alone.
            b"conns" | b"extstore" => false,
            topic if topic.starts_with(b"settings") => tell(shared, clock, b"settings", &mut sink),
            topic => tell(shared, clock, topic, &mut sink),
        };
    }
    sink.end();
    true
}

/// Tells how the ring is, as this node sees it. Whether the server is in one. Where each node has a
/// range of its own, what is said of a node is about it and its range; else of a node how many
/// ranges it serves, and of how many of this node's it has copies.
fn ring(shared: &Shared, sink: &mut Sink<'_>) -> bool {
    let (Some(view), Some(ring)) = (&shared.ring, &shared.settings.ring) else {
        return false;
    };
    let (status, members) = (view.status(), view.members());
    let names = |set: u64| {
        let of_set = members.iter().filter(|(node, _)| set & 1 << **node != 0);
        let names: Vec<&str> = of_set.map(|(_, member)| member.name.as_str()).collect();
        names.join(",")
    };
    sink.put("node", &ring.this().name);
    sink.put("scheme", ring.scheme.name());
    sink.put("replicas", ring.replicas);
    sink.put("replicate", ring.replicate);
    sink.put("elsewhere", ring.elsewhere.name());
    sink.put("protocol", PROTOCOL);
    sink.put("release", RELEASE);
    // Where it needs a lease, whether it has one.
    sink.put("may_write", u8::from(view.may_write(clock::monotonic())));
    let has_own = ring.etcd.is_none() && ring.scheme.has_own_ranges();
    let serves = |node: usize| {
        let ranges = status.ranges.iter();
        ranges.filter(move |range| range.claim.epoch > 0 && usize::from(range.claim.node) == node)
    };
    if !has_own {
        let away = status.ranges.iter().filter(|range| {
            let server = (range.claim.epoch > 0).then_some(range.claim.node);
            server.is_none() || server != range.first
        });
        let copied = |range: &&RangeStatus| range.copies.count_ones() as usize >= ring.replicas;
        sink.put("ranges", status.ranges.len());
        sink.put("ranges_away", away.count());
        let missing = serves(ring.me).filter(|range| !copied(range)).count();
        sink.put("ranges_without_copies", missing);
    }
    for (node, member) in &members {
        let name = &member.name;
        // As it was told: who asks may know another ring.
        sink.put(&format!("{name}:place"), node + 1);
        sink.put(&format!("{name}:client"), member.at());
        sink.put(&format!("{name}:backbone"), &member.place);
        let of = status.nodes.get(*node).copied().unwrap_or_default();
        sink.put(&format!("{name}:alive"), u8::from(of.is_alive));
        let refused = status.refused.get(node);
        sink.put(&format!("{name}:refused"), u8::from(refused.is_some()));
        if let Some(why) = refused {
            sink.put(&format!("{name}:why"), why);
        }
        sink.put(&format!("{name}:unacknowledged"), of.unacknowledged);
        sink.put(&format!("{name}:lag_ms"), of.lag.as_millis());
        if !has_own {
            sink.put(&format!("{name}:serves"), serves(*node).count());
            // Of what this node serves.
            let count = |of: fn(&RangeStatus) -> u64| {
                let has = |range: &&RangeStatus| of(range) & 1 << node != 0;
                serves(ring.me).filter(has).count()
            };
            sink.put(&format!("{name}:copies"), count(|range| range.copies));
            let coming = count(|range| range.targets & !range.copies);
            sink.put(&format!("{name}:copying"), coming);
            continue;
        }
        let range = status.ranges.get(*node).copied().unwrap_or_default();
        let server = match range.claim.epoch {
            0 => String::new(),
            _ => names(1 << range.claim.node),
        };
        sink.put(&format!("{name}:server"), server);
        sink.put(&format!("{name}:epoch"), range.claim.epoch);
        sink.put(&format!("{name}:complete"), u8::from(range.is_complete));
        sink.put(&format!("{name}:copies"), names(range.copies));
        sink.put(
            &format!("{name}:copying"),
            names(range.targets & !range.copies),
        );
    }
    true
}

/// Tells of a topic, to the end. Whether there is one of this name.
fn tell(shared: &Shared, clock: &Clock, topic: &[u8], sink: &mut Sink<'_>) -> bool {
    match topic {
        b"" => general(shared, clock, sink),
        b"settings" => settings(shared, sink),
        b"ring" if ring(shared, sink) => {}
        b"slabs" => {
            sink.put("active_slabs", 0);
            sink.put("total_malloced", shared.store.memory());
        }
        b"sizes" => sink.put("sizes_status", "disabled"),
        b"sizes_enable" | b"sizes_disable" => {
            sink.put("sizes_status", "disabled");
            // As memcached has it, without an end.
            return true;
        }
        // Items are in no class and nowhere else, and connections are the threads' own.
        b"items" | b"conns" | b"extstore" => {}
        _ => return false,
    }
    sink.end();
    true
}

fn general(shared: &Shared, clock: &Clock, sink: &mut Sink<'_>) {
    let settings = &shared.settings;
    let store = shared.store.stats();
    let count = |counter| shared.count(counter);
    let opened = shared.total(Counter::Opened);
    let (user, system) = rhythm_observe::process::cpu_times();
    sink.put("pid", std::process::id());
    sink.put("uptime", clock.uptime());
    sink.put("time", clock.unix());
    sink.put("version", VERSION);
    sink.put("pointer_size", usize::BITS);
    sink.put("rusage_user", format_args!("{:.6}", user.as_secs_f64()));
    sink.put("rusage_system", format_args!("{:.6}", system.as_secs_f64()));
    sink.put("max_connections", settings.connections_max);
    sink.put("curr_connections", shared.connected.count());
    sink.put("total_connections", opened);
    if settings.turn_away {
        sink.put("rejected_connections", count(Counter::Rejected));
    }
    sink.put("connection_structures", shared.connected.count());
    let held: u64 = (shared.all_figures().iter()).map(|of| of.held.get()).sum();
    sink.put("read_buf_bytes", held);
    sink.put("read_buf_oom", count(Counter::GaveWay));
    for (name, counter) in [
        ("cmd_get", Counter::CmdGet),
        ("cmd_set", Counter::CmdSet),
        ("cmd_flush", Counter::CmdFlush),
        ("cmd_touch", Counter::CmdTouch),
        ("cmd_meta", Counter::CmdMeta),
        ("get_hits", Counter::GetHits),
        ("get_misses", Counter::GetMisses),
        ("get_expired", Counter::GetExpired),
        ("get_flushed", Counter::GetFlushed),
        ("delete_misses", Counter::DeleteMisses),
        ("delete_hits", Counter::DeleteHits),
        ("incr_misses", Counter::IncrMisses),
        ("incr_hits", Counter::IncrHits),
        ("decr_misses", Counter::DecrMisses),
        ("decr_hits", Counter::DecrHits),
        ("cas_misses", Counter::CasMisses),
        ("cas_hits", Counter::CasHits),
        ("cas_badval", Counter::CasBadval),
        ("touch_hits", Counter::TouchHits),
        ("touch_misses", Counter::TouchMisses),
        ("store_too_large", Counter::StoreTooLarge),
        ("store_no_memory", Counter::StoreNoMemory),
        ("auth_cmds", Counter::AuthCmds),
        ("auth_errors", Counter::AuthErrors),
    ] {
        sink.put(name, count(counter));
    }
    if settings.idle_timeout.is_some() {
        sink.put("idle_kicks", count(Counter::IdleKicks));
    }
    sink.put("bytes_read", count(Counter::BytesRead));
    sink.put("bytes_written", count(Counter::BytesWritten));
    sink.put("limit_maxbytes", shared.store.memory());
    sink.put("accepting_conns", u8::from(!shared.connected.waits()));
    sink.put("listen_disabled_num", count(Counter::ListenDisabled));
    sink.put(
        "time_in_listen_disabled_us",
        count(Counter::ListenDisabledTime),
    );
    sink.put("threads", settings.threads);
    sink.put("conn_yields", count(Counter::Yields));
    sink.put("hash_power_level", store.table_slots.max(1).ilog2());
    sink.put("hash_bytes", store.table_bytes);
    sink.put("cohorts", count(Counter::Cohorts));
    sink.put("cohort_commands", count(Counter::Commands));
    sink.put("bytes", store.bytes);
    sink.put("curr_items", store.items);
    sink.put("total_items", store.items_total);
    sink.put("expired_unfetched", store.expired_unfetched);
    sink.put("evicted_unfetched", store.evicted_unfetched);
    sink.put("evictions", store.evictions);
    sink.put("reclaimed", store.expired);
}

fn settings(shared: &Shared, sink: &mut Sink<'_>) {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let settings: &Settings = &shared.settings;
    let listen: Vec<&str> = settings
        .listen
        .iter()
        .map(|listen| listen.host.as_deref().unwrap_or("*"))
        .collect();
    let listen = match listen.is_empty() {
        true => "NULL".to_owned(),
        false => listen.join(","),
    };
    sink.put("maxbytes", shared.store.memory());
    sink.put("maxconns", settings.connections_max);
    sink.put("tcpport", settings.port.unwrap_or(0));
    sink.put("udpport", settings.udp_port.unwrap_or(0));
    sink.put("inter", listen);
    sink.put("verbosity", shared.verbosity());
    sink.put("evictions", if settings.evict { "on" } else { "off" });
    match &settings.unix_socket {
        Some(path) => sink.put("domain_socket", path.display()),
        None => sink.put("domain_socket", "NULL"),
    }
    sink.put("umask", format_args!("{:o}", settings.unix_mask));
    sink.put("shutdown_command", yes(settings.shutdown));
    sink.put(
        "growth_factor",
        format_args!("{:.2}", settings.growth_factor),
    );
    sink.put("chunk_size", settings.chunk_size);
    sink.put("num_threads", settings.threads);
    sink.put("num_threads_per_udp", settings.threads);
    sink.put("stat_key_prefix", char::from(settings.prefix_delimiter));
    sink.put("detail_enabled", yes(shared.prefixes.is_on()));
    sink.put("reqs_per_event", settings.requests_per_event);
    sink.put("cas_enabled", yes(settings.cas));
    sink.put("tcp_backlog", settings.backlog);
    sink.put("binding_protocol", settings.protocol.name());
    sink.put("auth_enabled_sasl", "no");
    match &settings.auth_file {
        Some(path) => sink.put("auth_enabled_ascii", path.display()),
        None => sink.put("auth_enabled_ascii", "no"),
    }
    sink.put("item_size_max", settings.item_max);
    sink.put("maxconns_fast", yes(settings.turn_away));
    sink.put("hashpower_init", settings.hash_power);
    sink.put("slab_reassign", "no");
    sink.put("slab_automove", 0);
    sink.put("lru_crawler", "no");
    sink.put("flush_enabled", yes(settings.flush));
    sink.put("dump_enabled", "no");
    sink.put("hash_algorithm", "siphash13");
    sink.put("lru_maintainer_thread", "no");
    sink.put("lru_segmented", "no");
    sink.put("temp_lru", "no");
    sink.put(
        "idle_timeout",
        settings.idle_timeout.map_or(0, |timeout| timeout.as_secs()),
    );
    // memcached has no such setting: it is told where it was given.
    if !settings.busy_poll.is_zero() {
        sink.put("busy_poll", settings.busy_poll.as_micros());
    }
    sink.put("read_buf_mem_limit", settings.buffers_max);
    sink.put("track_sizes", "no");
    sink.put("inline_ascii_response", "no");
    match &settings.memory_file {
        Some(path) => sink.put("memory_file", path.display()),
        None => sink.put("memory_file", "(null)"),
    }
}
