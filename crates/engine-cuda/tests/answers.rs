//! Answers of a backend, good and bad: what stages are given of them is what the reference has.

mod common;

use common::ORDERS;
use common::flight::{Bell, Filling, Flight, fly};
use common::wasteful::wasteful;
use rhythm_engine::cohort::Cohort;
use rhythm_engine::cohort::deliver_text;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance::Dice;
use rhythm_engine_cuda::executor::{CudaExecutor, Options};
use rhythm_engine_cuda::gpu::emulated::Emulated;
use std::sync::Arc;

/// Answers of rows of a text and an integer.
fn answers() -> Vec<Vec<u8>> {
    let row = |row: &[u8]| [b"<pre>\n0\n", row, b"\n</pre>\n"].concat();
    let rows: &[&[u8]] = &[
        b"a&1",
        b"&0",
        b"a&",
        b"a",
        b"",
        b"a&1&2",
        b"a&1&",
        b"a&+7",
        b"a&-7",
        b"a&--7",
        b"a&- 7",
        b"a&7 ",
        b"a&007",
        b"a&+",
        b"a&-",
        b"a&9223372036854775807",
        b"a&9223372036854775808",
        b"a&-9223372036854775808",
        b"a&-9223372036854775809",
        b"a&18446744073709551617",
        b"a&99999999999999999999999",
        b"a&00000000000000000000000000001",
        "ß日本&1".as_bytes(),
        "a cell of 16 byß&1\nthe next one&2".as_bytes(),
        b"\xc3&1",
        b"a\xc3\xa4&1",
        b"\xff&1",
        b"\xed\xa0\x80&1",
        b"\xc0\x80&1",
        b"\xf4\x90\x80\x80&1",
        b"\xf0\x9f\x98\x80&1",
        b"\xf0\x9f\x98&1",
        b"tab\t&1",
        b"del\x7f&1",
        b"zero\0&1",
        b"cr\r&1",
        b"a&1\nb&2\nc&3",
        b"a&1\nb&x\nc&3",
        b"</pre> &1",
        b"</prf>&1",
    ];
    let mut all: Vec<Vec<u8>> = rows.iter().map(|text| row(text)).collect();
    let texts: &[&[u8]] = &[
        b"",
        b"<pre>",
        b"<pre>\n",
        b"<pre>\n0",
        b"<pre>\n0\n",
        b"<pre>\n0\n</pre>",
        b"<pre>\n0\n</pre>\n",
        b"<pre>\n0\n</pre>\nmore",
        b"<pre>\n0\n</pre",
        b"<pre>\n0\na&1",
        b"<pre>\n0\na&1\n",
        b"<pre>\n0\na&1\n</pre>",
        b"<html>\nbefore\n<pre>\n0\na&1\n</pre>\n",
        b" <pre>\n0\na&1\n</pre>\n",
        b"<pre>\n00\na&1\n</pre>\n",
        b"<pre>\nx\na&1\n</pre>\n",
        b"<pre>\n3\nrefused\n</pre>\n",
        b"<pre>\n9\n",
        b"<pre>\n\n0\na&1\n</pre>\n",
        b"<pre>\r\n0\r\na&1\r\n</pre>\r\n",
    ];
    all.extend(texts.iter().map(|text| text.to_vec()));
    // As many rows as there may be, and one more.
    for rows in [4095, 4096, 4097] {
        all.push(row("r&1\n".repeat(rows).trim_end().as_bytes()));
    }
    all
}

/// Every lane asks twice; each answer comes first and second, beside good ones and beside others.
#[test]
fn any_answer_is_read_as_the_reference_reads_it() {
    let limits = LaneLimits::default();
    let service = wasteful();
    let answers = answers();
    let lanes = 2 * answers.len();
    let refused = b"<pre>\n5\nno\n</pre>\n".to_vec();
    for order in ORDERS {
        // `wasteful` lanes by threes ask for a tenth, a fifth and all of it: at least two.
        let mut filling = Filling::wasteful(&service, lanes, [20, 0, 1]);
        let (answers, refused) = (answers.clone(), refused.clone());
        let page = service.pages[0].clone();
        filling.answer = Box::new(move |_, cohort: &mut Cohort| {
            let mut asked = vec![0; lanes];
            let (requests, mut rows) = cohort.exchange(&page);
            for (request, &lane) in requests.lanes().iter().enumerate() {
                let lane = lane as usize;
                asked[lane] += 1;
                let own = &answers[lane / 2];
                let body = match (asked[lane], lane % 2) {
                    (1, 0) | (2, 1) => own,
                    (1, 1) => &refused,
                    (2, 0) => &answers[(lane * 7 + 3) % answers.len()],
                    _ => &answers[0],
                };
                rows.answer(request, |answer| deliver_text(body, 2, answer));
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
