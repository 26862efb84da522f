//! One setting always: what the others are measured against.

use super::{Decision, Event, Policy, Why};
use crate::Setting;
use std::time::Duration;

/// One setting always.
#[derive(Clone, Debug)]
pub struct Fixed {
    setting: Setting,
    in_force: bool,
}

impl Fixed {
    /// This one.
    #[must_use]
    pub fn new(setting: Setting) -> Fixed {
        Fixed {
            setting,
            in_force: false,
        }
    }
}

impl Policy for Fixed {
    fn on(&mut self, event: &Event, _: Duration) -> Option<Decision> {
        if let Event::Switched { setting, .. } = event {
            self.in_force = *setting == self.setting;
        }
        (!self.in_force).then(|| {
            self.in_force = true;
            Decision {
                setting: self.setting,
                why: Why::Fixed,
            }
        })
    }

    fn explain(&self) -> String {
        format!("{} always: it was configured", self.setting)
    }
}
