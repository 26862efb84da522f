//! The dashboard of `rhythm kv`, under load.

use super::browser::Browser;
use super::seen::is_for_everybody;
use super::{figure, is_above_zero, line, meanwhile};
use crate::server::NEVER;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

/// A server's process, killed when dropped; where it answers, and where it tells.
struct Cache(Child, SocketAddr, SocketAddr);

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> Cache {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["kv", "-l", "127.0.0.1", "-p", "-1", "-m", "64", "-t", "2"]);
    command.args(["--admin", "127.0.0.1:0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut lines = said.lines().map_while(Result::ok);
    let mut address = |what: &str| {
        let line = lines.find(|line| line.contains(what)).expect("it is said");
        let (_, address) = line.split_once("address=").expect("an address");
        address.trim().parse().expect("an address")
    };
    let [at, admin] = ["serving over TCP", "told over HTTP"].map(&mut address);
    Cache(child, at, admin)
}

/// Stores values and fetches them, each a few times.
fn use_it(at: SocketAddr) -> Option<()> {
    let mut client = TcpStream::connect(at).ok()?;
    client.set_read_timeout(Some(NEVER)).ok()?;
    let asked = "set a 0 0 1000\r\n".to_owned() + &"x".repeat(1000) + "\r\nget a\r\nget none\r\n";
    let answer = "STORED\r\nVALUE a 0 1000\r\n".len() + 1002 + 2 * "END\r\n".len();
    for _ in 0..200 {
        client.write_all(asked.as_bytes()).ok()?;
        client.read_exact(&mut vec![0; answer]).ok()?;
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Some(())
}

#[test]
fn commands_move_the_charts_of_a_cache() {
    let cache = start();
    let browser = Browser::start("dashboard_kv");
    browser.open(&format!("http://{}/", cache.2));
    browser.until_shown("h1", "rhythm kv");
    browser.until_shown("#hint", "No command has come yet");
    browser.until(&figure("commands", "Commands"), |told| told == "0 /s");
    meanwhile(
        || use_it(cache.1),
        || {
            for (panel, label) in [
                ("commands", "Commands"),
                ("commands", "Of these, hits"),
                ("commands", "CPU a command"),
                ("cohorts", "Commands a cohort"),
                ("memory", "Items"),
                ("clients", "Connections"),
            ] {
                browser.until(&figure(panel, label), is_above_zero);
            }
            browser.until_shown("#commands dl", "50 %");
            browser.until(&line("commands"), |told| {
                let both = [told[0].as_f64(), told[1].as_f64()];
                matches!(both, [Some(least), Some(most)] if most - least > 10.0)
            });
            browser.until_shown("#cohorts .bars", " %");
            browser.until("return document.getElementById('hint').hidden", |told| {
                *told == true
            });
            is_for_everybody(&browser, "kv");
        },
    );
    browser.until(&figure("commands", "Commands"), |told| told == "0 /s");
}
