//! The session array: who is logged in, in a fixed number of slots that all worker threads share
//! (section 4.3.1 of the Rhythm paper).
//!
//! ```text
//!   SessionId = slot (32 bits) + secret (128 random bits)
//!                 |
//!   slots:  [ state | secret      | user ]   32 bytes, two to a cache line
//!             |       |             `-------- a free slot keeps its link in the free list here
//!             |       `---------------------- what only the user's cookie knows
//!             `------------------------------ generation (odd: live) and tick of the last use
//!   free lists: [ head, count ] [ head, count ] ...      a few, to spread the contention
//! ```
//!
//! - [`id`](SessionId): the id and its text in the cookie;
//! - `slot`: one slot, and why no reader ever sees half of a change;
//! - `free`: the lists of free slots;
//! - `users`: which slots a user's sessions are in;
//! - `sign_ins`: how often users sign in, and addresses fail to;
//! - `fields`: what they keep beside their user, and `layout`: where in that each field is;
//! - `shared`: which of them began on other machines, where several share them;
//! - `array`: creating, looking up, destroying and expiring.
//!
//! It departs from the paper, whose array is a hash table with a bucket for each lane of a cohort
//! and whose id is a hash of bucket and index. Such an id can be computed by anyone, and buckets
//! fill up unevenly. Here an id names its slot and proves itself by 128 random bits, and free slots
//! are kept in lists, so that creating takes constant time however full the array is; conflicts
//! between threads are settled by compare-and-swap instead of by who owns a bucket.
//!
//! The array reads no clock and no entropy: time and random bits come from the caller, so that a
//! simulation can repeat a run exactly.

mod array;
mod atomic;
mod fields;
mod free;
mod id;
mod layout;
mod shared;
mod sign_ins;
mod slot;
#[cfg(test)]
mod tests;
mod users;

pub use array::{Full, Millis, SessionArray, SessionRules};
pub use id::SessionId;
pub use layout::{StoredFields, StoredValue, TooLong};
pub use sign_ins::{SignInRules, SignIns, TooMany};
