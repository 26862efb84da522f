//! What kinds of backends have in common that speak HTTP: URLs, and responses out of bytes.

mod responses;

pub(super) use responses::Response;
pub use responses::{ResponseLimits, Responses};
pub use rhythm_engine::settings::{BackendUrl, UrlError, UrlPlace};
