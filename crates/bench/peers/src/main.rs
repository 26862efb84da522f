//! The account summary page in may_minihttp with sailfish.
//!
//! The page, the data (the same function of the user id) and the work are those of
//! `services/banking`: the user is found by a cookie in a table of sessions, the accounts are asked
//! from BeSim in memory, every value is escaped, the page is rendered for the request. Usage:
//! `rhythm-peers ADDRESS`; the cookie is `rhythm_session=USER`.
#![forbid(unsafe_code)]

use may_minihttp::{HttpService, HttpServiceFactory, Request, Response};
use rhythm_besim::{Account, Bank};
use sailfish::TemplateSimple;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

#[derive(TemplateSimple)]
#[template(path = "account_summary.stpl")]
struct AccountSummary {
    accounts: Vec<Account>,
}

struct Site {
    bank: Bank,
    sessions: Arc<HashMap<Vec<u8>, u32>>,
}

impl HttpService for Site {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        let mut headers = request.headers().iter();
        let cookies = headers.find(|header| header.name.eq_ignore_ascii_case("cookie"));
        let user = cookies.and_then(|cookies| {
            let mut pairs = cookies.value.split(|byte| *byte == b';');
            pairs.find_map(|pair| pair.trim_ascii().strip_prefix(b"rhythm_session="))
        });
        match (request.path(), user.and_then(|id| self.sessions.get(id))) {
            ("/bank/account_summary.php", Some(user)) => {
                let page = AccountSummary {
                    accounts: self.bank.accounts(*user).collect(),
                };
                response.header("Content-Type: text/html; charset=utf-8");
                let page = page.render_once().map_err(io::Error::other)?;
                response.body_vec(page.into_bytes());
            }
            _ => {
                response.status_code(404, "Not Found");
            }
        }
        Ok(())
    }
}

struct Factory(Arc<HashMap<Vec<u8>, u32>>);

impl HttpServiceFactory for Factory {
    type Service = Site;

    fn new_service(&self, _: usize) -> Site {
        Site {
            bank: Bank::new(100_000),
            sessions: Arc::clone(&self.0),
        }
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:9100".to_owned());
    may::config()
        .set_workers(1)
        .set_pool_capacity(500)
        .set_stack_size(0x2000);
    let sessions = (1..=100_000u32)
        .map(|user| (user.to_string().into_bytes(), user))
        .collect();
    let server = Factory(Arc::new(sessions)).start(address)?;
    server
        .join()
        .map_err(|_| io::Error::other("the server panicked"))
}
