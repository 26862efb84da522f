//! Methods of texts and maps, by the names that Python has for them: `text.upper()`, `map.items()`.
//! Most are filters under another name.

use super::compiler::{Compiler, Result};
use super::value::{Literal, Operand};
use crate::diagnostic::Place;
use crate::program::{TextTest, Type};
use minijinja::machinery::ast::{CallArg, Expr};

/// Those of texts that are filters, and which.
const OF_TEXTS: [(&str, &str); 8] = [
    ("capitalize", "capitalize"),
    ("lower", "lower"),
    ("replace", "replace"),
    ("split", "split"),
    ("splitlines", "lines"),
    ("strip", "trim"),
    ("title", "title"),
    ("upper", "upper"),
];

/// What a hint says of a value's methods.
pub(super) fn known(of: &Operand) -> &'static str {
    match of {
        Operand::Map(_) => "maps have the methods get, items and keys",
        _ => {
            "texts have the methods capitalize, endswith, join, lower, replace, split, splitlines, \
             startswith, strip, title and upper"
        }
    }
}

impl<'a> Compiler<'_, 'a> {
    /// A call of a method, if there is such a one.
    pub(super) fn method(
        &mut self,
        base: &Operand,
        name: &str,
        arguments: &[CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Option<Operand>> {
        if let Operand::Map(pairs) = base {
            return self.method_of_map(base, pairs, name, arguments, place);
        }
        if base.scalar().is_none_or(|(kind, _)| kind != Type::Text) {
            return Ok(None);
        }
        if let Some((_, filter)) = OF_TEXTS.iter().find(|(known, _)| *known == name) {
            // What is split is as safe to print as the text is; what is made of one is not.
            let value = match name {
                "split" => base.clone(),
                _ => base.clone().not_safe(),
            };
            let arguments = self.filter_arguments(filter, arguments, place)?;
            return self.apply(filter, value, &arguments, place).map(Some);
        }
        let test = match name {
            "startswith" => TextTest::StartsWith,
            "endswith" => TextTest::EndsWith,
            "join" => {
                let list = self.only_argument(name, arguments, place)?;
                let list = self.plain_list("join", &list, place)?;
                let separator = base.clone().not_safe();
                return self.joined(&list, 0, &separator, false).map(Some);
            }
            _ => return Ok(None),
        };
        let other = self.only_argument(name, arguments, place)?;
        if other.scalar().is_none_or(|(kind, _)| kind != Type::Text) {
            let message = format!("`{name}` is given a text, not {}", other.describe());
            let hint = "`or` joins what is asked of several";
            return Err(self.error(place, message, hint));
        }
        let [left, right] = [base, &other].map(|text| self.register(text));
        Ok(Some(self.text_test(test, left, right)))
    }

    fn method_of_map(
        &mut self,
        map: &Operand,
        pairs: &[(Literal, Operand)],
        name: &str,
        arguments: &[CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Option<Operand>> {
        let what = format!("the method `{name}`");
        match name {
            "items" => {
                self.arguments(&what, &[], arguments, place)?;
                self.pairs_filter("items", map, &[], place).map(Some)
            }
            "keys" => {
                self.arguments(&what, &[], arguments, place)?;
                Ok(Some(self.keys_of(pairs)))
            }
            "get" => {
                let given = self.arguments(&what, &["", ""], arguments, place)?;
                let [Some(key), Some(other)] = given[..] else {
                    let hint = "map.get(key, \"-\"), or map[key]|default(\"-\")";
                    let message = "`get` is given a key, and what there is otherwise";
                    return Err(self.error(place, message, hint));
                };
                let at = self.place_of(key);
                let key = self.expression(key)?;
                if key.scalar().is_none() {
                    let message = format!("a map has no value by {}", key.describe());
                    return Err(self.error(at, message, "keys are texts or integers"));
                }
                let found = self.looked_up(pairs, &key, place)?;
                let arguments: [Option<&Expr<'_>>; 2] = [Some(other), None];
                self.apply("default", found, &arguments, place).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn only_argument(
        &mut self,
        name: &str,
        arguments: &[CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let what = format!("the method `{name}`");
        match self.arguments(&what, &[""], arguments, place)?[..] {
            [Some(argument)] => self.expression(argument),
            _ => {
                let hint = "text.startswith(\"a\"), \", \".join(list)";
                Err(self.error(place, format!("{what} is given nothing"), hint))
            }
        }
    }
}
