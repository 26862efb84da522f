//! A server with a memory file ends, and the next one has its items.

use super::{Running, expect, here, start};
use rhythm_kv::server::{Server, ServerError};
use rhythm_kv::shared::Settings;
use rhythm_kv::store::FileError;
use std::fs;

/// Ends it, at once or gracefully.
fn end(mut running: Running, gracefully: bool) {
    let server = running.server.take().expect("it runs");
    match gracefully {
        true => server.handle().end(),
        false => server.handle().stop(),
    }
    server.join().expect("no thread failed");
}

#[test]
fn what_a_server_had_the_next_one_has_however_it_was_told_to_end() {
    let folder = std::env::temp_dir().join(format!("rhythm-kv-kept-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder can be made");
    let file = folder.join("items");
    let settings = || Settings {
        memory_file: Some(file.clone()),
        memory_max: 0,
        threads: 2,
        ..here()
    };
    let meta = || fs::metadata(format!("{}.meta", file.display())).is_ok_and(|meta| meta.len() > 0);
    let running = start(settings());
    let mut client = running.connect();
    let long = "l".repeat(300_000);
    let set = format!("set a 7 0 3\r\nabc\r\nset long 0 0 300000\r\n{long}\r\n");
    expect(&mut client, &set, "STORED\r\nSTORED\r\n");
    expect(
        &mut client,
        "cache_memlimit 128\r\n",
        "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
    );
    // One that takes its answer slowly keeps nobody waiting, and its value is kept, too.
    let mut slow = running.connect();
    expect(&mut slow, "get long\r\n", "VALUE long");
    end(running, false);
    assert!(meta());
    // One that cannot listen leaves them alone.
    let other = start(here());
    let taken = Settings {
        port: Some(other.at.port()),
        ..settings()
    };
    let refused = Server::start(taken, |_| {});
    assert!(matches!(refused, Err(ServerError::Bind(_))));
    assert!(meta());
    for gracefully in [true, false] {
        let running = start(settings());
        assert!(!meta(), "a server runs");
        let refused = Server::start(settings(), |_| {});
        assert!(matches!(
            refused,
            Err(ServerError::File(FileError::InUse(_)))
        ));
        let mut client = running.connect();
        let got = format!("VALUE a 7 3 1\r\nabc\r\nVALUE long 0 300000 2\r\n{long}\r\nEND\r\n");
        expect(&mut client, "gets a long\r\n", &got);
        end(running, gracefully);
        assert!(meta());
    }
    fs::remove_dir_all(&folder).expect("it is there");
}
