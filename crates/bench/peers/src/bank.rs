//! Banking's account summary, of the data that `services/banking` shows.

use rhythm_besim::{Account, Bank};
use sailfish::TemplateSimple;
use std::collections::HashMap;

/// Users of the bank, as many as `services/banking` has.
const USERS: u32 = 100_000;

#[derive(TemplateSimple)]
#[template(path = "account_summary.stpl")]
struct AccountSummary {
    accounts: Vec<Account>,
}

/// The bank's users and their accounts.
pub struct Branch {
    bank: Bank,
    sessions: HashMap<Vec<u8>, u32>,
}

impl Default for Branch {
    fn default() -> Branch {
        let session = |user: u32| (user.to_string().into_bytes(), user);
        Branch {
            bank: Bank::new(USERS),
            sessions: (1..=USERS).map(session).collect(),
        }
    }
}

impl Branch {
    /// The user of a request with these cookies: `rhythm_session=USER` is one.
    pub fn user(&self, cookies: &[u8]) -> Option<u32> {
        let mut pairs = cookies.split(|byte| *byte == b';');
        let id = pairs.find_map(|pair| pair.trim_ascii().strip_prefix(b"rhythm_session="))?;
        self.sessions.get(id).copied()
    }

    /// His page, rendered anew.
    ///
    /// # Errors
    /// The template's, which this one has none of.
    pub fn account_summary(&self, user: u32) -> Result<String, sailfish::RenderError> {
        let accounts = self.bank.accounts(user).collect();
        AccountSummary { accounts }.render_once()
    }
}
