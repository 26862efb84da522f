//! BeSim in the same process: a batch of queries is a table of answers.

use super::query_plan::QueryPlan;
use crate::backend::Embedded;
use rhythm_besim::{Bank, Table};
use rhythm_engine::cohort::{Queries, Rows, TextColumns};

/// Queries that become one table: what they leave stays in the first caches until it is moved.
const BATCH: usize = 64;

/// The Banking workload's backend, embedded. Its answers are those of the remote one, cell for
/// cell.
#[derive(Debug)]
pub struct EmbeddedBesim {
    bank: Bank,
    // Memory kept from batch to batch.
    table: Table,
    query: Vec<u8>,
}

impl EmbeddedBesim {
    /// A backend that answers for this bank.
    pub fn new(bank: Bank) -> EmbeddedBesim {
        EmbeddedBesim {
            bank,
            table: Table::default(),
            query: Vec::new(),
        }
    }

    /// Answers the queries from `first` on with what the table has.
    fn deliver(table: &mut Table, first: usize, rows: &mut Rows<'_>) {
        table.finish();
        let texts = TextColumns {
            answers: table.answers(),
            text: table.text(),
            columns: table.columns(),
        };
        rows.answer_columns(first, texts);
    }
}

impl Embedded for EmbeddedBesim {
    fn answer(&mut self, queries: &Queries, rows: &mut Rows<'_>) {
        let EmbeddedBesim { bank, table, query } = self;
        let form = &rows.call().form;
        if let Some(plan) = QueryPlan::of(form) {
            for first in (0..queries.len()).step_by(BATCH) {
                table.clear();
                for query in first..queries.len().min(first + BATCH) {
                    table.add(bank, &plan.query(queries, query));
                }
                EmbeddedBesim::deliver(table, first, rows);
            }
            return;
        }
        // What each asks is known from its text alone.
        for index in 0..queries.len() {
            query.clear();
            form.write(queries.arguments(index), query);
            table.clear();
            table.add_text(bank, query);
            EmbeddedBesim::deliver(table, index, rows);
        }
    }
}
