use super::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

const NAME: &str = "node";
const LEAVE: &str = "ring/leave/node";
/// The lease of another process of its name, and of another node.
const OTHER: i64 = 1;
const THIRD: i64 = 2;

/// What etcd has: leases, and keys with their values and leases, in base64 as they come.
#[derive(Default)]
struct Fake {
    leases: BTreeSet<i64>,
    granted: i64,
    keys: BTreeMap<String, (String, i64)>,
    /// So many transactions are executed, and not answered.
    unanswered: usize,
    /// Nothing is answered, and who asks waits; and so often one did for a lease to be renewed.
    is_mute: bool,
    unrenewed: usize,
    asked: usize,
}

/// As the gateway has it.
fn encoded(key: &str) -> String {
    let mut text = Vec::new();
    crate::wire::base64::encode(key.as_bytes(), &mut text);
    String::from_utf8(text).expect("base64")
}

impl Fake {
    /// Ends a lease.
    fn end(&mut self, lease: i64) {
        self.leases.remove(&lease);
        self.keys.retain(|_, (_, of)| *of != lease);
    }

    /// What is answered, if anything.
    fn ask(&mut self, path: &str, body: &Value) -> Option<Value> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let header = json!({ "revision": "7" });
        Some(match path {
            "/v3/lease/grant" => {
                self.granted += 10;
                self.leases.insert(self.granted);
                json!({ "header": header, "ID": self.granted.to_string() })
            }
            "/v3/lease/keepalive" => {
                match self.leases.contains(&body["ID"].as_i64().expect("a lease")) {
                    true => json!({ "result": { "header": header, "TTL": "1" } }),
                    false => {
                        // Then, too, who was there before is gone.
                        self.end(OTHER);
                        json!({ "result": { "header": header } })
                    }
                }
            }
            "/v3/kv/txn" => {
                let put = &body["success"][0]["request_put"];
                let (key, lease) = (text(&put["key"]), put["lease"].as_i64().expect("a lease"));
                let is_there = self.keys.contains_key(&key) && body["compare"][0].is_object();
                let is_new = self.leases.contains(&lease) && !is_there;
                if is_new {
                    self.keys.insert(key, (text(&put["value"]), lease));
                }
                if self.unanswered > 0 {
                    self.unanswered -= 1;
                    return None;
                }
                json!({ "header": header, "succeeded": is_new })
            }
            "/v3/kv/range" => {
                let is_one = body["range_end"].is_null();
                let keys = self.keys.iter();
                let keys = keys.filter(|(key, _)| !is_one || **key == body["key"]);
                let keys = keys.map(|(key, (value, lease))| {
                    json!({ "key": key, "value": value, "lease": lease.to_string() })
                });
                json!({ "header": header, "kvs": keys.collect::<Vec<_>>() })
            }
            "/v3/kv/deleterange" => {
                self.keys.remove(&text(&body["key"]));
                json!({ "header": header })
            }
            "/v3/lease/revoke" => {
                self.end(body["ID"].as_i64().expect("a lease"));
                json!({ "header": header })
            }
            _ => json!({ "header": header }),
        })
    }
}

/// Answers a request, or not. Whether who asked is to wait.
fn serve(stream: &TcpStream, fake: &Mutex<Fake>) -> std::io::Result<bool> {
    let mut reader = BufReader::new(stream);
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        } else if let Some(count) = line.strip_prefix("content-length:") {
            length = count.trim().parse().expect("a number");
        } else if path.is_empty() {
            path = line.split(' ').nth(1).expect("a path").to_owned();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body)?;
    let mut fake = fake.lock().expect("nobody panics");
    fake.asked += 1;
    if fake.is_mute {
        fake.unrenewed += usize::from(path == "/v3/lease/keepalive");
        return Ok(true);
    }
    let Some(answer) = fake.ask(&path, &body) else {
        return Ok(false);
    };
    drop(fake);
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    (&*stream).write_all((head + &answer).as_bytes())?;
    Ok(false)
}

/// An etcd that does not answer so many transactions, of two servers that are one.
fn etcd(fake: Fake) -> (Etcd, Arc<Mutex<Fake>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("it has one");
    let fake = Arc::new(Mutex::new(fake));
    let of_thread = Arc::clone(&fake);
    thread::spawn(move || {
        let mut waiting = Vec::new();
        for stream in listener.incoming().flatten() {
            // Who asked may have gone.
            if matches!(serve(&stream, &of_thread), Ok(true)) {
                waiting.push(stream);
            }
        }
    });
    (
        Etcd::new(&format!("{at},{at}/ring")).expect("a place"),
        fake,
    )
}

fn me() -> Member {
    Member {
        name: NAME.to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 11211,
        backbone: ([127, 0, 0, 1], 11311).into(),
    }
}

/// The lease of this node's key.
fn of_key(fake: &Mutex<Fake>) -> Option<i64> {
    let number = numbers(NAME).next().expect("it has one");
    lease_of(fake, &format!("ring/nodes/{number}"))
}

/// The lease of a key.
fn lease_of(fake: &Mutex<Fake>, key: &str) -> Option<i64> {
    let fake = fake.lock().expect("nobody panics");
    fake.keys.get(&encoded(key)).map(|(_, lease)| *lease)
}

#[test]
fn what_was_done_and_not_answered_is_no_other_node() {
    let (etcd, fake) = etcd(Fake {
        unanswered: 1,
        ..Fake::default()
    });
    let mut node = Registration::new(etcd, me(), 1).expect("it is the only one");
    assert_eq!(of_key(&fake), Some(node.lease.number));
    assert_eq!(node.members.len(), 1);
    // Its lease ends, and it comes back as slowly.
    for unanswered in [1, 2] {
        {
            let mut fake = fake.lock().expect("nobody panics");
            fake.end(node.lease.number);
            fake.unanswered = unanswered;
        }
        let before = node.lease.number;
        // It has another, and registers for that; where neither server says that it was done, it
        // is found to be.
        assert!(matches!(node.renew(), Ok(News::Lease(lease)) if lease.until == Time::ZERO));
        while node.renew().is_err() {}
        assert_ne!(node.lease.number, before);
        assert!(matches!(node.renew(), Ok(News::Lease(_))));
        assert_eq!(of_key(&fake), Some(node.lease.number), "{unanswered}");
    }
    // One that has its place is another.
    let mut other = node.clone();
    let mut fake = fake.lock().expect("nobody panics");
    fake.end(node.lease.number);
    drop(fake);
    for _ in 0..2 {
        assert!(matches!(other.renew(), Ok(News::Lease(_))));
    }
    assert!(matches!(node.renew(), Ok(News::Lease(_))));
    assert!(matches!(node.renew(), Ok(News::Replaced)));
}

#[test]
fn a_lease_that_ends_before_the_place_is_free_is_another() {
    let (etcd, fake) = etcd(Fake {
        leases: [OTHER].into(),
        ..Fake::default()
    });
    create(&mut etcd.clone(), 7, &me(), OTHER).expect("it answers");
    let of_thread = Arc::clone(&fake);
    let ends = thread::spawn(move || {
        loop {
            let mut fake = of_thread.lock().expect("nobody panics");
            if fake.granted > 0 {
                let first = fake.granted;
                return fake.end(first);
            }
        }
    });
    let node = Registration::new(etcd, me(), 1).expect("the other one is gone");
    ends.join().expect("it ends");
    assert_eq!(of_key(&fake), Some(node.lease.number));
}

/// Others have heard that it is not there, and take what it serves, whatever its lease says.
#[test]
fn a_node_whose_key_was_removed_has_no_lease_until_it_has_registered_anew() {
    let (etcd, fake) = etcd(Fake::default());
    let mut node = Registration::new(etcd, me(), 1).expect("it is the only one");
    let before = node.lease.number;
    assert!(matches!(node.renew(), Ok(News::Lease(lease)) if lease.until > Time::ZERO));
    fake.lock().expect("nobody panics").keys.clear();
    let without = |number| {
        let (until, revision) = (Time::ZERO, 7);
        Ok(News::Lease(Lease {
            until,
            number,
            revision,
        }))
    };
    let said = node.renew();
    assert_eq!(said.map_err(|error| error.to_string()), without(before));
    assert!(matches!(node.renew(), Ok(News::Lease(lease)) if lease.until == Time::ZERO));
    assert!(matches!(node.renew(), Ok(News::Lease(lease)) if lease.until > Time::ZERO));
    assert_ne!(node.lease.number, before);
    assert_eq!(of_key(&fake), Some(node.lease.number));
    let leases = fake.lock().expect("nobody panics").leases.clone();
    assert_eq!(leases, [node.lease.number].into(), "the other is ended");
}

/// The clock goes on while the machine sleeps, and the wait does not.
#[test]
fn who_rests_sees_that_a_lease_is_over_when_the_machine_has_slept() {
    let (say, said) = mpsc::channel();
    let day = Duration::from_secs(86_400);
    let slept = std::cell::Cell::new(false);
    let sleeps = || match slept.replace(true) {
        true => Time::ZERO + day,
        false => Time::ZERO,
    };
    assert!(goes_on(&said, day, sleeps));
    say.send(Said::Look).expect("it is heard");
    assert!(goes_on(&said, day, clock::monotonic));
    say.send(Said::End).expect("it is heard");
    assert!(!goes_on(&said, Duration::ZERO, clock::monotonic));
    drop(say);
    assert!(!goes_on(&said, day, clock::monotonic));
}

/// Those who are about to register anew have theirs.
#[test]
fn a_number_is_of_its_name_and_the_next_one_where_that_is_taken() {
    let of = |name: &str| numbers(name).collect::<Vec<_>>();
    let all: BTreeSet<usize> = of("a").into_iter().collect();
    assert_eq!(all, (0..NODES_MAX).collect());
    assert_eq!((of("a")[0] + 1) % NODES_MAX, of("a")[1]);
    let firsts: BTreeSet<usize> = ('a'..='j').map(|name| of(&name.to_string())[0]).collect();
    assert!(firsts.len() >= 8, "{firsts:?}");
}

/// Somebody was asked to leave, and a second one of its name waits for it to be gone.
#[test]
fn who_waits_for_another_of_its_name_leaves_what_that_one_is_told() {
    let (etcd, fake) = etcd(Fake {
        leases: [OTHER].into(),
        ..Fake::default()
    });
    let (mut first, mut asks) = (etcd.clone(), etcd.clone());
    create(&mut first, 7, &me(), OTHER).expect("it answers");
    let asked = thread::spawn(move || super::super::remove(&mut asks, NAME));
    let until = |is_so: &dyn Fn() -> bool| {
        let begun = clock::monotonic();
        while !is_so() {
            assert!(clock::monotonic().since(begun) < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(5));
        }
    };
    until(&|| lease_of(&fake, LEAVE).is_some_and(|lease| lease > 0));
    let of_second = Registration::new;
    let second = thread::spawn(move || of_second(etcd, me(), 60).map(|node| node.number));
    let asked_for = || fake.lock().expect("nobody panics").asked;
    let before = asked_for();
    until(&|| asked_for() > before + 6);
    assert!(lease_of(&fake, LEAVE).is_some());
    fake.lock().expect("nobody panics").end(OTHER);
    assert!(second.join().expect("it ends").is_ok());
    assert!(lease_of(&fake, LEAVE).is_none());
    // Here the next one came before that was seen.
    let place = of_key(&fake).expect("it registered");
    fake.lock().expect("nobody panics").end(place);
    assert!(matches!(asked.join().expect("it ends"), Ok(true)));
    let mut etcd = first;
    assert!(matches!(super::super::remove(&mut etcd, NAME), Ok(false)));
}

#[test]
fn an_end_waits_two_seconds_for_an_etcd_that_does_not_answer() {
    let (etcd, fake) = etcd(Fake::default());
    let node = Registration::new(etcd, me(), 1).expect("it is the only one");
    // It ends with the keeper, who tells by it.
    let (of_keeper, ends) = mpsc::channel::<()>();
    let kept = node.keep(move |_| {
        let _ = &of_keeper;
    });
    let kept = kept.expect("there are threads");
    fake.lock().expect("nobody panics").is_mute = true;
    // A renewal is under way, and takes as long as the end of the lease that would follow.
    let begun = clock::monotonic();
    while fake.lock().expect("nobody panics").unrenewed == 0 {
        assert!(clock::monotonic().since(begun) < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
    drop(kept);
    assert_eq!(
        ends.try_recv(),
        Err(mpsc::TryRecvError::Empty),
        "it was waited for"
    );
}

/// Who has another lease is told first who is there by then: they may have taken what it served.
#[test]
fn who_registers_anew_is_told_who_is_there_before_its_lease() {
    let (etcd, fake) = etcd(Fake::default());
    let node = Registration::new(etcd, me(), 1).expect("it is the only one");
    let number = node.lease.number;
    let (say, said) = mpsc::channel();
    let kept = node.keep(move |news| {
        // At the end nobody hears it.
        let _ = say.send(news);
    });
    let kept = kept.expect("there are threads");
    {
        let mut fake = fake.lock().expect("nobody panics");
        fake.end(number);
        fake.leases.insert(THIRD);
        let other = json!({ "name": "other", "client": "h:1", "backbone": "127.0.0.1:2" });
        let at = encoded("ring/nodes/63");
        fake.keys.insert(at, (encoded(&other.to_string()), THIRD));
    }
    let mut named = Vec::new();
    loop {
        match said
            .recv_timeout(Duration::from_secs(10))
            .expect("it is told")
        {
            News::Members(members) => {
                let names = members.into_values().map(|member| member.name);
                named = names.collect();
                named.sort_unstable();
            }
            News::Lease(lease) if lease.number != number && lease.until > Time::ZERO => break,
            _ => {}
        }
    }
    assert_eq!(named, [NAME, "other"]);
    drop(kept);
}
