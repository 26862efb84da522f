//! What is wrong with a page's call.

use super::request;
use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};

/// Tells what is wrong with a call.
pub(super) fn check(call: &PageCall<'_>) -> Option<CallMistake> {
    let mistake = |part, message: &str, hint: &str| {
        Some(CallMistake {
            part,
            at: None,
            severity: Severity::Error,
            message: message.to_owned(),
            hint: hint.to_owned(),
        })
    };
    let words = call.form.literal_words();
    // What is printed is taken for something that can be asked.
    let tried: Vec<&[u8]> = words
        .iter()
        .map(|word| word.as_deref().unwrap_or(b"1"))
        .collect();
    if let Err(unfit) = request::write(&tried, &mut Vec::new()) {
        let hint = "a key has 1 to 250 bytes, `ttl` is in seconds, `by` and `initial` from 0 on";
        return mistake(CallPart::Asked, unfit, hint);
    }
    if let [_, _, _, Some(initial), ttl] = &words[..]
        && initial.is_empty()
        && ttl.as_deref() != Some(b"0")
    {
        let hint = "initial = 0, say: what there is where there was nothing, kept for `ttl`";
        return mistake(
            CallPart::Asked,
            "`ttl` is for what begins with `initial`",
            hint,
        );
    }
    if call.has_name && call.columns.len() != 1 {
        let hint = match words.first() {
            Some(Some(verb)) if verb == b"get" => "rows = \"found(text)\"",
            Some(Some(verb)) if verb == b"incr" || verb == b"decr" => "rows = \"counted(n:int)\"",
            _ => "row = \"done(changed:int)\"",
        };
        return mistake(CallPart::Columns, "memcached answers one column", hint);
    }
    None
}
