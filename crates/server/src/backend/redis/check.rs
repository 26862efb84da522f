//! What is wrong with a page's command: what no page can use, and, where the server can be asked as
//! the page is compiled, what it does not know.

use super::access::Access;
use super::client::{Told, ask};
use super::commands::refused;
use super::greeting::Refusal;
use crate::backend::waited::Absent;
use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{CallMistake, CallPart, PageCall};

/// Those that could not be asked.
static ABSENT: Absent<Refusal> = Absent::new();

/// Tells what is wrong with a call.
pub(super) fn check(call: &PageCall<'_>) -> Option<CallMistake> {
    let mistake = |severity, message: String, hint: &str| {
        Some(CallMistake {
            part: CallPart::Asked,
            at: None,
            severity,
            message,
            hint: hint.to_owned(),
        })
    };
    let error = Severity::Error;
    let words: Vec<Option<String>> = (call.form.literal_words().into_iter())
        .map(|word| Some(String::from_utf8_lossy(&word?).to_ascii_uppercase()))
        .collect();
    let Some(Some(name)) = words.first() else {
        let message = "the name of a command is written out, not printed".to_owned();
        let hint = "two steps, each with a `when`, ask one thing or another";
        return mistake(error, message, hint);
    };
    if let Some(refused) = refused(&words) {
        return mistake(error, format!("{name} {}", refused.why), refused.hint);
    }
    let told = ABSENT.unless_absent(call.backend, || {
        let access = Access::of(call.backend).map_err(|cause| Refusal {
            cause,
            cure: "mend that",
        })?;
        ask(&access, name.as_bytes())
    });
    match told {
        Err(refusal) => {
            let (backend, flags) = (&call.backend.name, &call.backend.flags);
            let why = flags.told(&refusal.cause);
            let message = format!("commands of the backend `{backend}` cannot be checked: {why}");
            mistake(Severity::Warning, message, &flags.told(refusal.cure))
        }
        Ok(Told::Unknown) => {
            let message = format!("the server knows no command {name}");
            let hint = "each word is a string of its own: [\"HGET\", \"user:{{ id }}\", \"name\"]";
            mistake(error, message, hint)
        }
        Ok(Told::Words(wanted)) if !fits(words.len(), wanted) => {
            let least = if wanted < 0 { "at least " } else { "" };
            let (wanted, given) = (wanted.unsigned_abs(), words.len());
            let message = format!("{name} has {least}{wanted} words with its name, not {given}");
            mistake(error, message, "each word is a string of its own")
        }
        Ok(Told::Words(_) | Told::Nothing) => None,
    }
}

/// Whether a command of so many words may have so many, at least where that is negative.
fn fits(words: usize, wanted: i64) -> bool {
    let words = i64::try_from(words).unwrap_or(i64::MAX);
    match wanted < 0 {
        true => words >= wanted.saturating_neg(),
        false => words == wanted,
    }
}
