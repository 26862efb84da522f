//! The world as its actors see it: what they do with their ends of links.

use super::*;

impl World {
    /// A client asks for a connection.
    pub(crate) fn connect_from(&mut self, actor: ActorId) -> LinkId {
        let link = self.new_link(actor, Near::Backlog, false);
        let at = self.now + self.delay();
        self.at(at, Event::Knock(link));
        link
    }

    pub(super) fn new_link(&mut self, actor: ActorId, near: Near, outgoing: bool) -> LinkId {
        self.links.push(Link {
            actor,
            near,
            far_gone: false,
            id: None,
            outgoing,
            coming: VecDeque::new(),
            inbox: VecDeque::new(),
            fin: [false; 3],
            is_broken: false,
            paused: false,
            handed: 0,
            unread_since: None,
            active: self.now,
            at_close: (0, 0, 0),
            out: VecDeque::new(),
            received: Vec::new(),
            wants_writable: false,
            reads: true,
            pace: None,
            arriving: false,
            leaving: false,
            is_ready: false,
            waits: false,
        });
        self.links.len() - 1
    }

    /// Sends bytes to the server.
    pub(crate) fn send_from(&mut self, link: LinkId, bytes: &[u8]) {
        self.links[link].coming.extend(bytes);
        self.start_arriving(link);
    }

    /// Sends no more.
    pub(crate) fn finish_from(&mut self, link: LinkId) {
        self.links[link].fin[0] = true;
        self.start_arriving(link);
    }

    /// Resets the connection; the actor hears no more of it.
    pub(crate) fn reset_from(&mut self, link: LinkId) {
        if !std::mem::replace(&mut self.links[link].far_gone, true) {
            let at = self.now + self.delay();
            self.at(at, Event::Reset(link));
        }
    }

    /// Reads, or stops reading.
    pub(crate) fn set_reading(&mut self, link: LinkId, reads: bool) {
        self.links[link].reads = reads;
        self.start_leaving(link);
    }

    /// At most so many bytes arrive at a time, with this gap.
    pub(crate) fn set_pace(&mut self, link: LinkId, bytes: usize, gap: u64) {
        self.links[link].pace = Some((bytes, gap));
    }

    /// What came to the far end.
    pub(crate) fn take(&mut self, link: LinkId, into: &mut Vec<u8>) {
        into.append(&mut self.links[link].received);
    }

    /// Bytes that the server was told of.
    pub(crate) fn handed(&self, link: LinkId) -> u64 {
        self.links[link].handed
    }

    /// When the server closed the connection: how long bytes had been waiting to be read, how long
    /// nothing had happened, and the time.
    pub(crate) fn at_close(&self, link: LinkId) -> (u64, u64, u64) {
        self.links[link].at_close
    }

    /// Wakes an actor after a time.
    pub(crate) fn wake(&mut self, actor: ActorId, after: u64, token: u32) {
        let at = self.now + after;
        self.at(at, Event::Wake(actor, token));
    }

    /// Sees to it that there is a turn at this time.
    pub(crate) fn turn_at(&mut self, time: u64) {
        self.at(time, Event::Turn);
    }
}
