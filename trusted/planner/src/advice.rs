//! Which index would help a query that has none: advice that can be pasted, and that is tried before it is given.

use crate::conditions::{Condition, Conditions};
use crate::physical::{KeyWidth, PhysicalIndex};
use crate::plan::{IndexState, PlanError, Planner, Request, is_served};
use arras_documents::sort::Sort;
use arras_protocol::IndexId;

/// Alternatives of an `$or` up to which it is tried what would serve them: each is planned for, with every query.
const BRANCHES_MAX: usize = 32;

/// The indexes that would avoid a scan, in words; `None` if a scan is what the query asks for.
pub(crate) fn advice(planner: &Planner<'_>, conditions: &Conditions, request: Request<'_>) -> Option<String> {
    if conditions.is_empty() && (request.sort.is_empty() || request.limit.is_none()) {
        return None;
    }
    if conditions.all.is_empty()
        && conditions.any.first().is_some_and(|any| any.branches.len() > BRANCHES_MAX)
    {
        return Some("an $or of so many alternatives is served if each of them is: ask about one".to_owned());
    }
    Some(served_by(planner, conditions, request).unwrap_or_else(|| {
        "no index can serve it; add a condition of equality or range, or set scan = \"allow\" for the collection in the \
         schema"
            .to_owned()
    }))
}

/// The error for a query that needs a scan where scans are refused.
pub(crate) fn refusal(planner: &Planner<'_>, conditions: &Conditions, request: Request<'_>) -> PlanError {
    let (field, operator) = first_operation(conditions)
        .or_else(|| request.sort.keys().first().map(|key| (key.path.clone(), "sort with limit")))
        .unwrap_or_default();
    let limited = Request { limit: request.limit.or(Some(1)), ..request };
    PlanError::NoIndex { field, operator, fix: advice(planner, conditions, limited).unwrap_or_default() }
}

fn first_operation(conditions: &Conditions) -> Option<(String, &'static str)> {
    let own = conditions.all.first().map(|condition| (condition.path.clone(), condition.operator));
    let inner = || conditions.any.iter().flat_map(|any| &any.branches).find_map(first_operation);
    let opaque = || conditions.opaque.first().map(|opaque| (opaque.path.clone(), opaque.operator));
    own.or_else(inner).or_else(opaque)
}

/// The indexes with which the query would be served, in words; `None` if it would not be.
fn served_by(planner: &Planner<'_>, conditions: &Conditions, request: Request<'_>) -> Option<String> {
    let keys = keys(planner, conditions, request)?;
    let mut indexes = planner.indexes.to_vec();
    indexes.extend(keys.iter().enumerate().flat_map(|(number, key)| key.as_new(number)));
    if !is_served(&Planner { indexes: &indexes, ..*planner }, conditions, request) {
        return None;
    }
    let join = |words: Vec<String>| words.join(" and ");
    let made = join(keys.iter().map(|key| key.as_command(planner.declared)).collect());
    let declared = join(keys.iter().map(Key::as_schema).collect());
    Some(format!("{made}, or {declared} in the schema, would serve it"))
}

/// Fields compared for equality, then perhaps one compared by range or sorted by.
#[derive(PartialEq)]
struct Key {
    equal: Vec<String>,
    last: Option<String>,
}

impl Key {
    fn fields(&self) -> Vec<String> {
        self.equal.iter().chain(&self.last).cloned().collect()
    }

    fn operation(&self) -> &'static str {
        if self.last.is_none() { "eq" } else { "range" }
    }

    /// The indexes a `createIndexes` on it would make, under names no index has.
    fn as_new(&self, number: usize) -> Vec<IndexState> {
        let fields = self.fields();
        let equality = PhysicalIndex::Eq { fields: fields.clone() };
        let range = PhysicalIndex::range(&fields, KeyWidth::Bits128, None);
        let state = |(kind, index): (u8, PhysicalIndex)| {
            let id = IndexId([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, number as u8, kind]);
            IndexState::new(id, index.to_string(), index)
        };
        [(0, Some(equality)), (1, range)]
            .into_iter()
            .filter_map(|(kind, index)| Some((kind, index?)))
            .map(state)
            .collect()
    }

    fn as_command(&self, declared: bool) -> String {
        let pattern: Vec<String> = self.fields().iter().map(|field| format!("\"{field}\": 1")).collect();
        let pattern = pattern.join(", ");
        if declared {
            // A schema narrows what an index is made for, unless its options say.
            let operation = self.operation();
            return format!(
                "createIndex({{{pattern}}}, {{\"storageEngine\": {{\"arras\": {{\"operations\": [\"{operation}\"]}}}}}})"
            );
        }
        format!("createIndex({{{pattern}}})")
    }

    fn as_schema(&self) -> String {
        let quoted = |fields: &[String]| {
            fields.iter().map(|field| format!("\"{field}\"")).collect::<Vec<_>>().join(", ")
        };
        let fields = self.fields();
        if let [field] = fields.as_slice() {
            return format!("\"{field}\" = {{ operations = [\"{}\"] }} under fields", self.operation());
        }
        let range = self.last.iter().map(|field| format!(", range = [\"{field}\"]")).collect::<String>();
        format!(
            "indexes = [[{}]] and {{ eq = [{}]{range} }} among patterns",
            quoted(&fields),
            quoted(&self.equal)
        )
    }
}

/// What indexes would have to be on: for the conditions that all must hold, else for each alternative that has none.
fn keys(planner: &Planner<'_>, conditions: &Conditions, request: Request<'_>) -> Option<Vec<Key>> {
    if let Some(key) = key(&conditions.all, request.sort) {
        return Some(vec![key]);
    }
    let branches = &conditions.any.first()?.branches;
    let unsorted = Sort::default();
    let alone = Request { sort: &unsorted, limit: None, ..request };
    let mut keys = Vec::new();
    for branch in branches {
        if is_served(planner, branch, alone) {
            continue;
        }
        let key = key(&branch.all, &unsorted)?;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Some(keys)
}

fn key(all: &[Condition], sort: &Sort) -> Option<Key> {
    let mut equal: Vec<String> = Vec::new();
    for condition in all.iter().filter(|condition| condition.values.only_points()) {
        if !equal.contains(&condition.path) {
            equal.push(condition.path.clone());
        }
    }
    let free = |path: &&String| !equal.contains(*path);
    let ranged = all.iter().map(|condition| &condition.path).find(free);
    let ordered = sort.keys().iter().map(|key| &key.path).find(free);
    let last = ranged.or(ordered).cloned();
    (!equal.is_empty() || last.is_some()).then_some(Key { equal, last })
}
