//! How it ends for clients for whom there was no place yet.

use super::{NEVER, expect, expect_end, here, start, stat};
use rhythm_kv::shared::Settings;
use std::io::Write;
use std::time::Instant;

/// What they sent was not read before.
#[test]
fn who_waits_for_a_place_when_it_ends_is_answered() {
    let mut running = start(Settings {
        connections_max: 1,
        turn_away: false,
        ..here()
    });
    let mut first = running.connect();
    expect(&mut first, "mn\r\n", "MN\r\n");
    let mut waiting: Vec<_> = (0..20).map(|_| running.connect()).collect();
    for client in &mut waiting {
        client.write_all(b"mn\r\n").expect("there is room for it");
    }
    let begun = Instant::now();
    while stat(&mut first, "total_connections") < 21 {
        assert!(begun.elapsed() < NEVER, "they come");
    }
    let server = running.server.take().expect("it runs");
    server.handle().end();
    for client in &mut waiting {
        expect(client, "", "MN\r\n");
        expect_end(client);
    }
    expect_end(&mut first);
    server.join().expect("the thread ends well");
}
