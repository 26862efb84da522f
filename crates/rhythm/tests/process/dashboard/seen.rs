//! The page as it looks and as it is read out: in three widths, light and dark, under load.

use super::browser::Browser;
use super::{figure, is_above_zero, open, told_with, under_load};
use crate::number;
use crate::server::{NEVER, Server};
use crate::tutorial::shop;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Widths of a phone, a tablet and a desk, in pixels.
const WIDTHS: [u32; 3] = [360, 768, 1440];

const SCHEMES: [&str; 2] = ["light", "dark"];

/// What the shop's visitors ask for; the last fails, so that there are errors.
const ASKED: [&str; 6] = [
    "/",
    "/teas/1",
    "/search?q=rolled",
    "/api/teas",
    "/basket",
    "/broken",
];

/// The tutorial's shop, with a page that divides by zero.
fn served(test: &str) -> Server {
    let folder = shop(test);
    let page = "+++\nroute = \"GET /broken\"\n[params]\n\
                n = { in = \"query\", type = \"int\", default = 0 }\n+++\n{{ 10 // n }}\n";
    fs::write(folder.join("pages/broken.html"), page).expect("a file can be written");
    Server::start(&folder, &[])
}

/// Waits until each table and chart has something to show.
fn until_full(browser: &Browser) {
    browser.until_shown("#alarm", "page broken fails");
    browser.until(&figure("requests", "Requests"), is_above_zero);
    browser.until_shown("#backends .state", "up");
    browser.until_shown("#errors tbody", "divi");
    let pages = "return document.querySelectorAll('#pages tbody tr').length";
    browser.until(pages, |told| told.as_u64() >= Some(6));
    let labels = "return [...document.querySelectorAll('.plot svg')].map((it) => it.ariaLabel)";
    browser.until(labels, |told| {
        let all = told.as_array().map(Vec::as_slice).unwrap_or_default();
        !all.is_empty() && all.iter().all(has_figure)
    });
}

/// Whether a chart's words say how much something is now.
fn has_figure(words: &Value) -> bool {
    let mut now = words.as_str().unwrap_or_default().split(": now ").skip(1);
    now.any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn is_as_wide_as_its_window(browser: &Browser) -> bool {
    let too_wide = "return document.documentElement.scrollWidth - innerWidth";
    browser.run(too_wide).as_i64().expect("a number") <= 0
}

/// Scripts that return, of each of these selectors, how many texts it finds, and the least contrast
/// of one to what is behind it (WCAG 2.2, contrast ratio); of lines, that of the line.
fn contrasts(selectors: &[&str]) -> String {
    format!(
        "const parsed = (color) => {{ \
             const [red, green, blue, part = 1] = color.match(/[\\d.]+/g).map(Number); \
             return {{ parts: [red, green, blue], part }}; \
         }}; \
         const blend = (over, below, part) => \
             over.map((it, index) => it * part + below[index] * (1 - part)); \
         const behind = (node) => {{ \
             if (node === null) {{ return [255, 255, 255]; }} \
             const {{ parts, part }} = parsed(getComputedStyle(node).backgroundColor); \
             return part === 1 ? parts : blend(parts, behind(node.parentElement), part); \
         }}; \
         const light = (parts) => {{ \
             const [red, green, blue] = parts.map((it) => it / 255).map((it) => \
                 it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4); \
             return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05; \
         }}; \
         const ratio = (node) => {{ \
             const {{ color, stroke }} = getComputedStyle(node); \
             const {{ parts, part }} = parsed(node instanceof SVGElement ? stroke : color); \
             const below = behind(node instanceof SVGElement ? node.closest('section') : node); \
             const both = [light(blend(parts, below, part)), light(below)]; \
             return Math.max(...both) / Math.min(...both); \
         }}; \
         return {}.map((selector) => {{ \
             const all = [...document.querySelectorAll(selector)].filter((node) => \
                 node.checkVisibility() && \
                 (node instanceof SVGElement || node.innerText.trim() !== '')); \
             return [selector, all.length, Math.min(...all.map(ratio))]; \
         }});",
        json!(selectors)
    )
}

/// The least contrast of what these selectors find; each finds something.
fn least_contrast(browser: &Browser, selectors: &[&str]) -> f64 {
    let told = browser.run(&contrasts(selectors));
    let each = told.as_array().expect("a list");
    assert_eq!(each.len(), selectors.len());
    let ratio = |it: &Value| {
        assert!(it[1].as_u64() > Some(0), "there is none: {it}");
        it[2].as_f64().expect("a ratio")
    };
    each.iter().map(ratio).fold(f64::INFINITY, f64::min)
}

/// All that is read.
const TEXTS: [&str; 18] = [
    "h1",
    "#state",
    "#alarm",
    "nav a",
    "button",
    "h2",
    "h3",
    "dt",
    "dd span",
    "dd small",
    ".top",
    ".ends span",
    ".legend li",
    ".legend b",
    "caption",
    "thead th",
    "tbody th",
    "tbody td",
];

fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures")
}

/// `DASHBOARD_SECONDS=170` has the charts filled before. The pictures are for people; the one of
/// docs/dashboard.png is `serve-1440-light.png`.
#[test]
fn it_can_be_read_in_each_width_light_and_dark() {
    fs::create_dir_all(pictures()).expect("a folder can be made");
    let server = served("dashboard_seen");
    let browser = open(&server, "dashboard_seen");
    under_load(&server, &ASKED, || {
        until_full(&browser);
        let seconds = number("DASHBOARD_SECONDS").unwrap_or(0);
        thread::sleep(Duration::from_secs(seconds as u64));
        let mut grounds = Vec::new();
        for scheme in SCHEMES {
            browser.prefer(scheme);
            let is_so = format!("return matchMedia('(prefers-color-scheme: {scheme})').matches");
            browser.until(&is_so, |told| *told == true);
            let ground = "return getComputedStyle(document.body).backgroundColor";
            grounds.push(browser.run(ground));
            for width in WIDTHS {
                let path = pictures().join(format!("serve-{width}-{scheme}.png"));
                let height = browser.picture(width, &path);
                assert!(height > 1000, "it has all panels: {height}");
                assert!(is_as_wide_as_its_window(&browser), "{width}, {scheme}");
                let least = least_contrast(&browser, &TEXTS);
                assert!(least >= 4.5, "{least} at {width}, {scheme}");
                let lines = least_contrast(&browser, &["section .plot polyline"]);
                assert!(lines >= 3.0, "{lines} at {width}, {scheme}");
            }
            // What is too faint is found, and so is what is too wide.
            let gray = "document.querySelector('h2').style.color = 'gray'";
            browser.run(gray);
            assert!(least_contrast(&browser, &TEXTS) < 4.5, "{scheme}");
            browser.run("document.querySelector('h2').removeAttribute('style')");
            browser.run("document.querySelector('h2').style.width = '3000px'");
            assert!(!is_as_wide_as_its_window(&browser));
            browser.run("document.querySelector('h2').removeAttribute('style')");
        }
        assert_ne!(grounds[0], grounds[1]);
        // Likewise where a backend is down, and nothing is to be said of alarms.
        browser.run(&told_with(
            "told.alarms = []; \
             const rows = told.panels.flatMap((it) => it.parts).flatMap((it) => it.table?.rows); \
             for (const value of rows.flat()) { \
                 if (value?.state !== undefined) { value.state = [false, 'down']; } \
             }",
        ));
        browser.until_shown("#calm", "Nothing needs attention");
        for scheme in SCHEMES {
            browser.prefer(scheme);
            let least = least_contrast(&browser, &["#calm", ".state.ill"]);
            assert!(least >= 4.5, "{least}, {scheme}");
            browser.picture(768, &pictures().join(format!("serve-ill-{scheme}.png")));
        }
    });
    assert_eq!(browser.said(), [""; 0]);
}

#[test]
fn nothing_moves_while_it_asks_under_load() {
    let server = served("dashboard_still");
    let browser = open(&server, "dashboard_still");
    under_load(&server, &ASKED, || {
        until_full(&browser);
        browser.run(
            "window.shifts = []; \
             new PerformanceObserver((list) => { \
                 for (const { value, sources } of list.getEntries()) { \
                     const nodes = sources.map(({ node }) => node?.outerHTML?.slice(0, 200)); \
                     window.shifts.push({ value, nodes }); \
                 } \
             }).observe({ type: 'layout-shift' })",
        );
        let sum = |told: &Value| {
            let all = told.as_array().expect("a list").iter();
            all.filter_map(|it| it["value"].as_f64()).sum::<f64>()
        };
        let shifts = "return window.shifts";
        for width in WIDTHS {
            browser.resize(width, 800);
            for place in ["header", "#machine", "#backends"] {
                let there = format!("document.querySelector('{place}').scrollIntoView()");
                browser.run(&there);
                thread::sleep(Duration::from_millis(300));
                browser.run("window.shifts = []");
                let asked = "return performance.getEntriesByType('resource')\
                             .filter((it) => it.name.endsWith('/dashboard.json')).length";
                let before = browser.run(asked).as_u64();
                let after = before.map(|before| before + 3);
                browser.run("performance.setResourceTimingBufferSize(100000)");
                browser.until(asked, |told| told.as_u64() >= after);
                let moved = browser.run(shifts);
                assert!(sum(&moved) < 0.1, "{moved} at {width}, {place}");
            }
        }
        // What moves is noticed.
        browser.run("scrollTo(0, 0); document.querySelector('h1').style.padding = '15rem'");
        browser.until(shifts, |told| sum(told) >= 0.1);
    });
}

/// What somebody hears to whom a page is read out.
pub(super) struct Heard {
    /// In the order of the page.
    nodes: Vec<Value>,
    /// By their number, where each is.
    places: HashMap<String, usize>,
}

impl Heard {
    pub(super) fn of(browser: &Browser) -> Heard {
        browser.devtools("Accessibility.enable", &json!({}));
        let told = browser.devtools("Accessibility.getFullAXTree", &json!({}));
        let all = told["nodes"].as_array().expect("a list");
        let by_id: HashMap<&str, &Value> = all.iter().map(|it| (id(&it["nodeId"]), it)).collect();
        let (mut nodes, mut places) = (Vec::new(), HashMap::new());
        let mut left = vec![all.first().expect("a root")];
        while let Some(node) = left.pop() {
            places.insert(id(&node["nodeId"]).to_owned(), nodes.len());
            nodes.push(node.clone());
            let children = node["childIds"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default();
            left.extend(children.iter().rev().filter_map(|it| by_id.get(id(it))));
        }
        Heard { nodes, places }
    }

    /// Those of a role.
    pub(super) fn of_role(&self, role: &str) -> Vec<&Value> {
        let all = self.nodes.iter();
        all.filter(|it| it["ignored"] != true && it["role"]["value"] == role)
            .collect()
    }

    /// Those of a role below a node.
    fn below(&self, node: &Value, role: &str) -> Vec<&Value> {
        let is_below = |it: &&Value| {
            let mut at = *it;
            while let Some(parent) = at["parentId"].as_str() {
                if parent == id(&node["nodeId"]) {
                    return true;
                }
                at = &self.nodes[self.places[parent]];
            }
            false
        };
        self.of_role(role).into_iter().filter(is_below).collect()
    }

    fn text(&self, node: &Value) -> String {
        self.below(node, "StaticText")
            .into_iter()
            .map(name)
            .collect()
    }
}

fn id(value: &Value) -> &str {
    value.as_str().expect("it has a number")
}

fn name(node: &Value) -> &str {
    node["name"]["value"].as_str().unwrap_or_default()
}

fn property<'n>(node: &'n Value, name: &str) -> &'n Value {
    let all = node["properties"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = all.iter().find(|it| it["name"] == name);
    found.map_or(&Value::Null, |it| &it["value"]["value"])
}

/// What holds of any server's page: it fits where it is seen, of which it takes pictures; its parts
/// have names, in an order; charts and states are told in words; and its scripts do nothing wrong.
pub(super) fn is_for_everybody(browser: &Browser, server: &str) -> Heard {
    fs::create_dir_all(pictures()).expect("a folder can be made");
    for (width, scheme) in [
        (360, "dark"),
        (768, "light"),
        (1440, "dark"),
        (1440, "light"),
    ] {
        browser.prefer(scheme);
        browser.picture(
            width,
            &pictures().join(format!("{server}-{width}-{scheme}.png")),
        );
        assert!(is_as_wide_as_its_window(browser), "{width}");
    }
    for (what, script) in [
        (
            "panels without a heading",
            "return [...document.querySelectorAll('main > section')].filter((it) => \
             !document.getElementById(it.getAttribute('aria-labelledby'))?.textContent).length",
        ),
        (
            "states without words",
            "return [...document.querySelectorAll('.state')]\
             .filter((it) => !it.textContent).length",
        ),
    ] {
        assert_eq!(browser.run(script), 0, "{what}");
    }
    let heard = Heard::of(browser);
    let count = |selector: &str| {
        let shown = format!(
            "return [...document.querySelectorAll('{selector}')]\
             .filter((it) => it.checkVisibility()).length"
        );
        browser.run(&shown).as_u64().expect("a number") as usize
    };
    let charts = [heard.of_role("image"), heard.of_role("img")].concat();
    assert!(
        charts.len() == count(".plot svg") && !charts.is_empty(),
        "{charts:#?}"
    );
    for chart in charts {
        let (_, lines) = name(chart).split_once("last 3 minutes. ").expect("a title");
        let mut lines = lines.split("; ");
        let is_told = |line: &str| line.contains(": now ") || line.ends_with(": nothing yet");
        assert!(lines.all(is_told), "{chart:#}");
    }
    let tables = heard.of_role("table");
    assert!(
        tables.len() == count("table") && !tables.is_empty(),
        "{tables:#?}"
    );
    for table in tables {
        assert!(!name(table).is_empty(), "{table:#}");
        let columns = heard.below(table, "columnheader");
        assert!(columns.len() >= 2, "{table:#}");
        assert!(
            columns.iter().all(|it| !name(it).is_empty()),
            "{columns:#?}"
        );
    }
    let levels: Vec<i64> = (heard.of_role("heading").into_iter())
        .map(|it| property(it, "level").as_i64().expect("a level"))
        .collect();
    assert_eq!(
        levels.iter().filter(|level| **level == 1).count(),
        1,
        "{levels:?}"
    );
    assert!(
        levels[0] == 1 && levels.contains(&2) && levels.contains(&3),
        "{levels:?}"
    );
    let skips = levels.windows(2).any(|two| two[1] > two[0] + 1);
    assert!(!skips, "{levels:?}");
    for role in ["region", "button", "link", "navigation"] {
        let all = heard.of_role(role);
        assert!(
            !all.is_empty() && all.iter().all(|it| !name(it).is_empty()),
            "{all:#?}"
        );
    }
    assert_eq!(
        browser.said(),
        [""; 0],
        "no error, and nothing against the policy"
    );
    heard
}

#[test]
fn it_can_be_followed_by_ear() {
    let server = served("dashboard_heard");
    let browser = open(&server, "dashboard_heard");
    under_load(&server, &ASKED, || {
        until_full(&browser);
        let heard = is_for_everybody(&browser, "heard");
        let tables = heard.of_role("table");
        let rows = tables.iter().map(|it| heard.below(it, "rowheader").len());
        assert!(
            rows.clone().all(|rows| rows > 0),
            "{:?}",
            rows.collect::<Vec<_>>()
        );
        // How it is is told when that changes, when nothing else is being said; alarms at once.
        let [status] = heard.of_role("status")[..] else {
            panic!("one: {:#?}", heard.of_role("status"));
        };
        assert_eq!(property(status, "live"), "polite", "{status:#}");
        let [alert] = heard.of_role("alert")[..] else {
            panic!("one: {:#?}", heard.of_role("alert"));
        };
        assert_eq!(property(alert, "live"), "assertive", "{alert:#}");
        assert!(heard.text(alert).contains("page broken fails"), "{alert:#}");
        browser.run(&told_with("told.alarms.push('backend shop is down')"));
        let start = Instant::now();
        while !heard_alarm(&browser) {
            assert!(start.elapsed() < NEVER, "it is never told");
            thread::sleep(Duration::from_millis(100));
        }
    });
}

fn heard_alarm(browser: &Browser) -> bool {
    let heard = Heard::of(browser);
    let alerts = heard.of_role("alert");
    alerts
        .iter()
        .any(|it| heard.text(it).contains("backend shop is down"))
}
