use super::*;
use crate::loan::LoanKey;
use crate::resource::Share;
use crate::secret::Prover;
use crate::wire::TurnedAway;

const SECRET: &[u8] = b"0123456789abcdef";

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn agent() -> Agent<Lenders> {
    let settings = Settings {
        name: "a".parse().expect("a name"),
        monitors: 1,
        place: String::new(),
        probe: ([127, 0, 0, 1], 1).into(),
        lends: Vec::new(),
        keep_free: 0,
        reclaim_within: Duration::from_secs(1),
        borrow_within: Duration::from_secs(10),
    };
    let numbers = Box::new(|| [3; 32]);
    Agent::new(
        settings,
        Secret::of(SECRET),
        Lenders::default(),
        numbers,
        at(0),
    )
}

/// Answers the agent's greeting as a monitor with this secret does.
fn greet(agent: &mut Agent<Lenders>, secret: &[u8]) -> Vec<Effect> {
    agent.tick(at(0));
    assert_eq!(agent.flush(), [Effect::Connect(0)]);
    agent.connected(at(0));
    let said = agent.flush();
    let [Effect::Say(Message::Hello { nonce: theirs, .. })] = &said[..] else {
        panic!("{said:?}");
    };
    let nonce = [5; 32];
    let proof = Secret::of(secret).prove(Prover::Monitor, &[theirs, &nonce]);
    agent.received(Message::Challenge { nonce, proof }, at(0));
    agent.flush()
}

fn registered() -> Agent<Lenders> {
    let mut agent = agent();
    let said = greet(&mut agent, SECRET);
    let [
        Effect::Say(Message::Proof { .. }),
        Effect::Say(Message::Register(_)),
    ] = &said[..]
    else {
        panic!("{said:?}");
    };
    agent.received(Message::Registered { heartbeat_ms: 1000 }, at(0));
    assert!(agent.status(at(0)).is_registered);
    agent
}

fn borrow(agent: &mut Agent<Lenders>, client: u64) {
    let (request, share) = (8, Share::memory(4096));
    let apart = vec![LoanId(77)];
    let borrow = Local::Borrow {
        request,
        share,
        apart,
    };
    agent.client_said(client, borrow, at(0));
}

fn not_lent(client: u64, why: NotLent) -> Effect {
    Effect::Tell(client, Local::NotLent { request: 8, why })
}

#[test]
fn a_monitor_without_the_secret_is_told_nothing() {
    let mut agent = agent();
    assert_eq!(greet(&mut agent, b"0123456789abcdeg"), [Effect::Disconnect]);
    let trouble = agent.status(at(0)).trouble.expect("it is told");
    assert!(trouble.contains("--key-file"), "{trouble}");
    // It tries again, but not at once.
    agent.tick(at(1000));
    assert_eq!(agent.flush(), []);
    agent.tick(at(2000));
    assert_eq!(agent.flush(), [Effect::Connect(0)]);
}

#[test]
fn who_asks_gets_one_answer_also_without_a_monitor() {
    let mut agent = agent();
    agent.client_opened(1);
    borrow(&mut agent, 1);
    assert_eq!(agent.flush(), []);
    agent.tick(at(10_000));
    assert!(agent.flush().contains(&not_lent(1, NotLent::NoMonitor)));
    agent.leave(at(10_000));
    borrow(&mut agent, 1);
    assert_eq!(agent.flush(), [not_lent(1, NotLent::AgentEnds)]);
    agent.tick(at(30_000));
    let told = agent.flush();
    let is_told = told.iter().any(|effect| matches!(effect, Effect::Tell(..)));
    assert!(!is_told && agent.has_left(), "{told:?}");
}

#[test]
fn what_comes_for_a_borrower_that_is_gone_is_given_back() {
    let mut agent = registered();
    agent.client_opened(1);
    borrow(&mut agent, 1);
    let borrow = Message::Borrow {
        request: 1,
        share: Share::memory(4096),
        apart: vec![LoanId(77)],
    };
    assert_eq!(agent.flush(), [Effect::Say(borrow)]);
    agent.client_closed(1);
    let loan = LoanId(7);
    let (share, key, donor) = (
        Share::memory(4096),
        LoanKey([0; 32]),
        ([127, 0, 0, 1], 1).into(),
    );
    agent.received(
        Message::Lent {
            request: 1,
            loan,
            share,
            key,
            donor,
            sealed_by: None,
        },
        at(1),
    );
    assert_eq!(agent.flush(), [Effect::Say(Message::GiveBack { loan })]);
    assert_eq!(agent.status(at(1)).borrowed, []);
}

#[test]
fn who_has_an_identity_takes_no_plain_loan_unasked() {
    let lent = |donor: [u8; 4], plain_loans, sealed_by| {
        let mut agent = registered().certified("/identity".to_owned(), plain_loans);
        agent.client_opened(1);
        borrow(&mut agent, 1);
        agent.flush();
        let (loan, donor) = (LoanId(7), (donor, 1).into());
        let (request, share, key) = (1, Share::memory(4096), LoanKey([0; 32]));
        let lent = Message::Lent {
            request,
            loan,
            share,
            key,
            donor,
            sealed_by,
        };
        agent.received(lent, at(1));
        (agent.flush(), agent.status(at(1)).borrowed.len())
    };
    let node: NodeName = "b".parse().expect("a name");
    let (far, near) = ([10, 0, 0, 1], [127, 0, 0, 1]);
    let loan = LoanId(7);
    let refused = [
        Effect::Say(Message::GiveBack { loan }),
        not_lent(1, NotLent::Plain),
    ];
    // Another node's donor is nothing of this machine's, whatever address it says.
    for at in [far, near] {
        let (said, count) = lent(at, PlainLoans::Refused, None);
        assert_eq!((&said[..], count), (&refused[..], 0));
        assert_eq!(lent(at, PlainLoans::Refused, Some(node.clone())).1, 1);
        assert_eq!(lent(at, PlainLoans::Taken, None).1, 1);
    }
}

#[test]
fn a_borrower_has_its_own_loans_alone() {
    let mut agent = registered();
    for client in [1, 2] {
        agent.client_opened(client);
    }
    borrow(&mut agent, 1);
    let loan = LoanId(7);
    let (share, key, donor) = (
        Share::memory(4096),
        LoanKey([0; 32]),
        ([127, 0, 0, 1], 1).into(),
    );
    agent.received(
        Message::Lent {
            request: 1,
            loan,
            share,
            key,
            donor,
            sealed_by: None,
        },
        at(1),
    );
    agent.flush();
    // Another neither gives it back nor learns of it.
    agent.client_said(2, Local::GiveBack { loan }, at(1));
    agent.client_said(2, Local::Renew { loan }, at(1));
    let stands = false;
    assert_eq!(
        agent.flush(),
        [Effect::Tell(2, Local::Stands { loan, stands })]
    );
    assert_eq!(agent.status(at(1)).borrowed, [(loan, Share::memory(4096))]);
    // Who says what no borrower says is disconnected, and what it had is given back.
    agent.client_said(1, Local::Stands { loan, stands }, at(1));
    assert_eq!(
        agent.flush(),
        [Effect::Drop(1), Effect::Say(Message::GiveBack { loan })]
    );
}

#[test]
fn who_comes_when_there_are_too_many_is_nobody_whatever_it_says() {
    let mut agent = registered();
    let last = borrowing::CLIENTS_MAX as u64;
    (0..=last).for_each(|client| agent.client_opened(client));
    assert_eq!(agent.flush(), [Effect::Drop(last)]);
    borrow(&mut agent, last);
    let (loan, stands) = (LoanId(7), false);
    agent.client_said(last, Local::Stands { loan, stands }, at(1));
    assert_eq!(agent.flush(), []);
    assert_eq!(agent.status(at(1)).clients, borrowing::CLIENTS_MAX);
    agent.client_opened(last + 1);
    assert_eq!(agent.flush(), [Effect::Drop(last + 1)]);
    agent.client_closed(0);
    agent.client_opened(last + 2);
    assert_eq!(agent.flush(), []);
}

/// What the agent does by a time, of connections.
fn connects(agent: &mut Agent<Lenders>, millis: u64) -> Vec<Effect> {
    agent.tick(at(millis));
    let mut effects = agent.flush();
    effects.retain(|effect| matches!(effect, Effect::Connect(_) | Effect::Disconnect));
    effects
}

fn of_two() -> Agent<Lenders> {
    let mut agent = agent();
    agent.line = Line::new(2, at(0));
    agent
}

#[test]
fn monitors_are_tried_in_turn_and_a_pause_comes_when_none_leads() {
    let mut agent = of_two();
    let away = || Message::Away(TurnedAway::NotLeading);
    assert_eq!(connects(&mut agent, 0), [Effect::Connect(0)]);
    agent.connected(at(0));
    agent.received(away(), at(1));
    // The other is there to be tried at once, and is not reached; then there is a pause.
    assert_eq!(
        connects(&mut agent, 1),
        [Effect::Disconnect, Effect::Connect(1)]
    );
    agent.disconnected(at(2));
    assert_eq!(connects(&mut agent, 2), []);
    assert_eq!(agent.status(at(2)).trouble, None);
    assert_eq!(connects(&mut agent, 202), [Effect::Connect(0)]);
    // One that takes connections and says nothing is not waited for.
    agent.connected(at(0));
    assert_eq!(connects(&mut agent, 2202), [Effect::Disconnect]);
    assert_eq!(connects(&mut agent, 2202), [Effect::Connect(1)]);
}

#[test]
fn a_monitor_that_answers_no_heartbeats_is_left_for_another() {
    for (monitors, leaves) in [(1, false), (2, true)] {
        let mut agent = registered();
        agent.line = Line::new(monitors, at(0));
        agent.line.registered(Duration::from_secs(1), at(0));
        for second in 0..4 {
            agent.received(Message::Heard, at(second * 1000));
            assert_eq!(connects(&mut agent, second * 1000), []);
        }
        for second in 4..7 {
            assert_eq!(connects(&mut agent, second * 1000), []);
        }
        let wanted = match leaves {
            true => vec![Effect::Disconnect],
            false => vec![],
        };
        assert_eq!(connects(&mut agent, 7000), wanted);
    }
}

#[test]
fn who_is_cut_off_while_tls_begins_comes_again_soon() {
    let mut agent = agent();
    agent.tick(at(0));
    agent.flush();
    agent.connected(at(0));
    agent.cut_off("it closed the connection".to_owned(), at(0));
    assert!(agent.flush().contains(&Effect::Disconnect));
    let trouble = agent.status(at(0)).trouble.expect("it is told");
    assert!(trouble.contains("closed"), "{trouble}");
    agent.tick(at(200));
    assert_eq!(agent.flush(), [Effect::Connect(0)]);
}
