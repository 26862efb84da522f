//! The pages in actix-web, with one worker; compressed by its own middleware where that is asked
//! for. Usage: `shop-actix ADDRESS DATABASE [CONNECTIONS | gzip]`.
#![forbid(unsafe_code)]

use actix_web::middleware::{Compress, Condition};
use actix_web::web::{self, Data};
use actix_web::{App, HttpResponse, HttpServer};
use rhythm_peers::{Database, Failed, Site, Told};
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

async fn home(site: Data<Site>) -> HttpResponse {
    answer(site.home().await.map(Some))
}

async fn best(site: Data<Site>, of: web::Query<Of>) -> HttpResponse {
    answer(site.best(&of.subject).await.map(Some))
}

async fn fortunes(site: Data<Site>) -> HttpResponse {
    answer(site.fortunes().await.map(Some))
}

async fn long_fortunes(site: Data<Site>) -> HttpResponse {
    answer(site.long_fortunes().await.map(Some))
}

async fn product(site: Data<Site>, id: web::Path<i64>) -> HttpResponse {
    answer(site.product(*id).await)
}

#[actix_web::main]
async fn main() -> Result<(), Failed> {
    let told = Told::read()?;
    let database = Database::connect(&told.url, told.connections).await?;
    let site = Data::new(Site(database));
    let gzip = told.gzip;
    let app = move || {
        App::new()
            .wrap(Condition::new(gzip, Compress::default()))
            .app_data(site.clone())
            .route("/", web::get().to(home))
            .route("/best", web::get().to(best))
            .route("/item/{id}", web::get().to(product))
            .route("/fortunes", web::get().to(fortunes))
            .route("/fortunes-200", web::get().to(long_fortunes))
    };
    HttpServer::new(app)
        .workers(1)
        .bind(told.address)?
        .run()
        .await?;
    Ok(())
}
