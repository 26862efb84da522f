//! Calls: of macros, and of the functions there are.

use super::build::OpenBlock;
use super::compiler::{Compiler, MacroDefinition, Result};
use super::filter::{instead_of, is_filter};
use super::method;
use super::value::{Items, List, Literal, Operand};
use crate::diagnostic::{Place, Reported, did_you_mean, did_you_mean_or};
use crate::program::{Arithmetic, Comparison, Csrf, Type};
use minijinja::machinery::ast::{self, CallType, Expr};
use std::rc::Rc;

/// The functions there are.
const FUNCTIONS: [&str; 6] = ["range", "dict", "namespace", "now", "randrange", "url_for"];

impl<'a> Compiler<'_, 'a> {
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
                        let hint = match names {
                            [] => "it takes no arguments".to_owned(),
                            _ => did_you_mean_or(name, named, "give it by its position alone"),
                        };
                        return Err(self.error(
                            place,
                            format!("{what} has no parameter `{name}`"),
                            hint,
                        ));
                    }
                    (index, expression)
                }
                _ => {
                    let hint = "write the arguments out";
                    return Err(self.unsupported(place, "`*` before an argument", hint));
                }
            };
            match index.and_then(|index| found.get_mut(index)) {
                Some(slot @ None) => *slot = Some(expression),
                Some(Some(_)) => {
                    return Err(self.error(
                        place,
                        format!("{what} is given an argument twice"),
                        "once by its position and once by its name: remove one",
                    ));
                }
                None => {
                    let most = names.len();
                    let plural = if most == 1 { "" } else { "s" };
                    let (message, hint) = match most {
                        0 => (format!("{what} takes no argument"), "remove it"),
                        _ => (
                            format!("{what} takes {most} argument{plural} at most"),
                            "remove those beyond",
                        ),
                    };
                    return Err(self.error(place, message, hint));
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
            // Files that are imported have names.
            CallType::Method(base @ (Expr::Var(_) | Expr::GetAttr(_)), name) => {
                match self.optional(base)? {
                    Operand::Module(names) => names.get(name).cloned(),
                    _ => None,
                }
            }
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
            CallType::Function("now") if !self.scope.is_for_all => {
                self.arguments("`now`", &[], &call.args, place)?;
                Ok(Operand::Field {
                    field: self.page.now(),
                    kind: Type::Int,
                })
            }
            CallType::Function("randrange") if !self.scope.is_for_all => {
                self.random(&call.args, place)
            }
            CallType::Function("super") => self.captured_block(None, place),
            CallType::Block(name) => self.captured_block(Some(name), place),
            CallType::Function("dict") => self.dict(&call.args, place),
            CallType::Function("url_for") => self.url_for(&call.args, place),
            CallType::Function("namespace") => self.namespace(&call.args, place),
            CallType::Method(base, "changed") => {
                let base = self.expression(base)?;
                self.changed(&base, &call.args, place)
            }
            CallType::Method(base, "cycle") => {
                let base = self.expression(base)?;
                self.cycle(&base, &call.args, place)
            }
            CallType::Method(base, name) => {
                let base = self.expression(base)?;
                if let Some(made) = self.method(&base, name, &call.args, place)? {
                    return Ok(made);
                }
                let hint = match &base {
                    Operand::Module(names) => {
                        let nothing = "it defines no macros";
                        did_you_mean_or(name, names.keys().map(String::as_str), nothing)
                    }
                    Operand::Loop(_) => "loops have `cycle` and `changed`".to_owned(),
                    _ if is_filter(name) => format!("`|{name}` is a filter"),
                    text @ Operand::Map(_) => method::known(text).to_owned(),
                    text if text.scalar().is_some_and(|(kind, _)| kind == Type::Text) => {
                        method::known(text).to_owned()
                    }
                    _ => format!(
                        "texts have methods; of others there are filters: {}",
                        instead_of(name)
                    ),
                };
                Err(self.error(
                    place,
                    format!("{} has no function `{name}`", base.describe()),
                    hint,
                ))
            }
            CallType::Function(name) => {
                let hint = match name {
                    "caller" => "a macro takes no block: give it what differs as an argument",
                    "now" | "randrange" => {
                        "an error page is made before anybody visits it; a layout that it shares \
                         says such as `if now is defined`"
                    }
                    "loop" => "recursive loops are not supported",
                    Csrf::NAME | Csrf::INPUT => "it is no function: without brackets it is printed",
                    _ if self
                        .scope
                        .lookup(name)
                        .is_some_and(|it| it.scalar().is_some()) =>
                    {
                        "it is a value: without brackets it is printed"
                    }
                    _ if is_filter(name) => &format!("it is a filter: {{{{ value|{name} }}}}"),
                    _ => {
                        let visible = self.scope.visible();
                        let macros = (visible.iter())
                            .filter(|(_, it)| matches!(it, Operand::Macro(_) | Operand::Poison))
                            .map(|(name, _)| name.as_str());
                        let near = did_you_mean(name, macros.chain(FUNCTIONS));
                        match near.starts_with("did you mean") {
                            true => &near.clone(),
                            false => {
                                "there are: range, dict, namespace, now, randrange, url_for; and \
                                 macros, another file's by {% from \"FILE\" import NAME %}"
                            }
                        }
                    }
                };
                Err(self.error(place, format!("there is no function `{name}`"), hint))
            }
            CallType::Object(_) => Err(self.error(
                place,
                "this is no function",
                "macros are called by their names",
            )),
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
            let kind = operand.scalar().map(|(kind, _)| kind);
            if kind != Some(Type::Int) {
                let message = format!("range takes integers, not {}", operand.describe());
                let hint = match kind {
                    Some(_) => "`|int` makes it an integer",
                    None if matches!(operand, Operand::List(_)) => {
                        "`for` goes through a list itself; `|length` counts it"
                    }
                    None => "range(10), range(1, 10), or with a constant step range(0, 10, 2)",
                };
                return Err(self.error(place, message, hint));
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
                    "such as 2 in range(0, 10, 2); for steps that differ, go by 1 and reckon: \
                     {{ start + i * step }}",
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
        Ok(List::range(start, step, count))
    }

    /// `randrange(6)`, or `randrange(1, 7)`: an integer before the last.
    fn random(&mut self, arguments: &[ast::CallArg<'_>], place: Place<'a>) -> Result<Operand> {
        let form = "randrange(6), or randrange(1, 7), which gives no 7";
        let [Some(first), second] = self.arguments("`randrange`", &["", ""], arguments, place)?[..]
        else {
            return Err(self.error(place, "`randrange` takes a bound", form));
        };
        let mut bounds = vec![self.expression(first)?];
        bounds.extend(second.map(|second| self.expression(second)).transpose()?);
        let is_int = |it: &Operand| it.scalar().is_some_and(|(kind, _)| kind == Type::Int);
        if let Some(wrong) = bounds.iter().find(|bound| !is_int(bound)) {
            let message = format!("a bound of `randrange` is {}", wrong.describe());
            return Err(self.error(place, message, form));
        }
        let stop = bounds.pop().unwrap_or(Operand::int(0));
        let start = bounds.pop().unwrap_or(Operand::int(0));
        let count = self.integer_arithmetic(Arithmetic::Subtract, &stop, &start)?;
        if matches!(count, Operand::Literal(Literal::Int(count)) if count < 1) {
            return Err(self.error(place, "`randrange` has nothing to choose from", form));
        }
        let count = match count {
            Operand::Literal(_) => count,
            // Bounds that are the wrong way round have nothing between them, as those that are the
            // same have.
            count => {
                let is_none = self.compare(Comparison::Less, &count, &Operand::int(0), place)?;
                let is_none = self.register(&is_none);
                let [none, some] =
                    [Operand::int(0), count].map(|count| (OpenBlock::default(), count));
                (self.select(is_none, none, some)).map_err(|_| Reported)?
            }
        };
        let drawn = Operand::Field {
            field: self.page.drawn(),
            kind: Type::Int,
        };
        let beyond = self.integer_arithmetic(Arithmetic::Remainder, &drawn, &count)?;
        self.integer_arithmetic(Arithmetic::Add, &start, &beyond)
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
                return Err(self.unsupported(
                    place,
                    "such an argument of `cycle`",
                    "loop.cycle(\"odd\", \"even\")",
                ));
            };
            match self.expression(expression)? {
                Operand::Literal(literal) => literals.push(literal),
                _ => {
                    let hint = "choose others with {{ a if loop.index is odd else b }}";
                    let message = "the arguments of `cycle` must be constant";
                    return Err(self.error(place, message, hint));
                }
            }
        }
        let safe = literals
            .iter()
            .any(|l| matches!(l, Literal::Text { safe: true, .. }));
        if literals.is_empty() || safe || literals.iter().any(|l| l.kind() != literals[0].kind()) {
            let hint = "all texts or all numbers, at least one, and none `|safe`";
            let message = "the arguments of `cycle` must be of one type";
            return Err(self.error(place, message, hint));
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
            chosen: Vec::new(),
        };
        Ok(Operand::Column {
            list: Rc::new(list),
            column: 0,
            position,
        })
    }
}
