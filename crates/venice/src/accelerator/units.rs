//! The accelerators of one kind, and who has one.
//!
//! Those that are shared are waited for in a line, where each borrower is once: a busy accelerator
//! goes round. Who waits is asked now and then whether it still does, and leaves the line if not.
//! One that a borrower has exclusively is taken out of it: it waits in front, for one job at most,
//! since it is told nothing meanwhile. As long as someone shares, the last one is not lent so; who
//! would share where none is left is refused, and waits for nothing that may never come.

use super::engine::Engine;
use super::request::Kind;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often who waits is asked whether it still does.
const BEAT: Duration = Duration::from_secs(2);

/// How a borrower has an accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// In turn with others.
    Shared,
    /// Alone, for as long as it is connected.
    Exclusive,
}

/// Accelerators of one kind.
#[derive(Debug)]
pub(super) struct Units {
    pub(super) kind: Kind,
    /// How many there are.
    all: usize,
    state: Mutex<State>,
    /// The line, or what is free, is another.
    turn: Condvar,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Engine>,
    /// Borrowers that have one, or wait for it.
    exclusive: usize,
    sharers: usize,
    line: VecDeque<u64>,
    next: u64,
}

impl Units {
    pub(super) fn new(kind: Kind, all: usize) -> Arc<Self> {
        let free = (0..all).map(|_| Engine::new(kind)).collect();
        let state = State {
            free,
            ..State::default()
        };
        Arc::new(Self {
            kind,
            all,
            state: Mutex::new(state),
            turn: Condvar::new(),
        })
    }

    /// What a poisoned lock guards is whole: nothing panics between its parts.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a borrower have one, in turn or alone. The latter waits until one is free, for as long
    /// as `waits` says that it does.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn join(
        self: &Arc<Self>,
        sharing: Sharing,
        waits: impl FnMut() -> Result<(), String>,
    ) -> Result<Member, String> {
        let (kind, all) = (self.kind, self.all);
        let mut state = self.lock();
        if state.exclusive == all {
            return Err(format!(
                "each of {all} accelerators for {kind} is lent exclusively: try later"
            ));
        }
        if sharing == Sharing::Shared {
            state.sharers += 1;
            drop(state);
            let units = Arc::clone(self);
            return Ok(Member { units, own: None });
        }
        let sharers = state.sharers;
        if state.exclusive + 1 == all && sharers > 0 {
            return Err(format!(
                "{sharers} borrowers share the last of {all} accelerators for {kind}, so it is \
                 not lent exclusively: share it, too, or have the donor offer more ({kind}=N)"
            ));
        }
        state.exclusive += 1;
        drop(state);
        let own = self.take(sharing, waits);
        if own.is_err() {
            self.lock().exclusive -= 1;
        }
        let (own, units) = (Some(own?), Arc::clone(self));
        Ok(Member { units, own })
    }

    /// Waits in the line, for as long as `waits` says so.
    ///
    /// # Errors
    /// What that says.
    fn take<E>(
        &self,
        sharing: Sharing,
        mut waits: impl FnMut() -> Result<(), E>,
    ) -> Result<Engine, E> {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        match sharing {
            Sharing::Shared => state.line.push_back(ticket),
            Sharing::Exclusive => state.line.push_front(ticket),
        }
        let mut asked = Instant::now();
        loop {
            if state.line.front() == Some(&ticket)
                && let Some(engine) = state.free.pop()
            {
                state.line.pop_front();
                self.turn.notify_all();
                return Ok(engine);
            }
            let left = BEAT.saturating_sub(asked.elapsed());
            if !left.is_zero() {
                let waited = self.turn.wait_timeout(state, left);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            let waits = waits();
            asked = Instant::now();
            state = self.lock();
            if let Err(error) = waits {
                state.line.retain(|other| *other != ticket);
                self.turn.notify_all();
                return Err(error);
            }
        }
    }

    fn give(&self, engine: Engine) {
        self.lock().free.push(engine);
        self.turn.notify_all();
    }

    /// How many wait in the line.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.lock().line.len()
    }
}

/// A borrower that has one, until it is dropped.
#[derive(Debug)]
pub(super) struct Member {
    units: Arc<Units>,
    /// The one that it has alone.
    own: Option<Engine>,
}

impl Member {
    /// Does something with its accelerator, or with one when it is its turn, for which it waits as
    /// long as `waits` says so.
    ///
    /// # Errors
    /// What that says.
    pub(super) fn with<R, E>(
        &mut self,
        waits: impl FnMut() -> Result<(), E>,
        act: impl FnOnce(&mut Engine) -> R,
    ) -> Result<R, E> {
        if let Some(engine) = self.own.as_mut() {
            return Ok(act(engine));
        }
        let mut turn = Turn {
            units: &self.units,
            engine: Some(self.units.take(Sharing::Shared, waits)?),
        };
        // One that there always is: it leaves with the turn.
        let fresh = || Engine::new(self.units.kind);
        Ok(act(turn.engine.get_or_insert_with(fresh)))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.units.lock();
        match self.own.take() {
            Some(engine) => {
                state.exclusive -= 1;
                state.free.push(engine);
            }
            None => state.sharers -= 1,
        }
        drop(state);
        self.units.turn.notify_all();
    }
}

/// A turn, which is over also where its job panics.
struct Turn<'a> {
    units: &'a Units,
    engine: Option<Engine>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            self.units.give(engine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    fn join(units: &Arc<Units>, sharing: Sharing) -> Result<Member, String> {
        units.join(sharing, || Ok(()))
    }

    fn take(units: &Units) -> Engine {
        let taken = units.take(Sharing::Shared, || Ok::<_, String>(()));
        taken.expect("it waits as long as it takes")
    }

    fn turn(member: &mut Member, act: impl FnOnce()) {
        let done = member.with(|| Ok::<_, String>(()), |_| act());
        done.expect("it waits as long as it takes");
    }

    #[test]
    fn who_waits_comes_in_turn_and_no_more_work_than_there_are() {
        let units = Units::new(Kind::Aes, 2);
        let (busy, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let mut held: Vec<_> = (0..2).map(|_| take(&units)).collect();
            for number in 0..100 {
                let (units, busy, most, order) = (&units, &busy, &most, &order);
                scope.spawn(move || {
                    let mut member = join(units, Sharing::Shared).expect("it is shared");
                    turn(&mut member, || {
                        order.lock().unwrap().push(number);
                        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        busy.fetch_sub(1, Ordering::SeqCst);
                    });
                });
                while units.waiting() <= number {
                    thread::sleep(Duration::from_micros(50));
                }
            }
            // With one of them, so that their order is that of the line.
            units.give(held.remove(0));
            while units.waiting() > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            units.give(held.remove(0));
        });
        assert_eq!(order.into_inner().unwrap(), (0..100).collect::<Vec<_>>());
        assert!(most.into_inner() <= 2);
        assert_eq!(units.lock().free.len(), 2);
        assert_eq!(units.lock().sharers, 0);
    }

    #[test]
    fn the_last_is_not_lent_exclusively_while_it_is_shared() {
        let units = Units::new(Kind::Fft, 2);
        let sharer = join(&units, Sharing::Shared).unwrap();
        let first = join(&units, Sharing::Exclusive).unwrap();
        let refused = join(&units, Sharing::Exclusive).unwrap_err();
        assert!(refused.contains("share the last of 2"), "{refused}");
        drop(sharer);
        let second = join(&units, Sharing::Exclusive).unwrap();
        for sharing in [Sharing::Shared, Sharing::Exclusive] {
            let refused = join(&units, sharing).unwrap_err();
            assert!(refused.contains("lent exclusively"), "{refused}");
        }
        drop(first);
        let mut sharer = join(&units, Sharing::Shared).unwrap();
        turn(&mut sharer, || ());
        drop((second, sharer));
        assert_eq!(units.lock().free.len(), 2);
    }

    #[test]
    fn a_job_that_panics_leaves_its_accelerator() {
        let units = Units::new(Kind::Aes, 1);
        let of_thread = Arc::clone(&units);
        let panicked = thread::spawn(move || {
            let mut member = join(&of_thread, Sharing::Shared).expect("it is shared");
            turn(&mut member, || panic!("on purpose"));
        });
        assert!(panicked.join().is_err());
        turn(&mut join(&units, Sharing::Shared).unwrap(), || ());
    }

    #[test]
    fn who_is_gone_leaves_the_line_and_who_wants_one_alone_comes_first() {
        let units = Units::new(Kind::Aes, 2);
        let held = [take(&units), take(&units)];
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let (units, order) = (&units, &order);
            let wait = |sharers| {
                while units.waiting() < sharers {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            let gone = scope.spawn(move || {
                let mut member = join(units, Sharing::Shared).unwrap();
                let mut asked = 0;
                let waits = || {
                    asked += 1;
                    if asked < 2 { Ok(()) } else { Err("gone") }
                };
                let done = member.with(waits, |_| ());
                (done, asked)
            });
            wait(1);
            scope.spawn(move || {
                let mut member = join(units, Sharing::Shared).unwrap();
                turn(&mut member, || order.lock().unwrap().push("shared"));
            });
            wait(2);
            scope.spawn(move || {
                let alone = join(units, Sharing::Exclusive).unwrap();
                order.lock().unwrap().push("alone");
                drop(alone);
            });
            wait(3);
            assert_eq!(gone.join().unwrap(), (Err("gone"), 2));
            assert_eq!(units.waiting(), 2);
            let refused = units.join(Sharing::Exclusive, || Ok(())).map(drop);
            assert!(refused.is_err(), "one is left to share");
            let [first, second] = held;
            units.give(first);
            wait_for(|| order.lock().unwrap().len() == 2);
            units.give(second);
        });
        assert_eq!(order.into_inner().unwrap(), ["alone", "shared"]);
        assert_eq!((units.waiting(), units.lock().free.len()), (0, 2));
    }

    fn wait_for(is_so: impl Fn() -> bool) {
        while !is_so() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
