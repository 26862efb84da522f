//! Settings: what is written reads back, in all values; former keys and wrong values are told where
//! they stand; docs/settings.md says what the definitions say.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance;
use rhythm_engine::settings::{
    Definition, ListenAt, Origin, PoolSettings, ProxySettings, ServiceConfig, SettingKind, Value,
    document,
};
use rhythm_engine::source::Sources;
use std::path::Path;
use std::time::Duration;

/// Reads a service.toml.
fn read(toml: &str) -> Result<ServiceConfig, String> {
    let mut sources = Sources::default();
    let files = &mut sources.files;
    files.insert("service.toml".to_owned(), toml.to_owned());
    match compile(&sources, conformance::BESIM) {
        Ok(service) => Ok(service.config),
        Err(found) => {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            Err(found.join("\n"))
        }
    }
}

/// Every setting, with its table.
fn all() -> Vec<(&'static str, &'static Definition)> {
    let config = ServiceConfig::default();
    let sections = config.sections().into_iter();
    let definitions = sections.flat_map(|section| {
        let definitions = section.definitions().iter();
        definitions.map(move |definition| (section.name(), definition))
    });
    definitions.collect()
}

/// Any place to listen at.
fn place() -> impl Strategy<Value = ListenAt> {
    let tcp = any::<([u8; 4], u16)>();
    prop_oneof![
        tcp.prop_map(|(host, port)| ListenAt::Tcp((host, port).into())),
        "[a-z/.:\\\"]{1,20}".prop_map(|path| ListenAt::Unix(path.into())),
    ]
}

/// Any value that a setting can have.
fn value(definition: &'static Definition) -> BoxedStrategy<Value> {
    let some = match definition.rule.kind {
        SettingKind::Count(least, most) | SettingKind::Bytes(least, most) => {
            (least..=most).prop_map(Value::Number).boxed()
        }
        SettingKind::Duration(least) => ((least.as_nanos() as u64..)
            .prop_map(Duration::from_nanos))
        .prop_map(Value::Duration)
        .boxed(),
        SettingKind::Choice(words) => (select(words).prop_map(str::to_owned))
            .prop_map(Value::Text)
            .boxed(),
        SettingKind::Switch => any::<bool>().prop_map(Value::Switch).boxed(),
        SettingKind::Address => place().prop_map(Value::Address).boxed(),
        SettingKind::Addresses => vec(place(), 1..4)
            .prop_filter("each once", |all| {
                (1..all.len()).all(|at| !all[..at].contains(&all[at]))
            })
            .prop_map(Value::Addresses)
            .boxed(),
        SettingKind::File => "[^\u{0}]{5,20}".prop_map(Value::Text).boxed(),
        SettingKind::Text(read) => {
            let zones = "Europe/(Berlin|Paris)|Asia/Tokyo";
            let modes = "[0-7]{3}";
            let others = "[0-9]{1,2}%|http://[a-z]{1,5}:[1-9][0-9]{1,3}|10[.]0[.]0[.]0/8 unix";
            let texts = prop_oneof![
                "[a-z_-]{1,9}",
                "/[^/]{0,9}",
                zones,
                modes,
                others,
                any::<String>()
            ];
            (texts.prop_filter_map("refused", move |text| read(text).ok()))
                .prop_map(Value::Text)
                .boxed()
        }
        SettingKind::Map(check) => {
            let types = ["int", "bool", "text(7)"].map(str::to_owned);
            let entry = prop_oneof![
                ("/.{0,9}", any::<String>()),
                ("[a-z][a-z0-9_]{0,9}", select(types.to_vec())),
            ];
            let is_right = move |(name, text): &(String, String)| check(name, Some(text)).is_ok();
            (vec(entry, 0..8))
                .prop_map(move |all| Value::Map(all.into_iter().filter(is_right).collect()))
                .boxed()
        }
    };
    match definition.rule.none {
        Some(_) if definition.may_be_none() => prop_oneof![some, Just(Value::None)].boxed(),
        Some(_) => prop_oneof![some, Just(Value::Number(0))].boxed(),
        None => some,
    }
}

/// The same, but for those that lead outside of service.toml, or to another table.
fn of_itself((_, definition): (&'static str, &'static Definition)) -> BoxedStrategy<Value> {
    match ["store", "secret", "secret_file"].contains(&definition.key) {
        true => Just((definition.default)()).boxed(),
        false => value(definition),
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        values in all().into_iter().map(of_itself).collect::<Vec<_>>()
    ) {
        let mut config = ServiceConfig::default();
        for ((table, definition), value) in all().into_iter().zip(values) {
            config.set(table, definition, value, Origin::File);
        }
        let toml = config.to_toml();
        match read(&toml) {
            Ok(same) => prop_assert_eq!(same, config),
            Err(mistakes) => prop_assert!(false, "{}\n{}", mistakes, toml),
        }
    }
}

#[test]
fn the_defaults_are_what_their_definitions_allow() {
    let defaults = ServiceConfig::default();
    let read = read(&defaults.to_toml()).expect("the defaults can be read");
    for (of_read, of_defaults) in read.sections().iter().zip(defaults.sections()) {
        for definition in of_read.definitions() {
            let value = of_read.get(definition.key);
            assert_eq!(value, of_defaults.get(definition.key), "{}", definition.key);
            assert_eq!(value, (definition.default)(), "{}", definition.key);
        }
    }
}

#[test]
fn backends_are_written_as_they_read_back() {
    let compiled = |toml: String| {
        let mut sources = Sources::default();
        sources.files.insert("service.toml".to_owned(), toml);
        compile(&sources, conformance::BESIM).expect("it is right")
    };
    let written = "[backend.bank]\nkind = \"besim\"\nusers = 7\nstraggler_delay = \"3ms\"\n\
                   [backend.\"an \\\"other\\\"\"]\nkind = \"besim\"\nretries_max = 4\n";
    let backends = compiled(written.to_owned()).backends;
    assert_eq!(backends.len(), 2);
    let delays: Vec<_> = (backends.iter().map(|backend| backend.pool.straggler_delay)).collect();
    let said = [3, 1].map(Duration::from_millis);
    assert!(said.iter().all(|delay| delays.contains(delay)));
    let toml: String = backends.iter().map(|backend| backend.to_toml()).collect();
    assert_eq!(compiled(toml).backends, backends);
}

#[test]
fn every_setting_says_what_it_does_and_no_two_share_a_flag() {
    let mut flags = Vec::new();
    for (table, definition) in all() {
        let (key, about) = (definition.key, definition.about.trim());
        assert!(about.ends_with('.'), "{table}.{key}: {about}");
        flags.extend(definition.rule.flag);
        let is_limit = matches!(definition.rule.kind, SettingKind::Bytes(..));
        assert!(!is_limit || key.contains("bytes"), "{table}.{key}");
    }
    let count = flags.len();
    flags.sort_unstable();
    flags.dedup();
    assert_eq!(flags.len(), count);
}

#[test]
fn former_keys_are_refused_with_their_new_names() {
    let former = all().into_iter().filter_map(|(table, definition)| {
        let was = definition.rule.was?;
        Some((table, was, definition.key))
    });
    let former: Vec<_> = former.collect();
    assert!(!former.is_empty());
    for (table, was, now) in former {
        let mistakes = read(&format!("[{table}]\n{was} = 1\n")).expect_err("it is gone");
        let expected = format!(
            "service.toml:2:1: error: unknown key `{was}`\n  2 | {was} = 1\n    | ^\n  \
             hint: it is called `{now}` now"
        );
        assert_eq!(mistakes, expected);
    }
}

#[test]
fn wrong_values_are_told_where_they_stand() {
    for (line, place, message) in [
        (
            "[cohort]\nsize = 0",
            "2:8",
            "`size` must be from 1 to 65536",
        ),
        (
            "[cohort]\nsize = 0x1_0001",
            "2:8",
            "`size` must be from 1 to 65536",
        ),
        (
            "[cohort]\nsize = \"many\"",
            "2:9",
            "`size` must be an integer",
        ),
        (
            "[cohort]\ndelay = 2",
            "2:9",
            "`delay` must be a duration in quotes",
        ),
        ("[server]\npin = 1", "2:7", "`pin` must be true or false"),
        (
            "[server]\nlisten = \"here\"",
            "2:11",
            "`listen` must be an IP address and a port, or `unix:` and a path",
        ),
        (
            "[server]\nlisten = \"[::1]:80 unix:\"",
            "2:11",
            "`listen` must be an IP address and a port, or `unix:` and a path",
        ),
        (
            "[server]\nlisten = \"unix:/a [::1]:80 unix:/a\"",
            "2:11",
            "`listen` has unix:/a twice",
        ),
        (
            "[server]\nsocket_mode = \"rw\"",
            "2:16",
            "`socket_mode` must be permissions in octal",
        ),
        (
            "[static]\nmount = \"files\"",
            "2:10",
            "`mount` must begin with `/`",
        ),
        (
            "[static]\nindex = \"/home\"",
            "2:10",
            "`index` must be a table",
        ),
        (
            "[static]\nindex = { \"/\" = 1 }",
            "2:12",
            "`index` maps paths that begin with `/` to others",
        ),
        (
            "[session]\ncookie = \"a b\"",
            "2:11",
            "this is no cookie name",
        ),
    ] {
        let mistakes = read(line).expect_err(line);
        let expected = format!("service.toml:{place}: error: {message}\n");
        assert!(mistakes.starts_with(&expected), "{mistakes}");
        assert!(mistakes.contains("\n  hint: "), "no cure: {mistakes}");
    }
}

#[test]
fn every_setting_tells_the_cure_of_what_it_cannot_be() {
    for (table, definition) in all() {
        let key = definition.key;
        // A list is no value of any setting.
        for wrong in ["[1]", "\"\\u0000 no such value\"", "-1"] {
            let taken = match wrong {
                "-1" => false,
                "[1]" => false,
                // Some take any text.
                _ => matches!(
                    definition.rule.kind,
                    SettingKind::Text(_) | SettingKind::File
                ),
            };
            let Err(mistakes) = read(&format!("[{table}]\n{key} = {wrong}\n")) else {
                assert!(taken, "{table}.{key} = {wrong}");
                continue;
            };
            assert!(mistakes.contains("\n  hint: "), "{table}.{key}: {mistakes}");
        }
    }
    for (line, cure) in [
        (
            "[server]\nworkers = 2000",
            "0, the default, means one a core",
        ),
        ("[session]\nsessions_max = 0", "the default is 262144"),
        (
            "[limits]\nbody_bytes_max = -1",
            "the default is 65536 bytes",
        ),
        ("[cohort]\ndelay = 2", "such as \"2ms\""),
        ("[cohort]\npolicy = 2", "\"work-conserving\" or \"fixed\""),
    ] {
        let mistakes = read(line).expect_err(line);
        assert!(mistakes.contains(cure), "{mistakes}");
    }
}

#[test]
fn a_reload_keeps_what_needs_a_restart_and_names_it() {
    let started = read("[cohort]\nsize = 5\n[limits]\nheaders_max = 20").expect("it is right");
    let changed = read("[cohort]\nsize = 6\n[limits]\nheaders_max = 30").expect("it is right");
    let (config, kept) = started.reloaded(&changed);
    assert_eq!(kept, ["cohort.size"]);
    assert_eq!((config.cohort.size, config.limits.headers_max), (5, 30));
    assert_eq!(config.origin("cohort", "size"), Origin::File);
    assert_eq!(config.origin("cohort", "delay"), Origin::Default);
    // The old value stands, and goes on standing.
    assert_eq!(config.reloaded(&changed).1, ["cohort.size"]);
}

/// Before and behind the tables that docs/settings.md has from the definitions.
const MARKS: [&str; 2] = ["<!-- made from the definitions -->\n", "<!-- end -->"];

#[test]
fn the_documentation_has_every_setting() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let text = std::fs::read_to_string(&path).expect("docs/settings.md can be read");
    let config = ServiceConfig::default();
    let backend = PoolSettings::default();
    let mut tables = config.sections().map(document::section).to_vec();
    tables.push(document::section(&backend));
    tables.push(document::section(&ProxySettings::default()));
    let tables = tables.join("\n");
    let (before, rest) = text.split_once(MARKS[0]).expect("the tables begin");
    let (old, behind) = rest.split_once(MARKS[1]).expect("the tables end");
    if old.trim() == tables.trim() {
        return;
    }
    if std::env::var_os("RHYTHM_WRITE_DOCS").is_some() {
        let text = format!("{before}{}\n{tables}\n{}{behind}", MARKS[0], MARKS[1]);
        std::fs::write(&path, text).expect("docs/settings.md can be written");
        return;
    }
    panic!(
        "docs/settings.md is out of date; write it anew with \
         RHYTHM_WRITE_DOCS=1 cargo test -p rhythm-engine --test settings"
    );
}
