//! Cookies that a step sets.

use super::declaration::CookieDecl;
use super::keys::{Keys, Text, text_of};
use crate::diagnostic::Report;
use crate::settings::duration;
use rhythm_protocol::http::head::is_token;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a cookie with more than a value looks like.
const FORM: &str = "{ value = \"...\", max_age = \"24h\" }";

/// Reads `cookies`: by name a template, or a table.
pub(super) fn read_cookies<'a>(keys: &Keys<'_, 'a>, report: &mut Report) -> Vec<CookieDecl<'a>> {
    let mut cookies = Vec::new();
    let Some((table, _)) = keys.table("cookies", "{ theme = \"dark\" }", report) else {
        return cookies;
    };
    for (name, value) in Keys::entries(&keys.toml, table) {
        if !is_token(name.value.as_bytes()) {
            let hint = "letters, digits, `-` and `_`, such as \"theme\" (RFC 6265, section 4.1.1)";
            report.error(name.place, "this is no cookie's name", hint);
        }
        cookies.extend(read_cookie(keys, name, value, report));
    }
    cookies
}

fn read_cookie<'a>(
    keys: &Keys<'_, 'a>,
    name: Text<'a>,
    value: &Spanned<DeValue<'a>>,
    report: &mut Report,
) -> Option<CookieDecl<'a>> {
    if let Some(value) = text_of(&keys.toml, value) {
        return Some(CookieDecl {
            name,
            value,
            path: "/".to_owned(),
            max_age: None,
            http_only: true,
            secure: None,
            same_site: "Lax",
        });
    }
    let DeValue::Table(table) = value.get_ref() else {
        let hint = format!("{0} = \"...\", a template, or {0} = {FORM}", name.value);
        report.error(name.place, "a cookie's value is a string", hint);
        return None;
    };
    read_table(keys, name, table, value.span().start, report)
}

fn read_table<'a>(
    keys: &Keys<'_, 'a>,
    name: Text<'a>,
    table: &DeTable<'a>,
    offset: usize,
    report: &mut Report,
) -> Option<CookieDecl<'a>> {
    let known = [
        "value",
        "max_age",
        "path",
        "http_only",
        "secure",
        "same_site",
    ];
    let keys = Keys::new(keys.toml, table, offset, &known, report);
    let value = keys.required("value", FORM, report);
    let max_age = keys.text("max_age", report).and_then(|text| {
        let read = duration::parse(&text.value);
        let hint = "such as \"24h\"; \"0s\" removes the cookie, and without it browsers keep it \
                    until they end";
        let told = |error| report.error(text.place, error, hint);
        read.map_err(told).ok().map(|time| time.as_secs())
    });
    let path = keys.text("path", report).map(|path| {
        let is_fit = |byte: u8| byte.is_ascii_graphic() && byte != b';';
        if !path.value.starts_with('/') || !path.value.bytes().all(is_fit) {
            let hint = "a path begins with `/`: path = \"/shop\"";
            report.error(path.place, "this is no path of a cookie", hint);
        }
        path.value
    });
    let words = [("lax", "Lax"), ("strict", "Strict"), ("none", "None")];
    let same_site = keys.choice("same_site", &words, report).unwrap_or("Lax");
    let secure = keys.bool("secure", report);
    if same_site == "None" && secure != Some(true) {
        let message = "browsers take a cookie for other sites over TLS alone";
        report.error(keys.key_place("same_site"), message, "secure = true");
    }
    Some(CookieDecl {
        name,
        value: value?,
        path: path.unwrap_or_else(|| "/".to_owned()),
        max_age,
        http_only: keys.bool("http_only", report).unwrap_or(true),
        secure,
        same_site,
    })
}
