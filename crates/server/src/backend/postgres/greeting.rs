//! How a connection is opened: who this is, the password, and what holds for all statements.

use super::access::Access;
use super::messages::{self, Fields, Message, ServerError};
use crate::backend::password::PASSWORD_CURE;
use crate::backend::wire::Unreadable;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use std::fmt;

/// Most bytes of one message while a connection is opened.
const MESSAGE_MAX: usize = 1 << 16;

/// Opens one connection.
#[derive(Default)]
pub(super) struct Greeter {
    /// The beginning of a message.
    begun: Vec<u8>,
    step: Step,
}

impl fmt::Debug for Greeter {
    /// Nothing of what a password is shown by.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Greeter")
    }
}

/// What comes next.
#[derive(Default)]
enum Step {
    /// This side begins.
    #[default]
    Begin,
    /// The server says how it wants to be shown a password, or that it wants none.
    Asked,
    /// SCRAM's first answer.
    ScramFirst(Box<ScramSha256>),
    /// That the server knows the password, too.
    ScramFinal(Box<ScramSha256>),
    /// That the password was right.
    Shown,
    /// What the server tells of itself, and that it is ready.
    In,
}

/// Why a connection cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Why, in words.
    pub(super) cause: String,
    /// What to do about it.
    pub(super) cure: &'static str,
}

impl From<Unreadable> for Refusal {
    fn from(_: Unreadable) -> Refusal {
        Refusal {
            cause: "what answers there does not speak PostgreSQL's protocol".to_owned(),
            cure: "see whether `url` names the database",
        }
    }
}

impl From<ServerError> for Refusal {
    fn from(error: ServerError) -> Refusal {
        let cure = match &*error.code {
            "28P01" | "28000" => {
                "see the user in `url`, `password_file`, and the server's pg_hba.conf"
            }
            "3D000" => "make the database, or name another in `url`",
            "53300" => {
                "lower `connections_max` or the workers, or raise the server's max_connections"
            }
            "57P03" => "wait until it is ready",
            _ => "see the server's own log",
        };
        Refusal {
            cause: error.in_words(),
            cure,
        }
    }
}

impl Greeter {
    /// Goes on with what came, nothing at first, and appends what is to be sent. How many bytes of
    /// the input are done with where the connection is ready; else all are.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn go_on(
        &mut self,
        access: &Access,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, Refusal> {
        if let Step::Begin = self.step {
            begin(access, out);
            self.step = Step::Asked;
        }
        let before = self.begun.len();
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(input);
        let mut at = 0;
        while let Some((message, used)) = messages::first(&bytes[at..], MESSAGE_MAX)? {
            at += used;
            if self.takes(access, message, out)? {
                return Ok(Some(at - before));
            }
        }
        bytes.drain(..at);
        self.begun = bytes;
        Ok(None)
    }

    /// Takes a message; whether the connection is ready with it.
    fn takes(
        &mut self,
        access: &Access,
        message: Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        match message.tag {
            b'E' => return Err(ServerError::read(message.body)?.into()),
            // What the server says beside.
            b'N' => {}
            b'R' => {
                let mut fields = Fields(message.body);
                let kind = fields.u32()?;
                let step = std::mem::take(&mut self.step);
                self.step = shown(access, step, kind, fields, out)?;
            }
            b'v' => {
                return Err(Refusal {
                    cause: "the server does not speak version 3.0 of the protocol".to_owned(),
                    cure: "use one of this century",
                });
            }
            _ if !matches!(self.step, Step::In) => return Err(Unreadable.into()),
            // Parameters, and by what requests can be canceled.
            b'S' | b'K' => {}
            b'Z' => return Ok(true),
            _ => return Err(Unreadable.into()),
        }
        Ok(false)
    }
}

/// Says who asks, and what holds for all statements.
fn begin(access: &Access, out: &mut Vec<u8>) {
    // In milliseconds, as the server has them; 0 would be for ever.
    let timeout = access.statement_timeout.as_millis();
    let timeout = timeout.clamp(1, i32::MAX as u128).to_string();
    let parameters = [
        ("user", &*access.address.user),
        ("database", &access.address.database),
        ("application_name", &access.application_name),
        ("client_encoding", "UTF8"),
        ("TimeZone", "UTC"),
        // How cells are written: `cells.rs` reads them.
        ("DateStyle", "ISO"),
        ("bytea_output", "hex"),
        ("extra_float_digits", "3"),
        // A backslash in '...' is one, as the compiler has it that looks for arguments.
        ("standard_conforming_strings", "on"),
        // Who looks at them?
        ("client_min_messages", "error"),
        ("statement_timeout", &timeout),
        // What came in part holds no locks for longer.
        ("idle_in_transaction_session_timeout", &timeout),
        // An `exec` begins a transaction that writes.
        ("default_transaction_read_only", "on"),
    ];
    messages::startup(parameters, out);
}

/// The authentication that the server asks for, and what is next.
fn shown(
    access: &Access,
    step: Step,
    kind: u32,
    mut fields: Fields<'_>,
    out: &mut Vec<u8>,
) -> Result<Step, Refusal> {
    let password = || match access.password.get() {
        Some(password) => Ok(password.0.into_bytes()),
        None => Err(Refusal {
            cause: "the server asks for a password".to_owned(),
            cure: PASSWORD_CURE,
        }),
    };
    let wrong = |why: std::io::Error| Refusal {
        cause: format!("the password could not be shown: {why}"),
        cure: "see whether `url` names the database, and the server's own log",
    };
    let shows = |text: &[u8], out: &mut Vec<u8>| {
        messages::message(b'p', out, |out| messages::text(text, out));
    };
    Ok(match (step, kind) {
        (Step::Asked | Step::Shown, 0) => Step::In,
        (Step::Asked, 3) => {
            if !access.is_private() {
                return Err(Refusal {
                    cause: "the server wants the password as it is, and others could hear it"
                        .to_owned(),
                    cure: "have pg_hba.conf say scram-sha-256, or have it speak TLS \
                           (`?sslmode=verify-full` behind `url`)",
                });
            }
            shows(&password()?, out);
            Step::Shown
        }
        (Step::Asked, 5) => {
            let salt = fields.array()?;
            let hash = md5_hash(access.address.user.as_bytes(), &password()?, salt);
            shows(hash.as_bytes(), out);
            Step::Shown
        }
        (Step::Asked, 10) => {
            let is_known = loop {
                match fields.text()? {
                    b"" => break false,
                    name if name == SCRAM_SHA_256.as_bytes() => break true,
                    _ => {}
                }
            };
            if !is_known {
                return Err(not_spoken());
            }
            let scram = ScramSha256::new(&password()?, ChannelBinding::unsupported());
            messages::message(b'p', out, |out| {
                messages::text(SCRAM_SHA_256.as_bytes(), out);
                messages::value(out, |out| out.extend_from_slice(scram.message()));
            });
            Step::ScramFirst(Box::new(scram))
        }
        (Step::ScramFirst(mut scram), 11) => {
            scram.update(fields.0).map_err(wrong)?;
            messages::message(b'p', out, |out| out.extend_from_slice(scram.message()));
            Step::ScramFinal(scram)
        }
        (Step::ScramFinal(mut scram), 12) => {
            scram.finish(fields.0).map_err(wrong)?;
            Step::Shown
        }
        (Step::Asked, _) => return Err(not_spoken()),
        _ => return Err(Unreadable.into()),
    })
}

fn not_spoken() -> Refusal {
    Refusal {
        cause: "the server asks for an authentication that is not spoken here".to_owned(),
        cure: "have pg_hba.conf say scram-sha-256, md5, peer or trust",
    }
}
