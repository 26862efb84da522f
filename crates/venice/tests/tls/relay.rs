//! Somebody between two ends, who keeps all that goes by.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// See the head of this file. Its threads end with the connections.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    /// Takes one connection to there.
    pub(crate) fn to(there: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let of_thread = Arc::clone(&heard);
        thread::spawn(move || {
            let (here, _) = listener.accept().expect("somebody comes");
            let there = TcpStream::connect(there).expect("it is there");
            let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
            let back = (copy(&there), copy(&here), Arc::clone(&of_thread));
            let back = thread::spawn(move || pass(back.0, back.1, &back.2));
            pass(here, there, &of_thread);
            let _ = back.join();
        });
        Relay { address, heard }
    }

    /// How many bytes went by, and whether these were among them.
    pub(crate) fn heard(&self, pattern: &[u8]) -> (usize, bool) {
        let heard = self.heard.lock().expect("no panic");
        let has = heard.windows(pattern.len()).any(|part| part == pattern);
        (heard.len(), has)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, heard: &Mutex<Vec<u8>>) {
    let mut part = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut part) {
        heard
            .lock()
            .expect("no panic")
            .extend_from_slice(&part[..count]);
        if to.write_all(&part[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
