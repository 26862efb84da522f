//! HTTP/1.1 (RFC 9110, RFC 9112) as functions over bytes.
//!
//! A request's life: [`request`] parses its head, [`body`] its content, [`uri`] decodes what the
//! target, forms and cookies carry ([`multipart`] what forms with files do, [`local_path`] which
//! paths lead nowhere else), [`encoding`] knows in which encodings its answer is taken,
//! [`conditional`] decides between 200, 206, 304, 412 and 416, and [`response`] writes the answer.
//! [`client`] is the other side: it writes requests and parses responses. Framing is strict
//! everywhere: what two implementations could read differently is an error.

pub mod body;
pub mod client;
pub mod conditional;
pub mod date;
pub mod encoding;
pub mod head;
pub mod local_path;
pub mod multipart;
pub mod request;
pub mod response;
pub mod uri;
