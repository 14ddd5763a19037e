//! `arras plan`.

mod apply;

use super::{Failure, PlanArguments};
use crate::configuration::Configuration;
use arras_planner::comparison;
use arras_planner::cost::Statistics;
use arras_planner::kinds::Tuning;
use arras_planner::schema::Schema;
use std::path::Path;

/// Reads a schema file.
pub(super) fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Failure::Io { path: path.to_path_buf(), source })?;
    Ok(Schema::parse(&text, &path.display().to_string())?)
}

/// A schema of tables, if the file is one: it declares no collection.
fn sql_schema(path: &Path) -> Result<Option<arras_postgres::Schema>, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Failure::Io { path: path.to_path_buf(), source })?;
    // What is no TOML is a schema of collections, whose reader says where it is wrong.
    let is_sql = text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("tables"));
    let parsed =
        is_sql.then(|| arras_postgres::Schema::parse(&text, &path.display().to_string())).transpose();
    parsed.map_err(|error| Failure::Check(error.to_string()))
}

/// What costs are said for: a file of a schema does not know the collections; `explain` and the proxy's own plans go by these.
fn statistics(arguments: &PlanArguments) -> Statistics {
    let usual = Statistics::default();
    Statistics {
        document_count: arguments.documents.unwrap_or(usual.document_count),
        document_bytes: arguments.document_bytes.unwrap_or(usual.document_bytes),
        distinct_values: arguments.distinct.iter().cloned().collect(),
    }
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
pub(super) fn run(arguments: &PlanArguments) -> Result<(), Failure> {
    let configuration = arguments.config.as_deref().map(Configuration::read).transpose()?;
    let of_configuration = || configuration.as_ref().and_then(|configuration| configuration.schema.clone());
    let Some(path) = arguments.schema.clone().or_else(of_configuration) else {
        let what = "the configuration names no schema: set schema = \"schema.toml\" in it, or give --schema";
        return Err(Failure::Check(what.into()));
    };
    if let Some(schema) = sql_schema(&path)? {
        print!("{}", arras_postgres::report::text(&arras_postgres::report::report(&schema)));
        return Ok(());
    }
    let mut schema = read_schema(&path)?;
    if let (Some(configuration), true) = (&configuration, arguments.apply) {
        return apply::run(configuration, schema);
    }
    if let Some(only) = &arguments.collection {
        schema.collections.retain(|name, _| name == only);
        if schema.collections.is_empty() {
            let path = path.display();
            return Err(Failure::Check(format!("{path} declares no collection {only}")));
        }
    }
    let statistics = statistics(arguments);
    let range = configuration.as_ref().map(|configuration| configuration.range_indexes).unwrap_or_default();
    let tuning = Tuning { bucket_factor: range.bucket_factor, top_nodes: range.top_nodes as u64 };
    if arguments.compare {
        let comparisons = comparison::compare(&schema, (tuning, &statistics));
        if !arguments.json {
            print!("{}", comparison::text(&comparisons));
        }
        for comparison in comparisons.iter().filter(|_| arguments.json) {
            println!("{}", serde_json::json!(comparison.to_document()));
        }
        return Ok(());
    }
    let reports = arras_planner::report::report(&schema, tuning, &statistics);
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
