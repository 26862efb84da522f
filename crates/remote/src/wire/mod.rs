//! Bytes and messages, without I/O: what a front end and a device's node say to each other.
//!
//! ```text
//!     front end                                 node
//!               <------ Greeting (version, number) --
//!     -- Hello (version, number, proof) ----------->
//!               <------ Welcome (proof), or Refused --
//!     -- Offer (digest of a service) -------------->
//!               <------ Send, if it has it not --------
//!     -- Sources ---------------------------------->   compiled there
//!               <------ Ready (digest of programs), Unfit, or Later
//!     -- Work (token, columns) -------------------->   as many as Greeting allows
//!               <------ Done (token, runs ...), or Declined
//!     -- Ping ------------------------------------->
//!               <------ Pong ---------------------------
//! ```
//!
//! It is the request, input, output and flags of a mailbox (Venice, section 5.2.2, *remote
//! accelerators*) as messages of one connection. A message is its kind and what belongs to it, in a
//! frame with its length and checksum (frame.rs); both ends bound the length before they keep a
//! byte, and check all of what is said before they use any of it. A node that is told what the
//! front end has not said answers Corrupt, and ends the connection.

pub(crate) mod answer;
pub(crate) mod bytes;
pub(crate) mod columns;
pub(crate) mod frame;
pub(crate) mod may_say;
pub(crate) mod message;
pub(crate) mod outcome;
pub(crate) mod reads;

#[cfg(test)]
mod tests;
