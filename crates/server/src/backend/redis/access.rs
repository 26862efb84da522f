//! Where a server is, and as whom it is asked.

use crate::backend::address::{decoded, place};
use crate::backend::http_client::UrlPlace;
use crate::backend::located::Located;
use crate::backend::password::LoadedPassword;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use std::str::FromStr;
use std::sync::Arc;

/// The port of Redis.
const PORT: u16 = 6379;

/// What `url` says: `redis://USER@HOST:PORT/DB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: UrlPlace,
    pub(super) user: Option<String>,
    /// The number of the database.
    pub(super) database: u32,
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Address, &'static str> {
        let form = "it must be such as \"redis://HOST:6379/0\"";
        if url.starts_with("rediss://") {
            return Err("TLS is not spoken");
        }
        let rest = url.strip_prefix("redis://").ok_or(form)?;
        let (user, rest) = match rest.split_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err(
                    "a password does not belong into it: `password_file` names a file with it",
                );
            }
            Some((user, rest)) => (Some(decoded(user).ok_or(form)?), rest),
            None => (None, rest),
        };
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
            user,
            database,
        })
    }
}

/// All that it takes to open a connection.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) address: Address,
    pub(super) password: LoadedPassword,
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
        let renew = |known: &Access, now: Access| known.password.renew(&now.password);
        Ok(LOCATED.put(config, access, renew))
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
        let address = config.text("url").parse();
        Ok(Access {
            address: address.map_err(|why| format!("`url` is not understood: {why}"))?,
            password: LoadedPassword::read(config, "password_file")?,
            words: Words::new(&config.name),
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
        for (url, place, user, database) in [
            ("redis://cache", port("cache", 6379), None, 0),
            ("redis://cache/", port("cache", 6379), None, 0),
            (
                "redis://a%40b@[::1]:77/15",
                port("::1", 77),
                Some("a@b"),
                15,
            ),
            (
                "redis://%2Frun%2Fredis.sock/2",
                UrlPlace::Socket("/run/redis.sock".into()),
                None,
                2,
            ),
        ] {
            let expected = Address {
                place,
                user: user.map(str::to_owned),
                database,
            };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (url, why) in [
            ("http://cache", "such as"),
            ("rediss://cache", "TLS"),
            ("redis://", "such as"),
            ("redis://@cache", "such as"),
            ("redis://me:secret@cache/0", "password_file"),
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
