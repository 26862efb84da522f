//! The shop's pages in actix-web, with one worker. Usage: `shop-actix ADDRESS DATABASE`.
#![forbid(unsafe_code)]

use actix_web::web::{self, Data};
use actix_web::{App, HttpResponse, HttpServer};
use rhythm_peers::{Failed, Shop};
use serde::Deserialize;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Of {
    subject: String,
}

fn answer(page: Result<Option<String>, Failed>) -> HttpResponse {
    match page {
        Ok(Some(page)) => HttpResponse::Ok()
            .content_type("text/html; charset=utf-8")
            .body(page),
        Ok(None) => HttpResponse::NotFound().finish(),
        Err(why) => HttpResponse::BadGateway().body(why.to_string()),
    }
}

async fn home(shop: Data<Shop>) -> HttpResponse {
    answer(shop.home().await.map(Some))
}

async fn best(shop: Data<Shop>, of: web::Query<Of>) -> HttpResponse {
    answer(shop.best(&of.subject).await.map(Some))
}

async fn product(shop: Data<Shop>, id: web::Path<i64>) -> HttpResponse {
    answer(shop.product(*id).await)
}

#[actix_web::main]
async fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .ok_or("usage: shop-actix ADDRESS DATABASE")?;
    let database = arguments
        .next()
        .ok_or("usage: shop-actix ADDRESS DATABASE")?;
    let shop = Data::new(Shop::connect(&database).await?);
    let site = move || {
        App::new()
            .app_data(shop.clone())
            .route("/", web::get().to(home))
            .route("/best", web::get().to(best))
            .route("/item/{id}", web::get().to(product))
    };
    HttpServer::new(site)
        .workers(1)
        .bind(address)?
        .run()
        .await?;
    Ok(())
}
