//! A UDP echo server on worker threads: what one system call received goes back in one.
//!
//! `cargo run -p rhythm-net --example udp_echo [ADDRESS]`; it prints where it is, and serves until
//! its input ends.

use rhythm_net::workers::{Entrance, Worker, WorkerOptions, start};
use rhythm_net::*;
use std::convert::Infallible;
use std::error::Error;

/// Threads; the kernel spreads the peers over them.
const THREADS: usize = 2;

struct Echo;

impl Handler for Echo {
    fn datagrams(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        datagrams: &[Datagram<'_>],
        _: Time,
    ) {
        // A full socket drops some, as the network may: whoever misses an answer asks again.
        port.send_datagrams(socket, datagrams);
    }
}

impl Worker for Echo {
    type Command = Infallible;
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:7007".into());
    let sockets = DatagramSocket::bind_group(address.parse()?, THREADS)?;
    println!("{}", sockets[0].local_address());
    let options = WorkerOptions {
        threads: THREADS,
        ..WorkerOptions::default()
    };
    let entrances = vec![Entrance::datagrams(Role::default(), sockets)];
    let workers = start::<Echo, Infallible, _>(&options, entrances, |_| Ok(Echo))?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    workers.stop();
    Ok(workers.join()?)
}
