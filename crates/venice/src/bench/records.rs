//! Records of a program that are here, or at the other process, by each channel: what the paper's
//! Figure 5 compares.

use super::options::Error;
use super::peers::{Peer, TRANSPORTS};
use super::talk::{RECORD_BYTES, RECORDS, Talk};
use crate::channel::qpair::Credits;
use crate::channel::transport::Transport;
use crate::loan::{LoanId, LoanKey};
use crate::remote::{Channel, Place, RemoteMemory};

/// A record.
pub(super) type Record = [u8; RECORD_BYTES];

/// Questions by messages that are under way at a time, where they are not waited for one by one.
const AHEAD: usize = 16;

/// What a program has its data in.
pub(super) trait Records {
    /// Reads records, in this order.
    fn read(&mut self, which: &[u32], each: &mut dyn FnMut(&Record)) -> Result<(), Error>;

    /// Writes one; what is read afterwards is that.
    fn write(&mut self, which: u32, record: &Record) -> Result<(), Error>;

    /// Waits until all that was written is where it belongs.
    fn settle(&mut self) -> Result<(), Error>;
}

/// Where they are, and by what way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In the memory of this process.
    Local,
    /// By messages, of which so many are under way at a time.
    QPair { to: To, ahead: usize },
    /// By operations of CRMA, each waited for.
    Crma { to: To },
}

/// How far they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Over memory that both processes share: no system calls where nobody sleeps, which stands
    /// for a channel on the chip.
    Shared,
    /// Over TCP, through the kernel: a channel off the chip.
    Tcp,
    /// Over TCP with a relay between.
    Relay,
}

impl Way {
    /// All that are compared; the first is what the others are compared with.
    pub(super) const ALL: [Way; 10] = [
        Way::Local,
        Way::QPair {
            to: To::Tcp,
            ahead: 1,
        },
        Way::QPair {
            to: To::Shared,
            ahead: 1,
        },
        Way::QPair {
            to: To::Tcp,
            ahead: AHEAD,
        },
        Way::QPair {
            to: To::Shared,
            ahead: AHEAD,
        },
        Way::Crma { to: To::Tcp },
        Way::Crma { to: To::Shared },
        Way::QPair {
            to: To::Relay,
            ahead: 1,
        },
        Way::QPair {
            to: To::Relay,
            ahead: AHEAD,
        },
        Way::Crma { to: To::Relay },
    ];

    pub(super) fn name(self) -> String {
        let to = |to| match to {
            To::Tcp => TRANSPORTS[0],
            To::Shared => TRANSPORTS[1],
            To::Relay => "relay",
        };
        match self {
            Way::Local => "local".to_owned(),
            Way::QPair { to: far, ahead: 1 } => format!("QPair, {}", to(far)),
            Way::QPair { to: far, .. } => format!("asynchronous QPair, {}", to(far)),
            Way::Crma { to: far } => format!("CRMA, {}", to(far)),
        }
    }

    /// The records there, all of them zeros.
    pub(super) fn open(self, peer: &Peer) -> Result<Box<dyn Records>, Error> {
        let (places, credits) = (&peer.places, Credits::Crma);
        Ok(match self {
            Way::Local => Box::new(Local(vec![[0; RECORD_BYTES]; RECORDS])),
            Way::QPair { to, ahead } => match to {
                To::Tcp => Box::new(Asked::of(Talk::tcp(places.talk, credits)?, ahead)),
                To::Relay => Box::new(Asked::of(Talk::tcp(places.talk_relay, credits)?, ahead)),
                To::Shared => Box::new(Asked::of(
                    Talk::shared(&places.talk_socket, credits)?,
                    ahead,
                )),
            },
            Way::Crma { to } => {
                let place = match to {
                    To::Tcp => Place::Tcp(places.donor),
                    To::Relay => Place::Tcp(places.donor_relay),
                    To::Shared => Place::Local(places.donor_socket.clone()),
                };
                let mut memory = RemoteMemory::connect(&place)?;
                let bytes = (RECORDS * RECORD_BYTES) as u64;
                let base = memory.map(LoanId(0), &LoanKey(peer.key), bytes)?;
                Box::new(Loaded { memory, base })
            }
        })
    }
}

struct Local(Vec<Record>);

impl Records for Local {
    fn read(&mut self, which: &[u32], each: &mut dyn FnMut(&Record)) -> Result<(), Error> {
        for which in which {
            each(&self.0[*which as usize]);
        }
        Ok(())
    }

    fn write(&mut self, which: u32, record: &Record) -> Result<(), Error> {
        self.0[which as usize] = *record;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

struct Loaded {
    memory: RemoteMemory,
    base: u64,
}

impl Loaded {
    fn at(&self, which: u32) -> u64 {
        self.base + u64::from(which) * RECORD_BYTES as u64
    }
}

impl Records for Loaded {
    fn read(&mut self, which: &[u32], each: &mut dyn FnMut(&Record)) -> Result<(), Error> {
        let mut record = [0; RECORD_BYTES];
        for which in which {
            let at = self.at(*which);
            self.memory.read_over(Channel::Crma, at, &mut record)?;
            each(&record);
        }
        Ok(())
    }

    fn write(&mut self, which: u32, record: &Record) -> Result<(), Error> {
        let at = self.at(which);
        Ok(self.memory.write_over(Channel::Crma, at, record)?)
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(self.memory.sync()?)
    }
}

struct Asked<T> {
    talk: Talk<T>,
    ahead: usize,
    /// Answers to writes that are to be taken: they come before those to what is asked now.
    written: usize,
    came: Vec<u8>,
}

impl<T: Transport> Asked<T> {
    fn of(talk: Talk<T>, ahead: usize) -> Self {
        Self {
            talk,
            ahead,
            written: 0,
            came: Vec::new(),
        }
    }

    fn take(&mut self) -> Result<Record, Error> {
        self.talk.take(&mut self.came)?;
        let short = |_| Error::Program("the other process has not that record".into());
        Record::try_from(self.came.as_slice()).map_err(short)
    }
}

impl<T: Transport> Records for Asked<T> {
    fn read(&mut self, which: &[u32], each: &mut dyn FnMut(&Record)) -> Result<(), Error> {
        self.settle()?;
        let mut asked = 0;
        for taken in 0..which.len() {
            while asked < which.len().min(taken + self.ahead) {
                self.talk.ask_record(which[asked])?;
                asked += 1;
            }
            let record = self.take()?;
            each(&record);
        }
        Ok(())
    }

    fn write(&mut self, which: u32, record: &Record) -> Result<(), Error> {
        self.talk.write_record(which, record)?;
        self.written += 1;
        while self.written >= self.ahead {
            self.take()?;
            self.written -= 1;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        for _ in 0..std::mem::take(&mut self.written) {
            self.take()?;
        }
        Ok(())
    }
}
