//! The pages in axum, on one thread; compressed by tower-http's layer where that is asked for.
//! Usage: `shop-axum ADDRESS DATABASE [CONNECTIONS | gzip]`.
#![forbid(unsafe_code)]

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use rhythm_peers::{Database, Failed, Site, Told};
use serde::Deserialize;
use std::sync::Arc;
use tokio::net::TcpListener;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Of {
    subject: String,
}

fn answer(page: Result<Option<String>, Failed>) -> Response {
    match page {
        Ok(Some(page)) => Html(page).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(why) => (StatusCode::BAD_GATEWAY, why.to_string()).into_response(),
    }
}

async fn home(State(site): State<Arc<Site>>) -> Response {
    answer(site.home().await.map(Some))
}

async fn best(State(site): State<Arc<Site>>, Query(of): Query<Of>) -> Response {
    answer(site.best(&of.subject).await.map(Some))
}

async fn fortunes(State(site): State<Arc<Site>>) -> Response {
    answer(site.fortunes().await.map(Some))
}

async fn long_fortunes(State(site): State<Arc<Site>>) -> Response {
    answer(site.long_fortunes().await.map(Some))
}

async fn product(State(site): State<Arc<Site>>, Path(id): Path<i64>) -> Response {
    answer(site.product(id).await)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let told = Told::read()?;
    let database = Database::connect(&told.url, told.connections).await?;
    let site = Router::new()
        .route("/", get(home))
        .route("/best", get(best))
        .route("/item/{id}", get(product))
        .route("/fortunes", get(fortunes))
        .route("/fortunes-200", get(long_fortunes))
        .with_state(Arc::new(Site(database)));
    let site = match told.gzip {
        true => site.layer(CompressionLayer::new().quality(CompressionLevel::Fastest)),
        false => site,
    };
    let listener = TcpListener::bind(told.address).await?;
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // Without it, the latency is the client's acknowledgement's.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, site).await?;
    Ok(())
}
