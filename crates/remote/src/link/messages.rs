//! What nodes say, and what comes of it.

use super::node::{Fit, LATER_AFTER, Phase};
use super::works::{Away, Remote};
use crate::wire::answer::{Answer, Asked};
use crate::wire::bytes::Wrong;
use crate::wire::frame::Broken;
use crate::wire::message::{self, Digest, Message};
use rhythm_engine::program::Service;
use rhythm_net::{Port, Time};
use std::sync::Arc;

impl Remote {
    /// Takes all messages that have come whole.
    pub(super) fn take_messages(&mut self, port: &mut dyn Port, index: usize, now: Time) {
        let mut input = self.nodes[index].take_input();
        loop {
            let most = self.nodes[index].message_max();
            let outcome = match message::next(&mut input, most) {
                Ok(None) => break,
                Ok(Some(Message::Corrupt)) => {
                    Err(self.corrupt(index, "what it was told is not what this end has said", now))
                }
                Ok(Some(message)) => self.take_message(port, index, message, now),
                Err(broken @ Broken::Checksum) => {
                    Err(self.corrupt(index, &broken.to_string(), now))
                }
                Err(Broken::Wrong(Wrong(why))) => Err(why.to_owned()),
            };
            if let Err(why) = outcome {
                return self.lose(port, index, &why, true, now);
            }
            // It may have been lost by what was to be sent to it.
            if self.nodes[index].connection.is_none() {
                return;
            }
        }
        self.nodes[index].give_input_back(input);
        if !self.nodes[index].flush(port) {
            self.lose(port, index, "its connection is gone", false, now);
        }
    }

    /// Bytes between the two ends were changed on their way. Why the node is not to be used.
    fn corrupt(&self, index: usize, why: &str, now: Time) -> String {
        self.figures.count_corrupt(index, why, now);
        why.to_owned()
    }

    /// Takes one.
    ///
    /// # Errors
    /// Why this node is not to be used.
    fn take_message(
        &mut self,
        port: &mut dyn Port,
        index: usize,
        message: Message<'_>,
        now: Time,
    ) -> Result<(), String> {
        let node = &mut self.nodes[index];
        match node.phase {
            Phase::Away { .. } => Ok(()),
            Phase::Greeted => node.greeted(message, &self.options),
            Phase::Proven { numbers, in_flight } => {
                node.proven(message, numbers, in_flight)?;
                self.figures.used(index, in_flight);
                for service in self.bundles.all() {
                    self.offer(port, &service, now);
                }
                Ok(())
            }
            Phase::Used { .. } => self.take_used(port, index, message, now),
        }
    }

    /// Takes a message of a node that takes works.
    fn take_used(
        &mut self,
        port: &mut dyn Port,
        index: usize,
        message: Message<'_>,
        now: Time,
    ) -> Result<(), String> {
        let node = &mut self.nodes[index];
        node.answered();
        match message {
            Message::Pong => Ok(()),
            Message::Send { digest } => {
                // Once: it could ask for more than it takes.
                let fit = node.services.get_mut(&digest);
                let Some(Fit::Offered(bundle)) = fit.map(|fit| std::mem::replace(fit, Fit::Sent))
                else {
                    return Err("it asks for what it was not offered".to_owned());
                };
                node.say(Message::Sources {
                    bytes: &bundle.bytes,
                });
                Ok(())
            }
            Message::Ready { digest, programs } => {
                let fit = self.ready(index, &digest, programs)?;
                self.nodes[index].services.insert(digest, fit);
                Ok(())
            }
            Message::Unfit { digest, why } => {
                node.refuses(&digest, Fit::Unfit)?;
                let service = self.name_of(&digest);
                self.figures.unfit(index, &service, why);
                Ok(())
            }
            Message::Later { digest, why } => {
                node.refuses(&digest, Fit::Later(now + LATER_AFTER))?;
                let service = self.name_of(&digest);
                self.figures.later(index, &service, why);
                Ok(())
            }
            Message::Done { token, answer } => self.take_answer(index, token, answer, now),
            Message::Declined { token, is_unknown } => {
                let away = self.take_away(index, token)?;
                self.figures.count_declined(index);
                let services = &mut self.nodes[index].services;
                // Works that went together come back together: it is offered again once.
                if is_unknown && matches!(services.get(&away.digest), Some(Fit::Ready)) {
                    // It has forgotten it for others.
                    services.remove(&away.digest);
                    let service = Arc::clone(&away.work.service);
                    self.offer(port, &service, now);
                }
                self.again(port, away, now);
                Ok(())
            }
            _ => Err("it says what only a front end says".to_owned()),
        }
    }

    /// Whether what a node has compiled is what was compiled here.
    fn ready(&mut self, index: usize, digest: &Digest, programs: Digest) -> Result<Fit, String> {
        let known = match self.nodes[index].services.get(digest) {
            Some(Fit::Offered(_) | Fit::Sent) => self.bundles.all(),
            _ => return Err("it has what it was not offered".to_owned()),
        };
        let mut found = known
            .iter()
            .filter_map(|service| self.bundles.find(service));
        let own = found.find(|(bundle, _)| bundle.digest == *digest);
        match own {
            Some((_, own)) if own != programs => {
                let service = self.name_of(digest);
                let why = "it has compiled the pages to something else than this end: both ends \
                           must be the same build, and backends of the kinds in service.toml";
                self.figures.unfit(index, &service, why);
                Ok(Fit::Unfit)
            }
            // Of one that nobody serves any more no cohort comes.
            _ => Ok(Fit::Ready),
        }
    }

    fn name_of(&self, digest: &Digest) -> String {
        let all = self.bundles.all();
        let is_it = |service: &&Arc<Service>| {
            let found = self.bundles.find(service);
            found.is_some_and(|(bundle, _)| bundle.digest == *digest)
        };
        let found = all.iter().find(is_it);
        found.map_or_else(String::new, |service| service.config.service.name.clone())
    }

    /// Takes a work back that a node has.
    fn take_away(&mut self, index: usize, token: u64) -> Result<Away, String> {
        let is_there = self.away.get(&token).is_some_and(|away| away.node == index);
        let away = is_there.then(|| self.away.remove(&token)).flatten();
        let away = away.ok_or("it answers what it was not asked")?;
        self.nodes[index].under_way -= 1;
        Ok(away)
    }

    fn take_answer(
        &mut self,
        index: usize,
        token: u64,
        answer: &[u8],
        now: Time,
    ) -> Result<(), String> {
        let not_asked = "it answers what it was not asked";
        let away = self.away.get(&token).filter(|away| away.node == index);
        let away = away.ok_or(not_asked)?;
        let work = &away.work;
        let asked = Asked {
            service: &work.service,
            page: work.page,
            stage: work.cohort.stage,
            lanes: away.lanes.len(),
            may_say: &away.may_say,
        };
        let read = Answer::of(asked, answer);
        let read = read.map_err(|Wrong(why)| format!("it answers wrongly: {why}"))?;
        let Away {
            mut work, lanes, ..
        } = self.take_away(index, token)?;
        let known = self.known(&work.service);
        let stage = (work.page, work.cohort.stage);
        let known = &mut self.known[known];
        let ran = read.lanes_run();
        let is_whole = ran == lanes.len();
        if is_whole {
            // Where some are left, nothing is said of those that are always late.
            known.late.remove(&stage);
        }
        match known.in_passes.get_mut(&stage) {
            Some(before) => *before = ran,
            None if is_whole => {}
            None => drop(known.in_passes.insert(stage, ran)),
        }
        read.apply(&mut work.cohort, &lanes);
        self.figures.count_done(index);
        self.nodes[index].did_well(now);
        self.done.push(work);
        Ok(())
    }
}
