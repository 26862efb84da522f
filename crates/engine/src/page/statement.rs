//! Statements of templates: from MiniJinja's syntax tree to operations.
//!
//! Compiling follows what MiniJinja's machine would do, statement by statement, with operands in place of values:
//! what is known at load is done at load, so includes, blocks and macros are expanded where they are used, and a branch
//! on a constant leaves nothing behind.

use super::build::{Fragments, OpenBlock, PageParts, Sink, Stage};
use super::diagnostic::{Place, Report, Reported, did_you_mean};
use super::program::{Escape, LoopFilter, Op, Register, Type};
use super::scope::{Frame, Scope, Snapshot};
use super::template::{Library, Origin, Template};
use super::value::{Items, List, Literal, LoopRegisters, Operand};
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, Spanned, Stmt};
use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) type Result<T> = std::result::Result<T, Reported>;

/// A macro's definition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MacroDefinition<'a> {
    pub(crate) definition: &'a ast::Macro<'a>,
    pub(crate) origin: Origin<'a>,
    pub(crate) closure: usize,
}

/// A block's versions, the one that counts first, and which of them is being compiled.
#[derive(Debug, Default)]
struct BlockVersions<'a> {
    versions: Vec<(&'a ast::Block<'a>, Origin<'a>)>,
    current: usize,
}

/// Compiles templates into a stage.
pub(crate) struct Compiler<'r, 'a> {
    pub(crate) library: &'a Library<'a>,
    pub(crate) report: &'r mut Report,
    pub(crate) fragments: &'r mut Fragments,
    pub(crate) page: &'r mut PageParts,
    pub(crate) stage: Stage,
    pub(crate) scope: Scope,
    pub(crate) origin: Origin<'a>,
    pub(crate) macros: Vec<MacroDefinition<'a>>,
    /// Macros under way, to find those that call themselves.
    expanding: Vec<&'a ast::Macro<'a>>,
    blocks: BTreeMap<&'a str, BlockVersions<'a>>,
    current_block: Option<&'a str>,
    /// Templates under way, to find those that include themselves.
    including: Vec<&'a str>,
    /// Whether the template under way has met an `extends`.
    extended: Option<&'a str>,
    depth: usize,
    /// The depth of statements that are within no other in their template.
    top_depth: usize,
    /// Nodes of syntax trees compiled; shared by the stages of a page.
    pub(crate) nodes: usize,
    /// Whether the page has been refused for its size.
    exhausted: bool,
}

/// Deepest nesting, includes and macros counted.
const DEPTH_MAX: usize = 100;
/// Most nodes compiled for a page.
const NODES_MAX: usize = 200_000;

impl<'r, 'a> Compiler<'r, 'a> {
    pub(crate) fn new(
        library: &'a Library<'a>,
        report: &'r mut Report,
        fragments: &'r mut Fragments,
        page: &'r mut PageParts,
        names: BTreeMap<String, Operand>,
        origin: Origin<'a>,
    ) -> Compiler<'r, 'a> {
        Compiler {
            library,
            report,
            fragments,
            page,
            stage: Stage::new(),
            scope: Scope::new(names),
            origin,
            macros: Vec::new(),
            expanding: Vec::new(),
            blocks: BTreeMap::new(),
            current_block: None,
            including: Vec::new(),
            extended: None,
            depth: 0,
            top_depth: 0,
            nodes: 0,
            exhausted: false,
        }
    }

    pub(crate) fn error(
        &mut self,
        place: Place<'a>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Reported {
        self.report.error(place, message, hint)
    }

    pub(crate) fn at<T>(&self, node: &Spanned<T>) -> Place<'a> {
        self.origin.at(node.span())
    }

    /// Goes one level deeper, unless the page has become too deep or too large.
    pub(crate) fn nested<T>(
        &mut self,
        place: Place<'a>,
        inside: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.exhausted {
            return Err(Reported);
        }
        self.nodes += 1;
        if self.nodes > NODES_MAX || self.stage.is_too_large() {
            self.exhausted = true;
            let hint = "do templates or macros use each other more often than needed?";
            return Err(self.error(place, "the page becomes too large here", hint));
        }
        if self.depth >= DEPTH_MAX {
            return Err(self.error(place, "templates and macros nest too deep here", ""));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    /// Runs with another origin.
    fn with_origin<T>(&mut self, origin: Origin<'a>, inside: impl FnOnce(&mut Self) -> T) -> T {
        let around = std::mem::replace(&mut self.origin, origin);
        let result = inside(self);
        self.origin = around;
        result
    }

    /// Compiles a page's or an else page's template.
    pub(crate) fn page_template(&mut self, name: &'a str, template: &'a Template<'a>) {
        let _ = self.template(name, template, self.origin.place(0));
    }

    /// What MiniJinja does with a template: its statements, then those of the one it extends.
    fn template(
        &mut self,
        name: &'a str,
        template: &'a Template<'a>,
        place: Place<'a>,
    ) -> Result<()> {
        let around_blocks = std::mem::take(&mut self.blocks);
        let around_extended = self.extended.take();
        let around_top_depth = std::mem::replace(&mut self.top_depth, self.depth + 1);
        let around_including = self.including.len();
        let mut result = Ok(());
        let mut next = Some((name, template));
        while let Some((name, template)) = next.take() {
            if self.including.contains(&name) {
                let chain = self.including.join(" -> ");
                let message =
                    format!("this template includes or extends itself: {chain} -> {name}");
                result = Err(self.error(place, message, ""));
                break;
            }
            self.including.push(name);
            result = self.with_origin(template.origin, |this| {
                this.collect_blocks(template.statements());
                this.statements(template.statements());
                Ok(())
            });
            if let Some(parent) = self.extended.take() {
                self.stage.end_sink();
                next = match self.library.get(parent) {
                    Some(Some(template)) => Some((parent, template)),
                    _ => None,
                };
            }
        }
        self.including.truncate(around_including);
        self.top_depth = around_top_depth;
        self.extended = around_extended;
        self.blocks = around_blocks;
        result
    }

    /// Adds the blocks of a template behind those of the templates that extend it.
    fn collect_blocks(&mut self, statements: &'a [Stmt<'a>]) {
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

    /// Compiles statements. A mistake in one does not hide those of the next.
    pub(crate) fn statements(&mut self, statements: &'a [Stmt<'a>]) {
        for statement in statements {
            if self.exhausted {
                return;
            }
            let place = self.origin.at(span_of(statement));
            let _ = self.nested(place, |this| this.statement(statement));
        }
    }

    fn statement(&mut self, statement: &'a Stmt<'a>) -> Result<()> {
        match statement {
            Stmt::Template(node) => self.statements(&node.children),
            Stmt::EmitRaw(node) => self.stage.write_text(node.raw),
            Stmt::EmitExpr(node) => return self.emit(&node.expr),
            Stmt::IfCond(node) => return self.if_statement(node),
            Stmt::ForLoop(node) => return self.for_statement(node),
            Stmt::Set(node) => return self.set_statement(&node.target, &node.expr),
            Stmt::WithBlock(node) => {
                self.scope.frames.push(Frame::default());
                for (target, value) in &node.assignments {
                    let _ = self.set_statement(target, value);
                }
                self.statements(&node.body);
                self.scope.frames.pop();
            }
            Stmt::Block(node) => {
                if self.extended.is_none() && !self.stage.is_discarding() {
                    return self.call_block(node.name, self.at(node));
                }
            }
            Stmt::Extends(node) => return self.extends_statement(node),
            Stmt::Include(node) => return self.include_statement(node),
            Stmt::Import(node) => {
                let ast::Expr::Var(target) = &node.name else {
                    return Err(self.error(
                        self.at(node),
                        "an import is given a name",
                        "{% import \"x.html\" as x %}",
                    ));
                };
                let names = self.import(&node.expr, self.at(node));
                let module = match names {
                    Ok(frame) => {
                        let public = |(name, _): &(String, Operand)| !name.starts_with('_');
                        Operand::Module(Rc::new(frame.locals.into_iter().filter(public).collect()))
                    }
                    Err(Reported) => Operand::Poison,
                };
                self.scope.set(target.id, module);
            }
            Stmt::FromImport(node) => return self.names_import_statement(node),
            Stmt::Macro(node) => {
                let closure = self.scope.enclose();
                self.macros.push(MacroDefinition {
                    definition: node,
                    origin: self.origin,
                    closure,
                });
                self.scope
                    .set(node.name, Operand::Macro(self.macros.len() - 1));
            }
            Stmt::SetBlock(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "a `set` block",
                    "{% set x = ... %} sets a name to one expression",
                ));
            }
            Stmt::AutoEscape(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "`autoescape`",
                    "`|safe` prints one value unescaped",
                ));
            }
            Stmt::FilterBlock(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "a `filter` block",
                    "apply the filter to each value",
                ));
            }
            Stmt::CallBlock(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "a `call` block",
                    "give the macro an argument",
                ));
            }
            Stmt::Do(node) => {
                return Err(self.unsupported(
                    self.at(node),
                    "`do`",
                    "expressions have no effect here",
                ));
            }
            // Further statements exist where another crate of the build switches on further features of the parser.
            #[allow(unreachable_patterns)]
            _ => return Err(self.unsupported(self.origin.place(0), "this statement", "")),
        }
        Ok(())
    }

    pub(crate) fn unsupported(
        &mut self,
        place: Place<'a>,
        what: &str,
        hint: impl Into<String>,
    ) -> Reported {
        self.error(place, format!("{what} is not supported"), hint)
    }

    /// `{{ expression }}`
    fn emit(&mut self, expression: &'a ast::Expr<'a>) -> Result<()> {
        match expression {
            // The branches of a printed condition need not be of one type.
            ast::Expr::IfExpr(node) => {
                let condition = self.condition(&node.test_expr)?;
                return self.branch(
                    condition,
                    |this| this.nested(this.at(node), |this| this.emit(&node.true_expr)),
                    |this| match &node.false_expr {
                        Some(expression) => {
                            this.nested(this.at(node), |this| this.emit(expression))
                        }
                        None => Ok(()),
                    },
                );
            }
            ast::Expr::Call(call) => match call.identify_call() {
                ast::CallType::Function("super") if call.args.is_empty() => {
                    return self.super_block(self.at(call));
                }
                ast::CallType::Block(name) => {
                    if self.extended.is_none() && !self.stage.is_discarding() {
                        let place = self.at(call);
                        return match self.blocks.get_key_value(name).map(|(name, _)| *name) {
                            Some(name) => self.call_block(name, place),
                            None => Err(self.unknown_block(name, place)),
                        };
                    }
                    return Ok(());
                }
                _ => {
                    if let Some((definition, arguments)) = self.macro_call(call)? {
                        return self.expand_macro(definition, arguments, self.at(call));
                    }
                }
            },
            _ => {}
        }
        let operand = self.expression(expression)?;
        let place = self.place_of(expression);
        self.print(&operand, Escape::Html, place)
    }

    /// Prints a value.
    pub(crate) fn print(
        &mut self,
        operand: &Operand,
        escape: Escape,
        place: Place<'a>,
    ) -> Result<()> {
        match operand {
            Operand::None => self.stage.write_text("None"),
            Operand::Undefined => {}
            Operand::Poison => return Err(Reported),
            _ => {
                if self
                    .stage
                    .write(operand, escape, self.page, self.fragments)
                    .is_none()
                {
                    let message = format!("{} cannot be printed", operand.describe());
                    let hint = match operand {
                        Operand::Record(names) => {
                            format!("print one of its values: {}", join(names.keys()))
                        }
                        Operand::Row { list, .. } => {
                            format!(
                                "print one of its columns: {}",
                                join(list.columns.iter().map(|(name, _)| name))
                            )
                        }
                        Operand::List(_) | Operand::Range { .. } => {
                            "go through it with `for`, or use `|length`".to_owned()
                        }
                        Operand::Macro(_) => "call it: {{ name(...) }}".to_owned(),
                        _ => String::new(),
                    };
                    return Err(self.error(place, message, hint));
                }
            }
        }
        Ok(())
    }

    fn set_statement(&mut self, target: &'a ast::Expr<'a>, value: &'a ast::Expr<'a>) -> Result<()> {
        let ast::Expr::Var(target) = target else {
            let place = self.place_of(target);
            let hint = "set one name at a time; there are no namespaces";
            return Err(self.error(place, "`set` sets one name", hint));
        };
        let operand = self.expression(value);
        self.scope.set(
            target.id,
            operand.as_ref().map_or(Operand::Poison, Clone::clone),
        );
        operand.map(|_| ())
    }

    fn if_statement(&mut self, node: &'a ast::IfCond<'a>) -> Result<()> {
        let condition = self.condition(&node.expr);
        let condition = match condition {
            Ok(condition) => condition,
            Err(Reported) => {
                // Both bodies may have mistakes of their own.
                self.statements(&node.true_body);
                self.statements(&node.false_body);
                return Err(Reported);
            }
        };
        self.branch(
            condition,
            |this| {
                this.statements(&node.true_body);
                Ok(())
            },
            |this| {
                this.statements(&node.false_body);
                Ok(())
            },
        )
    }

    /// Compiles two branches, of which each lane takes one, and joins what they set.
    fn branch(
        &mut self,
        condition: Operand,
        then: impl FnOnce(&mut Self) -> Result<()>,
        otherwise: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if let Operand::Literal(literal) = &condition {
            return if literal.truth() {
                then(self)
            } else {
                otherwise(self)
            };
        }
        let Some(register) = self.stage.register(&condition, self.page) else {
            return Err(Reported);
        };
        self.stage.fork(self.page);
        let before = self.scope.snapshot();
        let (mut then_block, then_result) = self.in_branch(then);
        let after_then = self.scope.restore(before);
        let (mut else_block, else_result) = self.in_branch(otherwise);
        let after_else = self.scope.snapshot();
        self.merge(&after_then, &mut then_block, &after_else, &mut else_block);
        self.stage
            .push_if(register, then_block, else_block, self.fragments);
        then_result.and(else_result)
    }

    fn in_branch<T>(&mut self, inside: impl FnOnce(&mut Self) -> T) -> (OpenBlock, T) {
        self.stage.open();
        let result = inside(self);
        self.stage.join(self.page);
        (self.stage.close(self.fragments), result)
    }

    /// Gives names that two branches set differently a register that both write.
    fn merge(
        &mut self,
        a: &Snapshot,
        a_block: &mut OpenBlock,
        b: &Snapshot,
        b_block: &mut OpenBlock,
    ) {
        let differences = self.scope.differences(a, b);
        self.scope.adopt(a, b);
        for (name, in_a, in_b) in differences {
            let operand = match (in_a, in_b) {
                (Some(Operand::Poison), _) | (_, Some(Operand::Poison)) => Operand::Poison,
                (Some(Operand::Conflict(reason)), _) | (_, Some(Operand::Conflict(reason))) => {
                    Operand::Conflict(reason)
                }
                (None | Some(Operand::Maybe), _) | (_, None | Some(Operand::Maybe)) => {
                    Operand::Maybe
                }
                (Some(in_a), Some(in_b)) => match unify(&in_a, &in_b) {
                    Err(reason) => Operand::Conflict(reason.into()),
                    Ok((kind, safe)) => {
                        let register = self.stage.new_register(kind);
                        for (block, operand) in [(&mut *a_block, in_a), (&mut *b_block, in_b)] {
                            self.copy_in(block, register, &operand);
                        }
                        Operand::Register {
                            register,
                            kind,
                            safe,
                        }
                    }
                },
            };
            self.scope.set(&name, operand);
        }
    }

    /// Appends `to = operand` to a block that was closed.
    fn copy_in(&mut self, block: &mut OpenBlock, to: Register, operand: &Operand) {
        self.stage.reopen(std::mem::take(block));
        if let Some(from) = self.stage.register(operand, self.page) {
            self.stage.push(Op::Copy { to, from });
        }
        *block = self.stage.close(self.fragments);
    }

    /// Copies one of two values of one type into a register.
    pub(crate) fn select(
        &mut self,
        condition: Register,
        then: (OpenBlock, Operand),
        otherwise: (OpenBlock, Operand),
    ) -> std::result::Result<Operand, String> {
        let (kind, safe) = unify(&then.1, &otherwise.1)?;
        let register = self.stage.new_register(kind);
        let (mut then_block, mut else_block) = (then.0, otherwise.0);
        self.copy_in(&mut then_block, register, &then.1);
        self.copy_in(&mut else_block, register, &otherwise.1);
        self.stage
            .push_if(condition, then_block, else_block, self.fragments);
        Ok(Operand::Register {
            register,
            kind,
            safe,
        })
    }

    fn for_statement(&mut self, node: &'a Spanned<ast::ForLoop<'a>>) -> Result<()> {
        if node.recursive {
            let _ = self.unsupported(self.at(node), "a recursive loop", "");
        }
        let items = self.expression(&node.iter).and_then(|items| {
            let place = self.place_of(&node.iter);
            self.iterable(items, place)
        });
        let items = match items {
            Ok(items) => items,
            Err(Reported) => {
                // The body may have mistakes of its own.
                self.scope.frames.push(Frame::default());
                self.poison(&node.target);
                self.statements(&node.body);
                self.scope.frames.pop();
                return Err(Reported);
            }
        };
        let count = match &items {
            Operand::Range { count, .. } => (**count).clone(),
            Operand::List(list) => self.length_of(list),
            _ => return Err(Reported),
        };
        if let Operand::Literal(Literal::Int(count)) = &count
            && *count < 1
        {
            self.statements(&node.else_body);
            return Ok(());
        }
        let runs_always = node.filter_expr.is_none() && matches!(&count, Operand::Literal(_));
        let Some(count) = self.stage.register(&count, self.page) else {
            return Err(Reported);
        };
        let position = self.stage.new_register(Type::Int);
        let registers = LoopRegisters {
            index: self.stage.new_register(Type::Int),
            length: self.stage.new_register(Type::Int),
        };
        self.stage.fork(self.page);

        let mut filter = None;
        if let Some(expression) = &node.filter_expr {
            // As in MiniJinja, `loop` is that of the loop around here.
            self.stage.open();
            self.scope.frames.push(Frame::default());
            let keep = self
                .bind_item(&node.target, &items, position)
                .and_then(|()| self.condition(expression));
            self.scope.frames.pop();
            let keep = keep
                .ok()
                .and_then(|keep| self.stage.register(&keep, self.page));
            let block = self.stage.close(self.fragments).ops;
            filter = keep.map(|keep| LoopFilter { block, keep });
        }

        self.stage.open();
        self.scope.frames.push(Frame {
            looping: Some(registers),
            ..Frame::default()
        });
        let mut result = self.bind_item(&node.target, &items, position);
        self.statements(&node.body);
        self.scope.frames.pop();
        self.stage.join(self.page);
        let body = self.stage.close(self.fragments);

        let mut otherwise = OpenBlock::default();
        if !node.else_body.is_empty() && !runs_always {
            let before = self.scope.snapshot();
            let (block, ()) = self.in_branch(|this| this.statements(&node.else_body));
            otherwise = block;
            // Where the loop has turns, names keep what they were: that is copied before it.
            let after_else = self.scope.restore(before.clone());
            let mut unchanged = OpenBlock::default();
            self.merge(&before, &mut unchanged, &after_else, &mut otherwise);
            for op in unchanged.ops {
                self.stage.push(op);
            }
        } else if runs_always && !node.else_body.is_empty() {
            let place = self.at(node);
            self.report
                .warning(place, "the `else` of this loop is never reached", "");
        }
        if body.ops.is_empty() && otherwise.ops.is_empty() && filter.is_none() {
            return result;
        }
        if node.filter_expr.is_some() && filter.is_none() {
            result = Err(Reported);
        }
        self.stage
            .push_for(body, otherwise, self.fragments, |body, otherwise| Op::For {
                count,
                filter,
                position,
                index: registers.index,
                length: registers.length,
                body,
                otherwise,
            });
        result
    }

    /// What `for` goes through, or a mistake.
    fn iterable(&mut self, items: Operand, place: Place<'a>) -> Result<Operand> {
        match items {
            Operand::List(_) | Operand::Range { .. } => Ok(items),
            Operand::Undefined => Ok(Operand::Range {
                start: Box::new(Operand::int(0)),
                step: 1,
                count: Box::new(Operand::int(0)),
            }),
            Operand::Poison => Err(Reported),
            other => {
                let message = format!("`for` cannot go through {}", other.describe());
                let hint =
                    "lists are: list parameters, rows of calls, range(...) and lists of constants";
                Err(self.error(place, message, hint))
            }
        }
    }

    pub(crate) fn length_of(&mut self, list: &List) -> Operand {
        match &list.items {
            Items::Field(field) => Operand::register(self.stage.length(*field), Type::Int),
            Items::Tables { length, .. } => Operand::int(*length as i64),
        }
    }

    /// The item at a position.
    pub(crate) fn item(&mut self, items: &Operand, position: Register) -> Result<Operand> {
        Ok(match items {
            Operand::List(list) if list.columns.len() == 1 && list.columns[0].0.is_empty() => {
                Operand::Column {
                    list: list.clone(),
                    column: 0,
                    position,
                }
            }
            Operand::List(list) => Operand::Row {
                list: list.clone(),
                position,
            },
            Operand::Range { start, step, .. } => {
                let position = Operand::register(position, Type::Int);
                let offset = if *step == 1 {
                    position
                } else {
                    self.integer_arithmetic(
                        super::program::Arithmetic::Multiply,
                        &position,
                        &Operand::int(*step),
                    )?
                };
                match &**start {
                    Operand::Literal(Literal::Int(0)) => offset,
                    start => {
                        self.integer_arithmetic(super::program::Arithmetic::Add, start, &offset)?
                    }
                }
            }
            _ => return Err(Reported),
        })
    }

    /// Gives a loop's names their values.
    fn bind_item(
        &mut self,
        target: &'a ast::Expr<'a>,
        items: &Operand,
        position: Register,
    ) -> Result<()> {
        match target {
            ast::Expr::Var(name) => {
                let item = self.item(items, position)?;
                self.scope.set(name.id, item);
                Ok(())
            }
            ast::Expr::List(names) => {
                let place = self.at(names);
                let unnamed = |list: &Rc<List>| {
                    list.columns
                        .iter()
                        .all(|(name, _)| name.parse::<usize>().is_ok())
                };
                let list = match items {
                    Operand::List(list) if unnamed(list) => list.clone(),
                    _ => {
                        self.poison(target);
                        let hint = "for row in rows, then row.column";
                        return Err(self.error(
                            place,
                            "records have names, they are not unpacked",
                            hint,
                        ));
                    }
                };
                if list.columns.len() != names.items.len() {
                    self.poison(target);
                    let message = format!(
                        "the items have {} values, not {}",
                        list.columns.len(),
                        names.items.len()
                    );
                    return Err(self.error(place, message, ""));
                }
                for (column, name) in names.items.iter().enumerate() {
                    let ast::Expr::Var(name) = name else {
                        self.poison(target);
                        return Err(self.unsupported(place, "unpacking within unpacking", ""));
                    };
                    let operand = Operand::Column {
                        list: list.clone(),
                        column: column as u16,
                        position,
                    };
                    self.scope.set(name.id, operand);
                }
                Ok(())
            }
            _ => Err(Reported),
        }
    }

    /// Gives names a value whose uses are not reported again.
    fn poison(&mut self, target: &'a ast::Expr<'a>) {
        match target {
            ast::Expr::Var(name) => self.scope.set(name.id, Operand::Poison),
            ast::Expr::List(names) => names.items.iter().for_each(|name| self.poison(name)),
            _ => {}
        }
    }

    fn extends_statement(&mut self, node: &'a Spanned<ast::Extends<'a>>) -> Result<()> {
        let place = self.at(node);
        if self.depth != self.top_depth {
            let hint = "put it at the top of the template";
            return Err(self.error(place, "`extends` stands within no other statement", hint));
        }
        if self.extended.is_some() {
            return Err(self.error(place, "a template extends one other", ""));
        }
        let (name, template) = self.find_template(&node.name)?;
        if template.is_none() {
            return Err(Reported);
        }
        self.extended = Some(name);
        self.stage.begin_sink(Sink::Discard);
        Ok(())
    }

    fn include_statement(&mut self, node: &'a Spanned<ast::Include<'a>>) -> Result<()> {
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
        let result = self.nested(place, |this| this.template(name, template, place));
        self.current_block = block;
        self.scope.top().closure = closure;
        result
    }

    /// Runs a file for the names it defines.
    fn import(&mut self, name: &'a ast::Expr<'a>, place: Place<'a>) -> Result<Frame> {
        let (name, template) = self.find_template(name)?;
        let Some(template) = template else {
            return Err(Reported);
        };
        self.stage.begin_sink(Sink::Discard);
        self.scope.frames.push(Frame::default());
        let block = self.current_block;
        let result = self.nested(place, |this| this.template(name, template, place));
        self.current_block = block;
        let frame = self.scope.frames.pop();
        self.stage.end_sink();
        result.map(|()| frame.unwrap_or_default())
    }

    fn names_import_statement(&mut self, node: &'a Spanned<ast::FromImport<'a>>) -> Result<()> {
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
                    let hint = did_you_mean(name.id, frame.locals.keys().map(String::as_str));
                    let place = self.at(name);
                    self.error(
                        place,
                        format!("the file does not define `{}`", name.id),
                        hint,
                    );
                    Operand::Poison
                }),
            };
            self.scope.set(target.id, operand);
        }
        imported.map(|_| ())
    }

    /// The name of a template, which must be known at load.
    fn template_name(&mut self, name: &ast::Expr<'_>) -> Result<String> {
        let place = self.place_of(name);
        match self.expression(name)? {
            Operand::Literal(Literal::Text { text, .. }) => Ok(text.to_string()),
            _ => {
                let hint = "{% include \"name.html\" %}; choose between several with `if`";
                Err(self.error(place, "the name of a template must be constant", hint))
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn find_template(
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
                let hint = did_you_mean(&name, known());
                Err(self.error(place, format!("there is no templates/{name}"), hint))
            }
        }
    }

    fn unknown_block(&mut self, name: &str, place: Place<'a>) -> Reported {
        let hint = did_you_mean(name, self.blocks.keys().copied());
        self.error(place, format!("there is no block `{name}`"), hint)
    }

    /// Writes the version of a block that counts.
    fn call_block(&mut self, name: &'a str, place: Place<'a>) -> Result<()> {
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

    fn super_block(&mut self, place: Place<'a>) -> Result<()> {
        let Some(name) = self.current_block else {
            return Err(self.error(place, "`super()` is for blocks", ""));
        };
        let Some(block) = self.blocks.get_mut(name) else {
            return Err(self.error(place, "`super()` is for blocks", ""));
        };
        let Some(&(version, origin)) = block.versions.get(block.current + 1) else {
            return Err(self.error(
                place,
                format!("no template that is extended has a block `{name}`"),
                "",
            ));
        };
        block.current += 1;
        let result = self.block_version(name, version, origin, place);
        if let Some(block) = self.blocks.get_mut(name) {
            block.current -= 1;
        }
        result
    }

    fn block_version(
        &mut self,
        name: &'a str,
        version: &'a ast::Block<'a>,
        origin: Origin<'a>,
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
    pub(crate) fn capture(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Operand> {
        self.stage.begin_sink(Sink::Capture {
            joined: None,
            parts: Vec::new(),
        });
        let result = inside(self);
        let captured = self.stage.captured(true, self.page);
        result.map(|()| captured)
    }

    /// `super()` and `self.block()` as values.
    pub(crate) fn captured_block(
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
    pub(crate) fn expand_macro(
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
        let result = self.nested(place, |this| {
            this.with_origin(origin, |this| {
                // From the last to the first, as MiniJinja takes them: a default sees the parameters after it.
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
        self.expanding.pop();
        self.extended = extended;
        self.current_block = block;
        self.scope.frames = frames;
        result
    }
}

/// Where a statement stands.
fn span_of(statement: &Stmt<'_>) -> Span {
    match statement {
        Stmt::Template(node) => node.span(),
        Stmt::EmitExpr(node) => node.span(),
        Stmt::EmitRaw(node) => node.span(),
        Stmt::ForLoop(node) => node.span(),
        Stmt::IfCond(node) => node.span(),
        Stmt::WithBlock(node) => node.span(),
        Stmt::Set(node) => node.span(),
        Stmt::SetBlock(node) => node.span(),
        Stmt::AutoEscape(node) => node.span(),
        Stmt::FilterBlock(node) => node.span(),
        Stmt::Block(node) => node.span(),
        Stmt::Import(node) => node.span(),
        Stmt::FromImport(node) => node.span(),
        Stmt::Extends(node) => node.span(),
        Stmt::Include(node) => node.span(),
        Stmt::Macro(node) => node.span(),
        Stmt::CallBlock(node) => node.span(),
        Stmt::Do(node) => node.span(),
        #[allow(unreachable_patterns)]
        _ => Span::default(),
    }
}

fn join<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The type and safety that two values share, or why they do not.
fn unify(a: &Operand, b: &Operand) -> std::result::Result<(Type, bool), String> {
    let (Some((a_kind, a_safe)), Some((b_kind, b_safe))) = (a.scalar(), b.scalar()) else {
        return Err(format!(
            "it is {} on one path and {} on another",
            a.describe(),
            b.describe()
        ));
    };
    if a_kind != b_kind {
        return Err(format!(
            "it is {} on one path and {} on another",
            a.describe(),
            b.describe()
        ));
    }
    if a_safe != b_safe {
        return Err(
            "it is safe to print on one path only; apply `|safe` or `|escape` on both".to_owned(),
        );
    }
    Ok((a_kind, a_safe))
}
