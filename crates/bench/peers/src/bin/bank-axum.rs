//! The account summary page in axum with sailfish, on one thread; the page and the work are those
//! of `bank-may`. Answers are compressed for who takes it by tower-http's layer, which has zlib-rs,
//! at its fastest level. Usage: `bank-axum ADDRESS`.
#![forbid(unsafe_code)]

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use rhythm_peers::{Branch, Failed};
use std::sync::Arc;
use tokio::net::TcpListener;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

async fn account_summary(State(branch): State<Arc<Branch>>, headers: HeaderMap) -> Response {
    let cookies = headers.get(header::COOKIE);
    let user = cookies.and_then(|cookies| branch.user(cookies.as_bytes()));
    match user.map(|user| branch.account_summary(user)) {
        Some(Ok(page)) => Html(page).into_response(),
        Some(Err(why)) => (StatusCode::INTERNAL_SERVER_ERROR, why.to_string()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let address = std::env::args().nth(1).ok_or("usage: bank-axum ADDRESS")?;
    let bank = Router::new()
        .route("/bank/account_summary.php", get(account_summary))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .with_state(Arc::new(Branch::default()));
    let listener = TcpListener::bind(address).await?;
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // Without it, the latency is the client's acknowledgement's.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, bank).await?;
    Ok(())
}
