//! Nodes of a ring by a file that are refused, over TCP: they are told so on the connections that
//! they open, begin to serve nothing, and say why.

use super::{NEVER, Running, here, observing, start};
use rhythm_etcd::testing::free_places;
use rhythm_kv::membership::{Membership, Replicate, Transport};
use rhythm_kv::ring::{Elsewhere, Member, Scheme};
use rhythm_kv::shared::Settings;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A node of a file with these places, that listens for others at this one.
fn node(places: &[SocketAddr], me: usize, at: SocketAddr) -> Running {
    let members: BTreeMap<usize, Member> = (places.iter().enumerate())
        .map(|(node, backbone)| {
            let member = Member {
                name: format!("n{}", node + 1),
                host: "127.0.0.1".to_owned(),
                port: backbone.port(),
                backbone: *backbone,
                place: backbone.to_string(),
            };
            (node, member)
        })
        .collect();
    start(Settings {
        admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ring: Some(Membership {
            members,
            me,
            transport: Transport::Tcp(at),
            scheme: Scheme::Ring,
            replicas: 1,
            replicate: Replicate::ACKED,
            elsewhere: Elsewhere::Forward,
            etcd: None,
        }),
        ..here()
    })
}

/// Waits until a node says that it is ready, or why it is not.
fn until_says(node: &Running, status: u16, why: &str) {
    let until = Instant::now() + NEVER;
    loop {
        let said = observing::get(node.admin(), "/readyz");
        if said.0 == status && said.1.contains(why) {
            return;
        }
        assert!(Instant::now() < until, "{said:?}, and not {status} {why}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn who_is_refused_says_so_and_begins_when_nobody_refuses_it() {
    let places = free_places(5);
    let of_three: Vec<Running> = (0..3)
        .map(|me| node(&places[..3], me, places[me]))
        .collect();
    let are_ready = || of_three.iter().for_each(|node| until_says(node, 200, "ok"));
    are_ready();
    // One of which their file knows nothing; one that has the name of another.
    let fourth = node(&places[..4], 3, places[3]);
    let second = node(&places[..3], 0, places[4]);
    let another = format!("another node called n1 is there, at {}", places[0]);
    let differs = format!("node 4 of the file is n4 127.0.0.1:{}", places[3].port());
    // Past the time after which a node that nobody answers begins.
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        until_says(&fourth, 503, &differs);
        until_says(&second, 503, &another);
        for node in &of_three {
            assert_eq!(observing::get(node.admin(), "/readyz").0, 200);
        }
    }
    drop(second);
    thread::sleep(Duration::from_secs(1));
    are_ready();
    drop(of_three);
    until_says(&fourth, 200, "ok");
}

/// It cannot read what they say, and they serve what it would.
#[test]
fn a_node_does_not_begin_beside_one_of_another_version_and_says_so() {
    let others = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [second, third] = (others.each_ref()).map(|at| at.local_addr().expect("it has one"));
    let places = [free_places(1)[0], second, third];
    let node = node(&places, 0, places[0]);
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        // As far as it is alike in all versions.
        if let Ok(mut stream) = TcpStream::connect(places[0]) {
            // It closes the connection, maybe before all is written.
            let _ = stream.write_all(b"RK\x06\x02\x00\x10\x00\x00 what it cannot read");
        }
        thread::sleep(Duration::from_millis(100));
        let (status, said) = observing::get(node.admin(), "/readyz");
        assert_eq!(status, 503, "{said}");
    }
    until_says(
        &node,
        503,
        "n3 speaks version 6 of the nodes' protocol, and this node",
    );
    let mut stream = node.connect();
    stream.write_all(b"stats ring\r\n").expect("it reads");
    let mut said = String::new();
    let mut lines = BufReader::new(stream);
    while !said.ends_with("END\r\n") {
        assert!(
            lines.read_line(&mut said).expect("it answers") > 0,
            "{said}"
        );
    }
    assert!(
        said.contains("STAT n3:refused 1\r\nSTAT n3:why n3 speaks version 6 "),
        "{said}"
    );
    assert!(said.contains("STAT n2:refused 0\r\n"), "{said}");
    // When it is gone, it begins.
    drop(others);
    until_says(&node, 200, "ok");
}
