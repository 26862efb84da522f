//! What the dashboard's panels are put together from.

use crate::observe::metrics::PageMetrics;
use crate::observe::metrics::scrape::ByLabels;
use rhythm_observe::Count;
use rhythm_observe::dashboard::{Chart, Column, Part, Unit, Value};
use std::sync::Arc;

/// Lines that the page's charts tell apart.
const LINES_MAX: usize = 6;

/// All that workers have counted of pages, or of backends, each by its name.
pub(super) struct Named<T>(pub(super) Vec<(String, Vec<Arc<T>>)>);

impl<T> Named<T> {
    pub(super) fn of(all: ByLabels<T>) -> Named<T> {
        let name = |labels: Vec<(&str, String)>| {
            let parts: Vec<String> = labels.into_iter().map(|(_, value)| value).collect();
            // Where there are several sites, its name is before the page's.
            parts.join(": ")
        };
        let named = all.into_iter();
        Named(named.map(|(labels, of)| (name(labels), of)).collect())
    }
}

pub(super) fn sum<T>(of: &[Arc<T>], figure: impl Fn(&T) -> u64) -> f64 {
    of.iter().map(|it| figure(it)).sum::<u64>() as f64
}

pub(super) fn of_class(class: usize) -> impl Fn(&PageMetrics) -> u64 {
    move |page| page.answers[class].get()
}

pub(super) fn answers(page: &PageMetrics) -> u64 {
    page.answers.iter().map(Count::get).sum()
}

pub(super) fn launches(page: &PageMetrics) -> u64 {
    page.launches.iter().map(Count::get).sum()
}

pub(super) fn columns<const N: usize>(columns: [(&'static str, Unit); N]) -> Vec<Column> {
    let column = |(label, unit)| Column { label, unit };
    columns.into_iter().map(column).collect()
}

pub(super) fn chart(title: &'static str, unit: Unit, mut lines: Vec<(String, Value)>) -> Part {
    lines.truncate(LINES_MAX);
    Part::Chart(Chart { title, unit, lines })
}
