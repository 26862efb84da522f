//! The configuration of a run, chosen by its seed.

use crate::backends::BackendFaults;
use crate::besim_server::{PageThatHangs, ServerFaults, WHAT_HANGS};
use crate::device_server::DeviceServerFaults;
use crate::devices::DeviceFaults;
use crate::disks::DiskFaults;
use crate::manners::{DEPTH_MAX, Explains, Manners};
use crate::remote_device::LinkOptions;
use crate::world::{MICROSECOND, MILLISECOND, Net, SECOND};
use rhythm_cohort::Policy;
use rhythm_engine::cohort::Arena;
use rhythm_engine::device::conformance::Dice;
use rhythm_server::backend::PoolOptions;
use rhythm_server::{
    ClientLimits, ClientsBy, CohortBytes, HELD_MAX, RATE_MIN, UNSENT_MAX, WatchOptions,
};
use std::num::NonZeroU32;
use std::time::Duration;

/// All that a run depends on.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) net: Net,
    pub(crate) cohort: usize,
    pub(crate) contexts: usize,
    /// Contexts beside these for those that wait.
    pub(crate) waiting: usize,
    /// What cohorts may take.
    pub(crate) cohort_bytes: CohortBytes,
    pub(crate) policy: Policy,
    pub(crate) delay: u64,
    pub(crate) host: bool,
    /// How much the host executor does in one pass of a stage.
    pub(crate) pass_work: usize,
    pub(crate) limits: ClientLimits,
    pub(crate) clients_by: ClientsBy,
    pub(crate) watch: WatchOptions,
    pub(crate) backend: BackendFaults,
    /// The backend is BeSim behind the network instead.
    pub(crate) remote: Option<(ServerFaults, PoolOptions)>,
    pub(crate) backend_timeout: u64,
    pub(crate) straggler_delay: u64,
    pub(crate) device: DeviceFaults,
    pub(crate) disk: DiskFaults,
    /// The device is on another machine; the one of this machine is what the link falls back to.
    pub(crate) remote_device: Option<(DeviceServerFaults, LinkOptions)>,
    pub(crate) sessions: u32,
    pub(crate) session_timeout: u64,
    /// Sessions of a user, and how many are for users who have none.
    pub(crate) sessions_of_user: (Option<NonZeroU32>, u32),
    /// Sign-ins of a user, and failed ones of an address, in a second.
    pub(crate) sign_ins: [Option<NonZeroU32>; 2],
    pub(crate) clients: Vec<(Manners, usize)>,
    /// Reload each so often; 0: never.
    pub(crate) reload_every: u64,
    /// Drain at this time; 0: when all clients are done.
    pub(crate) drain_at: u64,
    pub(crate) drain_limit: u64,
    /// Clients are still taken for so long then, and may still ask for so long after that.
    pub(crate) drain_delay: u64,
    pub(crate) drain_grace: u64,
    /// Told to drain again after so long, and once more; 0: not.
    pub(crate) hasten_after: [u64; 2],
    /// Requests of all clients.
    pub(crate) requests: usize,
    /// One user's calls hang, and nothing else fails.
    pub(crate) one_hangs: bool,
    /// All users' calls of this page hang, and nothing else fails.
    pub(crate) page_hangs: Option<PageThatHangs>,
    /// Of so many users hangs what cannot be sent again, and nothing else fails.
    pub(crate) hangs_for_first: u64,
    /// Lanes may find no memory for what backends answer.
    pub(crate) scarcer: bool,
    /// The loop is kept from its core once, for so long as no connection may take to be opened.
    pub(crate) stalls: bool,
    /// All clients but the first ask for much at a time and read little of it.
    pub(crate) floods: bool,
}

/// Others may have a silent connection's place after this.
const YIELD_AFTER: Duration = Duration::from_secs(1);

/// Longer than others may wait beside a user whose calls hang: a small part of what such a call
/// takes, and more than all that is asked takes one after the other.
pub(crate) const SOON: u64 = 20 * SECOND;

/// How long a loop is kept from its core: longer than it waits for a connection to be opened.
pub(crate) const STALL: u64 = 1_100 * MILLISECOND;
/// Longer than others may wait beside floods: what a few turns take, and a small part of what all
/// that floods ask for takes.
pub(crate) const SOON_BESIDE_FLOODS: u64 = 3 * MILLISECOND;

/// Requests of each client of a flood: turns have time to grow, if they do.
const FLOOD: usize = 600;

/// No page's calls are more than so many, all together.
const CALLS: usize = 20;

/// More memory than any run takes.
const PLENTY: usize = 1 << 30;

/// Where memory is scarce, a lane always has enough for what it asks and is answered by backends,
/// but not for its page: so much for each, and once what the largest takes more.
const ASKED_BYTES: [usize; 2] = [2_000, 6_500];

/// Where it is scarcer, likewise for its request.
const REQUEST_BYTES: [usize; 2] = [200, 6_500];

/// Longer than anything takes.
const FOREVER: Duration = Duration::from_secs(100);

/// A fault that is there in one run of a few, once in so many requests.
fn some(dice: &mut Dice, in_runs: usize, from: &[usize]) -> usize {
    match dice.once_in(in_runs) {
        true => *dice.pick(from),
        false => 0,
    }
}

impl Config {
    /// The configuration of a seed.
    pub(crate) fn of(dice: &mut Dice) -> Config {
        // In some, one user's calls hang, and nobody else may notice; there is room for both.
        let one_hangs = dice.once_in(16);
        // In others, those of one page do, whoever asks for it, or of some users those that cannot
        // be sent again: of as many users as so many connections are enough for.
        let what_hangs = (!one_hangs && dice.once_in(15)).then(|| *dice.pick(&WHAT_HANGS));
        let page_hangs = what_hangs.flatten();
        let (connections, hangs_for_first) = match what_hangs {
            Some(None) => *dice.pick(&[(2, 1), (4, 1), (8, 4), (16, 8)]),
            _ => (8, 0),
        };
        let some_hang = one_hangs || what_hangs.is_some();
        // A third of the runs have no fault at all: everything must be right then, and nothing may
        // be refused.
        let calm = dice.once_in(3) || some_hang;
        let rough = |dice: &mut Dice, in_runs: usize, from: &[usize]| match calm {
            true => 0,
            false => some(dice, in_runs, from),
        };
        let mut net = Net {
            delay_max: *dice.pick(&[10 * MICROSECOND, 300 * MICROSECOND, 5 * MILLISECOND]),
            split: *dice.pick(&[0, 1, 2, 5]),
            short: *dice.pick(&[0, 0, 3, 20]),
            send_buffer: *dice.pick(&[1_000, 20_000, 200_000]),
            receive_buffer: *dice.pick(&[500, 5_000, 100_000]),
            read_max: *dice.pick(&[100, 4_000, 100_000]),
            reset: rough(dice, 4, &[30, 300]),
            accept_fails: some(dice, 4, &[3]),
            connect_fails: rough(dice, 3, &[3, 10]),
            outgoing_max: *dice.pick(&[1, 8, 64]),
            connections_max: *dice.pick(&[usize::MAX, usize::MAX, 1, 3, 8]),
            send_cost: *dice.pick(&[(0, 0), (5 * MICROSECOND, 300), (50 * MICROSECOND, 20_000)]),
            dear: 0,
        };
        if some_hang {
            (net.outgoing_max, net.connections_max) = (connections.max(8), usize::MAX);
        }
        let backend = BackendFaults {
            embedded: dice.once_in(3),
            delay_max: *dice.pick(&[10 * MICROSECOND, MILLISECOND, 5 * MILLISECOND]),
            late: rough(dice, 3, &[5, 30]),
            fail: rough(dice, 4, &[10, 50]),
            refuse: rough(dice, 5, &[10, 50]),
            garble: rough(dice, 4, &[10, 50]),
            no: rough(dice, 4, &[5, 50]),
            silent: rough(dice, 4, &[10, 50]),
        };
        let device = DeviceFaults {
            delay_max: *dice.pick(&[0, 0, 50 * MICROSECOND, 10 * MILLISECOND]),
            slots: *dice.pick(&[0, 0, 1, 3]),
            lost_after: rough(dice, 15, &[1, 20, 100]),
        };
        let disk = DiskFaults {
            kept_max: *dice.pick(&[usize::MAX, 100_000, 1000, 0]),
            delay_max: *dice.pick(&[0, 50 * MICROSECOND, 5 * MILLISECOND]),
            fail: rough(dice, 3, &[2, 10]),
            silent: rough(dice, 4, &[3, 20]),
            timeout: match calm {
                true => 100 * SECOND,
                false => *dice.pick(&[20 * MILLISECOND, 100 * SECOND]),
            },
        };
        let slow_pace = (1 + dice.below(3), MILLISECOND);
        let mut count = 1 + dice.below(20);
        if hangs_for_first > 0 {
            count = count.max(hangs_for_first + 4);
        }
        let per_client = 1 + dice.below(200 / count);
        let mut clients = Vec::new();
        for _ in 0..count {
            let manners = Manners {
                depth: *dice.pick(&[1, 1, 3, DEPTH_MAX]),
                pace: dice.once_in(10).then_some(slow_pace),
                think_max: *dice.pick(&[0, MILLISECOND, 50 * MILLISECOND]),
                http10: some(dice, 8, &[2, 10]),
                close: some(dice, 6, &[3, 10]),
                head: some(dice, 5, &[3]),
                bad: rough(dice, 5, &[2, 10]),
                stall: rough(dice, 8, &[5, 20]),
                reset: rough(dice, 6, &[3, 10]),
                deaf: rough(dice, 10, &[5]),
                chunked: some(dice, 3, &[1, 3]),
                expect: some(dice, 5, &[1, 3]),
                anonymous: *dice.pick(&[2, 10, 10, 0]),
                logout: *dice.pick(&[0, 5, 15]),
                forget: some(dice, 10, &[5, 20]),
                half_close: some(dice, 8, &[5]),
                one_page: false,
            };
            clients.push((manners, per_client));
        }
        let seconds = |dice: &mut Dice, from: &[u64]| Duration::from_secs(*dice.pick(from));
        let mut limits = ClientLimits {
            header_timeout: seconds(dice, &[2, 10]),
            body_timeout: seconds(dice, &[3, 30]),
            idle_timeout: seconds(dice, &[5, 60]),
            yield_after: YIELD_AFTER,
            send_timeout: seconds(dice, &[4, 30]),
            requests_max: NonZeroU32::new(some(dice, 6, &[1, 7]) as u32),
            pipelined_max: *dice.pick(&[1, 2, 8, 64]),
            unsent_max: *dice.pick(&[1, 3000, UNSENT_MAX]),
            held_max: match rough(dice, 3, &[1, 10_000, 100_000]) {
                0 => HELD_MAX,
                most => most,
            },
            rate_min: *dice.pick(&[1, 4096, RATE_MIN]),
        };
        for (manners, _) in clients
            .iter_mut()
            .take(hangs_for_first.max(usize::from(one_hangs)))
        {
            // He asks for many pages at a time, of any kind, and however few the contexts are.
            manners.depth = *dice.pick(&[1, 8, 64]);
            limits.pipelined_max = limits.pipelined_max.max(manners.depth as u32);
            limits.unsent_max = UNSENT_MAX;
        }
        let mut timeout = *dice.pick(&[100 * MILLISECOND, 2 * SECOND]);
        let mut server = ServerFaults {
            delay_max: *dice.pick(&[10 * MICROSECOND, 5 * MILLISECOND]),
            late: rough(dice, 3, &[10, 50]),
            fail: rough(dice, 4, &[10, 50]),
            garble: rough(dice, 4, &[10, 50]),
            no: rough(dice, 4, &[5, 50]),
            silent: rough(dice, 4, &[10, 50]),
            reset: rough(dice, 4, &[5, 50]),
            close: some(dice, 4, &[1, 5, 50]),
            until_close: some(dice, 6, &[3, 30]),
            chunked: some(dice, 3, &[1, 3]),
            // Also where nothing else fails.
            fails_for: some(dice, 2, &[1]) as u64,
            hangs: false,
            page_hangs,
            hangs_for_first: hangs_for_first as u64,
        };
        let mut options = PoolOptions {
            connections_max: *dice.pick(&[1, 2, 4]),
            depth_max: *dice.pick(&[1, 4, 128]),
            ..PoolOptions::default()
        };
        if one_hangs {
            server.fails_for = 1;
        }
        if some_hang {
            options.connections_max = options.connections_max.max(2);
        }
        if page_hangs.is_some() {
            server.fails_for = 0;
            // Of two, its own calls hold both where they cannot be sent again: the one that is left
            // is for others who ask for the same page.
            options.connections_max = *dice.pick(&[4, 8]);
        }
        if hangs_for_first > 0 {
            server.fails_for = 0;
            options.connections_max = connections;
        }
        // Where there is a connection that he cannot hold.
        let is_spare = options.connections_max.min(net.outgoing_max) > 1;
        server.hangs = is_spare && (dice.once_in(2) || one_hangs);
        let is_remote = dice.once_in(3) || some_hang;
        if calm && is_remote {
            // Long enough for any queue.
            timeout = 100 * SECOND;
        }
        let stalls = calm && is_remote && dice.once_in(2);
        if stalls {
            // Then one attempt would do that is taken for failed.
            options.circuit.unreachable_max = 1;
        }
        let remote = is_remote.then_some((server, options));
        let straggler_delay = match dice.once_in(2) && !some_hang {
            true => timeout / 8,
            false => MILLISECOND,
        };
        let device_server = DeviceServerFaults {
            delay_max: *dice.pick(&[10 * MICROSECOND, MILLISECOND, 10 * MILLISECOND]),
            silent: rough(dice, 3, &[5, 50]),
            reset: rough(dice, 3, &[3, 50]),
            finish: rough(dice, 3, &[3, 50]),
        };
        let link = LinkOptions {
            slots: *dice.pick(&[1, 2, 8]),
            timeout: match calm {
                true => FOREVER,
                false => Duration::from_nanos(*dice.pick(&[20 * MILLISECOND, SECOND])),
            },
            has_local: !dice.once_in(3),
        };
        let remote_device = dice.once_in(3).then_some((device_server, link));
        let requests = count * per_client;
        let cohort = *dice.pick(&[1, 2, 7, 64]);
        let scarce = dice.once_in(2);
        let scarcer = scarce && dice.once_in(2);
        let [for_each, for_largest] = match scarcer {
            true => REQUEST_BYTES,
            false => ASKED_BYTES,
        };
        let mut config = Config {
            net,
            cohort,
            contexts: 1 + dice.below(8),
            waiting: match cohort {
                _ if some_hang => CALLS + 1,
                1 | 7 => 0,
                2 => 1,
                _ => CALLS + 1,
            },
            policy: *dice.pick(&[Policy::WorkConserving, Policy::Fixed]),
            delay: *dice.pick(&[100 * MICROSECOND, 2 * MILLISECOND, 20 * MILLISECOND]),
            host: dice.once_in(2),
            pass_work: *dice.pick(&[usize::MAX, 100_000, 20_000, 1]),
            limits,
            backend,
            remote,
            backend_timeout: timeout,
            straggler_delay,
            device,
            disk,
            remote_device,
            sessions: match dice.once_in(4) {
                true => 1 + dice.below(10) as u32,
                false => 1000,
            },
            session_timeout: match dice.once_in(8) {
                true => 100,
                false => 100_000_000,
            },
            sessions_of_user: (
                NonZeroU32::new(dice.below(4) as u32),
                *dice.pick(&[0, 0, 1, 3]),
            ),
            sign_ins: match dice.once_in(4) {
                true => [0; 2].map(|_: u32| NonZeroU32::new(dice.below(20) as u32)),
                false => [None; 2],
            },
            clients,
            reload_every: some(dice, 3, &[MILLISECOND as usize, 200 * MILLISECOND as usize]) as u64,
            drain_at: some(dice, 4, &[MILLISECOND as usize, 300 * MILLISECOND as usize]) as u64,
            drain_limit: *dice.pick(&[SECOND, 100 * SECOND]),
            drain_delay: *dice.pick(&[0, 0, 20 * MILLISECOND]),
            drain_grace: *dice.pick(&[0, 20 * MILLISECOND, SECOND, 100 * SECOND]),
            hasten_after: [0; 2].map(|_| {
                some(
                    dice,
                    4,
                    &[1, MILLISECOND as usize, 300 * MILLISECOND as usize],
                ) as u64
            }),
            clients_by: *dice.pick(&[ClientsBy::Address, ClientsBy::Connection]),
            watch: WatchOptions {
                slow_request: *dice.pick(&[None, None, Some(Duration::ZERO)]),
                ids: dice.below(2) == 0,
                answers_ids: dice.below(2) == 0,
                traces: dice.below(2) == 0,
                share: *dice.pick(&[0, 1 << 31, 1 << 32]),
                ..WatchOptions::default()
            },
            cohort_bytes: CohortBytes {
                arena_max: Arena::BYTES_MAX,
                first_part: match scarce {
                    true => cohort * for_each + for_largest,
                    false => PLENTY,
                },
                common_max: match scarce {
                    true => *dice.pick(&[0, 0, 0, 10_000]),
                    false => PLENTY,
                },
            },
            requests,
            one_hangs,
            page_hangs,
            hangs_for_first: hangs_for_first as u64,
            scarcer,
            stalls,
            floods: false,
        };
        if calm && !some_hang && dice.once_in(8) {
            config.flood(dice);
        }
        config
    }

    /// The first asks for one thing at a time and all others for more than a turn can do, of which
    /// they read little; to send takes the server a while, now and then much longer, and nothing
    /// else does.
    fn flood(&mut self, dice: &mut Dice) {
        self.floods = true;
        self.net = Net {
            delay_max: 100 * MICROSECOND,
            split: 0,
            short: 0,
            send_buffer: 200_000,
            receive_buffer: 100_000,
            accept_fails: 0,
            connections_max: usize::MAX,
            send_cost: (2 * MICROSECOND, 2 * MICROSECOND),
            dear: 50,
            ..self.net
        };
        let manners = Manners {
            depth: 1,
            think_max: 5 * MILLISECOND,
            one_page: true,
            ..Manners::default()
        };
        let floods = Manners {
            depth: 3 * DEPTH_MAX,
            think_max: MILLISECOND,
            deaf: *dice.pick(&[1, 2, 8]),
            ..manners
        };
        self.clients = vec![(floods, FLOOD); 8 + dice.below(8)];
        self.clients[0] = (manners, 50);
        self.requests = FLOOD * self.clients.len();
        self.limits.pipelined_max = 64;
        self.limits.unsent_max = UNSENT_MAX;
        self.limits.requests_max = None;
        self.policy = Policy::WorkConserving;
        // All ask for the same page, which would take long.
        self.pass_work = usize::MAX;
        (self.device.delay_max, self.device.slots) = (0, 0);
        (self.remote, self.remote_device, self.stalls) = (None, None, false);
        (self.reload_every, self.drain_at) = (0, 0);
    }

    /// Calls hang, and others must be answered all the same.
    fn some_hang(&self) -> bool {
        self.one_hangs || self.page_hangs.is_some() || self.hangs_for_first > 0
    }

    /// Which errors are honest with this configuration.
    pub(crate) fn explains(&self) -> Explains {
        let (limits, net) = (&self.limits, &self.net);
        let patience = limits.header_timeout.min(limits.body_timeout).as_nanos() as u64;
        Explains {
            backend: match &self.remote {
                None => self.backend.can_fail(),
                // Whoever waits in a queue may wait too long.
                Some((server, _)) => {
                    let net = &self.net;
                    let net_fails = (net.reset | net.connect_fails) != 0;
                    server.can_fail() || net_fails || self.backend_timeout < 100 * SECOND
                }
            },
            disk: self.disk.can_fail() && self.disk.kept_max < usize::MAX,
            fails_for: self.remote.map_or(0, |(server, _)| server.fails_for),
            hangs: self.page_hangs.map(|(name, _)| name),
            hangs_for: self.remote.map(|(_, options)| {
                let further_max = (options.connections_max / 4).saturating_sub(1);
                (self.backend_timeout + SECOND, further_max)
            }),
            hangs_for_first: self.hangs_for_first,
            soon: match (self.some_hang(), self.floods) {
                (true, _) => Some(SOON),
                (false, true) => Some(SOON_BESIDE_FLOODS),
                (false, false) => None,
            },
            memory: self.scarcer,
            refused: match &self.remote {
                None => self.backend.no != 0,
                Some((server, _)) => server.no != 0,
            },
            device: match &self.remote_device {
                None => self.device.lost_after != 0,
                Some((_, link)) if link.has_local => self.device.lost_after != 0,
                Some((server, link)) => {
                    let net_fails = (self.net.reset | self.net.connect_fails) != 0;
                    server.can_fail() || net_fails || link.timeout < FOREVER
                }
            },
            sessions_scarce: (self.sessions as usize) < self.requests,
            sessions_limited: self.sessions_of_user.0.is_some(),
            sign_ins_limited: self.sign_ins.iter().any(Option::is_some),
            sessions_expire: self.session_timeout < 100_000_000,
            patience: patience / 10 * 9,
            idle: {
                let (header, idle) = (limits.header_timeout, limits.idle_timeout);
                let nanos = |time: Duration| time.as_nanos() as u64;
                (
                    nanos(header.min(idle)),
                    nanos(header.max(idle)) + SECOND / 10 + u64::from(self.stalls) * STALL,
                )
            },
            // What hangs may be waited for as long as a drain takes.
            drain_short: self.drain_limit < 100 * SECOND
                || !self.hasten_after.contains(&0)
                || self.disk.silent > 0
                // A call that hangs has the only context.
                || self.contexts == 1
                    && (self.some_hang()
                        || (self.remote.as_ref()).is_some_and(|(faults, _)| faults.hangs)),
            yield_after: match net.connections_max {
                usize::MAX => None,
                _ => Some(YIELD_AFTER.as_nanos() as u64),
            },
            stalls: self.stalls,
            crowded: limits.held_max < HELD_MAX,
        }
    }
}
