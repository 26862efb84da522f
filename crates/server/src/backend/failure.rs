//! Why a query to a backend failed, for the log: a lane's error tells its client what to make of
//! it, this tells whoever runs the server what to do about it.

use rhythm_engine::cohort::{LaneError, Misfit};
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// What became of a query that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What its lane fails with.
    pub error: LaneError,
    /// Why, where the backend says.
    pub cause: Option<Cause>,
    /// The backend's address that it has to do with, where it is one, at a TCP port.
    pub address: Option<SocketAddr>,
}

impl Failure {
    /// Whether it may be the doing of what was asked, or of who asked: of several queries that were
    /// asked as one others may be answered.
    pub(crate) fn is_of_query(self) -> bool {
        match self.cause {
            Some(cause) => match cause {
                Cause::Refused | Cause::Unreadable | Cause::Unfit(_) | Cause::Misfit(_) => true,
                Cause::NotSent(_) => true,
                Cause::Late | Cause::TooLong | Cause::TooMany | Cause::LeftAlone => true,
                Cause::Unreachable(_) | Cause::Lost(_) | Cause::Unsent | Cause::Status(_) => false,
                Cause::Unwell | Cause::Undone | Cause::Overload => false,
            },
            None => false,
        }
    }

    /// The cause in words, where that says more than what [became of the query](fmt::Display).
    pub(crate) fn cause_in_words(self) -> Option<String> {
        let cause = self.cause?;
        let is_said = matches!(
            cause,
            Cause::Late | Cause::Status(_) | Cause::Unwell | Cause::Refused | Cause::TooLong
        );
        (!is_said).then(|| cause.to_string())
    }

    /// Whether another request would have fared otherwise: a sign-in that ends so counts as one
    /// that has failed, for it tells a wrong guess from a right one. Not so where all requests of
    /// the time fail alike.
    pub(crate) fn is_of_asker(self) -> bool {
        match self.error {
            LaneError::BackendFailed => {
                // That there are too many, or that it took too long, is of all.
                let is_of_load = matches!(self.cause, Some(Cause::Status(408 | 429)));
                let is_told = matches!(
                    self.cause,
                    Some(Cause::Refused | Cause::NotSent(_) | Cause::Status(300..=499))
                );
                is_told && !is_of_load
            }
            LaneError::BackendRefused | LaneError::BackendTimeout => false,
            LaneError::DeviceFailed | LaneError::MemoryShort | LaneError::SessionsFull => false,
            // A page's `row` takes none of no rows, such as of a name and password that are wrong.
            LaneError::BadAnswer => self.cause != Some(Cause::Unreadable),
            _ => true,
        }
    }
}

impl From<LaneError> for Failure {
    fn from(error: LaneError) -> Failure {
        Failure {
            error,
            cause: None,
            address: None,
        }
    }
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Failure {
        cause.at(None)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Some(Cause::Unreachable(_)) => f.write_str("the backend could not be reached"),
            Some(Cause::Lost(_)) => f.write_str("the backend hung up"),
            Some(Cause::Status(status)) => write!(f, "the backend answered with status {status}"),
            Some(Cause::Unwell) => f.write_str("the backend answered that it is not in order"),
            Some(Cause::Refused) => {
                f.write_str("the backend answered that it does not do what it was asked")
            }
            Some(Cause::NotSent(_)) => f.write_str("the backend was not asked"),
            Some(Cause::TooLong) => f.write_str("what the backend is asked is too long"),
            _ => self.error.fmt(f),
        }
    }
}

/// How a backend fails, or a query to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No connection could be opened.
    Unreachable(io::ErrorKind),
    /// A connection with queries on it broke; or, where there is no error, was closed.
    Lost(Option<io::ErrorKind>),
    /// A query was not answered in time.
    Late,
    /// Nor did it leave in time.
    Unsent,
    /// An answer broke the protocol or a limit.
    Unreadable,
    /// An answer of the protocol is not what its call takes, in words.
    Unfit(&'static str),
    /// The rows of an answer are none that its page takes.
    Misfit(Misfit),
    /// It answered with this status of HTTP's: it is not in order, or does not do what it was
    /// asked.
    Status(u16),
    /// It answered that it is not in order.
    Unwell,
    /// It answered that it does not do what it was asked.
    Refused,
    /// It was not asked, since what is asked cannot be said to it, in words.
    NotSent(&'static str),
    /// It answered that it has undone what it was asked, for what others asked of it: it can be
    /// sent again.
    Undone,
    /// It failed of late, and is not asked.
    LeftAlone,
    /// Too many queries are under way, of all or of one who asks.
    TooMany,
    /// More is asked than it answers in time.
    Overload,
    /// A query was too long to be sent.
    TooLong,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Cause::Unreachable(why) => {
                return write!(f, "no connection could be opened: {why}");
            }
            Cause::Lost(Some(why)) => {
                return write!(f, "a connection broke while requests were on it: {why}");
            }
            Cause::Lost(None) => "a connection was closed while requests were on it",
            Cause::Late => "it did not answer in time",
            Cause::Unsent => "no connection was free for it in time",
            Cause::Unreadable => "an answer could not be read",
            Cause::Unfit(why) => return write!(f, "an answer could not be read: {why}"),
            Cause::Unwell => "it answered that it is not in order",
            Cause::Refused => "it answered that it refuses the request",
            Cause::NotSent(why) => return write!(f, "the request was not sent: {why}"),
            Cause::Undone => "it answered that others stood in the request's way",
            Cause::Misfit(Misfit::NoInteger(column)) => {
                let column = column + 1;
                return write!(
                    f,
                    "column {column} of a row is no integer, as the page has it"
                );
            }
            Cause::Misfit(Misfit::NoFloat(column)) => {
                let column = column + 1;
                return write!(
                    f,
                    "column {column} of a row is no float, as the page has it"
                );
            }
            Cause::Misfit(Misfit::NoText(column)) => {
                return write!(f, "column {} of a row is not UTF-8", column + 1);
            }
            Cause::Misfit(Misfit::Cells) => {
                "a row has more or fewer columns than the page's `rows` name"
            }
            Cause::Misfit(Misfit::ManyRows) => "it has too many rows",
            Cause::Misfit(Misfit::NotOneRow) => {
                "it has no row, or several, and the page's `row` takes one"
            }
            Cause::Status(status) => return write!(f, "it answered with status {status}"),
            Cause::LeftAlone => "it failed of late, and is left alone for now",
            Cause::TooMany => {
                "too many requests to it, or bytes of them, are under way, of all or of one user \
                 (`calls_per_user_max`)"
            }
            Cause::Overload => "more is asked of it than it answers in time",
            Cause::TooLong => "the request is too long",
        };
        f.write_str(what)
    }
}

impl Cause {
    /// A failure for this cause, of a connection to there.
    pub(crate) fn at(self, address: Option<SocketAddr>) -> Failure {
        let error = match self {
            Cause::Unreachable(_) | Cause::Lost(_) => LaneError::BackendFailed,
            Cause::Status(_) | Cause::Unwell | Cause::Refused => LaneError::BackendFailed,
            Cause::NotSent(_) | Cause::Undone => LaneError::BackendFailed,
            Cause::Late | Cause::Unsent => LaneError::BackendTimeout,
            Cause::Unreadable | Cause::Unfit(_) | Cause::Misfit(_) => LaneError::BadAnswer,
            Cause::LeftAlone | Cause::TooMany | Cause::Overload => LaneError::BackendRefused,
            Cause::TooLong => LaneError::TextTooLong,
        };
        Failure {
            error,
            cause: Some(self),
            address,
        }
    }

    /// What to do about a backend that fails so.
    pub(super) fn cure(self) -> &'static str {
        match self {
            Cause::Unreachable(_) => "start it, or mend its address",
            Cause::Lost(_) => "see in its own log why it hangs up",
            Cause::Late | Cause::Unsent => "see what slows it down, or raise its `timeout`",
            Cause::Unreadable => "see whether its address is that of a server of its `kind`",
            Cause::Unfit(_) | Cause::Misfit(_) => {
                "see whether the page's `rows` are what it answers"
            }
            Cause::Status(_) | Cause::Unwell | Cause::Refused => "see in its own log what it lacks",
            Cause::NotSent(_) => {
                "bound the parameters that go into it, by `min_length`, `one_of` or their type"
            }
            Cause::Undone => "see which requests meet, or raise its `retries_max`",
            Cause::LeftAlone => "see what the log says of it before",
            Cause::TooMany => "see what slows it down, or raise its `calls_per_user_max`",
            Cause::Overload => "see what slows it down, or let it have more `connections_max`",
            Cause::TooLong => "bound the parameters that go into it by `max_length`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_where_the_failure_itself_does_not_tell_it() {
        for cause in [
            Cause::Refused,
            Cause::Unwell,
            Cause::Late,
            Cause::Status(500),
        ] {
            assert_eq!(Failure::from(cause).cause_in_words(), None);
        }
        let unreachable = Failure::from(Cause::Unreachable(io::ErrorKind::ConnectionRefused));
        let told = unreachable.cause_in_words().unwrap();
        assert!(told.contains("connection refused"), "{told}");
        assert_eq!(
            Failure::from(LaneError::BackendFailed).cause_in_words(),
            None
        );
    }
}
