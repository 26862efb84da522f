//! Parameters: from the query, the form, the path, cookies and headers straight into a lane's
//! columns.
//!
//! A request goes through its pairs once. A scalar is checked and stored when it is met; items of
//! lists are remembered where they lie and stored when all are known to be there. What is wrong
//! refuses the request, or is told to the page where that wants to know.

use crate::site::routes::Captures;
use rhythm_engine::cohort::{Arena, Cohort, Column, Span};
use rhythm_engine::program::{
    Carrier, ListParam, PROBLEM_BYTES_MAX, PageProgram, Param, ParamTold, ParamType,
};
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::RequestHead;
use rhythm_protocol::http::uri;

/// Where a request's parameters are.
pub(crate) struct Sources<'a> {
    pub(crate) head: &'a RequestHead,
    /// What the head was parsed from.
    pub(crate) bytes: &'a [u8],
    /// The form's content; empty where there is none.
    pub(crate) form: &'a [u8],
    /// Names and values of the route's parameters.
    pub(crate) path_names: &'a [String],
    pub(crate) captures: &'a Captures,
}

/// A parameter that is missing or not as the page declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadParameter {
    /// Its name on the wire; empty: the request carries something that cannot be decoded.
    pub(crate) name: String,
    /// What is wrong with it, as the end of a sentence.
    pub(crate) problem: &'static str,
}

impl BadParameter {
    fn new(name: &str, problem: &'static str) -> BadParameter {
        BadParameter {
            name: name.to_owned(),
            problem,
        }
    }
}

/// An item of a list, as it came.
#[derive(Clone, Copy, Debug)]
struct Item {
    list: u16,
    column: u16,
    index: u32,
    start: usize,
    end: usize,
}

/// Memory kept from request to request.
#[derive(Debug, Default)]
pub(crate) struct ParamReader {
    /// For each scalar the carrier of the value stored, by its place among the parameter's, if
    /// there is one yet.
    found: Vec<Option<u8>>,
    /// The pair at hand, decoded, where it is encoded.
    name: Vec<u8>,
    value: Vec<u8>,
    /// Items of lists, and their decoded values one after the other.
    items: Vec<Item>,
    values: Vec<u8>,
}

impl ParamReader {
    /// Fills in the parameters of a lane.
    ///
    /// # Errors
    /// The first one that is bad, or else missing. The lane must then be taken back.
    pub(crate) fn read(
        &mut self,
        page: &PageProgram,
        sources: &Sources<'_>,
        has_others: bool,
        cohort: &mut Cohort,
        lane: usize,
    ) -> Result<(), BadParameter> {
        if page.params.is_empty() && page.list_params.is_empty() {
            return Ok(());
        }
        self.found.clear();
        self.found.resize(page.params.len(), None);
        self.items.clear();
        self.values.clear();
        let query = sources.head.query().of(sources.bytes);
        for (carrier, encoded) in [(Carrier::Query, query), (Carrier::Form, sources.form)] {
            for (name, value) in uri::pairs(encoded) {
                self.pair(page, carrier, name, value, cohort, lane)?;
            }
        }
        if has_others {
            self.others(page, sources, cohort, lane)?;
        }
        for (param, found) in page.params.iter().zip(&self.found) {
            if found.is_none() {
                match &param.default {
                    Some(default) => store(param, default.as_bytes(), cohort, lane)?,
                    None => wrong(param.told, &param.wire_name, "is missing", cohort, lane)?,
                }
            }
        }
        self.lists(page, cohort, lane)
    }

    /// A pair of the query or the form.
    fn pair(
        &mut self,
        page: &PageProgram,
        carrier: Carrier,
        raw_name: &[u8],
        raw_value: &[u8],
        cohort: &mut Cohort,
        lane: usize,
    ) -> Result<(), BadParameter> {
        let undecodable = |_| BadParameter::new("", "cannot be decoded");
        let name = uri::form_value(raw_name, &mut self.name).map_err(undecodable)?;
        for (index, param) in page.params.iter().enumerate() {
            if param.wire_name.as_bytes() != name {
                continue;
            }
            let Some(rank) = rank(param, carrier) else {
                continue;
            };
            return match uri::form_value(raw_value, &mut self.value) {
                Ok(value) => found(&mut self.found[index], rank, param, value, cohort, lane),
                Err(_) => {
                    self.found[index] = Some(rank);
                    wrong(
                        param.told,
                        &param.wire_name,
                        "cannot be decoded",
                        cohort,
                        lane,
                    )
                }
            };
        }
        let Some((base, item)) = item_name(name) else {
            return Ok(());
        };
        for (list_index, list) in page.list_params.iter().enumerate() {
            let column = list
                .columns
                .iter()
                .position(|(name, _)| name.as_bytes() == base);
            let Some(column) = column.filter(|_| list.carriers.contains(&carrier)) else {
                continue;
            };
            let mut bad =
                |problem| wrong(list.told, &list.columns[column].0, problem, cohort, lane);
            let Some(index) = item.filter(|index| *index < list.max_items) else {
                return bad("has too many items");
            };
            let start = self.values.len();
            if uri::decode_form(raw_value, &mut self.values).is_err() {
                return bad("cannot be decoded");
            }
            self.items.push(Item {
                list: list_index as u16,
                column: column as u16,
                index,
                start,
                end: self.values.len(),
            });
            return Ok(());
        }
        Ok(())
    }

    /// Parameters from path, cookies and headers.
    #[cold]
    fn others(
        &mut self,
        page: &PageProgram,
        sources: &Sources<'_>,
        cohort: &mut Cohort,
        lane: usize,
    ) -> Result<(), BadParameter> {
        for (index, param) in page.params.iter().enumerate() {
            let name = param.wire_name.as_str();
            for (rank, carrier) in param.carriers.iter().enumerate() {
                let value = match carrier {
                    Carrier::Query | Carrier::Form => None,
                    Carrier::Path => (sources.path_names.iter().position(|known| known == name))
                        .and_then(|index| sources.captures.get(index)),
                    Carrier::Cookie => (sources.head.known(Known::Cookie)).and_then(|cookies| {
                        uri::cookie(cookies.of(sources.bytes), name.as_bytes())
                    }),
                    Carrier::Header => sources.head.values(sources.bytes, name).next(),
                };
                if let Some(value) = value {
                    let known = &mut self.found[index];
                    found(known, rank as u8, param, value, cohort, lane)?;
                }
            }
        }
        Ok(())
    }

    /// Stores the lists.
    fn lists(
        &mut self,
        page: &PageProgram,
        cohort: &mut Cohort,
        lane: usize,
    ) -> Result<(), BadParameter> {
        if page.list_params.is_empty() {
            return Ok(());
        }
        self.items
            .sort_unstable_by_key(|item| (item.list, item.column, item.index));
        let mut rest = self.items.as_slice();
        for (list_index, list) in page.list_params.iter().enumerate() {
            let of_list = rest.partition_point(|item| usize::from(item.list) <= list_index);
            let (items, others) = rest.split_at(of_list);
            rest = others;
            // All of it is checked before any of it is stored: the columns must keep one length.
            let length = match checked_length(list, items, &self.values) {
                Ok(length) => length,
                Err((column, problem)) => {
                    let (name, _) = &list.columns[column];
                    wrong(list.told, name, problem, cohort, lane)?;
                    continue;
                }
            };
            let Cohort { fields, arena, .. } = cohort;
            let to = fields[usize::from(list.field)].list_mut();
            let start = to.columns.first().map_or(0, Column::len) as u32;
            for item in items {
                let column = usize::from(item.column);
                let kind = &list.columns[column].1;
                push(
                    kind,
                    &self.values[item.start..item.end],
                    &mut to.columns[column],
                    arena,
                );
            }
            to.spans[lane] = Span { start, length };
        }
        Ok(())
    }
}

/// How many items of a list there are, in the order of columns and then of items.
///
/// # Errors
/// The column that is wrong, and what is.
fn checked_length(
    list: &ListParam,
    items: &[Item],
    values: &[u8],
) -> Result<u32, (usize, &'static str)> {
    let mut length = None;
    for (column, (_, kind)) in list.columns.iter().enumerate() {
        let bad = |problem| (column, problem);
        let of_column = items
            .iter()
            .filter(|item| usize::from(item.column) == column);
        let mut count = 0;
        for item in of_column {
            if item.index != count {
                return Err(bad("has a gap or an item twice"));
            }
            kind.check(&values[item.start..item.end]).map_err(bad)?;
            count += 1;
        }
        if *length.get_or_insert(count) != count {
            return Err(bad("has another number of items than its companions"));
        }
        if count < list.min_items {
            return Err(bad("has too few items"));
        }
    }
    Ok(length.unwrap_or(0))
}

/// The carrier's place among those of the parameter, the best first.
fn rank(param: &Param, carrier: Carrier) -> Option<u8> {
    let position = param.carriers.iter().position(|known| *known == carrier)?;
    Some(position as u8)
}

/// Stores a value that was met, unless a better carrier had one.
fn found(
    known: &mut Option<u8>,
    rank: u8,
    param: &Param,
    value: &[u8],
    cohort: &mut Cohort,
    lane: usize,
) -> Result<(), BadParameter> {
    match *known {
        Some(before) if before == rank => {
            return wrong(param.told, &param.wire_name, "is given twice", cohort, lane);
        }
        Some(better) if better < rank => return Ok(()),
        _ => *known = Some(rank),
    }
    if let Some(ParamTold {
        typed: Some(typed), ..
    }) = param.told
        && std::str::from_utf8(value).is_ok()
    {
        let view = cohort.arena.push(value);
        cohort.fields[usize::from(typed)].set_text(lane, view);
    }
    store(param, value, cohort, lane)
}

/// Checks a value and stores it in the lane's field.
fn store(
    param: &Param,
    value: &[u8],
    cohort: &mut Cohort,
    lane: usize,
) -> Result<(), BadParameter> {
    let number = match param.kind.check(value) {
        Ok(number) => number,
        Err(problem) => return wrong(param.told, &param.wire_name, problem, cohort, lane),
    };
    let field = &mut cohort.fields[usize::from(param.field)];
    match param.kind {
        ParamType::Int { .. } => field.set_int(lane, number),
        _ => field.set_text(lane, cohort.arena.push(value)),
    }
    Ok(())
}

/// A parameter is not as the page has it, or absent: the page is told, once, or else the request is
/// refused.
fn wrong(
    told: Option<ParamTold>,
    name: &str,
    problem: &'static str,
    cohort: &mut Cohort,
    lane: usize,
) -> Result<(), BadParameter> {
    let told = told.ok_or_else(|| BadParameter::new(name, problem))?;
    debug_assert!(problem.len() <= PROBLEM_BYTES_MAX);
    let error = &mut cohort.fields[usize::from(told.error)];
    if error.texts()[lane].length == 0 {
        error.set_text(lane, cohort.arena.push(problem.as_bytes()));
        let wrong = &mut cohort.fields[usize::from(told.wrong)];
        wrong.set_int(lane, wrong.ints()[lane] + 1);
    }
    Ok(())
}

/// Appends a checked value to a list's column.
fn push(kind: &ParamType, value: &[u8], column: &mut Column, arena: &mut Arena) {
    match column {
        Column::Int(values) => values.push(kind.check(value).expect("it has been checked")),
        Column::Text(views) => views.push(arena.push(value)),
        Column::List(_) => unreachable!("items of lists are scalars"),
    }
}

/// `payee[3]` is item 3 of `payee`; an index that is no number within 32 bits is `None`.
fn item_name(name: &[u8]) -> Option<(&[u8], Option<u32>)> {
    let inner = name.strip_suffix(b"]")?;
    let open = inner.iter().position(|byte| *byte == b'[')?;
    let digits = &inner[open + 1..];
    let plain = !digits.is_empty()
        && digits.len() <= 9
        && digits.iter().all(u8::is_ascii_digit)
        && (digits.len() == 1 || digits[0] != b'0');
    let index =
        plain.then(|| (digits.iter()).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')));
    Some((&inner[..open], index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_items() {
        assert_eq!(item_name(b"a[0]"), Some((&b"a"[..], Some(0))));
        assert_eq!(item_name(b"a[12]"), Some((&b"a"[..], Some(12))));
        for odd in ["a[]", "a[x]", "a[01]", "a[-1]", "a[9999999999]"] {
            assert_eq!(item_name(odd.as_bytes()).unwrap().1, None, "{odd}");
        }
        assert_eq!(item_name(b"a"), None);
        assert_eq!(item_name(b"a]"), None);
    }
}
