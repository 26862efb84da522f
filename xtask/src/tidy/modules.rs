//! Rust's modules: which file each path of the source leads to.
//!
//! 1. From `lib.rs` or `main.rs`, `mod` items lead to all files of a crate, and so do macros that
//!    are given files by name; what is only for its tests (`#[cfg(test)]`) is left out.
//! 2. Each module knows its names: items defined there, and names that `use` brings in.
//! 3. A path is followed through modules, and a name that was brought in to where it comes from,
//!    so that an item counts as its own file's, however it is re-exported.
//!
//! An import is a path of one file that leads to another. `pub use` alone is none: it is a signpost
//! for others, unless the file itself uses the name.

use super::files::Tree;
use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// A crate, as far as its files are concerned.
pub(crate) struct Crate {
    /// The folder below `crates/`, or `xtask`.
    pub(crate) name: String,
    /// Whether others can use it.
    pub(crate) is_library: bool,
    /// Its files, relative to the repository's root.
    pub(crate) files: Vec<String>,
    /// Their syntax, in the same order.
    pub(crate) syntax: Vec<syn::File>,
    /// Which file takes what from which.
    pub(crate) imports: Vec<Import>,
}

/// A name that one file takes from another, both by index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) name: String,
    pub(crate) line: usize,
}

type Path = Vec<String>;

/// A name brought in by `use`.
#[derive(Debug)]
struct Used {
    /// `None` for `*`.
    name: Option<String>,
    path: Path,
    is_public: bool,
    line: usize,
}

#[derive(Debug, Default)]
struct Module {
    file: usize,
    defined: BTreeSet<String>,
    used: Vec<Used>,
    /// Other paths in its code, with their lines.
    paths: Vec<(Path, usize)>,
}

/// Reads all crates of the tree.
pub(crate) fn read(tree: &Tree) -> Result<Vec<Crate>> {
    let mut crates = Vec::new();
    for (path, _) in tree.iter() {
        let Some(folder) = path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        let library = format!("{folder}/src/lib.rs");
        let binary = format!("{folder}/src/main.rs");
        let is_library = tree.has(&library);
        for root in [library, binary] {
            if tree.has(&root) {
                let name = folder.trim_start_matches("crates/").to_owned();
                crates.push(Reader::read(tree, name, is_library, &root)?);
            }
        }
    }
    Ok(crates)
}

struct Reader<'t> {
    tree: &'t Tree,
    files: Vec<String>,
    /// `None` while a file is being read.
    syntax: Vec<Option<syn::File>>,
    modules: BTreeMap<Path, Module>,
}

impl<'t> Reader<'t> {
    fn read(tree: &'t Tree, name: String, is_library: bool, root: &str) -> Result<Crate> {
        let mut reader = Reader {
            tree,
            files: Vec::new(),
            syntax: Vec::new(),
            modules: BTreeMap::new(),
        };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        reader.file(root, folder, Vec::new())?;
        let imports = reader.imports();
        Ok(Crate {
            name,
            is_library,
            files: reader.files,
            syntax: reader.syntax.into_iter().flatten().collect(),
            imports,
        })
    }

    /// Reads a file; its child modules lie in `folder`.
    fn file(&mut self, path: &str, folder: &str, module: Path) -> Result<()> {
        let syntax = syn::parse_file(self.tree.text(path)?).with_context(|| path.to_owned())?;
        let index = self.files.len();
        self.files.push(path.to_owned());
        self.syntax.push(None);
        self.items(&syntax.items, index, folder, module)?;
        self.syntax[index] = Some(syntax);
        Ok(())
    }

    fn items(&mut self, items: &[syn::Item], file: usize, folder: &str, path: Path) -> Result<()> {
        let mut module = Module {
            file,
            ..Module::default()
        };
        let named: Vec<syn::ItemMod> = (items.iter())
            .filter_map(|item| match item {
                syn::Item::Macro(item) if item.ident.is_none() => Some(&item.mac),
                _ => None,
            })
            .flat_map(modules_of_macro)
            .collect();
        (module.defined).extend(named.iter().map(|child| child.ident.to_string()));
        let mut children: Vec<&syn::ItemMod> = named.iter().collect();
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                syn::Item::Mod(child) => {
                    module.defined.insert(child.ident.to_string());
                    children.push(child);
                }
                syn::Item::Use(used) => {
                    let is_public = !matches!(used.vis, syn::Visibility::Inherited);
                    flatten(&used.tree, &mut Vec::new(), is_public, &mut module.used);
                }
                item => {
                    module.defined.extend(name_of(item));
                    Paths(&mut module.paths).visit_item(item);
                }
            }
        }
        self.modules.insert(path.clone(), module);
        for child in children {
            let name = child.ident.to_string();
            let mut below = path.clone();
            below.push(name.clone());
            if let Some((_, items)) = &child.content {
                self.items(items, file, &format!("{folder}/{name}"), below)?;
                continue;
            }
            let candidates = match path_attribute(&child.attrs) {
                Some(given) => {
                    let own = self.files[file].rsplit_once('/').map_or("", |(own, _)| own);
                    let file = normal(&format!("{own}/{given}"));
                    // Its own children lie beside it.
                    let beside = file.rsplit_once('/').map_or("", |(beside, _)| beside);
                    let beside = beside.to_owned();
                    vec![(file, beside)]
                }
                None => vec![
                    (format!("{folder}/{name}.rs"), format!("{folder}/{name}")),
                    (
                        format!("{folder}/{name}/mod.rs"),
                        format!("{folder}/{name}"),
                    ),
                ],
            };
            match candidates.iter().find(|(file, _)| self.tree.has(file)) {
                Some((file, folder)) => self.file(file, folder, below)?,
                None => bail!("{}: no file for `mod {name}`", self.files[file]),
            }
        }
        Ok(())
    }

    fn imports(&self) -> Vec<Import> {
        let mut imports = BTreeSet::new();
        for (path, module) in &self.modules {
            let first_words: BTreeSet<&str> = (module.paths.iter())
                .filter_map(|(path, _)| path.first().map(String::as_str))
                .collect();
            let uses = (module.used.iter())
                .filter(|used| {
                    let name = used.name.as_deref();
                    !used.is_public || name.is_some_and(|name| first_words.contains(name))
                })
                .map(|used| (&used.path, used.line));
            let written = module.paths.iter().map(|(path, line)| (path, *line));
            for (target, line) in uses.chain(written) {
                let Some(Target::Item(to, name)) = self.resolve(path, target, 0) else {
                    continue;
                };
                if to != module.file {
                    imports.insert(Import {
                        from: module.file,
                        to,
                        name,
                        line,
                    });
                }
            }
        }
        imports.into_iter().collect()
    }

    /// Where a path leads, seen from a module; `None`: out of the crate, or nowhere we know.
    fn resolve(&self, from: &Path, path: &[String], depth: usize) -> Option<Target> {
        if depth > 16 {
            return None;
        }
        let mut at = from.clone();
        let mut rest = path;
        let mut anchored = false;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at = Vec::new(),
                "self" => {}
                "super" => {
                    at.pop()?;
                }
                _ => break,
            }
            anchored = true;
            rest = after;
        }
        while let Some((first, after)) = rest.split_first() {
            let mut below = at.clone();
            below.push(first.clone());
            if self.modules.contains_key(&below) {
                at = below;
                rest = after;
                anchored = true;
                continue;
            }
            let module = self.modules.get(&at)?;
            if module.defined.contains(first) {
                return Some(Target::Item(module.file, first.clone()));
            }
            let named = (module.used.iter()).find(|used| used.name.as_deref() == Some(first));
            if let Some(used) = named {
                return match self.resolve(&at, &used.path, depth + 1)? {
                    Target::Module(module) => self.resolve(&module, after, depth + 1),
                    item => Some(item),
                };
            }
            let globs = module.used.iter().filter(|used| used.name.is_none());
            let found = globs.filter_map(|used| {
                let Target::Module(module) = self.resolve(&at, &used.path, depth + 1)? else {
                    return None;
                };
                if module == at {
                    return None;
                }
                self.resolve(&module, rest, depth + 1)
            });
            let found = found.into_iter().next();
            return match (found, anchored) {
                (Some(found), _) => Some(found),
                // A name made by a macro, say.
                (None, true) => Some(Target::Item(module.file, first.clone())),
                (None, false) => None,
            };
        }
        Some(Target::Module(at))
    }
}

enum Target {
    Module(Path),
    /// Its file and its name there.
    Item(usize, String),
}

/// Collects the paths of an item, inside macros too.
struct Paths<'p>(&'p mut Vec<(Path, usize)>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Path = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        let line = path
            .segments
            .first()
            .map_or(0, |part| part.ident.span().start().line);
        if path.leading_colon.is_none() {
            self.0.push((words, line));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, inner: &'ast syn::Macro) {
        token_paths(inner.tokens.clone(), self.0);
        visit::visit_macro(self, inner);
    }

    fn visit_item_mod(&mut self, inner: &'ast syn::ItemMod) {
        if !is_for_tests(&inner.attrs) {
            visit::visit_item_mod(self, inner);
        }
    }

    fn visit_item_use(&mut self, inner: &'ast syn::ItemUse) {
        let mut used = Vec::new();
        flatten(&inner.tree, &mut Vec::new(), false, &mut used);
        self.0
            .extend(used.into_iter().map(|used| (used.path, used.line)));
    }
}

/// The modules that a macro is given by their names and files, `name = "folder/file.rs"`.
fn modules_of_macro(given: &syn::Macro) -> Vec<syn::ItemMod> {
    let tokens: Vec<TokenTree> = given.tokens.clone().into_iter().collect();
    let module = |three: &[TokenTree]| match three {
        [
            TokenTree::Ident(name),
            TokenTree::Punct(mark),
            TokenTree::Literal(file),
        ] if mark.as_char() == '=' && file.to_string().ends_with(".rs\"") => {
            syn::parse_str(&format!("#[path = {file}] mod {name};")).ok()
        }
        _ => None,
    };
    tokens.windows(3).filter_map(module).collect()
}

/// Words joined by `::` in the tokens of a macro.
fn token_paths(tokens: TokenStream, paths: &mut Vec<(Path, usize)>) {
    let mut path: Path = Vec::new();
    let mut line = 0;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                if colons != 2 && !path.is_empty() {
                    paths.push((std::mem::take(&mut path), line));
                }
                if path.is_empty() {
                    line = word.span().start().line;
                }
                path.push(word.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            other => {
                if !path.is_empty() {
                    paths.push((std::mem::take(&mut path), line));
                }
                colons = 0;
                if let TokenTree::Group(group) = other {
                    token_paths(group.stream(), paths);
                }
            }
        }
    }
    if !path.is_empty() {
        paths.push((path, line));
    }
}

fn flatten(tree: &syn::UseTree, before: &mut Path, is_public: bool, used: &mut Vec<Used>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, is_public, used);
            before.pop();
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, is_public, used);
            }
        }
        syn::UseTree::Name(name) => {
            let word = name.ident.to_string();
            let mut path = before.clone();
            let own = if word == "self" {
                before.last().cloned()
            } else {
                path.push(word.clone());
                Some(word)
            };
            let line = name.ident.span().start().line;
            used.push(Used {
                name: own,
                path,
                is_public,
                line,
            });
        }
        syn::UseTree::Rename(renamed) => {
            let mut path = before.clone();
            path.push(renamed.ident.to_string());
            let line = renamed.ident.span().start().line;
            let name = Some(renamed.rename.to_string());
            used.push(Used {
                name,
                path,
                is_public,
                line,
            });
        }
        syn::UseTree::Glob(glob) => {
            let line = glob.star_token.spans[0].start().line;
            let path = before.clone();
            used.push(Used {
                name: None,
                path,
                is_public,
                line,
            });
        }
    }
}

/// The name that an item gives to something.
fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is there in tests only.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        list.path.is_ident("cfg")
            && list.tokens.to_string().split(' ').collect::<String>() == "test"
    })
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(literal) => match &literal.lit {
                    syn::Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
}

/// A path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
