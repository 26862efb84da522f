//! A link to somewhere farther: bytes that pass it are kept for a time, and so many pass a second,
//! each way. Without either it is a hop: one more process's copy on the way.

use rustix::thread::set_current_timer_slack;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are taken at a time.
const PART_BYTES: usize = 64 << 10;
/// Parts that are on the way at a time: more waits at its sender.
const PARTS: usize = 64;

/// A link that is there until it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
struct Way {
    delay: Duration,
    /// Seconds that a byte takes; 0 where that is not bounded.
    byte_s: f64,
}

impl Link {
    /// One to this place.
    ///
    /// # Errors
    /// It cannot listen.
    pub(super) fn start(
        to: SocketAddr,
        delay: Duration,
        bits_per_s: Option<f64>,
    ) -> io::Result<Link> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = is_over.clone();
        let way = Way {
            delay,
            byte_s: bits_per_s.map_or(0.0, |bits| 8.0 / bits),
        };
        thread::Builder::new().name("link".into()).spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                // Who comes and finds nobody is told so by the end of its connection.
                let _ = stream.and_then(|near| join(near, TcpStream::connect(to)?, way));
            }
        })?;
        Ok(Link { address, is_over })
    }

    /// Where it begins.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Its thread looks when someone comes.
        let _ = TcpStream::connect(self.address);
    }
}

fn join(near: TcpStream, far: TcpStream, way: Way) -> io::Result<()> {
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    pass(near.try_clone()?, far.try_clone()?, way)?;
    pass(far, near, way)
}

/// Passes bytes on until there are no more.
fn pass(mut from: TcpStream, mut to: TcpStream, way: Way) -> io::Result<()> {
    let named = || thread::Builder::new().name("link".into());
    if way.delay.is_zero() && way.byte_s == 0.0 {
        named().spawn(move || {
            let mut part = vec![0; PART_BYTES];
            while let Ok(read @ 1..) = from.read(&mut part) {
                if to.write_all(&part[..read]).is_err() {
                    break;
                }
            }
            end(&from, &to);
        })?;
        return Ok(());
    }
    let (sender, parts) = sync_channel(PARTS);
    named().spawn(move || arrive(to, &parts))?;
    named().spawn(move || {
        let mut free = Instant::now();
        let mut part = vec![0; PART_BYTES];
        while let Ok(read @ 1..) = from.read(&mut part) {
            // A part begins when the one before has left.
            let taken = Duration::from_secs_f64(way.byte_s * read as f64);
            free = free.max(Instant::now()) + taken;
            if sender
                .send((free + way.delay, part[..read].to_vec()))
                .is_err()
            {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Read);
    })?;
    Ok(())
}

/// Gives parts on when they are due.
fn arrive(mut to: TcpStream, parts: &Receiver<(Instant, Vec<u8>)>) {
    // Otherwise the kernel may wake it 50 us late; where it does not do this, it is so much more.
    if let Some(least) = NonZeroU64::new(1) {
        let _ = set_current_timer_slack(Some(least));
    }
    while let Ok((due, part)) = parts.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&part).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn end(from: &TcpStream, to: &TcpStream) {
    // What has ended already needs no end.
    let _ = from.shutdown(Shutdown::Read);
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a question of so many bytes and its answer take.
    fn asked(delay: Duration, bits_per_s: Option<f64>, bytes: usize) -> Duration {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let link = Link::start(server.local_addr().expect("it has one"), delay, bits_per_s);
        let link = link.expect("it listens");
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("the link comes");
            let mut text = vec![0; bytes];
            stream.read_exact(&mut text).expect("the question");
            stream.write_all(&text).expect("the answer");
            stream.read(&mut text).expect("its end")
        });
        let mut stream = TcpStream::connect(link.address()).expect("it is there");
        let question: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let start = Instant::now();
        stream.write_all(&question).expect("it is taken");
        let mut answer = vec![0; bytes];
        stream.read_exact(&mut answer).expect("it is answered");
        let took = start.elapsed();
        assert!(question == answer);
        drop(stream);
        assert_eq!(echo.join().expect("it goes on to its end"), 0);
        took
    }

    #[test]
    fn what_passes_takes_its_time_each_way_and_is_the_same() {
        asked(Duration::ZERO, None, 1 << 20);
        assert!(asked(Duration::from_millis(20), None, 64) >= Duration::from_millis(40));
        // A megabyte, both ways, of 80 Mbit/s.
        assert!(asked(Duration::ZERO, Some(8e7), 1_000_000) >= Duration::from_millis(190));
    }
}
