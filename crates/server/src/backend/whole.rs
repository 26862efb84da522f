//! Answers that have come whole, out of what comes in any pieces.

use super::wire::Unreadable;
use std::borrow::Cow;

/// An answer, and at which byte of the input it ends.
pub(super) type Whole<'i> = (Cow<'i, [u8]>, usize);

/// The first answer, once it is there. Without its end `begun` keeps what there is of it. `end`
/// finds where it ends; it is asked again with more bytes.
///
/// # Errors
/// It is none.
pub(super) fn whole<'i>(
    begun: &mut Vec<u8>,
    input: &'i [u8],
    end: impl FnOnce(&[u8]) -> Result<Option<usize>, Unreadable>,
) -> Result<Option<Whole<'i>>, Unreadable> {
    let before = begun.len();
    if before == 0 {
        if let Some(end) = end(input)? {
            return Ok(Some((Cow::Borrowed(&input[..end]), end)));
        }
        begun.extend_from_slice(input);
        return Ok(None);
    }
    begun.extend_from_slice(input);
    let Some(end) = end(begun)? else {
        return Ok(None);
    };
    let mut bytes = std::mem::take(begun);
    bytes.truncate(end);
    Ok(Some((Cow::Owned(bytes), end - before)))
}
