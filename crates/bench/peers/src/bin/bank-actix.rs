//! The account summary page in actix-web with sailfish, with one worker; the page and the work are
//! those of `bank-may`. Answers are compressed for who takes it by actix's own middleware. Usage:
//! `bank-actix ADDRESS [CERTIFICATE KEY]`: with these two files (PEM), over TLS, by rustls.
#![forbid(unsafe_code)]

use actix_web::http::header;
use actix_web::middleware::Compress;
use actix_web::web::{self, Data};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use rhythm_peers::{Branch, Failed};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

async fn account_summary(request: HttpRequest, branch: Data<Branch>) -> HttpResponse {
    let cookies = request.headers().get(header::COOKIE);
    let user = cookies.and_then(|cookies| branch.user(cookies.as_bytes()));
    match user.map(|user| branch.account_summary(user)) {
        Some(Ok(page)) => HttpResponse::Ok()
            .content_type("text/html; charset=utf-8")
            .body(page),
        Some(Err(why)) => HttpResponse::InternalServerError().body(why.to_string()),
        None => HttpResponse::NotFound().finish(),
    }
}

fn tls(certificate: &str, key: &str) -> Result<ServerConfig, Failed> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = ServerConfig::builder().with_no_client_auth();
    Ok(config.with_single_cert(chain, key)?)
}

#[actix_web::main]
async fn main() -> Result<(), Failed> {
    let usage = "usage: bank-actix ADDRESS [CERTIFICATE KEY]";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let branch = Data::new(Branch::default());
    let app = move || {
        App::new()
            .app_data(branch.clone())
            .wrap(Compress::default())
            .route("/bank/account_summary.php", web::get().to(account_summary))
    };
    let server = HttpServer::new(app).workers(1);
    let server = match &arguments[..] {
        [address] => server.bind(address)?,
        [address, certificate, key] => server.bind_rustls_0_23(address, tls(certificate, key)?)?,
        _ => return Err(usage.into()),
    };
    Ok(server.run().await?)
}
