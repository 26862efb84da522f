//! The Banking service compiles, and its pages have the stages that the workload asks for.

use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance;
use rhythm_engine::source::Sources;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Reads a service's folder.
fn read(folder: &Path) -> Sources {
    let mut sources = Sources::default();
    let toml = fs::read_to_string(folder.join("service.toml")).expect("service.toml is there");
    sources.files.insert("service.toml".to_owned(), toml);
    for part in ["pages", "templates"] {
        for entry in fs::read_dir(folder.join(part)).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            let name = path
                .file_name()
                .expect("files have names")
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&path).expect("it is UTF-8");
            sources.files.insert(format!("{part}/{name}"), text);
        }
    }
    let statics = folder.join("static");
    let mut folders = vec![statics.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&statics).expect("it is below");
            let name = name.to_str().expect("it is UTF-8");
            sources.static_files.insert(name.to_owned());
        }
    }
    sources
}

#[test]
fn banking_compiles() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/banking");
    let service = match compile(&read(&folder), conformance::BESIM) {
        Ok(service) => service,
        Err(diagnostics) => {
            for diagnostic in &diagnostics {
                eprintln!("{diagnostic}");
            }
            panic!("{} mistakes", diagnostics.len());
        }
    };
    for warning in &service.warnings {
        eprintln!("{warning}");
    }
    let calls = |name: &str| {
        let page = service.pages.iter().find(|page| page.name == name);
        page.unwrap_or_else(|| panic!("there is no page {name}"))
            .calls
            .len()
    };
    assert_eq!(calls("login"), 2);
    assert_eq!(calls("account_summary"), 1);
    assert_eq!(calls("add_payee"), 0);
    assert_eq!(calls("quick_pay"), 1);
    assert!(service.warnings.is_empty());

    let config = &service.config;
    assert_eq!(config.service.name, "banking");
    assert_eq!(config.statics.mount, "/bank/static/");
    assert_eq!(config.statics.index["/"], "/bank/login.php");
    assert_eq!(config.session.cookie, "rhythm_session");
    assert_eq!(config.session.idle_timeout, Duration::from_secs(30 * 60));
    assert_eq!(config.cohort.delay, Duration::from_millis(2));
    assert_eq!(config.limits.head_bytes_max, 16_384);
    assert_eq!(service.backends[0].name, "besim");
    assert_eq!(service.backends[0].text("url"), "embedded");
    assert_eq!(service.backends[0].int("users"), 100_000);
}
