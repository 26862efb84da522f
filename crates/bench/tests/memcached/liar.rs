//! A small memcached that tells one kind of lie now and then: `get` of a key, `set` and `version`,
//! and the meta commands `mg`, `mn` and `ms`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One in so many answers is a lie.
const EVERY: u64 = 20;
/// Answers before the first lie: the keys are stored by then.
const HONEST: u64 = 200;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lie {
    None,
    /// Under the right key.
    AnotherKeysValue,
    /// A key with its own value, but not the one asked for.
    AnotherKey,
    OldValue,
    Forgets,
    BitFlipped,
    /// The first half of the new value and the second of the one before.
    Torn,
    CutShort,
    /// Two answers on a connection change places.
    SwappedAnswers,
    HangsUp,
    Nonsense,
    Refuses,
    Silent,
    Slow,
}

/// A value and the one before.
type Values = (Vec<u8>, Vec<u8>);

#[derive(Default)]
struct Store {
    items: Mutex<HashMap<String, Values>>,
    answers: AtomicU64,
}

/// Starts it; returns its URL. It ends with the process.
pub(crate) fn start(lie: Lie) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("it is bound");
    let store = Arc::new(Store::default());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let store = Arc::clone(&store);
            // Clients hang up when they like.
            std::thread::spawn(move || serve(&stream, lie, &store).ok());
        }
    });
    format!("memcached://{at}")
}

fn serve(mut stream: &TcpStream, lie: Lie, store: &Store) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    let mut held: Option<Vec<u8>> = None;
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let count = store.answers.fetch_add(1, Ordering::Relaxed);
        let lies = lie != Lie::None && count > HONEST && count.is_multiple_of(EVERY);
        let mut answer = match words[..] {
            ["version"] => b"VERSION lies\r\n".to_vec(),
            ["set", key, _, _, length] | ["ms", key, length] => {
                let mut value = vec![0; length.parse::<usize>().unwrap_or(0) + 2];
                input.read_exact(&mut value)?;
                value.truncate(value.len() - 2);
                let mut items = store.items.lock().expect("nobody panics");
                let before = items.remove(key).map(|(value, _)| value);
                let before = before.unwrap_or_else(|| value.clone());
                items.insert(key.to_owned(), (value, before));
                let stored: &[u8] = if words[0] == "ms" {
                    b"HD\r\n"
                } else {
                    b"STORED\r\n"
                };
                stored.to_vec()
            }
            ["get", key] => get(key, lie, lies, store),
            ["mg", ..] if lie == Lie::Refuses && lies => {
                b"SERVER_ERROR out of memory writing a value\r\n".to_vec()
            }
            ["mg", key, ..] => {
                let items = store.items.lock().expect("nobody panics");
                // Quiet: of what is not there nothing is said.
                items.get(key).map_or(Vec::new(), |(value, _)| {
                    let head = format!("VA {} k{key}\r\n", value.len());
                    [head.as_bytes(), value, b"\r\n"].concat()
                })
            }
            ["mn"] => b"MN\r\n".to_vec(),
            _ => b"ERROR\r\n".to_vec(),
        };
        match lie {
            Lie::HangsUp if lies => return Ok(()),
            Lie::Nonsense if lies => answer = b"250 OK\r\n".to_vec(),
            Lie::Refuses if lies && words[0] == "set" => {
                // As memcached: what was there is gone.
                let mut items = store.items.lock().expect("nobody panics");
                items.remove(words[1]);
                answer = b"SERVER_ERROR out of memory storing object\r\n".to_vec();
            }
            Lie::Silent if lies => std::thread::sleep(Duration::from_secs(1)),
            Lie::Slow if count > HONEST => std::thread::sleep(Duration::from_millis(20)),
            Lie::SwappedAnswers => {
                // Held until there is another; only where more is there already.
                let is_get = answer.starts_with(b"VALUE");
                if lies && is_get && held.is_none() && !input.buffer().is_empty() {
                    held = Some(answer);
                    continue;
                }
            }
            _ => {}
        }
        stream.write_all(&answer)?;
        if let Some(held) = held.take() {
            stream.write_all(&held)?;
        }
    }
}

fn get(key: &str, lie: Lie, lies: bool, store: &Store) -> Vec<u8> {
    let items = store.items.lock().expect("nobody panics");
    let Some((value, before)) = items.get(key) else {
        return b"END\r\n".to_vec();
    };
    let (mut name, mut value) = (key, value.clone());
    let other = items.iter().find(|(other, _)| *other != key);
    if let (true, Some((other, (others, _)))) = (lies, other) {
        match lie {
            Lie::AnotherKeysValue => value.clone_from(others),
            Lie::AnotherKey => {
                name = other;
                value.clone_from(others);
            }
            Lie::OldValue => value.clone_from(before),
            Lie::Forgets => return b"END\r\n".to_vec(),
            Lie::BitFlipped => value[100] ^= 4,
            Lie::Torn => value[256..].copy_from_slice(&before[256..]),
            Lie::CutShort => value.truncate(500),
            _ => {}
        }
    }
    let mut answer = format!("VALUE {name} 0 {}\r\n", value.len()).into_bytes();
    answer.extend_from_slice(&value);
    answer.extend_from_slice(b"\r\nEND\r\n");
    answer
}
