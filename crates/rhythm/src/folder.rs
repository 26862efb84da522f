//! A service's folder: its files read, and compiled.
//!
//! Texts and small static files are read into memory; large ones stay open, to be read while they
//! are sent.

mod certificate;
mod regular;
mod walk;

use anyhow::{Context, Result, bail};
use regular::{Found, RegularFile, Unfit};
use rhythm_engine::compile::compile;
use rhythm_engine::diagnostic::{Diagnostic, Severity};
use rhythm_engine::program::Service;
use rhythm_engine::settings::{Mistake, Outside, ServiceConfig, StaticSettings};
use rhythm_engine::source::Sources;
use rhythm_server::backend::kinds;
use rhythm_server::{FileContent, Site, SiteSettings, StaticFile, Statics};
use std::collections::BTreeMap;
use std::env::VarError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::Arc;
use walk::Walk;

/// More text than any service has: what keeps a wrong folder from being read into memory.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// All files of a service.
#[derive(Debug)]
pub(crate) struct Folder {
    /// What is compiled.
    pub(crate) sources: Sources,
    /// `static/`.
    statics: PathBuf,
}

impl Folder {
    /// Reads a service's folder; of static files only the names.
    ///
    /// # Errors
    /// When it is no service's, or a file cannot be read.
    pub(crate) fn read(folder: &Path) -> Result<Folder> {
        if !folder.is_dir() {
            // What is behind it may have a password in it.
            if let Some((backend, _)) = folder.to_str().and_then(|text| text.split_once('='))
                && !backend.contains('/')
            {
                bail!(
                    "{backend}=... is not a folder of a service; where a backend is says --backend \
                     {backend}=URL, without an s"
                );
            }
            bail!(
                "{} is not a folder; give the folder of a service, such as services/banking",
                folder.display()
            );
        }
        let service_file = folder.join("service.toml");
        let has_service_file = service_file.symlink_metadata().is_ok();
        if !has_service_file && !folder.join("pages").is_dir() {
            bail!(
                "{} has neither a service.toml nor a folder pages/: \
                 it is not the folder of a service",
                folder.display()
            );
        }
        let mut sources = no_sources(folder);
        let mut text_bytes = 0;
        let mut read = |path: &Path, found: Result<Found>, sources: &mut Sources| {
            let name = relative(folder, path)?;
            match found.and_then(|found| read_text(path, found, &mut text_bytes)) {
                Ok(text) => drop(sources.files.insert(name, text)),
                // What comes after it is too much, too.
                Err(why) if text_bytes > TEXT_BYTES_MAX => return Err(why),
                Err(why) => drop(sources.unread.insert(name, unread(&why))),
            }
            Ok::<_, anyhow::Error>(())
        };
        if has_service_file {
            read(&service_file, Found::find(&service_file), &mut sources)?;
        }
        let settings = sources.config(&kinds()).statics;
        let walk = Walk::of(&settings);
        let mut refused = BTreeMap::new();
        let mut refuse = |path: &Path, why| {
            refused.insert(relative(folder, path)?, unread(&why));
            Ok(())
        };
        for below in ["pages", "templates"] {
            let below = folder.join(below);
            for path in walk.through(&below, &mut refuse)? {
                match path.extension().is_some_and(|ending| ending == "html") {
                    true => read(&path, walk.find(&path, &below), &mut sources)?,
                    false => drop(sources.others.insert(relative(folder, &path)?)),
                }
            }
        }
        let statics = folder.join("static");
        for path in walk.through(&statics, &mut refuse)? {
            sources.static_files.insert(relative(&statics, &path)?);
        }
        sources.unread.extend(refused);
        let is_page = |name: &String| name.starts_with("pages/");
        let serves = !sources.static_files.is_empty()
            || sources.files.keys().any(is_page)
            || sources.has_proxies();
        if !serves && sources.unread.is_empty() {
            bail!(
                "{} serves nothing: it has neither a page (pages/*.html), nor a static file \
                 (static/*), nor a [[proxy]] in service.toml{}",
                folder.display(),
                match sources.others.first() {
                    Some(path) => format!("; is {path} to be one? Pages end in .html"),
                    None => String::new(),
                }
            );
        }
        Ok(Folder { sources, statics })
    }

    /// Where it is.
    pub(crate) fn at(&self) -> &Path {
        &self.sources.folder
    }

    /// One of nothing but these.
    pub(crate) fn of_sources(sources: Sources) -> Folder {
        Folder {
            sources,
            statics: PathBuf::new(),
        }
    }

    /// Reads the static files that are kept in memory, and opens the others.
    ///
    /// # Errors
    /// What cannot be read, or is more than the settings allow.
    pub(crate) fn static_files(&self, settings: &StaticSettings) -> Result<Vec<StaticFile>> {
        let names = &self.sources.static_files;
        let walk = Walk::of(settings);
        let (mut kept, mut streamed) = (0, 0);
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let path = self.statics.join(name);
            let file = walk.find(&path, &self.statics)?.open()?;
            let modified = file.modified();
            let content = if file.version.length <= u64::from(settings.kept_bytes_max) {
                kept += file.version.length;
                if kept > u64::from(settings.kept_bytes_sum_max) {
                    bail!(
                        "{}: with it the files of static/ have more than [static] \
                         kept_bytes_sum_max = {} bytes in memory: raise it, or lower \
                         kept_bytes_max = {} so that more of them are streamed",
                        path.display(),
                        settings.kept_bytes_sum_max,
                        settings.kept_bytes_max
                    );
                }
                let read = file.read_all(settings.kept_bytes_max.into());
                FileContent::Kept(read.with_context(|| format!("cannot read {}", path.display()))?)
            } else {
                streamed += 1;
                if streamed > settings.streamed_files_max {
                    bail!(
                        "{} is one file more of over [static] kept_bytes_max = {} bytes than \
                         streamed_files_max = {}: raise one of them",
                        path.display(),
                        settings.kept_bytes_max,
                        settings.streamed_files_max
                    );
                }
                streamed_content(file)
            };
            files.push(StaticFile {
                path: name.clone(),
                content,
                modified,
            });
        }
        Ok(files)
    }

    /// Brings what was compiled and the static files together, to be served.
    ///
    /// # Errors
    /// What cannot be served.
    pub(crate) fn into_site(self, service: Service, settings: SiteSettings) -> Result<Arc<Site>> {
        (self.into_site_after(None, service, settings)).map(Arc::new)
    }

    /// The same, of a site that follows another one.
    ///
    /// # Errors
    /// What cannot be served.
    pub(crate) fn into_site_after(
        self,
        before: Option<&Site>,
        service: Service,
        settings: SiteSettings,
    ) -> Result<Site> {
        let config = &service.config.statics;
        let mut statics = Statics::new(&config.mount, self.static_files(config)?);
        let untried = statics.compress(config.compress_time, before.map(Site::statics));
        if untried > 0 {
            tracing::info!(
                untried,
                "[static] compress_time = {:?} was too short for all compressed forms of static \
                 files: what is left is made by reloads (SIGHUP), unless it alone takes longer; or \
                 give it more",
                config.compress_time
            );
        }
        let certificate = certificate::read(&self.sources.folder, &service.config)?;
        match Site::following(before, Arc::new(service), statics, settings) {
            Ok(site) => Ok(site.showing(certificate)),
            Err(why) => bail!("{why}"),
        }
    }

    /// Compiles it.
    ///
    /// # Errors
    /// All mistakes, as one message.
    pub(crate) fn compile(&self) -> Result<Service> {
        compile(&self.sources, &kinds())
            .map_err(|found| anyhow::anyhow!("{}", summary(&found, &self.sources.folder)))
    }
}

/// Diagnostics of a folder's files one after the other, and how many there are.
pub(crate) fn summary(diagnostics: &[Diagnostic], folder: &Path) -> String {
    // What says how many there are besides is none of them.
    let of_places = || diagnostics.iter().filter(|of| of.line > 0);
    let errors = of_places()
        .filter(|of| of.severity == Severity::Error)
        .count();
    let warnings = of_places().count() - errors;
    let shown = match of_places().count() == diagnostics.len() {
        true => "",
        false => " shown",
    };
    let mut text = String::new();
    for told in told_once(diagnostics, folder) {
        text += &format!("{told}\n\n");
    }
    text + &so_many(errors, "error") + ", " + &so_many(warnings, "warning") + shown
}

/// Diagnostics as texts. Those that say the same of several places, as of a backend that is gone
/// and all its calls, are one, which has all the places. Files are named from where the command was
/// given, so that an editor finds them, as their folder was.
pub(crate) fn told_once(diagnostics: &[Diagnostic], folder: &Path) -> Vec<String> {
    let path_of = |file: &str| match folder.components().eq([Component::CurDir]) {
        true => file.to_owned(),
        false => folder.join(file).display().to_string(),
    };
    let mut groups: Vec<Vec<&Diagnostic>> = Vec::new();
    for diagnostic in diagnostics {
        fn said(it: &Diagnostic) -> (Severity, &str, &str) {
            (it.severity, &it.message, &it.hint)
        }
        match (groups.iter_mut()).find(|group| said(group[0]) == said(diagnostic)) {
            Some(group) => group.push(diagnostic),
            None => groups.push(vec![diagnostic]),
        }
    }
    let text = |group: Vec<&Diagnostic>| {
        let file = match group[0].line {
            0 => String::new(),
            _ => path_of(&group[0].file),
        };
        let first = Diagnostic {
            file,
            ..group[0].clone()
        };
        let mut text = first.to_string();
        if group.len() > 1 {
            text += &format!(
                "\n  the same at {}:",
                so_many(group.len() - 1, "other place")
            );
        }
        for other in &group[1..] {
            let Diagnostic {
                file, line, column, ..
            } = other;
            text += &format!("\n    {}:{line}:{column}", path_of(file));
        }
        text
    };
    groups.into_iter().map(text).collect()
}

/// A number of things.
pub(crate) fn so_many(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Why something could not be read, for its author.
fn unread(why: &anyhow::Error) -> Mistake {
    match why.downcast_ref::<Unfit>() {
        Some(Unfit { why, cure }) => Mistake::new(why, *cure),
        None if why.root_cause().is::<FromUtf8Error>() => {
            Mistake::new(format!("{why:#}"), "save it as UTF-8")
        }
        None => Mistake::new(
            format!("{why:#}"),
            "it is to be a file that this user may read",
        ),
    }
}

/// A service's folder of which nothing is read yet.
fn no_sources(folder: &Path) -> Sources {
    Sources {
        folder: folder.to_owned(),
        outside: Outside {
            variable: |name| match std::env::var(name) {
                Ok(value) => Ok(value),
                Err(VarError::NotPresent) => Err("is not set".to_owned()),
                Err(VarError::NotUnicode(_)) => Err("is no UTF-8".to_owned()),
            },
            first_line: rhythm_server::backend::first_line,
        },
        ..Sources::default()
    }
}

/// What service.toml of a folder says, as far as it can be read; nothing else is.
pub(crate) fn settings(folder: &Path) -> ServiceConfig {
    let file = folder.join("service.toml");
    let mut sources = no_sources(folder);
    // What is wrong with it is told when all of the folder is read.
    if let Ok(text) = Found::find(&file).and_then(|found| read_text(&file, found, &mut 0)) {
        sources.files.insert("service.toml".to_owned(), text);
    }
    sources.config(&kinds())
}

/// Reads a text, which is counted with those before.
fn read_text(path: &Path, found: Found, text_bytes: &mut u64) -> Result<String> {
    let file = found.open()?;
    *text_bytes += file.version.length;
    let read = || {
        if *text_bytes > TEXT_BYTES_MAX {
            bail!("with it pages and templates are more than {TEXT_BYTES_MAX} bytes");
        }
        let text = String::from_utf8(file.read_all(TEXT_BYTES_MAX)?)?;
        // Some editors begin a file with a byte order mark, which is not seen.
        Ok(text
            .strip_prefix('\u{feff}')
            .map(str::to_owned)
            .unwrap_or(text))
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// A file that is read while it is sent.
fn streamed_content(file: RegularFile) -> FileContent {
    let mut hasher = DefaultHasher::new();
    file.version.hash(&mut hasher);
    FileContent::Streamed {
        length: file.version.length,
        version: hasher.finish(),
        volume: file.version.volume(),
        source: Arc::new(file),
    }
}

fn relative(root: &Path, path: &Path) -> Result<String> {
    let parts: Option<Vec<&str>> = path
        .strip_prefix(root)?
        .iter()
        .map(|part| part.to_str())
        .collect();
    match parts {
        Some(parts) => Ok(parts.join("/")),
        None => bail!("the name of {} is not UTF-8", path.display()),
    }
}
