//! `rhythm serve --watch`: reloads as files change, and shows what is wrong with them.
//!
//! The folder is looked through several times a second: that works on every file system, and what a
//! folder that somebody writes in has is few. A change counts once nothing changes any more, since
//! editors write in steps.

use crate::folder::Folder;
use anyhow::{Context, Result};
use rhythm_engine::compile::compile;
use rhythm_engine::settings::{Secret, ServiceConfig};
use rhythm_engine::source::Sources;
use rhythm_server::backend::kinds;
use rhythm_server::{Site, SiteSettings};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io, thread};

/// How often the folder is looked through.
const EVERY: Duration = Duration::from_millis(250);

/// So many files and folders are looked at, and folders so deep: what a service has.
const FILES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 16;

/// A service's folder, as it was before its files were read.
pub(crate) struct Watched {
    folder: PathBuf,
    known: u64,
}

impl Watched {
    pub(crate) fn new(folder: &Path) -> Watched {
        Watched {
            folder: folder.to_owned(),
            known: state(folder),
        }
    }

    /// Calls `changed` after each change of the service's files since then, for as long as the
    /// process lives.
    ///
    /// # Errors
    /// No thread can be begun.
    pub(crate) fn begin(self, changed: impl Fn() + Send + 'static) -> io::Result<()> {
        let Watched { folder, mut known } = self;
        let watch = move || {
            let mut last = known;
            loop {
                thread::sleep(EVERY);
                let now = state(&folder);
                if now == last && now != known {
                    known = now;
                    changed();
                }
                last = now;
            }
        };
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(watch)?;
        Ok(())
    }
}

/// The folders that pages are made of; static files come last.
const PARTS: [&str; 3] = ["pages", "templates", "static"];

/// A number that is another one where a file is. Static files come last: however many there are,
/// what pages are made of is looked at.
fn state(folder: &Path) -> u64 {
    let mut look = Look {
        hasher: DefaultHasher::new(),
        left: FILES_MAX,
        above: Vec::new(),
    };
    let ends = |path: &Path, ending: &str| path.extension().is_some_and(|it| it == ending);
    // Beside service.toml what tables are made of, there or in a folder of its own, but no
    // databases, which change by being used.
    for entry in entries(folder) {
        if ends(&entry, "toml") || ends(&entry, "sql") {
            look.at(&entry);
        } else if entry.is_dir() && !PARTS.iter().any(|part| entry.ends_with(part)) {
            let within = entries(&entry);
            look.left = look.left.saturating_sub(within.len());
            let scripts = (within.iter()).filter(|path| ends(path, "sql") && path.is_file());
            scripts.for_each(|script| look.at(script));
        }
    }
    for part in PARTS {
        look.at(&folder.join(part));
    }
    look.hasher.finish()
}

/// What stands in a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// One look at a folder.
struct Look {
    hasher: DefaultHasher,
    /// So many files and folders more are looked at.
    left: usize,
    /// The folders that it is in now: a link may lead back to one.
    above: Vec<(u64, u64)>,
}

impl Look {
    fn at(&mut self, path: &Path) {
        let Some(left) = self.left.checked_sub(1) else {
            return;
        };
        let Ok(metadata) = fs::metadata(path) else {
            return;
        };
        self.left = left;
        if !metadata.is_dir() {
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            (path, metadata.len(), written).hash(&mut self.hasher);
            return;
        }
        let identity = (metadata.dev(), metadata.ino());
        if self.above.len() < DEPTH_MAX && !self.above.contains(&identity) {
            self.above.push(identity);
            entries(path).iter().for_each(|entry| self.at(entry));
            self.above.pop();
        }
    }
}

/// What a site of mistakes has of the one in whose place it is, so that this can follow it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) config: ServiceConfig,
    pub(crate) secret: Option<Secret>,
    /// What it is called among others.
    pub(crate) label: Option<String>,
    /// It itself, where it was served before.
    pub(crate) site: Option<Arc<Site>>,
}

impl Kept {
    /// That of a site that was served before.
    pub(crate) fn of(site: Arc<Site>) -> Kept {
        Kept {
            config: site.service().config.clone(),
            secret: site.service().secret.clone(),
            label: site.settings().label.clone(),
            site: Some(site),
        }
    }
}

/// A site in place of one that cannot be compiled, with what is kept of that, and its folder's
/// certificate: every page says what is wrong, and asks again soon.
///
/// # Errors
/// It cannot be made.
pub(crate) fn site_of_mistakes(message: &str, folder: &Path, kept: Kept) -> Result<Arc<Site>> {
    let mut sources = Sources {
        folder: folder.to_owned(),
        ..Sources::default()
    };
    let mut file = |name: &str, text: String| sources.files.insert(name.to_owned(), text);
    file(
        "service.toml",
        "[errors]\ndefault = \"mistakes.html\"\n".to_owned(),
    );
    file("pages/mistakes.html", page_of(message));
    let folder = Folder::of_sources(sources);
    let mut service = compile(&folder.sources, &kinds())
        .map_err(|_| anyhow::anyhow!("{message}"))
        .context("this cannot be shown")?;
    (service.config, service.secret) = (kept.config, kept.secret);
    let settings = SiteSettings {
        nothing: 500,
        label: kept.label,
        ..SiteSettings::of(&service)
    };
    let site = folder.into_site_after(None, service, settings)?;
    Ok(Arc::new(site.in_place_of(kept.site)))
}

/// The page that says this.
fn page_of(message: &str) -> String {
    let mut shown = String::new();
    for letter in message.chars() {
        match letter {
            '<' => shown += "&lt;",
            '&' => shown += "&amp;",
            // Nothing of it is a template's.
            '{' => shown += "&#123;",
            other => shown.push(other),
        }
    }
    format!(
        "+++\n+++\n<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"refresh\" content=\"1\">\n<title>Mistakes</title>\n</head>\n<body>\n\
         <h1>This cannot be served as it is</h1>\n<pre>{shown}</pre>\n\
         <p>It is tried again as files change.</p>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_a_text_of_the_page() {
        let page = page_of("a<b & {{ c }} {% d %} +++");
        assert!(page.contains("<pre>a&lt;b &amp; &#123;&#123; c }} &#123;% d %} +++</pre>"));
    }

    #[test]
    fn links_that_lead_back_and_many_files_hide_no_page() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for below in ["pages", "static"] {
            fs::create_dir(folder.join(below)).unwrap();
        }
        for number in 0..FILES_MAX {
            fs::write(folder.join(format!("static/{number}")), "").unwrap();
        }
        for link in 0..8 {
            let link = folder.join(format!("pages/a{link}"));
            std::os::unix::fs::symlink(folder.join("pages"), link).unwrap();
        }
        let before = state(folder);
        fs::write(folder.join("pages/b.html"), "").unwrap();
        let with_page = state(folder);
        assert_ne!(with_page, before);
        fs::write(folder.join("service.toml"), "").unwrap();
        assert_ne!(state(folder), with_page);
    }

    #[test]
    fn a_database_that_is_used_is_no_change_and_a_page_is() {
        let folder = std::env::temp_dir().join(format!("rhythm-watch-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("pages/below")).unwrap();
        fs::write(folder.join("service.toml"), "").unwrap();
        let first = state(&folder);
        fs::write(folder.join("a.db"), "").unwrap();
        assert_eq!(state(&folder), first);
        fs::write(folder.join("pages/below/a.html"), "").unwrap();
        let second = state(&folder);
        fs::write(folder.join("service.toml"), "[service]").unwrap();
        let third = state(&folder);
        fs::remove_file(folder.join("pages/below/a.html")).unwrap();
        let fourth = state(&folder);
        fs::create_dir(folder.join("sql")).unwrap();
        fs::write(folder.join("sql/other.db"), "").unwrap();
        assert_eq!(state(&folder), fourth);
        fs::write(folder.join("sql/schema.sql"), "").unwrap();
        let states = [first, second, third, fourth, state(&folder)];
        fs::remove_dir_all(&folder).unwrap();
        for (index, one) in states.iter().enumerate() {
            assert!(!states[..index].contains(one), "{index}");
        }
    }
}
