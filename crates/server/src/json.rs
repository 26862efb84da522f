//! Documents of JSON (RFC 8259), out of which values are taken where they lie.

use sonic_rs::LazyValue;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

/// What a value is, by how it begins.
pub(crate) fn kind(value: &LazyValue<'_>) -> Kind {
    match value.as_raw_str().as_bytes().first() {
        Some(b'"') => Kind::Text,
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::List,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'-' | b'0'..=b'9') => Kind::Number,
        _ => Kind::Null,
    }
}

/// A document that was read and cannot be, where it comes to a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreadable;

/// The items of a list.
pub(crate) fn items<'v>(
    list: LazyValue<'v>,
) -> impl Iterator<Item = Result<LazyValue<'v>, Unreadable>> {
    let items = list.into_array_iter().into_iter().flatten();
    items.map(|item| item.map_err(|_| Unreadable))
}

/// Calls `each` with the members of an object, until it says what is wrong.
pub(crate) fn members<'v, E>(
    object: LazyValue<'v>,
    mut each: impl FnMut(&str, LazyValue<'v>) -> Result<(), E>,
) -> Result<Result<(), E>, Unreadable> {
    for member in object.into_object_iter().into_iter().flatten() {
        let (name, value) = member.map_err(|_| Unreadable)?;
        if let Err(wrong) = each(&name, value) {
            return Ok(Err(wrong));
        }
    }
    Ok(Ok(()))
}

/// Where brackets are more than so many deep within each other, if they are anywhere. Up to where
/// the text is no JSON that is what a reader of it meets.
pub(crate) fn too_deep(text: &[u8], depth_max: usize) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > depth_max {
                    return Some(at - 1);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(found) = memchr::memchr2(b'"', b'\\', &text[at..]) {
                    let is_escape = text[at + found] == b'\\';
                    at += found + 1 + usize::from(is_escape);
                    if !is_escape || at >= text.len() {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    None
}
