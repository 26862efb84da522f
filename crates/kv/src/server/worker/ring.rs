//! A worker's part in the ring: it says what it wrote, passes on commands whose keys another node
//! serves, and holds answers back until they may be sent.
//!
//! Where clients are answered at once, what several turns wrote is handed over together: nobody
//! waits for it.

use super::super::held::{Asked, Held, Until};
use super::super::orders::{Forward, RingOrder};
use crate::class::{Class, Classes};
use crate::cohort::{Cohort, Part};
use crate::ring::{Road, Scheme, Ticket, View, Written};
use crate::wire::{Command, Commands, Kind, What, drop_key};
use rhythm_net::{ConnectionId, Inbox, Time, clock};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long what was written is kept to be handed over together, and how much.
const TOGETHER: Duration = Duration::from_millis(5);
const TOGETHER_BYTES: usize = 64 << 10;
/// How often it is seen whether there is room again.
const ROOM_EVERY: Duration = Duration::from_millis(2);

/// Where a command is executed.
pub(super) enum Way {
    /// Here.
    Here,
    /// Here, and it is answered when all that was written of its range before is confirmed.
    HereConfirmed(usize),
    /// By another node, or as that would.
    There(Road),
    /// Likewise, when reads before it are answered.
    Behind(Road),
    /// Nowhere yet: there is no room for writes of this range. Were it executed here, it would be
    /// answered when all of the range is confirmed, if it `shows` that.
    Wait { range: usize, shows: bool },
}

/// See the head of this file.
pub(crate) struct Ring {
    view: Arc<View>,
    backbone: Inbox<RingOrder>,
    worker: usize,
    scheme: Scheme,
    /// The classes of commands whose writes are answered when they are confirmed.
    acked: Classes,
    /// The ticket of what is written until it is handed over.
    ticket: u64,
    /// The number of the last command that was passed on.
    number: u64,
    written: Written,
    /// Something was written that is to be confirmed before it is answered, if it is answered.
    is_urgent: bool,
    /// Answers wait for the ticket; they show something of these ranges, a bit each.
    is_awaited: bool,
    shown: u64,
    forwards: Vec<Forward>,
    hand_at: Option<Time>,
    /// Connections that wait for a ticket, or for the answer under a number.
    waiting: VecDeque<(u64, ConnectionId)>,
    asking: HashMap<u64, (ConnectionId, Time)>,
    /// The tickets that answers wait for, and since when.
    handed: VecDeque<(u64, Time)>,
    stalled: Stalled,
    look_at: Option<Time>,
}

impl Ring {
    pub(crate) fn new(
        view: Arc<View>,
        backbone: Inbox<RingOrder>,
        worker: usize,
        (scheme, acked): (Scheme, Classes),
        now: Time,
    ) -> Ring {
        let mut ring = Ring {
            view,
            backbone,
            worker,
            scheme,
            acked,
            // Greater than those of a worker before this one on its thread.
            ticket: now.as_nanos(),
            number: now.as_nanos(),
            written: Written::default(),
            is_urgent: false,
            is_awaited: false,
            shown: 0,
            forwards: Vec::new(),
            hand_at: None,
            waiting: VecDeque::new(),
            asking: HashMap::new(),
            handed: VecDeque::new(),
            stalled: Stalled::default(),
            look_at: None,
        };
        if scheme.is_chain() {
            // What the worker before this one announced, and could not hand over when it panicked,
            // is not waited for.
            ring.hand_over(now);
        }
        ring
    }

    /// Where a command of a connection is executed whose commands took some roads already, and have
    /// no answers yet; of what was executed here, the answers wait if it `awaits` them.
    pub(super) fn way(
        &self,
        cohort: &Cohort,
        part: &Part,
        command: &Command,
        awaits: bool,
        asks_by: impl Fn(Road) -> bool,
    ) -> Way {
        let parsed = cohort.parsed(part);
        let key = command.key.of(parsed.bytes, &parsed.commands.decoded);
        if !is_on_key(command.kind, parsed.commands) {
            return Way::Here;
        }
        let range = self.view.placement().range(key);
        // What others show (CAS ids) or change (wins) is only the server's own.
        let is_plain = matches!(
            command.kind,
            Kind::Get {
                with_cas: false,
                touch: None,
                ..
            }
        );
        let road = Road::to_server(range);
        if asks_by(road) {
            return Way::There(road);
        }
        // By the clock, as in `may_write`.
        let is_elsewhere = self.view.is_elsewhere(range, clock::monotonic);
        let is_copy =
            is_plain && is_elsewhere && self.view.may_read_copy(range, clock::monotonic());
        let shows = self.scheme.is_chain();
        if shows {
            let reading = Road { range, reads: true };
            let is_reading = asks_by(reading);
            match is_plain {
                true if is_copy && !is_reading => return Way::Here,
                true if is_elsewhere || !awaits => return Way::There(reading),
                false if is_reading => return Way::Behind(road),
                false if is_elsewhere => return Way::There(road),
                _ => {}
            }
        } else if is_elsewhere {
            return match is_copy {
                true => Way::Here,
                false => Way::There(road),
            };
        }
        let reads = matches!(command.kind, Kind::Get { touch: None, .. });
        match !reads && self.view.full() & 1 << range != 0 {
            true => Way::Wait { range, shows },
            false if shows => Way::HereConfirmed(range),
            false => Way::Here,
        }
    }

    /// Passes a command on. The number of its answer, how that is to be read, and the command's
    /// bytes.
    pub(super) fn forward(
        &mut self,
        id: ConnectionId,
        road: Road,
        cohort: &Cohort,
        part: &Part,
        at: usize,
        now: Time,
    ) -> (u64, Asked, usize) {
        self.number += 1;
        let number = self.number;
        let (command, asked) = text(cohort, part, at);
        let bytes = command.len();
        self.forwards.push(Forward {
            number,
            road,
            command,
        });
        self.asking.insert(number, (id, now));
        (number, asked, bytes)
    }

    /// Whether there is room for commands of all ranges.
    pub(super) fn has_room(&self) -> bool {
        self.view.full() | self.view.crowded() == 0
    }

    /// Whether what would take a road is to wait. What is about all ranges is done here, and never
    /// waits.
    pub(super) fn is_crowded(&self, road: Road) -> bool {
        road != Road::HERE && self.view.crowded() & 1 << road.range != 0
    }

    /// Something of a range is shown that may not be confirmed.
    pub(super) fn shows(&mut self, range: usize) {
        self.shown |= 1 << range;
    }

    /// Whether what such a command writes is confirmed before it is answered.
    pub(super) fn confirms(&self, class: Class) -> bool {
        self.acked.has(class)
    }

    /// A command of such a class wrote something.
    pub(super) fn is_to_confirm(&mut self) {
        self.is_urgent = true;
    }

    /// A connection has answers that wait for the ticket of this turn.
    pub(super) fn holds(&mut self, id: ConnectionId) -> Until {
        if self.waiting.back() != Some(&(self.ticket, id)) {
            self.waiting.push_back((self.ticket, id));
        }
        self.is_awaited = true;
        Until::Released(self.ticket)
    }

    /// A connection wrote something, maybe without an answer. Where another node reads what is
    /// written here, and may not have it yet, the connection's reads are to find it all the same.
    pub(super) fn keeps(&mut self, id: ConnectionId, held: &mut Held) {
        if self.scheme.is_chain()
            && let Until::Released(ticket) = self.holds(id)
        {
            held.keep(ticket);
        }
    }

    /// A connection's commands wait until there is room for those of a range.
    pub(super) fn stalls(&mut self, id: ConnectionId, range: usize, now: Time) {
        self.stalled.add(id, range);
        self.look_at.get_or_insert(now + ROOM_EVERY);
    }

    /// Whether this node may write. By the clock and not by the turn's time: the process may have
    /// been stopped since.
    pub(super) fn may_write(&self) -> bool {
        self.view.may_write(clock::monotonic())
    }

    /// A turn begins: what it writes goes here.
    pub(super) fn take_written(&mut self) -> Written {
        std::mem::take(&mut self.written)
    }

    /// The ticket of this turn, where answers of others may show what it writes before it is
    /// confirmed, and are to wait for that.
    pub(super) fn announces(&self) -> Option<Ticket> {
        self.scheme.is_chain().then_some(Ticket {
            worker: self.worker,
            number: self.ticket,
        })
    }

    /// Whether it was announced that this ticket has writes: others may wait for it, whether
    /// something was written in the end or not.
    fn has_announced(&self) -> bool {
        self.announces().is_some_and(|of| self.view.wrote_under(of))
    }

    /// A turn ended that wrote this.
    pub(super) fn turn_ended(&mut self, written: Written, now: Time) {
        self.written = written;
        if self.has_announced() {
            return self.hand_over(now);
        }
        let is_urgent = self.is_urgent || self.written.bytes() >= TOGETHER_BYTES;
        let is_due = self.hand_at.is_some_and(|at| at <= now);
        let has_written = !self.written.is_empty();
        if self.is_awaited || !self.forwards.is_empty() || has_written && (is_urgent || is_due) {
            self.hand_over(now);
        } else if !self.written.is_empty() {
            self.hand_at.get_or_insert(now + TOGETHER);
        }
    }

    /// The worker ends, maybe in the midst of a turn that wrote this.
    pub(super) fn end(&mut self, written: Written) {
        if !written.is_empty() {
            self.written = written;
        }
        if !self.written.is_empty() {
            self.hand_over(clock::monotonic());
        }
    }

    /// Hands over what was written, and the commands to be passed on.
    fn hand_over(&mut self, now: Time) {
        (self.hand_at, self.is_urgent) = (None, false);
        let worker = self.worker;
        let mut written = std::mem::take(&mut self.written);
        written.shows(std::mem::take(&mut self.shown));
        if self.is_awaited {
            self.handed.push_back((self.ticket, now));
        }
        self.view.hands_over(&written);
        self.backbone.send(RingOrder::Turn {
            worker,
            ticket: self.ticket,
            written,
            is_awaited: std::mem::take(&mut self.is_awaited),
            forwards: std::mem::take(&mut self.forwards),
        });
        self.ticket += 1;
    }

    /// What falls due; the connections for whose commands there is room again.
    pub(super) fn tick(&mut self, now: Time) -> Vec<ConnectionId> {
        if self.hand_at.is_some_and(|at| at <= now) {
            self.hand_over(now);
        }
        if self.look_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let go_on = self.stalled.take(!(self.view.full() | self.view.crowded()));
        self.look_at = (!self.stalled.is_empty()).then_some(now + ROOM_EVERY);
        go_on
    }

    /// A fence was asked for.
    pub(super) fn fence(&mut self, fence: u64, now: Time) {
        self.hand_over(now);
        let worker = self.worker;
        self.backbone.send(RingOrder::Fenced { worker, fence });
    }

    /// The connections that wait for this ticket, which is released, or for earlier ones: each
    /// once.
    pub(super) fn released(&mut self, ticket: u64) -> Vec<ConnectionId> {
        let until = self.waiting.partition_point(|(of, _)| *of <= ticket);
        each_once(self.waiting.drain(..until).map(|(_, id)| id))
    }

    /// Since when the next ticket was waited for that is released, this one or an earlier one.
    pub(super) fn waited_since(&mut self, ticket: u64) -> Option<Time> {
        let (_, since) = *self.handed.front().filter(|(of, _)| *of <= ticket)?;
        self.handed.pop_front();
        Some(since)
    }

    /// The connections that wait for any of these tickets, which are in order, and broken: each
    /// once.
    pub(super) fn broken(&mut self, tickets: &[u64]) -> Vec<ConnectionId> {
        let is_broken = |of: &u64| tickets.binary_search(of).is_ok();
        self.handed.retain(|(of, _)| !is_broken(of));
        let mut whose = Vec::new();
        self.waiting.retain(|(of, id)| {
            let is_broken = is_broken(of);
            if is_broken {
                whose.push(*id);
            }
            !is_broken
        });
        each_once(whose)
    }

    /// The connection that asked under this number, which is answered, and when it did.
    pub(super) fn answered(&mut self, number: u64) -> Option<(ConnectionId, Time)> {
        self.asking.remove(&number)
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        [self.hand_at, self.look_at].into_iter().flatten().min()
    }
}

/// However many tickets a connection waits for, it is looked at once.
fn each_once(ids: impl IntoIterator<Item = ConnectionId>) -> Vec<ConnectionId> {
    let mut ids: Vec<_> = ids.into_iter().collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Connections whose commands wait for room, each for that of one range.
#[derive(Debug, Default)]
struct Stalled(Vec<(ConnectionId, usize)>);

impl Stalled {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, id: ConnectionId, range: usize) {
        self.0.push((id, range));
    }

    /// Those that waited for one of these ranges, a bit each, in their order.
    fn take(&mut self, ranges: u64) -> Vec<ConnectionId> {
        let taken = (self.0).extract_if(.., |(_, range)| ranges & 1 << *range != 0);
        taken.map(|(id, _)| id).collect()
    }
}

/// Whether a command is for who serves its key; else it is executed where it came.
fn is_on_key(kind: Kind, commands: &Commands) -> bool {
    match kind {
        Kind::Get { .. } | Kind::Store { .. } | Kind::Delete { .. } => true,
        Kind::Arithmetic { .. } | Kind::Touch { .. } | Kind::Meta { .. } | Kind::Drop => true,
        Kind::Fetch { touch } => touch.is_some(),
        Kind::Binary { index } => !matches!(
            commands.binary[index as usize].what,
            What::Flush { .. }
                | What::Noop
                | What::Version
                | What::Stat
                | What::Quit
                | What::Refused(_)
        ),
        _ => false,
    }
}

/// A command as its client wrote it, or the like for a key of several; and how its answer is read.
///
/// Lines are made of keys of lines only, which have neither blanks nor line ends: all others may.
fn text(cohort: &Cohort, part: &Part, at: usize) -> (Vec<u8>, Asked) {
    let parsed = cohort.parsed(part);
    let list = &parsed.commands.list;
    let command = &list[at];
    let key = command.key.of(parsed.bytes, &parsed.commands.decoded);
    let line = |before: &str, behind: &str| [before.as_bytes(), key, behind.as_bytes()].concat();
    match command.kind {
        Kind::Get {
            with_cas, touch, ..
        } => {
            let plural = if with_cas { "s" } else { "" };
            let text = match touch {
                Some(exptime) => line(&format!("gat{plural} {exptime} "), "\r\n"),
                None => line(&format!("get{plural} "), "\r\n"),
            };
            (text, Asked::Key)
        }
        // One key of a `gat` whose line has a mistake behind it.
        Kind::Fetch {
            touch: Some(exptime),
        } => (
            line("touch ", &format!(" {exptime} noreply\r\n")),
            Asked::Quiet,
        ),
        Kind::Drop => (drop_key(key), Asked::Unseen),
        kind => {
            let flushes = flushes(kind, parsed.commands);
            let start = command.start as usize;
            let next = list[at + 1..part.commands.end].iter();
            let mut next = next.map(|next| next.start as usize);
            let end = next.find(|next| *next > start);
            let end = end.unwrap_or(part.parsed.consumed);
            let asked = match is_quiet(kind, parsed.commands) {
                true => Asked::Quiet,
                false if flushes => Asked::All,
                false => Asked::Line,
            };
            (parsed.bytes[start..end].to_vec(), asked)
        }
    }
}

/// Whether a command drops all items, now or later.
pub(super) fn flushes(kind: Kind, commands: &Commands) -> bool {
    match kind {
        Kind::Flush { .. } => true,
        Kind::Binary { index } => {
            matches!(commands.binary[index as usize].what, What::Flush { .. })
        }
        _ => false,
    }
}

/// Whether a command has no answer where all is well, or one of a form that no error is.
fn is_quiet(kind: Kind, commands: &Commands) -> bool {
    match kind {
        Kind::Store { quiet, .. } | Kind::Delete { quiet } | Kind::Flush { quiet, .. } => quiet,
        Kind::Arithmetic { quiet, .. } | Kind::Touch { quiet, .. } => quiet,
        Kind::Meta { index, .. } => commands.meta[index as usize].quiet,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cohort::{PART_COMMANDS, Source};
    use crate::wire::{Rules, Stream, parse};

    /// What is passed on of a client's commands that have keys.
    fn passed_on(bytes: &[u8]) -> Vec<(Vec<u8>, Asked)> {
        let mut cohort = Cohort::default();
        let source = Source::Connection(ConnectionId::new(0, 0));
        cohort.add(source, Stream::default(), PART_COMMANDS, bytes);
        cohort.parse(&Rules::default());
        let part = cohort.part(0);
        let commands = part.commands.clone();
        let with_keys = commands.filter(|at| {
            let commands = cohort.commands();
            is_on_key(commands.list[*at].kind, commands)
        });
        with_keys.map(|at| text(&cohort, part, at)).collect()
    }

    #[test]
    fn a_refused_value_drops_its_key_and_does_nothing_else() {
        let key = b"a noreply\r\nflush_all\r\ndelete b";
        let mut set = vec![0x80, 1, 0, key.len() as u8, 8, 0, 0, 0];
        set.extend((key.len() as u32 + 8 + (2 << 20)).to_be_bytes());
        set.extend([0; 12 + 8]);
        set.extend(key);
        // The same key in base64.
        let meta = b"ms YSBub3JlcGx5DQpmbHVzaF9hbGwNCmRlbGV0ZSBi 2097152 b\r\n".to_vec();
        for sent in [set, meta] {
            let passed = passed_on(&sent);
            let [(bytes, Asked::Unseen)] = &passed[..] else {
                panic!("{passed:?}");
            };
            let mut commands = Commands::default();
            let (mut stream, rules) = (Stream::default(), Rules::default());
            parse(&mut stream, &rules, bytes, usize::MAX, &mut commands);
            let [command] = &commands.list[..] else {
                panic!("{:?}", commands.list);
            };
            assert_eq!(command.key.of(bytes, b""), key);
            assert_eq!(commands.binary[0].what, What::Delete);
        }
    }

    #[test]
    fn who_waits_for_one_range_is_not_held_up_by_another() {
        let mut stalled = Stalled::default();
        let ids = [0, 1, 2].map(|slot| ConnectionId::new(slot, 0));
        for (id, range) in ids.into_iter().zip([63, 0, 63]) {
            stalled.add(id, range);
        }
        assert_eq!(stalled.take(!(1 | 1 << 63)), []);
        assert_eq!(stalled.take(1 << 63), [ids[0], ids[2]]);
        assert_eq!(stalled.take(!0), [ids[1]]);
        assert!(stalled.is_empty());
    }

    #[test]
    fn keys_before_a_mistake_are_touched_and_nothing_more_is_said_of_them() {
        let line = format!("gat 10 a b {}\r\n", "x".repeat(251));
        let touch = |key| {
            (
                format!("touch {key} 10 noreply\r\n").into_bytes(),
                Asked::Quiet,
            )
        };
        assert_eq!(passed_on(line.as_bytes()), [touch("a"), touch("b")]);
        let asked = [(b"touch a 0\r\n".to_vec(), Asked::Line)];
        assert_eq!(passed_on(b"touch a 0\r\nmn\r\n"), asked);
    }
}
