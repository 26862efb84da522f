//! The servers of a case: started as `peers.toml` says, on one processor, and what their pages are.

use super::case::{Case, Entry, Equality, Page, Peer};
use super::equal::{Rules, difference};
use super::error::CompareError;
use super::fetch::{Fetched, Fetcher};
use super::names::Names;
use crate::load::{Asked, Right, inflate};
use crate::reproduce::{Folder, Process, Processors, free_port, tail};
use std::borrow::Cow;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Who does not serve by then never will.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// Another may take a port before a server does; then the next is tried.
const TRIES: usize = 5;

/// What browsers send, so that a request is as long as theirs.
const HEADERS: &str = "\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n";

/// A page of a server, or all of one kind.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Requests and their answers, of each key one.
    pub(super) asked: Vec<Asked>,
    /// Each as it is compared.
    pub(super) plain: Vec<String>,
}

/// A server that serves.
pub(super) struct Running {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) equality: Equality,
    /// By the pages of the case.
    pub(super) pages: Vec<Pages>,
    /// Ends before its folder goes.
    pub(super) process: Process,
    folder: Folder,
}

/// What a server says, in its folder.
const LOG: &str = "log";

impl Running {
    /// Why it serves no more, if it has ended: how, and the end of what it said.
    pub(super) fn ended(&mut self) -> Option<String> {
        let how = match self.process.0.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(why) => why.to_string(),
        };
        let said = fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
        Some(format!(
            "it ended while it was measured ({how}): {}",
            tail(&said)
        ))
    }
}

/// What starts servers of a case.
pub(super) struct Starter<'a> {
    pub(super) case: &'a Case,
    pub(super) names: Names,
    pub(super) processors: &'a Processors,
    /// Which of the processors for servers those that it starts have.
    pub(super) on: usize,
    /// The certificate that clients believe, of a case over TLS.
    pub(super) certificate: Option<PathBuf>,
}

impl Starter<'_> {
    fn failed(&self, entry: &Entry) -> impl Fn(String) -> CompareError {
        let server = entry.name.clone();
        move |said| CompareError::Server {
            server: server.clone(),
            said,
        }
    }

    /// Starts a server, and fetches its pages; `first` has those of the case's first server.
    pub(super) fn start(
        &self,
        entry: &Entry,
        first: Option<&[Pages]>,
    ) -> Result<Running, CompareError> {
        let failed = self.failed(entry);
        let peer = self.case.peer_of(entry).map_err(&failed)?;
        let folder = Folder::new()?;
        let mut said = String::new();
        for _ in 0..TRIES {
            let port = free_port().map_err(|why| failed(why.to_string()))?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let names = self.of_server(peer, entry, address, folder.path(), first);
            let names = names.map_err(&failed)?;
            self.write_files(peer, &names, folder.path(), first)
                .map_err(&failed)?;
            let words: Result<Vec<String>, String> =
                peer.command.iter().map(|word| names.put(word)).collect();
            let log = folder.path().join(LOG);
            let process = self
                .spawn(&words.map_err(&failed)?, &log)
                .map_err(&failed)?;
            match served(process, address) {
                Ok(process) => {
                    let pages = self.pages(peer, entry, address, &names)?;
                    return Ok(Running {
                        name: entry.name.clone(),
                        address,
                        equality: peer.page,
                        pages,
                        process,
                        folder,
                    });
                }
                Err(has_ended) => {
                    said = tail(&fs::read_to_string(&log).unwrap_or_default());
                    if !has_ended {
                        let late = format!("not within {} s; {said}", PATIENCE.as_secs());
                        return Err(failed(late));
                    }
                }
            }
        }
        Err(failed(said))
    }

    fn of_server(
        &self,
        peer: &Peer,
        entry: &Entry,
        address: SocketAddr,
        folder: &Path,
        first: Option<&[Pages]>,
    ) -> Result<Names, String> {
        let mut names = self.names.clone();
        names.set("address", address);
        names.set("host", address.ip());
        names.set("port", address.port());
        names.set("folder", folder.display());
        names.set("prefix", "");
        if let Some([Pages { asked, .. }]) = first
            && let [asked] = &asked[..]
        {
            names.set("bytes", asked.answer.content.len());
        }
        names.set_all(&peer.with)?;
        names.set_all(&entry.with)?;
        Ok(names)
    }

    fn write_files(
        &self,
        peer: &Peer,
        names: &Names,
        folder: &Path,
        first: Option<&[Pages]>,
    ) -> Result<(), String> {
        let write = |name: &str, content: &[u8]| {
            fs::write(folder.join(name), content).map_err(|why| format!("{name}: {why}"))
        };
        for (name, text) in &peer.files {
            write(name, names.put(text)?.as_bytes())?;
        }
        if let (Some(name), Some([Pages { asked, .. }])) = (&peer.page_file, first) {
            let [asked] = &asked[..] else {
                return Err("there is not one page".to_owned());
            };
            let page = match self.case.gzip {
                true => Cow::Owned(inflate(&asked.answer.content)?),
                false => Cow::Borrowed(&asked.answer.content),
            };
            write(name, &page)?;
        }
        Ok(())
    }

    fn spawn(&self, words: &[String], log: &Path) -> Result<Process, String> {
        let [program, arguments @ ..] = words else {
            return Err("it has no command".to_owned());
        };
        let output = File::create(log).map_err(|why| why.to_string())?;
        let errors = output.try_clone().map_err(|why| why.to_string())?;
        let path = found(program).ok_or_else(|| format!("there is no {program}"))?;
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(output).stderr(errors);
        self.processors.of_server(self.on);
        let started = Process::start(&mut command);
        self.processors.of_load();
        started.map_err(|why| format!("{program}: {why}"))
    }

    fn pages(
        &self,
        peer: &Peer,
        entry: &Entry,
        address: SocketAddr,
        names: &Names,
    ) -> Result<Vec<Pages>, CompareError> {
        let failed = |target: &str| {
            let (server, target) = (entry.name.clone(), target.to_owned());
            |why: String| CompareError::Fetch {
                server,
                target,
                why,
            }
        };
        let trusted = self.certificate.as_deref();
        let mut fetcher = Fetcher::connect(address, trusted).map_err(failed("connect"))?;
        let mut cookies: Vec<String> = peer.cookie.iter().cloned().collect();
        if let Some(before) = &peer.before {
            let target = names.put(&before.target).map_err(failed(&before.target))?;
            let content = match before.form.as_str() {
                "" => String::new(),
                form => format!(
                    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
                    form.len()
                ),
            };
            let (method, form) = (&before.method, &before.form);
            let request =
                format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n{content}\r\n{form}");
            let told = fetcher.fetch(request.as_bytes()).map_err(failed(&target))?;
            if told.status >= 400 || told.cookies.is_empty() {
                let why = format!("status {}, and {} cookies", told.status, told.cookies.len());
                return Err(failed(&target)(why));
            }
            cookies.extend(told.cookies);
            // Whether or not it hangs up behind a form.
            fetcher = Fetcher::connect(address, trusted).map_err(failed("connect"))?;
        }
        let asker = Asker {
            address,
            cookies: cookies.join("; "),
            takes_gzip: self.case.gzip,
            must_be_gzip: self.case.gzip && peer.page == Equality::Equal,
        };
        let of_page = |page: &Page| {
            let rules = Rules::of(self.case, page);
            let mut names = names.clone();
            let mut pages = Pages {
                asked: Vec::new(),
                plain: Vec::new(),
            };
            for key in 1..=page.keys.unwrap_or(1) {
                names.set("key", key);
                let target = names.put(&page.target).map_err(failed(&page.target))?;
                let mut ask = || asker.ask(&mut fetcher, &target).map_err(failed(&target));
                let ((mut asked, fetched), (_, again)) = (ask()?, ask()?);
                let plain = |fetched: &Fetched| {
                    let plain = rules.plain(&fetched.content, fetched.is_gzip);
                    plain.map_err(failed(&target))
                };
                pages.plain.push(plain(&fetched)?);
                // A token that is another each time is known before anything is measured.
                if !page.drawn && pages.plain.last() == Some(&plain(&again)?) {
                    asked.answer.learn(&again.content);
                }
                pages.asked.push(asked);
            }
            Ok(pages)
        };
        self.case.page.iter().map(of_page).collect()
    }
}

/// How a server is asked for pages.
struct Asker {
    address: SocketAddr,
    cookies: String,
    takes_gzip: bool,
    must_be_gzip: bool,
}

impl Asker {
    fn ask(&self, fetcher: &mut Fetcher, target: &str) -> Result<(Asked, Fetched), String> {
        let mut request = format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\n{HEADERS}",
            self.address
        );
        if self.takes_gzip {
            request.push_str("Accept-Encoding: gzip\r\n");
        }
        if !self.cookies.is_empty() {
            request.push_str(&format!("Cookie: {}\r\n", self.cookies));
        }
        request.push_str("\r\n");
        let fetched = fetcher.fetch(request.as_bytes())?;
        if fetched.status != 200 {
            return Err(format!("status {}", fetched.status));
        }
        if fetched.is_gzip != self.must_be_gzip {
            return Err(match self.must_be_gzip {
                true => "it is not compressed with gzip".to_owned(),
                false => "it is compressed with gzip".to_owned(),
            });
        }
        let asked = Asked {
            request: request.into_bytes(),
            target: target.to_owned(),
            answer: Right::new(fetched.content.clone()),
        };
        Ok((asked, fetched))
    }
}

/// Why a server cannot be started here, if it cannot, and what helps.
pub(super) fn absence(peer: &Peer, names: &Names) -> Option<String> {
    let program = names.put(&peer.command[0]).ok()?;
    match found(&program) {
        Some(_) => None,
        None => Some(format!("there is no {program}: {}", peer.install)),
    }
}

/// The program of this path, or of this name on the path, if it is there.
pub(super) fn found(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where servers are that no user starts by hand.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let mut paths = folders.map(|folder| folder.join(program));
    paths.find(|path| path.is_file())
}

/// The process, once it serves; else whether it has ended.
fn served(mut process: Process, address: SocketAddr) -> Result<Process, bool> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && !process.has_ended() {
        if TcpStream::connect(address).is_ok() && !process.has_ended() {
            return Ok(process);
        }
        thread::sleep(LOOK);
    }
    Err(process.has_ended())
}

/// Looks whether a server's pages are those of the first.
///
/// # Errors
/// Which is not, and where it differs.
pub(super) fn compare(first: &Running, other: &Running) -> Result<(), CompareError> {
    for (ours, theirs) in first.pages.iter().zip(&other.pages) {
        for (number, asked) in theirs.asked.iter().enumerate() {
            let how = match other.equality {
                Equality::Equal => difference(&ours.plain[number], &theirs.plain[number]),
                Equality::Length => {
                    let lengths =
                        [&ours.asked[number], asked].map(|asked| asked.answer.content.len());
                    (lengths[0] != lengths[1])
                        .then(|| format!("{} bytes instead of {}", lengths[1], lengths[0]))
                }
            };
            if let Some(how) = how {
                return Err(CompareError::Differs {
                    target: asked.target.clone(),
                    server: other.name.clone(),
                    first: first.name.clone(),
                    how,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A server that somebody else has started, with one page.
    pub(in crate::compare) fn running(name: &str, address: SocketAddr, page: &str) -> Running {
        let asked = Asked {
            request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            target: "/".to_owned(),
            answer: Right::new(page.as_bytes().to_vec()),
        };
        let mut sleep = Command::new("sleep");
        Running {
            name: name.to_owned(),
            address,
            equality: Equality::Equal,
            pages: vec![Pages {
                asked: vec![asked],
                plain: vec![page.to_owned()],
            }],
            process: Process::start(sleep.arg("60")).expect("there is sleep"),
            folder: Folder::new().expect("a folder"),
        }
    }

    #[test]
    fn another_page_is_told_and_so_is_another_length() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let first = running("first", address, "a page");
        let mut other = running("other", address, "A page");
        let told = |other: &Running| compare(&first, other).map_err(|why| why.to_string());
        let why = "/ of other is another page than that of first: line 1 (empty ones not counted): \
            `A page` instead of `a page`";
        assert_eq!(told(&other), Err(why.to_owned()));
        other.equality = Equality::Length;
        assert_eq!(told(&other), Ok(()));
        other.pages[0].asked[0].answer.content.pop();
        let why = "/ of other is another page than that of first: 5 bytes instead of 6";
        assert_eq!(told(&other), Err(why.to_owned()));
    }

    #[test]
    fn of_one_that_ends_it_is_told_how_and_what_it_said() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let mut server = running("first", address, "a page");
        assert_eq!(server.ended(), None);
        fs::write(server.folder.path().join(LOG), "a\nout of luck\n").expect("it is ours");
        server.process.end();
        let told = server.ended().expect("it has ended");
        assert!(
            told.contains("signal: 9") && told.ends_with("a; out of luck"),
            "{told}"
        );
    }

    #[test]
    fn programs_are_found_by_name_or_path() {
        assert!(found("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(found("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(
            [found("/bin/what-nobody-has"), found("what-nobody-has")],
            [None, None]
        );
    }
}
