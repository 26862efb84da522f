//! The device's answers are those of `Bank::answer`.

mod typed;

use rhythm_besim::{Bank, Cents};
use rhythm_engine::cohort::View;
use rhythm_engine_cuda::abi::{LANE_ACTIVE, LANE_FAILED, LANE_FINISHED, LaneResult, NO_TEXT};
use rhythm_engine_cuda::besim::{ANSWER_BYTES, BesimCohort, BesimTables};
use rhythm_engine_cuda::gpu::emulated::{Emulated, LaneOrder};
use rhythm_engine_cuda::gpu::{SharedGpu, scope};
use typed::Typed;

const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(11),
];

/// What memory holds that nobody has written to.
const UNTOUCHED: u8 = 0xa5;

/// A lane: its outcome and its queries.
type Lane = (u8, Vec<Vec<u8>>);

/// Answers a cohort on the device. `None` for places without a query; all that is not an answer
/// must be as it was.
fn answers(
    gpu: &SharedGpu,
    bank: Bank,
    lanes: &[Lane],
    answer_stride: u32,
) -> Vec<Vec<Option<Vec<u8>>>> {
    let query_stride = lanes
        .iter()
        .map(|lane| lane.1.len())
        .max()
        .unwrap_or(0)
        .max(1);
    let mut arena = Vec::new();
    let mut queries = vec![View::default(); lanes.len() * query_stride];
    let mut results = Vec::new();
    for (lane, (outcome, asked)) in lanes.iter().enumerate() {
        results.push(LaneResult {
            outcome: *outcome,
            query_count: asked.len() as u32,
            ..LaneResult::default()
        });
        for (i, query) in asked.iter().enumerate() {
            // At any place of a word, and what follows is no `&`, digit or zero by chance.
            queries[lane * query_stride + i] = View {
                offset: arena.len() as u32,
                length: query.len() as u32,
            };
            arena.extend_from_slice(query);
            arena.extend(b"&77&"[..(lane + i) % 5].iter());
        }
    }
    arena.resize(arena.len().next_multiple_of(16), b'9');
    let answer_base = arena.len();
    let before = arena.clone();
    arena.resize(
        answer_base + queries.len() * answer_stride as usize,
        UNTOUCHED,
    );
    let arena = Typed::new(gpu, &arena);
    let queries = Typed::new(gpu, &queries);
    let views = Typed::new(gpu, &vec![View::default(); queries.items().len()]);
    let results = Typed::new(gpu, &results);
    let cohort = BesimCohort {
        results: results.slice(),
        queries: queries.slice(),
        answers: views.slice(),
        arena: arena.slice(),
        answer_base: answer_base as u32,
        answer_stride,
    };
    let tables = BesimTables::new(gpu, bank).unwrap();
    let stream = gpu.stream().unwrap();
    scope(&**gpu, &[stream], |queue| tables.launch(queue, &cohort)).unwrap();
    assert_eq!(arena.items()[..answer_base], before);
    let take = |slot: usize| {
        let View { offset, length } = views.items()[slot];
        let region =
            &arena.items()[answer_base + slot * answer_stride as usize..][..answer_stride as usize];
        if length == NO_TEXT {
            return None;
        }
        assert_eq!(offset as usize, answer_base + slot * answer_stride as usize);
        let (answer, rest) = region.split_at(length as usize);
        // Stores are of whole words.
        let padding = rest.len() % 8;
        assert!(rest[..padding].iter().all(|byte| *byte == 0));
        assert!(rest[padding..].iter().all(|byte| *byte == UNTOUCHED));
        Some(answer.to_vec())
    };
    let slots = (0..views.items().len()).map(take).collect::<Vec<_>>();
    slots.chunks(query_stride).map(<[_]>::to_vec).collect()
}

/// Compares the answers to these queries, a lane each, in all orders.
fn compare(bank: Bank, queries: &[Vec<u8>]) {
    let lanes: Vec<Lane> = queries
        .iter()
        .map(|query| (LANE_ACTIVE, vec![query.clone()]))
        .collect();
    for order in ORDERS {
        let got = answers(&Emulated::new(order), bank, &lanes, ANSWER_BYTES);
        for (query, got) in queries.iter().zip(got) {
            let mut expected = Vec::new();
            bank.answer(query, &mut expected);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(
                got[0].as_deref().map(text),
                Some(text(&expected)),
                "{}",
                text(query)
            );
        }
    }
}

/// The same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (rhythm_besim::mix::mix64(self.0) % n as u64) as usize
    }
}

/// One good query of each command and more, for a user.
fn good(bank: Bank, user: u32) -> Vec<String> {
    let accounts: Vec<_> = bank.accounts(user).collect();
    let (first, last) = (accounts[0], accounts[accounts.len() - 1]);
    let dates: Vec<_> = bank.bills(user).map(|bill| bill.date).collect();
    let all = [rhythm_besim::Date::from_days(0), rhythm_besim::TODAY];
    let paid: Vec<_> = bank.payments(user, all[0], all[1]).collect();
    let (early, late) = (paid[paid.len() / 2].date, paid[1].date);
    vec![
        format!("1&0&{user}&100000"),
        format!("1&1&{user}"),
        format!("1&2&{user}"),
        format!("1&3&{user}"),
        format!("1&4&{user}&{}", 1 + user % bank.checks(user)),
        format!("1&4&{user}&{}", bank.checks(user)),
        format!("1&5&{user}"),
        format!(
            "1&6&{user}&{}&Joe+Jay&1+Elm%20St%2b&Salem&OR&97301&%28555%29",
            user % 1000
        ),
        format!(
            "1&7&{user}&{}&{}&{}.50",
            user % 10_000_000,
            dates[0],
            user % 977
        ),
        format!("1&8&{user}&{early}&{late}"),
        format!("1&8&{user}&1970-01-01&9999-12-31"),
        format!("1&9&{user}"),
        format!("1&10&{user}&1+Elm%20St&O%27Fallon&MO&63301&a%40b.example&555"),
        format!("1&11&{user}&{}&2026-02-28&{}", last.number, 1 + user % 9999),
        format!(
            "1&12&{user}&{}&{}&{}&2026-01-15",
            first.number,
            last.number,
            Cents(first.balance.0 / 3)
        ),
        format!(
            "1&12&{user}&{}&{}&{}&2024-02-29",
            last.number, first.number, last.balance
        ),
    ]
}

#[test]
fn every_command_for_thousands_of_users() {
    let bank = Bank::new(u32::MAX);
    let users = (1..=1500)
        .chain((1501..99_999).step_by(97))
        .chain([99_999, 100_000, 999_999]);
    let large = [
        9_999_999,
        10_000_000,
        99_999_999,
        100_000_000,
        999_999_999,
        1_000_000_000,
    ];
    let users: Vec<u32> = users.chain(large).chain([u32::MAX - 1, u32::MAX]).collect();
    assert!(users.len() > 2500);
    // Commands together, as in a cohort.
    for command in 0..good(bank, 1).len() {
        let queries: Vec<_> = users
            .iter()
            .map(|user| good(bank, *user)[command].clone().into_bytes())
            .collect();
        compare(bank, &queries);
    }
}

#[test]
fn every_refusal() {
    let bank = Bank::new(100_000);
    let account = bank.accounts(7).next().unwrap();
    let (number, over) = (account.number, Cents(account.balance.0 + 1));
    let other = bank.accounts(7).nth(1).unwrap().number;
    let mut queries: Vec<String> = [
        "",
        "1",
        "1&",
        "&",
        "&&",
        "2&3&7",
        "&1&3&7",
        "01&3&7",
        "%31&3&7",
        "11&3&7",
        "1&x&7",
        "1&13&7",
        "1&4294967299&7",
        "1&-3&7",
        "1&99999999999999999999&7",
        "1&000000000000000003&7",
        "1&0000000000000000003&7",
        "1&0",
        "1&0&",
        "1&00&&&&&&&&&&&",
        "1&3",
        "1&3&7&",
        "1&12&7",
        "1&6&7&1&a&b&c&d&e&f&g",
        "1&6&7&1&a&b&c&d&e&",
        "1&8&7&2026-01-01",
        "1&5&",
        "1&5&0",
        "1&5&100000",
        "1&5&100001",
        "1&5&x",
        "1&5&-1",
        "1&5&+1",
        "1&5&1.0",
        "1&5& 1",
        "1&5&1 ",
        "1&5&4294967303",
        "1&5&99999999999999999999",
        "1&5&000000000000000007",
        "1&5&0000000000000000007",
        "1&4&7&0",
        "1&4&7&200",
        "1&4&7&1000",
        "1&4&7&4294967297",
        "1&4&7&x",
        "1&4&7&",
        "1&8&7&2026-01-32&2026-01-01",
        "1&8&7&2026-01-01&2023-02-29",
        "1&8&7&2024-02-29&2026-01-14",
        "1&8&7&1969-12-31&2026-01-14",
        "1&8&7&0000-01-01&2026-01-14",
        "1&8&7&2025-12-01&2026-1-14",
        "1&8&7&2025-12-01&2026/01-14",
        "1&8&7&2025-12-01&2026-01/14",
        "1&8&7&2025-12-01&2026-01-1x",
        "1&8&7&2025-12-01&2026-01-00",
        "1&8&7&2025-12-01&2026-00-01",
        "1&8&7&2025-12-01&2026-13-01",
        "1&8&7&2026-01-14&2025-12-01",
        "1&8&7&&2025-12-01",
        "1&8&7&20251201&2026-01-14",
        "1&8&7&2100-02-29&9999-12-31",
        "1&8&7&2000-02-29&9999-12-31",
        "1&8&7&2025-04-31&2026-01-14",
        "1&6&7&42&&1&Salem&OR&97301&555",
        "1&6&7&4x&Joe&1&Salem&OR&97301&555",
        "1&6&7&42&%&1&Salem&OR&97301&555",
        "1&6&7&42&%4&1&Salem&OR&97301&555",
        "1&6&7&42&%4g&1&Salem&OR&97301&555",
        "1&6&7&42&a%zz&1&Salem&OR&97301&555",
        "1&6&7&42&%&&Salem&OR&97301&555",
        "1&6&7&42&&%&Salem&OR&97301&555",
        "1&6&7&42&%aF%Fa%00%25%2b%26&1&Salem&OR&97301&%37",
        "1&6&7&%34&Joe&1&Salem&OR&97301&555",
        "1&10&7&a&b&c&d&e&",
        "1&10&7&a&b&c&d&e&%4",
        "1&10&7&%e2%82%AC&b&c&d&e&f",
        "1&7&7&1&2026-01-20&1.234",
        "1&7&7&x&2026-01-20&1.23",
        "1&7&7&1&2026-01-40&1.23",
        "1&7&7&x&2026-01-40&1.234",
        "1&7&7&1&2026-01-20&.5",
        "1&7&7&1&2026-01-20&1.",
        "1&7&7&1&2026-01-20&1.2.",
        "1&7&7&1&2026-01-20&1,5",
        "1&7&7&1&2026-01-20&123456789012",
        "1&7&7&1&2026-01-20&1234567890123",
        "1&7&7&1&2026-01-20&999999999999.99",
        "1&7&7&1&2026-01-20&1e3",
        "1&7&7&1&2026-01-20&1.x",
        "1&7&7&1&2026-01-20&-1",
        "1&7&7&1&2026-01-20&+1",
        "1&7&7&1&2026-01-20&12345678.90",
        "1&7&7&1&2026-01-20&1234567.x9",
        "1&7&7&1&2026-01-20&12345678.9x",
        "1&11&7&x&2026-01-15&1",
        "1&12&7&x&1&1&2026-01-15",
        "1&12&7&1&x&1&2026-01-15",
        "1&12&7&x&1&y&2026-01-15",
        "1&12&7&x&1&1&2026-01-99",
        "1&12&7&1&2&1&2026-01-15",
        "1&12&7&&&&",
    ]
    .map(str::to_owned)
    .to_vec();
    queries.extend([
        format!("1&11&7&{number}&2026-01-15&0"),
        format!("1&11&7&{number}&2026-01-15&1"),
        format!("1&11&7&{number}&2026-01-15&9999"),
        format!("1&11&7&{number}&2026-01-15&10000"),
        format!("1&11&7&{number}&2026-01-15&x"),
        format!("1&11&7&{number}&2026-01-32&1"),
        format!("1&11&7&{}&2026-01-15&1", number + 1),
        format!("1&12&7&{number}&{other}&{over}&2026-01-15"),
        format!("1&12&7&{number}&{other}&{}&2026-01-15", account.balance),
        format!("1&12&7&{number}&{other}&0&2026-01-15"),
        format!("1&12&7&{number}&{number}&1&2026-01-15"),
        format!("1&12&7&{number}&1&1&2026-01-15"),
        format!("1&12&7&1&{number}&1&2026-01-15"),
        format!("1&12&7&{number}&{other}&999999999999.99&2026-01-15"),
    ]);
    let queries: Vec<_> = queries.into_iter().map(String::into_bytes).collect();
    let mut reasons = std::collections::BTreeSet::new();
    for query in &queries {
        let mut answer = Vec::new();
        bank.answer(query, &mut answer);
        if let Some(reason) = answer.strip_prefix(b"<pre>\n1\n") {
            reasons.insert(reason.to_vec());
        }
    }
    assert_eq!(reasons.len(), 13, "there are so many reasons");
    compare(bank, &queries);
}

#[test]
fn any_bytes_get_an_answer() {
    let bank = Bank::new(100_000);
    let mut random = Random(1);
    let mut queries = Vec::new();
    for round in 0..6000 {
        let of_user = good(bank, 1 + random.below(100_000) as u32);
        let mut query = of_user[random.below(of_user.len())].clone().into_bytes();
        for _ in 0..1 + random.below(3) {
            let at = random.below(query.len());
            let byte = match round % 3 {
                0 => random.below(256) as u8,
                _ => b"&%+.-019aFg"[random.below(11)],
            };
            match random.below(3) {
                0 => query[at] = byte,
                1 => query.insert(at, byte),
                _ => drop(query.remove(at)),
            }
        }
        queries.push(query);
    }
    queries
        .extend((0..500).map(|length| (0..length % 90).map(|_| random.below(256) as u8).collect()));
    compare(bank, &queries);
}

#[test]
fn lanes_ask_several_queries_or_none() {
    let bank = Bank::new(100_000);
    let mut random = Random(2);
    for order in ORDERS {
        let mut lanes: Vec<Lane> = Vec::new();
        for lane in 0..333 {
            let outcome = match lane % 7 {
                3 => LANE_FINISHED,
                5 => LANE_FAILED + 7,
                _ => LANE_ACTIVE,
            };
            let queries = (0..random.below(6)).map(|_| {
                let of_user = good(bank, 1 + random.below(100_000) as u32);
                of_user[random.below(of_user.len())].clone().into_bytes()
            });
            lanes.push((outcome, queries.collect()));
        }
        let got = answers(&Emulated::new(order), bank, &lanes, ANSWER_BYTES);
        for ((outcome, queries), got) in lanes.iter().zip(got) {
            for (i, got) in got.iter().enumerate() {
                let expected = queries
                    .get(i)
                    .filter(|_| *outcome == LANE_ACTIVE)
                    .map(|query| {
                        let mut expected = Vec::new();
                        bank.answer(query, &mut expected);
                        expected
                    });
                assert_eq!(*got, expected);
            }
        }
    }
}

#[test]
fn an_answer_without_room_is_none_and_touches_nothing_else() {
    let bank = Bank::new(100_000);
    let queries = ["1&8&7&1970-01-01&9999-12-31", "1&1&7", "1&3&7", "1&2&7"];
    let lanes: Vec<Lane> = queries
        .map(|query| (LANE_ACTIVE, vec![query.as_bytes().to_vec()]))
        .to_vec();
    let lengths = queries.map(|query| {
        let mut answer = Vec::new();
        bank.answer(query.as_bytes(), &mut answer);
        answer.len()
    });
    for stride in [8, 16, 48, 128, 256, ANSWER_BYTES] {
        let got = answers(&Emulated::new(LaneOrder::Ascending), bank, &lanes, stride);
        for (length, got) in lengths.iter().zip(got) {
            assert_eq!(got[0].is_some(), *length <= stride as usize);
        }
    }
}

#[test]
fn the_longest_answer_has_room_but_not_much_too_much() {
    let bank = Bank::new(u32::MAX);
    let mut longest = 0;
    let mut answer = Vec::new();
    for user in (1..20_000).chain(u32::MAX - 20_000..=u32::MAX) {
        for query in good(bank, user) {
            answer.clear();
            bank.answer(query.as_bytes(), &mut answer);
            longest = longest.max(answer.len());
        }
    }
    assert!(
        (longest..longest + 64).contains(&(ANSWER_BYTES as usize)),
        "{longest}"
    );
}
