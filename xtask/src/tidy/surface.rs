//! What a library shows is what somebody uses: a `pub` item whose name no other crate, test,
//! example or fuzz target mentions is either dead or the crate's own business (`pub(crate)`).
//!
//! Names are compared, not meanings, so that an item whose name is common is never found; types and
//! traits that the signatures of other public items need are left alone.

use super::files::Tree;
use super::finding::Finding;
use super::modules::{Crate, attributes, is_for_tests};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::collections::BTreeSet;
use syn::visit::{self, Visit};

pub(crate) fn check(tree: &Tree, crates: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for of in crates.iter().filter(|of| of.is_library) {
        let own: BTreeSet<&str> = of.files.iter().map(String::as_str).collect();
        let mut outside = BTreeSet::new();
        for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".rs")) {
            if !own.contains(path)
                && let Ok(tokens) = text.parse::<TokenStream>()
            {
                words(tokens, &mut outside);
            }
        }
        let mut surface = Surface::default();
        for (file, syntax) in of.syntax.iter().enumerate() {
            surface.file = file;
            surface.visit_file(syntax);
        }
        for (file, name, span, is_type) in &surface.items {
            let needed = *is_type && surface.signatures.contains(name);
            if !needed && !outside.contains(name) {
                findings.push(Finding {
                    file: of.files[*file].clone(),
                    line: span.start().line,
                    message: format!(
                        "`{name}` is public, and nothing outside {} uses it: pub(crate), or remove",
                        of.name
                    ),
                });
            }
        }
    }
    findings
}

/// All words of a source.
fn words(tokens: TokenStream, to: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => words(group.stream(), to),
            TokenTree::Ident(word) => {
                to.insert(word.to_string());
            }
            _ => {}
        }
    }
}

/// The public items of a crate, and all words of their signatures.
#[derive(Default)]
struct Surface {
    file: usize,
    /// File, name, place, and whether it is a type or trait.
    items: Vec<(usize, String, Span, bool)>,
    signatures: BTreeSet<String>,
    /// Inside what signatures are made of.
    in_signature: usize,
}

impl Surface {
    fn add(&mut self, name: &syn::Ident, is_type: bool) {
        self.items
            .push((self.file, name.to_string(), name.span(), is_type));
    }

    fn signature(&mut self, visit: impl FnOnce(&mut Self)) {
        self.in_signature += 1;
        visit(self);
        self.in_signature -= 1;
    }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

impl<'ast> Visit<'ast> for Surface {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        match item {
            syn::Item::Fn(item) if is_public(&item.vis) => {
                self.add(&item.sig.ident, false);
                self.signature(|own| own.visit_signature(&item.sig));
            }
            syn::Item::Const(item) if is_public(&item.vis) => {
                self.add(&item.ident, false);
                self.signature(|own| own.visit_type(&item.ty));
            }
            syn::Item::Static(item) if is_public(&item.vis) => {
                self.add(&item.ident, false);
                self.signature(|own| own.visit_type(&item.ty));
            }
            syn::Item::Struct(item) if is_public(&item.vis) => {
                self.add(&item.ident, true);
                for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
                    self.signature(|own| own.visit_type(&field.ty));
                }
            }
            syn::Item::Enum(item) if is_public(&item.vis) => {
                self.add(&item.ident, true);
                self.signature(|own| {
                    for variant in &item.variants {
                        own.visit_fields(&variant.fields);
                    }
                });
            }
            syn::Item::Type(item) if is_public(&item.vis) => {
                self.add(&item.ident, true);
                self.signature(|own| own.visit_type(&item.ty));
            }
            syn::Item::Trait(item) if is_public(&item.vis) => {
                self.add(&item.ident, true);
                self.signature(|own| visit::visit_item_trait(own, item));
            }
            syn::Item::Impl(item) => {
                self.signature(|own| {
                    if let Some((of, _)) = &item.trait_ {
                        own.visit_path(of);
                    }
                });
                for inner in &item.items {
                    match inner {
                        syn::ImplItem::Fn(method) if is_public(&method.vis) => {
                            self.add(&method.sig.ident, false);
                            self.signature(|own| own.visit_signature(&method.sig));
                        }
                        syn::ImplItem::Const(inner) if is_public(&inner.vis) => {
                            self.add(&inner.ident, false);
                        }
                        syn::ImplItem::Type(inner) if item.trait_.is_some() => {
                            self.signature(|own| own.visit_type(&inner.ty));
                        }
                        _ => {}
                    }
                }
            }
            syn::Item::Mod(_) => visit::visit_item(self, item),
            _ => {}
        }
    }

    fn visit_ident(&mut self, word: &'ast syn::Ident) {
        if self.in_signature > 0 {
            self.signatures.insert(word.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::modules;
    use super::*;

    #[test]
    fn what_nobody_outside_uses_is_found() {
        let library = "pub struct Used;\npub struct Needed;\npub struct Dead;\nimpl Used {\n\
                       pub fn called(&self) -> Needed { Needed }\npub fn never(&self) {}\n}\n\
                       #[cfg(test)]\npub fn only_here() {}\npub(crate) fn own() {}\n";
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", library),
            ("crates/a/tests/t.rs", "fn t() { a::Used.called(); }\n"),
        ]);
        let crates = modules::read(&tree).expect("it is Rust");
        let lines: Vec<usize> = check(&tree, &crates)
            .iter()
            .map(|found| found.line)
            .collect();
        assert_eq!(lines, [3, 6]);
    }
}
