//! A connection that is waited for, for whoever loads a site: it asks what a statement is.

use super::access::Access;
use super::answer;
use super::greeting::{Greeter, Refusal};
use super::messages::{self, Fields, ServerError};
use super::scan::ANSWER_MAX;
use crate::backend::http_client::UrlPlace;
use crate::backend::waited::{CURE, Waited, in_words};
use crate::backend::wire::Unreadable;
use std::io;

/// An open connection.
pub(super) struct Client {
    place: UrlPlace,
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

/// A connection to a place fails.
fn failed_at(place: &UrlPlace) -> impl Fn(io::Error) -> Refusal {
    move |why| Refusal {
        cause: in_words(place, &why),
        cure: CURE,
    }
}

impl Client {
    /// Opens one.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn open(access: &Access) -> Result<Client, Refusal> {
        let place = &access.address.place;
        let failed = failed_at(place);
        let connection = Waited::open(place, access.tls.as_ref()).map_err(&failed)?;
        let mut client = Client {
            place: place.clone(),
            connection,
            input: Vec::new(),
        };
        let (mut greeter, mut out, mut input) = (Greeter::default(), Vec::new(), Vec::new());
        loop {
            let ready = greeter.go_on(access, &input, &mut out)?;
            client.connection.write(&out).map_err(&failed)?;
            out.clear();
            if let Some(used) = ready {
                client.input = input.split_off(used);
                return Ok(client);
            }
            input.clear();
            client.connection.read(&mut input).map_err(&failed)?;
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
        let failed = failed_at(&self.place);
        self.connection.write(&out).map_err(&failed)?;
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
            self.connection.read(&mut self.input).map_err(&failed)?;
        }
    }
}
