//! What kinds of backends have in common that speak HTTP: URLs, and responses out of bytes.

mod responses;
mod url;

pub(super) use responses::Response;
pub use responses::{ResponseLimits, Responses};
pub use url::{BackendUrl, UrlError, UrlPlace};
