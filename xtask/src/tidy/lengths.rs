//! Lengths that may only shrink.
//!
//! A file has at most [`FILE_LINES_MAX`] lines, a function at most [`FUNCTION_LINES_MAX`] from `fn` to its
//! closing brace. What is over is listed in `xtask/exceptions.toml` with its present length: growing past it
//! is an error, and so is an entry that could be lowered or dropped, so that the list shrinks with the code.

use super::tree::Tree;
use crate::report::Finding;
use std::collections::BTreeMap;
use syn::visit::Visit;

/// Lines of a source file.
pub(super) const FILE_LINES_MAX: usize = 600;
/// Lines of a function.
pub(super) const FUNCTION_LINES_MAX: usize = 70;
/// Own lines of what runs in the enclave: they only become fewer.
pub(super) const ENCLAVE_LINES_MAX: usize = 3_000;

/// Kinds of files whose length is limited.
const CODE: [&str; 6] = [".rs", ".py", ".js", ".mjs", ".sh", ".java"];

/// Files are short.
pub(super) fn file_length(tree: &Tree) -> Vec<Finding> {
    let code = |path: &&String| CODE.iter().any(|ending| path.ends_with(ending));
    let lengths = tree
        .files
        .keys()
        .filter(code)
        .map(|path| (path.clone(), tree.files[path].text.lines().count()))
        .collect();
    let ratchet = Ratchet {
        rule: "file-length",
        unit: "lines",
        limit: FILE_LINES_MAX,
        listed: &tree.exceptions.file_lines,
        shorten: "split it by what its parts are about",
    };
    ratchet.judge(&lengths)
}

/// The enclave is small: what it is made of besides `shared/` and keys, without tests, blank lines and comments. What clients alone compile
/// of the scheme is none of it.
pub(super) fn enclave_lines(tree: &Tree) -> Vec<Finding> {
    let (enclave, scheme) = ("enclave/iee/src/", "trusted/schemes/src/bisen");
    let of_enclave = |path: &&String| {
        let shared = path.starts_with(scheme) && !path.starts_with("trusted/schemes/src/bisen/client");
        (path.starts_with(enclave) || shared) && path.ends_with(".rs")
    };
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let own = |path: &String| {
        let text = &tree.files[path].text;
        text.lines().take_while(|line| *line != "#[cfg(test)]").filter(code).count()
    };
    let lines: usize = tree.files.keys().filter(of_enclave).map(own).sum();
    if lines <= ENCLAVE_LINES_MAX {
        return Vec::new();
    }
    vec![Finding {
        rule: "enclave-lines",
        place: enclave.into(),
        wrong: format!("{lines} lines in the enclave, allowed are {ENCLAVE_LINES_MAX}"),
        fix: "leave to clients or the host what need not be trusted, or say it in fewer lines".into(),
    }]
}

/// Functions are short.
pub(super) fn function_length(tree: &Tree) -> Vec<Finding> {
    let mut lengths: BTreeMap<String, usize> = BTreeMap::new();
    for (path, syntax) in tree.sources() {
        let mut functions = Functions { path, scope: Vec::new(), lengths: &mut lengths };
        functions.visit_file(syntax);
    }
    let ratchet = Ratchet {
        rule: "function-length",
        unit: "lines",
        limit: FUNCTION_LINES_MAX,
        listed: &tree.exceptions.function_lines,
        shorten: "name its steps and make them functions",
    };
    ratchet.judge(&lengths)
}

/// A count that may only shrink.
pub(super) struct Ratchet<'t> {
    pub(super) rule: &'static str,
    /// What is counted.
    pub(super) unit: &'static str,
    /// How many there may be of what is not listed.
    pub(super) limit: usize,
    /// Exceptions with their present counts.
    pub(super) listed: &'t BTreeMap<String, usize>,
    /// How to have fewer.
    pub(super) shorten: &'static str,
}

impl Ratchet<'_> {
    /// Compares counts with the limit and the listed exceptions, both ways.
    pub(super) fn judge(&self, lengths: &BTreeMap<String, usize>) -> Vec<Finding> {
        let Self { rule, unit, limit, listed, shorten } = *self;
        let mut findings = Vec::new();
        let mut add = |place: &str, wrong: String, fix: &str| {
            findings.push(Finding { rule, place: place.into(), wrong, fix: fix.into() });
        };
        for (name, lines) in lengths {
            let allowed = listed.get(name).copied().unwrap_or(limit).max(limit);
            if *lines > allowed {
                add(name, format!("{lines} {unit}, allowed are {allowed}"), shorten);
            }
        }
        for (name, allowed) in listed {
            match lengths.get(name) {
                Some(lines) if *lines <= limit => {
                    add(
                        name,
                        format!("{lines} {unit}, within the limit"),
                        "drop its line from xtask/exceptions.toml",
                    );
                }
                Some(lines) if lines < allowed => {
                    let fix = format!("lower its line in xtask/exceptions.toml to {lines}");
                    add(name, format!("{lines} {unit}, but {allowed} are allowed"), &fix);
                }
                Some(_) => {}
                None => add(
                    name,
                    "there is no such thing any more".into(),
                    "drop its line from xtask/exceptions.toml",
                ),
            }
        }
        findings
    }
}

struct Functions<'a> {
    path: &'a str,
    /// Names of the modules, types and functions around.
    scope: Vec<String>,
    lengths: &'a mut BTreeMap<String, usize>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        let name: Vec<String> = self.scope.iter().cloned().chain([signature.ident.to_string()]).collect();
        let name = format!("{}::{}", self.path, name.join("::"));
        let lines = self.lengths.entry(name).or_default();
        // Variants of one function for different platforms share a name: the longest counts.
        *lines = (*lines).max(last + 1 - first);
    }

    fn within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(item.ident.to_string(), |this| syn::visit::visit_item_mod(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(item.ident.to_string(), |this| syn::visit::visit_item_trait(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match item.self_ty.as_ref() {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.within(name.unwrap_or_else(|| "impl".into()), |this| syn::visit::visit_item_impl(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        self.within(item.sig.ident.to_string(), |this| syn::visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        self.within(item.sig.ident.to_string(), |this| syn::visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        self.within(item.sig.ident.to_string(), |this| syn::visit::visit_trait_item_fn(this, item));
    }
}
