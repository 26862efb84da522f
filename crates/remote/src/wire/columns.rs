//! What goes to a node of a cohort: for its active lanes, the columns that the stage reads.

use super::bytes::{Put, Taker, Wrong};
use super::reads::Reads;
use rhythm_engine::cohort::{Arena, Cohort, Column, Span, View};
use rhythm_engine::program::{PageProgram, Service};

/// Most lanes of a cohort.
pub(crate) const LANES_MAX: usize = 1 << 16;
/// Most cells, of lanes and of lists, those included that are not sent: what a node keeps for them
/// is bounded.
const CELLS_MAX: usize = 8 << 20;
/// Most bytes of texts of a cohort at a node, and of what its stage makes of them.
const ARENA_MAX: usize = 128 << 20;

/// Whether a node takes these lanes of a cohort.
pub(crate) fn are_taken(cohort: &Cohort, lanes: &[u32]) -> bool {
    let of_lists = cohort.fields.iter().filter_map(|field| match field {
        Column::List(list) => {
            let items = lanes
                .iter()
                .map(|&lane| list.spans[lane as usize].length as usize);
            Some(items.sum::<usize>() * list.columns.len().max(1))
        }
        Column::Text(_) | Column::Int(_) => None,
    });
    let of_lanes = lanes.len() * cohort.fields.len();
    lanes.len() <= LANES_MAX && of_lanes + of_lists.sum::<usize>() <= CELLS_MAX
}

/// Appends where the cohort stands, and the columns.
pub(crate) fn put(page: usize, cohort: &Cohort, lanes: &[u32], reads: &Reads, to: &mut impl Put) {
    to.put_u32(page as u32);
    to.put_u32(cohort.stage as u32);
    to.put_u32(lanes.len() as u32);
    let lanes = || lanes.iter().map(|&lane| lane as usize);
    for field in &reads.scalars {
        put_column(
            &cohort.fields[usize::from(*field)],
            lanes(),
            &cohort.arena,
            to,
        );
    }
    for (list, columns) in &reads.lists {
        let list = cohort.fields[usize::from(*list)].list();
        lanes().for_each(|lane| to.put_u32(list.spans[lane].length));
        let items = || {
            lanes().flat_map(|lane| {
                let Span { start, length } = list.spans[lane];
                start as usize..(start + length) as usize
            })
        };
        for column in columns {
            put_column(
                &list.columns[usize::from(*column)],
                items(),
                &cohort.arena,
                to,
            );
        }
    }
}

fn put_column(
    column: &Column,
    at: impl Iterator<Item = usize> + Clone,
    arena: &Arena,
    to: &mut impl Put,
) {
    match column {
        Column::Text(views) => {
            at.clone().for_each(|at| to.put_u32(views[at].length));
            at.for_each(|at| to.put(arena.get(views[at])));
        }
        Column::Int(values) => at.for_each(|at| to.put_u64(values[at] as u64)),
        Column::List(_) => unreachable!("what is read of a list is its columns"),
    }
}

/// A cohort that came, in a cohort of its lanes alone, and its page.
///
/// # Errors
/// It is none of a page of this service.
pub(crate) fn take(service: &Service, bytes: &[u8]) -> Result<(usize, Box<Cohort>), Wrong> {
    let mut from = Taker(bytes);
    let page = from.u32()? as usize;
    let program: &PageProgram = service
        .pages
        .get(page)
        .ok_or(Wrong("there is no such page"))?;
    let stage = from.u32()? as usize;
    let reads = program
        .stages
        .get(stage)
        .ok_or(Wrong("there is no such stage"))?;
    let reads = Reads::of(reads);
    let lanes = from.u32()? as usize;
    if !(1..=LANES_MAX).contains(&lanes) {
        return Err(Wrong("a cohort has no lanes, or too many"));
    }
    // Each lane has a cell in every field, whatever comes of them.
    let mut cells = lanes.saturating_mul(program.fields.len());
    if cells > CELLS_MAX {
        return Err(Wrong("a cohort has too many lanes for so many fields"));
    }
    let mut cohort = Box::new(Cohort::new(ARENA_MAX));
    cohort.reset(program);
    for _ in 0..lanes {
        cohort.push_lane();
    }
    cohort.stage = stage;
    let Cohort { fields, arena, .. } = &mut *cohort;
    for field in &reads.scalars {
        take_column(&mut fields[usize::from(*field)], lanes, arena, &mut from)?;
    }
    for (list, columns) in &reads.lists {
        let list = fields[usize::from(*list)].list_mut();
        let mut items = 0_u64;
        for (span, length) in list.spans.iter_mut().zip(from.u32s(lanes)?) {
            // It is checked below that all of them are few.
            let start = items as u32;
            *span = Span { start, length };
            items += u64::from(length);
        }
        let items = usize::try_from(items).unwrap_or(usize::MAX);
        cells = cells.saturating_add(items.saturating_mul(list.columns.len().max(1)));
        if cells > CELLS_MAX {
            return Err(Wrong("the lists of a cohort are too long"));
        }
        for (index, column) in list.columns.iter_mut().enumerate() {
            match columns.contains(&(index as u16)) {
                true => take_column(column, items, arena, &mut from)?,
                false => match column {
                    Column::Text(views) => views.resize(items, View::default()),
                    Column::Int(values) => values.resize(items, 0),
                    Column::List(_) => unreachable!("records have no lists"),
                },
            }
        }
    }
    from.end()?;
    Ok((page, cohort))
}

fn take_column(
    column: &mut Column,
    count: usize,
    arena: &mut Arena,
    from: &mut Taker<'_>,
) -> Result<(), Wrong> {
    match column {
        Column::Text(views) => {
            views.clear();
            for text in from.texts(count)? {
                if !arena.reserve(text.len()) {
                    return Err(Wrong("the texts of a cohort are too long"));
                }
                views.push(arena.push(text.as_bytes()));
            }
        }
        Column::Int(values) => {
            values.clear();
            values.extend(from.u64s(count)?.map(|value| value as i64));
        }
        Column::List(_) => unreachable!("what is read of a list is its columns"),
    }
    Ok(())
}
