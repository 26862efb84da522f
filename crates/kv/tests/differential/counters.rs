//! What both count of the same commands.

use crate::pair::{Pair, ask, shortened};
use crate::statistics::stats;
use crate::{generate, repeat};
use std::net::TcpStream;

/// What `stats` tells of commands and what became of them.
const COUNTED: &[&str] = &[
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "delete_misses",
    "delete_hits",
    "incr_misses",
    "incr_hits",
    "decr_misses",
    "decr_hits",
    "cas_misses",
    "cas_hits",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "store_too_large",
    "store_no_memory",
    "auth_cmds",
    "auth_errors",
];

/// The counts of one server.
fn counts(stream: &mut TcpStream, names: &[&str]) -> Vec<(String, String)> {
    let answer = ask(stream, b"stats\r\n", b"mn\r\n", b"MN\r\n");
    let mut all = stats(&answer);
    all.retain(|(name, _)| names.contains(&name.as_str()));
    assert_eq!(all.len(), names.len(), "{all:?}");
    all
}

impl Pair {
    /// Sends commands one by one, and compares what both have counted behind each.
    pub(crate) fn compare_counts(&mut self, commands: &[(Vec<u8>, bool)], names: &[&str]) {
        let mut counted = [self.connect(0), self.connect(1)];
        let mut lines = [self.connect(0), self.connect(1)];
        let mut packets = [self.connect(0), self.connect(1)];
        for (command, is_binary) in commands {
            let (streams, mark, answer) = match is_binary {
                true => (&mut packets, generate::noop().0, generate::noop().1),
                false => (&mut lines, b"mn\r\n".to_vec(), b"MN\r\n".to_vec()),
            };
            let [ours, theirs] =
                (streams.each_mut()).map(|stream| ask(stream, command, &mark, &answer));
            self.assert_same(command, &ours, &theirs);
            let [ours, theirs] = counted.each_mut().map(|stream| counts(stream, names));
            let (seed, command) = (self.seed, shortened(command));
            assert_eq!(ours, theirs, "ours, theirs behind {command}, seed {seed}");
        }
    }
}

#[test]
fn commands_are_counted_as_theirs_are() {
    repeat(|pair, generator| {
        let commands: Vec<_> = (0..60)
            .map(|_| match generator.random.one_in(3) {
                true => (generator.binary(), true),
                false => (generator.ascii(), false),
            })
            .collect();
        pair.compare_counts(&commands, COUNTED);
    });
}

#[test]
fn items_that_were_asked_for_too_late_are_counted() {
    let Some(mut pair) = Pair::start() else {
        return eprintln!("skipped: there is no memcached on this machine");
    };
    let commands = [
        "set a 0 -1 1\r\nx\r\n",
        "get a\r\n",
        "get a\r\n",
        "set a 0 -1 1\r\nx\r\n",
        "mg a v\r\n",
        "set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n",
        "flush_all\r\n",
        "get a b\r\n",
        "gat 0 a b\r\n",
    ];
    let commands = commands.map(|command| (command.as_bytes().to_vec(), false));
    pair.compare_counts(&commands, &["get_expired", "get_flushed"]);
}
