//! Parameters in a document of JSON (RFC 8259): members of its object by their names, and of lists
//! the items, which are values or flat records.
//!
//! The document is looked through as a whole first, so that nothing of one that is wrong is taken;
//! then its values are taken out of the text, without a tree of it. How deep it is and how many
//! members its objects have is bounded; how long it is, is the content's bound. Of two members of
//! one name it would depend on the reader which one counts, so there are none.

use super::lane::{BadParameter, Lane, scalar};
use super::lists::{Found, Lists, Place};
use crate::json::{self, Kind};
use rhythm_engine::program::{Carrier, PageProgram, ParamType};
use serde::de::IgnoredAny;
use sonic_rs::{FastStr, JsonValueTrait, LazyValue};
use std::collections::HashSet;

/// How deep a document is at most.
const DEPTH_MAX: usize = 32;
/// How many members an object has at most.
const MEMBERS_MAX: usize = 256;
/// Up to so many names each is compared with all before it.
const FEW_NAMES: usize = 16;

/// Takes the parameters that a document has.
///
/// # Errors
/// What is wrong with the document, and where; or with a parameter.
pub(super) fn read(
    body: &[u8],
    page: &PageProgram,
    found: &mut Found<'_>,
    lane: &mut Lane<'_>,
) -> Result<(), BadParameter> {
    let bad = |problem, at| BadParameter::of_content(problem, body, at);
    let text =
        std::str::from_utf8(body).map_err(|error| bad("is not UTF-8", error.valid_up_to()))?;
    if let Some(at) = json::too_deep(body, DEPTH_MAX) {
        return Err(bad("is nested too deep", at));
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        let place = (error.line(), error.column());
        BadParameter::at("is no JSON", place)
    })?;
    let whole: LazyValue<'_> = sonic_rs::from_str(text).map_err(|_| bad("is no JSON", 0))?;
    if json::kind(&whole) != Kind::Object {
        return Err(bad("is no object", 0));
    }
    members(body, whole, |name, value| {
        if let Some(scalar) = scalar(page, Carrier::Json, name.as_bytes()) {
            let value = match Value::of(&value, &page.params[scalar.0].kind) {
                Ok(None) => return Ok(()),
                Ok(Some(value)) => Ok(value.bytes()),
                Err(problem) => Err(problem),
            };
            return found.scalars.take(page, scalar, value, lane);
        }
        match Place::of_json(page, name.as_bytes()) {
            Some(place) => list(body, page, place, value, found.lists),
            None => Ok(()),
        }
    })
}

/// Takes the items of a list.
fn list(
    body: &[u8],
    page: &PageProgram,
    place: Place,
    value: LazyValue<'_>,
    lists: &mut Lists,
) -> Result<(), BadParameter> {
    let list = place.list(page);
    let refuse = |lists: &mut Lists, problem| {
        lists.refuse(place, None, problem);
        Ok(())
    };
    let take = |lists: &mut Lists, place: Place, value: &LazyValue<'_>| {
        let kind = &list.columns[place.column()].1;
        lists.take(list, place, |values| {
            let value = Value::of(value, kind)?.ok_or("has an item that is null")?;
            values.extend_from_slice(value.bytes());
            Ok(())
        });
    };
    match json::kind(&value) {
        Kind::Null => return Ok(()),
        Kind::List => lists.given(place),
        _ => return refuse(lists, "is not a list"),
    }
    for (item, index) in json::items(value).zip(0..) {
        let Ok(item) = item else {
            return Err(BadParameter::of_content("is no JSON", body, 0));
        };
        if index == list.max_items {
            return refuse(lists, "has too many items");
        }
        if !list.has_records {
            take(lists, place.item(0, index), &item);
            continue;
        }
        if json::kind(&item) != Kind::Object {
            return refuse(lists, "has an item that is no object");
        }
        let mut lacks = vec![true; list.columns.len()];
        members(body, item, |name, value| {
            let mut columns = list.columns.iter();
            if let Some(column) = columns.position(|(known, _)| known == name) {
                lacks[column] = false;
                take(lists, place.item(column, index), &value);
            }
            Ok(())
        })?;
        if let Some(column) = lacks.iter().position(|lacks| *lacks) {
            lists.refuse(place, Some(column), "is missing in an item");
            return Ok(());
        }
    }
    Ok(())
}

/// Calls `each` with the members of an object.
fn members(
    body: &[u8],
    object: LazyValue<'_>,
    mut each: impl FnMut(&str, LazyValue<'_>) -> Result<(), BadParameter>,
) -> Result<(), BadParameter> {
    let mut names = Names::default();
    json::members(object, |name, value| {
        // Where in the document its value lies, which is a part of it.
        let at = (value.as_raw_str().as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
        let bad = |problem| Err(BadParameter::of_content(problem, body, at));
        if !names.insert(name) {
            return bad("has a name twice");
        }
        if names.len() > MEMBERS_MAX {
            return bad("has too many members");
        }
        each(name, value)
    })
    .unwrap_or_else(|_| Err(BadParameter::of_content("is no JSON", body, 0)))
}

/// The names of an object's members. The first are looked through, which takes less than hashing.
#[derive(Default)]
struct Names {
    few: Vec<FastStr>,
    others: HashSet<FastStr>,
}

impl Names {
    /// Takes one. Whether it is new.
    fn insert(&mut self, name: &str) -> bool {
        if self.few.iter().any(|known| known == name) {
            return false;
        }
        let name = FastStr::new(name);
        if self.few.len() < FEW_NAMES {
            self.few.push(name);
            return true;
        }
        self.others.insert(name)
    }

    fn len(&self) -> usize {
        self.few.len() + self.others.len()
    }
}

/// A value as it would stand in a form.
enum Value<'v> {
    Text(&'v str),
    Raw(&'v str),
}

impl<'v> Value<'v> {
    /// What a value is to a parameter of this type; nothing where it is null.
    ///
    /// # Errors
    /// Why it is none that fits, as the end of a sentence.
    fn of(value: &'v LazyValue<'_>, kind: &ParamType) -> Result<Option<Value<'v>>, &'static str> {
        // What the reader gives of a number may have blanks behind it.
        let raw = value.as_raw_str().trim_ascii_end();
        Ok(Some(match (json::kind(value), kind) {
            (Kind::Null, _) => return Ok(None),
            (Kind::Bool, ParamType::Bool) => Value::Raw(raw),
            (
                Kind::Number,
                ParamType::Int { .. } | ParamType::Float { .. } | ParamType::Decimal,
            ) => Value::Raw(raw),
            (_, ParamType::Bool) => return Err("is neither true nor false"),
            (_, ParamType::Int { .. }) => return Err("is not an integer"),
            (_, ParamType::Float { .. }) => return Err("is not a number"),
            (Kind::Text, _) => {
                let text = value.as_str().ok_or("is no text of Unicode")?;
                if text.contains('\0') {
                    return Err("cannot be decoded");
                }
                Value::Text(text)
            }
            (_, ParamType::Decimal) => return Err("is not a decimal number"),
            _ => return Err("is not a text"),
        }))
    }

    fn bytes(&self) -> &'v [u8] {
        match self {
            Value::Text(text) | Value::Raw(text) => text.as_bytes(),
        }
    }
}
