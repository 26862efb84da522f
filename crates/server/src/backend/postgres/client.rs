//! A connection that is waited for, for whoever loads a site: it asks what a statement is.

use super::access::Access;
use super::answer;
use super::greeting::{Greeter, Refusal};
use super::messages::{self, Fields, ServerError};
use super::scan::ANSWER_MAX;
use crate::backend::waited::{Waited, in_words};
use crate::backend::wire::Unreadable;
use std::io;

/// An open connection.
pub(super) struct Client {
    connection: Waited,
    /// What has come and is not read.
    input: Vec<u8>,
}

/// What a statement is.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub(super) parameters: usize,
    /// The types of its columns; none where it returns nothing.
    pub(super) columns: Vec<u32>,
}

fn of_system(why: io::Error) -> Refusal {
    Refusal {
        cause: in_words(&why),
        cure: "start it, or mend `url`",
    }
}

impl Client {
    /// Opens one.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn open(access: &Access) -> Result<Client, Refusal> {
        let connection =
            Waited::open(&access.address.place, access.tls.as_ref()).map_err(of_system)?;
        let mut client = Client {
            connection,
            input: Vec::new(),
        };
        let (mut greeter, mut out, mut input) = (Greeter::default(), Vec::new(), Vec::new());
        loop {
            let ready = greeter.go_on(access, &input, &mut out)?;
            client.connection.write(&out).map_err(of_system)?;
            out.clear();
            if let Some(used) = ready {
                client.input = input.split_off(used);
                return Ok(client);
            }
            input.clear();
            client.connection.read(&mut input).map_err(of_system)?;
        }
    }

    /// What a statement is, or what is wrong with it.
    ///
    /// # Errors
    /// The connection fails.
    pub(super) fn describe(
        mut self,
        types: impl ExactSizeIterator<Item = u32>,
        statement: &[u8],
    ) -> Result<Result<Described, ServerError>, Refusal> {
        let mut out = Vec::new();
        messages::parse(b"", types, &mut out, |out| out.extend_from_slice(statement));
        messages::of_statement(b'D', b"", &mut out);
        messages::sync(&mut out);
        self.connection.write(&out).map_err(of_system)?;
        let (mut described, mut at) = (Ok(Described::default()), 0);
        loop {
            while let Some((message, used)) = messages::first(&self.input[at..], ANSWER_MAX)? {
                at += used;
                match (message.tag, &mut described) {
                    (b'Z', _) => return Ok(described),
                    (b'E', _) => described = Err(ServerError::read(message.body)?),
                    (b't', Ok(described)) => {
                        described.parameters = usize::from(Fields(message.body).u16()?);
                    }
                    (b'T', Ok(described)) => {
                        answer::columns(Fields(message.body), &mut described.columns)?;
                    }
                    _ => {}
                }
            }
            if self.input.len() > 2 * ANSWER_MAX {
                return Err(Unreadable.into());
            }
            self.connection.read(&mut self.input).map_err(of_system)?;
        }
    }
}
