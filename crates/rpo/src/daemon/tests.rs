//! What becomes of records.

use super::*;
use crate::policy::Fixed;

fn feed() -> Feed {
    let policy = Box::new(Fixed::new(Setting::AllThreads));
    Feed {
        classifier: Classifier::default(),
        controller: Controller::new(policy, Setting::AllThreads),
        under_way: InFlight::default(),
        answers: 0,
        decision: None,
    }
}

#[test]
fn what_strangers_ask_for_makes_no_classes() {
    let mut feed = feed();
    let mut take = |path: &str, status| {
        let took = Duration::from_millis(1);
        let completed = What::Completed { took, status };
        let took = Some(took);
        for what in [What::Arrived, completed, What::Whole { took, status }] {
            let (method, token) = ("GET", 7);
            let record = Record {
                method,
                path,
                what,
                token,
            };
            feed.take(&record, Duration::ZERO);
        }
        feed.classifier.table().count()
    };
    for (number, status) in (0..1000).zip([400, 404, 405, 503].into_iter().cycle()) {
        assert_eq!(take(&format!("/made-up-{number}"), status), 1);
    }
    assert_eq!(take("/item/7", 200), 2);
    assert_eq!(take("/item/8", 404), 2);
    assert_eq!(take("/cart", 303), 3);
    assert_ne!(feed.classifier.classify("GET", "/item/9"), ClassId::OTHER);
}
