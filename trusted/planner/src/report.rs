//! What a schema means: for each collection its indexes, for each query pattern how it runs and what it leaks.

use crate::cost::Statistics;
use crate::explain::Explanation;
use crate::indexes::{PlannedIndex, physical_indexes, plan_indexes};
use crate::physical::PhysicalIndex;
use crate::plan::{IndexState, LEAKAGE_RATIO, PlanError, Planner, Request};
use crate::schema::{CollectionSchema, FieldType, QueryPattern, Schema};
use crate::store::{Aggregate, AggregateFunction};
use arras_documents::filter::{Expr, Test};
use arras_documents::sort::{Sort, SortKey};
use arras_protocol::IndexId;
use bson::Bson;
use std::fmt;

/// What a schema means for one collection.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionReport {
    /// `database.collection`.
    pub namespace: String,
    /// The paper's plan: nonsensitive fields have plain indexes.
    pub planned: Vec<PlannedIndex>,
    /// The indexes this store builds.
    pub built: Vec<PhysicalIndex>,
    /// Things to know.
    pub notes: Vec<String>,
    /// Its query patterns.
    pub patterns: Vec<PatternReport>,
}

/// How one query pattern runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternReport {
    /// Its name.
    pub name: String,
    /// Its where clause in the paper's notation.
    pub clause: String,
    /// How it runs, or why it does not.
    pub outcome: Result<Explanation, PlanError>,
}

/// Reports on every collection of a schema.
#[must_use]
pub fn report(schema: &Schema, statistics: &Statistics) -> Vec<CollectionReport> {
    schema
        .collections
        .iter()
        .map(|(namespace, collection)| of_collection(namespace, collection, statistics))
        .collect()
}

fn of_collection(namespace: &str, schema: &CollectionSchema, statistics: &Statistics) -> CollectionReport {
    let built = physical_indexes(schema);
    let states = states(&built);
    let leakage_ratio = schema.leakage_ratio.unwrap_or(LEAKAGE_RATIO);
    let planner = Planner { scan: schema.scan, leakage_ratio, ..Planner::new(&states, statistics) };
    let patterns =
        schema.all_patterns().iter().map(|pattern| of_pattern(&planner, schema, pattern)).collect();
    CollectionReport {
        namespace: namespace.to_owned(),
        planned: plan_indexes(schema),
        built,
        notes: notes(schema, statistics),
        patterns,
    }
}

/// Indexes as they are when new, under made-up names.
fn states(indexes: &[PhysicalIndex]) -> Vec<IndexState> {
    let state = |(number, index): (usize, &PhysicalIndex)| IndexState {
        id: IndexId((number as u64).to_be_bytes()),
        name: index.to_string(),
        index: index.clone(),
        multikey: false,
        inexact: false,
        sparse: false,
    };
    indexes.iter().enumerate().map(state).collect()
}

fn of_pattern(planner: &Planner<'_>, schema: &CollectionSchema, pattern: &QueryPattern) -> PatternReport {
    let filter = sample_filter(schema, pattern);
    let keys = pattern.order.iter().map(|key| SortKey { path: key.path.clone(), descending: key.descending });
    let sort = Sort::by(keys.collect());
    let request = Request { filter: &filter, sort: &sort, limit: pattern.limit.then_some(100) };
    let aggregates = aggregates(pattern);
    let outcome = match planner.plan_aggregates(&filter, &aggregates) {
        Some(plan) => Ok(Explanation::of_aggregates(&plan, planner.indexes)),
        None => planner.plan(request).map(|plan| Explanation::of(&plan, planner.indexes)),
    };
    PatternReport { name: pattern.name.clone(), clause: pattern.to_string(), outcome }
}

fn sample_filter(schema: &CollectionSchema, pattern: &QueryPattern) -> Expr {
    let kind = |path: &str| schema.fields.get(path).and_then(|field| field.kind);
    let field = |path: &String, test| Expr::Field { path: path.clone(), test };
    let mut all: Vec<Expr> =
        pattern.eq.iter().map(|path| field(path, Test::Eq(sample(kind(path), false)))).collect();
    for path in &pattern.range {
        all.push(field(path, Test::Gte(sample(kind(path), false))));
        all.push(field(path, Test::Lte(sample(kind(path), true))));
    }
    if all.is_empty() { Expr::Always } else { Expr::And(all) }
}

/// A low or high value of a type; integers where it is not declared.
fn sample(kind: Option<FieldType>, high: bool) -> Bson {
    let number = i32::from(high);
    match kind {
        Some(FieldType::Binary) => Bson::Binary(bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: vec![u8::from(high)],
        }),
        Some(FieldType::Bool) => Bson::Boolean(high),
        Some(FieldType::Date) => Bson::DateTime(bson::DateTime::from_millis(i64::from(number))),
        Some(FieldType::Double) => Bson::Double(f64::from(number)),
        Some(FieldType::ObjectId) => Bson::ObjectId(bson::oid::ObjectId::from_bytes([u8::from(high); 12])),
        Some(FieldType::String) => Bson::String(if high { "b" } else { "a" }.to_owned()),
        Some(FieldType::Decimal | FieldType::Int32 | FieldType::Int64) | None => Bson::Int32(number),
    }
}

fn aggregates(pattern: &QueryPattern) -> Vec<Aggregate> {
    let count = pattern.count.then_some(AggregateFunction::Count);
    let sums = pattern.sum.iter().cloned().map(AggregateFunction::Sum);
    let averages = pattern.average.iter().cloned().map(AggregateFunction::Average);
    let functions = count.into_iter().chain(sums).chain(averages);
    functions.enumerate().map(|(number, function)| Aggregate { name: number.to_string(), function }).collect()
}

fn notes(schema: &CollectionSchema, statistics: &Statistics) -> Vec<String> {
    let (count, bytes) = (statistics.document_count, statistics.document_bytes);
    let mut notes = vec![format!("costs are estimates for {count} documents of {bytes} B")];
    let open: Vec<&str> =
        schema.fields.iter().filter(|(_, field)| !field.sensitive).map(|(path, _)| path.as_str()).collect();
    if !open.is_empty() {
        notes.push(format!(
            "declared nonsensitive: {}; this version seals them all the same, and indexes them like the others",
            open.join(", ")
        ));
    }
    for pattern in &schema.patterns {
        if pattern.range.len() > 1 {
            notes.push(format!(
                "'{}' ranges over {}: an index serves one of them, the proxy the rest (Arx §2.5)",
                pattern.name,
                pattern.range.join(", ")
            ));
        }
    }
    notes
}

impl fmt::Display for CollectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: Vec<String>| {
            if items.is_empty() { "none".to_owned() } else { items.join(", ") }
        };
        writeln!(f, "{}", self.namespace)?;
        writeln!(f, "  planned   {}", list(self.planned.iter().map(ToString::to_string).collect()))?;
        writeln!(f, "  built     {}", list(self.built.iter().map(|index| format!("{index:#}")).collect()))?;
        for note in &self.notes {
            writeln!(f, "  note      {note}")?;
        }
        for pattern in &self.patterns {
            write!(f, "\n{pattern}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PatternReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match &self.outcome {
            Ok(explanation) => explanation.to_string(),
            Err(error) => format!("refused   {error}\n"),
        };
        if self.name == self.clause {
            writeln!(f, "  {}", self.name)?;
        } else {
            writeln!(f, "  {} ({})", self.name, self.clause)?;
        }
        text.lines().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

#[cfg(test)]
mod tests;
