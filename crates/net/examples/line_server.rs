//! A TCP server on worker threads that gives each line back with its words in reverse order.
//!
//! `cargo run -p rhythm-net --example line_server [ADDRESS]`; it prints where it is, and serves
//! until its input ends.

use rhythm_net::workers::{Entrance, Worker, WorkerOptions, start};
use rhythm_net::*;
use std::convert::Infallible;
use std::error::Error;

/// Threads; the kernel spreads the clients over them.
const THREADS: usize = 2;
/// The longest line, in bytes.
const LINE_MAX: usize = 4096;
/// Answers that a client may leave unread before its lines are left unread, in bytes.
const UNSENT_MAX: usize = 64 * 1024;

#[derive(Default)]
struct Client {
    line: Vec<u8>,
    out: Outgoing,
    has_finished: bool,
}

#[derive(Default)]
struct Lines(ConnectionTable<Client>);

impl Lines {
    /// Sends what there is, and has the client wait for it, go on, or go.
    fn flush(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let Some(client) = self.0.get_mut(id) else {
            return;
        };
        match client.out.writable(port, id) {
            Flushed::All if client.has_finished => port.close(id),
            Flushed::Some if client.out.unsent() > UNSENT_MAX => return port.pause(id),
            Flushed::All | Flushed::Some => return port.resume(id),
            Flushed::Gone => {}
        }
        self.0.remove(id);
    }
}

impl Handler for Lines {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        self.0.insert(accepted.connection, Client::default());
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], _: Time) {
        let Some(client) = self.0.get_mut(id) else {
            return;
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            client.line.extend_from_slice(piece);
            if let Some(line) = client.line.strip_suffix(b"\n") {
                let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').rev().collect();
                client.out.push(&words.join(&b' '));
                client.out.push(b"\n");
                client.line.clear();
            }
        }
        client.has_finished |= client.line.len() > LINE_MAX;
        self.flush(port, id);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        self.flush(port, id);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) {
        match self.0.get_mut(id) {
            Some(client) if how == Ended::PeerFinished => client.has_finished = true,
            _ => drop(self.0.remove(id)),
        }
        self.flush(port, id);
    }
}

impl Worker for Lines {
    type Command = Infallible;
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7007".into());
    let listeners = Listener::bind_group(address.parse()?, THREADS, &ListenOptions::default())?;
    println!("{}", listeners[0].local_address());
    let options = WorkerOptions {
        threads: THREADS,
        ..WorkerOptions::default()
    };
    let entrances = vec![Entrance::listeners(Role::default(), listeners)];
    let workers = start::<Lines, Infallible, _>(&options, entrances, |_| Ok(Lines::default()))?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    workers.stop();
    Ok(workers.join()?)
}
