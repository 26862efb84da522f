//! Answers: heads, bodies and errors.

pub(crate) mod response;
