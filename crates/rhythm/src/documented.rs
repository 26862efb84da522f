//! What the documents have one type is understood: each command line by what reads flags, each
//! table of service.toml by what loads it.

use super::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use rhythm_engine::compile::compile;
use rhythm_engine::settings::ServiceConfig;
use rhythm_engine::source::Sources;
use rhythm_server::backend::kinds;

/// A document's name and text.
macro_rules! documents {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../", $name)))),*]
    };
}

const DOCUMENTS: &[(&str, &str)] = &documents!(
    "CONTRIBUTING.md" "HACKING.md" "README.md" "SECURITY.md"
    "docs/backends.md" "docs/devices.md" "docs/gpu.md" "docs/kv.md" "docs/kv-keyspace.md"
    "docs/kv-load.md" "docs/kv-ring.md" "docs/operations.md" "docs/packages.md" "docs/pages.md"
    "docs/proxy.md" "docs/rpo.md" "docs/scale.md" "docs/settings.md" "docs/stability.md"
    "docs/tutorial.md" "docs/venice.md" "docs/venice-monitor.md"
    "crates/bench/peers/php-bookstore/README.md" "crates/rpo/modules/apache/README.md"
    "crates/rpo/modules/nginx/README.md" "services/bookstore/README.md"
    "services/fortunes/README.md"
);

/// The indented blocks of a text between empty lines: where each begins, and its lines.
fn blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("    "), goes_on) {
            (Some(line), true) => blocks.last_mut().expect("it began").1.push(line),
            (Some(line), false) => blocks.push((number, vec![line])),
            (None, _) => {}
        }
        goes_on = line.starts_with("    ");
    }
    blocks
}

/// The text between pairs of `, outside of blocks: where each begins, in one line.
fn spans(text: &str) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    let mut number = 1;
    for paragraph in text.split_inclusive("\n\n") {
        let mut at = number;
        for (index, part) in paragraph.split('`').enumerate() {
            if index % 2 == 1 && !paragraph.starts_with("    ") {
                spans.push((at, part.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
            at += part.matches('\n').count();
        }
        number += paragraph.matches('\n').count();
    }
    spans
}

/// The command lines of ours in a block: where each begins, its words, and whether they are only
/// named: what follows two spaces tells of them.
fn commands(block: &(usize, Vec<&str>)) -> Vec<(usize, String, bool)> {
    let mut commands = Vec::new();
    let mut lines = (block.0..).zip(&block.1);
    while let Some((number, line)) = lines.next() {
        let mut whole = line.trim().to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            let next = lines.next().map_or("", |(_, line)| line.trim());
            whole = format!("{} {next}", whole.trim_end());
        }
        let (whole, about) = whole.split_once("  ").unwrap_or((&whole, ""));
        for (at, _) in whole.match_indices("rhythm ") {
            let (before, command) = whole.split_at(at);
            let is_begun = ["$ ", "; ", "do ", "sudo ", "bin/", "release/"];
            let is_begun = is_begun.iter().any(|it| before.ends_with(it));
            // `ip netns exec NAME rhythm`, and a shell's function of HACKING.md.
            let is_run = before.split_whitespace().rev().nth(1) == Some("exec");
            let is_run = is_run || before.starts_with("first ");
            let ends = [" #", " &", " |", " >", ";", ")"];
            let ends = ends.iter().filter_map(|end| command.find(end)).min();
            let command = &command[..ends.unwrap_or(command.len())];
            // What a program says begins with its name, too, or has its version.
            let is_said = command.split(' ').nth(1).is_none_or(|word| {
                word.ends_with(':') || word.starts_with(|first: char| first.is_ascii_digit())
            });
            if (before.is_empty() || is_begun || is_run) && !is_said {
                commands.push((number, command.to_owned(), !about.is_empty()));
            }
        }
    }
    commands
}

/// A word in which this stands for each placeholder: `HOST:PORT`, `N`, `$pid`.
fn filled(word: &str, by: &str) -> String {
    let is_of = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_:.,".contains(c);
    let is_placeholder = |part: &str| {
        let is_capital = part.starts_with(|c: char| c.is_ascii_uppercase());
        part.starts_with('$') || is_capital && part.chars().all(is_of)
    };
    let parts = word.split('=').map(|part| match is_placeholder(part) {
        true => by,
        false => part,
    });
    parts.collect::<Vec<_>>().join("=")
}

/// Why a command is not understood, if it is not. Of one that is only named, or of which a part is
/// left out (`...`), something may be missing.
fn refusal(command: &str, is_named: bool) -> Option<String> {
    let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    let is_part = is_named || words.contains(&"...");
    let mut refusal = None;
    let fillings = [
        "1",
        "127.0.0.1:1",
        "http://127.0.0.1:1",
        "5s",
        "service",
        "bash",
    ];
    for by in std::iter::once(None).chain(fillings.map(Some)) {
        let words = words.iter().filter(|word| **word != "...").map(|word| {
            let word = word
                .trim_end_matches("...")
                .trim_matches(['[', ']', '\'', '"']);
            by.map_or_else(|| word.to_owned(), |by| filled(word, by))
        });
        let Err(error) = Cli::try_parse_from(words) else {
            return None;
        };
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                if is_part =>
            {
                return None;
            }
            _ => refusal = refusal.or(Some(error.to_string())),
        }
    }
    refusal
}

#[test]
fn each_command_of_the_documents_is_understood() {
    let mut wrong = Vec::new();
    let mut understood = 0;
    for (name, text) in DOCUMENTS {
        let typed: Vec<_> = blocks(text).iter().flat_map(commands).collect();
        let named = spans(text).into_iter();
        let named = named.filter(|(_, span)| span.starts_with("rhythm "));
        let named = named.map(|(line, span)| (line, span, true));
        for (line, command, is_named) in typed.into_iter().chain(named) {
            match refusal(&command, is_named) {
                None => understood += 1,
                Some(why) => wrong.push(format!("{name}:{line}: {command}\n{why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(understood > 200, "only {understood} were found");
    // What is wrong is found.
    for command in [
        "rhythm kv --no-such",
        "rhythm serv DIR",
        "rhythm load URL --sessions many",
    ] {
        assert!(refusal(command, true).is_some(), "{command}");
    }
}

/// A text of service.toml, where it may be one: tables that are not another file's.
fn service_toml(block: &(usize, Vec<&str>)) -> Option<String> {
    let first = block.1.iter().find(|line| !line.starts_with('#'))?;
    let table = first.strip_prefix('[')?.trim_start_matches('[');
    let table = table.split([']', '.']).next()?;
    let is_one = table == "backend" || table == "proxy" || {
        let config = ServiceConfig::default();
        let sections = config.sections();
        sections.iter().any(|section| section.name() == table)
    };
    is_one.then(|| block.1.join("\n"))
}

/// Why this cannot be a service's settings. That a file or a variable is not there is none: an
/// example's are its reader's.
fn mistakes(toml: String) -> Option<String> {
    let mut sources = Sources::default();
    sources.files.insert("service.toml".to_owned(), toml);
    let mut mistakes = compile(&sources, &kinds()).err()?;
    let absent = ["cannot read ", "the variable ", "there is no pages/"];
    mistakes.retain(|it| !absent.iter().any(|words| it.message.starts_with(words)));
    (!mistakes.is_empty()).then(|| format!("{mistakes:#?}"))
}

#[test]
fn each_table_of_the_documents_can_be_loaded() {
    let mut wrong = Vec::new();
    let mut understood = 0;
    for (name, text) in DOCUMENTS {
        let tables = blocks(text);
        let tables = tables
            .iter()
            .filter_map(|it| Some((it.0, service_toml(it)?)));
        // `server.slow_request = "500ms"`, which is TOML as it is.
        let keys = spans(text).into_iter().filter(|(_, span)| {
            let key = span
                .split_once(" = ")
                .and_then(|(key, _)| key.split_once('.'));
            let config = ServiceConfig::default();
            let sections = config.sections();
            key.is_some_and(|(table, _)| sections.iter().any(|it| it.name() == table))
        });
        for (line, toml) in tables.chain(keys) {
            match mistakes(toml.clone()) {
                None => understood += 1,
                Some(why) => wrong.push(format!("{name}:{line}: {toml}\n{why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(understood > 20, "only {understood} were found");
    assert!(mistakes("[server]\nlissen = 1".to_owned()).is_some());
}
