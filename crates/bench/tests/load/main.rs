//! The load generator against a small bank of its own kind: it must find nothing wrong with a right
//! one, and each wrong thing in one that has it.

mod bank;

use bank::*;
use rhythm_bench::load::{Banking, LoadOptions, Page, Progress, Report, run};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

fn load(flaw: Flaw, options: LoadOptions) -> Report {
    load_by(flaw, options, users())
}

fn load_by(flaw: Flaw, options: LoadOptions, users: Banking) -> Report {
    let options = LoadOptions {
        url: start(flaw),
        ..options
    };
    run(options, users, &mut |_| {}).unwrap()
}

fn users() -> Banking {
    Banking {
        users: USERS,
        ..Banking::default()
    }
}

fn brief() -> LoadOptions {
    LoadOptions {
        sessions: 8,
        duration: Duration::from_millis(1500),
        ..LoadOptions::default()
    }
}

#[test]
fn nothing_is_wrong_with_a_right_bank() {
    let mut told = 0;
    let options = LoadOptions {
        url: start(Flaw::None),
        threads: 2,
        // Long enough for all pages, and the mix, on a busy machine.
        duration: Duration::from_secs(5),
        ..brief()
    };
    let mut tell = |progress: &Progress| told = told.max(progress.pages);
    let report = run(options, users(), &mut tell).unwrap();
    assert!(report.passed(), "{report}");
    assert!(told > 0);
    assert!(report.by_page.iter().all(|page| page.count > 0), "{report}");
    assert!(report.refusals > 0 && report.sign_outs > 0, "{report}");
    assert!(
        report.files.whole > 0 && report.files.not_modified > 0,
        "{report}"
    );
    assert_eq!(report.connections, 8);
    assert!(report.mix_difference < 5.0, "{report}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["by_page"][0]["page"], "login");
}

#[test]
fn a_restart_costs_requests_and_sessions_and_no_answer_is_taken_for_another() {
    let mut lost = 0;
    for (page, pipeline) in [(None, 1), (Some(Page::BillPay), 4)] {
        let options = LoadOptions {
            // Some are between two pages when it happens.
            think: Duration::from_millis(if page.is_some() { 0 } else { 5 }),
            ..brief()
        };
        let users = Banking {
            page,
            pipeline,
            ..users()
        };
        let report = load_by(Flaw::Restarts, options, users);
        assert!(report.pages > 100 && !report.passed(), "{report}");
        assert_eq!(report.invalid, 0, "{report}");
        for kind in report.errors.keys() {
            let is_told = kind.starts_with("connection ") || kind.starts_with("signed out");
            assert!(is_told, "{report}");
        }
        let signed_out = report
            .errors
            .iter()
            .find(|(kind, _)| kind.starts_with("signed out"));
        lost += signed_out.map_or(0, |(_, count)| *count);
    }
    assert!(lost > 0, "sessions are lost");
}

#[test]
fn every_flaw_is_found() {
    for (flaw, request, reason) in [
        (Flaw::OthersBalance, "account_summary", "a wrong value"),
        (Flaw::NotEscaped, "check_detail_html", "a wrong value"),
        (Flaw::RowMissing, "bill_pay", "a value is missing"),
        (
            Flaw::LogoutForgotten,
            "account_summary with the cookie of a session logged out",
            "another page",
        ),
        (
            Flaw::WrongImage,
            "check_detail_image",
            "an image other than the file",
        ),
        (
            Flaw::AnyPassword,
            "login with a wrong password",
            "another page",
        ),
        (Flaw::NeverUnchanged, "/bank/static/bank.css", "304 was due"),
    ] {
        let report = load(flaw, brief());
        assert!(!report.passed() && report.invalid > 0, "{flaw:?}: {report}");
        let is_told = |failure: &rhythm_bench::load::Failure| {
            failure.request == request && failure.reason.contains(reason)
        };
        assert!(report.failures.iter().any(is_told), "{flaw:?}: {report}");
    }
}

#[test]
fn a_server_that_fails_or_hangs_is_reported_and_does_not_stop_the_run() {
    let report = load(Flaw::Unavailable, brief());
    assert!(
        !report.passed() && report.errors["status 503 for bill_pay"] > 0,
        "{report}"
    );
    assert!(report.pages > 0 && report.invalid == 0, "{report}");
    let report = load(
        Flaw::Hangs,
        LoadOptions {
            timeout: Duration::from_millis(300),
            ..brief()
        },
    );
    assert!(report.errors["timeout"] > 0, "{report}");
    // Users wait for those pages, too, as long as they do.
    let hung = &report.by_page[Page::BillPay as usize];
    assert!(hung.count == 0 && hung.latency.p50 > 300_000.0, "{report}");
    assert!(report.latency.max > 300_000.0, "{report}");
    assert!(!report.quality.reached, "{report}");
}

#[test]
fn a_page_without_end_is_an_error_that_names_the_bound() {
    let options = LoadOptions {
        duration: Duration::from_millis(500),
        ..brief()
    };
    let report = load(Flaw::Endless, options);
    let is_told = |kind: &String| kind.contains("more than 1048576 bytes");
    assert!(report.errors.keys().any(is_told), "{report}");
    assert!(report.pages > 0 && !report.quality.reached, "{report}");
}

#[test]
fn connections_that_the_server_closes_are_opened_again() {
    let report = load(Flaw::ClosesAlways, brief());
    assert!(report.passed(), "{report}");
    assert!(report.connections >= report.requests, "{report}");
}

#[test]
fn what_a_connection_did_not_take_is_not_sent_on_the_next() {
    // The port is held while nobody listens there, so that connections are refused.
    let held = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&held, true).unwrap();
    bind(&held, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&held).unwrap()).unwrap();
    let listener = TcpListener::bind(address).unwrap();
    let options = LoadOptions {
        url: format!("http://{address}/"),
        duration: Duration::from_secs(3),
        ..brief()
    };
    // Somebody is there at first, or there would be no run; then nobody until users were refused.
    std::thread::spawn(move || drop(listener.accept()));
    let mut is_back = false;
    let mut come_back = |progress: &Progress| {
        if progress.errors > 0 && !is_back {
            is_back = true;
            listen_as(Flaw::None, TcpListener::bind(address).unwrap());
        }
    };
    let report = run(options, users(), &mut come_back).unwrap();
    assert!(report.pages > 0 && report.invalid == 0, "{report}");
    // Users who were refused ask once, for their own pages, when they are not.
    assert!(is_back);
    for error in report.errors.keys() {
        assert!(error.starts_with("connection failed"), "{report}");
    }
}

#[test]
fn users_who_think_arrive_at_a_rate() {
    let options = LoadOptions {
        arrivals_per_s: Some(200.0),
        think: Duration::from_millis(20),
        sessions: 64,
        ..brief()
    };
    let report = load(Flaw::None, options);
    assert!(report.passed(), "{report}");
    assert!((20..450).contains(&report.visits), "{report}");
    // Far fewer pages than without thinking; a session has one connection at most.
    assert!(report.connections <= 64 && report.pages < 5000, "{report}");
}

#[test]
fn a_stalling_server_is_charged_for_those_who_had_to_wait() {
    let options = LoadOptions {
        arrivals_per_s: Some(100.0),
        sessions: 2,
        timeout: Duration::from_millis(500),
        ..brief()
    };
    let users = Banking {
        files: false,
        ..users()
    };
    let report = load_by(Flaw::Hangs, options, users);
    // Logins are answered at once, but users wait for one of two sessions.
    let login = &report.by_page[Page::Login as usize];
    assert!(login.latency.max > 200_000.0, "{report}");
    // Most never had one, and have waited until the end.
    assert!(report.never_served > 20, "{report}");
}

#[test]
fn what_was_due_in_the_measurement_counts_though_it_is_answered_later() {
    let options = LoadOptions {
        arrivals_per_s: Some(40.0),
        sessions: 64,
        duration: Duration::from_millis(600),
        ..brief()
    };
    let users = Banking {
        refusals: false,
        ..users()
    };
    let report = load_by(Flaw::Slow, options, users);
    assert!(report.passed() && report.visits > 5, "{report}");
    let login = &report.by_page[Page::Login as usize];
    assert_eq!(login.count, report.visits, "{report}");
    assert!(login.latency.p50 > 600_000.0, "{report}");
}

#[test]
fn one_page_again_and_again() {
    for page in [
        Page::AccountSummary,
        Page::QuickPay,
        Page::CheckDetailImage,
        Page::Login,
        Page::Logout,
    ] {
        for pipeline in [1, 8] {
            let users = Banking {
                page: Some(page),
                pipeline,
                ..users()
            };
            // A busy machine needs longer, sometimes.
            let mut reports = [200, 1000, 5000].into_iter().map(|milliseconds| {
                let options = LoadOptions {
                    duration: Duration::from_millis(milliseconds),
                    ..brief()
                };
                let report = load_by(Flaw::None, options, users.clone());
                assert_eq!(report.invalid, 0, "{}: {report}", page.name());
                report
            });
            let its = |report: &Report| report.by_page[page as usize].count;
            let report = reports.find(|report| report.passed() && its(report) > 8);
            let report = report.unwrap_or_else(|| panic!("{} is answered", page.name()));
            let others = report.pages - its(&report);
            assert!(others <= 8, "{}: {report}", page.name());
        }
    }
    let unchecked = LoadOptions {
        validate: false,
        ..brief()
    };
    let users = Banking {
        page: Some(Page::AccountSummary),
        ..users()
    };
    assert!(load_by(Flaw::OthersBalance, unchecked, users).passed());
}

#[test]
fn a_file_that_is_never_right_is_not_asked_for_without_end() {
    let options = LoadOptions {
        duration: Duration::from_millis(300),
        ..brief()
    };
    let users = Banking {
        page: Some(Page::CheckDetailImage),
        ..users()
    };
    let report = load_by(Flaw::WrongFile, options, users);
    // Once for each user and file, and images besides.
    assert!(
        report.invalid > 0 && report.invalid < report.pages,
        "{report}"
    );
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for options in [
        LoadOptions {
            sessions: 0,
            ..brief()
        },
        LoadOptions {
            arrivals_per_s: Some(-1.0),
            ..brief()
        },
        LoadOptions {
            arrivals_per_s: Some(1e-30),
            ..brief()
        },
        LoadOptions {
            arrivals_per_s: Some(1e12),
            ..brief()
        },
        LoadOptions {
            url: "ftp://a".into(),
            ..brief()
        },
        LoadOptions {
            url: "http://127.0.0.1:1".into(),
            ..brief()
        },
    ] {
        let refused = run(options.clone(), users(), &mut |_| {});
        assert!(refused.is_err(), "{options:?}");
    }
    let pipelined = Banking {
        pipeline: 2,
        ..users()
    };
    assert!(run(brief(), pipelined, &mut |_| {}).is_err());
}
