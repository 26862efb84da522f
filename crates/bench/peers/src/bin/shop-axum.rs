//! The shop's pages in axum, on one thread. Usage: `shop-axum ADDRESS DATABASE`.
#![forbid(unsafe_code)]

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use rhythm_peers::{Failed, Shop};
use serde::Deserialize;
use std::sync::Arc;
use tokio::net::TcpListener;

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

async fn home(State(shop): State<Arc<Shop>>) -> Response {
    answer(shop.home().await.map(Some))
}

async fn best(State(shop): State<Arc<Shop>>, Query(of): Query<Of>) -> Response {
    answer(shop.best(&of.subject).await.map(Some))
}

async fn product(State(shop): State<Arc<Shop>>, Path(id): Path<i64>) -> Response {
    answer(shop.product(id).await)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .ok_or("usage: shop-axum ADDRESS DATABASE")?;
    let database = arguments
        .next()
        .ok_or("usage: shop-axum ADDRESS DATABASE")?;
    let site = Router::new()
        .route("/", get(home))
        .route("/best", get(best))
        .route("/item/{id}", get(product))
        .with_state(Arc::new(Shop::connect(&database).await?));
    let listener = TcpListener::bind(address).await?;
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // Without it, the latency is the client's acknowledgement's.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, site).await?;
    Ok(())
}
