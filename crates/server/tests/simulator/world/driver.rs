//! The world as the server sees it: a driver that tells a [`Handler`] what is ready, and its
//! [`Port`].

use super::*;
use rhythm_net::{Accepted, Ended, Handler, Peer, PeerAddress, Port, Role, Sent, WallClock};

impl World {
    /// When something happens next: at once where something is ready.
    pub(crate) fn next_time(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        self.next_event()
    }

    /// Goes to a time; everything until then happens.
    pub(crate) fn go_to(&mut self, time: u64) {
        self.now = self.now.max(time);
        while let Some(Reverse((at, _, event))) = self.queue.peek().copied() {
            if at > self.now {
                break;
            }
            self.queue.pop();
            self.happen(event);
        }
    }

    /// The turn ends when all that was done in it has taken its time.
    pub(crate) fn end_turn(&mut self) -> Time {
        self.now = self.now.max(self.turn_until);
        self.time()
    }

    /// Tells the server what is ready. There may be more than a turn takes: what is left is told of
    /// first in the next. Up to when all that came is told of.
    pub(crate) fn report(&mut self, handler: &mut dyn Handler) -> Time {
        self.is_dear = self.chance(self.net.dear);
        let mut ready = std::mem::take(&mut self.ready);
        for index in (self.left + 1..ready.len()).rev() {
            ready.swap(index, self.left + self.dice.below(index + 1 - self.left));
        }
        let told = match self.dice.once_in(4) {
            _ if std::mem::take(&mut self.is_late) => ready.len().min(1),
            true => ready.len() - self.dice.below(ready.len() + 1) / 2,
            false => ready.len(),
        };
        let mut left = ready.split_off(told);
        for link in ready {
            self.links[link].is_ready = false;
            self.report_link(link, handler);
            self.ready_again(link);
        }
        self.left = left.len();
        left.append(&mut self.ready);
        self.ready = left;
        if self.left == 0 || self.sabotage == Sabotage::HideLateness {
            self.heard = self.now;
        }
        Time::from_nanos(self.heard)
    }

    /// When something happens next without the server.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((time, ..))| *time)
    }

    /// Whether the server's connections to this actor are all being opened, and there are some.
    pub(crate) fn is_connecting(&self, actor: ActorId) -> bool {
        let links = self.links.iter();
        let mut nears = (links.filter(|link| link.outgoing && link.actor == actor))
            .map(|link| link.near)
            .filter(|near| matches!(near, Near::Connecting | Near::Connected | Near::Open))
            .peekable();
        nears.peek().is_some() && nears.all(|near| near == Near::Connecting)
    }

    /// The server's loop is away until then. When it is back there is more to tell than a turn
    /// takes.
    pub(crate) fn stalled_until(&mut self, end: u64) {
        self.go_to(end);
        self.is_late = true;
    }

    /// Connections that the server has: clients', and its own.
    pub(crate) fn open_links(&self) -> (usize, usize) {
        let all = self.slots.iter().filter(|(_, link)| link.is_some()).count();
        (all - self.outgoing, self.outgoing)
    }

    /// Whether clients wait to be let in.
    pub(crate) fn has_backlog(&self) -> bool {
        let waits = |link: &Link| link.near == Near::Backlog && (link.is_ready || link.waits);
        self.links.iter().any(waits)
    }

    /// The server's process ends: what it has open is reset, and nobody is let in.
    pub(crate) fn exit(&mut self) {
        self.accepting = false;
        self.ready.clear();
        self.left = 0;
        for link in 0..self.links.len() {
            if !matches!(self.links[link].near, Near::Closed | Near::Gone) {
                self.forget(link);
                self.tell_far(link, FarEvent::Reset(link, false));
                self.links[link].far_gone = true;
            }
        }
    }

    fn report_link(&mut self, link: LinkId, handler: &mut dyn Handler) {
        let now = self.time();
        let near = self.links[link].near;
        match near {
            Near::Backlog if !self.has_place(handler) => {
                // Who has waited long already waits for as much longer as is of little matter.
                let waited = self.now - self.links[link].active;
                let at = self.now + (waited / 64).max(20 * MILLISECOND);
                self.at(at, Event::Room(link));
                self.links[link].waits = true;
            }
            Near::Backlog => {
                let connection = self.name(link);
                self.links[link].near = Near::Open;
                self.links[link].active = self.now;
                self.note("opened", link as u64, connection.as_u64());
                let accepted = Accepted {
                    connection,
                    role: Role::default(),
                    peer: SocketAddr::from(([192, 0, 2, 1], 1024 + (link % 60_000) as u16)).into(),
                };
                handler.opened(self, accepted, now);
            }
            Near::Connected => {
                self.links[link].near = Near::Open;
                if let Some(id) = self.links[link].id {
                    self.note("connected", link as u64, 0);
                    handler.connected(self, id, now);
                }
            }
            Near::Failed(kind) => {
                let id = self.links[link].id;
                self.forget(link);
                if let Some(id) = id {
                    self.note("failed", link as u64, kind as u64);
                    handler.ended(self, id, Ended::Failed(kind), now);
                }
            }
            Near::Open => {
                let Some(id) = self.links[link].id else {
                    return;
                };
                if self.can_write(link) {
                    self.links[link].wants_writable = false;
                    self.note("writable", link as u64, 0);
                    if self.sabotage != Sabotage::ForgetWritable || !self.dice.once_in(5) {
                        handler.writable(self, id, now);
                    }
                }
                // The handler may have closed it or stopped reading.
                if self.links[link].near == Near::Open && self.can_read(link) {
                    self.read(link, id, handler);
                }
            }
            Near::Connecting | Near::Closed | Near::Gone => {}
        }
    }

    /// Whether there is a place for another client, or the server makes one.
    fn has_place(&mut self, handler: &mut dyn Handler) -> bool {
        if self.open_links().0 >= self.net.connections_max {
            let heard = Time::from_nanos(self.heard);
            self.note("crowded", 0, 0);
            handler.crowded(self, heard);
        }
        self.open_links().0 < self.net.connections_max
    }

    fn read(&mut self, link: LinkId, id: ConnectionId, handler: &mut dyn Handler) {
        let now = self.time();
        let state = &mut self.links[link];
        if state.inbox.is_empty() {
            state.fin[2] = true;
            self.note("peer finished", link as u64, 0);
            return handler.ended(self, id, Ended::PeerFinished, now);
        }
        let count = state.inbox.len().min(self.net.read_max);
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        move_bytes(&mut self.links[link].inbox, count, &mut bytes);
        let is_empty = self.links[link].inbox.is_empty();
        self.links[link].unread_since = match is_empty {
            true => None,
            false => Some(self.now),
        };
        if is_empty && self.links[link].is_broken {
            self.links[link].near = Near::Failed(io::ErrorKind::ConnectionReset);
        }
        self.links[link].active = self.now;
        self.links[link].handed += count as u64;
        if !self.links[link].coming.is_empty() {
            self.start_arriving(link);
        }
        self.note("received", link as u64, count as u64);
        self.mix_bytes(&bytes);
        handler.received(self, id, &bytes, now);
        self.scratch = bytes;
    }

    /// Gives the near end a name.
    fn name(&mut self, link: LinkId) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let (generation, used_by) = &mut self.slots[slot as usize];
        *used_by = Some(link);
        let id = ConnectionId::new(slot, *generation);
        self.links[link].id = Some(id);
        id
    }

    /// The near end's name names nothing from now on.
    fn forget(&mut self, link: LinkId) {
        let state = &mut self.links[link];
        state.near = Near::Gone;
        if state.outgoing {
            self.outgoing -= 1;
        }
        if let Some(id) = state.id.take() {
            let slot = &mut self.slots[id.slot() as usize];
            *slot = (slot.0 + 1, None);
            self.free.push(id.slot());
        }
    }

    fn link_of(&self, id: ConnectionId) -> Option<LinkId> {
        let link = self
            .slots
            .get(id.slot() as usize)
            .and_then(|(_, link)| *link);
        link.filter(|link| self.links[*link].id == Some(id))
    }

    /// The link with this name. The server has been told when a name is over, so using it then is
    /// its mistake.
    fn named(&mut self, id: ConnectionId, what: &str) -> Option<LinkId> {
        let link = self.link_of(id);
        if link.is_none() {
            self.fail(format!(
                "the server used {id:?} to {what}, which names nothing any more"
            ));
        }
        link
    }
}

impl Port for World {
    fn send(&mut self, connection: ConnectionId, bytes: &[u8]) -> Sent {
        let Some(link) = self.named(connection, "send") else {
            return Sent::Gone;
        };
        match self.links[link].near {
            Near::Open if self.links[link].is_broken => return Sent::Taken(0),
            Near::Open => {}
            Near::Failed(_) => {
                self.note("gone", link as u64, 0);
                self.forget(link);
                return Sent::Gone;
            }
            _ => return Sent::Taken(0),
        }
        let room = self
            .net
            .send_buffer
            .saturating_sub(self.links[link].out.len());
        let mut taken = bytes.len().min(room);
        if taken > 0 && self.chance(self.net.short) {
            taken = self.dice.below(taken + 1);
        }
        let sabotage = self.sabotage;
        let sabotaged = matches!(sabotage, Sabotage::LoseBytes | Sabotage::RepeatBytes)
            && self.dice.once_in(50);
        if !(sabotaged && sabotage == Sabotage::LoseBytes) {
            self.links[link].out.extend(&bytes[..taken]);
        }
        if sabotaged && sabotage == Sabotage::RepeatBytes {
            self.links[link].out.extend(&bytes[..taken]);
        }
        self.links[link].active = self.now;
        let (each, kilobyte) = self.net.send_cost;
        let cost = each + kilobyte * taken as u64 / 1000;
        let times = if self.is_dear { DEAR } else { 1 };
        self.turn_until = self.turn_until.max(self.now) + times * cost;
        self.note("sent", link as u64, taken as u64);
        self.mix_bytes(&bytes[..taken]);
        if taken < bytes.len() {
            self.links[link].wants_writable = true;
            let at = self.now + self.delay();
            self.at(at, Event::Room(link));
        }
        self.start_leaving(link);
        Sent::Taken(taken)
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(link) = self.named(connection, "close") {
            self.note("closed", link as u64, self.links[link].handed);
            let open = self.links[link].near == Near::Open && !self.links[link].is_broken;
            let unread_since = self.links[link].unread_since;
            let neglected = unread_since.map_or(0, |since| self.now - since);
            self.links[link].at_close = (neglected, self.now - self.links[link].active, self.now);
            self.forget(link);
            if open {
                self.links[link].near = Near::Closed;
                self.start_leaving(link);
            }
        }
    }

    fn abort(&mut self, connection: ConnectionId) {
        // What the server was told of last may already be gone: giving up twice does no harm.
        if let Some(link) = self.link_of(connection) {
            self.note("aborted", link as u64, self.links[link].handed);
            self.forget(link);
            self.links[link].out.clear();
            self.tell_far(link, FarEvent::Reset(link, true));
            self.links[link].far_gone = true;
        }
    }

    fn pause(&mut self, connection: ConnectionId) {
        if let Some(link) = self.named(connection, "pause") {
            self.note("paused", link as u64, 0);
            self.links[link].paused = true;
        }
    }

    fn resume(&mut self, connection: ConnectionId) {
        if let Some(link) = self.named(connection, "resume") {
            self.note("resumed", link as u64, 0);
            self.links[link].paused = false;
            self.make_ready(link);
        }
    }

    fn connect(&mut self, peer: &Peer) -> io::Result<ConnectionId> {
        let PeerAddress::Tcp(address) = peer.address else {
            panic!("{peer} is of another world");
        };
        if self.outgoing >= self.net.outgoing_max {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let server = self.servers.iter().find(|(at, _)| *at == address);
        let Some(&(_, actor)) = server else {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        };
        let fails = self.chance(self.net.connect_fails);
        if fails && self.dice.once_in(3) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let link = self.new_link(actor, Near::Connecting, true);
        self.outgoing += 1;
        let id = self.name(link);
        self.note("connecting", link as u64, id.as_u64());
        // A network that drops the request is silent: it may take long to learn of it.
        let factor = if fails && self.dice.once_in(2) {
            10_000
        } else {
            1
        };
        let at = self.now + self.delay() * factor;
        self.at(at, Event::Connected(link, !fails));
        Ok(id)
    }

    fn stop_accepting(&mut self) {
        self.note("stopped accepting", 0, 0);
        self.accepting = false;
        self.stopped_accepting = self.stopped_accepting.min(self.now);
    }

    fn wall_clock(&self) -> WallClock {
        WallClock {
            unix_seconds: 1_768_478_400 + self.now / SECOND,
        }
    }

    /// What was sent in the turn has taken its time.
    fn clock(&self, _: Time) -> Time {
        match self.sabotage {
            Sabotage::HideTurns => Time::from_nanos(self.now),
            _ => Time::from_nanos(self.now.max(self.turn_until)),
        }
    }
}
