//! How a query would run and what it would leak, in words. Holds no value of the query.

use crate::access::{Access, RangeAccess};
use crate::cost::Cost;
use crate::plan::{AggregatePlan, IndexState, Plan, QueryPlan};
use arras_protocol::leakage::{BISEN, Leakage, Pattern, SCAN, UNIQUE};
use arras_service::explanation::{Explanation, IndexUse, counted};

/// Of a plan that reads documents.
fn of(plan: &Plan, indexes: &[IndexState], text: Option<&str>) -> Explanation {
    let mut explanation = of_access(&plan.access, indexes);
    explanation.order = match plan.order {
        Some(order) => {
            let end = if order.descending { "upper" } else { "lower" };
            format!("read from the {end} end of the index; only ties are sorted by the proxy")
        }
        None => "sorted by the proxy, if an order is asked for".to_owned(),
    };
    let rechecked = plan.rechecked.iter();
    explanation.rechecked =
        rechecked.map(|(path, operator)| format!("{path} {operator}").trim().to_owned()).collect();
    explanation.search_leakage = words(&plan.leaks);
    explanation.scan = plan.access == Access::Scan;
    if let (Access::Text, Some(name)) = (&plan.access, text) {
        explanation.indexes = vec![IndexUse { name: name.to_owned(), index: "BISEN".to_owned() }];
    }
    if plan.ends_early {
        explanation.steps = vec!["read documents until enough of them match, as most do".to_owned()];
    }
    explanation.advice = plan.advice.clone();
    explanation.cost = plan.cost;
    explanation
}

/// Of a query's plan over these indexes; `text`: the name of the text index, if there is one.
#[must_use]
pub fn of_query(plan: &QueryPlan, indexes: &[IndexState], text: Option<&str>) -> Explanation {
    match plan {
        QueryPlan::Aggregates(plan) => of_aggregates(plan, indexes),
        QueryPlan::AllCounted => Explanation {
            steps: vec![
                "the proxy counts the documents as they are written: nothing is asked of the server".into(),
            ],
            order: "no order: one result".to_owned(),
            on_record: true,
            ..Explanation::default()
        },
        QueryPlan::EntriesCounted(plan) => of_count(plan, indexes),
        QueryPlan::Documents(plan) => of(plan, indexes, text),
    }
}

/// Of a count of what an access finds.
fn of_count(plan: &Plan, indexes: &[IndexState]) -> Explanation {
    let mut explanation = of(plan, indexes, None);
    explanation.order = "no order: one result".to_owned();
    explanation.cost = plan.search;
    match &plan.access {
        // The proxy has a record of each value.
        Access::Eq { .. } => {
            explanation.steps =
                vec!["add up the proxy's own counts of the values: nothing is asked of the server".into()];
            explanation.search_leakage.clear();
            explanation.cost = Cost::default();
        }
        Access::Range(_)
        | Access::Rows { .. }
        | Access::Scan
        | Access::Text
        | Access::Union(_)
        | Access::Unique { .. } => {
            explanation.steps.push("count its entries; no document is read".to_owned());
        }
    }
    explanation
}

/// Of aggregates answered by an index alone.
fn of_aggregates(plan: &AggregatePlan, indexes: &[IndexState]) -> Explanation {
    let mut explanation = of_access(&Access::Range(Box::new(plan.range.clone())), indexes);
    explanation
        .steps
        .push("add up the sealed partial aggregates between its ends; no document is read".to_owned());
    explanation.order = "no order: one result".to_owned();
    explanation.search_leakage = words(&plan.leaks);
    explanation.cost = plan.cost;
    explanation
}

fn of_access(access: &Access, indexes: &[IndexState]) -> Explanation {
    let used: Vec<&IndexState> =
        access.indexes().iter().filter_map(|id| indexes.iter().find(|state| state.id == *id)).collect();
    let mut leakages: Vec<Leakage> = vec![if has_rows(access) { UNIQUE } else { SCAN }];
    leakages.extend(used.iter().map(|state| state.leakage()));
    leakages.extend((*access == Access::Text).then_some(BISEN));
    let gather = |part: fn(&Leakage) -> &'static [Pattern]| {
        let mut patterns: Vec<Pattern> = leakages.iter().flat_map(part).copied().collect();
        patterns.sort();
        patterns.dedup();
        words(&patterns)
    };
    let mut attacks: Vec<String> =
        leakages.iter().flat_map(|leakage| leakage.attacks).map(|attack| (*attack).to_owned()).collect();
    attacks.sort();
    attacks.dedup();
    Explanation {
        indexes: used
            .iter()
            .map(|state| IndexUse { name: state.name.clone(), index: state.index.to_string() })
            .collect(),
        steps: steps(access, indexes),
        inexact: used.iter().flat_map(|state| inexact(state)).collect(),
        snapshot_leakage: gather(|leakage| leakage.snapshot),
        update_leakage: gather(|leakage| leakage.update),
        attacks,
        ..Explanation::default()
    }
}

/// Why an index is not exact, if it is not.
fn inexact(state: &IndexState) -> Vec<String> {
    let (index, fields) = (&state.index, state.index.fields().join(", "));
    let mut reasons = Vec::new();
    if state.multikey {
        reasons.push(format!(
            "{index}: documents have arrays on the way to, or at, {fields}; it gives no order, counts nothing alone, and one \
             bound of a range narrows it"
        ));
    }
    if state.inexact {
        let layout = index.layout();
        let bytes = layout.map_or(0, |layout| layout.value_bytes());
        let lost = match layout.and_then(|layout| layout.typed) {
            Some(kind) => {
                format!("have room for {bytes} bytes of type {}, and some values are not that", kind.name())
            }
            None => {
                format!("hold the first {bytes} bytes of a value of {fields}, and some values are longer")
            }
        };
        reasons.push(format!(
            "{index}: keys {lost}; the proxy tells them apart after reading, and sums and counts need the documents"
        ));
    }
    reasons
}

fn words(patterns: &[Pattern]) -> Vec<String> {
    patterns.iter().map(|pattern| pattern.describe().to_owned()).collect()
}

fn has_rows(access: &Access) -> bool {
    match access {
        Access::Rows { .. } => true,
        Access::Union(branches) => branches.iter().any(has_rows),
        _ => false,
    }
}

fn steps(access: &Access, indexes: &[IndexState]) -> Vec<String> {
    let name = |id| {
        indexes
            .iter()
            .find(|state| state.id == id)
            .map_or("an index".to_owned(), |state| state.index.to_string())
    };
    match access {
        Access::Rows { ids } if ids.is_empty() => vec!["nothing can match; nothing is read".to_owned()],
        Access::Rows { ids } => vec![format!("fetch by _id: {}", counted(ids.len() as u64, "document"))],
        Access::Unique { index, values } | Access::Eq { index, values } => {
            vec![format!("look up {} in {}", counted(values.len() as u64, "value"), name(*index))]
        }
        Access::Range(range) => vec![range_step(range, &name(range.index), indexes)],
        Access::Union(branches) => {
            let mut lines: Vec<String> = branches.iter().flat_map(|branch| steps(branch, indexes)).collect();
            lines.dedup();
            lines
        }
        Access::Text => vec![
            "ask the enclave of boolean search which documents have the words".to_owned(),
            "fetch them, and those whose change it has not been told yet".to_owned(),
        ],
        Access::Scan => vec!["read every document and filter in the proxy".to_owned()],
    }
}

fn range_step(range: &RangeAccess, name: &str, indexes: &[IndexState]) -> String {
    let state = indexes.iter().find(|state| state.id == range.index);
    let fields = state.map(|state| state.index.fields()).unwrap_or_default();
    let mut parts: Vec<String> =
        fields.iter().take(range.equal.len()).map(|field| format!("{field} fixed")).collect();
    if !range.interval.is_all() {
        let field = fields.get(range.equal.len()).copied().unwrap_or("the next field");
        parts.push(format!("{field} between two bounds"));
    }
    let which = if parts.is_empty() { "all of it".to_owned() } else { parts.join(", ") };
    format!("walk {name}: {which}")
}
