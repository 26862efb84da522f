//! Greetings: what is said before the first query.

use super::super::*;
use super::world::*;
use crate::backend::http_client::Responses;
use crate::backend::{Awaited, Greeting, QueryAnswers};
use rhythm_engine::cohort::{Argument, Queries};
use rhythm_engine::program::Call;
use rhythm_net::testing::TestPort;

/// A wire that says `hello` and must be told `welcome` before it is asked anything.
#[derive(Debug)]
struct Polite(PlainWire);

impl Wire for Polite {
    type Connection = Responses;

    fn greet(
        &mut self,
        _: &mut Responses,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Unreadable> {
        match input {
            b"" => {
                out.extend_from_slice(b"hello");
                Ok(Greeting::More)
            }
            _ if input.starts_with(b"welcome") => Ok(Greeting::Done { used: 7 }),
            _ => Err(Unreadable),
        }
    }

    fn encode<'a>(
        &mut self,
        responses: &mut Responses,
        number: u64,
        call: &Call,
        arguments: impl Iterator<Item = Argument<'a>>,
        out: &mut Vec<u8>,
    ) {
        self.0.encode(responses, number, call, arguments, out);
    }

    fn decode(
        &mut self,
        responses: &mut Responses,
        input: &[u8],
        awaited: &Awaited,
        answers: &mut QueryAnswers,
    ) -> Result<(usize, Option<Verdict>), Unreadable> {
        self.0.decode(responses, input, awaited, answers)
    }
}

#[test]
fn nothing_is_asked_before_the_greeting_is_over() {
    // An answer that nobody asked for is found though it comes with the greeting's end.
    let too_much = format!("welcome{}", response(200, "1"));
    for (said, goes_on) in [
        (&b"welcome"[..], true),
        (b"go away", false),
        (too_much.as_bytes(), false),
    ] {
        let wire = Polite(PlainWire::new());
        let mut port = TestPort::default();
        let peers = vec![Peer::tcp("sim", "10.0.0.1:81".parse().unwrap())];
        let mut pool = ConnectionPool::new(wire, "sim", peers, options());
        let mut queries = Queries::default();
        assert!(queries.push(0, [Argument::Int(7)].into_iter()));
        let batch = Batch {
            fields: &[],
            call: &call(&["1&3&", ""], false),
            queries: &queries,
            order: &order(&queries),
            asks: &[ask(0, 1, 1)],
            step: 0,
            deadline: Time::NEVER,
        };
        pool.submit(&mut port, batch, Time::ZERO);
        pool.turn_ends(&mut port, Time::ZERO);
        let mut greet = || {
            let id = *port.connections.keys().next().unwrap();
            port.connections.get_mut(&id).unwrap().open = true;
            pool.connected(&mut port, id, Time::ZERO);
            pool.turn_ends(&mut port, Time::ZERO);
            assert_eq!(
                std::mem::take(&mut port.connections.get_mut(&id).unwrap().sent),
                b"hello"
            );
            pool.received(&mut port, id, said, Time::ZERO);
            pool.turn_ends(&mut port, Time::ZERO);
            id
        };
        let id = greet();
        if !goes_on {
            // It is tried once more, and not without an end.
            greet();
        }
        assert_eq!(port.connections.len(), usize::from(goes_on));
        assert_eq!(pool.owns(id), goes_on);
        let sent = port
            .connections
            .get(&id)
            .map(|c| c.sent.starts_with(b"GET /besim?1&3&7 "));
        assert_eq!(sent, goes_on.then_some(true));
    }
}
