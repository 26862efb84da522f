//! A lane that is filled in: values are checked and put into its columns. What is wrong with one is
//! told to the page where that wants to know, and refuses the request elsewhere.

use rhythm_engine::cohort::Cohort;
use rhythm_engine::program::{
    Carrier, FieldId, PROBLEM_BYTES_MAX, PageProgram, Param, ParamTold, ParamType,
};

/// A value, or why there is none, as the end of a sentence.
pub(super) type Value<'v> = Result<&'v [u8], &'static str>;

/// A parameter that is missing or not as the page declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadParameter {
    /// Its name on the wire; empty: the request carries something that cannot be decoded.
    pub(crate) name: String,
    /// What is wrong with it, as the end of a sentence.
    pub(crate) problem: &'static str,
    /// It is the content that cannot be read: from this line and column on, from 1.
    pub(crate) place: Option<(usize, usize)>,
}

impl BadParameter {
    pub(super) fn new(name: &str, problem: &'static str) -> BadParameter {
        BadParameter {
            name: name.to_owned(),
            problem,
            place: None,
        }
    }

    /// The content has a problem at a line and column.
    pub(super) fn at(problem: &'static str, place: (usize, usize)) -> BadParameter {
        BadParameter {
            name: String::new(),
            problem,
            place: Some(place),
        }
    }

    /// The content has a problem at an offset.
    pub(super) fn of_content(problem: &'static str, content: &[u8], at: usize) -> BadParameter {
        let before = &content[..at.min(content.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        BadParameter::at(problem, (line, before.len() - line_start + 1))
    }

    /// What is said of it.
    pub(crate) fn sentence(&self) -> String {
        match (self.place, self.name.as_str()) {
            (Some((line, column)), _) => {
                let problem = self.problem;
                format!("The content {problem}: line {line}, column {column}.")
            }
            (None, "") => format!("A parameter {}.", self.problem),
            (None, name) => format!("The parameter {name} {}.", self.problem),
        }
    }
}

/// See the module's text.
pub(super) struct Lane<'c> {
    pub(super) cohort: &'c mut Cohort,
    pub(super) lane: usize,
}

impl Lane<'_> {
    /// Stores what was found of a scalar.
    pub(super) fn found(&mut self, param: &Param, value: Value<'_>) -> Result<(), BadParameter> {
        let value = match value {
            Ok(value) => value,
            Err(problem) => {
                // What came before, where it is given twice.
                self.cohort.fields[usize::from(param.field)].clear_lane(self.lane);
                return self.wrong(param.told, &param.wire_name, problem);
            }
        };
        if let Some(ParamTold {
            typed: Some(typed), ..
        }) = param.told
            && std::str::from_utf8(value).is_ok()
        {
            let view = self.cohort.arena.push(value);
            self.cohort.fields[usize::from(typed)].set_text(self.lane, view);
        }
        self.store(param, value)
    }

    /// Sets a text of the lane's.
    pub(super) fn set_text(&mut self, field: FieldId, write: impl FnOnce(&mut Vec<u8>)) {
        let text = self.cohort.arena.push_with(write);
        self.cohort.fields[usize::from(field)].set_text(self.lane, text);
    }

    /// Sets an integer of the lane's.
    pub(super) fn set_int(&mut self, field: FieldId, value: i64) {
        self.cohort.fields[usize::from(field)].set_int(self.lane, value);
    }

    /// Checks a value and stores it in the lane's field. An empty one that the parameter cannot be
    /// is none, where there is a default: that of a form's field that was left empty.
    pub(super) fn store(&mut self, param: &Param, value: &[u8]) -> Result<(), BadParameter> {
        let value = match &param.default {
            Some(default) if value.is_empty() && param.kind.check(value).is_err() => {
                default.as_bytes()
            }
            _ => value,
        };
        let is_none = value.is_empty() && param.default.as_deref() == Some("");
        let checked = match is_none {
            true => Ok(0),
            false => param.kind.check(value),
        };
        let number = match checked {
            Ok(number) => number,
            Err(problem) => return self.wrong(param.told, &param.wire_name, problem),
        };
        let Cohort { fields, arena, .. } = &mut *self.cohort;
        let field = &mut fields[usize::from(param.field)];
        match param.kind {
            ParamType::Int { .. } | ParamType::Bool => field.set_int(self.lane, number),
            _ => {
                let text = arena.push_with(|out| param.kind.push_text(value, out));
                field.set_text(self.lane, text);
            }
        }
        Ok(())
    }

    /// A parameter is not as the page has it, or absent: the page is told, once, or else the
    /// request is refused.
    pub(super) fn wrong(
        &mut self,
        told: Option<ParamTold>,
        name: &str,
        problem: &'static str,
    ) -> Result<(), BadParameter> {
        let told = told.ok_or_else(|| BadParameter::new(name, problem))?;
        debug_assert!(problem.len() <= PROBLEM_BYTES_MAX);
        let Cohort { fields, arena, .. } = &mut *self.cohort;
        let error = &mut fields[usize::from(told.error)];
        if error.texts()[self.lane].length == 0 {
            error.set_text(self.lane, arena.push(problem.as_bytes()));
            let wrong = &mut fields[usize::from(told.wrong)];
            wrong.set_int(self.lane, wrong.ints()[self.lane] + 1);
        }
        Ok(())
    }
}

/// The scalar that a pair of this name is, and its carrier's place among the parameter's, the best
/// first.
pub(super) fn scalar(page: &PageProgram, carrier: Carrier, name: &[u8]) -> Option<(usize, u8)> {
    page.params.iter().enumerate().find_map(|(index, param)| {
        if param.wire_name.as_bytes() != name {
            return None;
        }
        let rank = param.carriers.iter().position(|known| *known == carrier)?;
        Some((index, rank as u8))
    })
}
