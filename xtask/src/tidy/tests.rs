//! Each rule with a sample that breaks it and one that does not.
#![allow(clippy::unwrap_used)]

mod code;
mod prose;
mod secrets;

use super::tree::{Crate, Exceptions, File, Tree};
use super::{RULES, judge};

/// A repository of these files. A crate is wherever there is a `src/lib.rs` or `src/main.rs`.
fn tree(files: &[(&str, &str)]) -> Tree {
    let mut crates: Vec<Crate> = Vec::new();
    for (path, _) in files {
        for (ending, kind) in [("/src/lib.rs", "lib"), ("/src/main.rs", "bin"), ("/tests/all.rs", "test")] {
            let Some(folder) = path.strip_suffix(ending) else {
                continue;
            };
            let target = ((*path).to_owned(), kind.to_owned());
            match crates.iter_mut().find(|member| member.folder == folder) {
                Some(member) => member.targets.push(target),
                None => crates.push(Crate { folder: folder.to_owned(), targets: vec![target] }),
            }
        }
    }
    let files =
        files.iter().map(|(path, text)| ((*path).to_owned(), File::new(path, text.as_bytes()))).collect();
    Tree { files, crates, exceptions: Exceptions::default() }
}

/// The places where `rule` is broken.
fn places(tree: &Tree, rule: &str) -> Vec<String> {
    let rule = RULES.iter().find(|known| known.name == rule).unwrap();
    (rule.check)(tree).into_iter().map(|finding| finding.place).collect()
}

#[test]
fn every_rule_reports_under_its_own_name_and_a_sound_tree_breaks_none() {
    let sound = [
        ("trusted/x/src/lib.rs", "//! X.\n#![forbid(unsafe_code)]\nmod y;\n"),
        ("trusted/x/src/y.rs", "fn f() {}\n"),
        ("README.md", "[x](trusted/x/src/lib.rs)\n"),
    ];
    let report = judge(&tree(&sound));
    assert_eq!(report.findings, []);
    assert_eq!(report.passed(), RULES.len());
    let broken = judge(&tree(&[("trusted/x/src/lib.rs", ""), ("trusted/x/src/utils.rs", "")]));
    assert!(broken.findings.iter().all(|finding| report.rules.contains(&finding.rule)));
    assert_eq!(broken.failed(), 3, "{:#?}", broken.findings);
}
