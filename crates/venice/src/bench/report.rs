//! Figures, how they come about, and how they are told.

use super::options::Error;
use serde::Serialize;
use std::fmt;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is compared: rows of one part are about the same thing.
    pub part: String,
    /// What carried it.
    pub transport: String,
    /// Bytes of an access or a message, where sizes are compared.
    pub bytes: Option<usize>,
    /// Who did it.
    pub what: String,
    /// Of each round.
    pub turns: Vec<f64>,
    /// The median of these.
    pub median: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Against which of the others, where it is compared.
    pub against: Option<String>,
    /// The median of each round's ratio to that.
    pub ratio: Option<f64>,
}

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The figures.
    pub rows: Vec<Row>,
    /// What could not be measured here, and why.
    pub not_measured: Vec<String>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.map_or(String::new(), |bytes| match bytes {
            0..1024 => format!("{bytes} B"),
            1024..0x10_0000 => format!("{} KiB", bytes >> 10),
            _ => format!("{} MiB", bytes >> 20),
        });
        write!(
            f,
            "{:<24}{:<15}{:>9}  {:<26}{:>11.2} {:<5}",
            self.part, self.transport, bytes, self.what, self.median, self.unit
        )?;
        match (&self.against, self.ratio) {
            (Some(against), Some(ratio)) => write!(f, "  {ratio:.2} x {against}"),
            _ => Ok(()),
        }
    }
}

/// Which of the contenders the others are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Against {
    /// The first.
    First,
    /// The last is compared with the best of the others: that of the least median.
    LastWithLeast,
}

/// Who takes part, and what one turn of it measures.
pub(super) type Contender<'a> = (String, Box<dyn FnMut() -> Result<f64, Error> + 'a>);

/// What a contender's turns measured, and with whom it is compared and the ratio.
type Compared = (Vec<f64>, Option<(String, f64)>);

/// Has contenders take turns, the first of which does not count: for each its turns, whom it is
/// compared with, and the ratio.
///
/// # Errors
/// What a turn says.
fn alternate(
    rounds: usize,
    against: Against,
    contenders: &mut [Contender<'_>],
) -> Result<Vec<Compared>, Error> {
    let mut measured = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        for turn in 0..contenders.len() {
            let who = match round % 2 {
                0 => turn,
                _ => contenders.len() - 1 - turn,
            };
            let figure = contenders[who].1()?;
            if round > 0 {
                measured[who].push(figure);
            }
        }
    }
    let medians: Vec<f64> = measured.iter().map(|turns| median(turns.clone())).collect();
    let last = contenders.len().saturating_sub(1);
    let least = (0..last).min_by(|a, b| medians[*a].total_cmp(&medians[*b]));
    let against = (0..contenders.len()).map(|who| {
        let other = match against {
            Against::First => (who > 0).then_some(0),
            Against::LastWithLeast => least.filter(|_| who == last),
        };
        other.map(|other| {
            let turns = measured[who].iter().zip(&measured[other]);
            let ratios = turns.map(|(own, its)| own / its).collect();
            (contenders[other].0.clone(), median(ratios))
        })
    });
    let against: Vec<_> = against.collect();
    Ok(measured.into_iter().zip(against).collect())
}

/// Of an even number, the mean of the two in the middle; 0 of none.
pub(super) fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    match (of.len(), of.len() / 2) {
        (0, _) => 0.0,
        (count, middle) if count % 2 == 1 => of[middle],
        (_, middle) => (of[middle - 1] + of[middle]) / 2.0,
    }
}

impl Report {
    /// Has contenders take turns, and notes their figures.
    ///
    /// # Errors
    /// What a turn says.
    pub(super) fn compare(
        &mut self,
        (part, transport, bytes, unit): (&str, &str, Option<usize>, &'static str),
        (rounds, against): (usize, Against),
        mut contenders: Vec<Contender<'_>>,
        told: &mut dyn FnMut(&Row),
    ) -> Result<(), Error> {
        let measured = alternate(rounds, against, &mut contenders)?;
        for ((what, _), (turns, against)) in contenders.into_iter().zip(measured) {
            let (against, ratio) = against.unzip();
            let row = Row {
                part: part.to_owned(),
                transport: transport.to_owned(),
                bytes,
                what,
                median: median(turns.clone()),
                turns,
                unit,
                against,
                ratio,
            };
            told(&row);
            self.rows.push(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn turns_alternate_and_ratios_are_of_each_turn() {
        let (drift, order) = (Cell::new(1.0), Cell::new(0u64));
        let contender = |name: &str, of: f64, digit: u64| -> Contender<'_> {
            let (drift, order) = (&drift, &order);
            let turn = move || {
                order.set(order.get() * 10 + digit);
                drift.set(drift.get() * 1.1);
                Ok(of * drift.get())
            };
            (name.to_owned(), Box::new(turn))
        };
        let mut both = [contender("a", 1.0, 1), contender("b", 3.0, 2)];
        let rows = alternate(4, Against::First, &mut both).unwrap();
        assert_eq!(order.get(), 1_221_122_112);
        let (name, ratio) = rows[1].1.clone().unwrap();
        assert!(rows[0].1.is_none() && name == "a" && (2.9..3.1).contains(&ratio));
        let mut three = [
            contender("a", 2.0, 1),
            contender("b", 1.0, 2),
            contender("c", 4.0, 3),
        ];
        let rows = alternate(2, Against::LastWithLeast, &mut three).unwrap();
        assert_eq!(rows[2].1.clone().unwrap().0, "b");
        assert!(rows[0].1.is_none() && rows[1].1.is_none());
        assert_eq!((median(vec![]), median(vec![3.0, 1.0])), (0.0, 2.0));
    }
}
