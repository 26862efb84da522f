//! Where a database is, and as whom it is asked.

use crate::backend::address::{decoded, host_and_port};
use crate::backend::http_client::UrlPlace;
use crate::backend::kind::peers;
use crate::backend::located::Located;
use crate::backend::password::{LoadedPassword, Password};
use crate::backend::secured;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::Peer;
use rhythm_net::tls::{Begins, Connector};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The port of PostgreSQL.
const PORT: u16 = 5432;

/// What a server is asked that is to speak TLS, before anything else is said (SSLRequest in its
/// protocol's message formats), and its one byte that agrees.
const ASKED: Begins = Begins::Asked {
    request: &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f],
    agrees: b'S',
};

/// What `url` says: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=MODE`, perhaps without a
/// password and a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: UrlPlace,
    pub(super) speaks_tls: bool,
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
        let (database, speaks_tls) = match database.split_once('?') {
            Some((database, option)) => (database, speaks_tls(option)?),
            None => (database, false),
        };
        if database.contains(['/', '#']) {
            return Err("nothing but ?sslmode=... may follow the database's name");
        }
        let (host, port) = host_and_port(host, PORT).ok_or(form)?;
        let place = match host.starts_with('/') {
            true => UrlPlace::Socket(Path::new(&host).join(format!(".s.PGSQL.{port}"))),
            false => UrlPlace::Port { host, port },
        };
        let name = |text| decoded(text).ok_or(form);
        Ok(Address {
            place,
            speaks_tls,
            user: name(user)?,
            password: password.map(name).transpose()?.map(Password),
            database: name(database)?,
        })
    }
}

/// Whether an address's option asks for TLS. Who asks for it gets all of it: where nobody looks at
/// the certificate, anybody may stand between.
fn speaks_tls(option: &str) -> Result<bool, &'static str> {
    match option {
        "sslmode=disable" => Ok(false),
        "sslmode=require" | "sslmode=verify-full" => Ok(true),
        "sslmode=verify-ca" => Err(
            "sslmode=verify-ca would take any server of the authority's for \
             this one: say verify-full",
        ),
        "sslmode=prefer" | "sslmode=allow" => Err("sslmode=prefer and allow would let anybody \
             between turn TLS off: say verify-full or disable"),
        _ => Err("nothing but ?sslmode=... may follow the database's name"),
    }
}

/// All that it takes to open a connection.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) address: Address,
    pub(super) password: LoadedPassword,
    /// What connections begin with, where they speak TLS.
    pub(super) tls: Option<Arc<Connector>>,
    pub(super) application_name: String,
    /// How long the server lets a statement take.
    pub(super) statement_timeout: Duration,
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
        let password = LoadedPassword::read(config, "password_file", of_url)?;
        let (speaks_tls, place) = (address.speaks_tls, &address.place);
        let tls = secured::connector(config, speaks_tls, place, &[], ASKED)?;
        // The server is to say so before the pool gives its connection up, which it would have to
        // open again.
        let statement_timeout = config.pool.timeout - config.pool.timeout / 16;
        Ok(Access {
            address,
            password,
            tls,
            application_name: config.text("application_name").to_owned(),
            statement_timeout,
            words: Words::of(config),
        })
    }

    /// One without files, for tests of what is said.
    #[cfg(test)]
    pub(super) fn for_tests(address: Address, password: Option<Password>) -> Access {
        Access {
            address,
            password: LoadedPassword::new(password),
            tls: None,
            application_name: "rhythm".to_owned(),
            statement_timeout: Duration::from_secs(2),
            words: Words::new("test"),
        }
    }

    /// Whether nobody else can hear what is said.
    pub(super) fn is_private(&self) -> bool {
        match &self.address.place {
            _ if self.tls.is_some() => true,
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
                "postgres://me@db/shop?sslmode=require",
                port("db", 5432),
                "me",
                None,
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
                speaks_tls: url.contains("require"),
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
            ("postgres://me@db/shop?sslmode=", "nothing but"),
            ("postgres://me@db/shop#x", "nothing but"),
            ("postgres://me@db/shop?sslmode=prefer", "say verify-full"),
            ("postgres://me@db/shop?sslmode=verify-ca", "say verify-full"),
        ] {
            let told = url.parse::<Address>().unwrap_err();
            assert!(told.contains(why), "{url}: {told}");
        }
    }
}
