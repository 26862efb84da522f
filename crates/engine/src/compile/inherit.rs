//! Templates that use others: `extends` and blocks, `include`, `import` and macros.
//!
//! All of it is expanded where it is used, in the order in which MiniJinja would run it.

use super::build::Sink;
use super::compiler::{Compiler, MacroDefinition, Result};
use super::scope::Frame;
use super::value::{Literal, Operand};
use crate::diagnostic::{How, Place, Reported, did_you_mean, did_you_mean_or};
use crate::source::template::{Template, TextPlace};
use minijinja::machinery::ast::{self, Spanned, Stmt};
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    /// Compiles a page's or an else page's template.
    pub(super) fn page_template(&mut self, name: &'a str, template: &'a Template<'a>) {
        let _ = self.template(name, template, self.origin.place(0));
    }

    /// What MiniJinja does with a template: its statements, then those of the one it extends.
    pub(super) fn template(
        &mut self,
        name: &'a str,
        template: &'a Template<'a>,
        place: Place<'a>,
    ) -> Result<()> {
        let around_blocks = std::mem::take(&mut self.blocks);
        let around_extended = self.extended.take();
        let around_parent_lost = std::mem::take(&mut self.parent_lost);
        let around_top_depth = std::mem::replace(&mut self.top_depth, self.depth + 1);
        let around_including = self.including.len();
        let around_uses = self.report.uses();
        let mut result = Ok(());
        let mut next = Some((name, template));
        // Those of the templates that extend another.
        let mut extending = Vec::new();
        while let Some((name, template)) = next.take() {
            if self.including.contains(&name) {
                let chain = self.including.join(" -> ");
                let message =
                    format!("this template includes or extends itself: {chain} -> {name}");
                let hint = "a template is expanded where it is used: remove one of these uses";
                result = Err(self.error(place, message, hint));
                break;
            }
            self.including.push(name);
            result = self.with_origin(template.origin, |this| {
                this.collect_blocks(template.statements());
                this.statements(template.statements());
                Ok(())
            });
            if let Some((parent, by)) = self.extended.take() {
                self.stage.end_sink();
                extending.push(template);
                if let Some(Some(template)) = self.library.get(parent) {
                    let file = template.origin.start.file;
                    self.report.begin_use(How::Uses, file, by);
                    next = Some((parent, template));
                }
            }
        }
        if result.is_ok() && !self.parent_lost {
            (extending.into_iter()).for_each(|template| self.warn_of_unseen(template));
        }
        self.report.end_use(around_uses);
        self.including.truncate(around_including);
        self.top_depth = around_top_depth;
        self.extended = around_extended;
        self.parent_lost = around_parent_lost;
        self.blocks = around_blocks;
        result
    }

    /// A template that is included or imported at a place.
    fn used_template(
        &mut self,
        name: &'a str,
        template: &'a Template<'a>,
        place: Place<'a>,
    ) -> Result<()> {
        let file = template.origin.start.file;
        let uses = self.report.begin_use(How::Uses, file, place);
        let result = self.nested(place, |this| this.template(name, template, place));
        self.report.end_use(uses);
        result
    }

    /// Adds the blocks of a template behind those of the templates that extend it.
    pub(super) fn collect_blocks(&mut self, statements: &'a [Stmt<'a>]) {
        for statement in statements {
            match statement {
                Stmt::Block(block) => {
                    let versions = &mut self.blocks.entry(block.name).or_default().versions;
                    versions.push((block, self.origin));
                    self.collect_blocks(&block.body);
                }
                Stmt::ForLoop(node) => {
                    self.collect_blocks(&node.body);
                    self.collect_blocks(&node.else_body);
                }
                Stmt::IfCond(node) => {
                    self.collect_blocks(&node.true_body);
                    self.collect_blocks(&node.false_body);
                }
                Stmt::WithBlock(node) => self.collect_blocks(&node.body),
                _ => {}
            }
        }
    }

    pub(super) fn extends_statement(&mut self, node: &'a Spanned<ast::Extends<'a>>) -> Result<()> {
        let place = self.at(node);
        if self.depth != self.top_depth {
            let hint = "put it at the top of the template";
            return Err(self.error(place, "`extends` stands within no other statement", hint));
        }
        if self.extended.is_some() {
            let hint = "remove one of the two; the other template may extend the next";
            return Err(self.error(place, "a template extends one other", hint));
        }
        // Until it is known to be there.
        self.parent_lost = true;
        let (name, template) = self.find_template(&node.name)?;
        if template.is_none() {
            return Err(Reported);
        }
        self.parent_lost = false;
        self.extended = Some((name, place));
        self.stage.begin_sink(Sink::Discard);
        Ok(())
    }

    pub(super) fn include_statement(&mut self, node: &'a Spanned<ast::Include<'a>>) -> Result<()> {
        let found = self.template_name(&node.name);
        if node.ignore_missing {
            // Known at load: what is not there is left out.
            if let Ok(name) = &found
                && self.library.get(name).is_none()
            {
                return Ok(());
            }
        }
        let (name, template) = self.find_template(&node.name)?;
        let Some(template) = template else {
            return Err(Reported);
        };
        // Macros of this file do not follow what the other sets.
        let closure = self.scope.top().closure.take();
        let block = self.current_block;
        let place = self.at(node);
        let result = self.used_template(name, template, place);
        self.current_block = block;
        self.scope.top().closure = closure;
        result
    }

    /// Runs a file for the names it defines.
    pub(super) fn import(&mut self, name: &'a ast::Expr<'a>, place: Place<'a>) -> Result<Frame> {
        let (name, template) = self.find_template(name)?;
        let Some(template) = template else {
            return Err(Reported);
        };
        self.stage.begin_sink(Sink::Discard);
        self.scope.frames.push(Frame::default());
        let block = self.current_block;
        let result = self.used_template(name, template, place);
        self.current_block = block;
        let frame = self.scope.frames.pop();
        self.stage.end_sink();
        result.map(|()| frame.unwrap_or_default())
    }

    /// `{% import "x.html" as x %}`
    pub(super) fn import_statement(&mut self, node: &'a Spanned<ast::Import<'a>>) -> Result<()> {
        let place = self.at(node);
        let ast::Expr::Var(target) = &node.name else {
            let hint = "{% import \"x.html\" as x %}";
            return Err(self.error(place, "an import is given a name", hint));
        };
        let module = match self.import(&node.expr, place) {
            Ok(frame) => {
                let public = |(name, _): &(String, Operand)| !name.starts_with('_');
                Operand::Module(Rc::new(frame.locals.into_iter().filter(public).collect()))
            }
            Err(Reported) => Operand::Poison,
        };
        self.scope.set(target.id, module);
        Ok(())
    }

    /// `{% from "x.html" import a, b as c %}`
    pub(super) fn names_import_statement(
        &mut self,
        node: &'a Spanned<ast::FromImport<'a>>,
    ) -> Result<()> {
        let place = self.at(node);
        let imported = self.import(&node.expr, place);
        for (name, alias) in &node.names {
            let (ast::Expr::Var(name), ast::Expr::Var(target)) =
                (name, alias.as_ref().unwrap_or(name))
            else {
                continue;
            };
            let operand = match &imported {
                Err(Reported) => Operand::Poison,
                Ok(frame) => frame.locals.get(name.id).cloned().unwrap_or_else(|| {
                    let defined = frame.locals.keys().map(String::as_str);
                    let nothing = "it defines nothing: {% macro name() %}...{% endmacro %} would";
                    let hint = did_you_mean_or(name.id, defined, nothing);
                    let place = self.at(name);
                    self.error(
                        place,
                        format!("the file does not define `{}`", name.id),
                        hint,
                    );
                    Operand::Poison
                }),
            };
            if let Operand::Macro(index) = operand {
                let definition = self.macros[index].definition;
                self.warn_of_macro_before(target.id, definition, self.at(target));
            }
            self.scope.set(target.id, operand);
        }
        imported.map(|_| ())
    }

    /// Warns of a macro that is about to take the place of another of its name. That of a file used
    /// twice takes its own.
    pub(super) fn warn_of_macro_before(
        &mut self,
        name: &str,
        definition: &ast::Macro<'_>,
        place: Place<'a>,
    ) {
        let Some(Operand::Macro(before)) = self.scope.top().locals.get(name) else {
            return;
        };
        let before = self.macros[*before];
        if !std::ptr::eq(before.definition, definition) {
            let Place { file, .. } = before.place;
            let line = before.place.line();
            let message = format!("this macro takes the place of `{name}` of {file}:{line}");
            self.report
                .warning(place, message, "give one of them another name");
        }
    }

    /// Warns of what a template that extends others says and nobody sees.
    fn warn_of_unseen(&mut self, template: &'a Template<'a>) {
        let mut extended = false;
        let mut text_told = false;
        for statement in template.statements() {
            let place = |span| template.origin.at(span);
            match statement {
                Stmt::Extends(_) => extended = true,
                Stmt::Block(block) => {
                    let known = self.blocks.get(block.name);
                    if known.is_none_or(|block| block.versions.len() > 1) {
                        continue;
                    }
                    let name = block.name;
                    let others = self.blocks.keys().copied().filter(|other| *other != name);
                    let message = format!(
                        "nothing that this template extends has a block `{name}`: it is never shown"
                    );
                    let hint = did_you_mean_or(name, others, "there are no blocks to fill");
                    self.report.warning(place(block.span()), message, hint);
                }
                Stmt::EmitRaw(text) if extended && !text.raw.trim().is_empty() && !text_told => {
                    text_told = true;
                    let blank = text.raw.len() - text.raw.trim_start().len();
                    let offset = text.span().start_offset as usize + blank;
                    let message = "a template that extends another shows its blocks alone: \
                                   this is never shown";
                    self.report.warning(
                        template.origin.place(offset),
                        message,
                        "put it into a block",
                    );
                }
                _ => {}
            }
        }
    }

    /// The name of a template, which must be known at load.
    pub(super) fn template_name(&mut self, name: &ast::Expr<'_>) -> Result<String> {
        let place = self.place_of(name);
        let hint = "its name in quotes: \"name.html\"; choose between several with `if`";
        let message = "the name of a template must be constant";
        // A name without its quotes reads as one of the page, and its ending as an attribute.
        let base = match name {
            ast::Expr::GetAttr(node) => &node.expr,
            name => name,
        };
        if let ast::Expr::Var(name) = base
            && self.scope.lookup(name.id).is_none()
            && !self.scope.names_lost
        {
            return Err(self.error(place, message, hint));
        }
        match self.expression(name)? {
            Operand::Literal(Literal::Text { text, .. }) => Ok(text.to_string()),
            _ => Err(self.error(place, message, hint)),
        }
    }

    #[allow(clippy::type_complexity)]
    pub(super) fn find_template(
        &mut self,
        name: &ast::Expr<'_>,
    ) -> Result<(&'a str, Option<&'a Template<'a>>)> {
        let place = self.place_of(name);
        let name = self.template_name(name)?;
        let library = self.library;
        // Pages are not for including: they are not there for MiniJinja's loader either.
        let known = || library.names().filter(|name| !name.starts_with("pages/"));
        match known().find(|known| *known == name) {
            Some(known) => Ok((known, library.get(known).flatten())),
            None => {
                // Their folder is no part of their names.
                let inside = name.strip_prefix("templates/").unwrap_or(&name);
                let mut hint = did_you_mean(inside, known());
                let is_near = hint.starts_with("did you mean");
                if !is_near && !name.ends_with(".html") {
                    hint = "the names of templates end in .html".to_owned();
                } else if hint.is_empty() {
                    hint = "templates lie in templates/, and their paths there are their names"
                        .to_owned();
                }
                Err(self.error(place, format!("there is no templates/{name}"), hint))
            }
        }
    }

    pub(super) fn unknown_block(&mut self, name: &str, place: Place<'a>) -> Reported {
        if self.parent_lost {
            return Reported;
        }
        let nothing = format!("{{% block {name} %}}...{{% endblock %}} makes one");
        let hint = did_you_mean_or(name, self.blocks.keys().copied(), &nothing);
        self.error(place, format!("there is no block `{name}`"), hint)
    }

    /// Writes the version of a block that counts.
    pub(super) fn call_block(&mut self, name: &'a str, place: Place<'a>) -> Result<()> {
        let Some(block) = self.blocks.get(name) else {
            return Err(self.unknown_block(name, place));
        };
        let (version, origin) = block.versions[block.current];
        if block.versions.len() == 1 && version.required {
            return Err(self.error(
                place,
                format!("the block `{name}` is required"),
                "define it in the page",
            ));
        }
        self.block_version(name, version, origin, place)
    }

    pub(super) fn super_block(&mut self, place: Place<'a>) -> Result<()> {
        let current = self.current_block;
        let Some((name, block)) = current.and_then(|name| Some((name, self.blocks.get_mut(name)?)))
        else {
            let hint = "in a block it is what the extended template has there";
            return Err(self.error(place, "`super()` is for blocks", hint));
        };
        let Some(&(version, origin)) = block.versions.get(block.current + 1) else {
            if self.parent_lost {
                return Err(Reported);
            }
            return Err(self.error(
                place,
                format!("no template that is extended has a block `{name}`"),
                "remove `super()`, or add the block there",
            ));
        };
        block.current += 1;
        let result = self.block_version(name, version, origin, place);
        if let Some(block) = self.blocks.get_mut(name) {
            block.current -= 1;
        }
        result
    }

    pub(super) fn block_version(
        &mut self,
        name: &'a str,
        version: &'a ast::Block<'a>,
        origin: TextPlace<'a>,
        place: Place<'a>,
    ) -> Result<()> {
        let around = self.current_block.replace(name);
        let extended = self.extended.take();
        self.scope.frames.push(Frame::default());
        let result = self.nested(place, |this| {
            this.with_origin(origin, |this| this.statements(&version.body));
            Ok(())
        });
        self.scope.frames.pop();
        self.extended = extended;
        self.current_block = around;
        result
    }

    /// Output of what `inside` writes, as a text.
    pub(super) fn capture(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Operand> {
        self.stage.begin_sink(Sink::Capture {
            joined: None,
            parts: Vec::new(),
        });
        let around = std::mem::take(&mut self.context);
        let result = inside(self);
        self.context = around;
        let captured = self.stage.captured(true, self.page);
        result.map(|()| captured)
    }

    /// `super()` and `self.block()` as values.
    pub(super) fn captured_block(
        &mut self,
        name: Option<&str>,
        place: Place<'a>,
    ) -> Result<Operand> {
        self.capture(|this| match name {
            None => this.super_block(place),
            Some(name) => match this.blocks.get_key_value(name).map(|(name, _)| *name) {
                Some(name) => this.call_block(name, place),
                None => Err(this.unknown_block(name, place)),
            },
        })
    }

    /// Writes what a macro writes.
    pub(super) fn expand_macro(
        &mut self,
        definition: MacroDefinition<'a>,
        mut arguments: Vec<Operand>,
        place: Place<'a>,
    ) -> Result<()> {
        if (self.expanding.iter()).any(|known| std::ptr::eq(*known, definition.definition)) {
            let message = format!("the macro `{}` calls itself", definition.definition.name);
            return Err(self.error(
                place,
                message,
                "macros are expanded when the page is compiled",
            ));
        }
        let base = Frame {
            is_base: true,
            ..Frame::default()
        };
        let body = Frame {
            enclosed: Some(definition.closure),
            ..Frame::default()
        };
        let frames = std::mem::replace(&mut self.scope.frames, vec![base, body]);
        let block = self.current_block.take();
        let extended = self.extended.take();
        self.expanding.push(definition.definition);
        let MacroDefinition {
            definition, origin, ..
        } = definition;
        let file = origin.start.file;
        let uses = match file == place.file {
            true => self.report.uses(),
            false => self.report.begin_use(How::Uses, file, place),
        };
        let result = self.nested(place, |this| {
            this.with_origin(origin, |this| {
                // From the last to the first, as MiniJinja takes them: a default sees the
                // parameters after it.
                let first_default = definition.args.len() - definition.defaults.len();
                for (index, name) in definition.args.iter().enumerate().rev() {
                    let mut operand = arguments.pop().unwrap_or(Operand::Undefined);
                    if operand == Operand::Undefined && index >= first_default {
                        operand = this
                            .expression(&definition.defaults[index - first_default])
                            .unwrap_or(Operand::Poison);
                    }
                    if let ast::Expr::Var(name) = name {
                        this.scope.set(name.id, operand);
                    }
                }
                this.statements(&definition.body);
            });
            Ok(())
        });
        self.report.end_use(uses);
        self.expanding.pop();
        self.extended = extended;
        self.current_block = block;
        self.scope.frames = frames;
        result
    }
}
