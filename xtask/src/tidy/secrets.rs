//! Secrets have types, the types have a home, and what they may not do is written once.
//!
//! *A secret type* is a struct or enum in `trusted/` or `enclave/` that derives or implements `Zeroize` or
//! `ZeroizeOnDrop`, wipes itself in `Drop`, has a field with `Zeroizing` in its type, or, in `trusted/keys` and
//! `trusted/schemes`, is named `...Key`, `...Secret`, `...Delta` or `Passphrase`. What merely holds one needs no
//! rule: the compiler derives nothing for it that the secret lacks.
//!
//! 1. `secret-types`: no secret type derives or implements what copies, compares, prints or serialises it; a
//!    `Debug` written by hand does not look at `self`; and it is wiped when dropped.
//! 2. `secret-homes`: secret types are defined in `trusted/keys`, `trusted/schemes` and `enclave/` only (ciphers
//!    in `shared/primitives` may wipe their schedules); no type in `shared/` or `untrusted/` is named `...Key`,
//!    `...Secret` or `Passphrase`. The password of a log-in at a database has a place of its own. Sort keys of `trusted/documents` and database keys of `shared/storage` may be.
//! 3. `secret-arrays`: outside `trusted/keys`, no field and no parameter named `key`, `secret`, `passphrase` or
//!    `password` (also as the last word of a name) is a byte array. `&[u8; N]`, `[u8; N]` and `Block` are always
//!    meant, inside other types too. `[u8]` and `Vec<u8>` are meant, except that a *database* key, `key: &[u8]`,
//!    may be so where no cryptographic key can be (`shared/storage`, `untrusted/`, `trusted/planner`, the front
//!    ends) and in `trusted/proxy` and `lab/`. `str` and `String` are meant except under the name `key`, where
//!    they are a field's name, and in `lab/`, whose passphrases are thrown away.
//!    Parameters in `shared/primitives` are free (bytes in, bytes out), its fields are not.

use super::names::named_types;
use super::tree::Tree;
use crate::report::Finding;
use std::collections::BTreeSet;
use syn::visit::Visit;

/// Traits that copy, compare, print or serialise.
const FORBIDDEN: [&str; 19] = [
    "AsRef",
    "Borrow",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Deref",
    "DerefMut",
    "Deserialize",
    "Display",
    "Eq",
    "Hash",
    "LowerHex",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Serialize",
    "ToString",
    "UpperHex",
];

/// The one place outside for a secret type: what a front end logs in with at somebody else's database is no key of any data,
/// and no engine has a use for it.
const LOGIN_PASSWORDS: &str = "trusted/postgres/src/upstream/password.rs";

/// Where `key: &[u8]` is a key of a database.
const DATABASE_KEYS: [&str; 7] = [
    "lab",
    "shared/storage",
    "trusted/mongo",
    "trusted/planner",
    "trusted/postgres",
    "trusted/proxy",
    "untrusted/",
];

/// A struct or enum.
struct Definition {
    line: usize,
    name: String,
    /// Traits derived, and traits implemented by hand in the same file.
    derived: BTreeSet<String>,
    implemented: BTreeSet<String>,
    /// For every field, the names in its type.
    fields: Vec<BTreeSet<String>>,
    /// `Drop` calls `zeroize`.
    wipes: bool,
    /// The hand-written `Debug` mentions `self`.
    shows: bool,
}

impl Definition {
    fn has(&self, name: &str) -> bool {
        self.derived.contains(name) || self.implemented.contains(name)
    }

    /// Treated as secret by what it does, not by its name.
    fn is_wiped_type(&self) -> bool {
        let zeroizing = self.fields.iter().any(|names| names.contains("Zeroizing"));
        self.has("Zeroize") || self.has("ZeroizeOnDrop") || self.wipes || zeroizing
    }

    fn is_secret(&self, home: &str) -> bool {
        let named = ["trusted/keys", "trusted/schemes"].contains(&home) && has_secret_name(&self.name);
        self.is_wiped_type() || named
    }

    fn wiped_on_drop(&self) -> bool {
        let by_fields =
            !self.fields.is_empty() && self.fields.iter().all(|names| names.contains("Zeroizing"));
        // A struct with one `Zeroizing` field among public ones is wiped where it matters.
        let partly =
            !has_secret_name(&self.name) && self.fields.iter().any(|names| names.contains("Zeroizing"));
        self.has("ZeroizeOnDrop") || self.wipes || by_fields || partly
    }
}

fn has_secret_name(name: &str) -> bool {
    ["Key", "Secret", "Delta", "Passphrase"].iter().any(|ending| name.ends_with(ending))
}

/// The structs and enums of a file with what is derived and implemented for them there.
fn definitions(syntax: &syn::File) -> Vec<Definition> {
    let mut reader = Reader::default();
    reader.visit_file(syntax);
    let Reader { mut found, implementations } = reader;
    for (of, name, wipes, shows) in implementations {
        for definition in found.iter_mut().filter(|definition| definition.name == of) {
            definition.wipes |= name == "Drop" && wipes;
            definition.shows |= name == "Debug" && shows;
            definition.implemented.insert(name.clone());
        }
    }
    found
}

#[derive(Default)]
struct Reader {
    found: Vec<Definition>,
    /// Type, trait, whether the body says `zeroize`, whether it says `self`.
    implementations: Vec<(String, String, bool, bool)>,
}

impl Reader {
    fn add<'a>(
        &mut self,
        name: &syn::Ident,
        attributes: &[syn::Attribute],
        fields: impl Iterator<Item = &'a syn::Field>,
    ) {
        self.found.push(Definition {
            line: name.span().start().line,
            name: name.to_string(),
            derived: derives(attributes),
            implemented: BTreeSet::new(),
            fields: fields.map(|field| names_in(&field.ty)).collect(),
            wipes: false,
            shows: false,
        });
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident, &item.attrs, item.fields.iter());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident, &item.attrs, item.variants.iter().flat_map(|variant| variant.fields.iter()));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = match item.self_ty.as_ref() {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        let name = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if let (Some(of), Some(name)) = (of, name) {
            let mut words = Words::default();
            for inner in &item.items {
                if let syn::ImplItem::Fn(function) = inner {
                    words.visit_block(&function.block);
                }
            }
            self.implementations.push((of, name.ident.to_string(), words.zeroize, words.this));
        }
    }
}

#[derive(Default)]
struct Words {
    zeroize: bool,
    this: bool,
}

impl<'ast> Visit<'ast> for Words {
    fn visit_ident(&mut self, name: &'ast syn::Ident) {
        self.zeroize |= name == "zeroize";
        self.this |= name == "self";
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text = call.tokens.to_string();
        self.this |= text.contains("self");
        self.zeroize |= text.contains("zeroize");
    }
}

fn derives(attributes: &[syn::Attribute]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        // A derive list that does not parse does not compile either.
        let _ = attribute.parse_nested_meta(|meta| {
            names.extend(meta.path.segments.last().map(|segment| segment.ident.to_string()));
            Ok(())
        });
    }
    names
}

fn names_in(kind: &syn::Type) -> BTreeSet<String> {
    #[derive(Default)]
    struct Names(BTreeSet<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_ident(&mut self, name: &'ast syn::Ident) {
            self.0.insert(name.to_string());
        }
    }
    let mut names = Names::default();
    names.visit_type(kind);
    names.0
}

fn zone(home: &str) -> &str {
    home.split('/').next().unwrap_or_default()
}

/// Secret types neither copy, compare, print nor serialise, and are wiped.
pub(super) fn secret_types(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, syntax) in tree.sources() {
        let home = tree.crate_of(path);
        if !["trusted", "enclave"].contains(&zone(home)) {
            continue;
        }
        for secret in definitions(syntax).iter().filter(|definition| definition.is_secret(home)) {
            let mut add = |wrong: String, fix: &str| {
                findings.push(Finding {
                    rule: "secret-types",
                    place: format!("{path}:{} {}", secret.line, secret.name),
                    wrong,
                    fix: fix.into(),
                });
            };
            for name in FORBIDDEN.iter().filter(|name| secret.derived.contains(**name)) {
                add(format!("a secret type derives {name}"), "drop it; what must cross has a named function");
            }
            let by_hand = |name: &&&str| **name != "Debug" && secret.implemented.contains(**name);
            for name in FORBIDDEN.iter().filter(by_hand) {
                add(
                    format!("a secret type implements {name}"),
                    "drop it; what must cross has a named function",
                );
            }
            if secret.shows {
                add("its Debug looks at the content".into(), "write the type's name only");
            }
            if !secret.wiped_on_drop() {
                add("it is not wiped when dropped".into(), "derive ZeroizeOnDrop");
            }
        }
    }
    findings
}

/// Secret types are defined where keys are handled, and named so nowhere else.
pub(super) fn secret_homes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, syntax) in tree.sources() {
        let home = tree.crate_of(path);
        let at_home = ["trusted/keys", "trusted/schemes", "shared/primitives"].contains(&home)
            || zone(home) == "enclave";
        if !at_home && path != LOGIN_PASSWORDS {
            for secret in definitions(syntax).iter().filter(|definition| definition.is_wiped_type()) {
                findings.push(Finding {
                    rule: "secret-homes",
                    place: format!("{path}:{} {}", secret.line, secret.name),
                    wrong: "a type that wipes itself holds a secret, and this is no place for one".into(),
                    fix: "define it in trusted/keys".into(),
                });
            }
        }
        if !["shared", "untrusted"].contains(&zone(home)) {
            continue;
        }
        let keys_are_no_secrets = ["shared/storage", "trusted/documents"].contains(&home);
        for found in named_types(syntax) {
            let key = found.name.ends_with("Key") || found.name.ends_with("Keys");
            let secret = found.name.contains("Secret") || found.name.contains("Passphrase");
            if secret || (key && !keys_are_no_secrets) {
                findings.push(Finding {
                    rule: "secret-homes",
                    place: format!("{path}:{} {}", found.line, found.name),
                    wrong: "the name says that this is a secret, which this zone must not know".into(),
                    fix: "say RowId, Label or SearchToken if it is public; else define it in trusted/keys"
                        .into(),
                });
            }
        }
    }
    findings
}

/// No byte array is a key.
pub(super) fn secret_arrays(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, syntax) in tree.sources() {
        let home = tree.crate_of(path);
        if home == "trusted/keys" {
            continue;
        }
        let database = DATABASE_KEYS.iter().any(|folder| home.starts_with(folder));
        let mut names = Names::default();
        names.visit_file(syntax);
        for named in names.found {
            let free = home == "shared/primitives" && named.is_parameter;
            let is_key = named.last_word() == "key";
            let bytes = named.is_bytes && !(database && is_key);
            let text = named.is_text && !is_key && home != "lab";
            let plain = named.is_array || bytes || text;
            if named.is_secret_word() && !free && plain {
                findings.push(Finding {
                    rule: "secret-arrays",
                    place: format!("{path}:{}", named.line),
                    wrong: format!(
                        "`{}` is plain bytes: nothing wipes it and everything may print it",
                        named.name
                    ),
                    fix: "make it an arras_keys::Key, or name it after what it is if it is no secret".into(),
                });
            }
        }
    }
    findings
}

/// A field or parameter.
struct Named {
    line: usize,
    name: String,
    is_parameter: bool,
    /// A byte array of fixed size somewhere in its type.
    is_array: bool,
    /// Bytes of any length somewhere in its type.
    is_bytes: bool,
    /// Text somewhere in its type.
    is_text: bool,
}

impl Named {
    fn last_word(&self) -> &str {
        self.name.rsplit('_').next().unwrap_or_default()
    }

    fn is_secret_word(&self) -> bool {
        ["key", "secret", "passphrase", "password"].contains(&self.last_word())
    }
}

#[derive(Default)]
struct Names {
    found: Vec<Named>,
}

impl Names {
    fn add(&mut self, name: &syn::Ident, kind: &syn::Type, is_parameter: bool) {
        let mut shape = Shape::default();
        shape.visit_type(kind);
        let Shape { is_array, is_bytes, is_text } = shape;
        let line = name.span().start().line;
        self.found.push(Named { line, name: name.to_string(), is_parameter, is_array, is_bytes, is_text });
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.add(name, &field.ty, false);
        }
    }

    fn visit_pat_type(&mut self, argument: &'ast syn::PatType) {
        if let syn::Pat::Ident(name) = argument.pat.as_ref() {
            self.add(&name.ident, &argument.ty, true);
        }
    }
}

#[derive(Default)]
struct Shape {
    is_array: bool,
    is_bytes: bool,
    is_text: bool,
}

impl<'ast> Visit<'ast> for Shape {
    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.is_array |= names_in(&array.elem).contains("u8");
    }

    fn visit_type_slice(&mut self, slice: &'ast syn::TypeSlice) {
        self.is_bytes |= names_in(&slice.elem).contains("u8");
        syn::visit::visit_type_slice(self, slice);
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        self.is_array |= segment.ident == "Block" || segment.ident == "GenericArray";
        self.is_text |= segment.ident == "String" || segment.ident == "str";
        if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments {
            let bytes = |argument: &syn::GenericArgument| match argument {
                syn::GenericArgument::Type(syn::Type::Path(path)) => path.path.is_ident("u8"),
                _ => false,
            };
            self.is_bytes |= arguments.args.iter().any(bytes);
        }
        syn::visit::visit_path_segment(self, segment);
    }
}
