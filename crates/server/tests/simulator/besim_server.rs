//! BeSim's server at the far end of the server's own connections: the other half of the remote
//! backend.
//!
//! It answers the queries of a connection in their order, in all the ways HTTP/1.1 has to frame an
//! answer, and sometimes badly, late, or not at all.

use crate::backends::asker;
use crate::config::SOON;
use crate::reference::{BANK, REFUSED};
use crate::world::{ActorId, FarEvent, LinkId, World};
use rhythm_engine::device::conformance::Dice;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A page whose calls may hang: its name, and with what they begin.
pub(crate) type PageThatHangs = (&'static str, &'static [u8]);

/// What may hang: a page whose call can be sent again, one whose cannot, or of some users all that
/// cannot.
pub(crate) const WHAT_HANGS: [Option<PageThatHangs>; 3] = [
    Some(("profile", b"1&9&")),
    Some(("change_profile", b"1&10&")),
    None,
];

/// With what calls begin that cannot be sent again.
const NOT_SENT_AGAIN: [&[u8]; 5] = [b"1&6&", b"1&7&", b"1&10&", b"1&11&", b"1&12&"];

/// How it behaves. Chances mean one request in so many; 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerFaults {
    /// Most that an answer takes, nanoseconds.
    pub(crate) delay_max: u64,
    /// Take a hundred times as long.
    pub(crate) late: usize,
    /// Get a status of 500.
    pub(crate) fail: usize,
    /// Get a body or a head that is none.
    pub(crate) garble: usize,
    /// Get status 1.
    pub(crate) no: usize,
    /// Are not answered, nor is anything after them.
    pub(crate) silent: usize,
    /// Get a reset instead of their answer.
    pub(crate) reset: usize,
    /// Are the last of their connection, which is said.
    pub(crate) close: usize,
    /// Are the last of their connection, and their answer ends with it.
    pub(crate) until_close: usize,
    /// Get their answer in chunks.
    pub(crate) chunked: usize,
    /// The user all of whose requests but those to sign in get a status of 500; 0: none. Nobody
    /// else may notice.
    pub(crate) fails_for: u64,
    /// Those of this user are not answered at all instead.
    pub(crate) hangs: bool,
    /// Nor are those of this page.
    pub(crate) page_hangs: Option<PageThatHangs>,
    /// Nor are those of the first so many users that cannot be sent again.
    pub(crate) hangs_for_first: u64,
}

impl ServerFaults {
    /// Whether a request of anybody may fail.
    pub(crate) fn can_fail(&self) -> bool {
        (self.late | self.fail | self.garble | self.silent | self.reset) != 0
    }
}

/// Mistakes planted into the server, to see them found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServerSabotage {
    /// None.
    #[default]
    None,
    /// Where one call hangs, all others take long from then on.
    HoldOthers,
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    More,
    Finish,
    Reset,
}

#[derive(Debug, Default)]
struct Connection {
    input: Vec<u8>,
    answers: VecDeque<(u64, Vec<u8>, After)>,
    over: bool,
}

/// See the module's text.
pub(crate) struct BesimServer {
    id: ActorId,
    faults: ServerFaults,
    sabotage: ServerSabotage,
    /// A call that is never answered has come.
    holds: bool,
    dice: Dice,
    connections: BTreeMap<LinkId, Connection>,
    /// New payees: no two are alike, and each may be added once.
    payees: BTreeSet<String>,
}

impl BesimServer {
    pub(crate) fn new(
        id: ActorId,
        faults: ServerFaults,
        sabotage: ServerSabotage,
        dice: Dice,
    ) -> BesimServer {
        BesimServer {
            id,
            faults,
            sabotage,
            holds: false,
            dice,
            connections: BTreeMap::new(),
            payees: BTreeSet::new(),
        }
    }

    /// Something happened.
    pub(crate) fn tell(&mut self, event: FarEvent, world: &mut World) {
        match event {
            FarEvent::Connected(link) => {
                self.connections.insert(link, Connection::default());
            }
            FarEvent::Received(link) => self.received(link, world),
            FarEvent::Finished(link) | FarEvent::Reset(link, _) | FarEvent::Refused(link) => {
                self.connections.remove(&link);
            }
            FarEvent::Wake(link) => self.answer_due(link as usize, world),
        }
    }

    fn received(&mut self, link: LinkId, world: &mut World) {
        let Some(mut connection) = self.connections.remove(&link) else {
            return;
        };
        world.take(link, &mut connection.input);
        while let Some(end) = connection
            .input
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
        {
            let head: Vec<u8> = connection.input.drain(..end + 4).collect();
            let text = String::from_utf8_lossy(&head).into_owned();
            let target = text.split(' ').nth(1).unwrap_or_default();
            let Some((_, query)) = target.split_once('?').filter(|_| text.starts_with("GET "))
            else {
                world.fail(format!("BeSim was asked {text:?}"));
                break;
            };
            if !connection.over {
                if query.starts_with("1&6&") && !self.payees.insert(query.to_owned()) {
                    world.fail(format!("{query} was carried out twice"));
                }
                let (after, bytes, what) = self.answer(query.as_bytes());
                let due = connection.answers.back().map_or(0, |(due, ..)| *due);
                let due = due.max(world.now.saturating_add(after));
                connection.over = what != After::More || due == u64::MAX;
                if due != u64::MAX {
                    connection.answers.push_back((due, bytes, what));
                    world.wake(self.id, due - world.now, link as u32);
                }
            }
        }
        self.connections.insert(link, connection);
    }

    fn chance(&mut self, times: usize) -> bool {
        times != 0 && self.dice.once_in(times)
    }

    /// When a query is answered, how, and what then.
    fn answer(&mut self, query: &[u8]) -> (u64, Vec<u8>, After) {
        let faults = self.faults;
        let mut after = 1 + self.dice.below(faults.delay_max as usize + 1) as u64;
        if self.chance(faults.late) {
            after *= 100;
        }
        if self.holds && self.sabotage == ServerSabotage::HoldOthers {
            after += 2 * SOON;
        }
        let signs_in = query.starts_with(b"1&1&") || query.starts_with(b"1&2&");
        let is_hated = !signs_in && faults.fails_for != 0 && asker(query) == faults.fails_for;
        self.holds |= is_hated && faults.hangs;
        let not_again = || NOT_SENT_AGAIN.iter().any(|call| query.starts_with(call));
        let hangs = is_hated && faults.hangs
            || (1..=faults.hangs_for_first).contains(&asker(query)) && not_again()
            || matches!(faults.page_hangs, Some((_, call)) if query.starts_with(call));
        if hangs || self.chance(faults.silent) {
            return (u64::MAX, Vec::new(), After::More);
        }
        if self.chance(faults.reset) {
            return (after, Vec::new(), After::Reset);
        }
        let mut body = Vec::new();
        BANK.answer(query, &mut body);
        let mut status = "200 OK";
        if is_hated || self.chance(faults.fail) {
            (status, body) = ("500 Internal Server Error", b"<pre>\n0\n</pre>\n".to_vec());
        } else if self.chance(faults.no) {
            body = REFUSED.to_vec();
        } else if self.chance(faults.garble) {
            match self.dice.below(3) {
                0 => body.truncate(body.len() / 2),
                1 => body.clear(),
                _ => status = "OK",
            }
        }
        let mut out = format!("HTTP/1.1 {status}\r\nServer: besim\r\n").into_bytes();
        if self.chance(faults.until_close) {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&body);
            return (after, out, After::Finish);
        }
        let closes = self.chance(faults.close);
        if closes {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        if self.chance(faults.chunked) && !body.is_empty() {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            let (first, second) = body.split_at(1 + self.dice.below(body.len()));
            for chunk in [first, second, &[]] {
                if !chunk.is_empty() {
                    out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
            }
            out.extend_from_slice(b"0\r\n\r\n");
        } else {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            out.extend_from_slice(&body);
        }
        (after, out, if closes { After::Finish } else { After::More })
    }

    fn answer_due(&mut self, link: LinkId, world: &mut World) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        while connection
            .answers
            .front()
            .is_some_and(|(due, ..)| *due <= world.now)
            && let Some((_, bytes, after)) = connection.answers.pop_front()
        {
            if after == After::Reset {
                world.reset_from(link);
                self.connections.remove(&link);
                return;
            }
            world.send_from(link, &bytes);
            if after == After::Finish {
                world.finish_from(link);
                return;
            }
        }
    }
}
