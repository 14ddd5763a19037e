//! What the binaries that ship are made of: no pairing, no protocol that only the laboratory runs, no demonstration.
//!
//! Asked of cargo for each binary by itself, with its default features. A build together with the lab has the lab's
//! features: cargo unifies the features of what is built at once.

use super::built;
use crate::report::Finding;
use crate::table;
use std::path::Path;

/// The rule's name.
pub(super) const RULE: &str = "shipped-small";

/// The packages whose binaries ship.
const PACKAGES: [&str; 2] = ["arras-proxy", "arras-server"];
/// Crates that two schemes need which are built on demand (`cloz`, `bclo`), or the demonstration.
const CRATES: [&str; 4] = ["blst", "csv", "flate2", "indicatif"];
/// What the server has no use for, though the proxy computes PostgreSQL's decimals with it.
const OF_THE_PROXY: [&str; 1] = ["dashu-int"];
/// Features of ours that nothing that ships has.
const FEATURES: [&str; 5] = ["lab", "meter", "demo", "bclo", "cloz"];
/// Where protocols' modules are declared.
const ROOTS: [&str; 3] =
    ["shared/protocol/src/lib.rs", "trusted/schemes/src/lib.rs", "untrusted/server/src/lib.rs"];

/// Every breach.
///
/// # Errors
/// If cargo does not say what it would build, or a crate's root cannot be read.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for package in PACKAGES {
        findings.extend(judge_tree(package, &tree(root, package)?));
    }
    let read =
        |path: &str| std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let table = read(table::PATH)?;
    // Protocols that no field of a deployment uses.
    let laboratory: Vec<&str> =
        table::rows(&table).iter().filter(|row| row.laboratory).map(|row| row.name).collect();
    if laboratory.is_empty() {
        return Err(format!("{}: no protocol of the laboratory", table::PATH));
    }
    for path in ROOTS {
        findings.extend(judge_modules(path, &read(path)?, &laboratory));
    }
    Ok(findings)
}

/// The crates that cargo would build for a package, one on a line, each with its features.
fn tree(root: &Path, package: &str) -> Result<String, String> {
    let tree = built::tree(root, &["--package", package, "--edges", "normal", "--format", "{lib} {f}"])?;
    // Libraries are named as code names them.
    Ok(tree.replace('_', "-"))
}

/// What is in the tree of a package and should not be.
pub(super) fn judge_tree(package: &str, tree: &str) -> Vec<Finding> {
    let finding = |what: &str, fix: &str| Finding {
        rule: RULE,
        place: format!("{package}: {what}"),
        wrong: "what ships holds code that nothing in service needs".into(),
        fix: fix.into(),
    };
    let mut findings = Vec::new();
    for line in tree.lines() {
        let (name, features) = line.split_once(' ').unwrap_or((line, ""));
        let is_others = package == "arras-server" && OF_THE_PROXY.contains(&name);
        if is_others || CRATES.contains(&name) {
            findings
                .push(finding(name, "make it optional, and turn it on by a feature that only lab/ asks for"));
        }
        for feature in features.split(',').filter(|it| name.starts_with("arras-") && FEATURES.contains(it)) {
            findings.push(finding(&format!("{name} [{feature}]"), "ask for the feature in lab/ only"));
        }
    }
    if !tree.lines().any(|line| line.starts_with("arras-primitives")) {
        findings.push(finding("nothing is known of it", "see what `cargo tree` prints"));
    }
    findings.sort_by(|one, other| one.place.cmp(&other.place));
    findings.dedup_by(|one, other| one.place == other.place);
    findings
}

/// The laboratory's modules that are declared without its feature.
pub(super) fn judge_modules(path: &str, root: &str, laboratory: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = "";
    for line in root.lines().map(str::trim) {
        let declared =
            line.trim_start_matches("pub ").strip_prefix("mod ").and_then(|it| it.strip_suffix(';'));
        if let Some(module) = declared.filter(|module| laboratory.contains(module))
            && before != "#[cfg(feature = \"lab\")]"
        {
            findings.push(Finding {
                rule: RULE,
                place: format!("{path}: {module}"),
                wrong: "a protocol that no field of a deployment uses is part of what ships".into(),
                fix: "declare it behind #[cfg(feature = \"lab\")]".into(),
            });
        }
        before = line;
    }
    findings
}
