//! A redis-server, here or with most of its memory elsewhere, and who asks it.

use super::lab::{Lab, Memory, Running};
use super::unmade::Unmade;
use crate::load::Rng;
use crate::programs::resident_bytes;
use rand_distr::{Distribution, Zipf};
use rhythm_besim::mix::mix64;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Who does not serve by then never will; nor does an answer take longer.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);
/// Commands on their way while it is filled.
const FILLING: u32 = 64;
/// Bytes of a value.
pub(super) const VALUE_BYTES: usize = 512;

/// How often keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Popularity {
    /// All alike.
    Uniform,
    /// By Zipf's law with the exponent 0.99, as YCSB has it: wherever in memory they are.
    Zipf,
}

impl Popularity {
    /// What draws one of so many keys.
    fn of(self, keys: u32) -> io::Result<impl FnMut(&mut Rng) -> u32> {
        let law =
            Zipf::new(f64::from(keys), 0.99).map_err(|why| io::Error::other(why.to_string()))?;
        Ok(move |rng: &mut Rng| match self {
            Popularity::Uniform => rng.below(keys),
            Popularity::Zipf => (mix64(law.sample(rng) as u64) % u64::from(keys)) as u32,
        })
    }
}

/// A redis-server that serves; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Redis {
    process: Running,
    memory: Memory,
    /// The server's own, which is a child's where its memory is elsewhere.
    pid: u32,
    stream: BufReader<UnixStream>,
    /// What it has with nothing in it.
    empty_bytes: u64,
}

/// The value of a key; each version is another.
pub(super) fn value(key: u32, version: u32) -> Vec<u8> {
    let text = format!("{key}.{version};");
    text.bytes().cycle().take(VALUE_BYTES).collect()
}

fn name(key: u32) -> String {
    format!("key:{key}")
}

impl Redis {
    /// Starts one with further settings, and waits until it serves.
    pub(super) fn start(lab: &Lab<'_>, memory: Memory, more: &[&str]) -> Result<Redis, Unmade> {
        let socket = lab.file("redis.sock");
        let words = [
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--unixsocket",
        ];
        let mut words: Vec<OsString> = words.map(OsString::from).into();
        words.push(socket.clone().into());
        words.extend(["--dir".into(), lab.folder.path().as_os_str().to_owned()]);
        words.extend(more.iter().map(OsString::from));
        let command = lab.with(memory, &lab.options.redis, &words);
        let mut process = lab.start("redis-server", command)?;
        let start = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                return Redis::of(process, memory, stream).map_err(Unmade::of("redis-server"));
            }
            if process.has_ended()? || start.elapsed() > PATIENCE {
                let said = process.said();
                return Err(Unmade::Failed(format!(
                    "redis-server does not serve: {said}"
                )));
            }
            thread::sleep(LOOK);
        }
    }

    fn of(process: Running, memory: Memory, stream: UnixStream) -> io::Result<Redis> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut redis = Redis {
            pid: process.id(),
            process,
            memory,
            stream: BufReader::new(stream),
            empty_bytes: 0,
        };
        let told = redis.info("server", "process_id")?;
        redis.pid = told.and_then(|pid| pid.parse().ok()).unwrap_or(redis.pid);
        redis.empty_bytes = resident_bytes(Some(redis.pid));
        Ok(redis)
    }

    /// Bytes that its data have in memory.
    pub(super) fn data_bytes(&self) -> u64 {
        resident_bytes(Some(self.pid)).saturating_sub(self.empty_bytes)
    }

    /// A figure of INFO.
    pub(super) fn info(&mut self, section: &str, figure: &str) -> io::Result<Option<String>> {
        self.send(&[b"info", section.as_bytes()])?;
        let text = self.answer()?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut lines = lines.filter(|(name, _)| *name == figure);
        Ok(lines.next().map(|(_, value)| value.to_owned()))
    }

    /// Sends a command; its answer is to be taken.
    pub(super) fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).bytes());
            command.extend(*word);
            command.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&command)
    }

    /// Takes an answer: a text, or nothing where there is none.
    pub(super) fn answer(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end();
        let refused = || io::Error::other(format!("redis-server answered {line:?}"));
        match line.split_at_checked(1) {
            Some(("$", "-1")) => Ok(None),
            Some(("$", length)) => {
                let length: usize = length.parse().map_err(|_| refused())?;
                let mut text = vec![0; length.min(64 << 20) + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(length);
                Ok(Some(text))
            }
            Some(("+" | ":", text)) => Ok(Some(text.as_bytes().to_owned())),
            _ => Err(refused()),
        }
    }

    /// Gives each key its first value.
    pub(super) fn fill(&mut self, keys: u32) -> io::Result<()> {
        for first in (0..keys).step_by(FILLING as usize) {
            let some = first..keys.min(first + FILLING);
            for key in some.clone() {
                self.send(&[b"set", name(key).as_bytes(), &value(key, 0)])?;
            }
            for _ in some {
                self.answer()?;
            }
        }
        Ok(())
    }

    /// What a key has.
    pub(super) fn get(&mut self, key: u32) -> io::Result<Option<Vec<u8>>> {
        self.send(&[b"get", name(key).as_bytes()])?;
        self.answer()
    }

    pub(super) fn set(&mut self, key: u32, value: &[u8]) -> io::Result<()> {
        self.send(&[b"set", name(key).as_bytes(), value])?;
        self.answer().map(|_| ())
    }

    /// Asks for keys at random, `depth` at a time, and sets each fifth: a number of all answers.
    pub(super) fn mix(
        &mut self,
        (keys, popularity): (u32, Popularity),
        requests: u32,
        depth: u32,
    ) -> io::Result<u64> {
        let mut draw = popularity.of(keys)?;
        let mut rng = Rng::new(80_20);
        let mut hasher = DefaultHasher::new();
        let mut asked = Vec::new();
        for first in (0..requests).step_by(depth as usize) {
            asked.clear();
            for request in first..requests.min(first + depth) {
                let key = draw(&mut rng);
                match request % 5 {
                    4 => {
                        let value = value(key, request);
                        self.send(&[b"set", name(key).as_bytes(), &value])?;
                    }
                    _ => self.send(&[b"get", name(key).as_bytes()])?,
                }
                asked.push((key, request % 5 != 4));
            }
            for (key, is_get) in &asked {
                let answer = self.answer()?;
                let of_key = format!("{key}.");
                let is_its = |text: &[u8]| text.starts_with(of_key.as_bytes());
                if *is_get && !answer.as_deref().is_some_and(is_its) {
                    return Err(io::Error::other(format!("key {key} has not its value")));
                }
                answer.hash(&mut hasher);
            }
        }
        Ok(hasher.finish())
    }

    /// Ends it, and tells how many of its page faults were answered from elsewhere.
    pub(super) fn end(mut self) -> Result<u64, Unmade> {
        let sent = self.send(&[b"shutdown", b"nosave"]);
        sent.map_err(Unmade::of("redis-server"))?;
        // It closes the connection in the place of an answer.
        let _ = self.stream.read_to_end(&mut Vec::new());
        self.process.ended()?.faults(self.memory)
    }
}

/// Whether there is one.
pub(super) fn is_there(program: &Path) -> Result<(), Unmade> {
    let found = crate::reproduce::servers::program_at(program);
    found.map(|_| ()).map_err(|why| {
        Unmade::Lacking(format!(
            "{why}: install redis-server, or name it with --redis PROGRAM"
        ))
    })
}
