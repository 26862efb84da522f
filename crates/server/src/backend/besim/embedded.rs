//! BeSim in the same process: every answer is a function call.

use crate::backend::Embedded;
use rhythm_besim::Bank;
use rhythm_engine::cohort::{Cell, LaneError, ROWS_MAX, Requests, Rows};
use rhythm_protocol::besim;

/// The Banking workload's backend, embedded. Its answers are those of the remote one, cell for
/// cell.
#[derive(Debug)]
pub struct EmbeddedBesim {
    bank: Bank,
    // Memory kept from request to request.
    query: Vec<u8>,
    body: Vec<u8>,
    cells: Vec<(usize, usize)>,
}

impl EmbeddedBesim {
    /// A backend that answers for this bank.
    pub fn new(bank: Bank) -> EmbeddedBesim {
        EmbeddedBesim {
            bank,
            query: Vec::new(),
            body: Vec::new(),
            cells: Vec::new(),
        }
    }
}

impl Embedded for EmbeddedBesim {
    fn answer(&mut self, requests: &Requests, rows: &mut Rows<'_>) {
        let EmbeddedBesim {
            bank,
            query,
            body,
            cells,
        } = self;
        for request in 0..requests.len() {
            query.clear();
            body.clear();
            cells.clear();
            let columns = rows.call().columns;
            let form = &rows.call().form;
            form.write(requests.arguments(request), query);
            bank.answer(query, body);
            let range = |start, length| (start, length);
            match besim::decode(body, columns.into(), ROWS_MAX, cells, range) {
                Err(_) => rows.fail(request, LaneError::BadAnswer),
                Ok(read) => rows.answer(request, |answer| {
                    for row in cells.chunks(usize::from(columns).max(1)) {
                        let cell = |&(start, length)| Cell::Text(&body[start..start + length]);
                        answer.row(row.iter().map(cell));
                    }
                    i64::from(read.status)
                }),
            }
        }
    }
}
