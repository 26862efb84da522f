//! Where redirects lead: to pages and files that there are, and to other servers only where their
//! pages say so.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::context::ANY;
use super::lead::Answered;
use super::value::Operand;
use crate::diagnostic::{Place, Report, Reported};
use crate::program::TextTest;
use crate::source::declaration::{Instead, StepKind};
use crate::source::keys::Text;

/// Warns of redirects within the service that lead nowhere.
pub(super) fn check(
    answered: &Answered<'_, '_>,
    missing: Option<&Instead<'_>>,
    index: &[(Text<'_>, Text<'_>)],
    report: &mut Report,
) {
    let steps = answered.pages.iter().flat_map(|page| &page.header.steps);
    let of_steps = steps.filter_map(|step| match &step.kind {
        StepKind::Redirect(redirect) => Some(redirect),
        StepKind::Check { instead, .. } => instead.redirect(),
        _ => None,
    });
    let redirects = of_steps.chain(missing.and_then(Instead::redirect));
    let redirects = redirects.map(|redirect| (&redirect.to, redirect.status));
    for (to, status) in redirects.chain(index.iter().map(|(_, to)| (to, 303))) {
        let target = outline(&to.value);
        if target.is_empty() {
            let hint = "redirect = \"/path\", or a whole URL";
            report.warning(to.place, "this redirect leads to the page itself", hint);
        }
        if !target.starts_with('/') {
            warn_of_relative(to, &target, report);
            continue;
        }
        // Of another host.
        if target.starts_with("//") {
            continue;
        }
        let end = target.find(['?', '#']).unwrap_or(target.len());
        let path = &target[..end];
        // The method changes to GET, but for these.
        let method = match status {
            307 | 308 => None,
            _ => Some("GET"),
        };
        if !answered.answers(path, method) {
            answered.warn(to.place, path, method, report);
        }
    }
}

impl<'a> Compiler<'_, 'a> {
    /// Where a redirect begins with an output, what that holds says to which server it leads. A
    /// parameter of type path leads nowhere else, as it stands, if nothing follows it: `/` and a
    /// text `/host` would.
    pub(super) fn leads_within(
        &mut self,
        operand: &Operand,
        is_alone: bool,
        place: Place<'a>,
    ) -> Result<()> {
        let is_path = match operand {
            Operand::Field { field, .. } => self.page.paths.contains(field),
            Operand::Poison => return Err(Reported),
            _ => false,
        };
        let message = match (is_path, is_alone) {
            (true, true) => return Ok(()),
            (true, false) => "a path with something behind it may lead to another server",
            (false, _) => "a redirect that begins with an output may lead to another server",
        };
        let hint = match is_path {
            true => "redirect = \"{{ next }}\" is all of it",
            false => {
                "begin it with `/`, or output a parameter of type = \"path\", alone, which is \
                 checked to be of this site"
            }
        };
        Err(self.error(place, message, hint))
    }

    /// What a redirect's text makes, of this site whatever its outputs are: where it begins with
    /// `/` and outputs, which may be empty, a `/` behind them would make a host of what follows it.
    /// Of outputs, paths of the service alone have one.
    pub(super) fn within(&mut self, to: &str, text: Operand) -> Result<Operand> {
        let outline = outline(to);
        let behind = (outline.strip_prefix('/')).and_then(|rest| rest.strip_prefix(ANY));
        let is_guarded = behind.is_some_and(|rest| {
            rest.trim_start_matches(ANY).starts_with('/') || to.contains("url_for")
        });
        match is_guarded {
            true => self.of_this_site(text),
            false => Ok(text),
        }
    }

    /// A path whose first segment may be empty: `//host` would be another server. With a dot
    /// between the slashes it is a path, which browsers shorten again (RFC 3986, section 5.2.4).
    pub(super) fn of_this_site(&mut self, path: Operand) -> Result<Operand> {
        let [left, right] = [path.clone(), Operand::text("//")].map(|it| self.text_register(&it));
        let leaves = self.text_test(TextTest::StartsWith, left, right);
        let leaves = self.register(&leaves);
        self.stage.open();
        let parts = [Operand::text("/."), path.clone()];
        let kept = self.stage.concat(&parts, false, self.page);
        let block = self.stage.close(self.fragments);
        let as_it_is = (OpenBlock::default(), path);
        // Both are texts.
        (self.select(leaves, (block, kept), as_it_is)).map_err(|_| Reported)
    }
}

/// What of a redirect's text can stand in no URL (RFC 3986, section 2): where, and the character.
pub(super) fn unfit(text: &str) -> Option<(usize, char)> {
    let is_fit = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c);
    text.char_indices().find(|(_, c)| !is_fit(*c))
}

/// A text with [`ANY`] in place of each output.
fn outline(text: &str) -> String {
    let mut outline = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find("{{") {
        outline.push_str(&rest[..begin]);
        outline.push(ANY);
        rest = &rest[begin..];
        rest = rest.find("}}").map_or("", |end| &rest[end + 2..]);
    }
    outline + rest
}

fn warn_of_relative(to: &Text<'_>, target: &str, report: &mut Report) {
    let scheme = target.split([':', '/', '?', '#', ANY]).next().unwrap_or("");
    let is_url = target[scheme.len()..].starts_with(':');
    let is_name = scheme.starts_with(|first: char| first.is_ascii_alphanumeric());
    if is_name && !is_url {
        let message = "this leads to a place beside the page's own path";
        let hint = format!(
            "redirect = \"/{}\" leads to the same from everywhere",
            to.value
        );
        report.warning(to.place, message, hint);
    }
}
