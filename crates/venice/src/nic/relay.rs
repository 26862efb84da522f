//! Frames between a TAP and a QPair, both ways, at either end of a loan.
//!
//! Nothing waits here for more: what the TAP has goes as one message, if there is credit for it.
//! Where there is none, the other end is slow, and frames are left in the TAP's queue, which the
//! kernel bounds; what is too much for it is dropped and counted there, as by any NIC. What comes
//! is given to the kernel, which takes or drops it at once, so this end always gives credit.

use super::error::NicError;
use super::figures::Figures;
use super::frames::{Packer, Unpacker, is_from};
use super::stop::Stop;
use super::tap::Tap;
use crate::channel::broken::Lost;
use crate::channel::queue::Queue;
use crate::channel::transport::Transport;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// An end that has sent nothing for so long says that it lives.
const BEAT: Duration = Duration::from_secs(3);
/// An end from which nothing came for so long is gone.
const SILENT: Duration = Duration::from_secs(12);
/// Messages, or reads of the TAP, before the other way has its turn.
const TURN: usize = 64;

/// Relays until the end of one of them, or until `stop` is due. What comes from the other end is to
/// be from an address, where there is one; the rest is refused.
///
/// # Errors
/// [`NicError`]: the connection or the interface is over.
pub(super) fn relay<T: Transport>(
    queue: &mut Queue<T>,
    tap: &Tap,
    stop: &Stop,
    figures: &Figures,
    from: Option<Ipv4Addr>,
) -> Result<(), NicError> {
    let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
    let mut message = Vec::new();
    let (mut heard, mut said) = (Instant::now(), Instant::now());
    loop {
        let mut some = queue.turn()?;
        for _ in 0..TURN {
            if !queue.try_receive(&mut message) {
                break;
            }
            heard = Instant::now();
            some = true;
            unpacker.take(&message, |frame| give(frame, tap, figures, from))?;
        }
        some |= read(&mut packer, tap, figures)?;
        while !packer.message().is_empty() && queue.try_send(packer.message())? {
            packer.sent();
            said = Instant::now();
            some = true;
        }
        if stop.is_due() {
            return Ok(());
        }
        if some {
            continue;
        }
        if heard.elapsed() >= SILENT {
            return Err(Lost::Silent(SILENT).into());
        }
        if said.elapsed() >= BEAT {
            // Without credit it has enough to take.
            let _ = queue.try_send(&[])?;
            said = Instant::now();
            continue;
        }
        let beat = BEAT.saturating_sub(said.elapsed());
        let at_most = beat.min(SILENT.saturating_sub(heard.elapsed()));
        match packer.has_room() {
            true => queue.wait_beside(&[stop.event(), tap.as_fd()], at_most)?,
            false => queue.wait_beside(&[stop.event()], at_most)?,
        }
    }
}

/// A frame that came, for the kernel.
fn give(frame: &[u8], tap: &Tap, figures: &Figures, from: Option<Ipv4Addr>) {
    Figures::add(&figures.came, 1);
    Figures::add(&figures.came_bytes, frame.len() as u64);
    let is_right = from.is_none_or(|address| is_from(frame, address));
    if !is_right || !tap.write(frame) {
        Figures::add(&figures.refused, 1);
    }
}

/// Takes what the TAP has, as far as there is room.
fn read(packer: &mut Packer, tap: &Tap, figures: &Figures) -> Result<bool, NicError> {
    let mut some = false;
    for _ in 0..TURN {
        let Some(room) = packer.room() else {
            break;
        };
        let read = tap.read(room).map_err(|error| NicError::Gone {
            name: tap.name().to_owned(),
            error,
        })?;
        let Some(bytes) = read else {
            break;
        };
        if packer.put(bytes) {
            Figures::add(&figures.sent, 1);
            Figures::add(&figures.sent_bytes, bytes as u64);
        }
        some = true;
    }
    Ok(some)
}

/// The next message, for an end that is not relaying yet; none where `stop` is due.
///
/// # Errors
/// [`Lost`]: it has not come by `until`.
pub(super) fn message<T: Transport>(
    queue: &mut Queue<T>,
    stop: &Stop,
    until: Instant,
) -> Result<Option<Vec<u8>>, Lost> {
    let start = Instant::now();
    let mut message = Vec::new();
    while !queue.try_receive(&mut message) {
        if stop.is_due() {
            return Ok(None);
        }
        let left = until.saturating_duration_since(Instant::now());
        let turned = queue.turn();
        // What came before the end of the connection counts.
        if queue.try_receive(&mut message) {
            break;
        }
        let turned = turned?;
        if left.is_zero() {
            return Err(Lost::Silent(start.elapsed()));
        }
        if !turned {
            queue.wait_beside(&[stop.event()], left)?;
        }
    }
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::super::frames::QUEUE;
    use super::*;
    use crate::channel::frame::{self, Kind};
    use crate::channel::transport::tcp::Tcp;
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    #[test]
    fn who_says_much_and_no_message_is_not_waited_for() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut chatty = Tcp::connect(listener.local_addr().expect("it is bound")).expect("it is");
        let ours = Tcp::of(listener.accept().expect("it is there").0).expect("a connection");
        let chatting = thread::spawn(move || {
            let mut frames = Vec::new();
            let payload = [&64u64.to_le_bytes()[..], &65_536u64.to_le_bytes()].concat();
            frame::put(&mut frames, Kind::Open, 0, 64, &payload);
            // Credits that are known, a little at a time.
            while let Ok(wrote) = chatty.write(&frames[..1]) {
                frames.drain(..wrote.unwrap_or(0));
                if frames.is_empty() {
                    frame::put(&mut frames, Kind::Credit, 0, 64, &[]);
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        let stop = Stop::new().expect("a descriptor");
        let mut queue = Queue::new(ours, QUEUE, Duration::from_secs(60));
        let until = Instant::now() + Duration::from_millis(300);
        let said = message(&mut queue, &stop, until);
        assert!(matches!(said, Err(Lost::Silent(_))), "{said:?}");
        assert!(until.elapsed() < Duration::from_secs(30));
        drop(queue);
        chatting.join().expect("it ends");
    }
}
