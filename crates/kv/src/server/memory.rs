//! The store, in memory or in the memory file, and what is left there at the end.

use crate::shared::{Clock, Settings};
use crate::store::{OpenError, Store, StoreOptions, Unkept};
use rhythm_net::clock;
use std::path::Path;

/// The store, and the second with which its clock goes on (0: any).
pub(super) fn store(
    settings: &Settings,
    options: StoreOptions,
    unix: u64,
) -> Result<(Store, u32), OpenError> {
    let Some(path) = &settings.memory_file else {
        return Ok((Store::new(options)?, 0));
    };
    let start = clock::monotonic();
    let (store, opened) = Store::open(options, path, unix)?;
    let file = path.display();
    match opened.items {
        Ok(items) => {
            let seconds = clock::monotonic().since(start).as_secs_f64();
            tracing::info!(%file, items, seconds, "the items of the memory file are there again");
        }
        Err(Unkept::New) => tracing::info!(%file, "the memory file is new: there are no items"),
        Err(why) => match opened.left {
            Some(items) => tracing::warn!(%file, items, "starting without the items there: {why}"),
            None => tracing::warn!(%file, "starting without items: {why}"),
        },
    }
    Ok((store, opened.now))
}

/// Leaves the items of a server whose threads have ended, in order or not, in its file, if it has
/// one, in this second of the calendar.
pub(super) fn leave(path: Option<&Path>, store: &Store, clock: Clock, in_order: bool, unix: u64) {
    let Some(path) = path else {
        return;
    };
    let file = path.display();
    if !in_order {
        tracing::warn!(%file, "the items are not kept: a thread has failed");
        return;
    }
    match store.leave_items(clock.now, unix) {
        Ok(kept) if kept.lost > 0 => {
            let (items, lost) = (kept.items, kept.lost);
            tracing::warn!(%file, items, lost, "the items are kept, but for some long values");
        }
        Ok(kept) => tracing::info!(%file, items = kept.items, "the items are kept"),
        Err(why) => tracing::error!(%file, "the items are not kept: {why}"),
    }
}
