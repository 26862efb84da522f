//! The dashboard: a page of the admin listener on which people watch a server.
//!
//! ```text
//!   GET /                page.html, style.css and the scripts: the same for every server
//!   GET /dashboard.json  Dashboard: panels of figures, charts, bars and tables (panels.rs)
//! ```
//!
//! A server says in panels what it shows, and the page knows nothing of what that is. Counters are
//! told as they stand: the page, which asks again each second, makes rates and quantiles of what
//! came between two answers, and keeps what its charts show. So a server keeps nothing for those
//! who watch, each of them sees the same, and nobody who watches costs a request anything.
//!
//! Nothing is fetched from elsewhere, and the page's policy forbids it: the files are in the
//! binary, with no step to build them. Charts are lines of SVG, some 150 lines of script of our own
//! (`charts.js`): what libraries do beyond that, such as zooming, nothing here needs, and lines in
//! the document take their colors from its style, dark or light.

mod panels;

pub use panels::{Chart, Column, Dashboard, Figure, Panel, Part, Shows, Table, Unit, Value};

use crate::admin::Told;

/// What there is at a path of the dashboard's, if it is one; `now` says what is shown.
pub fn tell(path: &[u8], now: impl FnOnce() -> Dashboard) -> Option<Told> {
    let script = |text| Told::asset("text/javascript; charset=utf-8", text);
    match path {
        b"/" => Some(Told::page(include_str!("dashboard/page.html"))),
        b"/dashboard.json" => Some(Told::json(now().json())),
        b"/dashboard/style.css" => {
            let style = include_str!("dashboard/style.css");
            Some(Told::asset("text/css; charset=utf-8", style))
        }
        b"/dashboard/dashboard.js" => Some(script(include_str!("dashboard/dashboard.js"))),
        b"/dashboard/parts.js" => Some(script(include_str!("dashboard/parts.js"))),
        b"/dashboard/charts.js" => Some(script(include_str!("dashboard/charts.js"))),
        b"/dashboard/values.js" => Some(script(include_str!("dashboard/values.js"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Dashboard {
        Dashboard::new("toy", "", "serving")
    }

    #[test]
    fn what_the_page_names_is_there() {
        let texts = [
            include_str!("dashboard/page.html"),
            include_str!("dashboard/dashboard.js"),
            include_str!("dashboard/parts.js"),
            include_str!("dashboard/charts.js"),
            include_str!("dashboard/values.js"),
        ];
        let mut named = 0;
        for text in texts {
            for word in text.split('"') {
                let path = match word.strip_prefix("./") {
                    Some(file) => format!("/dashboard/{file}"),
                    None if word.starts_with("/dashboard") => word.to_owned(),
                    None => continue,
                };
                assert!(tell(path.as_bytes(), none).is_some(), "{path}");
                named += 1;
            }
        }
        assert!(named >= 6, "the style, the data, and each script: {named}");
        assert!(tell(b"/", none).is_some());
        assert!(tell(b"/dashboard", none).is_none());
    }
}
