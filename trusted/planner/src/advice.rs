//! Which index would help a query that has none.

use crate::conditions::{Condition, Conditions};
use crate::plan::PlanError;
use arras_documents::sort::Sort;

/// The index that would avoid a scan, in words; `None` if a scan is what the query asks for.
pub(crate) fn advice(conditions: &Conditions, sort: &Sort, limit: Option<u64>) -> Option<String> {
    if conditions.is_empty() && (sort.is_empty() || limit.is_none()) {
        return None;
    }
    Some(match key_pattern(conditions, sort) {
        Some((key, first)) => {
            let operation = if key.equality_only { "eq" } else { "range" };
            let schema = if key.fields.len() == 1 {
                format!("fields.\"{first}\" = {{ operations = [\"{operation}\"] }}")
            } else {
                let list: Vec<String> = key.fields.iter().map(|field| format!("\"{field}\"")).collect();
                format!("indexes = [[{}]] and the query pattern", list.join(", "))
            };
            let pattern: Vec<String> = key.fields.iter().map(|field| format!("\"{field}\": 1")).collect();
            format!("createIndex({{{}}}), or {schema} in the schema, would serve it", pattern.join(", "))
        }
        None => {
            "no index can serve it; add a condition of equality or range, or set scan = \"allow\" for the \
                 collection in the schema"
                .to_owned()
        }
    })
}

/// The error for a query that needs a scan where scans are refused.
pub(crate) fn refusal(conditions: &Conditions, sort: &Sort) -> PlanError {
    let (field, operator) = first_operation(conditions)
        .or_else(|| sort.keys().first().map(|key| (key.path.clone(), "sort with limit")))
        .unwrap_or_default();
    let fix = advice(conditions, sort, Some(1)).unwrap_or_default();
    PlanError::NoIndex { field, operator, fix }
}

fn first_operation(conditions: &Conditions) -> Option<(String, &'static str)> {
    let own = conditions.all.first().map(|condition| (condition.path.clone(), condition.operator));
    let inner = || conditions.any.iter().flat_map(|any| &any.branches).find_map(first_operation);
    let opaque = || conditions.opaque.first().map(|opaque| (opaque.path.clone(), opaque.operator));
    own.or_else(inner).or_else(opaque)
}

struct Key {
    fields: Vec<String>,
    equality_only: bool,
}

/// Fields compared for equality, then one compared by range or sorted by; and the first of them. Of an `$or`,
/// those of its first branch.
fn key_pattern(conditions: &Conditions, sort: &Sort) -> Option<(Key, String)> {
    let mut all: Vec<&Condition> = conditions.all.iter().collect();
    if all.is_empty() {
        let inner = conditions.any.first().and_then(|any| any.branches.first());
        all.extend(inner.iter().flat_map(|branch| &branch.all));
    }
    let mut fields: Vec<String> = Vec::new();
    for condition in all.iter().filter(|condition| condition.values.only_points()) {
        if !fields.contains(&condition.path) {
            fields.push(condition.path.clone());
        }
    }
    let ranged =
        all.iter().find(|condition| !condition.values.only_points()).map(|condition| &condition.path);
    let ordered = sort.keys().iter().map(|key| &key.path).find(|path| !fields.contains(path));
    let last = ranged.or(ordered).filter(|path| !fields.contains(path));
    let equality_only = last.is_none();
    fields.extend(last.cloned());
    let first = fields.first()?.clone();
    Some((Key { fields, equality_only }, first))
}
