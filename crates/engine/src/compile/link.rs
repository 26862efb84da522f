//! `url_for("item.html", id=3)`: the path of a page of the service, by its file.

use super::compiler::{Compiler, Result};
use super::output::escape_literal;
use super::value::{Literal, Operand, Printed};
use crate::diagnostic::{Place, Reported, did_you_mean_or};
use crate::program::{Carrier, Escape, Route, Segment, TextFunction, Type};
use crate::source::PageFile;
use crate::source::declaration::{ParamDecl, ParamKind};
use minijinja::machinery::ast::{CallArg, CallType, Expr};

impl<'a> Compiler<'_, 'a> {
    /// The path of a page: what its route has in braces is given by name, and what else is given is
    /// the query.
    pub(super) fn url_for(
        &mut self,
        arguments: &[CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let form = "url_for(\"item.html\", id=3)";
        let Some((CallArg::Pos(name), arguments)) = arguments.split_first() else {
            return Err(self.error(place, "`url_for` is given the file of a page", form));
        };
        let at = self.place_of(name);
        let Operand::Literal(Literal::Text { text: name, .. }) = self.expression(name)? else {
            let message = "the file of a page is named by a constant text";
            return Err(self.error(at, message, form));
        };
        let page = self.page_of(&name, at)?;
        let mut given: Vec<(&str, Operand)> = Vec::new();
        for argument in arguments {
            let CallArg::Kwarg(name, value) = argument else {
                let message = "what a path is made of is given by name";
                return Err(self.error(place, message, form));
            };
            let at = self.place_of(value);
            let value = self.expression(value)?;
            let value = self.printable(value, at)?;
            given.push((name, value));
        }
        let Some(route) = route_of(page) else {
            if page.header.is_routed {
                return Err(Reported);
            }
            let hint = "it is shown in place of others; pages with a route have a path";
            return Err(self.error(at, format!("pages/{name} has no route"), hint));
        };
        let mut parts = Vec::new();
        for segment in &route.segments {
            parts.push(Operand::text("/"));
            match segment {
                Segment::Literal(text) => {
                    parts.push(Operand::text(&escape_literal(text, Escape::Percent)));
                }
                Segment::Param(name) => {
                    let Some(index) = given.iter().position(|(known, _)| known == name) else {
                        let hint = format!("the route is {route}: give {name}=...");
                        let message = format!("`{name}` is missing from this path");
                        return Err(self.error(place, message, hint));
                    };
                    let (_, value) = given.remove(index);
                    parts.push(self.encoded(&value));
                }
            }
        }
        if route.segments.is_empty() {
            parts.push(Operand::text("/"));
        }
        for (index, (name, value)) in given.into_iter().enumerate() {
            let names = || page.header.params.iter().filter_map(in_query);
            if !names().any(|known| known == name) && !page.header.lost.others {
                let nothing = "it has none";
                let hint = did_you_mean_or(name, names(), nothing);
                let message = format!("the query of {} has no `{name}`", page.path);
                return Err(self.error(place, message, hint));
            }
            let before = if index == 0 { "?" } else { "&" };
            let name = escape_literal(name, Escape::Percent);
            parts.push(Operand::text(&format!("{before}{name}=")));
            parts.push(self.encoded(&value));
        }
        let path = self.stage.concat(&parts, false, self.page);
        let path = match &route.segments[..] {
            [Segment::Param(_), _, ..] => self.of_this_site(path)?,
            _ => path,
        };
        Ok(self.note(path, Printed::Path))
    }

    /// Whether what begins with this expression, a path of the service, is of this site whatever
    /// its values are: `//` and a host behind it would not be, and a value may be empty. If it
    /// `is_alone`, nothing follows it.
    pub(super) fn is_within(&self, expression: &Expr<'_>, is_alone: bool) -> bool {
        let Expr::Call(call) = expression else {
            return false;
        };
        let Some(CallArg::Pos(Expr::Const(name))) = call.args.first() else {
            return false;
        };
        let pages = self.links.map_or(&[][..], |links| links.pages);
        let page = pages
            .iter()
            .find(|page| name.value.as_str() == Some(page.file_name));
        let route = page.and_then(|page| route_of(page));
        route.is_some_and(|route| match &route.segments[..] {
            [Segment::Literal(first), ..] if !first.is_empty() => true,
            segments => is_alone && segments.len() <= 1,
        })
    }

    /// A value as it stands in a URL.
    fn encoded(&mut self, value: &Operand) -> Operand {
        if let Operand::Literal(literal) = value {
            return Operand::text(&escape_literal(&literal.print(), Escape::Percent));
        }
        let text = self.text_register(value);
        let percent = TextFunction::Escape(Escape::Percent);
        Operand::register(self.stage.text_function(percent, text), Type::Text)
    }

    fn page_of(&mut self, name: &str, place: Place<'a>) -> Result<&'a PageFile<'a>> {
        let Some(links) = self.links else {
            return Err(Reported);
        };
        if let Some(page) = links.pages.iter().find(|page| page.file_name == name) {
            return Ok(page);
        }
        if links.lost.contains(name) {
            return Err(Reported);
        }
        let names = links.pages.iter().map(|page| page.file_name);
        let hint = did_you_mean_or(name, names, "write it, with a route");
        Err(self.error(place, format!("there is no pages/{name}"), hint))
    }
}

/// The route by which a page is linked to.
fn route_of<'p>(page: &'p PageFile<'_>) -> Option<&'p Route> {
    let routes = || page.header.routes.iter().map(|(route, _)| route);
    let gets = routes().find(|route| route.method == "GET");
    gets.or_else(|| routes().next())
}

/// Whether an expression is a path of the service.
pub(super) fn is_path(expression: &Expr<'_>) -> bool {
    matches!(
        expression,
        Expr::Call(call) if matches!(call.identify_call(), CallType::Function("url_for"))
    )
}

/// The name of a parameter that may stand in the query.
fn in_query<'p>(param: &'p ParamDecl<'_>) -> Option<&'p str> {
    let in_query = param.carriers.iter().any(|it| matches!(it, Carrier::Query));
    match &param.kind {
        ParamKind::Scalar { wire_name, .. } => in_query.then_some(wire_name),
        ParamKind::List { .. } => None,
    }
}
