//! Answers: heads, bodies and errors.

pub(crate) mod error;
pub(crate) mod form;
pub(crate) mod responder;
pub(crate) mod response;
