//! How a query would run and what it would leak, in words. Holds no value of the query.

use crate::access::{Access, RangeAccess};
use crate::cost::Cost;
use crate::plan::{AggregatePlan, IndexState, Plan};
use arras_protocol::leakage::{Leakage, Pattern, SCAN, UNIQUE};
use bson::{Document, doc};
use std::fmt;

/// How a query would run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The indexes it uses, as the application named them and what they are.
    pub indexes: Vec<IndexUse>,
    /// The steps to the documents.
    pub steps: Vec<String>,
    /// How the results come into order.
    pub order: String,
    /// What the proxy checks on each decrypted document, over and above checking everything again.
    pub rechecked: Vec<String>,
    /// Why an index that is used may name documents that do not match, or answers no count and no order alone.
    pub inexact: Vec<String>,
    /// The whole collection is read.
    pub scan: bool,
    /// The index that would help.
    pub advice: Option<String>,
    /// An estimate.
    pub cost: Cost,
    /// What one copy of the server's store shows.
    pub snapshot_leakage: Vec<String>,
    /// What this search adds for one who watches the server.
    pub search_leakage: Vec<String>,
    /// What inserts and removals show because of the indexes used.
    pub update_leakage: Vec<String>,
    /// Published attacks that apply.
    pub attacks: Vec<String>,
}

/// An index a query uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexUse {
    /// Name of the application's index it was made for.
    pub name: String,
    /// What it is, in the paper's notation.
    pub index: String,
}

impl Explanation {
    /// Of a plan over these indexes.
    #[must_use]
    pub fn of(plan: &Plan, indexes: &[IndexState]) -> Self {
        let mut explanation = Self::of_access(&plan.access, indexes);
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
        if plan.ends_early {
            explanation.steps = vec!["read documents until enough of them match, as most do".to_owned()];
        }
        explanation.advice = plan.advice.clone();
        explanation.cost = plan.cost;
        explanation
    }

    /// Of aggregates answered by an index alone.
    #[must_use]
    pub fn of_aggregates(plan: &AggregatePlan, indexes: &[IndexState]) -> Self {
        let mut explanation = Self::of_access(&Access::Range(Box::new(plan.range.clone())), indexes);
        explanation
            .steps
            .push("add up the sealed partial aggregates between its ends; no document is read".to_owned());
        explanation.order = "no order: one result".to_owned();
        explanation.search_leakage = words(&plan.leaks);
        explanation.cost = plan.cost;
        explanation
    }

    fn of_access(access: &Access, indexes: &[IndexState]) -> Self {
        let used: Vec<&IndexState> =
            access.indexes().iter().filter_map(|id| indexes.iter().find(|state| state.id == *id)).collect();
        let mut leakages: Vec<&Leakage> = vec![if has_rows(access) { &UNIQUE } else { &SCAN }];
        leakages.extend(used.iter().map(|state| state.index.leakage()));
        let gather = |part: fn(&Leakage) -> &'static [Pattern]| {
            let mut patterns: Vec<Pattern> =
                leakages.iter().flat_map(|leakage| part(leakage)).copied().collect();
            patterns.sort();
            patterns.dedup();
            words(&patterns)
        };
        let mut attacks: Vec<String> =
            leakages.iter().flat_map(|leakage| leakage.attacks).map(|attack| (*attack).to_owned()).collect();
        attacks.sort();
        attacks.dedup();
        Self {
            indexes: used
                .iter()
                .map(|state| IndexUse { name: state.name.clone(), index: state.index.to_string() })
                .collect(),
            steps: steps(access, indexes),
            inexact: used.iter().flat_map(|state| inexact(state)).collect(),
            snapshot_leakage: gather(|leakage| leakage.snapshot),
            update_leakage: gather(|leakage| leakage.update),
            attacks,
            ..Self::default()
        }
    }

    /// As a BSON document.
    #[must_use]
    pub fn to_document(&self) -> Document {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let indexes: Vec<Document> =
            self.indexes.iter().map(|used| doc! { "name": &used.name, "index": &used.index }).collect();
        let mut document = doc! {
            "indexes": indexes,
            "steps": &self.steps,
            "order": &self.order,
            "recheckedByProxy": &self.rechecked,
            "inexact": &self.inexact,
            "collectionScan": self.scan,
        };
        if let Some(advice) = &self.advice {
            document.insert("advice", advice);
        }
        document.insert(
            "estimatedCost",
            doc! {
                "roundTrips": number(self.cost.rounds),
                "sentBytes": number(self.cost.sent_bytes),
                "receivedBytes": number(self.cost.received_bytes),
                "repairBytes": number(self.cost.repair_bytes),
                "documents": number(self.cost.documents),
            },
        );
        document.insert(
            "leakage",
            doc! {
                "snapshot": &self.snapshot_leakage,
                "search": &self.search_leakage,
                "update": &self.update_leakage,
                "attacks": &self.attacks,
            },
        );
        document
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
        let bytes = index.component_bytes().unwrap_or(1).saturating_sub(1);
        reasons.push(format!(
            "{index}: keys hold the first {bytes} bytes of a value of {fields}, and some values are longer; the proxy tells \
             them apart after reading, and sums and counts need the documents"
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

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

impl Explanation {
    /// Its lines: what each is about, and what it says.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let list = |items: &[String]| {
            if items.is_empty() { "nothing".to_owned() } else { items.join("; ") }
        };
        let uses: Vec<String> = self.indexes.iter().map(|used| used.index.clone()).collect();
        let mut lines = vec![("indexes", if uses.is_empty() { "none".to_owned() } else { uses.join(", ") })];
        lines.extend(self.steps.iter().map(|step| ("step", step.clone())));
        lines.push(("order", self.order.clone()));
        lines.push(("re-check", list(&self.rechecked)));
        lines.extend(self.inexact.iter().map(|why| ("inexact", why.clone())));
        let cost = &self.cost;
        let moved = format!("{} sent, {} received", size(cost.sent_bytes), size(cost.received_bytes));
        let rounds = counted(cost.rounds, "round trip");
        let (repair, documents) = (size(cost.repair_bytes), counted(cost.documents, "document"));
        lines.push(("cost", format!("about {rounds}, {moved}, {repair} repair, {documents}")));
        lines.push(("snapshot", list(&self.snapshot_leakage)));
        lines.push(("search", list(&self.search_leakage)));
        lines.push(("update", list(&self.update_leakage)));
        lines.push(("attacks", list(&self.attacks)));
        lines.extend(self.advice.iter().map(|advice| ("advice", advice.clone())));
        lines
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|(label, line)| writeln!(f, "{label:<9} {line}"))
    }
}
