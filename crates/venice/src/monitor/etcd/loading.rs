//! What is kept, as who comes to lead reads it.

use super::rows::{self, HEAD, Head, LOANS};
use crate::monitor::keeper::State;
use rhythm_etcd::{EtcdError, Store};

/// Loans that are read at a time.
const PAGE: usize = 1000;

/// Why what is kept cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// etcd does not answer, or refuses.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// What stands there.
    #[error(
        "the key {0:?} in etcd is none of a monitor's: say another prefix, or put back what was \
         there"
    )]
    Damaged(String),
    /// It took longer than whoever reads it leads.
    #[error(
        "etcd answers so slowly that the lease is over before all is read: give it a longer one \
         (--lease)"
    )]
    Late,
}

/// All that is kept. Only who leads reads it: nobody changes it meanwhile. `still` has it go on
/// leading, and is called before each page.
///
/// # Errors
/// It cannot be read, or `still` fails.
pub(super) fn load<S: Store>(
    store: &mut S,
    mut still: impl FnMut(&mut S) -> Result<(), LoadError>,
) -> Result<(State, Loaded), LoadError> {
    let text = store.get(HEAD)?.0.map(|entry| entry.value);
    let head = match &text {
        Some(text) => Head::read(text).ok_or_else(|| LoadError::Damaged(HEAD.to_owned()))?,
        None => Head::default(),
    };
    let mut state = State {
        last: head.last,
        ..State::default()
    };
    let mut behind = None;
    loop {
        still(store)?;
        let (entries, has_more) = store.page(LOANS, behind.as_deref(), PAGE)?;
        for entry in &entries {
            let kept = rows::read(&entry.key, &entry.value);
            let kept = kept.filter(|kept| kept.loan.0 <= head.last);
            let kept = kept.ok_or_else(|| LoadError::Damaged(entry.key.clone()))?;
            state.loans.insert(kept.loan, kept);
        }
        behind = entries.into_iter().next_back().map(|entry| entry.key);
        if !has_more || behind.is_none() {
            return Ok((state, Loaded { head, text }));
        }
    }
}

/// Up to where was read, or kept.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The last one that was read or asked for.
    pub(super) head: Head,
    /// The one that stands there; none: there was none yet.
    pub(super) text: Option<String>,
}
