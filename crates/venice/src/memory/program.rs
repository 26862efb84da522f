//! Whether a program can be run with memory of a donor, before it runs.

use rustix::fs::getxattr;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Interpreters of interpreters of scripts, at most: as many as the kernel follows.
const SCRIPTS_MAX: usize = 5;
/// The program header of a dynamically linked program's loader.
const PT_INTERP: u32 = 3;

/// Why a program cannot be run so.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// There is none.
    #[error("there is no program {0} that can be run: give its path, or a name that is in PATH")]
    NotFound(String),
    /// It cannot be looked at.
    #[error("{program} cannot be read: {error}")]
    Unreadable {
        /// Which.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It is linked statically: no library comes between it and the kernel.
    #[error(
        "{0} is linked statically: its memory cannot be put with a donor. \
         Use a dynamically linked build of it"
    )]
    Static(String),
    /// It runs with other privileges than its caller's.
    #[error(
        "{0} is set-user-ID, set-group-ID or has capabilities: the loader does not add a library \
         to such a program. Run a copy of it without these"
    )]
    Privileged(String),
    /// It is for another kind of machine or of C library.
    #[error("{program} is {what}: only programs of this machine with the GNU C library can be run")]
    Foreign {
        /// Which.
        program: String,
        /// What it is.
        what: String,
    },
}

/// The file that is run, found as the shell finds it, if it can be.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, ProgramError> {
    let path = locate(program)
        .ok_or_else(|| ProgramError::NotFound(program.to_string_lossy().into_owned()))?;
    let mut run = path.clone();
    for _ in 0..SCRIPTS_MAX {
        match look(&run)? {
            Some(interpreter) => run = interpreter,
            None => return Ok(path),
        }
    }
    Err(ProgramError::Foreign {
        program: path.display().to_string(),
        what: "a script of scripts".to_owned(),
    })
}

fn locate(program: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
}

/// Looks at a file; of a script, its interpreter.
fn look(path: &Path) -> Result<Option<PathBuf>, ProgramError> {
    let program = path.display().to_string();
    let unreadable = |error| ProgramError::Unreadable {
        program: program.clone(),
        error,
    };
    let foreign = |what: &str| ProgramError::Foreign {
        program: program.clone(),
        what: what.to_owned(),
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut start = Vec::new();
    (&mut file)
        .take(512)
        .read_to_end(&mut start)
        .map_err(unreadable)?;
    if let Some(script) = start.strip_prefix(b"#!") {
        let line = script.split(|byte| *byte == b'\n').next().unwrap_or(script);
        let mut words = line
            .split(|byte| b" \t\r".contains(byte))
            .filter(|it| !it.is_empty());
        let interpreter = words
            .next()
            .ok_or_else(|| foreign("a script without interpreter"))?;
        let interpreter = Path::new(OsStr::from_bytes(interpreter));
        // `#!/usr/bin/env python3` runs what is found.
        if interpreter.ends_with("env")
            && let Some(found) = words
                .next()
                .and_then(|word| locate(OsStr::from_bytes(word)))
        {
            return Ok(Some(found));
        }
        return Ok(Some(interpreter.to_path_buf()));
    }
    let own = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    if start.len() < 64 || !start.starts_with(b"\x7fELF") {
        return Err(foreign("no program"));
    }
    if start[4] != 2 || start[5] != 1 || u16::from_le_bytes([start[18], start[19]]) != own {
        return Err(foreign("for another kind of processor"));
    }
    let metadata = file.metadata().map_err(unreadable)?;
    let mut capabilities = [0; 64];
    let is_privileged = metadata.mode() & 0o6000 != 0
        || getxattr(path, "security.capability", &mut capabilities[..]).is_ok_and(|it| it > 0);
    if is_privileged {
        return Err(ProgramError::Privileged(program));
    }
    let loader = loader(&file, &start).map_err(unreadable)?;
    let Some(loader) = loader else {
        return Err(ProgramError::Static(program));
    };
    if !loader.windows(8).any(|part| part == b"ld-linux") {
        return Err(foreign("linked with another C library"));
    }
    Ok(None)
}

/// The path of an ELF file's loader.
fn loader(file: &File, head: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let number = |bytes: &[u8]| {
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(number)
    };
    let (at, size, count) = (
        number(&head[32..40]),
        number(&head[54..56]),
        number(&head[56..58]),
    );
    for header in 0..count {
        let mut bytes = [0; 56];
        if size < bytes.len() as u64 {
            break;
        }
        file.read_exact_at(&mut bytes, at.saturating_add(header * size))?;
        if number(&bytes[..4]) == u64::from(PT_INTERP) {
            let length = number(&bytes[32..40]).min(4096) as usize;
            let mut path = vec![0; length];
            file.read_exact_at(&mut path, number(&bytes[8..16]))?;
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn programs_of_this_machine_are_found() {
        assert!(find(OsStr::new("sh")).is_ok_and(|path| path.is_absolute()));
        let own = env::current_exe().unwrap();
        assert_eq!(find(own.as_os_str()).unwrap(), own);
        let (_folder, script) = file(b"#! /usr/bin/env sh\n", 0o755);
        assert_eq!(find(script.as_os_str()).unwrap(), script);
    }

    #[test]
    fn others_are_refused() {
        let refused = |path: &Path| find(path.as_os_str()).unwrap_err();
        assert!(matches!(
            refused(Path::new("/nowhere/at-all")),
            ProgramError::NotFound(_)
        ));
        let (_folder, plain) = file(b"text", 0o644);
        assert!(matches!(refused(&plain), ProgramError::NotFound(_)));
        let (_folder, text) = file(b"text", 0o755);
        assert!(matches!(refused(&text), ProgramError::Foreign { .. }));
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        let (_folder, privileged) = file(&own, 0o4755);
        assert!(matches!(refused(&privileged), ProgramError::Privileged(_)));
        let mut other = own.clone();
        other[18] ^= 1;
        let (_folder, other) = file(&other, 0o755);
        assert!(matches!(refused(&other), ProgramError::Foreign { .. }));
        // Without program headers there is no loader.
        let mut alone = own;
        alone[56..58].fill(0);
        let (_folder, alone) = file(&alone, 0o755);
        assert!(matches!(refused(&alone), ProgramError::Static(_)));
        let (_folder, short) = file(b"\x7fELF\x02\x01", 0o755);
        assert!(matches!(refused(&short), ProgramError::Foreign { .. }));
    }

    #[test]
    fn a_script_that_runs_itself_is_no_program() {
        let (_folder, path) = file(b"", 0o755);
        fs::write(&path, format!("#!{}\n", path.display())).unwrap();
        assert!(matches!(
            find(path.as_os_str()),
            Err(ProgramError::Foreign { .. })
        ));
    }
}
