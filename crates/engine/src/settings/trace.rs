//! The table of traces.

use super::definition::{Mistake, file, text};
use super::url::{BackendUrl, UrlPlace};
use crate::section;
use std::path::PathBuf;

section! {
    /// Traces of requests, as OpenTelemetry has them (docs/operations.md, *Single requests*).
    pub struct TraceSettings = "trace" {
        /// The collector that spans are exported to, by OTLP over HTTP, such as
        /// "http://127.0.0.1:4318", or an https URL. Empty: requests are not traced, and what
        /// clients say of traces is passed on as it came.
        otlp: String = String::new(); text(collector).flag("otlp").restart(),
        /// A file with the certificates (PEM) of those who may have signed that of a collector with
        /// an https URL.
        tls_ca: Option<PathBuf> = None;
            file().or_none("the system's authorities").flag("otlp-ca").restart(),
        /// Which share of the requests is recorded of which nobody has chosen whom
        /// `server.trusted_proxies` has, such as "1%" or "0.01%".
        sample: String = "0%".to_owned(); text(sample).flag("trace-sample").restart(),
    }
}

impl TraceSettings {
    /// Where spans go: the path is that of traces, unless another is said.
    pub fn collector(&self) -> Option<BackendUrl> {
        let mut url: BackendUrl = self.otlp.parse().ok()?;
        if url.path == "/" {
            url.path = "/v1/traces".to_owned();
        }
        Some(url)
    }

    /// How many of 2^32 requests are recorded.
    pub fn share(&self) -> u64 {
        // It was read as such.
        share(&self.sample).unwrap_or(0)
    }
}

/// The part of 2^32 that so many percent are.
fn share(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix('%')?.trim_end();
    let is_plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let percent: f64 = number.parse().ok().filter(|_| is_plain)?;
    let fits = (0.0..=100.0).contains(&percent);
    fits.then(|| (percent / 100.0 * (1u64 << 32) as f64).round() as u64)
}

/// A share in percent.
fn sample(text: String) -> Result<String, Mistake> {
    match share(&text) {
        Some(_) => Ok(text),
        None => Err(Mistake::new(
            "`sample` must be a share in percent",
            "from \"0%\" to \"100%\", such as \"1%\" or \"0.01%\"",
        )),
    }
}

/// The URL of a collector.
fn collector(url: String) -> Result<String, Mistake> {
    let hint = "such as \"http://127.0.0.1:4318\", where a collector takes OTLP over HTTP";
    match url.parse::<BackendUrl>() {
        _ if url.is_empty() => Ok(url),
        Ok(BackendUrl {
            speaks_tls: true,
            place: UrlPlace::Socket(_),
            ..
        }) => Err(Mistake::new(
            "`otlp`: TLS is not spoken at a Unix socket",
            hint,
        )),
        Ok(_) => Ok(url),
        Err(error) => Err(Mistake::new(format!("`otlp`: {error}"), hint)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents() {
        for (text, of_all) in [
            ("0%", 0),
            ("100%", 1 << 32),
            ("50 %", 1 << 31),
            (" 0.01%", 429_497),
        ] {
            assert_eq!(share(text), Some(of_all), "{text}");
        }
        for bad in [
            "", "1", "%", "-1%", "101%", "1e1%", "nan%", "inf%", "1%%", "0.1.1%",
        ] {
            assert!(sample(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_collector_has_a_path_of_its_own_for_traces() {
        let path = |otlp: &str| {
            let otlp = collector(otlp.to_owned()).expect("it is one");
            let settings = TraceSettings {
                otlp,
                ..TraceSettings::default()
            };
            settings.collector().map(|url| url.path)
        };
        assert_eq!(path("http://127.0.0.1:4318").as_deref(), Some("/v1/traces"));
        assert_eq!(path("http://[::1]:4318/otlp/t").as_deref(), Some("/otlp/t"));
        assert_eq!(path("https://otlp.example").as_deref(), Some("/v1/traces"));
        assert_eq!(path(""), None);
        for bad in [
            "https://unix:/run/otlp.sock",
            "127.0.0.1:4318",
            "http://",
            "http://a:0",
        ] {
            assert!(collector(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
