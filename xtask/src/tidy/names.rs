//! Names that say nothing, and names that the glossary keeps for something else.

use super::tree::Tree;
use crate::report::Finding;
use syn::visit::Visit;

/// Module names that gather what nobody placed.
const EMPTY_NAMES: [&str; 10] =
    ["common", "handler2", "helper", "helpers", "manager", "managers", "misc", "util", "utils", "stuff"];

/// No module, file or folder of sources is called `utils` or the like, and a module is `name.rs` with a folder beside it.
pub(super) fn module_names(tree: &Tree) -> Vec<Finding> {
    let finding = |place: String, name: &str| Finding {
        rule: "module-names",
        place,
        wrong: format!("`{name}` says nothing about what is inside"),
        fix: "name it after what it holds, or move its parts to where they are used".into(),
    };
    let mut findings = Vec::new();
    for path in tree.files.keys().filter(|path| path.ends_with(".rs")) {
        for part in path.trim_end_matches(".rs").split('/') {
            if EMPTY_NAMES.contains(&part) {
                findings.push(finding(path.clone(), part));
            }
        }
        if let Some(folder) = path.strip_suffix("/mod.rs") {
            findings.push(Finding {
                rule: "module-names",
                place: path.clone(),
                wrong: "a module's own file is called `mod.rs`".into(),
                fix: format!("call it {folder}.rs, beside its folder"),
            });
        }
    }
    for (path, syntax) in tree.sources() {
        let mut inline = InlineModules::default();
        inline.visit_file(syntax);
        for (line, name) in inline.found.iter().filter(|(_, name)| EMPTY_NAMES.contains(&name.as_str())) {
            findings.push(finding(format!("{path}:{line}"), name));
        }
    }
    findings
}

#[derive(Default)]
struct InlineModules {
    found: Vec<(usize, String)>,
}

impl<'ast> Visit<'ast> for InlineModules {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.found.push((item.ident.span().start().line, item.ident.to_string()));
        }
        syn::visit::visit_item_mod(self, item);
    }
}

/// A type of ours: its kind of item does not matter.
#[derive(Debug)]
pub(super) struct NamedType {
    pub(super) line: usize,
    pub(super) name: String,
}

/// Every struct, enum, union, trait and type alias of a file.
pub(super) fn named_types(syntax: &syn::File) -> Vec<NamedType> {
    let mut types = Types::default();
    types.visit_file(syntax);
    types.found
}

#[derive(Default)]
struct Types {
    found: Vec<NamedType>,
}

impl Types {
    fn add(&mut self, name: &syn::Ident) {
        self.found.push(NamedType { line: name.span().start().line, name: name.to_string() });
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
    }
}

/// Types are not called what the glossary bans: `Session` (say connection, transaction or channel), `Secure`
/// (say against whom), a bare `Token` (say which).
pub(super) fn type_names(tree: &Tree) -> Vec<Finding> {
    let judge = |name: &str| -> Option<&'static str> {
        if name.contains("Session") {
            return Some("say connection, transaction, or channel");
        }
        if name.starts_with("Secure") {
            return Some("say against whom it is safe and what it leaks");
        }
        (name == "Token").then_some("say which: SearchToken, ...")
    };
    let mut findings = Vec::new();
    for (path, syntax) in tree.sources() {
        for found in named_types(syntax) {
            if let Some(fix) = judge(&found.name) {
                findings.push(Finding {
                    rule: "type-names",
                    place: format!("{path}:{}", found.line),
                    wrong: format!("the glossary bans the name `{}`", found.name),
                    fix: fix.into(),
                });
            }
        }
    }
    findings
}
