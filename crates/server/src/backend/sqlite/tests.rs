//! Frames in any pieces, and what a writer does with what came together.

use super::carry_out::{answer_failed, outcome_of};
use super::database;
use super::frames::{self, HELLO, Outcome, framed};
use super::query::{Asked, OneOf, Query};
use super::thread::{Shared, run};
use super::wire::{Begun, SqliteWire};
use super::writer::Writer;
use crate::backend::answers::{QueryAnswers, Told};
use crate::backend::awaited::Awaited;
use crate::backend::sql::numbered;
use crate::backend::wire::{Greeting, Unreadable, Wire};
use crate::backend::words::Words;
use proptest::prelude::*;
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::{Asking, Call, CallResult, Form, Statement, Type};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
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

/// A statement that changes something, around integers.
fn exec(pieces: &[&str], arguments: &[i64]) -> Vec<u8> {
    let mut call = call(1, true);
    call.form.pieces = pieces.iter().map(|piece| piece.as_bytes().into()).collect();
    let arguments = arguments.iter().map(|number| Argument::Int(*number));
    let mut query = Vec::new();
    Query::write(&call, 1, arguments, &mut query);
    query
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
        world.make(schema);
        world
    }

    /// Makes the database, which is not there.
    fn make(&self, schema: &str) {
        let database = rusqlite::Connection::open(&self.path).unwrap();
        database.execute_batch(schema).unwrap();
    }

    /// Where the database is, or something beside it.
    fn beside(&self, end: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(end);
        path.into()
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm", "-copy", "-before"] {
            // One that is not there need not be removed.
            let _ = std::fs::remove_file(self.beside(end));
        }
    }

    /// Inserts a number: what became of it.
    fn insert(&self, number: i64, asker: &Arc<UnixStream>) -> Outcome {
        let query = exec(&["insert into t values (", ")"], &[number]);
        let (frame, _) = frames::first(&query).unwrap();
        let mut out = Vec::new();
        self.writer
            .carry_out((frame, Instant::now()), asker, &self.words, &mut out);
        outcome_of(&out).unwrap()
    }

    fn all(&self) -> Vec<i64> {
        World::all_at(&self.path)
    }

    fn all_at(path: &Path) -> Vec<i64> {
        let database = database::open(path, Duration::from_secs(20)).unwrap();
        let sound: String = database
            .query_row("pragma integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
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
fn what_came_together_is_done_each_for_itself() {
    // 7 may not be; 9 undoes all that was done with it, which is done again; others may.
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
                other => panic!("{other:?}"),
            }
        }
    }
    inserted.sort_unstable();
    assert_eq!(world.all(), inserted);
    assert_eq!(inserted.len(), 40 * 7 + 20 * 6);
}

#[test]
fn what_answers_too_much_is_undone() {
    let world = World::new("unfit", "create table t(a integer)");
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    let many = "insert into t \
                with recursive n(i) as (select 1 union all select i + 1 from n limit 9999) \
                select i from n returning a";
    let query = exec(&[many], &[]);
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
fn what_a_transaction_keeps_is_no_longer_than_an_answer() {
    let world = World::new("kept", "create table t(a integer)");
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    for (count, outcome) in [(1, Outcome::Rows), (2, Outcome::Unfit)] {
        let statement = || Statement {
            asking: Asking::Exec,
            form: Form {
                pieces: vec![(*b"select hex(zeroblob(300000))").into()],
                arguments: Vec::new(),
            },
            arguments: Box::default(),
            columns: 1,
        };
        let mut call = call(1, true);
        call.asking = Asking::Transaction;
        call.statements = (0..count).map(|_| statement()).collect();
        let mut query = Vec::new();
        Query::write(&call, 1, std::iter::empty(), &mut query);
        let asked = [(&query[4..], Instant::now(), &ours)];
        let outcomes = world.writer.carry_out_together(&asked, &world.words);
        assert_eq!(outcomes, [Some(outcome)], "{count}");
    }
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

/// A table of numbers.
const TABLE: &str = "create table t(a integer)";

#[test]
fn what_is_written_after_the_file_was_replaced_is_in_the_one_that_is_there() {
    for is_clean in [true, false] {
        let world = World::new(&format!("replaced-{is_clean}"), TABLE);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let ours = Arc::new(ours);
        assert_eq!(world.insert(1, &ours), Outcome::Rows);
        match is_clean {
            true => world.remove(),
            // What is beside it stays.
            false => std::fs::remove_file(&world.path).unwrap(),
        }
        assert_ne!(world.insert(2, &ours), Outcome::Rows, "there is none");
        world.make(TABLE);
        assert_eq!(world.insert(3, &ours), Outcome::Rows);
        assert_eq!(world.all(), [3]);
    }
}

#[test]
fn a_file_that_is_made_while_another_is_open_shares_nothing_with_that() {
    let world = World::new("made-anew", TABLE);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    assert_eq!(world.insert(1, &ours), Outcome::Rows);
    let before = database::open(&world.path, HASTE).unwrap();
    let of = |end: &str| std::fs::metadata(world.beside(end)).unwrap().ino();
    let inodes = ["-wal", "-shm"].map(of);
    std::fs::remove_file(&world.path).unwrap();
    world.make(TABLE);
    let after = database::open(&world.path, HASTE).unwrap();
    after.execute_batch("insert into t values (2)").unwrap();
    assert!(
        inodes
            .iter()
            .zip(["-wal", "-shm"].map(of))
            .all(|(was, is)| *was != is)
    );
    let read = |database: &rusqlite::Connection| -> i64 {
        database
            .query_row("select a from t", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!((read(&before), read(&after)), (1, 2));
    // Nor is what is beside it the other's, when that is closed.
    drop(before);
    assert_eq!(world.insert(3, &ours), Outcome::Rows);
    drop(after);
    assert_eq!(world.all(), [2, 3]);
}

#[test]
fn a_copy_that_is_moved_there_has_nothing_of_what_was_written_since() {
    let world = World::new("moved", TABLE);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    assert_eq!(world.insert(1, &ours), Outcome::Rows);
    let [copy, before] = ["-copy", "-before"].map(|end| world.beside(end));
    let database = rusqlite::Connection::open(&world.path).unwrap();
    let into = format!("vacuum into '{}'", copy.display());
    database.execute_batch(&into).unwrap();
    drop(database);
    assert_eq!(world.insert(2, &ours), Outcome::Rows);
    std::fs::rename(&world.path, &before).unwrap();
    std::fs::rename(&copy, &world.path).unwrap();
    assert_eq!(world.insert(3, &ours), Outcome::Rows);
    assert_eq!(world.all(), [1, 3]);
    // Where it is now it has all.
    assert_eq!(World::all_at(&before), [1, 2]);
}

#[test]
fn who_reads_reads_the_file_that_is_there() {
    let world = World::new("read", TABLE);
    let (shared, _) = endless(&world, HASTE, 0);
    let mut call = call(1, true);
    call.asking = Asking::Query;
    call.form.pieces = vec![(*b"select count(*) from t").into()];
    let mut query = Vec::new();
    Query::write(&call, 1, std::iter::empty(), &mut query);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let answering = thread::spawn(move || run(ours, &shared));
    theirs.read_exact(&mut [0]).expect("it is greeted");
    let mut count = || {
        theirs.write_all(&query).unwrap();
        let mut answer = Vec::new();
        while frames::first(&answer).is_none() {
            let mut byte = [0];
            theirs.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let (frame, _) = frames::first(&answer).unwrap();
        let (outcome, rest) = Outcome::read(frame).unwrap();
        let cell = rest
            .get(2..)
            .and_then(|cells| frames::cells(cells).next())
            .flatten();
        (outcome, cell.map(|cell| format!("{cell:?}")))
    };
    let count_of = |count| (Outcome::Rows, Some(format!("{:?}", Cell::Int(count))));
    assert_eq!(count(), count_of(0));
    world.remove();
    world.make(&format!("{TABLE}; insert into t values (1)"));
    assert_eq!(count(), count_of(1));
    drop(theirs);
    answering.join().unwrap();
}

#[test]
fn who_is_not_greeted_sends_nothing() {
    let (mut wire, mut begun, mut out) = (SqliteWire::default(), Begun::default(), Vec::new());
    let mut greet = |input: &[u8]| wire.greet(&mut begun, input, &mut out);
    assert_eq!(greet(b""), Ok(Greeting::More));
    assert_eq!(greet(&[HELLO]), Ok(Greeting::Done { used: 1 }));
    assert_eq!(greet(b"?"), Err(Unreadable));
    assert!(out.is_empty());
}

/// Numbers without an end.
const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n)";

/// How long a statement may take where one has no end.
const HASTE: Duration = Duration::from_secs(2);

/// Who writes to the database of a world, where a statement has little time; and what is asked of
/// it: to insert 1, something that takes long, and to insert 2.
fn hasty(world: &World, long: &str) -> (Writer, [Vec<u8>; 3]) {
    let writer = Writer::new(world.path.clone(), HASTE);
    let one = |number| exec(&["insert into t values (", ")"], &[number]);
    (writer, [one(1), exec(&[long], &[]), one(2)])
}

#[test]
fn what_is_stopped_undoes_nothing_of_those_that_came_with_it() {
    let world = World::new("one-stopped", "create table t(a integer)");
    let endless = format!("insert into t {ENDLESS} select 7 from n where i < 0");
    let (writer, queries) = hasty(&world, &endless);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (ours, now) = (Arc::new(ours), Instant::now());
    // All have the same time: it is the endless one's that it takes. The second time it is known.
    for (round, order) in [[0, 1, 2], [1, 0, 2]].into_iter().enumerate() {
        let asked = order.map(|query| (&queries[query][4..], now + HASTE, &ours));
        let asked = match round {
            0 => asked.map(|(query, _, ours)| (query, now, ours)),
            _ => asked,
        };
        let outcomes = writer.carry_out_together(&asked, &world.words);
        let expected = order.map(|query| match query {
            1 => Some(Outcome::Late),
            _ => Some(Outcome::Rows),
        });
        assert_eq!(outcomes, expected, "{order:?}");
    }
    assert_eq!(world.all(), [1, 1, 2, 2]);
}

#[test]
fn what_takes_longer_than_its_share_is_done_last_and_alone() {
    // Counting so far takes twice the share, if the machine goes on as it does now.
    let (steps, begun) = (200_000_i32, Instant::now());
    let count = format!("select count(*) from ({ENDLESS} select i from n limit {steps})");
    let database = rusqlite::Connection::open_in_memory().unwrap();
    let counted = database.query_row(&count, [], |row| row.get(0));
    assert_eq!(counted, Ok(i64::from(steps)));
    let a_share = (HASTE / 8).as_nanos() * steps as u128;
    let mut most = 2 * a_share / begun.elapsed().as_nanos();
    // Where it does not, other numbers may do.
    for round in 0..8 {
        let world = World::new(&format!("long-{round}"), "create table t(a integer)");
        let counts = format!("({ENDLESS} select i from n limit {most})");
        let counts = format!("select count(*) as count from {counts}");
        let long = format!("insert into t select 7 from ({counts}) where count > 0");
        let (writer, queries) = hasty(&world, &long);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (ours, now) = (Arc::new(ours), Instant::now());
        let order = [0, 1, 2].map(|query| (&queries[query][4..], now, &ours));
        let outcomes = writer.carry_out_together(&order, &world.words);
        let database = database::open(&world.path, HASTE).unwrap();
        let mut all = database.prepare("select a from t order by rowid").unwrap();
        let all = all.query_map([], |row| row.get(0)).unwrap();
        let all: Vec<i64> = all.map(Result::unwrap).collect();
        let [Some(Outcome::Rows), long, Some(Outcome::Rows)] = outcomes[..] else {
            panic!("the others are done: {outcomes:?}");
        };
        match (long, &all[..]) {
            (Some(Outcome::Rows), [1, 2, 7]) => return,
            (Some(Outcome::Rows), [1, 7, 2]) => most *= 2,
            (Some(Outcome::Late), [1, 2]) => most = most * 2 / 3,
            other => panic!("{other:?}"),
        }
    }
    panic!("it was never done last");
}

#[test]
fn what_was_given_up_before_the_commit_is_not_done() {
    let world = World::new("given-up", "create table t(a integer)");
    // It changes nothing, so that it undoes nothing.
    let (writer, queries) = hasty(&world, &format!("{ENDLESS} select count(*) from n"));
    let [(first, first_asks), (ours, _theirs)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    let (first, ours, now) = (Arc::new(first), Arc::new(ours), Instant::now());
    // What is to be done has more time than it takes until the others have had theirs.
    let asked = [
        (0, now, &first),
        (2, now + 4 * HASTE, &ours),
        (1, now, &ours),
    ];
    let asked = asked.map(|(query, came, asker)| (&queries[query][4..], came, asker));
    let outcomes = thread::scope(|scope| {
        // By then it is done, and waits for what has no end.
        scope.spawn(|| {
            thread::sleep(HASTE / 64);
            drop(first_asks);
        });
        writer.carry_out_together(&asked, &world.words)
    });
    let expected = [Outcome::Late, Outcome::Rows, Outcome::Late].map(Some);
    assert_eq!(outcomes, expected);
    assert_eq!(world.all(), [2]);
}

#[test]
fn who_breaks_a_rule_as_all_is_committed_fails_alone() {
    let world = World::new(
        "deferred",
        "create table t(a integer unique);
         create table of_t(a integer references t(a) deferrable initially deferred);",
    );
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let ours = Arc::new(ours);
    let queries = [
        exec(&["insert into t values (", ")"], &[1]),
        exec(&["insert into of_t values (", ")"], &[8]),
        exec(&["insert into of_t values (", ")"], &[1]),
    ];
    let asked: Vec<_> = (queries.iter())
        .map(|query| (&query[4..], Instant::now(), &ours))
        .collect();
    let outcomes = world.writer.carry_out_together(&asked, &world.words);
    let expected = [Outcome::Rows, Outcome::Broken, Outcome::Rows].map(Some);
    assert_eq!(outcomes, expected);
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
    let long = format!("{ENDLESS} select count(*) from n");
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
    const COUNT: usize = 150;
    let world = World::new("late", "create table t(a integer)");
    let (shared, queries) = endless(&world, Duration::from_millis(200), COUNT);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let begun = Instant::now();
    let answering = thread::spawn(move || run(ours, &shared));
    theirs.write_all(&queries).unwrap();
    theirs.read_exact(&mut [0]).expect("it is greeted");
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
    // One after the other they would take half a minute.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
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
