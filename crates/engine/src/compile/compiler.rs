//! The compiler's state while it walks a template.
//!
//! Compiling follows what MiniJinja's machine would do, statement by statement, with operands in
//! place of values: what is known at load is done at load, so includes, blocks and macros are
//! expanded where they are used, and a branch on a constant leaves nothing behind.

use super::build::{Fragments, PageParts, StageBuilder};
use super::context::{Context, Leads};
use super::forms::Forms;
use super::scope::Scope;
use super::value::{List, Operand, Printed};
use crate::diagnostic::{Place, Report, Reported};
use crate::program::{Escape, Register, Type};
use crate::source::PageFile;
use crate::source::template::{Library, TextPlace};
use minijinja::machinery::ast::{self, Spanned};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub(crate) type Result<T> = std::result::Result<T, Reported>;

/// A macro's definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MacroDefinition<'a> {
    pub(crate) definition: &'a ast::Macro<'a>,
    pub(crate) origin: TextPlace<'a>,
    /// Where it stands.
    pub(crate) place: Place<'a>,
    pub(crate) closure: usize,
}

/// A block's versions, the one that counts first, and which of them is being compiled.
#[derive(Debug, Default)]
pub(crate) struct BlockVersions<'a> {
    pub(crate) versions: Vec<(&'a ast::Block<'a>, TextPlace<'a>)>,
    pub(crate) current: usize,
}

/// Whether a `break` or `continue` has ended the turn, where statements have been compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Left {
    #[default]
    No,
    /// For some lanes.
    Perhaps,
    /// For all that come there.
    Surely,
}

impl Left {
    /// Behind two branches.
    pub(super) fn or(self, other: Left) -> Left {
        if self == other { self } else { Left::Perhaps }
    }
}

/// A loop under way. Its registers are there where something asks for them.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(super) list: Rc<List>,
    pub(super) position: Register,
    /// Whether it goes through all items, in their order.
    pub(super) takes_all: bool,
    /// Bool: whether the turn goes on.
    pub(super) turn_goes_on: Option<Register>,
    /// Bool: whether the loop does.
    pub(super) goes_on: Option<Register>,
    /// Int: the position of the turn before, -1 in the first.
    pub(super) previous: Option<Register>,
    /// What `changed` was last given, behind a Bool that says whether it was.
    pub(super) seen: Option<(Register, Vec<Register>)>,
}

impl Turns {
    /// Whether there is a `break` in it.
    pub(super) fn may_end(&self) -> bool {
        self.goes_on.is_some()
    }
}

/// The values of a namespace by their names: where each is, of which type, and whether it is safe
/// to print.
pub(crate) type Namespace = BTreeMap<String, (Register, Type, bool)>;

/// The pages of the service.
#[derive(Clone, Copy)]
pub(crate) struct Links<'a> {
    pub(crate) pages: &'a [PageFile<'a>],
    /// Page files whose headers could not be read, which is reported.
    pub(crate) lost: &'a BTreeSet<&'a str>,
}

/// Compiles templates into a stage.
pub(crate) struct Compiler<'r, 'a> {
    pub(crate) library: &'a Library<'a>,
    pub(crate) report: &'r mut Report,
    pub(crate) fragments: &'r mut Fragments,
    pub(crate) page: &'r mut PageParts,
    pub(crate) stage: StageBuilder,
    pub(crate) scope: Scope,
    pub(crate) origin: TextPlace<'a>,
    /// How what the page prints is made harmless.
    pub(crate) escape: Escape,
    /// The content type, where what is escaped as HTML is none.
    pub(crate) unlike_html: Option<String>,
    pub(crate) forms: Forms<'a>,
    /// Where in HTML the page's text has come to.
    pub(crate) context: Context,
    /// Where it leads.
    pub(crate) leads: Vec<Leads<'a>>,
    pub(crate) macros: Vec<MacroDefinition<'a>>,
    /// Macros under way, to find those that call themselves.
    pub(crate) expanding: Vec<&'a ast::Macro<'a>>,
    pub(crate) blocks: BTreeMap<&'a str, BlockVersions<'a>>,
    pub(crate) current_block: Option<&'a str>,
    /// Templates under way, to find those that include themselves.
    pub(crate) including: Vec<&'a str>,
    /// What the template under way extends, once it has met an `extends`, and where that stands.
    pub(crate) extended: Option<(&'a str, Place<'a>)>,
    /// Whether the template to be extended could not be read, which is reported.
    pub(crate) parent_lost: bool,
    /// The loops under way, by their registers of the index.
    pub(crate) loops: BTreeMap<Register, Turns>,
    /// The innermost of them that `break` and `continue` are about.
    pub(crate) current_loop: Option<Register>,
    /// Whether a `break` or `continue` has ended the turn here.
    pub(crate) left: Left,
    pub(crate) namespaces: Vec<Namespace>,
    /// The table of the time zone in which dates are printed.
    pub(crate) zone: Rc<str>,
    /// What is known of texts that are in registers.
    pub(crate) printed: BTreeMap<Register, Printed>,
    /// The pages that paths can be asked of.
    pub(crate) links: Option<Links<'a>>,
    /// What stands in the block to which a filter is being applied.
    pub(crate) of_block: Option<Operand>,
    pub(crate) depth: usize,
    /// The depth of statements that are within no other in their template.
    pub(crate) top_depth: usize,
    /// Nodes of syntax trees compiled; shared by the stages of a page.
    pub(crate) nodes: usize,
    /// Whether the page has been refused for its size.
    pub(crate) exhausted: bool,
}

/// Deepest nesting, includes and macros counted.
const DEPTH_MAX: usize = 100;
/// Most nodes compiled for a page.
const NODES_MAX: usize = 200_000;

impl<'r, 'a> Compiler<'r, 'a> {
    pub(super) fn new(
        library: &'a Library<'a>,
        report: &'r mut Report,
        fragments: &'r mut Fragments,
        page: &'r mut PageParts,
        names: BTreeMap<String, Operand>,
        origin: TextPlace<'a>,
    ) -> Compiler<'r, 'a> {
        Compiler {
            library,
            report,
            fragments,
            page,
            stage: StageBuilder::new(),
            scope: Scope::new(names),
            origin,
            escape: Escape::Html,
            unlike_html: None,
            forms: Forms::default(),
            context: Context::default(),
            leads: Vec::new(),
            macros: Vec::new(),
            expanding: Vec::new(),
            blocks: BTreeMap::new(),
            current_block: None,
            including: Vec::new(),
            extended: None,
            parent_lost: false,
            loops: BTreeMap::new(),
            current_loop: None,
            left: Left::No,
            namespaces: Vec::new(),
            printed: BTreeMap::new(),
            links: None,
            zone: "".into(),
            of_block: None,
            depth: 0,
            top_depth: 0,
            nodes: 0,
            exhausted: false,
        }
    }

    pub(super) fn error(
        &mut self,
        place: Place<'a>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Reported {
        self.report.error(place, message, hint)
    }

    pub(super) fn at<T>(&self, node: &Spanned<T>) -> Place<'a> {
        self.origin.at(node.span())
    }

    /// Goes one level deeper, unless the page has become too deep or too large.
    pub(super) fn nested<T>(
        &mut self,
        place: Place<'a>,
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.exhausted {
            return Err(Reported);
        }
        self.nodes += 1;
        if self.nodes > NODES_MAX || self.stage.is_too_large() {
            return Err(self.refused_for_size(place));
        }
        if self.depth >= DEPTH_MAX {
            let hint = "each use of another template or macro is a level, and so is each operator \
                        or filter on what another gives, and what stands behind a `break` or \
                        `continue`: leave some out";
            return Err(self.error(place, "it nests too deep here", hint));
        }
        self.depth += 1;
        let around = self.stage.stands_at(place);
        let result = inside(self);
        self.stage.stands_there(around);
        self.depth -= 1;
        if result.is_err() && self.stage.is_too_large() && !self.exhausted {
            return Err(self.refused_for_size(place));
        }
        result
    }

    fn refused_for_size(&mut self, place: Place<'a>) -> Reported {
        self.exhausted = true;
        let hint = "do templates, macros or filters use each other more often than needed?";
        self.error(place, "the page becomes too large here", hint)
    }

    /// To be asked where one expression makes many others.
    ///
    /// # Errors
    /// The page has become too large, which is told where that expression stands.
    pub(super) fn has_room(&self) -> Result<()> {
        match self.stage.is_too_large() {
            true => Err(Reported),
            false => Ok(()),
        }
    }

    /// Runs with another origin.
    pub(super) fn with_origin<T>(
        &mut self,
        origin: TextPlace<'a>,
        inside: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let around = std::mem::replace(&mut self.origin, origin);
        let result = inside(self);
        self.origin = around;
        result
    }

    pub(super) fn unsupported(
        &mut self,
        place: Place<'a>,
        what: &str,
        hint: impl Into<String>,
    ) -> Reported {
        self.error(place, format!("{what} is not supported"), hint)
    }
}
