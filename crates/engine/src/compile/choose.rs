//! Lists of which something is taken: `select`, `sort`, `unique`, `reverse` and slices. What is
//! taken is decided where such a list is gone through, by the loop itself.

use super::compiler::{Compiler, Result};
use super::value::{Chosen, Given, List, Literal, Operand, Tested, null_of};
use crate::diagnostic::{Place, Reported};
use crate::program::{Choice, Comparison, Key, KeyUse, Register, TextFunction, Type};
use minijinja::machinery::ast::Expr;
use std::rc::Rc;

/// Most that filters choose of a list one after the other: all of it is compiled wherever the list
/// is gone through.
const CHOSEN_MAX: usize = 64;

impl<'a> Compiler<'_, 'a> {
    /// What a loop does with a list's positions before it goes through them.
    pub(super) fn choices(&mut self, list: &List, position: Register) -> Result<Vec<Choice>> {
        // What is wrong was told where it was chosen.
        let place = self.origin.place(0);
        let chosen = list.chosen.iter();
        chosen
            .map(|chosen| self.choice(chosen, position, place))
            .collect()
    }

    fn choice(&mut self, chosen: &Chosen, position: Register, place: Place<'a>) -> Result<Choice> {
        self.has_room()?;
        let by = match chosen {
            Chosen::Reverse => return Ok(Choice::Reverse),
            Chosen::Slice(bounds, step) => {
                let [start, stop] = [0, 1].map(|bound| self.register(&bounds[bound]));
                let step = *step;
                return Ok(Choice::Slice { start, stop, step });
            }
            Chosen::Where { .. } | Chosen::Group(..) => KeyUse::Keep,
            Chosen::By(by, _) => *by,
            Chosen::UniqueInAnyCase(_) | Chosen::UniqueInGroups(_) => KeyUse::Unique,
        };
        self.stage.open();
        let register = self.key(chosen, position, place);
        let block = self.stage.close(self.fragments).ops;
        let register = register?;
        Ok(Choice::By(by, Key { block, register }))
    }

    /// What a position has, by which it is chosen.
    fn key(&mut self, chosen: &Chosen, position: Register, place: Place<'a>) -> Result<Register> {
        let key = match chosen {
            Chosen::Where {
                tested,
                test,
                wanted,
            } => {
                let value = self.item(&Operand::List(tested.clone()), position)?;
                let holds = match test {
                    Some(Tested { name, given }) => {
                        self.test_of(name, value, given, false, place)?
                    }
                    None => value,
                };
                let holds = self.truth(holds, place)?;
                if *wanted { holds } else { self.negation(holds) }
            }
            Chosen::By(_, list) => self.item(&Operand::List(list.clone()), position)?,
            Chosen::UniqueInAnyCase(list) => {
                let item = self.item(&Operand::List(list.clone()), position)?;
                let text = self.register(&item);
                return Ok(self.stage.text_function(TextFunction::Lower, text));
            }
            Chosen::UniqueInGroups(by) => return self.group_key(by, position),
            Chosen::Group(by, wanted) => {
                let key = self.group_key(by, position)?;
                return Ok(self.stage.compare(Comparison::Equal, key, *wanted));
            }
            Chosen::Reverse | Chosen::Slice(..) => Operand::bool(true),
        };
        Ok(self.register(&key))
    }

    /// The list that a filter takes something of.
    pub(super) fn list_of(
        &mut self,
        name: &str,
        value: &Operand,
        place: Place<'a>,
    ) -> Result<Rc<List>> {
        match value {
            Operand::List(list) if list.chosen.len() > CHOSEN_MAX => {
                Err(self.too_much_chosen(place))
            }
            Operand::List(list) => Ok(list.clone()),
            Operand::Undefined => self.list_of(name, &List::empty(), place),
            other => {
                let message = format!("`{name}` is for lists, not {}", other.describe());
                let hint = "lists are: list parameters, rows of calls, lists of constants, \
                            range(...) and text|split(\",\")";
                Err(self.error(place, message, hint))
            }
        }
    }

    fn too_much_chosen(&mut self, place: Place<'a>) -> Reported {
        let message = format!("more than {CHOSEN_MAX} filters choose from this list");
        let hint = "each column that it is sorted by is one; the backend can choose and sort, too";
        self.error(place, message, hint)
    }

    /// A list of which something more is chosen. What is wrong with it is told here, where it is
    /// written.
    fn chosen(&mut self, list: &List, chosen: Chosen, place: Place<'a>) -> Result<Operand> {
        self.stage.open();
        let position = self.stage.new_register(Type::Int);
        let choice = self.choice(&chosen, position, place);
        self.stage.close(self.fragments);
        choice.map(|_| list.choose(chosen))
    }

    /// The columns that `attribute` names, separated by commas; without it the items themselves.
    fn key_columns(
        &mut self,
        name: &str,
        list: &Rc<List>,
        attribute: Option<&Expr<'_>>,
        place: Place<'a>,
    ) -> Result<Vec<Rc<List>>> {
        let Some(attribute) = attribute else {
            if !list.is_plain() {
                let first = list.columns.first().map_or("column", |(name, _)| name);
                let hint = format!("|{name}(attribute=\"{first}\")");
                let message = format!("`{name}` needs a column of the records");
                return Err(self.error(place, message, hint));
            }
            return Ok(vec![Rc::new(list.all())]);
        };
        let place = self.place_of(attribute);
        let Operand::Literal(Literal::Text { text, .. }) = self.expression(attribute)? else {
            let hint = format!("rows|{name}(attribute=\"column\")");
            return Err(self.error(place, "a column is named by a constant text", hint));
        };
        let all = list.all();
        if text.matches(',').count() >= CHOSEN_MAX {
            return Err(self.too_much_chosen(place));
        }
        let columns = text.split(',').map(str::trim);
        columns
            .map(|column| self.column_named(&all, column, place))
            .collect()
    }

    fn flag(&mut self, argument: Option<&Expr<'_>>) -> Result<bool> {
        self.constant_bool("this argument", argument)
    }

    /// `|sort`, stable; by several columns it is sorted by the last one first.
    pub(super) fn sort_filter(
        &mut self,
        value: &Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let list = self.list_of("sort", value, place)?;
        let by = KeyUse::Sort {
            descending: self.flag(arguments[0])?,
            ignores_case: !self.flag(arguments[1])?,
        };
        let mut sorted = (*list).clone();
        for column in self
            .key_columns("sort", &list, arguments[2], place)?
            .into_iter()
            .rev()
        {
            sorted.chosen.push(Chosen::By(by, column));
        }
        Ok(Operand::List(Rc::new(sorted)))
    }

    pub(super) fn unique_filter(
        &mut self,
        value: &Operand,
        arguments: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let list = self.list_of("unique", value, place)?;
        let ignores_case = !self.flag(arguments[0])?;
        let columns = self.key_columns("unique", &list, arguments[1], place)?;
        let [column] = &columns[..] else {
            let hint = "one column tells them apart";
            return Err(self.error(place, "`unique` is by one column", hint));
        };
        let is_text = column.columns[0].1 == Type::Text;
        Ok(list.choose(match is_text && ignores_case {
            true => Chosen::UniqueInAnyCase(column.clone()),
            false => Chosen::By(KeyUse::Unique, column.clone()),
        }))
    }

    /// `select`, `reject`, and the same by an attribute.
    pub(super) fn where_filter(
        &mut self,
        name: &str,
        value: &Operand,
        attribute: Option<&Expr<'_>>,
        test: &[Option<&Expr<'_>>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let list = self.list_of(name, value, place)?;
        let mut test = match test {
            [Some(test), argument] => Some(self.tested(test, *argument)?),
            _ => None,
        };
        let mut tested = match attribute {
            None => Rc::new(list.all()),
            Some(_) => {
                let columns = self.key_columns(name, &list, attribute, place)?;
                let [column] = &columns[..] else {
                    let hint = "one filter for each column";
                    return Err(self.error(place, format!("`{name}` is by one column"), hint));
                };
                column.clone()
            }
        };
        if let (Some(attribute), Some(Tested { name: of, given })) = (attribute, &mut test)
            && of == "none"
            && let Operand::Literal(Literal::Text { text, .. }) = self.expression(attribute)?
            && let Some(column) = list.column_of(&null_of(text.trim()))
        {
            // What is told of the column is 1 where it is null.
            tested = Rc::new(list.all().column(column));
            *of = "ne".to_owned();
            *given = Given::One(Box::new(Operand::int(0)));
        }
        let wanted = name.starts_with("select");
        self.chosen(
            &list,
            Chosen::Where {
                tested,
                test,
                wanted,
            },
            place,
        )
    }
}
