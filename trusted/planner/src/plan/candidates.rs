//! The accesses there are for a set of conditions.

use super::{IndexState, MERGED_MAX, Planner, RANGES_MAX, Request, VALUES_MAX, merging, selectivity};
use crate::access::{Access, IndexOrder, RangeAccess};
use crate::conditions::{Alternatives, Condition, Conditions, Values, at_path};
use crate::cost::{self, Cost};
use crate::interval::Interval;
use crate::physical::PhysicalIndex;
use crate::terms::{may_share_an_array, shares_arrays};
use arras_documents::sort::{Sort, SortKey};
use arras_protocol::leakage::{BISEN, Pattern, SCAN, UNIQUE};
use bson::Bson;
use std::collections::BTreeSet;

/// Entries that a range is taken to have at least, about half a bucket.
const UNSEEN: u64 = 8;

/// What an access is good for, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Reads everything.
    Scan,
    /// Reads in order, checking conditions on the way, until it has enough.
    Walk,
    /// Reads what meets some conditions (or, without any, the first so many).
    Narrowed,
    /// Reads at most one document for each value asked for.
    Single,
}

/// An access and what speaks for it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) access: Access,
    pub(super) reach: Reach,
    /// The conditions it narrows by.
    pub(super) covers: BTreeSet<usize>,
    /// Those of them it answers exactly.
    pub(super) exact: BTreeSet<usize>,
    pub(super) order: Option<IndexOrder>,
    /// A scan that soon has as many matches as are asked for.
    pub(super) ends_early: bool,
    /// Entries it finds, about.
    pub(super) found: f64,
    /// Documents it is likely to read.
    pub(super) reads: u64,
    pub(super) leaks: Vec<Pattern>,
    /// What it costs to find the entries.
    pub(super) search: Cost,
}

impl Candidate {
    /// Notes how many documents it is likely to read, and, of an index read in order, how many entries.
    pub(super) fn will_read(&mut self, planner: &Planner<'_>, documents: f64) {
        self.reads = documents.ceil() as u64;
        let ranges = match &self.access {
            Access::Union(ranges) => ranges.len(),
            _ => 1,
        };
        let of = |id| planner.indexes.iter().find(|state| Some(&state.id) == id);
        if self.order.is_some()
            && let Some(state) = of(self.access.indexes().first())
        {
            self.search = range_cost(planner, state, &self.access, ranges, documents);
        }
    }
}

impl Candidate {
    /// What it costs in all.
    pub(super) fn cost(&self, planner: &Planner<'_>) -> Cost {
        let fetch = cost::fetch(self.reads, planner.statistics);
        match self.access {
            // It names no documents.
            Access::Scan => cost::then(self.search, Cost { sent_bytes: 0, ..fetch }),
            _ => cost::then(self.search, fetch),
        }
    }

    /// What the enclave finds for a `$text`: of one document in a hundred, as nobody knows here how frequent words are.
    pub(super) fn text(planner: &Planner<'_>) -> Self {
        let found = planner.statistics.document_count as f64 / 100.0;
        Self {
            search: cost::search(&Access::Text, None, found, planner.statistics),
            access: Access::Text,
            reach: Reach::Narrowed,
            found,
            reads: found.ceil() as u64,
            leaks: BISEN.search.to_vec(),
            ..Self::nothing()
        }
    }

    /// The access of a filter nothing passes.
    pub(super) fn nothing() -> Self {
        Self {
            access: Access::Rows { ids: Vec::new() },
            reach: Reach::Single,
            covers: BTreeSet::new(),
            exact: BTreeSet::new(),
            order: None,
            ends_early: false,
            found: 0.0,
            reads: 0,
            leaks: Vec::new(),
            search: Cost::default(),
        }
    }
}

/// All of them, the scan included.
pub(super) fn candidates(
    planner: &Planner<'_>,
    conditions: &Conditions,
    request: Request<'_>,
) -> Vec<Candidate> {
    let mut found = indexed(planner, conditions, request);
    found.push(scan(planner));
    selectivity::estimate_reads(planner, conditions, request, &mut found);
    found
}

/// All but the scan.
fn indexed(planner: &Planner<'_>, conditions: &Conditions, request: Request<'_>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = rows(planner, &conditions.all).into_iter().collect();
    for state in planner.indexes {
        match &state.index {
            PhysicalIndex::Unique { fields } | PhysicalIndex::Eq { fields } => {
                found.extend(terms(planner, state, fields, &conditions.all));
            }
            PhysicalIndex::Range { .. } => found.extend(range(planner, state, conditions, request)),
        }
    }
    for alternatives in &conditions.any {
        found.extend(union(planner, alternatives, &conditions.all));
    }
    found
}

fn scan(planner: &Planner<'_>) -> Candidate {
    let access = Access::Scan;
    let found = planner.statistics.document_count;
    Candidate {
        search: cost::search(&access, None, found as f64, planner.statistics),
        access,
        found: found as f64,
        reads: found,
        reach: Reach::Scan,
        covers: BTreeSet::new(),
        exact: BTreeSet::new(),
        order: None,
        ends_early: false,
        leaks: SCAN.search.to_vec(),
    }
}

/// By `_id`, which is never an array.
fn rows(planner: &Planner<'_>, conditions: &[Condition]) -> Option<Candidate> {
    let (values, ids) = at_path(conditions.iter(), "_id", false)?;
    if !values.only_points() || values.points.len() > VALUES_MAX {
        return None;
    }
    let covers: BTreeSet<usize> = ids.into_iter().collect();
    let found = values.points.len();
    let access = Access::Rows { ids: values.points };
    Some(Candidate {
        search: cost::search(&access, None, 0.0, planner.statistics),
        access,
        found: found as f64,
        reads: found as u64,
        reach: Reach::Single,
        exact: if values.exact { covers.clone() } else { BTreeSet::new() },
        covers,
        order: None,
        ends_early: false,
        leaks: UNIQUE.search.to_vec(),
    })
}

/// Complete match of an equality index.
fn terms(
    planner: &Planner<'_>,
    state: &IndexState,
    fields: &[String],
    all: &[Condition],
) -> Option<Candidate> {
    if state.multikey && shares_arrays(&state.index) {
        // Its terms are those of single elements; a condition of each field may be met by another one.
        return None;
    }
    let mut tuples: Vec<Vec<Bson>> = vec![Vec::new()];
    let (mut covers, mut exact) = (BTreeSet::new(), BTreeSet::new());
    let (mut share, mut only_nulls) = (1.0, true);
    for field in fields {
        let (values, ids) = at_path(all.iter(), field, state.multikey)?;
        if !values.only_points() {
            return None;
        }
        tuples = product(&tuples, &values.points, VALUES_MAX)?;
        share *= values.points.len() as f64 * planner.statistics.equal_share(field);
        only_nulls &= values.has_null();
        if values.exact && !state.multikey {
            exact.extend(ids.iter().copied());
        }
        covers.extend(ids);
    }
    if state.sparse && only_nulls {
        return None;
    }
    let unique = matches!(state.index, PhysicalIndex::Unique { .. });
    let all_documents = planner.statistics.document_count as f64;
    let known = planner.entries.of_terms(state.id, &tuples).map(|known| known as f64);
    let found = match known {
        _ if unique => tuples.len() as f64,
        Some(known) => known,
        None => share.min(1.0) * all_documents,
    };
    let access = if unique {
        Access::Unique { index: state.id, values: tuples }
    } else {
        Access::Eq { index: state.id, values: tuples }
    };
    Some(Candidate {
        search: cost::search(&access, Some(state), found, planner.statistics),
        access,
        found,
        reads: found.ceil() as u64,
        reach: if unique { Reach::Single } else { Reach::Narrowed },
        covers,
        exact,
        order: None,
        ends_early: false,
        leaks: state.leakage().search.to_vec(),
    })
}

fn product(tuples: &[Vec<Bson>], values: &[Bson], most: usize) -> Option<Vec<Vec<Bson>>> {
    if tuples.len().saturating_mul(values.len()) > most {
        return None;
    }
    let longer = |tuple: &Vec<Bson>| {
        let tuple = tuple.clone();
        values.iter().map(move |value| tuple.iter().chain([value]).cloned().collect())
    };
    Some(tuples.iter().flat_map(longer).collect())
}

/// What a range index can use of some conditions: values of its first fields, then intervals of the next.
struct Prefix {
    equal: Vec<Vec<Bson>>,
    intervals: Vec<Interval>,
    covers: BTreeSet<usize>,
    exact: BTreeSet<usize>,
    /// Bounds and keys are exact.
    exact_bounds: bool,
    share: f64,
    /// Every document it is about has one of the index's fields.
    present: bool,
}

fn prefix(planner: &Planner<'_>, state: &IndexState, all: &[Condition], sort: &Sort) -> Prefix {
    let mut found = Prefix {
        equal: vec![Vec::new()],
        intervals: vec![Interval::ALL],
        covers: BTreeSet::new(),
        exact: BTreeSet::new(),
        exact_bounds: !state.inexact,
        share: 1.0,
        present: false,
    };
    let fields = state.index.fields();
    for (position, field) in fields.iter().enumerate() {
        if state.multikey && may_share_an_array(field, &fields[..position]) {
            // Keys are those of single elements; what this field must have may be another one's.
            break;
        }
        let Some((values, ids)) = at_path(all.iter(), field, state.multikey) else {
            break;
        };
        let last = position + 1 == fields.len();
        let next_used = || {
            let asked = |next: &str| all.iter().any(|condition| condition.path == next);
            let ordered = |next: &str| sort.keys().first().is_some_and(|key| key.path == next);
            fields.get(position + 1).is_some_and(|next| asked(next) || ordered(next))
        };
        let as_equal = values.only_points() && (!last && (values.points.len() == 1 || next_used()));
        let extended = if as_equal { product(&found.equal, &values.points, RANGES_MAX) } else { None };
        let mut intervals = values.as_intervals();
        let ranges_max = RANGES_MAX / found.equal.len().max(1);
        let merged = extended.is_none() && intervals.len() > ranges_max;
        if merged {
            intervals = merging::fewer(&values, ranges_max, &state.index);
        }
        found.present |= !values.has_null();
        found.exact_bounds &= !merged && bounds_are_exact(&values, &state.index);
        if values.exact && !state.multikey && found.exact_bounds {
            found.exact.extend(ids.iter().copied());
        }
        found.covers.extend(ids);
        found.share *= share(planner, field, &values);
        match extended {
            Some(equal) => found.equal = equal,
            None => {
                found.intervals = intervals;
                break;
            }
        }
    }
    found
}

fn share(planner: &Planner<'_>, field: &str, values: &Values) -> f64 {
    let points = values.points.len() as f64 * planner.statistics.equal_share(field);
    let intervals = values.intervals.iter().map(|interval| cost::interval_share(interval.is_closed()));
    (points + intervals.sum::<f64>()).min(1.0)
}

/// Do the bounds keep their values when encoded?
pub(super) fn bounds_are_exact(values: &Values, index: &PhysicalIndex) -> bool {
    let Some(layout) = index.layout() else {
        return false;
    };
    let ends = values.intervals.iter().flat_map(|interval| [interval.lower.value(), interval.upper.value()]);
    let mut bounds = values.points.iter().chain(ends.flatten());
    bounds.all(|value| layout.part(value).exact)
}

fn range(
    planner: &Planner<'_>,
    state: &IndexState,
    conditions: &Conditions,
    request: Request<'_>,
) -> Option<Candidate> {
    let prefix = prefix(planner, state, &conditions.all, request.sort);
    let count = prefix.equal.len() * prefix.intervals.len();
    // A term a document lacks cannot be found: what is not in a sparse index must not match either.
    if state.sparse && !prefix.present {
        return None;
    }
    let order = match prefix.equal.first() {
        Some(equal) if !state.multikey && side_by_side(count, request) => {
            index_order(state, equal.len(), request.sort, prefix.equal.len())
        }
        _ => None,
    };
    let narrowed = !prefix.covers.is_empty();
    let stops = order.is_some() && request.limit.is_some();
    let unanswered = !conditions.opaque.is_empty()
        || !conditions.any.is_empty()
        || conditions.all.iter().any(|condition| !prefix.covers.contains(&condition.id));
    if !narrowed && !stops {
        return None;
    }
    let range = |equal: &Vec<Bson>, interval: &Interval| RangeAccess {
        index: state.id,
        equal: equal.clone(),
        interval: interval.clone(),
        exact: prefix.exact_bounds,
        order,
    };
    let of_equal = |equal| prefix.intervals.iter().map(move |interval| range(equal, interval));
    let ranges: Vec<RangeAccess> = prefix.equal.iter().flat_map(of_equal).collect();
    let known: Option<u64> = ranges.iter().map(|range| entries_of(planner, state, range)).sum();
    let found = match known {
        // What is in the buckets at its ends is not known.
        Some(known) => known.max(UNSEEN.min(planner.statistics.document_count)) as f64,
        None => planner.statistics.document_count as f64 * prefix.share,
    };
    let mut ranges: Vec<Access> = ranges.into_iter().map(|range| Access::Range(Box::new(range))).collect();
    let access = if count == 1 { ranges.pop()? } else { Access::Union(ranges) };
    let reach = if narrowed || !unanswered { Reach::Narrowed } else { Reach::Walk };
    Some(Candidate {
        search: range_cost(planner, state, &access, count, found),
        leaks: range_leaks(state, stops, narrowed, count),
        access,
        reach,
        covers: prefix.covers,
        exact: prefix.exact,
        order,
        ends_early: false,
        found,
        reads: found.ceil() as u64,
    })
}

/// Can so many ranges be read in the order of a sort?
fn side_by_side(count: usize, request: Request<'_>) -> bool {
    count == 1 || ((2..=MERGED_MAX).contains(&count) && request.limit.is_some())
}

/// Entries a range finds, as far as that is known.
fn entries_of(planner: &Planner<'_>, state: &IndexState, range: &RangeAccess) -> Option<u64> {
    match range.key_bounds(&state.index) {
        Some(bounds) => planner.entries.between(state.id, &bounds),
        None => Some(0),
    }
}

fn range_cost(planner: &Planner<'_>, state: &IndexState, access: &Access, count: usize, found: f64) -> Cost {
    let one = match access {
        Access::Union(ranges) => ranges.first(),
        single => Some(single),
    };
    let Some(one) = one else { return Cost::default() };
    let share = found / count.max(1) as f64;
    let cost = cost::search(one, Some(state), share, planner.statistics);
    (1..count).fold(cost, |sum, _| sum.plus(cost))
}

/// Figure 4: a range leaks the ranks of its bounds; order by limit over the whole index only the limit.
fn range_leaks(state: &IndexState, stops: bool, narrowed: bool, count: usize) -> Vec<Pattern> {
    if count == 0 {
        return Vec::new();
    }
    let mut leaks: BTreeSet<Pattern> = state.leakage().search.iter().copied().collect();
    if stops {
        leaks.insert(Pattern::Limit);
        if !narrowed {
            leaks.remove(&Pattern::BucketRank);
        }
    }
    leaks.into_iter().collect()
}

/// How far an index whose first `fixed` fields have one value each is in the order of a sort. Where keys lose
/// part of their values, fields after the first may be out of order: values that differ can have one key.
fn index_order(state: &IndexState, fixed: usize, sort: &Sort, tuples: usize) -> Option<IndexOrder> {
    let fields = state.index.fields();
    let fixed_fields = fields.get(..fixed)?;
    let is_fixed = |key: &SortKey| fixed_fields.contains(&key.path.as_str());
    // A field with one value orders nothing; one with several does.
    if tuples > 1 && sort.keys().iter().any(is_fixed) {
        return None;
    }
    let keys: Vec<&SortKey> = sort.keys().iter().filter(|key| !is_fixed(key)).collect();
    let descending = keys.first()?.descending;
    let matching = fields.iter().skip(fixed).zip(&keys);
    let same =
        matching.take_while(|(field, key)| **field == key.path && key.descending == descending).count();
    let field_count = if state.inexact { same.min(1) } else { same };
    (field_count > 0).then_some(IndexOrder { descending, first_field: fixed, field_count })
}

/// One access for each alternative, conditions outside the `$or` included.
fn union(planner: &Planner<'_>, alternatives: &Alternatives, outside: &[Condition]) -> Option<Candidate> {
    if alternatives.branches.len() > RANGES_MAX {
        return None;
    }
    let no_sort = Sort::default();
    let request = Request { filter: &arras_documents::filter::Expr::Always, sort: &no_sort, limit: None };
    let mut branches = Vec::with_capacity(alternatives.branches.len());
    let mut covers: Option<BTreeSet<usize>> = None;
    let (mut leaks, mut search, mut exact, mut found) = (BTreeSet::new(), Cost::default(), true, 0.0);
    for branch in &alternatives.branches {
        let mut conditions = branch.clone();
        conditions.all.extend(outside.iter().cloned());
        let best = super::choose::best(planner, candidates(planner, &conditions, request))?;
        let own: BTreeSet<usize> = branch.all.iter().map(|condition| condition.id).collect();
        let nested: BTreeSet<usize> = branch.any.iter().map(|inner| inner.id).collect();
        if best.covers.is_disjoint(&own) && best.covers.is_disjoint(&nested) {
            return None; // the outer conditions alone narrow as much
        }
        exact &= branch.opaque.is_empty() && own.union(&nested).all(|id| best.exact.contains(id));
        covers = Some(match covers {
            Some(earlier) => earlier.intersection(&best.covers).copied().collect(),
            None => best.covers.clone(),
        });
        leaks.extend(best.leaks.iter().copied());
        search = search.plus(best.search);
        found += best.found;
        match best.access {
            Access::Union(inner) => branches.extend(inner),
            access => branches.push(access),
        }
    }
    let mut covers = covers?;
    covers.insert(alternatives.id);
    Some(Candidate {
        access: Access::Union(branches),
        reach: Reach::Narrowed,
        exact: if exact { [alternatives.id].into() } else { BTreeSet::new() },
        covers,
        order: None,
        ends_early: false,
        leaks: leaks.into_iter().collect(),
        found,
        reads: found.ceil() as u64,
        search,
    })
}
