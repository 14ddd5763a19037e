//! Which indexes a collection needs: the paper's two stages (Arx §7.1), and what they become in this store.
//!
//! **Stage 1, for each where clause `W` (order-by-limit included).**
//! 1. *"Extract the set of filters that can use the indices in a regular database."* For each regular index:
//!    its longest prefix of fields `W` compares for equality, and one more field if `W` ranges over it or orders
//!    its first results by it. One member an index; indexes `W` cannot use give none.
//! 2. *"If `W` contains a sensitive field with a range or order-by-limit operation, append a `>` filter on this
//!    field to each member, if the member does not already contain this."*
//!
//! **Stage 2.** *"Union all sets. Remove any member A if there exists a member B such that an index on B implies
//! an index on A."*
//!
//! Where the paper leaves a choice:
//! * *No usable regular index.* The set of step 1 is then empty and step 2 has nothing to append to, yet "a range
//!   or order-by-limit on a sensitive field can be computed only via an ArxRange index", and figure 5 counts such
//!   indexes ("order queries that are not indexed by the application"). So the empty filter is the one member.
//! * *Order without limit* returns everything the clause matches; the proxy sorts it. It asks for no index.
//! * *Several sensitive ranges in one clause* cannot be written in the paper (§2.5). Here the first of them that a
//!   regular index reaches, else the first range, else the first order, goes to the index; the proxy does the rest.
//! * *A nonsensitive range already in the member* does not combine with the sensitive one into one key range; the
//!   sensitive one takes its place.
//! * *Which kind of index.* A member of nonsensitive fields only: a plain index. Any other: ArxRange if it has a
//!   range, else ArxEq (the paper's `ArxRange(x, y)` with "x either way").
//! * *Implication.* Equality fields of a member are a set, except that a prefix must be a prefix.
//!   - Both plain: A's fields lead B's, A's equality fields as a set; so `(a=, b=)` falls to `(a=, b>)`.
//!   - A is ArxRange: its fields lead those of B, which is ArxRange; so `(a=, b>)` falls to `(a=, b=, c>)`.
//!   - A is ArxEq: B is ArxEq on the same fields. Not a longer one, which "performs a complete match", and not
//!     ArxRange: "we choose not to use an ArxRange index for equality operations".
//!   - A plain, B not: no. Serving a nonsensitive field from an encrypted index would keep the promise but at
//!     circuit prices.
//!
//! Beyond the paper: equality on a field declared unique is EQunique, and serves every clause that has it. Where the paper
//! has ArxRange, the field's `order` may name another protocol, or leave it to [`crate::kinds::choose`].

use crate::cost::Statistics;
use crate::kinds::{Found, Need, OrderChoice, OrderProtocol, Tuning, candidates, choose};
use crate::physical::{PhysicalIndex, minimise};
use crate::schema::{CollectionSchema, FieldSchema, QueryPattern};
use std::collections::BTreeSet;
use std::fmt;

/// A set of filters one index is to serve: equality on some fields, then perhaps a range or order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilterSet {
    /// Fields compared for equality, in the index's order.
    pub equal: Vec<String>,
    /// Field compared by range, or ordered by with a limit.
    pub range: Option<String>,
}

impl FilterSet {
    fn fields(&self) -> impl Iterator<Item = &String> {
        self.equal.iter().chain(&self.range)
    }
}

impl fmt::Display for FilterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equal = self.equal.iter().map(|field| format!("{field}="));
        let range = self.range.iter().map(|field| format!("{field}>"));
        write!(f, "({})", equal.chain(range).collect::<Vec<_>>().join(", "))
    }
}

/// Kind of a planned index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlannedKind {
    /// A regular index over nonsensitive fields.
    Plain,
    /// ArxEq.
    Equality,
    /// ArxRange.
    Range,
}

/// An index of the paper's plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlannedIndex {
    /// Which kind.
    pub kind: PlannedKind,
    /// The filters it serves.
    pub filters: FilterSet,
}

impl fmt::Display for PlannedIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            PlannedKind::Plain => "Plain",
            PlannedKind::Equality => "ArxEq",
            PlannedKind::Range => "ArxRange",
        };
        let fields: Vec<&str> = self.filters.fields().map(String::as_str).collect();
        write!(f, "{name}({})", fields.join(", "))
    }
}

/// What a limit is taken to be.
const LIMIT: u64 = 100;

/// Which fields are sensitive.
pub type Sensitive<'a> = &'a dyn Fn(&str) -> bool;

/// Stage 1: the filter sets of one where clause (`S_i` in the paper).
#[must_use]
pub fn per_query(
    pattern: &QueryPattern,
    regular_indexes: &[Vec<String>],
    sensitive: Sensitive<'_>,
) -> BTreeSet<FilterSet> {
    if pattern.text {
        return BTreeSet::new(); // only the index over words tells, whatever else is asked for
    }
    let mut sets: BTreeSet<FilterSet> =
        regular_indexes.iter().filter_map(|index| usable_part(pattern, index)).collect();
    let Some(range) = indexed_range(pattern, &sets, sensitive) else {
        return sets;
    };
    if sets.is_empty() {
        sets.insert(FilterSet { equal: Vec::new(), range: None });
    }
    sets.into_iter().map(|set| FilterSet { range: Some(range.clone()), ..set }).collect()
}

/// The filters of a clause that a regular index serves.
fn usable_part(pattern: &QueryPattern, index: &[String]) -> Option<FilterSet> {
    let equal: Vec<String> = index.iter().take_while(|field| pattern.eq.contains(field)).cloned().collect();
    let range = index.get(equal.len()).filter(|field| ranged_fields(pattern).contains(field)).cloned();
    (!equal.is_empty() || range.is_some()).then_some(FilterSet { equal, range })
}

/// The fields a clause ranges over, then the field it orders its first results by. An order led by fields that
/// are fixed by equality is an order by the first field that is not.
fn ranged_fields(pattern: &QueryPattern) -> Vec<&String> {
    let order = pattern.order.iter().map(|key| &key.path).find(|path| !pattern.eq.contains(path));
    pattern.range.iter().chain(order.filter(|_| pattern.limit)).collect()
}

/// The sensitive range or order-by-limit field the clause's index is to end in.
fn indexed_range(
    pattern: &QueryPattern,
    sets: &BTreeSet<FilterSet>,
    sensitive: Sensitive<'_>,
) -> Option<String> {
    let candidates: Vec<&String> =
        ranged_fields(pattern).into_iter().filter(|field| sensitive(field)).collect();
    let reached = |field: &&&String| sets.iter().any(|set| set.range.as_ref() == Some(**field));
    candidates.iter().find(reached).or(candidates.first()).map(|field| (*field).clone())
}

/// Stage 2: the union of all filter sets, without those another's index implies.
#[must_use]
pub fn global(sets: impl IntoIterator<Item = FilterSet>, sensitive: Sensitive<'_>) -> Vec<PlannedIndex> {
    let mut kept: Vec<PlannedIndex> = Vec::new();
    for filters in sets {
        let kind = match (filters.fields().any(|field| sensitive(field)), &filters.range) {
            (false, _) => PlannedKind::Plain,
            (true, None) => PlannedKind::Equality,
            (true, Some(_)) => PlannedKind::Range,
        };
        let index = PlannedIndex { kind, filters };
        if kept.iter().any(|other| implies(other, &index)) {
            continue;
        }
        kept.retain(|other| !implies(&index, other));
        kept.push(index);
    }
    kept.sort();
    kept
}

/// Does an index on `own` imply an index on `other`? The rules are in the module's text.
fn implies(own: &PlannedIndex, other: &PlannedIndex) -> bool {
    let (b, a) = (&own.filters, &other.filters);
    match (own.kind, other.kind) {
        (PlannedKind::Plain, PlannedKind::Plain) | (PlannedKind::Range, PlannedKind::Range) => {
            let fields: Vec<&String> = b.fields().collect();
            let Some(leading) = fields.get(..a.equal.len()) else {
                return false;
            };
            let next = fields.get(a.equal.len());
            same_set(leading, &a.equal) && (a.range.is_none() || a.range.as_ref() == next.copied())
        }
        (PlannedKind::Equality, PlannedKind::Equality) => {
            same_set(&b.equal.iter().collect::<Vec<_>>(), &a.equal)
        }
        _ => false,
    }
}

fn same_set(left: &[&String], right: &[String]) -> bool {
    left.len() == right.len() && left.iter().all(|field| right.contains(field))
}

/// Both stages over a collection, as in the paper: nonsensitive fields have plain indexes.
#[must_use]
pub fn plan_indexes(schema: &CollectionSchema) -> Vec<PlannedIndex> {
    two_stages(schema, &schema.all_indexes(), &|field| schema.is_sensitive(field))
}

fn two_stages(
    schema: &CollectionSchema,
    regular: &[Vec<String>],
    sensitive: Sensitive<'_>,
) -> Vec<PlannedIndex> {
    let patterns = schema.all_patterns();
    global(patterns.iter().flat_map(|pattern| per_query(pattern, regular, sensitive)), sensitive)
}

/// The indexes this store builds for a schema: both stages with every field sensitive, because this version of
/// the store seals nonsensitive fields too; EQunique for unique fields; partial sums where a declared sum's
/// clause is covered by the index (§7.2).
#[must_use]
pub fn physical_indexes(schema: &CollectionSchema) -> Vec<PhysicalIndex> {
    physical_with(schema, &[])
}

/// The same if the application has further regular indexes.
pub(crate) fn physical_with(schema: &CollectionSchema, further: &[Vec<String>]) -> Vec<PhysicalIndex> {
    let regular = with_regular(schema, further);
    let unique = schema.fields.iter().filter(|(path, field)| field.unique && path.as_str() != "_id");
    let mut indexes: Vec<PhysicalIndex> =
        unique.map(|(path, _)| PhysicalIndex::Unique { fields: vec![path.clone()] }).collect();
    for planned in two_stages(schema, &regular, &|_| true) {
        indexes.extend(physical(schema, &planned));
    }
    minimise(indexes)
}

/// The regular indexes of a schema and further ones.
fn with_regular(schema: &CollectionSchema, further: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut regular = schema.all_indexes();
    regular.extend(further.iter().filter(|index| !schema.indexes.contains(index)).cloned());
    regular
}

fn physical(schema: &CollectionSchema, planned: &PlannedIndex) -> Option<PhysicalIndex> {
    let FilterSet { equal, range } = &planned.filters;
    if equal.iter().any(|field| schema.is_unique(field)) {
        return None; // at most one document is left once the unique field is looked up
    }
    let Some(range) = range else {
        return Some(PhysicalIndex::Eq { fields: equal.clone() });
    };
    ordered(schema, &need(schema, &planned.filters, range)?)
}

/// The index that serves a need: by the protocol its last field is declared with, or by the one that leaks least.
/// `None` if it cannot be had ([`crate::kinds::obstacle`]).
pub(crate) fn ordered(schema: &CollectionSchema, need: &Need) -> Option<PhysicalIndex> {
    need.index(chosen(schema, need)?)
}

/// The protocol of that index.
pub(crate) fn chosen(schema: &CollectionSchema, need: &Need) -> Option<OrderProtocol> {
    match schema.order(need.fields.last()?) {
        OrderChoice::Protocol(protocol) => Some(protocol),
        OrderChoice::Auto => {
            choose(&candidates(need, schema.adversary, (Tuning::default(), &Statistics::default())))
                .map(|one| one.protocol)
        }
    }
}

/// What the indexes of an order are to serve, one for each that the schema calls for.
pub(crate) fn needs(schema: &CollectionSchema) -> Vec<Need> {
    needs_with(schema, &[])
}

/// The same if the application has further regular indexes.
pub(crate) fn needs_with(schema: &CollectionSchema, further: &[Vec<String>]) -> Vec<Need> {
    let planned = two_stages(schema, &with_regular(schema, further), &|_| true);
    planned
        .iter()
        .filter_map(|planned| need(schema, &planned.filters, planned.filters.range.as_ref()?))
        .collect()
}

fn need(schema: &CollectionSchema, filters: &FilterSet, range: &String) -> Option<Need> {
    let fields: Vec<String> = filters.fields().cloned().collect();
    let declared = schema.fields.get(range);
    let patterns = schema.all_patterns();
    let using = patterns.iter().filter(|pattern| {
        ranged_fields(pattern).contains(&range)
            && filters.equal.iter().all(|field| pattern.eq.contains(field))
    });
    Some(Need {
        tagged: fields.iter().map(|field| schema.key_width(field)).max()?,
        kind: declared.and_then(|field| field.kind),
        width: declared.and_then(|field| field.width),
        aggregates: aggregates(schema, filters),
        searches: using.map(|pattern| found(pattern, filters)).collect(),
        fields,
    })
}

/// How many documents a query of an index reads.
fn found(pattern: &QueryPattern, filters: &FilterSet) -> Found {
    if pattern.limit { Found::Limit(LIMIT) } else { Found::Range(filters.equal.to_vec()) }
}

/// The partial aggregates an index carries: for every aggregate whose clause filters by nothing but the index's
/// fields (§7.2), and for fields declared summable alone.
fn aggregates(schema: &CollectionSchema, filters: &FilterSet) -> Option<Vec<String>> {
    use crate::schema::Operation::{Average, Sum};
    let summed = |field: &FieldSchema| field.operations.contains(&Sum) || field.operations.contains(&Average);
    let mut sums: BTreeSet<String> =
        schema.fields.iter().filter(|(_, field)| summed(field)).map(|(path, _)| path.clone()).collect();
    let mut wanted = !sums.is_empty();
    let index: Vec<&String> = filters.fields().collect();
    for pattern in schema.patterns.iter().filter(|pattern| pattern.aggregates()) {
        // A clause of equality alone is left to ArxEq, which leaks less: the proxy aggregates what it finds.
        let [range] = pattern.range.as_slice() else {
            continue;
        };
        let leading = index.get(..pattern.eq.len()).is_some_and(|leading| same_set(leading, &pattern.eq));
        if leading && index.get(pattern.eq.len()) == Some(&range) {
            wanted = true;
            sums.extend(pattern.sum.iter().chain(&pattern.average).cloned());
        }
    }
    wanted.then(|| sums.into_iter().collect())
}

#[cfg(test)]
mod tests;
