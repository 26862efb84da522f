//! Datagrams as fast as they go, and who counts those that arrive: what a NIC carries, also where
//! most of what is sent is lost.

use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Who is not sent anything for so long is told so.
const FIRST_MAX: Duration = Duration::from_secs(20);
/// What comes in this time after the first is not counted: queues fill.
const WARM: Duration = Duration::from_millis(100);
/// The longest datagram.
pub const BYTES_MAX: usize = 1400;

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Datagrams in that time.
    pub packets: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Seconds in which they were counted.
    pub seconds: f64,
}

/// Sends datagrams of so many bytes to each place for so long, each by a thread of its own.
///
/// # Errors
/// There is no socket. Datagrams that the system does not take are lost ones.
pub fn send(to: &[SocketAddr], bytes: usize, time: Duration) -> io::Result<u64> {
    let sockets = to.iter().map(|to| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(to)?;
        // A queue that stands still does not keep this from ending.
        socket.set_write_timeout(Some(WARM))?;
        Ok(socket)
    });
    let sockets: Vec<UdpSocket> = sockets.collect::<io::Result<_>>()?;
    let text = vec![b'v'; bytes.min(BYTES_MAX)];
    let until = Instant::now() + time;
    let one = |socket: &UdpSocket| {
        let mut sent = 0;
        while Instant::now() < until {
            sent += u64::from(socket.send(&text).is_ok());
        }
        sent
    };
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = sockets
            .iter()
            .map(|socket| scope.spawn(|| one(socket)))
            .collect();
        let sent = threads.into_iter().map(|thread| thread.join().unwrap_or(0));
        sent.sum()
    }))
}

/// Counts what arrives at all places for so long, from a moment after the first.
///
/// # Errors
/// A place is taken, or nothing comes.
pub fn receive(
    at: &[SocketAddr],
    time: Duration,
    ready: impl FnOnce() -> io::Result<()>,
) -> io::Result<Received> {
    let sockets = at.iter().map(|at| {
        let socket = UdpSocket::bind(at)?;
        socket.set_read_timeout(Some(WARM))?;
        Ok(socket)
    });
    let sockets: Vec<UdpSocket> = sockets.collect::<io::Result<_>>()?;
    ready()?;
    let (mut text, start) = ([0; BYTES_MAX], Instant::now());
    while sockets.iter().all(|socket| socket.recv(&mut text).is_err()) {
        if start.elapsed() > FIRST_MAX {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                "no datagram has arrived",
            ));
        }
    }
    let from = Instant::now() + WARM;
    let one = |socket: &UdpSocket| {
        let (mut text, mut received) = ([0; BYTES_MAX], Received::default());
        loop {
            let read = socket.recv(&mut text);
            let now = Instant::now();
            if now >= from + time {
                return received;
            }
            if let Ok(read) = read
                && now >= from
            {
                received.packets += 1;
                received.bytes += read as u64;
            }
        }
    };
    let all = thread::scope(|scope| {
        let threads: Vec<_> = sockets
            .iter()
            .map(|socket| scope.spawn(|| one(socket)))
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default());
        joined.collect::<Vec<Received>>()
    });
    Ok(Received {
        packets: all.iter().map(|one| one.packets).sum(),
        bytes: all.iter().map(|one| one.bytes).sum(),
        seconds: time.as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_arrives_is_counted_at_all_places() {
        let free = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let places: Vec<SocketAddr> = [free(), free()]
            .map(|socket| socket.local_addr().expect("it has one"))
            .into();
        let (sender, is_ready) = channel();
        let at = places.clone();
        let time = Duration::from_millis(100);
        let receiver =
            thread::spawn(move || receive(&at, time, || sender.send(()).map_err(io::Error::other)));
        is_ready.recv().expect("it is");
        let sent = send(&places, 256, Duration::from_millis(400)).expect("there are sockets");
        let received = receiver.join().expect("it ends").expect("some came");
        assert!(
            received.packets > 0 && received.packets <= sent,
            "{received:?} of {sent}"
        );
        assert_eq!(received.bytes, 256 * received.packets);
    }
}
