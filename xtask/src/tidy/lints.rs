//! Lints that a crate must set for itself and nobody may soften.

use super::tree::Tree;
use crate::report::Finding;
use syn::visit::Visit;

/// The one crate with unsafe code, in small documented modules.
const UNSAFE_HOME: &str = "shared/primitives";

/// Crates that parse what an adversary sends.
const PANIC_FREE: [&str; 2] = ["shared/protocol", "untrusted/server"];

/// What those crates deny.
const PANIC_LINTS: [&str; 4] =
    ["clippy::expect_used", "clippy::indexing_slicing", "clippy::panic", "clippy::unwrap_used"];

/// An attribute that sets lint levels.
struct Levels {
    line: usize,
    /// `allow`, `expect`, `warn`, `deny`, `forbid`.
    level: String,
    lints: Vec<String>,
    in_test: bool,
}

fn levels_of(attribute: &syn::Attribute, in_test: bool) -> Option<Levels> {
    let level = attribute.path().get_ident()?.to_string();
    if !["allow", "expect", "warn", "deny", "forbid"].contains(&level.as_str()) {
        return None;
    }
    let mut lints = Vec::new();
    // `reason = "..."` ends the list with a value that this closure leaves unread; the lints before it count.
    let _ = attribute.parse_nested_meta(|meta| {
        let names: Vec<String> = meta.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        lints.push(names.join("::"));
        Ok(())
    });
    let line = attribute.pound_token.span.start().line;
    Some(Levels { line, level, lints, in_test })
}

/// Every lint attribute of a file, knowing which are in test code.
fn all_levels(path: &str, syntax: &syn::File) -> Vec<Levels> {
    let in_test = path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/benches/");
    let mut visitor = Attributes { in_test, found: Vec::new() };
    visitor.visit_file(syntax);
    visitor.found
}

struct Attributes {
    in_test: bool,
    found: Vec<Levels>,
}

impl<'ast> Visit<'ast> for Attributes {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        self.found.extend(levels_of(attribute, self.in_test));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let outer = self.in_test;
        self.in_test |= is_test(&item.attrs);
        syn::visit::visit_item_mod(self, item);
        self.in_test = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let outer = self.in_test;
        self.in_test |= is_test(&item.attrs);
        syn::visit::visit_item_fn(self, item);
        self.in_test = outer;
    }
}

/// `#[cfg(test)]` or `#[test]`.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let last = attribute.path().segments.last().map(|segment| segment.ident.to_string());
        match last.as_deref() {
            Some("test") => true,
            Some("cfg") => attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test")),
            _ => false,
        }
    })
}

fn sets(syntax: &syn::File, levels: &[&str], lint: &str) -> bool {
    let inner = syntax.attrs.iter().filter_map(|attribute| levels_of(attribute, false));
    inner
        .into_iter()
        .any(|found| levels.contains(&found.level.as_str()) && found.lints.iter().any(|name| name == lint))
}

/// Every library and binary forbids unsafe code; only primitives may allow it, module by module.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in tree.crates.iter().filter(|member| !["fuzz", UNSAFE_HOME].contains(&member.folder.as_str()))
    {
        for (path, _) in member.targets.iter().filter(|(_, kind)| kind == "lib" || kind == "bin") {
            let Some(Some(Ok(syntax))) = tree.files.get(path).map(|file| &file.syntax) else {
                continue;
            };
            if !sets(syntax, &["forbid"], "unsafe_code") {
                findings.push(Finding {
                    rule: "unsafe-code",
                    place: path.clone(),
                    wrong: "this root file does not forbid unsafe code".into(),
                    fix: "begin it with #![forbid(unsafe_code)]".into(),
                });
            }
        }
    }
    for (path, syntax) in tree.sources().filter(|(path, _)| tree.crate_of(path) != UNSAFE_HOME) {
        let softened = |found: &Levels| {
            ["allow", "expect", "warn"].contains(&found.level.as_str())
                && found.lints.iter().any(|lint| lint == "unsafe_code")
        };
        for found in all_levels(path, syntax).into_iter().filter(softened) {
            findings.push(Finding {
                rule: "unsafe-code",
                place: format!("{path}:{}", found.line),
                wrong: format!("unsafe code is allowed here; its place is {UNSAFE_HOME}"),
                fix: format!("give {UNSAFE_HOME} a safe function that does it"),
            });
        }
    }
    findings
}

/// What parses an adversary's bytes denies the ways to panic, and does not take it back outside of tests.
pub(super) fn panic_lints(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in tree.crates.iter().filter(|member| PANIC_FREE.contains(&member.folder.as_str())) {
        for (path, _) in member.targets.iter().filter(|(_, kind)| kind == "lib" || kind == "bin") {
            let Some(Some(Ok(syntax))) = tree.files.get(path).map(|file| &file.syntax) else {
                continue;
            };
            for lint in PANIC_LINTS.iter().filter(|lint| !sets(syntax, &["deny", "forbid"], lint)) {
                findings.push(Finding {
                    rule: "panic-lints",
                    place: path.clone(),
                    wrong: format!("{lint} is not denied in a crate that parses what an adversary sends"),
                    fix: format!("begin the file with #![deny({})]", PANIC_LINTS.join(", ")),
                });
            }
        }
    }
    for (path, syntax) in tree.sources().filter(|(path, _)| PANIC_FREE.contains(&tree.crate_of(path))) {
        let softened = |found: &Levels| {
            !found.in_test
                && ["allow", "expect", "warn"].contains(&found.level.as_str())
                && found.lints.iter().any(|lint| PANIC_LINTS.contains(&lint.as_str()))
        };
        for found in all_levels(path, syntax).into_iter().filter(softened) {
            findings.push(Finding {
                rule: "panic-lints",
                place: format!("{path}:{}", found.line),
                wrong: format!("{} is let through outside of tests", found.lints.join(", ")),
                fix: "return an error that blames the peer".into(),
            });
        }
    }
    findings
}
