//! A real browser of a test's own: Chromium without a window, driven by its driver over WebDriver
//! (W3C), which is JSON over HTTP. What tests need of that is one kind of request, so it is written
//! here: clients that there are want an async runtime.

use crate::server::NEVER;
use base64::Engine;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What to do where there is none.
const INSTALL: &str = "Chromium and its driver are there (apt-get install chromium \
                       chromium-driver)";

/// The driver, in a group of its own, which the browser's processes are in, too; all of them are
/// killed when nobody is left who could write to the shell, however this process ended. (Those that
/// wait for crashes are in none, and end with the browser.)
const DRIVER: &str = "chromedriver --port=0 & exec >/dev/null; read -r end; kill -s KILL -- -$$";

/// A browser with one page; ended, with all its processes, when dropped.
pub(crate) struct Browser {
    /// What leads their group.
    driver: Child,
    address: SocketAddr,
    session: String,
    /// What the browser keeps.
    folder: PathBuf,
}

impl Browser {
    /// Starts one.
    pub(crate) fn start(test: &str) -> Browser {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-browser"));
        // What an earlier run has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        let mut driver = Command::new("sh")
            .args(["-c", DRIVER])
            .env("TMPDIR", &folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("there is a shell");
        let said = driver.stdout.take().expect("it is piped");
        let mut browser = Browser {
            driver,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            session: String::new(),
            folder,
        };
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        browser.address.set_port(port.expect(INSTALL));
        // It goes on saying things.
        thread::spawn(move || lines.for_each(drop));
        let arguments = [
            "--headless=new".to_owned(),
            // It refuses to be root with one.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--no-proxy-server".to_owned(),
            "--window-size=1440,900".to_owned(),
            format!("--user-data-dir={}", browser.folder.display()),
        ];
        let options = json!({"args": arguments});
        let wanted = json!({
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
        });
        let asked = json!({"capabilities": {"alwaysMatch": wanted}});
        let told = browser.command("POST", "/session", &asked).expect(INSTALL);
        let session = told["sessionId"].as_str().expect("a session has one");
        session.clone_into(&mut browser.session);
        browser
    }

    /// What the driver says to a command; or why not.
    fn command(&self, method: &str, path: &str, asked: &Value) -> Result<Value, String> {
        let told = self.ask(method, path, asked).map_err(|it| it.to_string())?;
        match told["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", told["value"]["message"])),
            None => Ok(told["value"].clone()),
        }
    }

    fn ask(&self, method: &str, path: &str, asked: &Value) -> std::io::Result<Value> {
        let stream = TcpStream::connect_timeout(&self.address, NEVER)?;
        stream.set_read_timeout(Some(NEVER))?;
        let body = asked.to_string();
        write!(
            &stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut stream = BufReader::new(stream);
        let (mut length, mut line) = (0, String::new());
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap_or(0);
                }
                _ => {}
            }
        }
        let mut told = vec![0; length];
        stream.read_exact(&mut told)?;
        Ok(serde_json::from_slice(&told)?)
    }

    fn try_of_session(&self, path: &str, asked: &Value) -> Result<Value, String> {
        let path = format!("/session/{}{path}", self.session);
        self.command("POST", &path, asked)
    }

    fn of_session(&self, path: &str, asked: &Value) -> Value {
        self.try_of_session(path, asked).expect("it does so")
    }

    /// Opens a page.
    pub(crate) fn open(&self, url: &str) {
        self.of_session("/url", &json!({"url": url}));
    }

    /// What a script of the page returns; or why it was not run.
    fn try_run(&self, script: &str) -> Result<Value, String> {
        self.try_of_session("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a script of the page returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.try_run(script).expect("it does so")
    }

    /// Waits until a script returns what is so, and gives that.
    pub(crate) fn until(&self, script: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            // A page that loads itself anew takes the script along that is run at that moment.
            let told = match self.try_run(script) {
                Ok(told) if is_so(&told) => return told,
                told => told,
            };
            assert!(
                start.elapsed() < NEVER,
                "it is never so: {script} is {told:?}; the page:\n{:?}",
                self.try_run("return document.body.innerText")
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the text of what a selector finds has these words in it, and gives that.
    pub(crate) fn until_shown(&self, selector: &str, words: &str) -> String {
        let found = format!("document.querySelector({})", json!(selector));
        let script = format!("return {found}?.innerText ?? ''");
        let has_words = |text: &Value| text.as_str().is_some_and(|text| text.contains(words));
        let told = self.until(&script, has_words);
        told.as_str().unwrap_or_default().to_owned()
    }

    /// Has a window of this many pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// Is of somebody who likes pages dark, or light.
    pub(crate) fn prefer(&self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({"features": [feature]}),
        );
    }

    /// Takes a picture (PNG) of the whole page at this width, and gives its height.
    pub(crate) fn picture(&self, width: u32, path: &Path) -> u32 {
        self.resize(width, 800);
        let height = self.run("return document.documentElement.scrollHeight");
        let height = height.as_u64().and_then(|height| height.try_into().ok());
        let height = height.expect("it has a height");
        self.resize(width, height);
        // What is not painted yet is blank in it.
        self.run(
            "return new Promise((done) => \
                 requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 500))))",
        );
        let told = self.devtools("Page.captureScreenshot", &json!({"format": "png"}));
        let text = told["data"].as_str().expect("a picture");
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        fs::write(path, bytes.expect("it is in base64")).expect("a file can be written");
        height
    }

    /// A command of Chromium's own.
    pub(crate) fn devtools(&self, command: &str, asked: &Value) -> Value {
        let asked = json!({"cmd": command, "params": asked});
        self.of_session("/goog/cdp/execute", &asked)
    }

    /// What the page's scripts said since this was asked, errors of them and of its policy too.
    pub(crate) fn said(&self) -> Vec<String> {
        let told = self.of_session("/se/log", &json!({"type": "browser"}));
        let lines = told.as_array().cloned().unwrap_or_default();
        let messages = lines.iter().map(|line| line["message"].to_string());
        messages.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // It ends well, if it does; else it is killed.
            let path = format!("/session/{}", self.session);
            let _ = self.ask("DELETE", &path, &json!({}));
        }
        let _ = kill_process_group(Pid::from_child(&self.driver), Signal::KILL);
        let _ = self.driver.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
