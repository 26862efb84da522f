//! The attacks: what each does, with how many connections.

use super::crowd::{Crowd, NO_ROOM};
use super::options::Aims;
use rhythm_besim::mix::mix64;

/// An attack.
#[derive(Debug)]
pub struct Attack {
    /// What it is called.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// With so many connections at a time, unless told otherwise.
    pub connections: usize,
    /// It asks for [`Aims::big_page`].
    pub needs_big_page: bool,
    pub(super) make: fn(&mut Crowd, &Aims),
}

/// All attacks.
pub const ATTACKS: [Attack; 12] = [
    attack(
        "unread-pages",
        "64 pages asked for on each connection, nothing read",
        3000,
        unread_pages,
    ),
    attack(
        "unread-files",
        "200 files asked for on each connection, nothing read",
        2000,
        unread_files,
    ),
    Attack {
        needs_big_page: true,
        ..attack(
            "big-pages",
            "64 pages of megabytes asked for on each connection, nothing read",
            100,
            big_pages,
        )
    },
    attack(
        "pipelined",
        "64 pages asked for at a time, and read",
        64,
        pipelined,
    ),
    attack("slow-heads", "heads sent byte by byte", 5000, slow_heads),
    attack("slow-bodies", "bodies sent byte by byte", 2000, slow_bodies),
    attack(
        "half-requests",
        "three requests sent in two parts, all first parts before all second ones",
        200,
        half_requests,
    ),
    attack(
        "expectations",
        "bodies announced, and sent when they are asked for (Expect: 100-continue)",
        200,
        expectations,
    ),
    attack(
        "guesses",
        "64 wrong passwords sent at a time, the answers read",
        8,
        guesses,
    ),
    attack(
        "garbage",
        "4000 bytes that are no request on each connection, and another one",
        500,
        garbage,
    ),
    attack(
        "churn",
        "a connection, a page asked for, closed before the answer; one after the other",
        1,
        churn,
    ),
    attack(
        "crowds",
        "connections opened, then all closed, again and again",
        1000,
        crowds,
    ),
];

const fn attack(
    name: &'static str,
    about: &'static str,
    connections: usize,
    make: fn(&mut Crowd, &Aims),
) -> Attack {
    Attack {
        name,
        about,
        connections,
        needs_big_page: false,
        make,
    }
}

impl Attack {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Attack> {
        ATTACKS.iter().find(|attack| attack.name == name)
    }
}

fn get(target: &str, times: usize) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
        .repeat(times)
        .into_bytes()
}

/// A form's head, which announces a body of so many bytes, with a further header field.
fn form(aims: &Aims, length: usize, field: &str) -> String {
    let target = &aims.sign_in;
    format!(
        "POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         {field}Content-Length: {length}\r\n\r\n"
    )
}

/// Asks and does not read.
fn unread(crowd: &mut Crowd, requests: &[u8]) {
    crowd.gather(NO_ROOM, requests);
    crowd.wait();
}

fn unread_pages(crowd: &mut Crowd, aims: &Aims) {
    unread(crowd, &get(&aims.page, 64));
}

fn unread_files(crowd: &mut Crowd, aims: &Aims) {
    unread(crowd, &get(&aims.file, 200));
}

fn big_pages(crowd: &mut Crowd, aims: &Aims) {
    let target = aims.big_page.as_deref().unwrap_or(&aims.page);
    unread(crowd, &get(target, 64));
}

/// Again and again on each connection, as fast as it is taken.
fn repeated(crowd: &mut Crowd, requests: &[u8]) {
    while !crowd.is_over() {
        crowd.gather(None, requests);
        for index in 0..crowd.count {
            crowd.read(index);
            crowd.begin(index, requests);
        }
    }
}

fn pipelined(crowd: &mut Crowd, aims: &Aims) {
    repeated(crowd, &get(&aims.page, 64));
}

fn guesses(crowd: &mut Crowd, aims: &Aims) {
    let body = "userid=1&password=wrong";
    let guess = form(aims, body.len(), "") + body;
    repeated(crowd, guess.repeat(64).as_bytes());
}

/// A byte on each connection, again and again.
fn byte_by_byte(crowd: &mut Crowd, first: &[u8]) {
    while !crowd.is_over() {
        crowd.gather(None, first);
        for index in 0..crowd.count {
            crowd.begin(index, b"x");
        }
    }
}

fn slow_heads(crowd: &mut Crowd, _: &Aims) {
    byte_by_byte(crowd, b"GET / HTTP/1.1\r\nHost: x\r\nX: ");
}

fn slow_bodies(crowd: &mut Crowd, aims: &Aims) {
    let begun = form(aims, 8000, "") + &"a=b&".repeat(1000);
    byte_by_byte(crowd, begun.as_bytes());
}

fn half_requests(crowd: &mut Crowd, aims: &Aims) {
    let requests = get(&aims.page, 3);
    let (first, second) = requests.split_at(requests.len() * 3 / 5);
    let mut begun = vec![false; crowd.count];
    while !crowd.is_over() {
        crowd.gather(None, b"");
        for (index, begun) in begun.iter_mut().enumerate() {
            *begun = crowd.begin(index, first);
        }
        for (index, begun) in begun.iter().enumerate() {
            if *begun {
                crowd.go_on(index, second);
            }
            crowd.read(index);
        }
    }
}

fn expectations(crowd: &mut Crowd, aims: &Aims) {
    let head = form(aims, 1, "Expect: 100-continue\r\n");
    while !crowd.is_over() {
        crowd.gather(None, b"");
        for index in 0..crowd.count {
            let is_begun = crowd.begin(index, head.as_bytes());
            crowd.read(index);
            if is_begun {
                crowd.go_on(index, b"a");
            }
        }
    }
}

/// Connections that say this and are closed at once, again and again.
fn come_and_go(crowd: &mut Crowd, bytes: &[u8]) {
    while !crowd.is_over() {
        crowd.gather(None, bytes);
        (0..crowd.count).for_each(|index| crowd.close(index));
    }
}

fn garbage(crowd: &mut Crowd, _: &Aims) {
    let words = (0..500).flat_map(|n| mix64(n).to_le_bytes());
    come_and_go(crowd, &words.collect::<Vec<u8>>());
}

fn churn(crowd: &mut Crowd, aims: &Aims) {
    come_and_go(crowd, &get(&aims.page, 1));
}

fn crowds(crowd: &mut Crowd, _: &Aims) {
    come_and_go(crowd, b"");
}
