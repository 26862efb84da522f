//! The account summary page in may_minihttp with sailfish.
//!
//! The page, the data (the same function of the user id) and the work are those of
//! `services/banking`: the user is found by a cookie in a table of sessions, the accounts are asked
//! from BeSim in memory, every value is escaped, the page is rendered for the request. Usage:
//! `bank-may ADDRESS`; the cookie is `rhythm_session=USER`.
#![forbid(unsafe_code)]

use may_minihttp::{HttpService, HttpServiceFactory, Request, Response};
use rhythm_peers::Branch;
use std::io;
use std::sync::Arc;

struct Site(Arc<Branch>);

impl HttpService for Site {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        let mut headers = request.headers().iter();
        let cookies = headers.find(|header| header.name.eq_ignore_ascii_case("cookie"));
        let user = cookies.and_then(|cookies| self.0.user(cookies.value));
        match (request.path(), user) {
            ("/bank/account_summary.php", Some(user)) => {
                response.header("Content-Type: text/html; charset=utf-8");
                let page = self.0.account_summary(user).map_err(io::Error::other)?;
                response.body_vec(page.into_bytes());
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

struct Factory(Arc<Branch>);

impl HttpServiceFactory for Factory {
    type Service = Site;

    fn new_service(&self, _: usize) -> Site {
        Site(Arc::clone(&self.0))
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let address = address.ok_or_else(|| io::Error::other("usage: bank-may ADDRESS"))?;
    may::config()
        .set_workers(1)
        .set_pool_capacity(500)
        .set_stack_size(0x2000);
    let server = Factory(Arc::default()).start(address)?;
    server
        .join()
        .map_err(|_| io::Error::other("the server panicked"))
}
