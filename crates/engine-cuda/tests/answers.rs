//! Answers of a backend on the host, good and bad: what stages are given of them is what the
//! reference has. What the kernel makes of them is in src/cohort/stages/tests.rs.

mod bodies;
mod common;

use common::ORDERS;
use common::flight::{Bell, Filling, Flight, fly};
use common::wasteful::wasteful;
use rhythm_engine::cohort::Cohort;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance::Dice;
use rhythm_engine_cuda::besim::deliver_text;
use rhythm_engine_cuda::executor::{CudaExecutor, Options};
use rhythm_engine_cuda::gpu::emulated::Emulated;
use std::sync::Arc;

/// Every lane asks twice; each answer comes first and second, beside good ones and beside others.
#[test]
fn any_answer_is_read_as_the_reference_reads_it() {
    let limits = LaneLimits::default();
    let service = wasteful();
    let answers = bodies::bodies();
    let lanes = 2 * answers.len();
    let refused = b"<pre>\n5\nno\n</pre>\n".to_vec();
    for order in ORDERS {
        // `wasteful` lanes by threes ask for a tenth, a fifth and all of it: at least two.
        let mut filling = Filling::wasteful(&service, lanes, [20, 0, 1]);
        let (answers, refused) = (answers.clone(), refused.clone());
        let page = service.pages[0].clone();
        filling.answer = Box::new(move |_, cohort: &mut Cohort| {
            let mut asked = vec![0; lanes];
            let (queries, mut rows) = cohort.exchange(&page);
            for (query, &lane) in queries.lanes().iter().enumerate() {
                let lane = lane as usize;
                asked[lane] += 1;
                let own = &answers[lane / 2];
                let body = match (asked[lane], lane % 2) {
                    (1, 0) | (2, 1) => own,
                    (1, 1) => &refused,
                    (2, 0) => &answers[(lane * 7 + 3) % answers.len()],
                    _ => &answers[0],
                };
                rows.answer(query, |answer| deliver_text(body, 2, answer));
            }
            cohort.settle(&page);
        });
        let bell = Arc::new(Bell::default());
        let gpu = Emulated::new(order);
        let mut executor = CudaExecutor::new(gpu, Options::default(), bell.wake())
            .expect("an emulated GPU has room");
        let flight = Flight::new(&service, 0, filling, limits, 1);
        fly(
            &mut executor,
            &bell,
            usize::MAX,
            [flight],
            &mut Dice::new(1),
        );
        assert_eq!((executor.lost(), executor.statistics().on_host), (None, 0));
    }
}
