//! Who may depend on whom.
//!
//! The first component of a crate's path is its trust zone. The edges are the *declared* dependencies of
//! every member: normal, dev and build, optional ones too, for every platform, so that neither a feature nor
//! a target can add an edge that was not judged. Reachability follows all of them.
//!
//! What ships, and rooms that must do without a parser, a runtime or a socket, are judged by what cargo would build, too: the
//! modules `shipped` and `built`.

mod built;
mod graph;
mod rules;
mod shipped;
#[cfg(test)]
mod tests;

use crate::metadata::{self, Metadata};
use crate::report::Report;

/// Judges every crate of this repository, those in workspaces of their own too.
///
/// # Errors
/// If cargo cannot describe a workspace.
pub fn run() -> Result<Report, String> {
    let root = metadata::root();
    let mut report = judge(&metadata::load_all(&root)?);
    report.rules.push(shipped::RULE);
    report.findings.extend(shipped::check(&root)?);
    report.rules.extend(built::ROOMS.iter().map(|room| room.rule).chain([built::ENCLAVE]));
    report.findings.extend(built::check(&root)?);
    Ok(report)
}

fn judge(workspace: &Metadata) -> Report {
    let graph = graph::Graph::new(workspace);
    let findings = rules::RULES.iter().flat_map(|rule| (rule.check)(&graph)).collect();
    Report { name: "boundary", rules: rules::RULES.iter().map(|rule| rule.name).collect(), findings }
}
