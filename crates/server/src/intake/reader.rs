//! Reader: from bytes of a connection to whole requests (paper, section 3.2, *Reader*).
//!
//! What a request is, and what is kept of one that is not whole, is `rhythm_http`'s; here is what
//! becomes of each: it is taken, refused, or waits with its connection for a context.

use crate::intake::parser::Taken;
use crate::pipeline::Pipeline;
use rhythm_http::{Next, Reading, Stall};
use rhythm_net::{ConnectionId, Port};

impl Pipeline {
    /// Bytes arrived.
    pub(crate) fn read(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8]) {
        if let Some(reading) = self.clients.read(id, bytes) {
            self.take_all(port, reading);
        }
    }

    /// A stall is over: takes up the connection's input again. `waited`: it waited for a context.
    pub(crate) fn proceed(&mut self, port: &mut dyn Port, id: ConnectionId, waited: bool) {
        if let Some(reading) = self.clients.proceed(id, waited) {
            self.take_all(port, reading);
        }
    }

    /// Takes as many requests as there are.
    fn take_all(&mut self, port: &mut dyn Port, mut reading: Reading<'_>) {
        let id = reading.connection();
        loop {
            let limits = &self.epoch.site.request_limits;
            match self.clients.next(port, &mut reading, limits, self.now) {
                Next::Nothing => break,
                Next::Request => {
                    let (head, bytes) = (reading.head(), reading.bytes());
                    match self.take(port, id, head, bytes, reading.content()) {
                        Taken::Taken => reading.taken(),
                        Taken::Later => {
                            self.clients.stall(port, id, Stall::Context);
                            self.waiters.push_back(id);
                            self.metrics.stalls.add(1);
                        }
                    }
                }
                // Pages take their content whole.
                Next::Head => {}
                Next::Piece => unreachable!("no content is taken in pieces"),
                Next::Expects => {
                    // The content is asked for only where it would be of use.
                    match self.early_refusal(reading.head(), reading.bytes()) {
                        Some(status) => self.refuse(port, id, status),
                        None => self.clients.send_continue(port, id, self.now),
                    }
                }
                Next::Refuse(status) => self.refuse(port, id, status),
            }
        }
        self.clients.read_done(port, reading, self.now);
    }
}
