//! Lines from one program to another by a QPair, also over connections that break:
//!
//!     messages take ADDRESS      prints where it listens, then the lines that come
//!     messages send ADDRESS      sends the lines of its standard input
//!
//! Where the connection breaks, the sender connects again, and each line still comes once.

use rhythm_venice::channel::messages::{Credits, Messages, QueueSettings};
use rhythm_venice::remote::Lost;
use std::env;
use std::error::Error;
use std::io::{self, BufRead};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

const SETTINGS: QueueSettings = QueueSettings {
    messages: 16,
    message_bytes: 4096,
    credits: Credits::Crma,
    credit_every: 1,
};
const PATIENCE: Duration = Duration::from_secs(30);
/// An empty message is the end.
const END: &[u8] = b"";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["take", address] => take(address),
        ["send", address] => send(address),
        _ => Err("messages take ADDRESS, or messages send ADDRESS".into()),
    }
}

fn take(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    let mut messages = Messages::new(listener.accept()?.0, SETTINGS, PATIENCE)?;
    let mut line = Vec::new();
    loop {
        match messages.receive(&mut line) {
            // The sender waits to hear that all was taken.
            Ok(()) if line == END => return Ok(messages.flush(0)?),
            Ok(()) => println!("{}", String::from_utf8_lossy(&line)),
            Err(lost) => {
                eprintln!("{lost}");
                messages.resume(listener.accept()?.0)?;
            }
        }
    }
}

fn send(address: &str) -> Result<(), Box<dyn Error>> {
    let mut messages = Messages::new(TcpStream::connect(address)?, SETTINGS, PATIENCE)?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        if !line.is_empty() {
            persist(&mut messages, address, |to| to.send(line.as_bytes()))?;
        }
    }
    persist(&mut messages, address, |to| to.send(END))?;
    persist(&mut messages, address, |to| to.flush(0))
}

/// Does it, and connects again as often as the connection breaks.
fn persist(
    messages: &mut Messages,
    address: &str,
    act: impl Fn(&mut Messages) -> Result<(), Lost>,
) -> Result<(), Box<dyn Error>> {
    while let Err(lost) = act(messages) {
        eprintln!("{lost}");
        let mut tries = 0;
        let connection = loop {
            match TcpStream::connect(address) {
                Ok(connection) => break connection,
                Err(error) if tries == 50 => return Err(error.into()),
                Err(_) => tries += 1,
            }
            thread::sleep(Duration::from_millis(100));
        };
        messages.resume(connection)?;
    }
    Ok(())
}
