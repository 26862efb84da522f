//! What was found of backends as services were loaded, for workers, which open no file.

use rhythm_engine::settings::BackendConfig;
use std::sync::{Arc, Mutex, PoisonError};

/// What was found of the backends of a kind.
pub(super) struct Located<T>(Mutex<Vec<(BackendConfig, Arc<T>)>>);

impl<T> Located<T> {
    pub(super) const fn new() -> Located<T> {
        Located(Mutex::new(Vec::new()))
    }

    /// Keeps what was found now; what was found before, by those who have it, is renewed by it.
    pub(super) fn put(
        &self,
        config: &BackendConfig,
        found: T,
        renew: impl FnOnce(&T, T),
    ) -> Arc<T> {
        let mut located = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = located.iter().find(|(known, _)| known == config) {
            renew(known, found);
            return known.clone();
        }
        let found = Arc::new(found);
        located.push((config.clone(), found.clone()));
        found
    }

    /// What was found as the service was loaded.
    ///
    /// # Errors
    /// Nothing was.
    pub(super) fn get(&self, config: &BackendConfig) -> Result<Arc<T>, String> {
        let located = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = located.iter().find(|(known, _)| known == config);
        let found = found.map(|(_, found)| found.clone());
        found.ok_or_else(|| "it was not looked up".to_owned())
    }
}
