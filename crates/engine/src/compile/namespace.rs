//! `namespace(x=0)`: values that last beyond the turn or the branch in which they are set, each a
//! register that is written again.

use super::compiler::{Compiler, Namespace, Result};
use super::value::{Operand, describe};
use crate::diagnostic::{Place, Reported, did_you_mean_or};
use minijinja::machinery::ast::CallArg;

impl<'a> Compiler<'_, 'a> {
    /// A call of `namespace`.
    pub(super) fn namespace(
        &mut self,
        arguments: &[CallArg<'_>],
        place: Place<'a>,
    ) -> Result<Operand> {
        let form = "namespace(found=false, count=0, name=\"\")";
        let mut names = Namespace::new();
        for argument in arguments {
            let CallArg::Kwarg(name, value) = argument else {
                return Err(self.error(place, "a namespace has names for its values", form));
            };
            let at = self.place_of(value);
            let value = self.expression(value)?;
            let Some((kind, safe)) = value.scalar() else {
                let message = format!("a namespace does not hold {}", value.describe());
                return Err(self.error(at, message, "it holds texts, numbers and booleans"));
            };
            let register = self.copied(&value, kind);
            names.insert((*name).to_owned(), (register, kind, safe));
        }
        self.namespaces.push(names);
        Ok(Operand::Namespace(self.namespaces.len() - 1))
    }

    /// A value of a namespace as it is now.
    pub(super) fn in_namespace(&mut self, index: usize, name: &str) -> Option<Operand> {
        let (from, kind, safe) = *self.namespaces[index].get(name)?;
        let register = self.copied(&Operand::register(from, kind), kind);
        Some(Operand::Register {
            register,
            kind,
            safe,
        })
    }

    /// `{% set namespace.name = value %}`
    pub(super) fn set_in_namespace(
        &mut self,
        namespace: &Operand,
        name: &str,
        value: Operand,
        place: Place<'a>,
    ) -> Result<()> {
        let Operand::Namespace(index) = namespace else {
            if *namespace == Operand::Poison {
                return Err(Reported);
            }
            let message = format!("`set` changes nothing of {}", namespace.describe());
            let hint = "of a namespace it does: {% set ns = namespace(x=0) %}{% set ns.x = 1 %}";
            return Err(self.error(place, message, hint));
        };
        let names = &self.namespaces[*index];
        let Some(&(to, kind, safe)) = names.get(name) else {
            let known = names.keys().map(String::as_str);
            let hint = did_you_mean_or(name, known, "");
            let hint = match hint.starts_with("did you mean") {
                true => hint,
                false => format!(
                    "give it its first value where the namespace is made: namespace({name}=0)"
                ),
            };
            return Err(self.error(place, format!("the namespace has no `{name}`"), hint));
        };
        match value.scalar() {
            Some((of, is_safe)) if of == kind && is_safe == safe => {
                self.copy_to(to, &value);
                Ok(())
            }
            Some((of, _)) if of == kind => {
                let message = format!("`{name}` is safe to print at one time only");
                let hint = "apply `|safe` or `|escape` to its first value, too, or to neither";
                Err(self.error(place, message, hint))
            }
            _ => {
                let message = format!(
                    "`{name}` is {} where the namespace is made, and {} here",
                    describe(kind),
                    value.describe()
                );
                let hint =
                    "it stays of one type: `|string`, `|int` or `|float` changes that of a value";
                Err(self.error(place, message, hint))
            }
        }
    }
}
