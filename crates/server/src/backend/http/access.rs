//! Where a server is, and what it is shown.

use crate::backend::http_client::{BackendUrl, UrlError};
use crate::backend::kind::peers;
use crate::backend::located::Located;
use crate::backend::password::LoadedPassword;
use crate::backend::secured;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::Peer;
use rhythm_net::tls::{Begins, Connector};
use std::sync::Arc;

/// All that it takes to ask a server.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) url: BackendUrl,
    pub(super) token: LoadedPassword,
    /// What connections begin with, where they speak TLS.
    pub(super) tls: Option<Arc<Connector>>,
    /// Where the log is told of what fails.
    pub(super) words: Words,
}

/// What was found as services were loaded.
static LOCATED: Located<Access> = Located::new();

impl Access {
    /// Where a backend is by what its table says now, which is kept for those who open it later.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn locate(config: &BackendConfig) -> Result<Vec<Peer>, String> {
        let access = Access::of(config)?;
        let peers = peers(&access.url.place, access.tls.as_ref())?;
        let renew = |known: &Access, now: Access| known.token.renew(&now.token);
        LOCATED.put((config, &peers), access, renew);
        Ok(peers)
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
        let url: BackendUrl = parsed?;
        let protocols: &[&[u8]] = &[b"http/1.1"];
        let tls = secured::connector(
            config,
            url.speaks_tls,
            &url.place,
            protocols,
            Begins::AtOnce,
        )?;
        Ok(Access {
            url,
            tls,
            token: LoadedPassword::read(config, "token_file", None)?,
            words: Words::new(&config.name),
        })
    }
}
