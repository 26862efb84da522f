//! Filters that make a text of several values: numbers, dates and texts as people read them.

use super::build::OpenBlock;
use super::compiler::{Compiler, Result};
use super::value::{Chosen, Literal, Operand};
use crate::device::not_of_dates;
use crate::diagnostic::{Place, Reported};
use crate::program::{Comparison, Conversion, Format, Formatting, Op, Replace, Type};
use minijinja::machinery::ast::{self, Expr};

/// Most values that one `format` takes.
pub(super) const FORMATTED_MAX: usize = 16;
/// Most decimals that are asked for: a float has no more than 17 digits that say something.
const DECIMALS_MAX: i64 = 30;
/// Widest step of a slice: none goes through as many items.
const STEP_MAX: i64 = i32::MAX as i64;
/// Widest filling of a number, and indentation of a line.
const WIDTH_MAX: i64 = 100;

impl<'a> Compiler<'_, 'a> {
    /// A text made of values of the types that it is made of.
    pub(super) fn formatted(&mut self, how: Formatting, from: &[Operand], safe: bool) -> Operand {
        let from = from.iter().map(|operand| self.register(operand)).collect();
        let register = (self.stage).other(Type::Text, |to| Op::Format(Format { to, how, from }));
        Operand::Register {
            register,
            kind: Type::Text,
            safe,
        }
    }

    /// A constant argument, within bounds; or what stands for it.
    pub(super) fn constant_int(
        &mut self,
        name: &str,
        argument: Option<&Expr<'_>>,
        other: i64,
        (least, most): (i64, i64),
    ) -> Result<i64> {
        let Some(argument) = argument else {
            return Ok(other);
        };
        let place = self.place_of(argument);
        match self.expression(argument)? {
            Operand::Literal(Literal::Int(value)) if (least..=most).contains(&value) => Ok(value),
            _ => {
                let hint = format!("a number from {least} to {most}");
                Err(self.error(place, format!("{name} must be a constant integer"), hint))
            }
        }
    }

    pub(super) fn constant_bool(
        &mut self,
        name: &str,
        argument: Option<&Expr<'_>>,
    ) -> Result<bool> {
        let Some(argument) = argument else {
            return Ok(false);
        };
        let place = self.place_of(argument);
        match self.expression(argument)? {
            Operand::Literal(Literal::Bool(value)) => Ok(value),
            _ => Err(self.error(place, format!("{name} must be constant"), "true or false")),
        }
    }

    /// A number, which a truth value is not here.
    fn true_number(&mut self, value: Operand, place: Place<'a>) -> Result<(Operand, Type)> {
        if value.scalar().is_some_and(|(kind, _)| kind == Type::Bool) {
            return Err(self.error(place, "a boolean is no number", "`|int` makes it 0 or 1"));
        }
        self.number(value, place)
    }

    pub(super) fn round_filter(
        &mut self,
        value: Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let (value, kind) = self.true_number(value, place)?;
        let decimals = self.constant_int("the precision", arguments[0], 0, (0, DECIMALS_MAX))?;
        let how = match arguments[1] {
            None => Formatting::Fixed,
            Some(method) => match self.expression(method)? {
                Operand::Literal(Literal::Text { text, .. }) if &*text == "common" => {
                    Formatting::Fixed
                }
                Operand::Literal(Literal::Text { text, .. }) if &*text == "ceil" => {
                    Formatting::Ceil
                }
                Operand::Literal(Literal::Text { text, .. }) if &*text == "floor" => {
                    Formatting::Floor
                }
                _ => {
                    let place = self.place_of(method);
                    let hint = "\"common\", \"ceil\" or \"floor\"";
                    return Err(self.error(place, "there is no such method of rounding", hint));
                }
            },
        };
        if kind == Type::Int {
            return Ok(value);
        }
        let text = self.formatted(how, &[value, Operand::int(decimals)], false);
        let text = self.register(&text);
        let register = self.stage.convert(Conversion::TextToFloat, text);
        Ok(Operand::register(register, Type::Float))
    }

    pub(super) fn file_size_filter(
        &mut self,
        value: Operand,
        binary: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let (value, _) = self.true_number(value, place)?;
        let value = self.float(&value);
        let is_binary = Operand::bool(self.constant_bool("`binary`", binary)?);
        Ok(self.formatted(Formatting::FileSize, &[value, is_binary], false))
    }

    /// `{{ n }} item{{ n|pluralize }}`: what stands for one, or for another number.
    pub(super) fn plural_filter(
        &mut self,
        value: Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let count = match value.scalar() {
            Some((Type::Int, _)) => value,
            None if matches!(value, Operand::List(_)) => self.length_filter(value, place)?,
            _ => {
                let message = format!("{} is not counted", value.describe());
                return Err(self.error(place, message, "integers and lists are"));
            }
        };
        let mut forms = [Operand::text(""), Operand::text("s")];
        for (form, argument) in forms.iter_mut().zip(arguments) {
            let given = argument.map(|argument| self.expression(argument));
            match given.transpose()? {
                None | Some(Operand::None) => {}
                Some(given) => *form = given,
            }
        }
        let [one, several] = forms;
        let is_one = self.compare(Comparison::Equal, &count, &Operand::int(1), place)?;
        if let Operand::Literal(is_one) = &is_one {
            return Ok(if is_one.truth() { one } else { several });
        }
        let is_one = self.register(&is_one);
        let [one, several] = [one, several].map(|form| (OpenBlock::default(), form));
        self.select(is_one, one, several).map_err(|reason| {
            let hint = "both forms are texts";
            self.error(place, format!("this has no single type: {reason}"), hint)
        })
    }

    /// `"%.2f"|format(x)`: the pieces of a constant pattern, and between them what it is given.
    pub(super) fn format_filter(
        &mut self,
        pattern: &Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let Operand::Literal(Literal::Text { text, safe }) = pattern else {
            let hint = "\"%.2f EUR\"|format(price)";
            return Err(self.error(place, "`format` needs a pattern written out", hint));
        };
        let mut parts = Vec::new();
        let mut given = arguments.iter().copied().flatten();
        let mut rest = &**text;
        while let Some(at) = rest.find('%') {
            let (before, after) = rest.split_at(at);
            let (code, behind) = after.split_at(code_length(after));
            rest = behind;
            parts.push(Operand::text(before));
            if code == "%%" {
                parts.push(Operand::text("%"));
                continue;
            }
            let Some(argument) = given.next() else {
                let hint = "as many as the pattern has places";
                return Err(self.error(place, format!("there is no value for `{code}`"), hint));
            };
            parts.push(self.format_one(code, *safe, argument, place)?);
        }
        parts.push(Operand::text(rest));
        if given.next().is_some() {
            let hint = "as many as the pattern has places; `%%` is a percent sign";
            return Err(self.error(place, "`format` is given more than its pattern shows", hint));
        }
        Ok(match safe {
            true => self.stage.concat(&parts, true, self.page),
            false => self.concat(&parts),
        })
    }

    /// What a pattern's `code` shows of a value, escaped where it becomes a part of safe text.
    fn format_one(
        &mut self,
        code: &str,
        safe: bool,
        argument: &Expr<'_>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let at = self.place_of(argument);
        let value = self.expression(argument)?;
        let (inside, letter) = code[1..].split_at(code.len().saturating_sub(2));
        match letter {
            "s" if inside.is_empty() => {
                if value.scalar().is_some_and(|(kind, _)| kind == Type::Float) {
                    let hint = "%.2f says how many decimals";
                    return Err(self.error(at, "`%s` is not for floats", hint));
                }
                let value = self.printable(value, at)?;
                let value = if safe { self.escaped(value) } else { value };
                let register = self.text_register(&value);
                Ok(Operand::register(register, Type::Text))
            }
            "d" => {
                let (value, kind) = self.number(value, at)?;
                if kind != Type::Int {
                    return Err(self.error(at, "`%d` is for integers", "`|int`, or %.2f"));
                }
                let width = inside.strip_prefix('0').map(str::parse);
                match width {
                    None if inside.is_empty() => {
                        let register = self.text_register(&value);
                        Ok(Operand::register(register, Type::Text))
                    }
                    Some(Ok(width @ 1..=WIDTH_MAX)) => Ok(self.formatted(
                        Formatting::Padded,
                        &[value, Operand::int(width)],
                        false,
                    )),
                    _ => Err(self.no_such_code(code, place)),
                }
            }
            "f" => {
                let decimals = match inside.strip_prefix('.').map(str::parse) {
                    None if inside.is_empty() => 6,
                    Some(Ok(decimals @ 0..=DECIMALS_MAX)) => decimals,
                    _ => return Err(self.no_such_code(code, place)),
                };
                let (value, _) = self.number(value, at)?;
                let value = self.float(&value);
                let decimals = Operand::int(decimals);
                Ok(self.formatted(Formatting::Fixed, &[value, decimals], false))
            }
            _ => Err(self.no_such_code(code, place)),
        }
    }

    fn no_such_code(&mut self, code: &str, place: Place<'a>) -> Reported {
        let hint = "%s, %d, %05d with zeros before it, %.2f with two decimals, and %% for `%`";
        self.error(place, format!("`format` does not know `{code}`"), hint)
    }

    pub(super) fn truncate_filter(
        &mut self,
        value: Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let value = match value {
            Operand::None | Operand::Undefined => return Ok(Operand::text("")),
            value => value,
        };
        let Some((Type::Text, safe)) = value.scalar() else {
            let message = format!("{} is not truncated", value.describe());
            return Err(self.error(place, message, "texts are, and `|string` makes one"));
        };
        let end = match arguments[2] {
            None => "...".into(),
            Some(end) => match self.expression(end)? {
                Operand::Literal(Literal::Text { text, safe: false }) => text,
                _ => {
                    let place = self.place_of(end);
                    let hint = "such as end=\"\"";
                    return Err(self.error(place, "`end` must be a constant text", hint));
                }
            },
        };
        let of_end = end.chars().count() as i64;
        let most = i64::from(u32::MAX);
        let length = self.constant_int("the length", arguments[0], 255, (of_end, most))?;
        let killwords = self.constant_bool("`killwords`", arguments[1])?;
        let leeway = self.constant_int("`leeway`", arguments[3], 5, (0, most))?;
        let mut end = Operand::text(&end);
        if safe {
            end = self.escaped(end);
        }
        let from = [
            value,
            Operand::int(length + leeway),
            Operand::int(length - of_end),
            Operand::bool(killwords),
            end,
        ];
        Ok(self.formatted(Formatting::Truncate, &from, safe))
    }

    pub(super) fn indent_filter(
        &mut self,
        value: Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let value = self.text_of(value, place)?;
        let width = self.constant_int("the width", arguments[0], 4, (0, WIDTH_MAX))?;
        let first = self.constant_bool("`first`", arguments[1])?;
        let blank = self.constant_bool("`blank`", arguments[2])?;
        let safe = value.is_safe();
        let from = [
            value,
            Operand::int(width),
            Operand::bool(first),
            Operand::bool(blank),
        ];
        Ok(self.formatted(Formatting::Indent, &from, safe))
    }

    /// `|striptags`, and `|reverse` of a text.
    pub(super) fn plain_formatting(
        &mut self,
        name: &str,
        value: Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        let value = self.text_of(value, place)?;
        let (how, safe) = match name {
            "striptags" => (Formatting::StripTags, false),
            _ => (Formatting::Reverse, value.is_safe()),
        };
        Ok(self.formatted(how, &[value], safe))
    }

    /// A text with `<br>` where its lines end.
    pub(super) fn line_breaks_filter(
        &mut self,
        value: Operand,
        place: Place<'a>,
    ) -> Result<Operand> {
        let value = self.printable(value, place)?;
        let escaped = self.escaped(value);
        let mut from = self.text_register(&escaped);
        for (old, new) in [("\r\n", "\n"), ("\n", "<br>\n")] {
            let [old, new] = [old, new].map(|text| self.register(&Operand::text(text)));
            from = (self.stage).other(Type::Text, |to| Op::Replace(Replace { to, from, old, new }));
        }
        Ok(Operand::Register {
            register: from,
            kind: Type::Text,
            safe: true,
        })
    }

    pub(super) fn date_filter(
        &mut self,
        value: &Operand,
        pattern: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Operand> {
        let pattern = pattern
            .map(|pattern| self.expression(pattern))
            .transpose()?;
        let Some(Operand::Literal(Literal::Text { text, .. })) = pattern else {
            let hint = "|dateformat(\"%Y-%m-%d %H:%M\")";
            return Err(self.error(place, "`dateformat` needs a pattern written out", hint));
        };
        if let Some(code) = not_of_dates(&text) {
            let hint = "%Y %y %m %d %H %I %M %S %p %j %B %b %A %a %F %T, %-d without zeros, %%";
            return Err(self.error(place, format!("dates have no `{code}`"), hint));
        }
        let Some((Type::Int | Type::Text, _)) = value.scalar() else {
            let message = format!("{} is no date", value.describe());
            let hint = "seconds since 1970 as an integer are, and texts such as 2026-01-31 12:00";
            return Err(self.error(place, message, hint));
        };
        let [pattern, zone] = [&*text, &*self.zone.clone()].map(Operand::text);
        Ok(self.formatted(Formatting::Date, &[value.clone(), pattern, zone], false))
    }

    /// `text[a:b]`.
    pub(super) fn slice(&mut self, node: &ast::Slice<'_>, place: Place<'a>) -> Result<Operand> {
        let value = self.expression(&node.expr)?;
        let step = match &node.step {
            None => 1,
            Some(step) => match self.expression(step)? {
                Operand::Literal(Literal::Int(step)) if (1..=STEP_MAX).contains(&step) => step,
                // All of them, from the last to the first.
                Operand::Literal(Literal::Int(-1))
                    if node.start.is_none() && node.stop.is_none() =>
                {
                    return self.apply("reverse", value, &[], place);
                }
                _ => {
                    let hint = "[::2] takes every second one; `|reverse` turns them round";
                    let message = "the step of a slice is a constant of at least 1, or [::-1]";
                    return Err(self.error(place, message, hint));
                }
            },
        };
        let mut bounds = [Operand::int(0), Operand::int(i64::MAX)];
        for (bound, given) in bounds.iter_mut().zip([&node.start, &node.stop]) {
            let Some(given) = given else {
                continue;
            };
            let place = self.place_of(given);
            let operand = self.expression(given)?;
            if operand.scalar().is_none_or(|(kind, _)| kind != Type::Int) {
                let message = format!("the bound of a slice is {}", operand.describe());
                return Err(self.error(place, message, "an integer, such as text[:80]"));
            }
            *bound = operand;
        }
        let [start, stop] = bounds;
        match value.scalar() {
            Some((Type::Text, _)) => {
                let step = Operand::int(step);
                Ok(self.formatted(Formatting::Slice, &[value, start, stop, step], false))
            }
            _ => {
                let Operand::List(list) = &value else {
                    let message = format!("{} has no slices", value.describe());
                    return Err(self.error(place, message, "texts have, and lists: text[:80]"));
                };
                Ok(list.choose(Chosen::Slice(Box::new([start, stop]), step as u32)))
            }
        }
    }

    /// A value as a text.
    fn text_of(&mut self, value: Operand, place: Place<'a>) -> Result<Operand> {
        let value = self.printable(value, place)?;
        let safe = value.is_safe();
        let register = self.text_register(&value);
        Ok(Operand::Register {
            register,
            kind: Type::Text,
            safe,
        })
    }
}

/// The bytes of the code that a pattern begins with, at its `%`: up to its letter, or a second `%`,
/// or what cannot be one.
fn code_length(pattern: &str) -> usize {
    let behind = &pattern.as_bytes()[1..];
    let may_be_inside = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphabetic() && *byte != b'%';
    let inside = behind.iter().take_while(|byte| may_be_inside(byte)).count();
    let has_letter = behind.get(inside).is_some_and(u8::is_ascii);
    1 + inside + usize::from(has_letter)
}
