//! Telling the store of all machines' sessions what cohorts' answers do to them, in batches, as
//! cohorts ask theirs.

use super::Backends;
use crate::backend::{Ask, Batch};
use crate::flight::telling::{StoreAnswer, Telling, What};
use crate::site::epoch::Epoch;
use rhythm_engine::cohort::{Argument, Queries};
use rhythm_net::{Port, Time};

impl Backends {
    /// Tells the store of an epoch's site all of this.
    pub(crate) fn tell_store(
        &mut self,
        port: &mut dyn Port,
        epoch: &Epoch,
        tellings: &mut Vec<Telling>,
        now: Time,
    ) {
        let Some(store) = &epoch.site.service.session_store else {
            unreachable!("nothing is to be told where sessions are not shared");
        };
        let backend = epoch.backends[store.backend];
        let slot = self.slots.get_mut(backend);
        let slot = slot.expect("the backends of a cohort's epoch are kept");
        slot.metrics.requests.add(tellings.len() as u64);
        let deadline = now + epoch.site.settings.backends[store.backend].timeout;
        let calls = [
            (What::Begins, &store.begin),
            (What::Changes, &store.change),
            (What::Ends, &store.end),
        ];
        for (what, call) in calls {
            let of_call = || tellings.iter().filter(|telling| telling.write.what == what);
            let bytes = |telling: &Telling| telling.write.key.len() + telling.write.record.len();
            let mut queries = Queries::new(of_call().map(bytes).sum());
            let (mut asks, mut order) = (Vec::new(), Vec::new());
            for (at, telling) in (0..).zip(of_call()) {
                let all = [&telling.write.key[..], &telling.write.record];
                let arguments = all.into_iter().take(call.form.arguments.len());
                let pushed = queries.push(at, arguments.map(Argument::Text));
                assert!(pushed, "there is as much room as they take");
                order.push(at);
                asks.push(Ask {
                    first: at as usize,
                    count: 1,
                    key: self.tellings.tell(telling, backend, now),
                    asker: telling.asker,
                });
            }
            if !asks.is_empty() {
                let batch = Batch {
                    fields: &[],
                    call,
                    queries: &queries,
                    order: &order,
                    asks: &asks,
                    step: 0,
                    deadline,
                };
                slot.backend.submit(port, batch, now);
            }
        }
        tellings.clear();
    }

    /// What the store has answered.
    pub(crate) fn next_answer_of_store(&mut self) -> Option<StoreAnswer> {
        self.tellings.next_answer()
    }
}
