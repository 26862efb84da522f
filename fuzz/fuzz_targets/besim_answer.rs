//! BeSim answers: any bytes decode or are refused, and what was decoded is what was in the rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_protocol::besim;

fuzz_target!(|input: (u8, &[u8])| {
    let (columns, body) = input;
    let columns = u32::from(columns % 9);
    let mut values = Vec::new();
    let answer = besim::decode(body, columns, 32, &mut values, |start, len| {
        body[start..start + len].to_vec()
    });
    let Ok(answer) = answer else {
        assert!(values.is_empty());
        return;
    };
    assert_eq!(values.len() as u32, answer.rows * columns);

    // Written again and decoded again, it is the same.
    let mut again = Vec::new();
    besim::start_answer(answer.status, &mut again);
    if columns > 0 {
        for row in values.chunks(columns as usize) {
            besim::write_row(row.iter().map(Vec::as_slice), &mut again);
        }
    }
    besim::end_answer(&mut again);
    let mut values_again = Vec::new();
    let decoded = besim::decode(&again, columns, 32, &mut values_again, |start, len| {
        again[start..start + len].to_vec()
    });
    assert_eq!(decoded, Ok(answer));
    assert_eq!(values_again, values);
});
