//! Values that do not stand in `service.toml`, since not everybody who reads it is to know them: of
//! the environment, by `${NAME}`, or of files.

use super::definition::Mistake;
use super::key::{BackendKey, Setting};
use crate::diagnostic::has_password;
use std::fmt;
use std::path::Path;

/// Where such values come from: by default there are none.
#[derive(Clone, Copy, Debug)]
pub struct Outside {
    /// The value of a variable of the environment; an error says why there is none.
    pub variable: fn(&str) -> Result<String, String>,
    /// The first line of a file; an error says why it cannot be read.
    pub first_line: fn(&Path) -> Result<String, String>,
}

impl Default for Outside {
    fn default() -> Outside {
        Outside {
            variable: |_| Err("is not set".to_owned()),
            first_line: |_| Err("there are no files".to_owned()),
        }
    }
}

/// The value of a key of a backend, and how it was written if that is another: what is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The value.
    pub value: Setting,
    /// What stands in its place where it came from outside: the key that was written, and its
    /// value.
    pub written: Option<(String, String)>,
}

/// How a secret is made.
pub(crate) const MAKE_SECRET: &str = "`openssl rand -hex 32` makes one, for all machines the same";

/// A secret that all who serve a service have in common. Nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Fewer bytes could be guessed.
    const BYTES_MIN: usize = 32;

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Outside {
    /// The value of a key as it is written, with variables in place of their names.
    ///
    /// # Errors
    /// There is no such variable, or a password is written, or the key may not have that value. No
    /// message has a value in it.
    pub fn given(self, key: &BackendKey, written: &str) -> Result<Given, Mistake> {
        let value = self.expand(written)?;
        let Some(value) = value else {
            if has_password(written) {
                return Err(Mistake {
                    message: "a password is not to stand here, where many can read it".to_owned(),
                    hint: format!(
                        "`{key} = \"${{NAME}}\"` is a variable of the environment, and \
                         `{key}_file` names a file",
                        key = key.name
                    ),
                });
            }
            return key.checked(key.read(written.to_owned())?);
        };
        let as_written = (key.name.to_owned(), written.to_owned());
        key.checked_outside(value, as_written, written)
    }

    /// The value of a key that is the first line of a file in this folder: `KEY_file` says which.
    ///
    /// # Errors
    /// The file cannot be read, or the key may not have that value.
    pub fn of_file(self, key: &BackendKey, folder: &Path, file: &str) -> Result<Given, Mistake> {
        let path = folder.join(file);
        let line = (self.first_line)(&path).map_err(|why| Mistake {
            message: format!("cannot read {}: {why}", path.display()),
            hint: "its first line is the value".to_owned(),
        })?;
        let as_written = (format!("{}_file", key.name), file.to_owned());
        key.checked_outside(line, as_written, &path.to_string_lossy())
    }

    /// The secret of a service: of a variable, `${NAME}`, or of a file in this folder, of which one
    /// at most is given. None where neither is.
    ///
    /// # Errors
    /// It is not there, or too short to be one. No message has it in it.
    pub(crate) fn secret(
        self,
        variable: &str,
        folder: &Path,
        file: Option<&Path>,
    ) -> Result<Option<Secret>, Mistake> {
        let (secret, from) = match (self.expand(variable)?, file) {
            (Some(_), Some(_)) => {
                let message = "there are both `secret` and `secret_file`";
                return Err(Mistake::new(message, "remove one of them"));
            }
            (Some(secret), None) => (secret, variable.to_owned()),
            (None, Some(file)) => {
                let path = folder.join(file);
                let line = (self.first_line)(&path).map_err(|why| {
                    let message = format!("cannot read {}: {why}", path.display());
                    Mistake::new(
                        message,
                        format!("its first line is the secret; {MAKE_SECRET}"),
                    )
                })?;
                (line, path.display().to_string())
            }
            (None, None) => return Ok(None),
        };
        match secret.len() < Secret::BYTES_MIN {
            true => Err(Mistake::new(
                format!(
                    "the secret of {from} is too short: it has less than {} bytes",
                    Secret::BYTES_MIN
                ),
                MAKE_SECRET,
            )),
            false => Ok(Some(Secret(secret))),
        }
    }

    /// The text with variables in place of their names, if it names any.
    fn expand(self, text: &str) -> Result<Option<String>, Mistake> {
        if !text.contains("${") {
            return Ok(None);
        }
        let mut pieces = text.split("${");
        let mut value = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let is_name = |name: &str| {
                let mut bytes = name.bytes();
                let first = bytes.next();
                first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
                    && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            let ended = piece.split_once('}').filter(|(name, _)| is_name(name));
            let Some((name, rest)) = ended else {
                return Err(Mistake {
                    message: "`${` is the beginning of a variable's name".to_owned(),
                    hint: "such as \"${DATABASE_URL}\"".to_owned(),
                });
            };
            value += &(self.variable)(name).map_err(|why| Mistake {
                message: format!("the variable {name} of the environment {why}"),
                hint: format!("start rhythm with it: {name}=..."),
            })?;
            value += rest;
        }
        Ok(Some(value))
    }
}

impl BackendKey {
    /// The value, if the key may have it.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn checked(&self, value: Setting) -> Result<Given, Mistake> {
        match (self.check)(&value) {
            true => Ok(Given {
                value,
                written: None,
            }),
            false => Err(self.mistake(self.wrong.to_owned())),
        }
    }

    /// The same of a value that came from outside, from there.
    fn checked_outside(
        &self,
        value: String,
        written: (String, String),
        from: &str,
    ) -> Result<Given, Mistake> {
        let value = self.read(value)?;
        match (self.check)(&value) {
            true => Ok(Given {
                value,
                written: Some(written),
            }),
            false => Err(self.mistake(format!("{} (the value of {from})", self.wrong))),
        }
    }

    /// A text as a value of the key's type.
    fn read(&self, text: String) -> Result<Setting, Mistake> {
        match self.default {
            Setting::Text(_) => Ok(Setting::Text(text)),
            Setting::Int(_) => match text.parse() {
                Ok(value) => Ok(Setting::Int(value)),
                Err(_) => Err(self.is_none("an integer")),
            },
        }
    }

    /// The value is not even of the key's type.
    pub(crate) fn is_none(&self, wanted: &str) -> Mistake {
        self.mistake(format!("`{}` must be {wanted}", self.name))
    }

    fn mistake(&self, message: String) -> Mistake {
        let hint = match self.default {
            _ if !self.hint.is_empty() => self.hint.to_owned(),
            Setting::Text(default) => format!("the default is \"{default}\""),
            Setting::Int(default) => format!("the default is {default}"),
        };
        Mistake { message, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: BackendKey = BackendKey {
        name: "url",
        about: "",
        default: Setting::Text("made://nowhere"),
        check: |url| url.text().starts_with("made://"),
        wrong: "this is no address",
        hint: "such as \"made://host\"",
    };

    fn outside() -> Outside {
        Outside {
            variable: |name| match name {
                "URL" => Ok("made://me:secret@host".to_owned()),
                "PASSWORD" => Ok("secret".to_owned()),
                "EMPTY" => Ok(String::new()),
                _ => Err("is not set".to_owned()),
            },
            first_line: |path| match path.to_str() {
                Some("/run/url") => Ok("made://me:secret@host".to_owned()),
                Some("/run/other") => Ok("secret".to_owned()),
                _ => Err("no such file".to_owned()),
            },
        }
    }

    #[test]
    fn a_secret_is_long_and_of_one_place() {
        let outside = Outside {
            variable: |name| Ok(name.repeat(8)),
            first_line: |path| match path.to_str() {
                Some("/srv/secret") => Ok("a".repeat(32)),
                Some("/srv/short") => Ok("a".repeat(31)),
                _ => Err("no such file".to_owned()),
            },
        };
        let secret = |variable: &str, file: Option<&str>| {
            let secret = outside.secret(variable, Path::new("/srv"), file.map(Path::new));
            secret.map(|secret| secret.map(|secret| secret.bytes().to_vec()))
        };
        assert_eq!(secret("", None), Ok(None));
        assert_eq!(secret("", Some("secret")), Ok(Some(vec![b'a'; 32])));
        assert_eq!(secret("${ABCD}", None), Ok(Some(b"ABCD".repeat(8))));
        for (variable, file, told) in [
            ("", Some("short"), "the secret of /srv/short is too short"),
            ("", Some("none"), "cannot read /srv/none: no such file"),
            ("${ABC}", None, "the secret of ${ABC} is too short"),
            ("${ABCD}", Some("secret"), "there are both"),
        ] {
            let mistake = secret(variable, file).unwrap_err();
            assert!(mistake.message.contains(told), "{mistake:?}");
            assert!(!mistake.hint.is_empty());
            assert!(!format!("{mistake:?}").contains("aaa"), "{mistake:?}");
        }
    }

    #[test]
    fn variables_stand_in_place_of_their_names() {
        let value = |written: &str| outside().given(&KEY, written);
        for (written, value_of_it) in [
            ("${URL}", "made://me:secret@host"),
            (
                "made://me:${PASSWORD}@host/${EMPTY}x",
                "made://me:secret@host/x",
            ),
        ] {
            let given = value(written).unwrap();
            assert_eq!(given.value.text(), value_of_it);
            assert_eq!(given.written, Some(("url".to_owned(), written.to_owned())));
        }
        let plain = value("made://me@host").unwrap();
        assert_eq!(plain.written, None);
    }

    #[test]
    fn what_is_wrong_is_told_without_the_value() {
        for (written, told) in [
            (
                "${OTHER}",
                "the variable OTHER of the environment is not set",
            ),
            ("${", "a variable's name"),
            ("${}", "a variable's name"),
            ("${9}", "a variable's name"),
            ("${A B}", "a variable's name"),
            ("${URL", "a variable's name"),
            (
                "${PASSWORD}",
                "this is no address (the value of ${PASSWORD})",
            ),
            ("none", "this is no address"),
            ("made://me:secret@host", "a password is not to stand here"),
            ("made://:p@ss@host/x", "a password is not to stand here"),
        ] {
            let mistake = outside().given(&KEY, written).unwrap_err();
            assert!(mistake.message.contains(told), "{written}: {mistake:?}");
            assert!(!format!("{mistake:?}").contains("secret"), "{mistake:?}");
        }
        let of_file = |name: &str| outside().of_file(&KEY, Path::new("/run"), name);
        for name in ["other", "none"] {
            let mistake = of_file(name).unwrap_err();
            assert!(
                mistake.message.contains(&format!("/run/{name}")),
                "{mistake:?}"
            );
            assert!(!format!("{mistake:?}").contains("secret"), "{mistake:?}");
        }
        let given = of_file("url").unwrap();
        assert_eq!(
            given.written,
            Some(("url_file".to_owned(), "url".to_owned()))
        );
    }
}
