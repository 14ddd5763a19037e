//! How many places name a protocol.
//!
//! A protocol is its own modules (files and folders of its name), and one row in each table: the protocols, the halves,
//! the kinds of index, the lab, the keys. Whoever else names it is a list that a further protocol has to be
//! added to. The declaration of a module is part of it. Tests, fuzz targets and what is measured beside other people's code name what
//! they are about and are not counted.

use super::lengths::Ratchet;
use super::tree::Tree;
use crate::report::Finding;
use crate::table;
use std::collections::{BTreeMap, BTreeSet};

/// Files that may name a protocol outside of its modules: a row in each of five tables.
pub(super) const NAMING_FILES_MAX: usize = 5;

/// Where each protocol states what it leaks, and by that its name, if it is of no index.
const LEAKAGE: &str = "shared/protocol/src/leakage";

/// The trees over schemes of an order go by the scheme's name.
const TREE: &str = "bplus_";

/// Forms of a column's term, which are no protocols.
const TERM: &str = "_term";

/// Names that are words, which say nothing of whom they name.
const WORDS: [&str; 3] = ["plain", "scan", "sealed"];

/// The names of the protocols: of indexes as the table has them, of others as their leakage has them.
fn protocols(tree: &Tree) -> BTreeSet<&str> {
    let leakages = tree.files.iter().filter(|(path, _)| path.starts_with(LEAKAGE));
    let stated = leakages.flat_map(|(_, file)| file.text.split("protocol: \"").skip(1));
    let names = stated.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name);
    let table = tree.files.get(table::PATH).map(|file| file.text.as_str()).unwrap_or_default();
    let indexes = table::rows(table).into_iter().flat_map(|row| row.indexes);
    let names = names.chain(indexes);
    let names = names.filter(|name| !name.ends_with(TERM) && !WORDS.contains(name));
    names.map(|name| name.strip_prefix(TREE).unwrap_or(name)).collect()
}

/// Few files outside of a protocol's modules name it.
pub(super) fn protocol_names(tree: &Tree) -> Vec<Finding> {
    let mut counts = BTreeMap::new();
    for name in protocols(tree) {
        let words: Vec<&str> = name.split('_').collect();
        let counted = tree.files.iter().filter(|(path, _)| path.ends_with(".rs") && !is_test(path));
        let others = counted.filter(|(path, _)| !is_own(path, name));
        let count = others.filter(|(_, file)| names(&undeclared(&file.text), &words)).count();
        counts.insert(name.to_owned(), count);
    }
    let ratchet = Ratchet {
        rule: "protocol-names",
        unit: "files name it outside of its modules",
        limit: NAMING_FILES_MAX,
        listed: &tree.exceptions.protocol_files,
        shorten: "let the place take it from a table: of protocols, halves, kinds of index, the lab or keys",
    };
    ratchet.judge(&counts)
}

fn is_test(path: &str) -> bool {
    let mut parts = path.trim_end_matches(".rs").split('/');
    parts.any(|part| ["tests", "benches", "fuzz", "opponents", "bench"].contains(&part))
        || path.starts_with("xtask/src/tidy/")
}

/// Is a file one of a protocol's modules: has it, or a folder it is in, its name, alone or after another word?
fn is_own(path: &str, name: &str) -> bool {
    let mut parts = path.trim_end_matches(".rs").split('/');
    parts.any(|part| part == name || part.strip_suffix(name).is_some_and(|before| before.ends_with('_')))
}

/// A text without the declarations of modules.
fn undeclared(text: &str) -> String {
    let declares = |line: &&str| {
        let line = line.trim();
        let module = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
        module.is_some_and(|module| module.ends_with(';'))
    };
    text.lines().filter(|line| !declares(line)).collect::<Vec<_>>().join("\n")
}

/// Does a text name a protocol: its words one after the other, with at most one sign between them, as a name of its own
/// and not within another word?
fn names(text: &str, words: &[&str]) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((first, further)) = words.split_first() else { return false };
    lower.match_indices(first).any(|(at, _)| {
        let mut end = at + first.len();
        for word in further {
            let rest = lower.get(end..).unwrap_or_default();
            let gap = usize::from(rest.starts_with(['_', '-', ' ']));
            if !rest.get(gap..).is_some_and(|rest| rest.starts_with(word)) {
                return false;
            }
            end += gap + word.len();
        }
        begins_a_word(text, at) && ends_a_word(text, end)
    })
}

fn begins_a_word(text: &str, at: usize) -> bool {
    let before = text.get(..at).and_then(|before| before.chars().next_back());
    let own = text.get(at..).and_then(|from| from.chars().next());
    match (before, own) {
        (Some(before), Some(own)) if before.is_alphabetic() => before.is_lowercase() && own.is_uppercase(),
        _ => true,
    }
}

fn ends_a_word(text: &str, end: usize) -> bool {
    let last = text.get(..end).and_then(|until| until.chars().next_back());
    let after = text.get(end..).and_then(|from| from.chars().next());
    match (last, after) {
        (Some(last), Some(after)) if after.is_alphabetic() => last.is_lowercase() && after.is_uppercase(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_spelling_and_not_within_words() {
        let lewi_wu: &[&str] = &["lewi", "wu"];
        for text in ["lewi_wu::x", "LewiWu", "BPlusLewiWuTree", "LEWI_WU_2", "the Lewi-Wu scheme", "Lewi Wu"]
        {
            assert!(names(text, lewi_wu), "{text}");
        }
        for text in ["lewi", "lewi  wu", "lewis_wu", "lewi_wurst", "relewi_wu"] {
            assert!(!names(text, lewi_wu), "{text}");
        }
        assert!(
            names("use a::Pope;", &["pope"]) && names("POPE's", &["pope"]) && names("x.pope()", &["pope"])
        );
        assert!(!names("popen(2)", &["pope"]) && !names("antipope", &["pope"]));
        assert!(!names("sub_clock", &["bclo"]));
    }

    #[test]
    fn the_declaration_of_a_module_does_not_count() {
        assert!(!names(&undeclared("pub mod pope;\n    mod pope;\n"), &["pope"]));
        assert!(names(&undeclared("pub mod pope;\nuse pope::X;\n"), &["pope"]));
        assert!(names(&undeclared("mod pope { }\n"), &["pope"]));
    }

    #[test]
    fn a_protocols_modules_are_its_own() {
        for path in ["a/src/pope.rs", "a/src/pope/node.rs", "a/src/protocol_pope.rs"] {
            assert!(is_own(path, "pope"), "{path}");
        }
        assert!(!is_own("a/src/popes.rs", "pope") && !is_own("a/src/antipope.rs", "pope"));
        assert!(is_test("a/tests/x.rs") && is_test("a/src/x/tests.rs") && is_test("fuzz/src/bin/x.rs"));
        assert!(!is_test("a/src/testsuite.rs"));
    }
}
