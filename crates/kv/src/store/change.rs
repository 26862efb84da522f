//! What a write does: the decision of [`Pinned::update`](super::Pinned::update), in values.

/// What becomes of a key, decided by a command from what the key has now.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Nothing.
    Keep,
    /// The key gets an item, new or in the place of the current one.
    Store(New<'a>),
    /// The current item stays, but for this. It is never refused.
    Touch(Touch),
    /// The current item is gone.
    Remove,
}

/// What changes of an item that stays. Its CAS id does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The second at which it expires; 0: never.
    pub expires: u32,
    /// A client wins the right to renew it (see [`Item::is_won`](super::Item::is_won)): of all that
    /// try, one finds that nobody has it.
    pub wins: bool,
    /// It is fetched now (see [`Item::access`](super::Item::access)), which who decides may tell
    /// only so: a decision is made again where there was no room for what it came to.
    pub fetches: bool,
}

/// An item that is stored.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Its value.
    pub value: Value<'a>,
    /// The client's flags.
    pub flags: u32,
    /// The second at which it expires; 0: never.
    pub expires: u32,
    /// Its CAS id; none: the store's next one.
    pub cas: Option<u64>,
    /// What is noted of it from the start.
    pub marks: Marks,
}

/// What is noted of an item beside what a client stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It was invalidated.
    pub stale: bool,
    /// Some client has won the right to renew it.
    pub won: bool,
    /// It was ever fetched.
    pub fetched: bool,
    /// Its key came in base64, and is told so.
    pub encoded: bool,
}

/// The value of an item that is stored. All but `Bytes` and `Number` need a current item.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// The current value, and these bytes behind it.
    Appended(&'a [u8]),
    /// These bytes, and the current value behind them.
    Prepended(&'a [u8]),
    /// The current value; its last access stays, too.
    Same,
    /// A number in decimal, and blanks behind it until it is `width` bytes long.
    Number {
        /// The number.
        number: u64,
        /// The least length in bytes.
        width: usize,
    },
}

/// What [`Pinned::update`](super::Pinned::update) did.
#[derive(Clone, Copy, Debug)]
pub struct Updated<T> {
    /// What the decision said beside the change.
    pub outcome: T,
    /// The CAS id of the item that was stored; 0 where none was.
    pub cas: u64,
}

/// Why an item was not stored. The key keeps what it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// Key and value are longer than the largest item.
    #[error("object too large for cache")]
    TooLarge,
    /// There is no memory left, and items may not be evicted or it would not help.
    #[error("out of memory storing object")]
    OutOfMemory,
}
