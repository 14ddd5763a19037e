//! Who may depend on whom.
//!
//! The first component of a crate's path is its trust zone. The edges are the *declared* dependencies of
//! every member: normal, dev and build, optional ones too, for every platform, so that neither a feature nor
//! a target can add an edge that was not judged. Reachability follows all of them.

mod graph;
mod rules;
#[cfg(test)]
mod tests;

use crate::metadata::{self, Metadata};
use crate::report::Report;

/// Judges the workspace in this repository, and the fuzz workspace beside it.
///
/// # Errors
/// If cargo cannot describe a workspace.
pub fn run() -> Result<Report, String> {
    let root = metadata::root();
    let mut workspace = metadata::load(&root.join("Cargo.toml"))?;
    let fuzz = root.join("fuzz").join("Cargo.toml");
    if fuzz.exists() {
        workspace.packages.extend(metadata::load(&fuzz)?.packages);
    }
    Ok(judge(&workspace))
}

fn judge(workspace: &Metadata) -> Report {
    let graph = graph::Graph::new(workspace);
    let findings = rules::RULES
        .iter()
        .flat_map(|rule| (rule.check)(&graph))
        .collect();
    Report {
        name: "boundary",
        rules: rules::RULES.iter().map(|rule| rule.name).collect(),
        findings,
    }
}
