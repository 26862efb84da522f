//! What is wrong with a page's call.

use super::request::{Unfit, check_path, literals};
use rhythm_engine::cohort::Argument;
use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};
use rhythm_protocol::http::uri;

/// Tells what is wrong with a call.
pub(super) fn check(call: &PageCall<'_>) -> Option<CallMistake> {
    let mistake = |message: &str, hint: &str| {
        Some(CallMistake {
            part: CallPart::Asked,
            at: None,
            severity: Severity::Error,
            message: message.to_owned(),
            hint: hint.to_owned(),
        })
    };
    let (target, fields) = literals(call.form);
    if uri::decode_bytes(&target, &mut Vec::new()).is_err() {
        let hint = "`%25` is a percent sign; outputs are encoded without that";
        return mistake("a `%` begins no escape", hint);
    }
    let is_dot = |escape: &[u8]| escape.eq_ignore_ascii_case(b"%2e");
    // What is printed is taken for something that fits.
    let printed = call.form.arguments.iter().map(|_| Argument::Int(0));
    if target.windows(3).any(is_dot) || check_path(call.form, printed) == Err(Unfit::Dots) {
        let hint = "write the path that it is to be";
        return mistake("a path without `.` and `..`, please", hint);
    }
    let names = |name: &String| name.eq_ignore_ascii_case("authorization");
    if fields.iter().any(names) && !call.backend.text("token_file").is_empty() {
        let hint = "remove the header, or `token_file` of the backend";
        return mistake("the backend's `token_file` says who asks", hint);
    }
    None
}
