//! Where a database is, and as whom it is asked.

use crate::backend::address::{decoded, host_and_port};
use crate::backend::http_client::UrlPlace;
use crate::backend::located::Located;
use crate::backend::password::{LoadedPassword, Password};
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The port of PostgreSQL.
const PORT: u16 = 5432;

/// What `url` says: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, perhaps without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: UrlPlace,
    pub(super) user: String,
    pub(super) password: Option<Password>,
    pub(super) database: String,
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Address, &'static str> {
        let form = "it must be such as \"postgres://USER@HOST:5432/DATABASE\"";
        let rest = (url.strip_prefix("postgres://")).or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or(form)?;
        let (user, rest) = rest
            .split_once('@')
            .ok_or("it must name a user, before an @")?;
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (user, None),
        };
        let (host, database) = rest
            .split_once('/')
            .ok_or("it must name a database, behind a /")?;
        if database.contains(['/', '?', '#']) {
            return Err("nothing may follow the database's name");
        }
        let (host, port) = host_and_port(host, PORT).ok_or(form)?;
        let place = match host.starts_with('/') {
            true => UrlPlace::Socket(Path::new(&host).join(format!(".s.PGSQL.{port}"))),
            false => UrlPlace::Port { host, port },
        };
        let name = |text| decoded(text).ok_or(form);
        Ok(Address {
            place,
            user: name(user)?,
            password: password.map(name).transpose()?.map(Password),
            database: name(database)?,
        })
    }
}

/// All that it takes to open a connection.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) address: Address,
    pub(super) password: LoadedPassword,
    pub(super) application_name: String,
    /// How long the server lets a statement take.
    pub(super) statement_timeout: Duration,
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
        let address = config.text("url").parse::<Address>();
        let address = address.map_err(|why| format!("`url` is not understood: {why}"))?;
        let of_url = address.password.clone();
        let password = LoadedPassword::read(config, "password_file", of_url)?;
        // The server is to say so before the pool gives its connection up, which it would have to
        // open again.
        let statement_timeout = config.pool.timeout - config.pool.timeout / 16;
        Ok(Access {
            address,
            password,
            application_name: config.text("application_name").to_owned(),
            statement_timeout,
            words: Words::new(&config.name),
        })
    }

    /// One without files, for tests of what is said.
    #[cfg(test)]
    pub(super) fn for_tests(address: Address, password: Option<Password>) -> Access {
        Access {
            address,
            password: LoadedPassword::new(password),
            application_name: "rhythm".to_owned(),
            statement_timeout: Duration::from_secs(2),
            words: Words::new("test"),
        }
    }

    /// Whether nobody else can hear what is said.
    pub(super) fn is_local(&self) -> bool {
        match &self.address.place {
            UrlPlace::Socket(_) => true,
            UrlPlace::Port { host, .. } => {
                let address = host.parse::<IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host: &str, port: u16) -> UrlPlace {
        let host = host.to_owned();
        UrlPlace::Port { host, port }
    }

    #[test]
    fn addresses_are_understood() {
        for (url, place, user, password, database) in [
            (
                "postgres://me@db/shop",
                port("db", 5432),
                "me",
                None,
                "shop",
            ),
            (
                "postgres://me:a%40%3Ab:c@db/shop",
                port("db", 5432),
                "me",
                Some("a@:b:c"),
                "shop",
            ),
            (
                "postgresql://a%40b@[::1]:77/x%2Fy",
                port("::1", 77),
                "a@b",
                None,
                "x/y",
            ),
            (
                "postgres://me@%2Frun%2Fpg:6000/shop",
                UrlPlace::Socket("/run/pg/.s.PGSQL.6000".into()),
                "me",
                None,
                "shop",
            ),
        ] {
            let expected = Address {
                place,
                user: user.to_owned(),
                password: password.map(|password| Password(password.to_owned())),
                database: database.to_owned(),
            };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (url, why) in [
            ("http://me@db/shop", "such as"),
            ("postgres://db/shop", "a user"),
            ("postgres://me:@db/shop", "such as"),
            ("postgres://me@db", "a database"),
            ("postgres://me@db/", "such as"),
            ("postgres://@db/shop", "such as"),
            ("postgres://me@/shop", "such as"),
            ("postgres://me@db:0/shop", "such as"),
            ("postgres://me@db:x/shop", "such as"),
            ("postgres://me@[::1/shop", "such as"),
            ("postgres://me@db%zz/shop", "such as"),
            (
                "postgres://me@db/shop?sslmode=require",
                "nothing may follow",
            ),
        ] {
            let told = url.parse::<Address>().unwrap_err();
            assert!(told.contains(why), "{url}: {told}");
        }
    }
}
