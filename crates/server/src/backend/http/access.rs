//! Where a server is, and what it is shown.

use crate::backend::http_client::{BackendUrl, UrlError};
use crate::backend::located::Located;
use crate::backend::password::LoadedPassword;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use std::sync::Arc;

/// All that it takes to ask a server.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) url: BackendUrl,
    pub(super) token: LoadedPassword,
    /// Where the log is told of what fails.
    pub(super) words: Words,
}

/// What was found as services were loaded.
static LOCATED: Located<Access> = Located::new();

impl Access {
    /// What a backend's table says now, for those who open it later, too.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn locate(config: &BackendConfig) -> Result<Arc<Access>, String> {
        let access = Access::of(config)?;
        let renew = |known: &Access, now: Access| known.token.renew(&now.token);
        Ok(LOCATED.put(config, access, renew))
    }

    /// What was found as the service was loaded: a worker opens no file.
    ///
    /// # Errors
    /// Nothing was.
    pub(super) fn located(config: &BackendConfig) -> Result<Arc<Access>, String> {
        LOCATED.get(config)
    }

    /// What a backend's table says. It reads the file of the token.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn of(config: &BackendConfig) -> Result<Access, String> {
        let url = config.text("url");
        let shown = config.shown_text("url");
        let parsed = url
            .parse()
            .map_err(|why: UrlError| format!("{shown}: {why}"));
        Ok(Access {
            url: parsed?,
            token: LoadedPassword::read(config, "token_file", None)?,
            words: Words::new(&config.name),
        })
    }
}
