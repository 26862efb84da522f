//! What happens to clusters.

use super::cluster::{Cluster, NAMES, get, kills, list};
use super::parts::SIZE;
use rhythm_venice::agent::client::{BorrowError, Client, Event};
use rhythm_venice::resource::Share;
use rhythm_venice::wire::{NotLent, Reason, VERSION};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const ALL: [(&str, fn()); 8] = [
    (
        "what_is_borrowed_is_given_back",
        what_is_borrowed_is_given_back,
    ),
    (
        "a_borrower_that_is_killed_has_given_back",
        a_borrower_that_is_killed_has_given_back,
    ),
    (
        "a_donor_that_is_killed_is_told_of",
        a_donor_that_is_killed_is_told_of,
    ),
    ("loans_outlive_the_monitor", loans_outlive_the_monitor),
    (
        "a_donor_that_leaves_wants_all_back",
        a_donor_that_leaves_wants_all_back,
    ),
    ("what_nobody_has_is_not_lent", what_nobody_has_is_not_lent),
    (
        "who_has_another_secret_is_no_node",
        who_has_another_secret_is_no_node,
    ),
    ("strangers_harm_nobody", strangers_harm_nobody),
];

fn client(cluster: &Cluster, index: usize) -> Client {
    Client::connect(&cluster.socket(index)).expect("an agent")
}

/// The donor of the only loan, by its place among the agents.
fn lender(status: &Value) -> usize {
    let lender = &list(status, "rat")[0]["lender"];
    NAMES
        .iter()
        .position(|name| lender == name)
        .expect("one of them")
}

fn what_is_borrowed_is_given_back() {
    let cluster = Cluster::start();
    let client = client(&cluster, 0);
    let borrowed = client
        .borrow(Share::memory(4096), PATIENCE)
        .expect("a loan");
    assert_eq!(
        (borrowed.share, borrowed.donor.port()),
        (Share::memory(4096), 9)
    );
    let status = cluster.status();
    let [row] = list(&status, "rat") else {
        panic!("one loan: {status:#}");
    };
    assert_eq!(
        (&row["borrower"], &row["standing"]),
        (&"a".into(), &"live".into())
    );
    assert_eq!(row["loan"], borrowed.loan.0);
    let lender = lender(&status);
    assert_eq!(
        list(&cluster.agent_status(lender), "lent")[0]["loan"],
        borrowed.loan.0
    );
    assert!(client.renew(borrowed.loan, PATIENCE).expect("an answer"));
    // Two at a time have two keys.
    let other = client
        .borrow(Share::memory(4096), PATIENCE)
        .expect("a loan");
    assert!(other.loan != borrowed.loan && other.key != borrowed.key);
    let loan = borrowed.loan;
    drop((borrowed, other));
    cluster.until_all_is_back();
    assert!(!client.renew(loan, PATIENCE).expect("an answer"));
    // Links are tested meanwhile.
    let status = cluster.until("links are known", |status| {
        let known = |row: &&Value| row["latency_seconds"].is_f64() && row["bandwidth"].is_u64();
        list(status, "tst").iter().filter(known).count() == 6
    });
    let text = status["text"].as_str().expect("a text");
    assert!(text.contains("Links (TST)"), "{text}");
    let admin = cluster.monitor.as_ref().expect("it runs").said.clone();
    let figures = get(admin.split(' ').nth(1).expect("an address"), "/metrics");
    let figures = figures.replace("{}", "");
    for line in [
        "rhythm_venice_monitor_granted_total 2",
        "rhythm_venice_monitor_loans_ended_total{why=\"given_back\"} 2",
        "rhythm_venice_monitor_nodes_connected 3.0",
    ] {
        assert!(
            figures.lines().any(|told| told == line),
            "{line}: {figures}"
        );
    }
}

fn a_borrower_that_is_killed_has_given_back() {
    let mut cluster = Cluster::start();
    for _ in 0..kills(1) {
        let borrower = cluster.borrower(0, 4096);
        cluster.until("it is lent", |status| list(status, "rat").len() == 1);
        borrower.kill();
        cluster.until_all_is_back();
        // So has the agent of borrowers.
        let _borrower = cluster.borrower(1, 4096);
        let agent = cluster.agents[1].take().expect("it runs");
        agent.kill();
        cluster.until("what it borrowed is back, and it is gone", |status| {
            list(status, "rat").is_empty() && list(status, "rrt").len() == 2
        });
        cluster.start_agent(1, "key");
        cluster.until("it is there again", |status| list(status, "rrt").len() == 3);
        cluster.until_all_is_back();
    }
}

fn a_donor_that_is_killed_is_told_of() {
    let mut cluster = Cluster::start();
    let client = client(&cluster, 0);
    let borrow = || {
        client
            .borrow(Share::memory(4096), PATIENCE)
            .expect("a loan")
    };
    for _ in 0..kills(1) {
        let borrowed = borrow();
        let lender = lender(&cluster.status());
        cluster.agents[lender].take().expect("it runs").kill();
        let event = client.events().recv_timeout(PATIENCE).expect("an event");
        let (loan, why) = (borrowed.loan, Reason::DonorGone);
        assert_eq!(event, Event::Broken { loan, why });
        // Another lends, and the dead one when it is there again.
        let other = borrow();
        cluster.start_agent(lender, "key");
        cluster.until("it is there again", |status| list(status, "rrt").len() == 3);
        drop(other);
        cluster.until_all_is_back();
    }
}

fn loans_outlive_the_monitor() {
    let mut cluster = Cluster::start();
    let client = client(&cluster, 0);
    let [kept, back] = [(); 2].map(|()| {
        client
            .borrow(Share::memory(4096), PATIENCE)
            .expect("a loan")
    });
    cluster.monitor.take().expect("it runs").kill();
    assert!(client.renew(kept.loan, PATIENCE).expect("an answer"));
    // What is given back while no monitor is there is back when one is.
    let last = back.loan.max(kept.loan);
    drop(back);
    std::thread::sleep(Duration::from_millis(300));
    assert!(client.renew(kept.loan, PATIENCE).expect("an answer"));
    cluster.start_monitor();
    let status = cluster.until("the loan is there again", |status| {
        let rows = list(status, "rat");
        rows.len() == 1 && rows[0]["standing"] == "live" && list(status, "rrt").len() == 3
    });
    assert_eq!(list(&status, "rat")[0]["loan"], kept.loan.0);
    let next = client
        .borrow(Share::memory(4096), PATIENCE)
        .expect("a loan");
    assert!(next.loan > last, "{} is a number that was used", next.loan);
    assert!(client.events().try_recv().is_err(), "nothing is broken");
    drop((kept, next));
    cluster.until_all_is_back();
}

fn a_donor_that_leaves_wants_all_back() {
    let mut cluster = Cluster::start();
    let client = client(&cluster, 0);
    let borrowed = client
        .borrow(Share::memory(4096), PATIENCE)
        .expect("a loan");
    let lender = lender(&cluster.status());
    let start = Instant::now();
    cluster.agents[lender].take().expect("it runs").terminate();
    let loan = borrowed.loan;
    let wanted = client.events().recv_timeout(PATIENCE).expect("an event");
    let within = Duration::from_millis(500);
    assert_eq!(wanted, Event::ReclaimWanted { loan, within });
    // It was not given back: so it waited for that, and then took it.
    assert!(start.elapsed() >= within);
    let broken = client.events().recv_timeout(PATIENCE).expect("an event");
    let why = Reason::DonorNeedsIt;
    assert_eq!(broken, Event::Broken { loan, why });
    // It said that it left: it is gone at once, and was not taken for dead.
    cluster.until("it is gone", |status| list(status, "nodes").len() == 2);
    let monitor = cluster.monitor.as_ref().expect("it runs");
    let admin = monitor.said.split(' ').nth(1).expect("an address");
    let died = "rhythm_venice_monitor_nodes_died_total{} 0";
    let told = get(admin, "/metrics");
    assert!(told.contains(died), "{told}");
}

fn what_nobody_has_is_not_lent() {
    let cluster = Cluster::start();
    let client = client(&cluster, 0);
    for bytes in [SIZE + 1, u64::MAX, 0] {
        match client.borrow(Share::memory(bytes), PATIENCE) {
            Err(BorrowError::NotLent(NotLent::NoRoom { most })) => {
                assert_eq!(most, Share::memory(SIZE));
            }
            other => panic!("{bytes}: {other:?}"),
        }
    }
    // All of both others, but no byte more.
    let [_one, _other] = [(); 2].map(|()| {
        client
            .borrow(Share::memory(SIZE), PATIENCE)
            .expect("a loan")
    });
    match client.borrow(Share::memory(1), PATIENCE) {
        Err(BorrowError::NotLent(NotLent::NoRoom { most })) if most.amount == 0 => {}
        other => panic!("{other:?}"),
    }
}

fn who_has_another_secret_is_no_node() {
    let mut cluster = Cluster::start();
    cluster.agents[2].take().expect("it runs").kill();
    cluster.until("it is gone", |status| list(status, "rrt").len() == 2);
    cluster.write_key("other", "another secret of the test");
    cluster.start_agent(2, "other");
    let start = Instant::now();
    loop {
        let trouble = cluster.agent_status(2)["trouble"].clone();
        // It is the agent that finds out first.
        if trouble
            .as_str()
            .is_some_and(|trouble| trouble.contains("compare the files"))
        {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{trouble}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(list(&cluster.status(), "rrt").len(), 2);
}

fn strangers_harm_nobody() {
    let cluster = Cluster::start();
    let client = client(&cluster, 0);
    let borrowed = client
        .borrow(Share::memory(4096), PATIENCE)
        .expect("a loan");
    // A length that nothing may have, an unknown message, another version, and silence.
    let good = u8::try_from(VERSION).expect("a small number");
    let hello = |version: u8| [&[35, 0, 0, 0, 1, version, 0][..], &[0; 32]].concat();
    let proof = [&[33, 0, 0, 0, 3][..], &[0; 32]].concat();
    for bytes in [
        u32::MAX.to_le_bytes().to_vec(),
        vec![1, 0, 0, 0, 99],
        hello(99),
        [hello(good), proof].concat(),
    ] {
        let mut stranger = TcpStream::connect(cluster.address()).expect("the monitor");
        stranger
            .set_read_timeout(Some(PATIENCE))
            .expect("a time-out");
        stranger.write_all(&bytes).expect("it takes bytes");
        // It is turned away: the end, or a reset.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    let silent = TcpStream::connect(cluster.address()).expect("the monitor");
    silent.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    assert_eq!((&silent).read(&mut [0]).expect("it is closed in time"), 0);
    // A borrower that talks nonsense loses its own connection.
    let socket = cluster.socket(0);
    let mut nonsense = std::os::unix::net::UnixStream::connect(socket).expect("the agent");
    nonsense.write_all(&[9; 64]).expect("it takes bytes");
    assert_eq!(nonsense.read(&mut [0]).unwrap_or(0), 0);
    assert!(client.renew(borrowed.loan, PATIENCE).expect("an answer"));
    assert_eq!(list(&cluster.status(), "rat").len(), 1);
}
