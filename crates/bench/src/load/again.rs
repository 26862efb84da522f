//! One page, or one of several by a key, again and again: for servers that are compared. What the
//! answers must be was found out before, and is told by who compares.

mod right;

pub(crate) use right::Right;

use super::reader::BODY_MAX;
use super::rng::Rng;
use super::walk::{Answer, Fault, Kind, Next, PageShare, Walk, Workload};
use rhythm_net::Time;
use rhythm_protocol::http::head::Known;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Answers to one request that are known to be right, at most.
const KNOWN_MAX: usize = 4;
/// Of answers that are drawn anew each time, one of so many is looked through: the load has a
/// processor, and is not to be what is measured.
const DRAWN_EVERY: u64 = 32;

/// Says what is wrong with the content of an answer to the request of this number, as it was sent.
pub(crate) type Look = dyn Fn(usize, &[u8]) -> Result<(), String> + Send + Sync;

/// What to ask for, and what must come.
#[derive(Clone)]
pub(crate) struct Again {
    /// The requests, each as often as the others.
    pub(crate) asked: Arc<[Asked]>,
    /// Whether answers must say that they are gzip; else they must say nothing.
    pub(crate) is_gzip: bool,
    /// Whether answers are drawn anew each time.
    pub(crate) is_drawn: bool,
    /// Looks at those that are none of the known ones.
    pub(crate) look: Arc<Look>,
    /// Answers so far, to all who load by this.
    pub(crate) answers: Arc<AtomicU64>,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// All its bytes.
    pub(crate) request: Vec<u8>,
    /// What it is for people.
    pub(crate) target: String,
    /// A right answer, its content as it was sent.
    pub(crate) answer: Right,
}

impl Workload for Again {
    type Walk = Repeated;

    const SERVICE: &'static str = "the case";

    fn pages(&self) -> Vec<PageShare> {
        let (name, share) = ("page", 100.0);
        vec![PageShare { name, share }]
    }

    fn is_walk(&self) -> bool {
        false
    }

    fn check(&self, _: bool) -> Result<(), &'static str> {
        match self.asked.is_empty() {
            true => Err("there must be something to ask for"),
            false => Ok(()),
        }
    }

    fn walk(&self, _: usize, _: usize, _: bool) -> Repeated {
        Repeated {
            known: (self.asked.iter())
                .map(|asked| vec![asked.answer.clone()])
                .collect(),
            again: self.clone(),
            drawn: 0,
        }
    }
}

/// Who asks.
pub(crate) struct Repeated {
    again: Again,
    /// Right answers to each request, the latest first.
    known: Vec<Vec<Right>>,
    /// Drawn answers so far.
    drawn: u64,
}

impl Debug for Repeated {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repeated").finish_non_exhaustive()
    }
}

impl Repeated {
    /// Whether the content is right.
    fn content(&mut self, ask: usize, body: &[u8]) -> Result<(), Fault> {
        let known = &mut self.known[ask];
        if let Some(at) = known.iter().position(|known| known.is(body)) {
            known.swap(0, at);
            return Ok(());
        }
        if self.again.is_drawn {
            self.drawn += 1;
            if !self.drawn.is_multiple_of(DRAWN_EVERY) {
                return Ok(());
            }
        }
        (self.again.look)(ask, body).map_err(|reason| Fault::Invalid {
            kind: "another page".to_owned(),
            reason,
            offset: 0,
        })?;
        if !self.again.is_drawn && !known.iter_mut().any(|known| known.learn(body)) {
            known.truncate(KNOWN_MAX - 1);
            known.insert(0, Right::new(body.to_owned()));
        }
        Ok(())
    }
}

impl Walk for Repeated {
    const INFLATES: bool = false;
    const BODY_MAX: usize = BODY_MAX;

    type Ask = usize;
    type Visit = ();
    type Expected = ();

    fn arrive(&mut self, _: Time, _: &mut Rng, _: &mut VecDeque<usize>) {}

    fn next(&mut self, (): &mut (), rng: &mut Rng) -> Option<Next<usize>> {
        let ask = match self.again.asked.len() {
            1 => 0,
            many => rng.below(u32::try_from(many).unwrap_or(u32::MAX)) as usize,
        };
        Some(Next { ask, thinks: false })
    }

    fn leave(&mut self, (): &mut ()) -> Option<usize> {
        None
    }

    fn ask(
        &mut self,
        ask: usize,
        (): &mut (),
        _: &mut Rng,
        _: &str,
        out: &mut Vec<u8>,
        (): &mut (),
    ) -> Result<(), usize> {
        out.extend_from_slice(&self.again.asked[ask].request);
        Ok(())
    }

    fn kind(&self, _: usize) -> Kind {
        Kind::Page(0)
    }

    fn describe(&self, ask: usize) -> String {
        self.again.asked[ask].target.clone()
    }

    fn judge(
        &mut self,
        ask: usize,
        (): &(),
        answer: &Answer<'_>,
        (): &mut (),
    ) -> Result<(), Fault> {
        self.again.answers.fetch_add(1, Ordering::Relaxed);
        match answer.head.status() {
            200 => {}
            status => return Err(Fault::Error(format!("status {status}"))),
        }
        let encoding = answer.known(Known::ContentEncoding);
        if encoding.eq_ignore_ascii_case(b"gzip") != self.again.is_gzip {
            return Err(Fault::invalid("another encoding"));
        }
        self.content(ask, answer.body)
    }

    fn follow(
        &mut self,
        _: usize,
        (): &(),
        _: &Answer<'_>,
        (): &mut (),
        _: &mut Rng,
        _: &mut VecDeque<usize>,
    ) {
    }

    fn goes_on(&mut self, _: usize, _: bool, (): &mut ()) -> bool {
        true
    }

    fn lost(&mut self, (): &mut ()) {}

    fn given_up(&mut self, (): &mut ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(is_drawn: bool) -> Repeated {
        let asked = Asked {
            request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            target: "/".to_owned(),
            answer: Right::new(b"page".to_vec()),
        };
        let look = |_: usize, body: &[u8]| match body.starts_with(b"page") {
            true => Ok(()),
            false => Err("it does not begin with page".to_owned()),
        };
        let again = Again {
            asked: [asked].into(),
            is_gzip: false,
            is_drawn,
            look: Arc::new(look),
            answers: Arc::default(),
        };
        again.walk(0, 1, true)
    }

    #[test]
    fn whatever_is_not_known_is_looked_at_and_right_ones_are_known_then() {
        let mut walk = repeated(false);
        for body in ["page", "page 2", "page 3", "page 4", "page 5", "page 2"] {
            walk.content(0, body.as_bytes()).expect("it is right");
        }
        let known: Vec<_> = (walk.known[0].iter().map(|known| &known.content[..])).collect();
        assert_eq!(known.len(), KNOWN_MAX);
        assert_eq!(known[0], b"page 2");
        let wrong = walk.content(0, b"another");
        assert!(matches!(wrong, Err(Fault::Invalid { reason, .. }) if reason.contains("begin")));
    }

    #[test]
    fn pages_with_a_token_each_are_not_looked_at_for_ever() {
        let looks = Arc::new(AtomicU64::new(0));
        let mut walk = repeated(false);
        let seen = looks.clone();
        walk.again.look = Arc::new(move |_, _| {
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        for number in 0..1000_u64 {
            let token = format!(
                "{:040x}",
                u128::from(number) * 0x1234_5678_9abc_def1_2345_6789
            );
            walk.content(0, format!("page {token}").as_bytes())
                .expect("it is right");
        }
        let looks = looks.load(Ordering::Relaxed);
        assert!(looks < 20, "{looks} of 1000 were looked at");
    }

    #[test]
    fn of_drawn_answers_some_are_looked_at() {
        let mut walk = repeated(true);
        let wrong = (0..DRAWN_EVERY).filter(|_| walk.content(0, b"another").is_err());
        assert_eq!(wrong.count(), 1);
        assert_eq!(walk.known[0].len(), 1);
    }
}
