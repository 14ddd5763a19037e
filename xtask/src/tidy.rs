//! What reviewers would otherwise have to remember, as checks on the repository's files.
//!
//! A rule is a function from the tree of files to findings; all are in one table below. Files are
//! those that git tracks or would track. What a rule must let pass by name is in `xtask/exceptions.toml`,
//! which can only shrink.

mod lengths;
mod links;
mod lints;
mod modules;
mod names;
mod protocols;
mod secrets;
mod sources;
#[cfg(test)]
mod tests;
mod text;
mod tree;

use crate::report::{Finding, Report};
use tree::Tree;

struct Rule {
    name: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: [Rule; 20] = [
    Rule { name: "sources-parse", check: modules::sources_parse },
    Rule { name: "dead-modules", check: modules::dead_modules },
    Rule { name: "foreign-code", check: modules::foreign_code },
    Rule { name: "module-names", check: names::module_names },
    Rule { name: "type-names", check: names::type_names },
    Rule { name: "protocol-names", check: protocols::protocol_names },
    Rule { name: "file-length", check: lengths::file_length },
    Rule { name: "function-length", check: lengths::function_length },
    Rule { name: "enclave-lines", check: lengths::enclave_lines },
    Rule { name: "secret-types", check: secrets::secret_types },
    Rule { name: "secret-homes", check: secrets::secret_homes },
    Rule { name: "secret-arrays", check: secrets::secret_arrays },
    Rule { name: "unsafe-code", check: lints::unsafe_code },
    Rule { name: "panic-lints", check: lints::panic_lints },
    Rule { name: "own-sources", check: sources::own_sources },
    Rule { name: "markers", check: text::markers },
    Rule { name: "machine-paths", check: text::machine_paths },
    Rule { name: "registry-hosts", check: text::registry_hosts },
    Rule { name: "large-files", check: text::large_files },
    Rule { name: "links", check: links::links },
];

/// Checks this repository.
///
/// # Errors
/// If the files cannot be listed or the exceptions cannot be read.
pub fn run() -> Result<Report, String> {
    Ok(judge(&Tree::load(&crate::metadata::root())?))
}

fn judge(tree: &Tree) -> Report {
    let findings = RULES.iter().flat_map(|rule| (rule.check)(tree)).collect();
    Report { name: "tidy", rules: RULES.iter().map(|rule| rule.name).collect(), findings }
}
