//! What a worker's thread does from its first moment to its last.

use super::inbox::Inbox;
use super::worker::{StartError, Worker, WorkerError, WorkerOptions, WorkerThread};
use crate::clock::monotonic;
use crate::driver::datagram::DatagramSocket;
use crate::driver::epoll::Driver;
use crate::driver::listener::Listener;
use crate::port::{
    Accepted, ConnectionId, Datagram, DatagramId, Ended, Handler, Port, Role, Time, Token,
};
use crate::workers::affinity::pin_current_thread;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// A panic is followed by a pause, twice as long as the one before up to [`PAUSE_MAX`], so that a
/// handler that always panics does not spin.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A handler that lived for so long is well: the next pause is the shortest again.
const WELL_AFTER: Duration = Duration::from_secs(10);

/// A socket through which the world comes to the thread.
pub(super) enum Door {
    Listener(Role, Listener),
    Datagrams(Role, DatagramSocket),
}

/// What a thread is given.
pub(super) struct Seat<C> {
    pub(super) index: usize,
    pub(super) core: Option<usize>,
    pub(super) options: WorkerOptions,
    pub(super) doors: Vec<Door>,
    pub(super) inbox: Inbox<C>,
}

impl<C> Drop for Seat<C> {
    /// Whatever it ends by.
    fn drop(&mut self) {
        self.inbox.end();
    }
}

/// The thread: makes its driver and handler, says that it is ready, and runs once all are.
pub(super) fn run<W, E, F>(
    mut seat: Seat<W::Command>,
    make: &F,
    ready: Sender<Result<(), StartError<E>>>,
    go: Receiver<()>,
) -> Result<(), WorkerError>
where
    W: Worker,
    E: fmt::Display,
    F: Fn(WorkerThread<'_, W::Command>) -> Result<W, E>,
{
    seat.inbox.sit(seat.core);
    let (mut driver, worker) = match seat.prepare(make) {
        Ok(prepared) => prepared,
        Err(error) => {
            // The starter waits for this, and tells who asked for the start.
            let _ = ready.send(Err(error));
            return Ok(());
        }
    };
    let _ = ready.send(Ok(()));
    drop(ready);
    match go.recv() {
        Ok(()) => seat.serve(&mut driver, worker, make),
        Err(_) => Ok(()),
    }
}

impl<C: Send + 'static> Seat<C> {
    fn prepare<W, E>(
        &mut self,
        make: &impl Fn(WorkerThread<'_, C>) -> Result<W, E>,
    ) -> Result<(Driver, W), StartError<E>> {
        if let Some(core) = self.core
            && let Err(error) = pin_current_thread(core)
        {
            let (name, index) = (self.options.name, self.index);
            tracing::warn!(name, index, %error, "a worker cannot be kept on a core");
        }
        let mut driver = Driver::new(&self.options.driver)?;
        for door in self.doors.drain(..) {
            match door {
                Door::Listener(role, listener) => driver.add_listener(listener, role)?,
                Door::Datagrams(role, socket) => drop(driver.add_datagrams(socket, role)?),
            }
        }
        driver.keep();
        driver.beat(self.inbox.pulse());
        driver.add_waker(Token::COMMANDS, self.inbox.waker())?;
        let worker = make(self.thread(&mut driver, 0)).map_err(StartError::Handler)?;
        Ok((driver, worker))
    }

    fn thread<'a>(&'a self, driver: &'a mut Driver, restarts: u32) -> WorkerThread<'a, C> {
        WorkerThread {
            index: self.index,
            restarts,
            driver,
            inbox: &self.inbox,
        }
    }

    /// Runs handlers until one has finished, each after a panic of the one before.
    fn serve<W, E>(
        &self,
        driver: &mut Driver,
        worker: W,
        make: &impl Fn(WorkerThread<'_, C>) -> Result<W, E>,
    ) -> Result<(), WorkerError>
    where
        W: Worker<Command = C>,
        E: fmt::Display,
    {
        let (name, index) = (self.options.name, self.index);
        let mut worker = Some(worker);
        let mut commands = VecDeque::new();
        let mut restarts = 0;
        let mut pause = PAUSE_MIN;
        loop {
            let began = monotonic();
            let ran = catch_unwind(AssertUnwindSafe(|| {
                let worker = match &mut worker {
                    Some(worker) => worker,
                    none => none.insert(
                        make(self.thread(driver, restarts))
                            .map_err(|error| WorkerError::Handler(error.to_string()))?,
                    ),
                };
                driver.run(&mut Obeying {
                    worker,
                    inbox: &self.inbox,
                    commands: &mut commands,
                })?;
                Ok(())
            }));
            if let Ok(ended) = ran {
                if let Err(error) = &ended {
                    tracing::error!(name, index, %error, "a worker ends");
                }
                return ended;
            }
            // The panic hook has told of it already. Its cause may be in any of the handler's
            // state, so all of it goes, with the connections: those first, their peers wait.
            driver.begin_anew();
            // It is not dropped while unwinding: there a second panic would end the process.
            if catch_unwind(AssertUnwindSafe(|| drop(worker.take()))).is_err() {
                tracing::error!(
                    name,
                    index,
                    "a worker that panicked did so again in its end"
                );
            }
            if restarts == self.options.restarts_max {
                tracing::error!(name, index, restarts, "a worker panicked and ends");
                return Err(WorkerError::Panicked);
            }
            restarts += 1;
            if monotonic().since(began) >= WELL_AFTER {
                pause = PAUSE_MIN;
            }
            tracing::error!(
                name,
                index,
                restarts,
                ?pause,
                "a worker panicked and starts anew"
            );
            if pause == PAUSE_MAX {
                self.inbox.ails_until(monotonic() + pause + WELL_AFTER);
            }
            std::thread::sleep(pause);
            pause = PAUSE_MAX.min(2 * pause);
            driver.add_waker(Token::COMMANDS, self.inbox.waker())?;
            // For what came meanwhile, and for what the last one took and did not come to.
            self.inbox.waker().wake();
        }
    }
}

/// A worker as the driver sees it. Everything goes straight through but the commands.
struct Obeying<'a, W: Worker> {
    worker: &'a mut W,
    inbox: &'a Inbox<W::Command>,
    /// Taken from the inbox and not yet obeyed; outlives the handler.
    commands: &'a mut VecDeque<W::Command>,
}

impl<W: Worker> Handler for Obeying<'_, W> {
    #[inline]
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, now: Time) {
        self.worker.opened(port, accepted, now);
    }

    fn crowded(&mut self, port: &mut dyn Port, now: Time) {
        self.worker.crowded(port, now);
    }

    fn listeners_closed(&mut self) {
        self.worker.listeners_closed();
    }

    #[inline]
    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        self.worker.received(port, id, bytes, now);
    }

    #[inline]
    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        self.worker.ended(port, id, how, now);
    }

    #[inline]
    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.worker.writable(port, id, now);
    }

    #[inline]
    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.worker.connected(port, id, now);
    }

    #[inline]
    fn datagrams(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        datagrams: &[Datagram<'_>],
        now: Time,
    ) {
        self.worker.datagrams(port, socket, datagrams, now);
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        if token != Token::COMMANDS {
            return self.worker.notified(port, token, now);
        }
        self.inbox.take(self.commands);
        while let Some(command) = self.commands.pop_front() {
            self.worker.obey(port, command, now);
        }
    }

    #[inline]
    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.worker.tick(port, now);
    }

    #[inline]
    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.worker.idle(port, now);
    }

    #[inline]
    fn turn_ended(&mut self, now: Time) {
        self.worker.turn_ended(now);
    }

    #[inline]
    fn wake_at(&self) -> Option<Time> {
        self.worker.wake_at()
    }

    #[inline]
    fn finished(&self) -> bool {
        self.inbox.is_stopped() || self.worker.finished()
    }
}
