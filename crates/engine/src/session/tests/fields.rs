//! What sessions keep, as the server sees it.

use super::super::{StoredFields, StoredValue, TooLong};
use super::{EXACT, SessionArray, SessionId, random};
use crate::settings::{StoredField, StoredKind};
use std::sync::atomic::{AtomicBool, Ordering};

const TEXT: usize = 2;

fn fields() -> Vec<StoredField> {
    let kinds = [
        ("admin", StoredKind::Bool),
        ("level", StoredKind::Int),
        ("name", StoredKind::Text(20)),
    ];
    let field = |(name, kind): (&str, StoredKind)| StoredField {
        name: name.to_owned(),
        kind,
    };
    kinds.map(field).into()
}

fn set(stored: &StoredFields, array: &SessionArray, id: &SessionId, what: &[(usize, &str)]) {
    let mut changes = Vec::new();
    for (field, text) in what {
        stored
            .change(*field, text.as_bytes(), &mut changes)
            .unwrap();
    }
    stored.write(id, &changes, || array.has(id));
}

fn read(stored: &StoredFields, id: &SessionId) -> (i64, i64, String) {
    let mut words = Vec::new();
    stored.read(id, &mut words);
    let int = |field| match stored.value(field, &words) {
        StoredValue::Int(value) => value,
        StoredValue::Text(_) => panic!("a number"),
    };
    let StoredValue::Text(start) = stored.value(TEXT, &words) else {
        panic!("a text");
    };
    let mut text = Vec::new();
    StoredFields::text(&words, start, &mut text);
    (int(0), int(1), String::from_utf8(text).unwrap())
}

#[test]
fn a_session_has_what_it_was_set_to_and_the_next_in_its_slot_nothing() {
    let array = SessionArray::new(2, EXACT);
    let stored = StoredFields::new(fields(), array.capacity());
    let [one, other] = [1, 2].map(|user| array.create(user, random(user as u64), 0).unwrap());
    assert_eq!(read(&stored, &one), (0, 0, String::new()));
    set(
        &stored,
        &array,
        &one,
        &[(0, "1"), (1, "-9223372036854775808")],
    );
    for name in ["", "Ann", "eight by", "twenty bytes of text"] {
        set(&stored, &array, &one, &[(TEXT, name)]);
        assert_eq!(read(&stored, &one), (1, i64::MIN, name.to_owned()));
        assert_eq!(read(&stored, &other), (0, 0, String::new()));
    }
    let mut changes = Vec::new();
    let long = "twenty bytes and one.";
    assert_eq!(
        stored.change(TEXT, long.as_bytes(), &mut changes),
        Err(TooLong)
    );
    assert!(array.destroy(&one));
    let next = array.create(3, random(3), 0).unwrap();
    assert_eq!(next.slot(), one.slot(), "it has the slot");
    assert_eq!(read(&stored, &next), (0, 0, String::new()));
    set(&stored, &array, &next, &[(1, "5")]);
    assert_eq!(read(&stored, &next), (0, 5, String::new()));
    // What comes late for the session before changes nothing of this one.
    set(&stored, &array, &one, &[(1, "6"), (TEXT, "late")]);
    assert_eq!(read(&stored, &next), (0, 5, String::new()));
    let nobody = SessionId::of_nobody(random(4));
    set(&stored, &array, &nobody, &[(1, "6")]);
    assert_eq!(read(&stored, &nobody), (0, 0, String::new()));
}

#[test]
fn no_reader_sees_a_part_of_a_change() {
    let array = SessionArray::new(1, EXACT);
    let stored = StoredFields::new(fields(), array.capacity());
    let id = array.create(1, random(1), 0).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = |first: u32| {
            let (array, stored, id) = (&array, &stored, &id);
            move || {
                for round in 0..20_000 {
                    let number = first + 2 * round;
                    let name = format!("{number:020}");
                    set(
                        stored,
                        array,
                        id,
                        &[(1, &number.to_string()), (TEXT, &name)],
                    );
                }
            }
        };
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !is_over.load(Ordering::Acquire) {
                let (_, level, name) = read(&stored, &id);
                if !name.is_empty() {
                    assert_eq!(format!("{level:020}"), name);
                    seen += 1;
                }
            }
            seen
        });
        let writers = [0, 1].map(|first| scope.spawn(writer(first)));
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    let (_, level, name) = read(&stored, &id);
    assert_eq!(format!("{level:020}"), name);
}

#[test]
fn without_fields_nothing_is_taken() {
    assert_eq!(StoredFields::bytes(&[], 1 << 28), 0);
    // Version, owner, two numbers, a length and three words of a text.
    assert_eq!(StoredFields::bytes(&fields(), 10), 10 * 8 * 8);
}
