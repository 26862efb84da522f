//! What the dates of a certificate say: whoever renews them has forgotten one now and then, and
//! clients are told before the one who runs the server.

use super::{Site, Sites};
use crate::observe::metrics::Metrics;
use rhythm_net::tls::Certificate;
use rhythm_protocol::calendar::date_of;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400;
/// Certificates for months are renewed weeks before their end; what is for days, when less than
/// this share of them is left.
const SOON: i64 = 14 * DAY;
const SOON_SHARE: i64 = 5;
/// The log is told of it so often.
const TOLD_EVERY: Duration = Duration::from_secs(DAY as u64);

impl Site {
    /// What is wrong with the dates of its certificate now, or will be soon.
    pub fn certificate_warning(&self) -> Option<String> {
        warning_now(self.certificate.as_ref()?)
    }
}

fn warning_now(certificate: &Certificate) -> Option<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    warning(certificate, now.as_secs() as i64)
}

fn warning(certificate: &Certificate, now: i64) -> Option<String> {
    let [from, until] = certificate.valid();
    let soon = SOON.min(until.saturating_sub(from) / SOON_SHARE);
    let name = match certificate.names() {
        [] => "that is shown".to_owned(),
        [name, ..] => format!("for {name}"),
    };
    let when = |at: i64| {
        let (year, month, day) = date_of(at.div_euclid(DAY));
        format!("{year}-{month:02}-{day:02}")
    };
    let what = if now < from {
        format!(
            "is good from {} on, and clients refuse it until then",
            when(from)
        )
    } else if now > until {
        format!("was good until {}, and clients refuse it", when(until))
    } else if until - now < soon {
        format!("is good until {}, and nobody has renewed it", when(until))
    } else {
        return None;
    };
    Some(format!(
        "the certificate {name} {what}: put another in its place, and send SIGHUP to a server that \
         runs"
    ))
}

/// Tells metrics and the log of the dates of all certificates, as often as is due.
pub(crate) struct Expiries {
    /// When, and of which sites.
    told: Option<(Instant, Weak<Sites>)>,
    /// What the admin listener shows, if it shows one; a reload may put another there.
    admin: Arc<Mutex<Option<Certificate>>>,
}

impl Expiries {
    /// For those of sites, and the one that the admin listener shows.
    pub(crate) fn new(admin: Arc<Mutex<Option<Certificate>>>) -> Expiries {
        Expiries { told: None, admin }
    }

    /// Tells of them if it is time, or the sites are others than before. Whether any has one.
    pub(crate) fn tell(&mut self, sites: &Arc<Sites>, metrics: &Metrics) -> bool {
        let now = Instant::now();
        let is_due = self.told.as_ref().is_none_or(|(told, of)| {
            let is_new = !std::ptr::eq(of.as_ptr(), Arc::as_ptr(sites));
            is_new || now.duration_since(*told) >= TOLD_EVERY
        });
        let all = sites.all();
        let admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if is_due {
            if let Some(warning) = admin.as_ref().and_then(warning_now) {
                tracing::warn!("at the admin listener: {warning}");
            }
            self.told = Some((now, Arc::downgrade(sites)));
            for (index, site) in all.iter().enumerate() {
                let until = site.certificate.as_ref().map(|it| it.valid()[1]);
                metrics.certificate_until(index, until.unwrap_or(0).max(0) as u64);
                if let Some(warning) = site.certificate_warning() {
                    tracing::warn!(service = site.label(), "{warning}");
                }
            }
        }
        admin.is_some() || all.iter().any(|site| site.certificate.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate that is good for so many days from 2026-01-01 on.
    fn certificate(days: i64) -> Certificate {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params =
            rcgen::CertificateParams::new(vec!["bank.example".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = params.not_before + Duration::from_secs((days * DAY) as u64);
        let made = params.self_signed(&key).expect("a certificate");
        let pem = (made.pem(), key.serialize_pem());
        Certificate::from_pem(pem.0.as_bytes(), pem.1.as_bytes()).expect("it is good")
    }

    /// The first day of 2026.
    const BEGIN: i64 = 20_454 * DAY;

    #[test]
    fn it_is_told_before_clients_are() {
        let long = certificate(90);
        assert_eq!(long.valid(), [BEGIN, BEGIN + 90 * DAY]);
        for (certificate, day, what) in [
            (&long, -1, Some("is good from 2026-01-01 on")),
            (&long, 0, None),
            (&long, 75, None),
            (
                &long,
                77,
                Some("is good until 2026-04-01, and nobody has renewed it"),
            ),
            (
                &long,
                91,
                Some("for bank.example was good until 2026-04-01"),
            ),
            (&certificate(6), 4, None),
            (&certificate(6), 5, Some("is good until 2026-01-07")),
        ] {
            let said = warning(certificate, BEGIN + day * DAY);
            match (&said, what) {
                (Some(said), Some(what)) => assert!(said.contains(what), "day {day}: {said}"),
                (said, what) => assert_eq!(said.is_some(), what.is_some(), "day {day}: {said:?}"),
            }
        }
    }
}
