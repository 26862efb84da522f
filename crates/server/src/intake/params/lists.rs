//! Items of lists: remembered where they lie as they come, and stored when all are known to be
//! there.
//!
//! A list comes in one of three ways: numbered (`l[0]=a&l[1]=b`), in whatever order; or its items
//! one after the other, as boxes and selects with `multiple` send them (`l=a&l=b`), or with
//! brackets behind the name (`l[]=a&l[]=b`). Of records each field comes so, and all in the same
//! way.

use super::lane::{BadParameter, Lane};
use super::scalars::Scalars;
use crate::intake::scratch::empty;
use rhythm_engine::cohort::{Arena, Cohort, Column, Span};
use rhythm_engine::program::{Carrier, ListParam, PageProgram, ParamType};

/// How items are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// `l[0]`.
    Numbered,
    /// `l[]`.
    Bracketed,
    /// `l`.
    Repeated,
    /// By its place in an array of JSON.
    Json,
}

/// What the name of a pair says of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ItemName<'n> {
    /// That of its list, or of a field of its records.
    base: &'n [u8],
    naming: Naming,
    /// Where it is numbered, its number; `None`: that is none within nine digits.
    index: Option<u32>,
}

/// Which item of which list a pair is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    list: u16,
    column: u16,
    /// That of its carrier among those of the list, the best first.
    rank: u8,
    naming: Naming,
    index: Option<u32>,
}

impl Place {
    /// The item that a pair of this name is, if the page has such a list.
    pub(super) fn of(page: &PageProgram, carrier: Carrier, name: &[u8]) -> Option<Place> {
        let name = ItemName::of(name);
        (0..).zip(&page.list_params).find_map(|(index, list)| {
            let mut columns = list.columns.iter();
            let column = columns.position(|(known, _)| known.as_bytes() == name.base)?;
            let rank = list.carriers.iter().position(|known| *known == carrier)?;
            Some(Place {
                list: index,
                column: column as u16,
                rank: rank as u8,
                naming: name.naming,
                index: name.index,
            })
        })
    }

    /// The list that a member of this name is, if the page has it in JSON: its first item.
    pub(super) fn of_json(page: &PageProgram, name: &[u8]) -> Option<Place> {
        (0..).zip(&page.list_params).find_map(|(index, list)| {
            let rank = (list.carriers.iter()).position(|known| *known == Carrier::Json)?;
            (list.wire_name.as_bytes() == name).then_some(Place {
                list: index,
                column: 0,
                rank: rank as u8,
                naming: Naming::Json,
                index: Some(0),
            })
        })
    }

    /// A column of an item of the same list.
    pub(super) fn item(self, column: usize, index: u32) -> Place {
        Place {
            column: column as u16,
            index: Some(index),
            ..self
        }
    }

    /// Which of its list's columns.
    pub(super) fn column(self) -> usize {
        usize::from(self.column)
    }

    /// Its list.
    pub(super) fn list(self, page: &PageProgram) -> &ListParam {
        &page.list_params[usize::from(self.list)]
    }
}

/// An item of a list, as it came.
#[derive(Clone, Copy, Debug)]
struct Item {
    list: u16,
    column: u16,
    /// Its number, or, where it has none, one that rises from item to item of its list.
    index: u32,
    start: usize,
    end: usize,
}

/// How a list has come so far.
#[derive(Clone, Copy, Debug)]
struct Way {
    rank: u8,
    naming: Naming,
    /// How many items, of all its columns together.
    items: u32,
    /// What is wrong with one of its columns, or with it as a whole: nothing is stored. It is told
    /// when no better carrier has the list.
    wrong: Option<(Option<usize>, &'static str)>,
}

impl Way {
    /// That of a list of which an item is the first.
    fn begun(place: Place) -> Way {
        Way {
            rank: place.rank,
            naming: place.naming,
            items: 0,
            wrong: None,
        }
    }
}

/// See the module's text. It is memory kept from request to request.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Of each list, once something of it has come.
    ways: Vec<Option<Way>>,
    items: Vec<Item>,
    /// Their decoded values one after the other.
    values: Vec<u8>,
}

/// What has been found of a request's parameters, for those who read its content.
pub(super) struct Found<'f> {
    pub(super) scalars: &'f mut Scalars,
    pub(super) lists: &'f mut Lists,
}

impl Lists {
    /// Begins with a request for a page of so many lists.
    pub(super) fn begin(&mut self, lists: usize) {
        self.ways.clear();
        self.ways.resize(lists, None);
    }

    /// Forgets what the request had.
    pub(super) fn rest(&mut self) {
        empty(&mut self.items);
        empty(&mut self.values);
    }

    /// Bytes that it keeps of values.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.values.capacity()
    }

    /// A list is given, if without items.
    pub(super) fn given(&mut self, place: Place) {
        way(&mut self.ways, &mut self.items, place);
    }

    /// Takes an item, whose value `decode` appends, or says why there is none.
    pub(super) fn take(
        &mut self,
        list: &ListParam,
        place: Place,
        decode: impl FnOnce(&mut Vec<u8>) -> Result<(), &'static str>,
    ) {
        let way = way(&mut self.ways, &mut self.items, place);
        let Some(way) = way.filter(|way| way.wrong.is_none()) else {
            return;
        };
        let most = list.max_items.saturating_mul(list.columns.len() as u32);
        let index = match place.naming {
            Naming::Numbered | Naming::Json => place.index.filter(|index| *index < list.max_items),
            Naming::Bracketed | Naming::Repeated => Some(way.items),
        };
        let start = self.values.len();
        let problem = match index {
            _ if way.naming != place.naming => "is given in two ways",
            Some(index) if way.items < most => match decode(&mut self.values) {
                Ok(()) => {
                    way.items += 1;
                    return self.items.push(Item {
                        list: place.list,
                        column: place.column,
                        index,
                        start,
                        end: self.values.len(),
                    });
                }
                Err(problem) => problem,
            },
            _ => "has too many items",
        };
        way.wrong = Some((Some(place.column()), problem));
    }

    /// One of its columns is wrong in this carrier, or it is as a whole: nothing is stored of it.
    pub(super) fn refuse(&mut self, place: Place, column: Option<usize>, problem: &'static str) {
        if let Some(way) = way(&mut self.ways, &mut self.items, place) {
            way.wrong.get_or_insert((column, problem));
        }
    }

    /// Stores the lists.
    pub(super) fn store(
        &mut self,
        page: &PageProgram,
        lane: &mut Lane<'_>,
    ) -> Result<(), BadParameter> {
        if page.list_params.is_empty() {
            return Ok(());
        }
        (self.items).sort_unstable_by_key(|item| (item.list, item.column, item.index));
        let mut rest = self.items.as_slice();
        for ((list_index, list), way) in page.list_params.iter().enumerate().zip(&self.ways) {
            let of_list = rest.partition_point(|item| usize::from(item.list) <= list_index);
            let (items, others) = rest.split_at(of_list);
            rest = others;
            if let Some((column, problem)) = way.and_then(|way| way.wrong) {
                let name = column.map_or(&list.wire_name, |column| &list.columns[column].0);
                lane.wrong(list.told, name, problem)?;
                continue;
            }
            // All of it is checked before any of it is stored: the columns must keep one length.
            let numbers = |way: Way| matches!(way.naming, Naming::Numbered | Naming::Json);
            let is_numbered = way.is_some_and(numbers);
            let length = match checked_length(list, items, is_numbered, &self.values) {
                Ok(length) => length,
                Err((column, problem)) => {
                    lane.wrong(list.told, &list.columns[column].0, problem)?;
                    continue;
                }
            };
            let Cohort { fields, arena, .. } = &mut *lane.cohort;
            let to = fields[usize::from(list.field)].list_mut();
            let start = to.columns.first().map_or(0, Column::len) as u32;
            for item in items {
                let column = usize::from(item.column);
                let kind = &list.columns[column].1;
                let value = &self.values[item.start..item.end];
                push(kind, value, &mut to.columns[column], arena);
            }
            to.spans[lane.lane] = Span { start, length };
        }
        Ok(())
    }
}

/// How the list of an item comes; `None` where a better carrier has it.
fn way<'w>(
    ways: &'w mut [Option<Way>],
    items: &mut Vec<Item>,
    place: Place,
) -> Option<&'w mut Way> {
    let way = ways[usize::from(place.list)].get_or_insert_with(|| Way::begun(place));
    if way.rank > place.rank {
        // A better carrier has it, too.
        *way = Way::begun(place);
        items.retain(|item| item.list != place.list);
    }
    (way.rank == place.rank).then_some(way)
}

/// How many items of a list there are, in the order of columns and then of items.
///
/// # Errors
/// The column that is wrong, and what is.
fn checked_length(
    list: &ListParam,
    items: &[Item],
    is_numbered: bool,
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
            if is_numbered && item.index != count {
                return Err(bad("has a gap or an item twice"));
            }
            if count == list.max_items {
                return Err(bad("has too many items"));
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

/// Appends a checked value to a list's column.
fn push(kind: &ParamType, value: &[u8], column: &mut Column, arena: &mut Arena) {
    match column {
        Column::Int(values) => values.push(kind.check(value).expect("it has been checked")),
        Column::Text(views) => views.push(arena.push_with(|out| kind.push_text(value, out))),
        Column::List(_) => unreachable!("items of lists are scalars"),
    }
}

impl ItemName<'_> {
    /// `payee[3]` is item 3 of `payee`, `payee[]` and `payee` are its next.
    fn of(name: &[u8]) -> ItemName<'_> {
        let open = name.iter().position(|byte| *byte == b'[');
        let (Some(open), Some(inner)) = (open, name.strip_suffix(b"]")) else {
            return ItemName {
                base: name,
                naming: Naming::Repeated,
                index: None,
            };
        };
        let digits = &inner[open + 1..];
        let plain = digits.len() <= 9
            && digits.iter().all(u8::is_ascii_digit)
            && (digits.len() == 1 || !digits.starts_with(b"0"));
        let number = || (digits.iter()).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        let (naming, index) = match digits {
            [] => (Naming::Bracketed, None),
            _ => (Naming::Numbered, plain.then(number)),
        };
        ItemName {
            base: &name[..open],
            naming,
            index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_items() {
        let of = |name: &'static str| {
            let ItemName {
                base,
                naming,
                index,
            } = ItemName::of(name.as_bytes());
            (std::str::from_utf8(base).unwrap(), naming, index)
        };
        assert_eq!(of("a[0]"), ("a", Naming::Numbered, Some(0)));
        assert_eq!(of("a[12]"), ("a", Naming::Numbered, Some(12)));
        for odd in [
            "a[x]",
            "a[01]",
            "a[-1]",
            "a[9999999999]",
            "a[[]",
            "a[0]]",
            "a[ ]",
        ] {
            assert_eq!(of(odd), ("a", Naming::Numbered, None), "{odd}");
        }
        assert_eq!(of("a[]"), ("a", Naming::Bracketed, None));
        for plain in ["a", "a]", "a[0", "", "]", "["] {
            assert_eq!(of(plain), (plain, Naming::Repeated, None));
        }
        assert_eq!(of("[]"), ("", Naming::Bracketed, None));
    }
}
