//! What a schema means: for each collection its indexes, for each query pattern how it runs and what it leaks.

mod notes;
mod text;

pub(crate) use text::Writer;
pub use text::text;

use crate::cost::Statistics;
use crate::indexes::{PlannedIndex, physical_indexes, plan_indexes};
use crate::kinds::Tuning;
use crate::physical::PhysicalIndex;
use crate::plan::{IndexState, LEAKAGE_RATIO, PlanError, Planner, Request};
use crate::schema::{CollectionSchema, FieldType, QueryPattern, Schema, TextSchema};
use arras_documents::filter::{Expr, Test};
use arras_documents::sort::{Sort, SortKey};
use arras_documents::text::TextCondition;
use arras_protocol::IndexId;
use arras_service::explanation::Explanation;
use arras_service::store::{Aggregate, AggregateFunction};
use bson::Bson;

/// What a schema means for one collection.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionReport {
    /// `database.collection`.
    pub namespace: String,
    /// The paper's plan: nonsensitive fields have plain indexes.
    pub planned: Vec<PlannedIndex>,
    /// The indexes Arras builds for it.
    pub builds: Vec<PhysicalIndex>,
    /// The text index beside them, at the enclave of boolean search.
    pub text: Option<TextSchema>,
    /// Things to know.
    pub notes: Vec<String>,
    /// Its query patterns.
    pub patterns: Vec<PatternReport>,
}

/// How one query pattern runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternReport {
    /// As the schema gives it; `$text` for that of a text index.
    pub name: String,
    /// Its where clause in the paper's notation.
    pub clause: String,
    /// How it runs, or why it does not.
    pub outcome: Result<Explanation, PlanError>,
}

/// Reports on every collection of a schema, under the settings of indexes and what is known of the data.
#[must_use]
pub fn report(schema: &Schema, tuning: Tuning, statistics: &Statistics) -> Vec<CollectionReport> {
    schema
        .collections
        .iter()
        .map(|(namespace, collection)| of_collection(namespace, collection, (tuning, statistics)))
        .collect()
}

fn of_collection(
    namespace: &str,
    schema: &CollectionSchema,
    (tuning, statistics): (Tuning, &Statistics),
) -> CollectionReport {
    let builds = physical_indexes(schema);
    let states = states(&builds, tuning);
    let leakage_ratio = schema.leakage_ratio.unwrap_or(LEAKAGE_RATIO);
    let planner = Planner {
        scan: schema.scan,
        leakage_ratio,
        declared: schema.declares_queries(),
        adversary: schema.adversary,
        ..Planner::new(&states, statistics)
    };
    let patterns =
        schema.all_patterns().iter().map(|pattern| of_pattern(&planner, schema, pattern)).collect();
    CollectionReport {
        namespace: namespace.to_owned(),
        planned: plan_indexes(schema),
        notes: notes::of(schema, &builds, statistics),
        builds,
        text: schema.text.clone(),
        patterns,
    }
}

/// Indexes as they are when new, under made-up names.
fn states(indexes: &[PhysicalIndex], tuning: Tuning) -> Vec<IndexState> {
    let state = |(number, index): (usize, &PhysicalIndex)| {
        let id = IndexId((number as u64).to_be_bytes());
        IndexState { tuning, ..IndexState::new(id, index.to_string(), index.clone()) }
    };
    indexes.iter().enumerate().map(state).collect()
}

fn of_pattern(planner: &Planner<'_>, schema: &CollectionSchema, pattern: &QueryPattern) -> PatternReport {
    let filter = sample_filter(schema, pattern);
    let keys = pattern.order.iter().map(|key| SortKey { path: key.path.clone(), descending: key.descending });
    let sort = Sort::by(keys.collect());
    let request = Request { filter: &filter, sort: &sort, limit: pattern.limit.then_some(100) };
    let aggregates = aggregates(pattern);
    let outcome = planner.plan_query(request, &aggregates);
    let text = schema.text.as_ref().map(TextSchema::request);
    let text = text.as_ref().map(|request| request.name.as_str());
    let outcome = outcome.map(|plan| crate::explain::of_query(&plan, planner.indexes, text));
    PatternReport { name: pattern.name.clone(), clause: pattern.to_string(), outcome }
}

fn sample_filter(schema: &CollectionSchema, pattern: &QueryPattern) -> Expr {
    let kind = |path: &str| schema.fields.get(path).and_then(|field| field.kind);
    let field = |path: &String, test| Expr::Field { path: path.clone(), test };
    let mut all: Vec<Expr> =
        pattern.eq.iter().map(|path| field(path, Test::Eq(sample(kind(path), false)))).collect();
    all.extend(pattern.text.then(|| Expr::Text(TextCondition::words("words"))));
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

#[cfg(test)]
mod tests;
