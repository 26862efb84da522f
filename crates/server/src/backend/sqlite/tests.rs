//! Frames in any pieces, and what a writer does with what came together.

use super::carry_out::{answer_failed, outcome_of};
use super::database;
use super::frames::{self, Outcome, framed};
use super::query::{Asked, OneOf, Query};
use super::thread::{Shared, run};
use super::wire::{Begun, SqliteWire};
use super::writer::Writer;
use crate::backend::answers::{QueryAnswers, Told};
use crate::backend::awaited::Awaited;
use crate::backend::sql::numbered;
use crate::backend::wire::Wire;
use crate::backend::words::Words;
use proptest::prelude::*;
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::{Asking, Call, CallResult, Form, Type};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

fn call(columns: u16, has_name: bool) -> Call {
    Call {
        backend: 0,
        asking: Asking::Exec,
        form: Form {
            pieces: vec![(*b"select ").into(), (*b" + ").into(), (*b"").into()],
            arguments: vec![Type::Int; 2],
        },
        columns,
        result: CallResult::Rows(0),
        status: 1,
        has_name,
        statements: Box::default(),
        document: None,
        idempotent: false,
        optional: false,
        shared: false,
        merged: false,
        particulars: Default::default(),
    }
}

#[test]
fn a_statement_has_numbers_where_its_arguments_are() {
    let mut statement = Vec::new();
    numbered(&call(1, true).form.pieces, b'?', &mut statement);
    assert_eq!(statement, b"select ?1 + ?2");
}

fn any_cell() -> impl Strategy<Value = Cell<'static>> {
    let texts: [&'static [u8]; 3] = [b"", b"a", &[b'x'; 300]];
    prop_oneof![
        Just(Cell::Null),
        any::<i64>().prop_map(Cell::Int),
        (-1e300..1e300).prop_map(Cell::Float),
        proptest::sample::select(texts.to_vec()).prop_map(Cell::Text),
        proptest::sample::select(texts.to_vec()).prop_map(Cell::Bytes),
    ]
}

proptest! {
    #[test]
    fn answers_come_in_any_pieces(
        rows in proptest::collection::vec([any_cell(), any_cell()], 0..9),
        fails in any::<bool>(),
        cut in 1..500_usize,
    ) {
        let mut bytes = Vec::new();
        if fails {
            answer_failed(Outcome::Broken, &mut bytes);
        }
        framed(&mut bytes, |out| {
            out.push(Outcome::Rows as u8);
            out.extend_from_slice(&2_u16.to_ne_bytes());
            rows.iter().flatten().for_each(|cell| frames::write_cell(*cell, out));
        });
        let (mut wire, mut begun) = (SqliteWire::default(), Begun::default());
        let (mut answers, awaited) = (QueryAnswers::default(), Awaited::one(&call(2, true)));
        let mut outcomes = Vec::new();
        for mut piece in bytes.chunks(cut) {
            while !piece.is_empty() {
                let decoded = wire.decode(&mut begun, piece, &awaited, &mut answers).unwrap();
                let (used, verdict) = decoded;
                prop_assert!(used > 0 && (verdict.is_some() || used == piece.len()));
                piece = &piece[used..];
                if let Some(verdict) = verdict {
                    outcomes.push(verdict.outcome);
                    answers.push(outcomes.len() as u64, Ok(0));
                }
            }
        }
        let expected = if fails { vec![Ok(1), Ok(0)] } else { vec![Ok(0)] };
        prop_assert_eq!(&outcomes, &expected);
        let mut told = Vec::new();
        let collect = |told: Told<'_>| -> Vec<Vec<String>> {
            let rows = told.rows();
            rows.map(|row| row.map(|cell| format!("{cell:?}")).collect()).collect()
        };
        answers.tell(&mut |_, answer| told = collect(answer.unwrap()));
        let rows: Vec<Vec<String>> = (rows.iter())
            .map(|row| row.iter().map(|cell| format!("{cell:?}")).collect())
            .collect();
        prop_assert_eq!(told, rows);
    }

    #[test]
    fn what_is_no_frame_is_told(bytes in any::<Vec<u8>>()) {
        // Whatever comes, nothing panics.
        if let Some(query) = Query::read(&bytes) {
            prop_assert!(query.arguments().count() <= bytes.len());
            if let Asked::Transaction(statements) = query.asked {
                let one = OneOf::read(statements);
                prop_assert!(one.is_none_or(|one| one.text.len() <= bytes.len()));
            }
        }
        prop_assert!(frames::cells(&bytes).count() <= bytes.len());
        let mut frame = Vec::new();
        framed(&mut frame, |out| out.extend_from_slice(&bytes));
        let (mut wire, mut begun) = (SqliteWire::default(), Begun::default());
        let awaited = Awaited::one(&call(2, true));
        let mut answers = QueryAnswers::default();
        let decoded = wire.decode(&mut begun, &frame, &awaited, &mut answers);
        if let Ok((used, _)) = decoded {
            prop_assert_eq!(used, frame.len());
        }
    }
}

/// A database in a folder of the test's own, and who writes to it.
struct World {
    path: PathBuf,
    writer: Writer,
    words: Words,
}

impl World {
    fn new(test: &str, schema: &str) -> World {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("rhythm-{test}-{}.db", std::process::id()));
        let world = World {
            writer: Writer::new(path.clone(), Duration::from_secs(20)),
            words: Words::new("test"),
            path,
        };
        world.remove();
        let database = rusqlite::Connection::open(&world.path).unwrap();
        database.execute_batch(schema).unwrap();
        world
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            // One that is not there need not be removed.
            let _ = std::fs::remove_file(Path::new(&path));
        }
    }

    /// Inserts a number: what became of it.
    fn insert(&self, number: i64, asker: &Arc<UnixStream>) -> Outcome {
        let mut query = Vec::new();
        let mut call = call(1, true);
        call.form.pieces = vec![(*b"insert into t values (").into(), (*b")").into()];
        Query::write(&call, 1, [Argument::Int(number)].into_iter(), &mut query);
        let (frame, _) = frames::first(&query).unwrap();
        let mut out = Vec::new();
        self.writer
            .carry_out((frame, Instant::now()), asker, &self.words, &mut out);
        outcome_of(&out).unwrap()
    }

    fn all(&self) -> Vec<i64> {
        let database = database::open(&self.path, Duration::from_secs(20)).unwrap();
        let mut all = database.prepare("select a from t order by a").unwrap();
        let all = all.query_map([], |row| row.get(0)).unwrap();
        all.map(Result::unwrap).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.remove();
    }
}

#[test]
fn what_came_together_is_done_each_for_itself_unless_all_is_undone() {
    // 7 may not be; 9 undoes all that is done with it; others may.
    let world = World::new(
        "writer",
        "create table t(a integer unique check (a <> 7));
         create trigger undoes before insert on t when new.a = 9
         begin select raise(rollback, 'undone'); end;",
    );
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    let barrier = Barrier::new(8);
    let mut inserted = Vec::new();
    for round in 0..60 {
        let outcomes: Vec<(i64, Outcome)> = thread::scope(|scope| {
            let begun: Vec<_> = (0..8)
                .map(|thread| {
                    let (world, ours, barrier) = (&world, &ours, &barrier);
                    scope.spawn(move || {
                        let number = match thread {
                            6 => 7,
                            7 if round % 3 == 0 => 9,
                            _ => 100 + 10 * round + thread,
                        };
                        barrier.wait();
                        (number, world.insert(number, ours))
                    })
                })
                .collect();
            begun
                .into_iter()
                .map(|begun| begun.join().unwrap())
                .collect()
        });
        for (number, outcome) in outcomes {
            match (number, outcome) {
                (7 | 9, Outcome::Broken) => {}
                (_, Outcome::Rows) => inserted.push(number),
                // Only what was undone with another.
                (_, Outcome::Failed) if round % 3 == 0 => {}
                other => panic!("{other:?}"),
            }
        }
    }
    inserted.sort_unstable();
    assert_eq!(world.all(), inserted);
    assert!(inserted.len() > 200, "{}", inserted.len());
}

#[test]
fn what_answers_too_much_is_undone() {
    let world = World::new("unfit", "create table t(a integer)");
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    let many = "insert into t \
                with recursive n(i) as (select 1 union all select i + 1 from n limit 9999) \
                select i from n returning a";
    let mut query = Vec::new();
    let mut call = call(1, true);
    call.form.pieces = vec![many.as_bytes().into()];
    Query::write(&call, 1, std::iter::empty(), &mut query);
    let mut out = Vec::new();
    let (frame, _) = frames::first(&query).unwrap();
    world
        .writer
        .carry_out((frame, Instant::now()), &ours, &world.words, &mut out);
    assert_eq!(outcome_of(&out), Some(Outcome::Unfit));
    assert_eq!(world.insert(1, &ours), Outcome::Rows);
    assert_eq!(world.all(), [1]);
}

#[test]
fn what_nobody_waits_for_is_not_done() {
    let world = World::new("gone", "create table t(a integer)");
    let (ours, theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    assert_eq!(world.insert(1, &ours), Outcome::Rows);
    drop(theirs);
    assert_eq!(world.insert(2, &ours), Outcome::Late);
    assert_eq!(world.all(), [1]);
}

/// Shares of a database whose statements may take so long, and a statement without an end, so many
/// times.
fn endless(world: &World, timeout: Duration, count: usize) -> (Shared, Vec<u8>) {
    let shared = Shared {
        path: world.path.clone(),
        timeout,
        writer: Writer::new(world.path.clone(), timeout),
        words: Words::new("test"),
    };
    let long = "with recursive n(i) as (select 1 union all select i + 1 from n) \
                select count(*) from n";
    let mut call = call(1, true);
    call.asking = Asking::Query;
    call.form.pieces = vec![long.as_bytes().into()];
    let mut queries = Vec::new();
    for _ in 0..count {
        Query::write(&call, 1, std::iter::empty(), &mut queries);
    }
    (shared, queries)
}

#[test]
fn what_came_together_has_the_time_of_one() {
    const COUNT: usize = 50;
    let world = World::new("late", "create table t(a integer)");
    let (shared, queries) = endless(&world, Duration::from_millis(200), COUNT);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let begun = Instant::now();
    let answering = thread::spawn(move || run(ours, &shared));
    theirs.write_all(&queries).unwrap();
    let (mut answers, mut piece) = (Vec::new(), [0; 4096]);
    let mut count = 0;
    while count < COUNT {
        let read = theirs.read(&mut piece).unwrap();
        assert!(read > 0, "{count} are answered");
        answers.extend_from_slice(&piece[..read]);
        while let Some((_, used)) = frames::first(&answers) {
            assert_eq!(outcome_of(&answers), Some(Outcome::Late));
            answers.drain(..used);
            count += 1;
        }
    }
    // One after the other they would take ten seconds.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    drop(theirs);
    answering.join().unwrap();
}

#[test]
fn what_nobody_waits_for_any_more_is_stopped() {
    let world = World::new("stopped", "create table t(a integer)");
    let (shared, queries) = endless(&world, Duration::from_secs(600), 2);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let answering = thread::spawn(move || run(ours, &shared));
    theirs.write_all(&queries).unwrap();
    // Perhaps it has begun by then; in either case it ends long before its time.
    thread::sleep(Duration::from_millis(50));
    drop(theirs);
    answering.join().unwrap();
}
