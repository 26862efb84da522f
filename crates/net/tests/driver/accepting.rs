//! Who is let in, and who waits.

use crate::echo::*;
use rhythm_net::*;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn a_thousand_connections_each_get_their_own_bytes() {
    resource::raise_open_files().expect("no privilege is needed");
    let server = serve(DriverOptions::default());
    let mut clients: Vec<TcpStream> = (0..1000).map(|_| server.client()).collect();
    for round in 0..3 {
        for (n, client) in clients.iter_mut().enumerate() {
            client
                .write_all(format!("{round} {n:4}").as_bytes())
                .expect("the server reads");
        }
        for (n, client) in clients.iter_mut().enumerate() {
            let mut answer = [0; 6];
            client.read_exact(&mut answer).expect("the server echoes");
            assert_eq!(answer, format!("{round} {n:4}").as_bytes());
        }
    }
    server.finish();
}

#[test]
fn clients_beyond_the_bound_wait_for_a_place() {
    let server = serve(DriverOptions {
        connections_max: 2,
        ..DriverOptions::default()
    });
    let mut first = server.client();
    let mut second = server.client();
    echoed(&mut first, b"in");
    echoed(&mut second, b"in");
    let mut third = server.client();
    third.write_all(b"may I?").expect("the kernel takes it");
    echoed(&mut second, b"still in");
    assert_eq!(
        server
            .events
            .try_iter()
            .filter(|event| matches!(event, Event::Opened(_)))
            .count(),
        2
    );
    drop(first);
    let mut answer = [0; 6];
    third.read_exact(&mut answer).expect("its turn has come");
    assert_eq!(&answer, b"may I?");
    server.finish();
}

#[test]
fn workers_share_the_places_of_a_process() {
    let places = std::sync::Arc::new(Places::new(2));
    let [one, other] = [(), ()].map(|()| {
        serve(DriverOptions {
            places: Some(places.clone()),
            ..DriverOptions::default()
        })
    });
    let mut first = one.client();
    let mut second = other.client();
    echoed(&mut first, b"in");
    echoed(&mut second, b"in");
    let mut third = other.client();
    third.write_all(b"may I?").expect("the kernel takes it");
    echoed(&mut second, b"still in");
    third
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a time");
    let mut answer = [0; 6];
    assert!(third.read_exact(&mut answer).is_err(), "it waits");
    // Of the other worker, which does not tell this one.
    drop(first);
    third
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time");
    third.read_exact(&mut answer).expect("its turn has come");
    assert_eq!(&answer, b"may I?");
    one.finish();
    other.finish();
}

#[test]
fn after_stop_accepting_those_who_wait_are_served_and_others_refused() {
    let server = serve(DriverOptions::default());
    let mut before = server.client();
    echoed(&mut before, b"in");
    let (release, until) = channel();
    server.command(Command::Hold(until), "hold");
    let mut waiting: Vec<TcpStream> = (0..200).map(|_| server.client()).collect();
    // The handler finds this one in the same turn, with all of them waiting.
    server
        .commands
        .send(Command::StopAccepting)
        .expect("the driver runs");
    drop(release);
    server.wait_for(|event| *event == Event::Done("stop"));
    for client in &mut waiting {
        echoed(client, b"in time");
    }
    // The listener is closed at the end of the turn in which it was stopped; the echoes came from
    // later ones.
    let error = TcpStream::connect(server.address).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    echoed(&mut before, b"still in");
    server.finish();
}

#[test]
fn listeners_are_closed_when_all_who_wait_have_found_a_place() {
    let server = serve(DriverOptions {
        connections_max: 1,
        ..DriverOptions::default()
    });
    let mut first = server.client();
    echoed(&mut first, b"in");
    let mut second = server.client();
    server.command(Command::StopAccepting, "stop");
    // In turns after the one in which it was stopped.
    echoed(&mut first, b"still in");
    echoed(&mut first, b"and still");
    assert!(!(server.events.try_iter()).any(|event| event == Event::ListenersClosed));
    drop(first);
    echoed(&mut second, b"my turn");
    // Only where there is a place it can be seen that nobody waits for one.
    drop(second);
    server.wait_for(|event| *event == Event::ListenersClosed);
    server.finish();
}

#[test]
fn nothing_is_done_for_who_has_left_while_a_crowd_waits() {
    let server = serve(DriverOptions::default());
    let (release, until) = channel();
    server.command(Command::Hold(until), "hold");
    // As many as are let in before those behind them are a crowd, who has left, and who waits
    // behind.
    let mut clients: Vec<TcpStream> = (0..48).map(|_| server.client()).collect();
    for _ in 0..64 {
        let mut client = server.client();
        client.write_all(b"gone").expect("the kernel takes it");
    }
    clients.extend((0..88).map(|_| server.client()));
    drop(release);
    for client in &mut clients {
        echoed(client, b"here");
    }
    let events: Vec<Event> = server.events.try_iter().collect();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Received(_))), 136);
    let has_failed = |event: &Event| matches!(event, Event::Ended(Ended::Failed(_)));
    assert_eq!(count(has_failed), 64);
    server.finish();
}

#[test]
fn who_is_answered_is_told_of_before_crowds_that_come_go_on_or_leave() {
    const CROWD: usize = 200;
    let server = serve(DriverOptions::default());
    let mut known = server.client();
    echoed(&mut known, b"in");
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| server.client()).collect();
    for _ in 0..=CROWD {
        server.wait_for(|event| matches!(event, Event::Opened(_)));
    }
    for leaves in [false, true] {
        let (release, until) = channel();
        server.command(Command::Hold(until), "hold");
        // They come first.
        match leaves {
            false => (crowd.iter_mut()).for_each(|it| it.write_all(b"first").expect("it is taken")),
            // What was sent to them is unread: their connections are reset.
            true => crowd.clear(),
        }
        known.write_all(b"well known").expect("the kernel takes it");
        drop(release);
        let is_known = |event: &Event| *event == Event::Received(10);
        let is_of_crowd = |event: &Event| match leaves {
            false => *event == Event::Received(5),
            true => matches!(event, Event::Ended(Ended::Failed(_))),
        };
        let first = server.wait_for(|event| is_known(event) || is_of_crowd(event));
        assert!(
            is_known(&first),
            "{first:?}, where the crowd leaves: {leaves}"
        );
        for _ in 0..CROWD {
            server.wait_for(is_of_crowd);
        }
        let mut answer = [0; 10];
        known.read_exact(&mut answer).expect("it is served");
    }
    server.finish();
}

#[test]
fn who_asked_is_answered_before_others_are_told_of() {
    let server = serve(DriverOptions::default());
    let mut known = server.client();
    echoed(&mut known, b"in");
    let mut newcomer = server.client();
    let is_opened = |event: &Event| matches!(event, Event::Opened(_));
    server.wait_for(is_opened);
    server.wait_for(is_opened);
    server.command(Command::IdleAfterInput, "on input");
    let (release, until) = channel();
    server.command(Command::Hold(until), "hold");
    newcomer.write_all(b"first").expect("it is taken");
    let _last = server.client();
    known.write_all(b"well known").expect("the kernel takes it");
    drop(release);
    let order = [10, 5].map(Event::Received);
    let is_of_these =
        |event: &Event| order.contains(event) || is_opened(event) || *event == Event::Done("idle");
    assert_eq!(server.wait_for(is_of_these), order[0]);
    assert_eq!(server.wait_for(is_of_these), Event::Done("idle"));
    assert_eq!(server.wait_for(is_of_these), order[1]);
    assert!(is_opened(&server.wait_for(is_of_these)));
    server.finish();
}

#[test]
fn who_is_answered_is_told_of_before_who_sends_more_than_is_answered() {
    const CROWD: usize = 200;
    let server = serve(DriverOptions::default());
    let mut known = server.client();
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| server.client()).collect();
    echoed(&mut known, b"in");
    for client in &mut crowd {
        echoed(client, b"in");
    }
    // No answer to it, or none but that they are to go on.
    for (begun, told) in [(SWALLOWED, &b""[..]), (BEGUN, GO_ON)] {
        for client in &mut crowd {
            client.write_all(begun).expect("it is taken");
            server.wait_for(|event| *event == Event::Received(begun.len()));
            let mut answer = vec![0; told.len()];
            client.read_exact(&mut answer).expect("it is told");
            assert_eq!(answer, told);
        }
        let (release, until) = channel();
        server.command(Command::Hold(until), "hold");
        for client in &mut crowd {
            client.write_all(b"more").expect("it is taken");
        }
        known.write_all(b"well known").expect("the kernel takes it");
        drop(release);
        let is_known = |event: &Event| *event == Event::Received(10);
        let is_of_crowd = |event: &Event| *event == Event::Received(4);
        let first = server.wait_for(|event| is_known(event) || is_of_crowd(event));
        assert!(is_known(&first), "{first:?}");
        for _ in 0..CROWD {
            server.wait_for(is_of_crowd);
        }
        for client in crowd.iter_mut().chain([&mut known]) {
            let mut answer = [0; 4];
            client.read_exact(&mut answer).expect("it is answered");
        }
        // The rest of it.
        known.read_exact(&mut [0; 6]).expect("it is answered");
    }
    server.finish();
}

#[test]
fn who_looks_for_more_before_sleeping_is_told_of_all_and_sleeps() {
    let server = serve(DriverOptions {
        busy_poll: Duration::from_millis(20),
        ..DriverOptions::default()
    });
    let mut client = server.client();
    // At once, while it looks, and when it has gone to sleep.
    for pause in [0, 1, 5, 60, 0, 60] {
        std::thread::sleep(Duration::from_millis(pause));
        echoed(&mut client, b"there?");
    }
    let mut second = server.client();
    echoed(&mut second, b"in");
    drop(second);
    std::thread::sleep(Duration::from_millis(60));
    let before = cpu_time();
    std::thread::sleep(Duration::from_millis(300));
    let used = cpu_time() - before;
    assert!(used < Duration::from_millis(50), "{used:?}");
    server.finish();
}

/// What this test's threads have used of processors: those that it has begun have its name.
fn cpu_time() -> Duration {
    let name_of = |thread: &Path| std::fs::read_to_string(thread.join("comm")).ok();
    let ours = name_of(Path::new("/proc/thread-self"));
    let all = std::fs::read_dir("/proc/self/task").expect("there is /proc");
    let nanoseconds = all.flatten().filter_map(|thread| {
        let at = thread.path();
        let figures = std::fs::read_to_string(at.join("schedstat")).ok()?;
        let used: u64 = figures.split_whitespace().next()?.parse().ok()?;
        (name_of(&at) == ours).then_some(used)
    });
    Duration::from_nanos(nanoseconds.sum())
}
