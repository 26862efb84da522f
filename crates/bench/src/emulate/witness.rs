//! What answers of others are compared with.

use super::{EmulationError, EmulationOptions, Output, SIGN_INS, Stage, Users, bank_of};
use crate::load::Page;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_server::Site;
use std::sync::Arc;

/// What the server answers, through the reference executor: what the answers of a device that has
/// the whole pipeline are compared with.
pub struct Witness {
    stage: Stage,
    users: Users,
}

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

impl Witness {
    /// The server with so many users who are logged in.
    ///
    /// # Errors
    /// They are too many.
    pub fn new(site: &Arc<Site>, users: usize) -> Result<Witness, EmulationError> {
        let options = EmulationOptions {
            executors: Vec::new(),
            cohort_size: 256.min(users.max(1)),
            in_flight: users.div_ceil(256).max(1),
            requests: users,
            repeats: 0,
            ring_bytes: 1 << 20,
            output: Output::Pages,
            pages: Vec::new(),
        };
        let executor = Box::new(ScalarExecutor::default());
        let mut stage = Stage::without_clients(site, &options, executor, SIGN_INS)?;
        let mut users = Users::new(users, bank_of(site));
        stage.log_in(&mut users);
        Ok(Witness { stage, users })
    }

    /// The answers to a request for a page of each user: the requests that [`Users::requests`]
    /// gives after a login.
    pub fn answers(&mut self, page: Page) -> Vec<Vec<u8>> {
        self.stage.requests = self.users.requests(page);
        let answers = self.stage.answers();
        if page == Page::Login {
            // A sign-in ends the session that there was.
            for (user, answer) in answers.iter().enumerate() {
                self.users.logged_in(user, answer);
            }
        }
        answers
    }
}
