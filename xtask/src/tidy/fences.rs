//! `unsafe` stands only where the page on architecture lets it: the paths of its lines that begin
//! with `unsafe:`, below any heading. A crate without such a path forbids it.

use super::files::Tree;
use super::finding::Finding;
use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};

pub(crate) fn check(tree: &Tree, page: &str) -> Result<Vec<Finding>> {
    let allowed: Vec<&str> = (page.lines())
        .filter_map(|line| line.trim().strip_prefix("unsafe:"))
        .flat_map(|paths| paths.split([',', ' ']))
        .filter(|path| !path.is_empty())
        .collect();
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let find = |line, message: &str| Finding {
            file: path.to_owned(),
            line,
            message: message.to_owned(),
        };
        let tokens: TokenStream = text
            .parse()
            .map_err(|error| anyhow::anyhow!("{error}"))
            .with_context(|| format!("read {path}"))?;
        if !allowed.iter().any(|allowed| path.starts_with(allowed)) {
            let mut lines = Vec::new();
            unsafe_lines(tokens, &mut lines);
            let message = "`unsafe` may not stand here: see ARCHITECTURE.md, or do without";
            findings.extend(lines.into_iter().map(|line| find(line, message)));
        }
        let is_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
        let folder = path.trim_end_matches("lib.rs").trim_end_matches("main.rs");
        let may = allowed
            .iter()
            .any(|allowed| allowed.starts_with(folder) || path.starts_with(allowed));
        if is_root && !may && !text.contains("#![forbid(unsafe_code)]") {
            let message = "the crate has no place for `unsafe`: say #![forbid(unsafe_code)]";
            findings.push(find(1, message));
        }
    }
    for path in &allowed {
        if !tree.iter().any(|(file, _)| file.starts_with(path)) {
            findings.push(Finding {
                file: "ARCHITECTURE.md".to_owned(),
                line: 1,
                message: format!("`unsafe: {path}` names nothing that is there"),
            });
        }
    }
    Ok(findings)
}

/// The lines where the keyword stands, inside macros too.
fn unsafe_lines(tokens: TokenStream, lines: &mut Vec<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => unsafe_lines(group.stream(), lines),
            TokenTree::Ident(word) if word == "unsafe" => lines.push(word.span().start().line),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_stays_behind_its_fence() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "mod fenced;\nmod open;\n"),
            ("crates/a/src/fenced.rs", "fn f() { unsafe {} }\n"),
            (
                "crates/a/src/open.rs",
                "// unsafe\nfn f() { m!({ unsafe {} }) }\n",
            ),
            ("crates/b/src/lib.rs", "fn f() {}\n"),
            ("crates/c/src/lib.rs", "#![forbid(unsafe_code)]\n"),
        ]);
        let page = "    unsafe: crates/a/src/fenced.rs, crates/gone\n";
        let findings = check(&tree, page).expect("it is Rust");
        let found: Vec<(&str, usize)> = (findings.iter())
            .map(|finding| (finding.file.as_str(), finding.line))
            .collect();
        let expected = [
            ("crates/a/src/open.rs", 2),
            ("crates/b/src/lib.rs", 1),
            ("ARCHITECTURE.md", 1),
        ];
        assert_eq!(found, expected);
    }
}
