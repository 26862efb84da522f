//! Where a server is, and as whom it is asked.

use crate::backend::address::{decoded, place};
use crate::backend::http_client::UrlPlace;
use crate::backend::kind::peers;
use crate::backend::located::Located;
use crate::backend::password::{LoadedPassword, Password};
use crate::backend::secured;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::Peer;
use rhythm_net::tls::{Begins, Connector};
use std::str::FromStr;
use std::sync::Arc;

/// The port of Redis.
const PORT: u16 = 6379;

/// What `url` says: `redis://USER:PASSWORD@HOST:PORT/DB`, where all but the host may be absent, or
/// `rediss://...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: UrlPlace,
    pub(super) speaks_tls: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    /// The number of the database.
    pub(super) database: u32,
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Address, &'static str> {
        let form = "it must be such as \"redis://HOST:6379/0\"";
        let (rest, speaks_tls) = match url.strip_prefix("redis://") {
            Some(rest) => (rest, false),
            None => (url.strip_prefix("rediss://").ok_or(form)?, true),
        };
        let (user, password, rest) = match rest.split_once('@') {
            Some((user, rest)) => match user.split_once(':') {
                // The user that there is where nobody has made others.
                Some(("", password)) => (None, Some(password), rest),
                Some((user, password)) => (Some(user), Some(password), rest),
                None => (Some(user), None, rest),
            },
            None => (None, None, rest),
        };
        let name = |text| decoded(text).ok_or(form);
        let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| form)?
            }
            _ => return Err("behind the / stands the number of a database, and nothing else"),
        };
        Ok(Address {
            place: place(host, PORT).ok_or(form)?,
            speaks_tls,
            user: user.map(name).transpose()?,
            password: password.map(name).transpose()?.map(Password),
            database,
        })
    }
}

/// All that it takes to open a connection.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) address: Address,
    pub(super) password: LoadedPassword,
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
        let peers = peers(&access.address.place, access.tls.as_ref())?;
        let renew = |known: &Access, now: Access| known.password.renew(&now.password);
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

    /// What a backend's table says. It reads the file of the password.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn of(config: &BackendConfig) -> Result<Access, String> {
        let address = config.text("url").parse::<Address>();
        let address = address.map_err(|why| format!("`url` is not understood: {why}"))?;
        let of_url = address.password.clone();
        let (speaks_tls, place) = (address.speaks_tls, &address.place);
        let tls = secured::connector(config, speaks_tls, place, &[], Begins::AtOnce)?;
        Ok(Access {
            address,
            tls,
            password: LoadedPassword::read(config, "password_file", of_url)?,
            words: Words::of(config),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood() {
        let port = |host: &str, port| UrlPlace::Port {
            host: host.to_owned(),
            port,
        };
        for (url, place, user, password, database) in [
            ("redis://cache", port("cache", 6379), None, None, 0),
            ("redis://cache/", port("cache", 6379), None, None, 0),
            ("rediss://cache/", port("cache", 6379), None, None, 0),
            (
                "redis://:a%3A%2F@cache",
                port("cache", 6379),
                None,
                Some("a:/"),
                0,
            ),
            (
                "redis://a%40b@[::1]:77/15",
                port("::1", 77),
                Some("a@b"),
                None,
                15,
            ),
            (
                "redis://%2Frun%2Fredis.sock/2",
                UrlPlace::Socket("/run/redis.sock".into()),
                None,
                None,
                2,
            ),
        ] {
            let expected = Address {
                place,
                speaks_tls: url.starts_with("rediss"),
                user: user.map(str::to_owned),
                password: password.map(|password: &str| Password(password.to_owned())),
                database,
            };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (url, why) in [
            ("http://cache", "such as"),
            ("redisss://cache", "such as"),
            ("redis://", "such as"),
            ("redis://@cache", "such as"),
            ("redis://me:@cache/0", "such as"),
            ("redis://cache:0", "such as"),
            ("redis://cache/x", "number of a database"),
            ("redis://cache/99999999999", "such as"),
            ("redis://cache/0?timeout=1", "nothing else"),
        ] {
            let told = url.parse::<Address>().unwrap_err();
            assert!(told.contains(why), "{url}: {told}");
        }
    }
}
