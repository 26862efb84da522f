//! Clients: they walk through Banking, each with its own manners, and know what each answer must
//! be.
//!
//! A client keeps what it asked on its connection, in order, and takes each answer for the first of
//! these. What may come follows from what was asked and from the faults of the run: the page as the
//! reference makes it, or an error that a fault explains. An answer that is missing when the
//! connection ends is an error, too, if the server had been handed the whole request.

mod asking;

use crate::answers::{self, Response};
use crate::manners::{DEPTH_MAX, Manners, Pending, Session, Shared};
use crate::requests::Wanted;
use crate::world::{ActorId, FarEvent, LinkId, MILLISECOND, SECOND, World};
use rhythm_engine::device::conformance::Dice;
use std::collections::{BTreeMap, VecDeque};

const STEP: u32 = 0;
const RESET: u32 = 1;
const HEAR: u32 = 2;
const REST: u32 = 3;

/// See the module's text.
pub(crate) struct Client {
    id: ActorId,
    pub(crate) user: u32,
    manners: Manners,
    dice: Dice,
    /// Requests it still makes.
    budget: usize,
    link: Option<LinkId>,
    connected: bool,
    /// It sends no more on this connection.
    last_sent: bool,
    /// The server said that it ends.
    end_announced: bool,
    stopped_reading: bool,
    /// It has sent its end.
    finished: bool,
    /// What may follow the last answer is its body, though it should have none.
    ignores_rest: bool,
    sent: u64,
    pending: VecDeque<Pending>,
    input: Vec<u8>,
    pub(crate) session: Session,
    /// A login that it has given up may still end its sessions: where users have so many at most.
    pub(crate) haunted: bool,
    pub(crate) etags: BTreeMap<String, String>,
    /// When it was answered last by a page that hangs: what it had asked before had to wait.
    hung_until: u64,
    pub(crate) done: bool,
}

impl Client {
    pub(crate) fn new(
        id: ActorId,
        user: u32,
        manners: Manners,
        dice: Dice,
        budget: usize,
    ) -> Client {
        Client {
            id,
            user,
            manners,
            dice,
            budget,
            link: None,
            connected: false,
            last_sent: false,
            end_announced: false,
            stopped_reading: false,
            finished: false,
            ignores_rest: false,
            sent: 0,
            pending: VecDeque::new(),
            input: Vec::new(),
            session: Session::default(),
            haunted: false,
            etags: BTreeMap::new(),
            hung_until: 0,
            done: false,
        }
    }

    /// What it waits for, for people.
    pub(crate) fn state(&self) -> String {
        format!(
            "client {} on link {:?}, {} requests to make, waits for {:?}",
            self.id, self.link, self.budget, self.pending
        )
    }

    /// Something happened.
    pub(crate) fn tell(&mut self, event: FarEvent, world: &mut World, shared: &mut Shared<'_>) {
        match event {
            FarEvent::Wake(token) => self.woken(token, world, shared),
            FarEvent::Connected(link) if self.link == Some(link) => {
                self.connected = true;
                self.step(world, shared);
            }
            FarEvent::Refused(link) if self.link == Some(link) => {
                self.link = None;
                if shared.draining {
                    self.budget = 0;
                }
                self.think(world);
            }
            FarEvent::Received(link) if self.link == Some(link) => {
                self.received(link, world, shared)
            }
            FarEvent::Finished(link) if self.link == Some(link) => {
                self.finished(link, world, shared)
            }
            FarEvent::Reset(link, by_server) if self.link == Some(link) => {
                // Calls hang for as long as the drain, one behind the other; who has his last
                // answer at its end loses nothing.
                let hangs = shared.explains.fails_for(self.user)
                    || (self.pending.iter()).any(|pending| self.had_to_wait(pending, shared));
                let is_done = self.pending.is_empty() && self.budget == 0;
                let is_late =
                    shared.explains.drain_short || hangs || is_done || self.manners.pace.is_some();
                // A form that a host takes piece by piece is late a second after a server was told
                // to end, also where that was not looked at for longer.
                let is_stalled = shared.explains.stalls
                    && shared.draining
                    && (self.pending.iter()).any(|it| matches!(it.wanted, Wanted::Hosted(_)));
                let excused = self.stopped_reading
                    || shared.explains.crowded
                    || is_stalled
                    || world.now >= shared.drain.1 && is_late
                    || shared.explains.disk && self.pending.iter().any(Pending::is_file)
                    || self.pending.iter().any(|pending| !pending.complete);
                if by_server && !excused {
                    let state = self.state();
                    world.fail(format!("the server aborted the connection of {state}"));
                }
                self.lose(world, shared);
            }
            _ => {}
        }
    }

    /// Whether neither it nor a fault keeps it waiting: who asks for much at a time does.
    pub(crate) fn is_prompt(&self, pending: &Pending, shared: &Shared<'_>) -> bool {
        let asks_much = self.manners.depth > DEPTH_MAX;
        let is_slow = self.manners.pace.is_some() || !pending.complete || asks_much;
        let hangs = self.had_to_wait(pending, shared);
        !is_slow && !hangs && !shared.explains.fails_for(self.user)
    }

    /// Whether it asked for a page that hangs, or for this before that was answered.
    fn had_to_wait(&self, pending: &Pending, shared: &Shared<'_>) -> bool {
        pending.is_page(shared.explains.hangs)
            || pending.begun <= self.hung_until
            || pending.waits_for_own(shared)
    }

    fn chance(&mut self, times: usize) -> bool {
        times != 0 && self.dice.once_in(times)
    }

    fn token(link: LinkId, kind: u32) -> u32 {
        (link as u32) << 2 | kind
    }

    fn think(&mut self, world: &mut World) {
        let time = 1 + self.dice.below(self.manners.think_max as usize + 1) as u64;
        let link = self.link.unwrap_or(0);
        world.wake(self.id, time, Client::token(link, STEP));
    }

    fn woken(&mut self, token: u32, world: &mut World, shared: &mut Shared<'_>) {
        let (link, kind) = ((token >> 2) as usize, token & 3);
        if kind == STEP {
            return self.step(world, shared);
        }
        if self.link != Some(link) {
            return;
        }
        match kind {
            RESET => {
                world.note("client resets", link as u64, 0);
                world.reset_from(link);
                self.lose(world, shared);
            }
            HEAR => world.set_reading(link, true),
            _ => self.send_rest(link, world),
        }
    }

    fn finish(&mut self, link: LinkId, world: &mut World) {
        self.finished = true;
        world.finish_from(link);
    }

    /// Sends the form that waited for `100 Continue`.
    fn send_rest(&mut self, link: LinkId, world: &mut World) {
        if let Some(pending) = self.pending.back_mut()
            && let Some(rest) = pending.rest.take()
        {
            self.sent += rest.len() as u64;
            pending.ends_at = self.sent;
            world.send_from(link, &rest);
        }
    }

    /// Goes on with its walk.
    fn step(&mut self, world: &mut World, shared: &mut Shared<'_>) {
        if self.done {
            return;
        }
        let Some(link) = self.link else {
            if self.budget == 0 {
                self.done = true;
                return;
            }
            self.connected = false;
            self.last_sent = false;
            self.end_announced = false;
            self.stopped_reading = false;
            self.finished = false;
            self.ignores_rest = false;
            self.sent = 0;
            self.input.clear();
            let link = world.connect_from(self.id);
            if let Some((bytes, gap)) = self.manners.pace {
                world.set_pace(link, bytes, gap);
            }
            self.link = Some(link);
            return;
        };
        if !self.connected || self.last_sent || !self.pending.is_empty() {
            return;
        }
        if self.budget == 0 {
            return self.leave(link, world);
        }
        for _ in 0..1 + self.dice.below(self.manners.depth) {
            if self.budget == 0 || self.last_sent {
                break;
            }
            self.budget -= 1;
            let waits = self.ask(link, world, shared);
            if waits {
                break;
            }
        }
        let manners = self.manners;
        if self.chance(manners.reset) {
            let after = 1 + self.dice.below(20 * MILLISECOND as usize) as u64;
            world.wake(self.id, after, Client::token(link, RESET));
        }
        if self.chance(manners.deaf) {
            self.stopped_reading = true;
            world.set_reading(link, false);
            let after = *self.dice.pick(&[5 * MILLISECOND, SECOND, 100 * SECOND]);
            world.wake(self.id, after, Client::token(link, HEAR));
        }
    }

    /// Has nothing more to ask: ends the connection in one way or another, or leaves that to the
    /// server.
    fn leave(&mut self, link: LinkId, world: &mut World) {
        self.last_sent = true;
        match self.dice.below(3) {
            0 => self.finish(link, world),
            1 => {
                world.reset_from(link);
                self.link = None;
                self.done = true;
            }
            _ => {}
        }
    }

    /// The session may end from now on.
    fn fade(&mut self, shared: &mut Shared<'_>) {
        if !std::mem::replace(&mut self.session.fading, true) {
            shared.books.fading += 1;
        }
    }

    /// The session did not end when it could have.
    pub(crate) fn unfade(&mut self, shared: &mut Shared<'_>) {
        if !self.haunted && std::mem::take(&mut self.session.fading) {
            shared.books.fading -= 1;
        }
    }

    /// The session is known to have ended.
    pub(crate) fn end_session(&mut self, shared: &mut Shared<'_>) {
        if self.session.cookie.is_some() {
            shared.books.live -= 1;
            shared.books.fading -= i64::from(self.session.fading);
        }
        self.session = Session::default();
    }

    /// The connection is gone: what was under way is not answered.
    fn lose(&mut self, world: &mut World, shared: &mut Shared<'_>) {
        shared.books.dropped += self.pending.len();
        for pending in std::mem::take(&mut self.pending) {
            if let Wanted::Page { name: "login", .. } = pending.wanted {
                shared.books.unknown += 1;
                self.haunted |= shared.explains.sessions_limited;
            }
        }
        self.link = None;
        self.think(world);
    }

    /// The server closed the connection.
    fn finished(&mut self, link: LinkId, world: &mut World, shared: &mut Shared<'_>) {
        let handed = world.handed(link);
        if !self.input.is_empty() && !self.ignores_rest {
            let state = self.state();
            world.fail(format!("the connection ended within an answer: {state}"));
        }
        let owed = |pending: &&Pending| pending.complete && pending.ends_at <= handed;
        let owed = self.pending.iter().find(owed);
        if let Some(pending) = owed.filter(|_| !self.end_announced) {
            world.fail(format!(
                "client {}, link {link}: never answered: {pending:?}",
                self.id
            ));
        }
        // It closed without a word, which it may do after long enough.
        let (neglected, idle, at) = world.at_close(link);
        let drained = shared.draining && at >= shared.drain.0;
        if !self.end_announced && !self.finished && !drained && !self.stopped_reading {
            let (mut least, mut most) = shared.explains.idle;
            if let Some(yield_after) = shared.explains.yield_after {
                // Others may have its place, also while a request trickles in: until that is
                // answered for being too slow.
                let has_begun = (self.pending.iter())
                    .any(|pending| pending.ends_at > handed || !pending.complete);
                (least, most) = match has_begun {
                    true => (0, u64::MAX),
                    false => (yield_after, most),
                };
            }
            if neglected > SECOND {
                let state = self.state();
                world.fail(format!("the server closed without reading on: {state}"));
            }
            if idle < least || idle > most {
                let state = self.state();
                world.fail(format!(
                    "the server closed after {idle} ns without anything: {state}"
                ));
            }
        }
        self.lose(world, shared);
    }

    fn received(&mut self, link: LinkId, world: &mut World, shared: &mut Shared<'_>) {
        world.take(link, &mut self.input);
        while !self.input.is_empty() && !self.ignores_rest {
            let to_head = self.pending.front().is_some_and(|pending| pending.head);
            let response = match answers::read(&mut self.input, to_head) {
                Ok(Some(response)) => response,
                Ok(None) => break,
                Err(why) => {
                    let state = self.state();
                    return world.fail(format!("{why}; {state}"));
                }
            };
            world.say(|| format!("client {} gets a {}", self.id, response.status));
            if let Err(why) = self.take_answer(link, &response, world, shared) {
                return world.fail(format!("client {}, link {link}: {why}", self.id));
            }
            if self.link.is_none() {
                return;
            }
        }
        if self.pending.is_empty() && !self.last_sent {
            self.think(world);
        }
    }

    fn take_answer(
        &mut self,
        link: LinkId,
        response: &Response,
        world: &mut World,
        shared: &mut Shared<'_>,
    ) -> Result<(), String> {
        if response.status == 100 {
            let waits = self.pending.len() == 1 && self.pending[0].rest.is_some();
            if waits {
                self.send_rest(link, world);
            }
            // One that comes after the client lost its patience is late, but right.
            return Ok(());
        }
        if self.end_announced {
            return Err(format!("a {} after the last answer", response.status));
        }
        let Some(pending) = self.pending.pop_front() else {
            return Err(format!("a {} that nobody asked for", response.status));
        };
        self.end_announced = response.closes();
        if self.end_announced && pending.head && response.status >= 400 {
            // Of a request that it could not read, the server does not know that it was HEAD.
            self.ignores_rest = true;
        }
        if pending.close && !self.end_announced && pending.complete {
            return Err(format!("a last answer that does not say so: {pending:?}"));
        }
        let is_last = self.pending.is_empty();
        if pending.begun > world.stopped_accepting && is_last && !self.end_announced {
            return Err(format!("a draining server wants more: {pending:?}"));
        }
        self.last_sent |= self.end_announced;
        if pending.rest.is_some() {
            // The form was not wanted: what follows would be taken for it.
            self.last_sent = true;
            world.wake(self.id, SECOND, Client::token(link, RESET));
        }
        let judged = self.judge(&pending, response, world, shared);
        if pending.is_page(shared.explains.hangs) {
            self.hung_until = world.now;
        }
        judged
    }
}
