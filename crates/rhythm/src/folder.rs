//! A service's folder: its files read into memory, and compiled.

use anyhow::{Context, Result, bail};
use rhythm_engine::compile::compile;
use rhythm_engine::diagnostic::Diagnostic;
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_server::backend::kinds;
use rhythm_server::{Site, SiteSettings, StaticFile, Statics};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More text than any service has: what keeps a wrong folder from being read into memory.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// All files of a service.
#[derive(Debug)]
pub(crate) struct Folder {
    /// What is compiled.
    pub(crate) sources: Sources,
    /// What is served as it is.
    pub(crate) static_files: Vec<StaticFile>,
}

impl Folder {
    /// Reads a service's folder.
    ///
    /// # Errors
    /// When it is no service's, or a file cannot be read.
    pub(crate) fn read(folder: &Path) -> Result<Folder> {
        if !folder.is_dir() {
            bail!(
                "{} is not a folder; give the folder of a service, such as services/banking",
                folder.display()
            );
        }
        if !folder.join("service.toml").is_file() && !folder.join("pages").is_dir() {
            bail!(
                "{} has neither a service.toml nor a folder pages/: \
                 it is not the folder of a service",
                folder.display()
            );
        }
        let mut files = BTreeMap::new();
        let mut text_bytes = 0;
        let service_file = folder.join("service.toml");
        let service_file = service_file.is_file().then_some(service_file);
        for path in service_file
            .into_iter()
            .chain(walk(&folder.join("pages"))?)
            .chain(walk(&folder.join("templates"))?)
        {
            let name = relative(folder, &path)?;
            if name != "service.toml" && !name.ends_with(".html") {
                continue;
            }
            text_bytes += path.metadata().map_or(0, |m| m.len());
            if text_bytes > TEXT_BYTES_MAX {
                bail!(
                    "{}: pages and templates are more than {TEXT_BYTES_MAX} bytes",
                    folder.display()
                );
            }
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(name, text);
        }
        let root = folder.join("static");
        let mut static_files = Vec::new();
        for path in walk(&root)? {
            let read = || -> Result<StaticFile> {
                Ok(StaticFile {
                    path: relative(&root, &path)?,
                    bytes: fs::read(&path)?,
                    modified: path.metadata()?.modified().ok(),
                })
            };
            static_files.push(read().with_context(|| format!("cannot read {}", path.display()))?);
        }
        let names: BTreeSet<String> = static_files.iter().map(|f| f.path.clone()).collect();
        Ok(Folder {
            sources: Sources {
                files,
                static_files: names,
            },
            static_files,
        })
    }

    /// Brings what was compiled and the static files together, to be served.
    ///
    /// # Errors
    /// What cannot be served.
    pub(crate) fn into_site(self, service: Service, settings: SiteSettings) -> Result<Arc<Site>> {
        let statics = Statics::new(&service.config.statics.mount, self.static_files);
        match Site::new(Arc::new(service), statics, settings) {
            Ok(site) => Ok(Arc::new(site)),
            Err(why) => bail!("{why}"),
        }
    }

    /// Compiles it.
    ///
    /// # Errors
    /// All mistakes, as one message.
    pub(crate) fn compile(&self) -> Result<Service> {
        compile(&self.sources, &kinds())
            .map_err(|mistakes| anyhow::anyhow!("{}", summary(&mistakes)))
    }
}

/// Diagnostics one after the other, and how many there are.
pub(crate) fn summary(diagnostics: &[Diagnostic]) -> String {
    use rhythm_engine::diagnostic::Severity;
    let errors = diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .count();
    let mut text = String::new();
    for diagnostic in diagnostics {
        text += &format!("{diagnostic}\n\n");
    }
    let plural =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    text + &plural(errors, "error") + ", " + &plural(diagnostics.len() - errors, "warning")
}

/// All files below a folder, sorted; none where it does not exist. Hidden files and editors'
/// backups are left out.
fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
        {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with('.') || name.ends_with('~') {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
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
