//! Where a database is, and as whom it is asked.

use crate::backend::http_client::UrlPlace;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use rhythm_protocol::http::uri;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The port of PostgreSQL.
const PORT: u16 = 5432;

/// What `url` says: `postgres://USER@HOST:PORT/DATABASE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: UrlPlace,
    pub(super) user: String,
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
        if user.contains(':') {
            return Err("a password does not belong into it: `password_file` names a file with it");
        }
        let (host, database) = rest
            .split_once('/')
            .ok_or("it must name a database, behind a /")?;
        if database.contains(['/', '?', '#']) {
            return Err("nothing may follow the database's name");
        }
        let (host, port) = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(form)?,
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port != 0)
            }
            None if port.is_empty() => Some(PORT),
            _ => None,
        };
        let (port, host) = (port.ok_or(form)?, decoded(host).ok_or(form)?);
        let place = match host.starts_with('/') {
            true => UrlPlace::Socket(Path::new(&host).join(format!(".s.PGSQL.{port}"))),
            false => UrlPlace::Port { host, port },
        };
        let name = |text| decoded(text).ok_or(form);
        let (user, database) = (name(user)?, name(database)?);
        Ok(Address {
            place,
            user,
            database,
        })
    }
}

/// What a percent-encoded part stands for; `None` where it is nothing that a name can be.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    uri::decode(part.as_bytes(), &mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    (!text.is_empty() && !text.contains('\0')).then_some(text)
}

/// A password, which nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Password(pub(super) String);

/// Most bytes of a file with a password.
const PASSWORD_FILE_MAX: u64 = 4096;

impl Password {
    /// The first line of a file.
    fn read(path: &Path) -> io::Result<Password> {
        let mut text = String::new();
        let file = File::open(path)?;
        file.take(PASSWORD_FILE_MAX).read_to_string(&mut text)?;
        let line = text.lines().next().unwrap_or_default();
        match line.is_empty() {
            true => Err(io::Error::other("its first line is empty")),
            false => Ok(Password(line.to_owned())),
        }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a password")
    }
}

/// All that it takes to open a connection.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) address: Address,
    /// As its file had it when the service was loaded last, for connections from then on.
    password: Mutex<Option<Password>>,
    pub(super) application_name: String,
    /// How long the server lets a statement take.
    pub(super) statement_timeout: Duration,
    /// Where the log is told of what fails.
    pub(super) words: Words,
}

/// What was found as services were loaded.
static LOCATED: Mutex<Vec<(BackendConfig, Arc<Access>)>> = Mutex::new(Vec::new());

impl Access {
    /// What a backend's table says now, for those who open it later, too.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn locate(config: &BackendConfig) -> Result<Arc<Access>, String> {
        let access = Access::of(config)?;
        let mut located = LOCATED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = located.iter().find(|(known, _)| known == config) {
            let mut password = known
                .password
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *password = access.password();
            return Ok(known.clone());
        }
        let access = Arc::new(access);
        located.push((config.clone(), access.clone()));
        Ok(access)
    }

    /// What was found as the service was loaded: a worker opens no file.
    ///
    /// # Errors
    /// Nothing was.
    pub(super) fn located(config: &BackendConfig) -> Result<Arc<Access>, String> {
        let located = LOCATED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = located.iter().find(|(known, _)| known == config);
        let access = found.map(|(_, access)| access.clone());
        access.ok_or_else(|| "it was not looked up".to_owned())
    }

    /// What a backend's table says. It reads the file of the password.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn of(config: &BackendConfig) -> Result<Access, String> {
        let address = config.text("url").parse();
        let address = address.map_err(|why| format!("`url` is not understood: {why}"))?;
        let password = match config.text("password_file") {
            "" => None,
            file => {
                let path = config.folder.join(file);
                let password = Password::read(&path).map_err(|why| {
                    format!("cannot read `password_file`, {}: {why}", path.display())
                })?;
                Some(password)
            }
        };
        // The server is to say so before the pool gives its connection up, which it would have to
        // open again.
        let statement_timeout = config.pool.timeout - config.pool.timeout / 16;
        Ok(Access {
            address,
            password: Mutex::new(password),
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
            password: Mutex::new(password),
            application_name: "rhythm".to_owned(),
            statement_timeout: Duration::from_secs(2),
            words: Words::new("test"),
        }
    }

    /// The password, if there is one.
    pub(super) fn password(&self) -> Option<Password> {
        let password = self.password.lock().unwrap_or_else(PoisonError::into_inner);
        password.clone()
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
        for (url, place, user, database) in [
            ("postgres://me@db/shop", port("db", 5432), "me", "shop"),
            (
                "postgresql://a%40b@[::1]:77/x%2Fy",
                port("::1", 77),
                "a@b",
                "x/y",
            ),
            (
                "postgres://me@%2Frun%2Fpg:6000/shop",
                UrlPlace::Socket("/run/pg/.s.PGSQL.6000".into()),
                "me",
                "shop",
            ),
        ] {
            let expected = Address {
                place,
                user: user.to_owned(),
                database: database.to_owned(),
            };
            assert_eq!(url.parse(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn a_password_is_the_first_line_of_a_file() {
        let path = std::env::temp_dir().join(format!("rhythm-password-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Password::read(&path).map(|password| password.0)
        };
        assert_eq!(read(" a b \r\nmore\n").unwrap(), " a b ");
        assert!(read("\nmore").is_err());
        std::fs::remove_file(&path).unwrap();
        // One without an end.
        assert!(Password::read(Path::new("/dev/zero")).is_ok());
        assert!(Password::read(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (url, why) in [
            ("http://me@db/shop", "such as"),
            ("postgres://db/shop", "a user"),
            ("postgres://me:secret@db/shop", "password_file"),
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
