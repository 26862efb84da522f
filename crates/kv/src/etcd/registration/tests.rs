use super::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

/// A node's name and number.
const NAME: &str = "node";
const KEY: &str = "ring/nodes/0";
/// The lease of another process of its name.
const OTHER: i64 = 1;

/// What etcd has: leases, and keys with their values and leases, in base64 as they come.
#[derive(Default)]
struct Fake {
    leases: BTreeSet<i64>,
    granted: i64,
    keys: BTreeMap<String, (String, i64)>,
    /// So many transactions are executed, and not answered.
    unanswered: usize,
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
                let is_new = self.leases.contains(&lease) && !self.keys.contains_key(&key);
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
            "/v3/lease/revoke" => {
                self.end(body["ID"].as_i64().expect("a lease"));
                json!({ "header": header })
            }
            _ => json!({ "header": header }),
        })
    }
}

/// Answers a request, or not.
fn serve(stream: &TcpStream, fake: &Mutex<Fake>) -> std::io::Result<()> {
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
    let Some(answer) = fake.lock().expect("nobody panics").ask(&path, &body) else {
        return Ok(());
    };
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    (&*stream).write_all((head + &answer).as_bytes())
}

/// An etcd that does not answer so many transactions, of two servers that are one.
fn etcd(fake: Fake) -> (Etcd, Arc<Mutex<Fake>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("it has one");
    let fake = Arc::new(Mutex::new(fake));
    let of_thread = Arc::clone(&fake);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Who asked may have gone.
            let _ = serve(&stream, &of_thread);
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
    let fake = fake.lock().expect("nobody panics");
    let mut key = Vec::new();
    crate::wire::base64::encode(KEY.as_bytes(), &mut key);
    let key = String::from_utf8(key).expect("base64");
    fake.keys.get(&key).map(|(_, lease)| *lease)
}

#[test]
fn what_was_done_and_not_answered_is_no_other_node() {
    let (etcd, fake) = etcd(Fake {
        unanswered: 1,
        ..Fake::default()
    });
    let mut node = Registration::new(etcd, me(), 1).expect("it is the only one");
    assert_eq!(of_key(&fake), Some(node.lease.number));
    assert_eq!((node.number, node.members.len()), (0, 1));
    // Its lease ends, and it comes back as slowly.
    for unanswered in [1, 2] {
        {
            let mut fake = fake.lock().expect("nobody panics");
            fake.end(node.lease.number);
            fake.unanswered = unanswered;
        }
        let before = node.lease.number;
        // Where neither server says that it was done, it is found to be.
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
    assert!(matches!(other.renew(), Ok(News::Lease(_))));
    assert!(matches!(node.renew(), Ok(News::Replaced)));
}

#[test]
fn a_lease_that_ends_before_the_place_is_free_is_another() {
    let (etcd, fake) = etcd(Fake {
        leases: [OTHER].into(),
        ..Fake::default()
    });
    create(&mut etcd.clone(), 0, &me(), OTHER).expect("it answers");
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
