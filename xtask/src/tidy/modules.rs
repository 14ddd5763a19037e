//! Source files that nothing compiles, and code that enters a crate around its dependencies.

use super::tree::Tree;
use crate::report::Finding;
use std::collections::BTreeSet;
use syn::visit::Visit;

/// Every `.rs` file is Rust.
pub(super) fn sources_parse(tree: &Tree) -> Vec<Finding> {
    let unparsed = |(path, file): (&String, &super::tree::File)| match &file.syntax {
        Some(Err(error)) => Some(Finding {
            rule: "sources-parse",
            place: format!("{path}:{}", error.span().start().line),
            wrong: error.to_string(),
            fix: "make it Rust: no rule reads a file that does not parse".into(),
        }),
        _ => None,
    };
    tree.files.iter().filter_map(unparsed).collect()
}

/// Every `.rs` file is a target's root or reached from one by `mod` declarations.
pub(super) fn dead_modules(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for (root, _) in tree.crates.iter().flat_map(|member| &member.targets) {
        reach(tree, root, true, &mut reached);
    }
    let dead = |path: &&String| path.ends_with(".rs") && !reached.contains(*path);
    let finding = |path: &String| Finding {
        rule: "dead-modules",
        place: path.clone(),
        wrong: "no `mod` declaration reaches this file, so nothing compiles it".into(),
        fix: "declare it in its parent module, or delete it".into(),
    };
    tree.files.keys().filter(dead).map(finding).collect()
}

/// Follows the `mod` declarations of `path`.
fn reach(tree: &Tree, path: &str, is_root: bool, reached: &mut BTreeSet<String>) {
    let Some(file) = tree.files.get(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let Some(Ok(syntax)) = &file.syntax else { return };
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    let base = if is_root || stem == "mod" { folder.to_owned() } else { join(folder, stem) };
    let mut visitor = Mods { tree, file_folder: folder, base, reached };
    visitor.visit_file(syntax);
}

struct Mods<'a> {
    tree: &'a Tree,
    /// Folder of the file: what `#[path]` starts from outside inline modules.
    file_folder: &'a str,
    /// Folder where a child module's file is looked for.
    base: String,
    reached: &'a mut BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Mods<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string().trim_start_matches("r#").to_owned();
        if item.content.is_some() {
            let outer = std::mem::take(&mut self.base);
            self.base = join(&outer, &name);
            syn::visit::visit_item_mod(self, item);
            self.base = outer;
        } else if let Some(given) = path_attribute(&item.attrs) {
            reach(self.tree, &join(self.file_folder, &given), true, self.reached);
        } else {
            reach(self.tree, &join(&self.base, &format!("{name}.rs")), false, self.reached);
            reach(self.tree, &join(&self.base, &format!("{name}/mod.rs")), false, self.reached);
        }
    }
}

/// `folder/rest`, with `.` and `..` resolved.
pub(super) fn join(folder: &str, rest: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(rest.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// No `#[path]` and no `include!` brings a file of another crate in: that would pass every boundary rule.
pub(super) fn foreign_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, syntax) in tree.sources() {
        let home = tree.crate_of(path);
        let mut visitor = Includes { found: Vec::new() };
        visitor.visit_file(syntax);
        for (line, given) in visitor.found {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let inside =
                given.as_deref().is_some_and(|given| join(folder, given).starts_with(&format!("{home}/")));
            if !inside {
                findings.push(Finding {
                    rule: "foreign-code",
                    place: format!("{path}:{line}"),
                    wrong: "code of another crate enters here around the dependencies that `boundary` judges"
                        .into(),
                    fix: "depend on the crate, or move the code into this one".into(),
                });
            }
        }
    }
    findings
}

struct Includes {
    /// Line and literal path of each `#[path]` and `include!`; no path if it is not a literal.
    found: Vec<(usize, Option<String>)>,
}

impl<'ast> Visit<'ast> for Includes {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
            self.found.push((item.ident.span().start().line, path_attribute(&item.attrs)));
        }
        syn::visit::visit_item_mod(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call.path.segments.last().is_some_and(|segment| segment.ident == "include") {
            let given = call.parse_body::<syn::LitStr>().ok().map(|text| text.value());
            self.found.push((call.path.segments[0].ident.span().start().line, given));
        }
    }
}
