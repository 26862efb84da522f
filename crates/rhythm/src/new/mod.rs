//! `rhythm new`: a small site to begin with, whose files say what they are for.

use crate::output::print_line;
use anyhow::{Context, Result, bail};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Begin a site: a folder with a small one, to be changed.
///
/// It has a list, a form and a database in a file, and comments that say what each does.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder: one that is not there yet, or is empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

macro_rules! site {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("site/", $name)))),*]
    };
}

/// The files of the site.
const FILES: [(&str, &str); 11] = site! {
    "service.toml"
    "schema.sql"
    "pages/index.html"
    "pages/add.html"
    "pages/add_again.html"
    "pages/done.html"
    "pages/not_found.html"
    "pages/failed.html"
    "templates/layout.html"
    "templates/form.html"
    "static/style.css"
};

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let folder = &args.folder;
    make_folder(folder)?;
    for (name, text) in FILES {
        let path = folder.join(name);
        write_new(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let shown = folder.display();
    print_line(format_args!(
        "{shown} has a small site in {} files:",
        FILES.len()
    ))?;
    for (name, _) in FILES {
        print_line(format_args!("  {name}"))?;
    }
    print_line(format_args!(
        "\nrhythm serve {shown} --watch\nserves it at http://127.0.0.1:8080/, and reads it again \
         as you change it."
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the folder, or takes one that has nothing in it.
fn make_folder(folder: &Path) -> Result<()> {
    let shown = folder.display();
    match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(true) => bail!("{shown} is not empty: give a folder that is, or is not there yet"),
        Ok(false) => Ok(()),
        Err(_) if folder.exists() => {
            bail!("{shown} is no folder that can be read: give one that is not there yet")
        }
        Err(_) => fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}")),
    }
}

/// Writes a file that must not be there.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}
