//! What a server shows: panels of figures, charts, bars and tables, as data.

use crate::families::{HistogramSum, NANOSECOND};
use crate::process;
use rhythm_net::clock;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// All that is shown at one time.
#[derive(Debug, Serialize)]
pub struct Dashboard {
    /// Which server it is, such as `rhythm serve`.
    server: &'static str,
    version: &'static str,
    /// What it does, in a word or two: `serving`, `draining`.
    state: &'static str,
    /// When the process began, in seconds since 1970: another number than before is another
    /// process, whose counters began anew.
    started: f64,
    /// For how long it has run, in seconds.
    up: f64,
    /// The time of the figures, in seconds of a clock that only goes up.
    at: f64,
    /// What to do to see something, where nothing has happened yet.
    hint: Option<String>,
    /// What somebody should look after now.
    alarms: Vec<String>,
    panels: Vec<Panel>,
    /// What quantiles and distributions are made of, by a name.
    histograms: BTreeMap<String, HistogramSum>,
}

/// Something beside a server, in its process, that the server's dashboard shows, too.
pub trait Shows: Send + Sync + fmt::Debug {
    /// Adds its panels, as it is now.
    fn show(&self, board: &mut Dashboard);
}

/// A part of the page with a heading.
#[derive(Debug, Serialize)]
pub struct Panel {
    /// Names it within the page: letters and `-`.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What it shows, from above to below.
    pub parts: Vec<Part>,
}

/// What a panel is made of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Single figures, side by side.
    Figures(Vec<Figure>),
    /// How some of them went in the last minutes.
    Chart(Chart),
    /// How often which of a few things happened in the last seconds: each with its counter.
    Bars(&'static str, Vec<(&'static str, u64)>),
    /// How often values were how large in the last seconds: a title and a histogram's name.
    Distribution(&'static str, String),
    /// A row for each of several things.
    Table(Table),
    /// What helps to understand what is above.
    Note(Cow<'static, str>),
}

impl Part {
    /// Lines over the last minutes: what is shown, of what, and each one's name and value.
    pub fn chart<'a>(
        title: &'static str,
        unit: Unit,
        lines: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Part {
        let lines = lines.into_iter();
        let lines = lines
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Part::Chart(Chart { title, unit, lines })
    }

    /// A table: what it is of, its columns' headings and units, its rows, and what is said where
    /// there are none.
    pub fn table<const N: usize>(
        caption: impl Into<String>,
        columns: [(&'static str, Unit); N],
        rows: Vec<Vec<Value>>,
        empty: &'static str,
    ) -> Part {
        Part::Table(Table {
            caption: caption.into(),
            columns: columns.map(|(label, unit)| Column { label, unit }).into(),
            rows,
            empty,
        })
    }
}

/// One figure.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// What it is, in a few words.
    pub label: String,
    /// How much.
    pub value: Value,
    /// Of what.
    pub unit: Unit,
}

impl Figure {
    /// A figure.
    pub fn new(label: impl Into<String>, value: Value, unit: Unit) -> Figure {
        Figure {
            label: label.into(),
            value,
            unit,
        }
    }
}

/// Lines over the last minutes.
#[derive(Debug, Serialize)]
pub struct Chart {
    /// What is shown.
    pub title: &'static str,
    /// Of what all lines are.
    pub unit: Unit,
    /// Each line's name and value; the page tells up to six apart.
    pub lines: Vec<(String, Value)>,
}

/// A table, whose rows are known by their first cell.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What it is of.
    pub caption: String,
    /// What cells below are.
    pub columns: Vec<Column>,
    /// A cell for each column.
    pub rows: Vec<Vec<Value>>,
    /// What is said in place of a table without rows.
    pub empty: &'static str,
}

/// A column of a table.
#[derive(Debug, Serialize)]
pub struct Column {
    /// Its heading.
    pub label: &'static str,
    /// Of what its cells are.
    pub unit: Unit,
}

impl Value {
    /// So much now, where that is known.
    pub fn known(value: Option<f64>) -> Value {
        value.map_or_else(|| Value::Text("\u{2013}".to_owned()), Value::Now)
    }
}

/// What the page makes of a value.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Words.
    Text(String),
    /// Whether something is as it should be, and a word for how it is.
    State(bool, &'static str),
    /// So much now.
    Now(f64),
    /// The most that this was while the page watched.
    Most(f64),
    /// So much now, of so much at most.
    Share(f64, f64),
    /// A counter: shown is how much it goes up in a second.
    Rate(f64),
    /// Two counters: shown is by how much the first goes up for each of the second.
    Ratio(f64, f64),
    /// Below which value this part (0 to 1) of a histogram's are, of those of the last seconds; and
    /// the histogram's name.
    Quantile(f64, String),
}

/// Units of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// How many.
    Count,
    /// How many a second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A part of a whole, 1 being all of it.
    Part,
}

impl Dashboard {
    /// Nothing yet: of which server, which version of it, and what it does, in a word or two.
    pub fn new(server: &'static str, version: &'static str, state: &'static str) -> Dashboard {
        let (began, now) = (process::began(), clock::monotonic());
        Dashboard {
            server,
            version,
            state,
            started: began.wall.as_secs_f64(),
            up: now.since(began.monotonic).as_secs_f64(),
            at: now.as_nanos() as f64 * NANOSECOND,
            hint: None,
            alarms: Vec::new(),
            panels: Vec::new(),
            histograms: BTreeMap::new(),
        }
    }

    /// Says what to do to see something.
    pub fn hint(&mut self, hint: String) {
        self.hint = Some(hint);
    }

    /// Says what somebody should look after.
    pub fn alarm(&mut self, alarm: String) {
        self.alarms.push(alarm);
    }

    /// Adds a panel below the others.
    pub fn panel(&mut self, id: &'static str, title: &'static str, parts: Vec<Part>) {
        self.panels.push(Panel { id, title, parts });
    }

    /// Adds what quantiles and distributions of this name are made of.
    pub fn histogram(&mut self, name: &str, sum: HistogramSum) {
        self.histograms.insert(name.to_owned(), sum);
    }

    /// As the page wants it.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("its maps have texts for keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::SizeHistogram;

    #[test]
    fn it_is_told_as_the_page_reads_it() {
        let mut board = Dashboard::new("toy", "1.2", "serving");
        let sizes = SizeHistogram::default();
        sizes.record(3, 5);
        sizes.record(100_000, 1);
        let mut sum = HistogramSum::default();
        sum.add(&sizes, 0.5);
        board.histogram("sizes", sum);
        let value = Value::Quantile(0.5, "sizes".to_owned());
        let figures = vec![Figure::new("Size", value, Unit::Count)];
        board.panel("toys", "Toys", vec![Part::Figures(figures)]);
        board.alarm("<b>".to_owned());
        let told: serde_json::Value = serde_json::from_str(&board.json()).expect("JSON");
        // Buckets without a value are left out; the last has no bound.
        let buckets = serde_json::json!([[2.0, 5, 1.0], [null, 1, 32_768.0]]);
        assert_eq!(told["histograms"]["sizes"], buckets);
        let figure = serde_json::json!({
            "label": "Size", "value": {"quantile": [0.5, "sizes"]}, "unit": "count",
        });
        assert_eq!(told["panels"][0]["parts"][0]["figures"][0], figure);
        assert_eq!(told["alarms"][0], "<b>");
        assert_eq!(told["hint"], serde_json::Value::Null);
    }
}
