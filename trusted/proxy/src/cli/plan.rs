//! `arras plan`.

use super::{Failure, PlanArguments};
use arras_planner::cost::Statistics;
use arras_planner::schema::Schema;
use std::path::Path;

/// Reads a schema file.
pub(super) fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Failure::Io { path: path.to_path_buf(), source })?;
    Ok(Schema::parse(&text, &path.display().to_string())?)
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
pub(super) fn run(arguments: &PlanArguments) -> Result<(), Failure> {
    let mut schema = read_schema(&arguments.schema)?;
    if let Some(only) = &arguments.collection {
        schema.collections.retain(|name, _| name == only);
        if schema.collections.is_empty() {
            let path = arguments.schema.display();
            return Err(Failure::Check(format!("{path} declares no collection {only}")));
        }
    }
    let reports = arras_planner::report::report(&schema, &Statistics::default());
    print!("{}", arras_planner::report::text(&reports));
    let refused: Vec<String> = reports
        .iter()
        .flat_map(|report| report.patterns.iter().map(move |pattern| (report, pattern)))
        .filter(|(_, pattern)| pattern.outcome.is_err())
        .map(|(report, pattern)| format!("{}: {}", report.namespace, pattern.name))
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Failure::Check(format!("no index serves, and the schema refuses scans for: {}", refused.join("; "))))
}
