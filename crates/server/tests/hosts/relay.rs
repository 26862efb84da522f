//! A host that asks another server over connections of its own.

use rhythm_http::{AnswerShape, AnswerSlot, Answers, Host, Request};
use rhythm_net::{ConnectionId, Ended, Outgoing, Peer};
use std::net::SocketAddr;

/// Sends a request's query to another server and answers with what that says until it closes.
#[derive(Default)]
pub(crate) struct Relay {
    pub(crate) to: Option<SocketAddr>,
    pub(crate) under_way: Vec<Call>,
}

pub(crate) struct Call {
    pub(crate) connection: ConnectionId,
    pub(crate) slot: AnswerSlot,
    pub(crate) shape: AnswerShape,
    pub(crate) out: Outgoing,
    pub(crate) heard: Vec<u8>,
}

impl Relay {
    pub(crate) fn call(&mut self, connection: ConnectionId) -> &mut Call {
        let mut calls = self.under_way.iter_mut();
        let found = calls.find(|call| call.connection == connection);
        found.expect("its own")
    }
}

impl Host for Relay {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request { slot, shape, .. } = request;
        let to = self.to.expect("a server");
        let Ok(connection) = answers.port().connect(&Peer::tcp("far", to)) else {
            return answers.error(slot, shape, 502, "");
        };
        let mut out = Outgoing::new();
        let target = request.head.target().of(request.bytes);
        out.write(|bytes| bytes.extend_from_slice(target));
        self.under_way.push(Call {
            connection,
            slot,
            shape,
            out,
            heard: Vec::new(),
        });
    }

    fn owns(&self, connection: ConnectionId) -> bool {
        let mut calls = self.under_way.iter();
        calls.any(|call| call.connection == connection)
    }

    fn connected(&mut self, answers: &mut Answers<'_>, connection: ConnectionId) {
        let _ = self.call(connection).out.flush(answers.port(), connection);
    }

    fn received(&mut self, _: &mut Answers<'_>, connection: ConnectionId, bytes: &[u8]) {
        self.call(connection).heard.extend_from_slice(bytes);
    }

    fn ended(&mut self, answers: &mut Answers<'_>, connection: ConnectionId, how: Ended) {
        let index = (self.under_way.iter()).position(|call| call.connection == connection);
        let call = self.under_way.swap_remove(index.expect("its own"));
        match how {
            Ended::PeerFinished => {
                answers.port().close(connection);
                answers.answer(call.slot, call.shape, 200, &call.heard, |_| {});
            }
            Ended::Failed(_) => answers.error(call.slot, call.shape, 502, ""),
        }
    }
}
