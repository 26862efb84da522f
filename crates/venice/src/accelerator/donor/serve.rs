//! One connection of a borrower: the two ways to its mailbox.

use super::shared::{Entered, Shared};
use super::socket::{REFUSAL_TIME, Socket};
use crate::accelerator::entry::{
    FIRST_PART_BYTES, HAS, Hello, PART_BYTES, PREFACE_BYTES, REFUSES, SETTINGS, WAITS,
    parse_preface,
};
use crate::accelerator::units::Sharing;
use crate::channel::broken::Lost;
use crate::channel::frame::u64_at;
use crate::channel::queue::Queue;
use crate::channel::serve::{Act, Loans, Map, Memory};
use crate::channel::transport::Transport;
use crate::channel::windows;
use crate::guests::Guest;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::debug;

/// How long a borrower may take to say what it wants, and show its key.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// How long it may take no answers.
const WRITE_TIME: Duration = Duration::from_secs(60);

pub(super) fn serve(socket: Socket, shared: &Arc<Shared>, guest: &Guest) {
    let until = Instant::now() + HELLO_TIME;
    let peer = socket.peer();
    let mut socket = match socket.greet(until) {
        Ok(socket) => socket,
        Err(error) => return guest.refused(&peer, &error),
    };
    let mut preface = [0; PREFACE_BYTES];
    if socket.read(&mut preface, until).is_err() {
        return;
    }
    let Some(sharing) = parse_preface(preface) else {
        guest.refused(&peer, &"it is no borrower of accelerators");
        return socket.refuse("here are accelerators, and another version's, or something else");
    };
    let served = socket.open().and_then(|transport| match sharing {
        Sharing::Shared => by_messages(transport, shared, (&peer, guest), until),
        Sharing::Exclusive => {
            let mut window = Window {
                shared,
                guest,
                entered: None,
            };
            windows::serve(transport, &mut window, until)
        }
    });
    match served {
        Err(Lost::Broken(broken)) => guest.refused(&peer, &broken),
        Err(lost) => debug!("{peer} is gone: {lost}"),
        Ok(()) => {}
    }
}

/// A mailbox that its borrower reaches by messages.
fn by_messages(
    transport: Box<dyn Transport>,
    shared: &Arc<Shared>,
    (peer, guest): (&str, &Guest),
    until: Instant,
) -> Result<(), Lost> {
    let mut queue = Queue::new(transport, SETTINGS, WRITE_TIME).lends();
    let mut message = Vec::new();
    let left = until.saturating_duration_since(Instant::now());
    queue.receive_within(left, &mut message)?;
    let hello = Hello::parse(&message).ok_or_else(|| "this is no beginning".to_owned());
    let entered = hello.and_then(|hello| {
        let wanted = (hello.kind, hello.capacity);
        shared.enter(guest, wanted, &hello.key, Sharing::Shared)
    });
    let mut entered = match entered {
        Ok(entered) => entered,
        Err(reason) => {
            refuse(&mut queue, &reason, (peer, guest));
            return Ok(());
        }
    };
    queue.send(&[HAS])?;
    loop {
        match queue.receive(&mut message) {
            // A borrower may have nothing to do; where its machine is gone, the connection fails.
            Err(Lost::Silent(_)) => continue,
            received => received?,
        }
        let put = message.split_at_checked(8).is_some_and(|(at, bytes)| {
            let at = u64_at(at, 0);
            entered.mailbox.put(at, bytes)
        });
        if !put {
            refuse(&mut queue, "that is not within the mailbox", (peer, guest));
            return Ok(());
        }
        if entered.mailbox.is_started() {
            // What it has sent may be many jobs.
            if guest.is_gone() {
                return Err(Lost::Closed);
            }
            answer(&mut entered, &mut queue)?;
        }
    }
}

/// Does a job, and sends what became of it.
fn answer(entered: &mut Entered, queue: &mut Queue<Box<dyn Transport>>) -> Result<(), Lost> {
    let Entered {
        mailbox, member, ..
    } = entered;
    let waits = || {
        // Without credit it has heard of it lately.
        let _ = queue.try_send(&[WAITS])?;
        queue.turn().map(drop)
    };
    let done = member.with(waits, |engine| mailbox.execute(engine))?;
    let mut message = vec![HAS];
    message.extend_from_slice(&done.bytes());
    let bytes = usize::try_from(done.result.unwrap_or(0)).unwrap_or(0);
    let output = mailbox.output(bytes).unwrap_or_default();
    // What fits goes with the completion.
    let (first, rest) = output.split_at(output.len().min(FIRST_PART_BYTES));
    message.extend_from_slice(first);
    queue.send(&message)?;
    for part in rest.chunks(PART_BYTES) {
        message.truncate(1);
        message.extend_from_slice(part);
        queue.send(&message)?;
    }
    Ok(())
}

/// Tells why, and waits a moment until it is known.
fn refuse(queue: &mut Queue<Box<dyn Transport>>, reason: &str, (peer, guest): (&str, &Guest)) {
    guest.refused(peer, &reason);
    queue.last_words(&[&[REFUSES], reason.as_bytes()].concat(), REFUSAL_TIME);
}

/// A mailbox that its borrower writes and reads itself, and its accelerator.
struct Window<'a> {
    shared: &'a Arc<Shared>,
    guest: &'a Guest,
    entered: Option<Entered>,
}

impl Loans for Window<'_> {
    fn map(&mut self, map: &Map) -> Result<(usize, u64), String> {
        if self.entered.is_some() {
            return Err("this connection has a mailbox".into());
        }
        let wanted = (map.loan.0, map.bytes);
        let shared = self.shared;
        let entered = shared.enter(self.guest, wanted, &map.key, Sharing::Exclusive)?;
        let bytes = entered.mailbox.layout().bytes() as u64;
        self.entered = Some(entered);
        Ok((0, bytes))
    }

    /// A job is done by whom its start flag comes to, before what is asked for behind it.
    fn access(&mut self, _: usize, act: Act<'_>) -> Result<bool, String> {
        let Some(Entered {
            mailbox, member, ..
        }) = self.entered.as_mut()
        else {
            return Err("there is no such mailbox".into());
        };
        let done = act(mailbox);
        if mailbox.is_started() {
            // What it has sent may be thousands of jobs, and each takes a while.
            if self.guest.is_gone() {
                return Err("it is gone, or its loan is over".into());
            }
            // It is its own: nobody waits.
            member.with(|| Ok::<_, String>(()), |engine| mailbox.execute(engine))?;
        }
        Ok(done)
    }

    fn is_used(&self) -> bool {
        self.entered.is_some()
    }
}
