//! Flags that say where backends are, or of which kind, in place of service.toml.

use anyhow::{Result, bail};
use rhythm_engine::kind::BackendKind;
use rhythm_engine::settings::{BackendConfig, BackendKey, Given, Outside, Section};
use rhythm_engine::source::Sources;
use rhythm_server::backend::kinds;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BackendArgs {
    /// Where a backend is: http://HOST:PORT/PATH, or "embedded"; or another database, such as
    /// postgres://USER@HOST/DATABASE. NAME.KEY=VALUE sets another key of its table, in which paths
    /// are relative to the service's folder
    #[arg(long = "backend", value_name = "NAME=URL", value_parser = parse)]
    backends: Vec<(String, String)>,
}

fn parse(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("give NAME=URL, such as shop=postgres://me@127.0.0.1/shop".to_owned()),
    }
}

impl BackendArgs {
    /// Puts them in the place of what service.toml says, before pages are compiled: their
    /// statements are tried where they will be asked. Of `count` services these are the sources of
    /// those that could be read: each flag is for the one that has the backend. Of a service.toml
    /// with mistakes what flags make of it is not told: those are, when it is compiled.
    pub(crate) fn apply(&self, sources: &mut [&mut Sources], count: usize) -> Result<()> {
        let kinds = kinds();
        let (declared, mistaken): (Vec<Vec<BackendConfig>>, Vec<bool>) = (sources.iter())
            .map(|sources| sources.declared_backends(&kinds))
            .unzip();
        // Addresses first: they say of which kind a backend is, and so which keys it has.
        let is_key = |name: &str| declared.iter().flatten().all(|it| it.name != name);
        let mut flags: Vec<&(String, String)> = self.backends.iter().collect();
        flags.sort_by_key(|(name, _)| is_key(name));
        for (name, value) in flags {
            let given = format!("--backend {name}={}", without_password(value));
            let found = |declared: &[BackendConfig]| {
                let known = |name: &str| declared.iter().position(|it| it.name == name);
                let with_key = || {
                    let (of, key) = name.rsplit_once('.')?;
                    Some((known(of)?, key))
                };
                known(name).map(|it| (it, "url")).or_else(with_key)
            };
            let mut found = (declared.iter().enumerate())
                .filter_map(|(of, declared)| found(declared).map(|(at, key)| (of, at, key)));
            let Some((of, at, key)) = found.next() else {
                if sources.len() < count || mistaken.contains(&true) {
                    // Perhaps one has it that could not be read.
                    continue;
                }
                let mut names: Vec<&str> = declared.iter().flatten().map(|b| &*b.name).collect();
                if names.is_empty() {
                    names.push("none");
                }
                let (what, they) = match count {
                    1 => ("service.toml has no backend", "it has"),
                    _ => ("no service has a backend", "they have"),
                };
                bail!("{given}: {what} {name}; {they}: {}", names.join(", "));
            };
            if found.next().is_some() {
                bail!(
                    "{given}: several services have such a backend; say it in service.toml of the \
                     one that is meant, perhaps as ${{NAME}}, a variable of the environment"
                );
            }
            let (sources, backend) = (&mut sources[of], &declared[of][at]);
            let entry = sources.backends.entry(backend.name.clone());
            let backend = entry.or_insert_with(|| backend.clone());
            match set(backend, key, value, &kinds, sources.outside) {
                Err(why) if !mistaken[of] => bail!("{given}: {why}"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A value as it is shown: without the password of a URL.
fn without_password(value: &str) -> String {
    let begin = value.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = value.split_at(begin);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some(at) = rest[..end].rfind('@') else {
        return value.to_owned();
    };
    match rest[..at].split_once(':') {
        Some((user, _)) => format!("{scheme}{user}:***{}", &rest[at..]),
        None => value.to_owned(),
    }
}

/// Sets a key of a backend's table. An address of another kind that is asked in the same way makes
/// it one of that kind.
fn set(
    backend: &mut BackendConfig,
    key: &str,
    value: &str,
    kinds: &[BackendKind],
    outside: Outside,
) -> Result<(), String> {
    let mut of_all = backend.pool.definitions().iter();
    if let Some(definition) = of_all.find(|definition| definition.key == key) {
        let value = definition
            .read_flag(value)
            .map_err(|wrong| format!("{}: {}", wrong.message, wrong.hint))?;
        backend.pool.set(definition.key, value);
        return Ok(());
    }
    let Some(kind) = kinds.iter().find(|kind| kind.name == backend.kind) else {
        return Err("service.toml does not say its kind".to_owned());
    };
    let found = |kind: &BackendKind| kind.keys.iter().find(|known| known.name == key).copied();
    let mut wrong = match read(found(kind), value, outside) {
        Ok((key, given)) => {
            backend.flags.add(&backend.name, key);
            backend.give(key, given);
            return Ok(());
        }
        Err(wrong) => wrong,
    };
    let alike = |other: &&BackendKind| other.asks == kind.asks && key == "url";
    for other in kinds.iter().filter(alike) {
        let (key, given) = match read(found(other), value, outside) {
            Ok(read) => read,
            Err(why) => {
                wrong = wrong.or(why);
                continue;
            }
        };
        backend.kind = other.name;
        backend.written.clear();
        backend.own = (other.keys.iter())
            .map(|key| (key.name, key.default.owned()))
            .collect();
        // In service.toml the table is one of the other kind, which has no such keys.
        for key in other.keys {
            backend.flags.add(&backend.name, key.name);
        }
        backend.give(key, given);
        return Ok(());
    }
    Err(wrong.unwrap_or_else(|| {
        let of_all = backend.pool.definitions().iter();
        let own = kind.keys.iter().map(|known| known.name);
        let keys: Vec<&str> = own.chain(of_all.map(|definition| definition.key)).collect();
        let keys = keys.join(", ");
        format!(
            "a backend of kind {} has no {key}; it has: {keys}",
            kind.name
        )
    }))
}

/// The value of a key; what is wrong with it, or nothing where there is no such key.
fn read(
    key: Option<BackendKey>,
    value: &str,
    outside: Outside,
) -> Result<(&'static str, Given), Option<String>> {
    let key = key.ok_or(None)?;
    let given = outside.given(&key, value);
    let given = given.map_err(|wrong| Some(format!("{}; {}", wrong.message, wrong.hint)))?;
    Ok((key.name, given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_engine::settings::{PoolSettings, Setting};
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    #[test]
    fn a_password_is_not_shown_and_what_a_mistaken_file_lacks_is_none_of_the_flags_mistakes() {
        for (value, shown) in [
            ("postgres://me:hunter2@host/db", "postgres://me:***@host/db"),
            (
                "postgres://me:p@ss:w@host?x=@",
                "postgres://me:***@host?x=@",
            ),
            ("redis://:secret@host", "redis://:***@host"),
            ("me:secret@host/x", "me:***@host/x"),
            ("http://host/a:b@c", "http://host/a:b@c"),
            ("postgres://me@host/db", "postgres://me@host/db"),
        ] {
            assert_eq!(without_password(value), shown);
        }
        let apply = |text: &str, flags: &[&str]| {
            let mut sources = Sources::default();
            (sources.files).insert("service.toml".to_owned(), text.to_owned());
            let backends = flags.iter().map(|flag| parse(flag).expect("NAME=URL"));
            let flags = BackendArgs {
                backends: backends.collect(),
            };
            flags
                .apply(&mut [&mut sources], 1)
                .map_err(|why| why.to_string())
        };
        let there = ["kept=redis://127.0.0.1"];
        for mistaken in [
            "[backend.kept]\nkind = \"redis\"\nurl = \"redis://:secret@127.0.0.1\"",
            "[backend.kept]\nkind = \"rediss\"",
            "[backend.kept]\nkind = \"redis\"\n[service]\nname = \"shop",
        ] {
            assert_eq!(apply(mistaken, &there), Ok(()), "{mistaken}");
        }
        let of_another = [
            "shop.application_name=ours",
            "shop=postgres://shop@127.0.0.1/shop",
        ];
        let file = "[backend.shop]\nkind = \"sqlite\"\nfile = \"shop.db\"";
        assert_eq!(apply(file, &of_another), Ok(()), "whichever comes first");
        let none = apply("", &there).expect_err("no backend");
        assert!(none.contains("no backend kept; it has: none"), "{none}");
        let sealed = "[backend.kept]\nkind = \"redis\"";
        let told = apply(sealed, &["kept=redis://me:hunter2@127.0.0.1"]).expect_err("a password");
        assert!(
            told.contains("a password is not to stand here") && !told.contains("hunter2"),
            "{told}"
        );
    }

    #[test]
    fn keys_of_all_kinds_those_of_one_and_another_kind() {
        let kinds = kinds();
        let mut shop = BackendConfig {
            name: "shop".to_owned(),
            kind: "sqlite",
            folder: PathBuf::new(),
            pool: PoolSettings::default(),
            own: [("file", Setting::Text("shop.db".to_owned()))].into(),
            written: BTreeMap::new(),
            flags: Default::default(),
        };
        let outside = Outside {
            variable: |_| Ok("postgres://me:secret@127.0.0.1/shop".to_owned()),
            ..Outside::default()
        };
        let mut set = |key: &str, value: &str| set(&mut shop, key, value, &kinds, outside);
        assert_eq!(set("connections_max", "64"), Ok(()));
        assert_eq!(set("timeout", "5s"), Ok(()));
        assert_eq!(set("file", "other.db"), Ok(()));
        let wrong = set("connections_max", "many").expect_err("no number");
        assert!(wrong.contains("1 to 1024"), "{wrong}");
        let unknown = set("color", "red").expect_err("no such key");
        let told = "a backend of kind sqlite has no color; it has: file, schema, data, ";
        assert!(unknown.starts_with(told), "{unknown}");
        assert!(unknown.contains(", timeout, "), "{unknown}");
        assert!(set("url", "carrier-pigeon://there").is_err());
        let refused = set("url", "postgres://me:secret@127.0.0.1/shop").expect_err("a password");
        assert!(
            refused.contains("${NAME}") && !refused.contains("secret"),
            "{refused}"
        );
        assert_eq!(set("url", "${URL}"), Ok(()));
        assert!(set("file", "other.db").is_err());
        let told = shop.flags.told("name a file as `password_file`");
        assert_eq!(told, "name a file as `--backend shop.password_file=...`");
        // What all kinds have is kept.
        assert_eq!((shop.kind, shop.pool.connections_max), ("postgres", 64));
        assert_eq!(shop.pool.timeout.as_secs(), 5);
        assert!(shop.text("url").contains("secret"));
        let shown = format!("{shop:?}");
        assert!(
            shown.contains("url = \"${URL}\"") && !shown.contains("secret"),
            "{shown}"
        );
    }
}
