//! Names: which value a name has where, as MiniJinja's frames and closures have it.
//!
//! Blocks, loops and `with` put a frame on the stack; `if` and `include` do not. A macro sees the
//! page's names and what was visible where it was defined, nothing of where it is called.

use super::value::{LoopRegisters, Operand};
use crate::program::Csrf;
use std::collections::BTreeMap;

/// Names of one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) locals: BTreeMap<String, Operand>,
    pub(crate) looping: Option<LoopRegisters>,
    /// The closure of the macros defined here: it follows what is set here later.
    pub(crate) closure: Option<usize>,
    /// The closure that is read here: this is the frame of a macro's body.
    pub(crate) enclosed: Option<usize>,
    /// Whether the page's own names are read here.
    pub(crate) is_base: bool,
}

/// The frames of what is being compiled.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Names of the page: parameters, results, the session; or the variables of an else page.
    pub(crate) page: BTreeMap<String, Operand>,
    /// Whether names are unknown for mistakes that are reported.
    pub(crate) names_lost: bool,
    pub(crate) frames: Vec<Frame>,
    pub(crate) closures: Vec<BTreeMap<String, Operand>>,
    /// Whether there is no visitor for whom there could be a CSRF token.
    pub(crate) is_for_all: bool,
    /// Names that were asked for, and whether they had a value each time.
    pub(crate) asked: BTreeMap<String, bool>,
}

/// What statements of one branch can change.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    locals: BTreeMap<String, Operand>,
    closure: Option<(usize, BTreeMap<String, Operand>)>,
}

impl Scope {
    pub(crate) fn new(page: BTreeMap<String, Operand>) -> Scope {
        Scope {
            page,
            frames: vec![Frame {
                is_base: true,
                ..Frame::default()
            }],
            closures: Vec::new(),
            names_lost: false,
            is_for_all: false,
            asked: BTreeMap::new(),
        }
    }

    pub(crate) fn top(&mut self) -> &mut Frame {
        self.frames
            .last_mut()
            .expect("the root frame is never taken away")
    }

    /// The value of a name that a template asks for, if it has any.
    pub(crate) fn ask(&mut self, name: &str) -> Option<Operand> {
        let found = self.lookup(name);
        *self.asked.entry(name.to_owned()).or_insert(true) &= found.is_some();
        found
    }

    /// The value of a name, if it has any.
    pub(crate) fn lookup(&self, name: &str) -> Option<Operand> {
        self.lookup_below(name, false)
    }

    /// The value that a name has where it is not set in the innermost frame.
    fn lookup_below(&self, name: &str, skip_top_locals: bool) -> Option<Operand> {
        for (level, frame) in self.frames.iter().enumerate().rev() {
            let skip = skip_top_locals && level + 1 == self.frames.len();
            if let Some(operand) = frame.locals.get(name).filter(|_| !skip) {
                return Some(operand.clone());
            }
            if let Some(looping) = frame.looping.filter(|_| name == "loop") {
                return Some(Operand::Loop(looping));
            }
            let enclosed = frame
                .enclosed
                .and_then(|closure| self.closures[closure].get(name));
            let page = self.page.get(name).filter(|_| frame.is_base);
            if let Some(operand) = enclosed.or(page) {
                return Some(operand.clone());
            }
        }
        match name {
            Csrf::NAME if !self.is_for_all => return Some(Operand::CsrfToken),
            "here" if !self.is_for_all => return Some(Operand::Here),
            "flash" if !self.is_for_all => return Some(Operand::Flash),
            "cookies" if !self.is_for_all => return Some(Operand::Cookies),
            Csrf::INPUT if !self.is_for_all => return Some(Operand::CsrfInput),
            _ => {}
        }
        [
            "range",
            "now",
            "randrange",
            "dict",
            "debug",
            "namespace",
            "url_for",
            "super",
            "caller",
        ]
        .into_iter()
        .find(|function| *function == name)
        .filter(|function| !(self.is_for_all && matches!(*function, "now" | "randrange")))
        .map(Operand::Function)
    }

    /// Every name that has a value here.
    pub(crate) fn visible(&self) -> BTreeMap<String, Operand> {
        let mut names = BTreeMap::new();
        for frame in &self.frames {
            if frame.is_base {
                names.extend(self.page.clone());
            }
            if let Some(closure) = frame.enclosed {
                names.extend(self.closures[closure].clone());
            }
            if let Some(looping) = frame.looping {
                names.insert("loop".to_owned(), Operand::Loop(looping));
            }
            names.extend(frame.locals.clone());
        }
        names
    }

    pub(crate) fn set(&mut self, name: &str, operand: Operand) {
        let top = self.top();
        top.locals.insert(name.to_owned(), operand.clone());
        if let Some(closure) = top.closure {
            self.closures[closure].insert(name.to_owned(), operand);
        }
    }

    /// The closure for a macro defined here, with what is visible.
    pub(crate) fn enclose(&mut self) -> usize {
        let visible = self.visible();
        let new = self.closures.len();
        let closure = *self.top().closure.get_or_insert(new);
        if closure == new {
            self.closures.push(BTreeMap::new());
        }
        for (name, operand) in visible {
            self.closures[closure].entry(name).or_insert(operand);
        }
        closure
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let top = self
            .frames
            .last()
            .expect("the root frame is never taken away");
        Snapshot {
            locals: top.locals.clone(),
            closure: top
                .closure
                .map(|closure| (closure, self.closures[closure].clone())),
        }
    }

    /// Goes back to a snapshot taken in this frame, and gives what it was until now.
    pub(crate) fn restore(&mut self, to: Snapshot) -> Snapshot {
        let now = self.snapshot();
        let top = self.top();
        top.locals = to.locals;
        top.closure = to.closure.as_ref().map(|(closure, _)| *closure);
        if let Some((closure, names)) = to.closure {
            self.closures[closure] = names;
        }
        now
    }

    /// The names on which two branches that began here differ: each with its value at the end of
    /// both.
    pub(crate) fn differences(
        &self,
        a: &Snapshot,
        b: &Snapshot,
    ) -> Vec<(String, Option<Operand>, Option<Operand>)> {
        let mut names: Vec<&String> = a.locals.keys().chain(b.locals.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let value = |branch: &Snapshot, name: &str| {
            branch
                .locals
                .get(name)
                .cloned()
                .or_else(|| self.lookup_below(name, true))
        };
        (names.into_iter())
            .map(|name| (name.clone(), value(a, name), value(b, name)))
            .filter(|(_, a, b)| a != b)
            .collect()
    }

    /// Adopts what two branches agree on: all that a branch has set, to be corrected where they
    /// differ.
    pub(crate) fn adopt(&mut self, a: &Snapshot, b: &Snapshot) {
        for (name, operand) in a.locals.iter().chain(&b.locals) {
            self.set(name, operand.clone());
        }
    }
}
