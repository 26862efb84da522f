//! BeSim answers: any bytes decode or are refused, and what was decoded is what was in the rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_protocol::besim;
use rhythm_protocol::http::uri;

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
    if answer.is_encoded {
        // Values are compared as they came, so the rows below are the encoded ones.
        again.truncate(again.len() - 1);
        again.extend_from_slice(b"%\n");
        for value in &values {
            let mut bytes = Vec::new();
            if uri::decode_bytes(value, &mut bytes).is_ok() {
                let mut row = Vec::new();
                besim::write_encoded_row([bytes.as_slice()], &mut row);
                let mut back = Vec::new();
                uri::decode_bytes(&row[..row.len() - 1], &mut back).expect("it was encoded here");
                assert_eq!(back, bytes);
            }
        }
    }
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
