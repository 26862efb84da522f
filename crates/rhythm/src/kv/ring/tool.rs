//! `rhythm kv ring`: asks how a ring is, or changes where it is known.

use super::super::nodes::nodes;
use super::{ETCD, checked, edit, status};
use crate::kv::args::RingTool;
use crate::output::print_line;
use anyhow::{Context, Result, ensure};
use rhythm_etcd::Etcd;
use rhythm_kv::registration;
use std::path::Path;
use std::process::ExitCode;

/// Does what is asked of a ring.
pub(crate) fn run(tool: &RingTool) -> Result<ExitCode> {
    match tool {
        RingTool::Status { of } => status::tell_of(of),
        RingTool::Add {
            of,
            name,
            client,
            backbone,
        } => add(of, [name, client, backbone].map(String::clone)),
        RingTool::Remove { of, name } => remove(of, name),
    }
}

/// Adds a node to a file.
fn add(of: &str, [name, client, backbone]: [String; 3]) -> Result<ExitCode> {
    ensure!(
        !of.starts_with(ETCD),
        "a node adds itself: start it with --ring {of} --node {name}"
    );
    let node = [
        ("name", &*name),
        ("client", &*client),
        ("backbone", &*backbone),
    ];
    write(Path::new(of), |text| edit::with(text, &node))
}

/// Removes a node from a file, or has it leave.
fn remove(of: &str, name: &str) -> Result<ExitCode> {
    if let Some(place) = of.strip_prefix(ETCD) {
        let mut etcd = Etcd::new(place)?;
        let was_there = registration::remove(&mut etcd, name)?;
        ensure!(was_there, "{of} has no node called {name}");
        return Ok(ExitCode::SUCCESS);
    }
    write(Path::new(of), |text| {
        let mut nodes = nodes(text)?.into_iter();
        let index = nodes.position(|node| node.name.text == name);
        edit::without(
            text,
            index.with_context(|| format!("it has no node called {name}"))?,
        )
    })
}

/// Has a file of a ring say what is a ring, too.
fn write(file: &Path, change: impl FnOnce(&str) -> Result<String>) -> Result<ExitCode> {
    let shown = file.display();
    edit::change(file, |text| {
        let text = change(text)?;
        checked(&nodes(&text)?)?;
        Ok(text)
    })
    .with_context(|| format!("--ring {shown}"))?;
    print_line(format_args!(
        "{shown} is written; its nodes know of it when they are started anew, and begin empty: end \
         all of them before you start the first one"
    ))?;
    Ok(ExitCode::SUCCESS)
}
