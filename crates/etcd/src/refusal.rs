//! What an answer of etcd's says that is none.
//!
//! The gateway writes the same error in several ways: `{"error", "code", "message"}` up to 3.5,
//! `{"code", "message"}` from 3.6 on, and either as an object under `error` where an answer is a
//! stream, such as a renewal's. The code is gRPC's; HTTP's follows from it, and says less. What
//! etcd does it says with a header, under `result` where an answer is a stream: all else that says
//! that it is well is somebody else's.

use serde_json::Value;

/// Why it is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// What it is about is not there, such as a lease.
    NotFound(String),
    /// All space is used up.
    NoSpace(String),
    /// It cannot be done now, or here: by a member that starts, ends, has too much to do, or does
    /// not know who leads.
    Now(String),
    /// It is not done, whoever is asked.
    Final(String),
    /// Who says so is not etcd.
    Stranger(String),
}

/// Characters that are told of what an answer says.
const TEXT_MAX: usize = 200;

/// gRPC's codes.
const CANCELED: u64 = 1;
const UNKNOWN: u64 = 2;
const DEADLINE_EXCEEDED: u64 = 4;
const NOT_FOUND: u64 = 5;
const RESOURCE_EXHAUSTED: u64 = 8;
const FAILED_PRECONDITION: u64 = 9;
const ABORTED: u64 = 10;
const INTERNAL: u64 = 13;
const UNAVAILABLE: u64 = 14;
const DATA_LOSS: u64 = 15;
const UNAUTHENTICATED: u64 = 16;

/// What somebody at etcd's address says for people: on one line of a log, and no more than that.
pub(crate) fn legible(said: &str) -> String {
    let said = said.trim().chars().take(TEXT_MAX);
    said.map(|sign| match sign.is_control() {
        true => '\u{fffd}',
        false => sign,
    })
    .collect()
}

/// Why this answer is none, if it is none.
pub(crate) fn read(status: u16, answer: &Value) -> Option<Refusal> {
    let error = &answer["error"];
    let headers = [&answer["header"], &answer["result"]["header"]];
    if status == 200 && error.is_null() && headers.into_iter().any(Value::is_object) {
        return None;
    }
    let codes = [&error["grpc_code"], &error["code"], &answer["code"]];
    let said = [&error["message"], &answer["message"], error, answer];
    let said = said.into_iter().find_map(Value::as_str);
    let said = said.map_or_else(|| legible(&answer.to_string()), legible);
    // Who is in between may have codes of his own, such as HTTP's.
    let mut codes = codes.into_iter().filter_map(Value::as_u64);
    let code = codes.find(|code| (CANCELED..=UNAUTHENTICATED).contains(code));
    Some(match code {
        Some(NOT_FOUND) => Refusal::NotFound(said),
        Some(RESOURCE_EXHAUSTED) if said.contains("space exceeded") => Refusal::NoSpace(said),
        // Not the one that leads, a learner; a proposal that was dropped, which has no code.
        Some(FAILED_PRECONDITION | UNKNOWN) => Refusal::Now(said),
        Some(CANCELED | DEADLINE_EXCEEDED | RESOURCE_EXHAUSTED | ABORTED) => Refusal::Now(said),
        Some(INTERNAL | UNAVAILABLE | DATA_LOSS) => Refusal::Now(said),
        Some(_) => Refusal::Final(said),
        // Somebody in between says it.
        None if matches!(status, 200 | 408 | 429 | 500..) => Refusal::Now(said),
        None => Refusal::Stranger(said),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_a_line_of_so_many_characters() {
        let forged = "no\n2026-11-30 INFO all is well\r\u{1b}[2J\u{85}\n";
        let one_line = "no\u{fffd}2026-11-30 INFO all is well\u{fffd}\u{fffd}[2J";
        for said in [forged.to_owned(), "ä".repeat(1 << 20)] {
            let all = [
                serde_json::json!({ "code": 3, "message": said }),
                serde_json::json!({ "error": { "grpc_code": 14, "message": said } }),
                serde_json::json!(said),
                serde_json::json!({ (said.clone()): 0 }),
            ];
            for (status, answer) in [400, 503, 502, 401].into_iter().zip(all) {
                let told = match read(status, &answer) {
                    Some(Refusal::Final(told) | Refusal::Now(told) | Refusal::Stranger(told)) => {
                        told
                    }
                    other => panic!("{other:?}"),
                };
                assert!(!told.contains(char::is_control), "{told:?}");
                assert!(told.chars().count() <= TEXT_MAX, "{told}");
                let begins = if said == forged { one_line } else { "ää" };
                assert!(status == 401 || told.starts_with(begins), "{told}");
            }
        }
    }

    #[test]
    fn errors_of_all_versions_are_read() {
        let now = |said: &str| Some(Refusal::Now(said.to_owned()));
        for (status, answer, refusal) in [
            (200, r#"{"header":{},"code":5}"#, None),
            (
                503,
                r#"{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}"#,
                now("etcdserver: no leader"),
            ),
            (
                503,
                r#"{"code":14,"message":"etcdserver: leader changed","details":[]}"#,
                now("etcdserver: leader changed"),
            ),
            // A renewal's, at a member that is alone.
            (
                503,
                r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#,
                now("etcdserver: no leader"),
            ),
            (
                200,
                r#"{"error":{"code":14,"message":"etcdserver: request timed out"}}"#,
                now("etcdserver: request timed out"),
            ),
            (
                500,
                r#"{"code":2,"message":"raft proposal dropped"}"#,
                now("raft proposal dropped"),
            ),
            (
                412,
                r#"{"error":"etcdserver: rpc not supported for learner","code":9}"#,
                now("etcdserver: rpc not supported for learner"),
            ),
            (502, r#""bad gateway""#, now("bad gateway")),
            (
                400,
                r#"{"code":3,"message":"etcdserver: request is too large"}"#,
                Some(Refusal::Final(
                    "etcdserver: request is too large".to_owned(),
                )),
            ),
            (401, "{}", Some(Refusal::Stranger("{}".to_owned()))),
            // Codes that are not gRPC's.
            (
                503,
                r#"{"error":{"code":503,"message":"no upstream"}}"#,
                now("no upstream"),
            ),
            (
                503,
                r#"{"error":{"grpc_code":0,"code":14},"message":"x"}"#,
                now("x"),
            ),
            // What says that it is well, and does not say that it is etcd.
            (200, r#""<p>It works!</p>""#, now("<p>It works!</p>")),
            (200, "{}", now("{}")),
            (200, "null", now("null")),
            (200, r#"[{"header":{}}]"#, now(r#"[{"header":{}}]"#)),
            (200, r#"{"result":{"header":{}}}"#, None),
        ] {
            let answer = serde_json::from_str(answer).expect("JSON");
            assert_eq!(read(status, &answer), refusal, "{answer}");
        }
    }
}
