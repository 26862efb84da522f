//! Attributes, items, calls of functions, and lists of constants.

use super::compiler::{Compiler, MacroDefinition, Result};
use super::value::{Items, List, Literal, Operand};
use crate::diagnostic::{Place, Reported, did_you_mean};
use crate::program::{Arithmetic, Comparison, Constant, Type};
use minijinja::machinery::ast::{self, CallType, Expr};
use std::rc::Rc;

impl<'a> Compiler<'_, 'a> {
    /// An attribute, `None` where there is none of this name.
    pub(super) fn attribute(&mut self, base: &Operand, name: &str) -> Result<Option<Operand>> {
        let field = |field: u16| Operand::Field {
            field,
            kind: Type::Int,
        };
        Ok(match base {
            Operand::Record(names) | Operand::Module(names) => names.get(name).cloned(),
            Operand::Row { list, position } => {
                let column = list.columns.iter().position(|(column, _)| column == name);
                column.map(|column| Operand::Column {
                    list: list.clone(),
                    column: column as u16,
                    position: *position,
                })
            }
            Operand::List(list) if name == "status" => list.status.map(field),
            Operand::Session { user, .. } if name == "userid" => Some(field(*user)),
            Operand::Session { present, .. } if name == "present" => {
                let place = self.origin.place(0);
                Some(self.compare(
                    Comparison::NotEqual,
                    &field(*present),
                    &Operand::int(0),
                    place,
                )?)
            }
            Operand::Loop(registers) => {
                let index = Operand::register(registers.index, Type::Int);
                let length = Operand::register(registers.length, Type::Int);
                let one = Operand::int(1);
                let place = self.origin.place(0);
                Some(match name {
                    "index0" => index,
                    "index" => self.integer_arithmetic(Arithmetic::Add, &index, &one)?,
                    "length" => length,
                    "revindex" => self.integer_arithmetic(Arithmetic::Subtract, &length, &index)?,
                    "revindex0" => {
                        let left =
                            self.integer_arithmetic(Arithmetic::Subtract, &length, &index)?;
                        self.integer_arithmetic(Arithmetic::Subtract, &left, &one)?
                    }
                    "first" => self.compare(Comparison::Equal, &index, &Operand::int(0), place)?,
                    "last" => {
                        let last = self.integer_arithmetic(Arithmetic::Subtract, &length, &one)?;
                        self.compare(Comparison::Equal, &index, &last, place)?
                    }
                    // MiniJinja counts recursive loops only.
                    "depth" => one,
                    "depth0" => Operand::int(0),
                    _ => return Ok(None),
                })
            }
            _ => None,
        })
    }

    pub(super) fn no_attribute(
        &mut self,
        base: &Operand,
        name: &str,
        place: Place<'a>,
    ) -> Reported {
        let hint = match base {
            Operand::Record(names) | Operand::Module(names) => {
                did_you_mean(name, names.keys().map(String::as_str))
            }
            Operand::Row { list, .. } => {
                did_you_mean(name, list.columns.iter().map(|(name, _)| name.as_str()))
            }
            Operand::List(_) => {
                "go through the list with `for`, or take an item: rows[0]".to_owned()
            }
            Operand::Session { .. } => did_you_mean(name, ["userid", "present"]),
            Operand::Loop(_) if ["previtem", "nextitem", "changed"].contains(&name) => {
                format!("`loop.{name}` is not supported")
            }
            Operand::Loop(_) => did_you_mean(
                name,
                [
                    "index",
                    "index0",
                    "revindex",
                    "revindex0",
                    "first",
                    "last",
                    "length",
                    "depth",
                    "depth0",
                ],
            ),
            _ => String::new(),
        };
        self.error(place, format!("{} has no `{name}`", base.describe()), hint)
    }

    pub(super) fn get_item(
        &mut self,
        node: &ast::GetItem<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let base = self.expression(&node.expr)?;
        let subscript = self.expression(&node.subscript_expr)?;
        match (&base, &subscript) {
            (_, Operand::Literal(Literal::Text { text, .. })) => {
                match self.attribute(&base, text)? {
                    Some(operand) => Ok(operand),
                    None => Err(self.no_attribute(&base, text, place)),
                }
            }
            (Operand::Row { .. }, Operand::Literal(Literal::Int(index))) => {
                let name = index.to_string();
                match self.attribute(&base, &name)? {
                    Some(operand) => Ok(operand),
                    None => Err(self.no_attribute(&base, &name, place)),
                }
            }
            (Operand::List(list), _)
                if subscript
                    .scalar()
                    .is_some_and(|(kind, _)| kind == Type::Int) =>
            {
                let position = match &subscript {
                    Operand::Literal(Literal::Int(index)) if *index < 0 => {
                        let length = self.length_of(list);
                        self.integer_arithmetic(Arithmetic::Add, &length, &subscript)?
                    }
                    _ => subscript,
                };
                let position = self.register(&position);
                self.item(&base, position)
            }
            _ => {
                let message = format!(
                    "{} has no item by {}",
                    base.describe(),
                    subscript.describe()
                );
                Err(self.error(
                    place,
                    message,
                    "lists have items by position, records by name",
                ))
            }
        }
    }

    /// The arguments of a call by the names of its parameters.
    pub(super) fn arguments<'e, 's>(
        &mut self,
        what: &str,
        names: &[&str],
        arguments: &'e [ast::CallArg<'s>],
        place: Place<'a>,
    ) -> Result<Vec<Option<&'e Expr<'s>>>> {
        let mut found: Vec<Option<&Expr<'s>>> = vec![None; names.len()];
        for (index, argument) in arguments.iter().enumerate() {
            let (index, expression) = match argument {
                ast::CallArg::Pos(expression) => (Some(index), expression),
                ast::CallArg::Kwarg(name, expression) => {
                    let index = names.iter().position(|known| known == name);
                    if index.is_none() {
                        let named = names.iter().copied().filter(|known| !known.is_empty());
                        let hint = did_you_mean(name, named);
                        return Err(self.error(
                            place,
                            format!("{what} has no parameter `{name}`"),
                            hint,
                        ));
                    }
                    (index, expression)
                }
                _ => return Err(self.unsupported(place, "`*` before an argument", "")),
            };
            match index.and_then(|index| found.get_mut(index)) {
                Some(slot @ None) => *slot = Some(expression),
                Some(Some(_)) => {
                    return Err(self.error(
                        place,
                        format!("{what} is given an argument twice"),
                        "",
                    ));
                }
                None => {
                    let message = format!("{what} takes {} arguments at most", names.len());
                    return Err(self.error(place, message, ""));
                }
            }
        }
        Ok(found)
    }

    /// A call's macro and its arguments, if it calls one.
    pub(super) fn macro_call(
        &mut self,
        call: &ast::Spanned<ast::Call<'_>>,
    ) -> Result<Option<(MacroDefinition<'a>, Vec<Operand>)>> {
        let place = self.origin.at(call.span());
        let operand = match call.identify_call() {
            CallType::Function(name) => self.scope.lookup(name),
            CallType::Method(base, name) => match self.optional(base)? {
                Operand::Module(names) => names.get(name).cloned(),
                _ => None,
            },
            _ => None,
        };
        let definition = match operand {
            Some(Operand::Macro(index)) => self.macros[index],
            Some(Operand::Poison) => return Err(Reported),
            _ => return Ok(None),
        };
        let names: Vec<&str> = (definition.definition.args.iter())
            .map(|argument| match argument {
                Expr::Var(name) => name.id,
                _ => "",
            })
            .collect();
        let what = format!("the macro `{}`", definition.definition.name);
        let expressions = self.arguments(&what, &names, &call.args, place)?;
        let mut arguments = Vec::with_capacity(expressions.len());
        for expression in expressions {
            arguments.push(match expression {
                Some(expression) => self.expression(expression)?,
                None => Operand::Undefined,
            });
        }
        Ok(Some((definition, arguments)))
    }

    pub(super) fn call(&mut self, call: &ast::Spanned<ast::Call<'_>>) -> Result<Operand> {
        let place = self.origin.at(call.span());
        if let Some((definition, arguments)) = self.macro_call(call)? {
            return self.capture(|this| this.expand_macro(definition, arguments, place));
        }
        match call.identify_call() {
            CallType::Function("range") => self.range(&call.args, place),
            CallType::Function("super") => self.captured_block(None, place),
            CallType::Block(name) => self.captured_block(Some(name), place),
            CallType::Method(base, "cycle") => {
                let base = self.expression(base)?;
                self.cycle(&base, &call.args, place)
            }
            CallType::Method(base, name) => {
                let base = self.expression(base)?;
                let hint = if base.scalar().is_some() {
                    format!("there are no methods; is there a filter `|{name}`?")
                } else {
                    String::new()
                };
                Err(self.error(
                    place,
                    format!("{} has no function `{name}`", base.describe()),
                    hint,
                ))
            }
            CallType::Function(name) => {
                let hint = match name {
                    "namespace" => {
                        "names set in a loop end with its turn; \
                         count with filters such as `|length`"
                    }
                    "caller" => "give the macro an argument",
                    "loop" => "recursive loops are not supported",
                    _ => "there are: range, and macros",
                };
                Err(self.error(place, format!("there is no function `{name}`"), hint))
            }
            CallType::Object(_) => Err(self.error(place, "this is no function", "")),
        }
    }

    pub(super) fn range(
        &mut self,
        arguments: &[ast::CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let expressions = self.arguments("range", &["", "", ""], arguments, place)?;
        let mut bounds = Vec::new();
        for expression in expressions.into_iter().flatten() {
            let operand = self.expression(expression)?;
            if operand.scalar().is_none_or(|(kind, _)| kind != Type::Int) {
                let message = format!("range takes integers, not {}", operand.describe());
                return Err(self.error(place, message, ""));
            }
            bounds.push(operand);
        }
        let step = match bounds.get(2) {
            None => 1,
            Some(Operand::Literal(Literal::Int(step))) if *step != 0 && *step != i64::MIN => *step,
            Some(_) => {
                return Err(self.error(
                    place,
                    "the step of a range is a constant other than 0",
                    "",
                ));
            }
        };
        let (start, stop) = match &bounds[..] {
            [] => {
                return Err(self.error(place, "range takes an integer", "range(10), range(1, 10)"));
            }
            [stop] => (Operand::int(0), stop.clone()),
            [start, stop, ..] => (start.clone(), stop.clone()),
        };
        let (low, high) = if step > 0 {
            (&start, &stop)
        } else {
            (&stop, &start)
        };
        let mut count = match low {
            Operand::Literal(Literal::Int(0)) => high.clone(),
            low => self.integer_arithmetic(Arithmetic::Subtract, high, low)?,
        };
        if step.abs() > 1 {
            count =
                self.integer_arithmetic(Arithmetic::Add, &count, &Operand::int(step.abs() - 1))?;
            count = self.integer_arithmetic(
                Arithmetic::FloorDivide,
                &count,
                &Operand::int(step.abs()),
            )?;
        }
        Ok(Operand::Range {
            start: Box::new(start),
            step,
            count: Box::new(count),
        })
    }

    pub(super) fn cycle(
        &mut self,
        base: &Operand,
        arguments: &[ast::CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let Operand::Loop(registers) = base else {
            return Err(self.error(
                place,
                "`cycle` is for loops",
                "loop.cycle(\"odd\", \"even\")",
            ));
        };
        let mut literals = Vec::new();
        for argument in arguments {
            let ast::CallArg::Pos(expression) = argument else {
                return Err(self.unsupported(place, "such an argument of `cycle`", ""));
            };
            match self.expression(expression)? {
                Operand::Literal(literal) => literals.push(literal),
                _ => {
                    return Err(self.error(place, "the arguments of `cycle` must be constant", ""));
                }
            }
        }
        let safe = literals
            .iter()
            .any(|l| matches!(l, Literal::Text { safe: true, .. }));
        if literals.is_empty() || safe || literals.iter().any(|l| l.kind() != literals[0].kind()) {
            return Err(self.error(place, "the arguments of `cycle` must be of one type", ""));
        }
        let length = Operand::int(literals.len() as i64);
        let index = Operand::register(registers.index, Type::Int);
        let position = self.integer_arithmetic(Arithmetic::Remainder, &index, &length)?;
        let position = self.register(&position);
        let list = List {
            columns: vec![(String::new(), literals[0].kind())],
            items: Items::Tables {
                tables: vec![self.table(&literals)],
                length: literals.len(),
            },
            status: None,
        };
        Ok(Operand::Column {
            list: Rc::new(list),
            column: 0,
            position,
        })
    }

    /// Adds a table of constants, or finds it.
    pub(super) fn table(&mut self, literals: &[Literal]) -> u16 {
        let table: Vec<Constant> = literals
            .iter()
            .map(|literal| self.page.constant(literal))
            .collect();
        let known = self.page.tables.iter().position(|known| *known == table);
        let index = known.unwrap_or_else(|| {
            self.page.tables.push(table);
            self.page.tables.len() - 1
        });
        // Tables are bounded by the number of nodes compiled, which is checked; past the bound the
        // page is refused.
        index.min(usize::from(u16::MAX)) as u16
    }

    /// A list of constants: of values, of tuples or of maps.
    pub(super) fn constant_list(
        &mut self,
        items: &[Expr<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let mut columns: Vec<(String, Vec<Literal>)> = Vec::new();
        for (row, item) in items.iter().enumerate() {
            let mut cells: Vec<(String, &Expr<'_>)> = match item {
                Expr::Tuple(tuple) => tuple
                    .items
                    .iter()
                    .enumerate()
                    .map(|(i, e)| (i.to_string(), e))
                    .collect(),
                Expr::List(list) => list
                    .items
                    .iter()
                    .enumerate()
                    .map(|(i, e)| (i.to_string(), e))
                    .collect(),
                Expr::Map(map) => {
                    let mut cells = Vec::new();
                    for (key, value) in map.keys.iter().zip(&map.values) {
                        match self.expression(key)? {
                            Operand::Literal(Literal::Text { text, .. }) => {
                                cells.push((text.to_string(), value))
                            }
                            _ => {
                                return Err(self.error(
                                    place,
                                    "the keys of a map must be constant texts",
                                    "",
                                ));
                            }
                        }
                    }
                    cells
                }
                item => vec![(String::new(), item)],
            };
            cells.sort_by(|a, b| a.0.len().cmp(&b.0.len()).then_with(|| a.0.cmp(&b.0)));
            if row == 0 {
                columns = cells
                    .iter()
                    .map(|(name, _)| (name.clone(), Vec::new()))
                    .collect();
            }
            let names = |(a, b): (&(String, Vec<Literal>), &(String, &Expr<'_>))| a.0 == b.0;
            if columns.len() != cells.len() || !columns.iter().zip(&cells).all(names) {
                let item = self.place_of(item);
                return Err(self.error(item, "the items of a list must be alike", ""));
            }
            for ((_, literals), (_, expression)) in columns.iter_mut().zip(cells) {
                let place = self.place_of(expression);
                let literal = match self.expression(expression)? {
                    Operand::Literal(Literal::Text { safe: true, .. }) => None,
                    Operand::Literal(literal) => Some(literal),
                    _ => None,
                };
                let Some(literal) = literal else {
                    let message = "the items of a list must be constant";
                    return Err(self.error(place, message, "numbers, texts, true and false"));
                };
                if literals
                    .first()
                    .is_some_and(|first| first.kind() != literal.kind())
                {
                    return Err(self.error(place, "the items of a list must be of one type", ""));
                }
                literals.push(literal);
            }
        }
        if columns.is_empty() {
            return Ok(Operand::Range {
                start: Box::new(Operand::int(0)),
                step: 1,
                count: Box::new(Operand::int(0)),
            });
        }
        let tables = columns
            .iter()
            .map(|(_, literals)| self.table(literals))
            .collect();
        let columns = (columns.into_iter())
            .map(|(name, literals)| (name, literals[0].kind()))
            .collect();
        Ok(Operand::List(Rc::new(List {
            items: Items::Tables {
                tables,
                length: items.len(),
            },
            columns,
            status: None,
        })))
    }
}
