//! The planner's view of a collection, and what it answers from indexes alone.

use super::apply::counter_name;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::declared;
use super::definition::listed;
use super::index::{Half, LiveIndex, Part};
use super::known::Known;
use super::ledger::Explained;
use super::read::RangeRows;
use super::read::Selection;
use super::{Shared, error};
use arras_documents::accumulate;
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_planner::access::Access;
use arras_planner::cost::Statistics;
use arras_planner::physical::PhysicalIndex;
use arras_planner::plan::{
    AggregateOutput, AggregatePlan, IndexState, LEAKAGE_RATIO, Plan, Planner, Request,
};
use arras_planner::schema::{CollectionSchema, ScanPolicy, Schema};
use arras_planner::terms::equality_bytes;
use arras_protocol::IndexId;
use arras_schemes::arx_range::RangeSums;
use arras_service::examined;
use arras_service::explanation::Explanation;
use arras_service::store::{Aggregate, AggregateFunction, Query};
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::{Bson, Document, doc};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The indexes of a collection as the planner may use them.
fn states<C: ServerChannel>(
    collection: &Collection<C>,
    hint: Option<&Bson>,
    schema: &Schema,
) -> Result<Vec<IndexState>, ServiceError> {
    let indexes = collection.indexes();
    if let Some(hint) = hint {
        let known = is_hinted("_id_", &doc! { "_id": 1 }, hint)
            || is_natural(hint)
            || indexes.iter().any(|index| is_hinted(&index.request.name, &index.request.key, hint));
        if !known {
            let message = "error processing query: hint provided does not correspond to an existing index";
            return Err(error::of(Fault::BadValue, message));
        }
    }
    // Of a hinted index, also what another index holds that stands for it.
    let hinted: Option<Vec<PhysicalIndex>> = hint.map(|hint| {
        let meant = indexes.iter().filter(|index| is_hinted(&index.request.name, &index.request.key, hint));
        let wanted = |index: &Arc<LiveIndex<C>>| declared::wanted(collection, &index.request, schema).ok();
        meant.filter_map(wanted).flatten().collect()
    });
    let usable = |index: &LiveIndex<C>, part: &Part<C>| {
        let is_meant = |wanted: &PhysicalIndex| part.physical.implies(wanted);
        let is_hinted = |hint: &Bson| is_hinted(&index.request.name, &index.request.key, hint);
        let serves = || hinted.as_ref().is_some_and(|wanted| wanted.iter().any(is_meant));
        index.ready.load(Ordering::SeqCst) && (hint.is_none_or(is_hinted) || serves())
    };
    let mut states = Vec::new();
    for index in indexes.iter() {
        let parts = index.parts.iter().filter(|part| usable(index, part));
        states.extend(parts.map(|part| IndexState {
            id: part.id,
            name: index.request.name.clone(),
            index: part.physical.clone(),
            multikey: part.facts.now().multikey > 0,
            inexact: part.facts.now().inexact > 0,
            sparse: part.sparse,
        }));
    }
    Ok(states)
}

/// The order that a hinted index gives to a query that asks for none.
pub(super) fn hinted_order<C: ServerChannel>(collection: &Collection<C>, query: &Query) -> Option<Sort> {
    let hint = query.hint.as_ref().filter(|_| query.sort.is_empty())?;
    let listed = listed(&collection.indexes());
    let hinted = listed.into_iter().find(|index| is_hinted(&index.name, &index.key, hint))?;
    // A hashed index has none.
    Sort::parse(&hinted.key).ok()
}

fn is_hinted(name: &str, key: &Document, hint: &Bson) -> bool {
    match hint {
        Bson::String(hint) => hint == name,
        Bson::Document(hint) => hint == key,
        _ => false,
    }
}

/// `{$natural: 1}`: use no index.
fn is_natural(hint: &Bson) -> bool {
    matches!(hint, Bson::Document(hint) if hint.contains_key("$natural"))
}

fn scan_policy<C: ServerChannel>(collection: &Collection<C>, schema: &Schema) -> ScanPolicy {
    let declared = schema.collection(&collection.ns.database, &collection.ns.collection);
    declared.map(|declared| declared.scan).unwrap_or_default()
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    fn statistics(&self, collection: &Collection<C>) -> Result<Statistics, ServiceError> {
        Ok(Statistics { document_count: self.document_count(collection)?, ..Statistics::default() })
    }

    fn declares_queries(&self, collection: &Collection<C>) -> bool {
        let declared = self.settings.schema.collection(&collection.ns.database, &collection.ns.collection);
        declared.is_some_and(CollectionSchema::declares_queries)
    }

    fn leakage_ratio(&self, collection: &Collection<C>) -> u32 {
        let declared = self.settings.schema.collection(&collection.ns.database, &collection.ns.collection);
        declared.and_then(|declared| declared.leakage_ratio).unwrap_or(LEAKAGE_RATIO)
    }

    /// Plans a selection with the collection's indexes as they are.
    pub(super) fn plan(
        &self,
        collection: &Collection<C>,
        selection: Selection<'_>,
    ) -> Result<Plan, ServiceError> {
        let indexes = states(collection, selection.hint, &self.settings.schema)?;
        let statistics = self.statistics(collection)?;
        let known = Known::new(self, collection, statistics.document_count);
        let planner = Planner {
            scan: scan_policy(collection, &self.settings.schema),
            leakage_ratio: self.leakage_ratio(collection),
            entries: &known,
            declared: self.declares_queries(collection),
            ..Planner::new(&indexes, &statistics)
        };
        let limit = selection.limit.map(|limit| limit.saturating_add(selection.skip));
        let request = Request { filter: selection.filter.expr(), sort: selection.sort, limit };
        Ok(planner.plan(request)?)
    }

    /// Answers aggregates from a range index's sealed partials, or counts from any index; `None` if no index covers
    /// them exactly.
    pub(super) async fn aggregate(
        self: &Arc<Self>,
        collection: &Arc<Collection<C>>,
        filter: &Filter,
        aggregates: &[Aggregate],
    ) -> Result<Option<Document>, ServiceError> {
        let marks = Marks::of(collection);
        let indexes = states(collection, None, &self.settings.schema)?;
        let statistics = Statistics::default();
        let Some(plan) = Planner::new(&indexes, &statistics).plan_aggregates(filter.expr(), aggregates)
        else {
            return self.counts(collection, filter, aggregates).await;
        };
        let Some(sums) = self.sums(collection, &plan, &marks).await? else {
            return Ok(None);
        };
        if sums.count == 0 {
            // MongoDB's $group makes no group of nothing: the front end's own aggregation says what that means.
            return Ok(None);
        }
        let value = |output: &AggregateOutput| match output {
            AggregateOutput::Count => count_value(sums.count),
            AggregateOutput::Sum(offset) => sums.sums.get(*offset).map_or(Bson::Int32(0), accumulate::total),
            AggregateOutput::Average(offset) => sums.sums.get(*offset).map_or(Bson::Null, accumulate::mean),
        };
        let names = aggregates.iter().map(|aggregate| aggregate.name.clone());
        Ok(Some(names.zip(plan.outputs.iter().map(value)).collect()))
    }

    /// The sums of a plan; `None` if a write came between that it may not count rightly.
    async fn sums(
        &self,
        collection: &Collection<C>,
        plan: &AggregatePlan,
        marks: &Marks,
    ) -> Result<Option<RangeSums>, ServiceError> {
        let Some(part) = collection.parts().into_iter().find(|part| part.id == plan.range.index) else {
            return Ok(None);
        };
        let (Half::Range(index), Some(bounds)) = (&part.half, plan.range.key_bounds(&part.physical)) else {
            return Ok(None);
        };
        let (sums, repair) = index.sums(bounds.lower, bounds.upper).await.map_err(error::index)?;
        self.repair(repair);
        examined::entries(sums.opened);
        // A document of which the plan did not know was written in between and may be counted; or a write whose outcome
        // is open came between the totals and the boundary buckets.
        Ok((marks.is_as_planned(&part) && !self.intents.in_doubt()).then_some(sums))
    }

    /// Aggregates that are counts only.
    async fn counts(
        self: &Arc<Self>,
        collection: &Arc<Collection<C>>,
        filter: &Filter,
        aggregates: &[Aggregate],
    ) -> Result<Option<Document>, ServiceError> {
        let is_count = |aggregate: &Aggregate| matches!(aggregate.function, AggregateFunction::Count);
        if aggregates.is_empty() || !aggregates.iter().all(is_count) {
            return Ok(None);
        }
        let sort = Sort::default();
        let count = self.count_by_index(collection, Selection::all(filter, &sort)).await?;
        let document =
            |count| aggregates.iter().map(|aggregate| (aggregate.name.clone(), count_value(count))).collect();
        Ok(count.filter(|count| *count > 0).map(document))
    }

    /// How many documents match, whatever is to be passed over or left out, if an index alone knows: by its sealed
    /// partials, by the records of its values (nothing is asked of the server), or by its entries. No document is read.
    pub(super) async fn count_by_index(
        self: &Arc<Self>,
        collection: &Arc<Collection<C>>,
        selection: Selection<'_>,
    ) -> Result<Option<u64>, ServiceError> {
        let marks = Marks::of(collection);
        let indexes = states(collection, selection.hint, &self.settings.schema)?;
        let statistics = Statistics::default();
        let count = [Aggregate { name: String::new(), function: AggregateFunction::Count }];
        let planned = Planner::new(&indexes, &statistics).plan_aggregates(selection.filter.expr(), &count);
        if let Some(plan) = planned {
            return Ok(self.sums(collection, &plan, &marks).await?.map(|sums| sums.count));
        }
        // What is counted is all of it: a plan for the first so many may leave the index out.
        let plan = self.plan(collection, Selection { skip: 0, limit: None, ..selection })?;
        let index = match &plan.access {
            Access::Eq { index, .. } => *index,
            Access::Range(range) => range.index,
            Access::Rows { .. } | Access::Scan | Access::Union(_) | Access::Unique { .. } => return Ok(None),
        };
        let Some(part) = collection.parts().into_iter().find(|part| part.id == index) else {
            return Ok(None);
        };
        if !plan.covers_filter || self.intents.in_doubt() {
            return Ok(None);
        }
        let count = match (&plan.access, &part.half) {
            (Access::Eq { values, .. }, Half::Eq(half)) => {
                // Values that are equal have one term.
                let terms: BTreeSet<Vec<u8>> = values.iter().map(|term| equality_bytes(term)).collect();
                let watch = self.intents.ledger.watch();
                let mut count = 0_u64;
                for term in &terms {
                    let name = counter_name(half.index(), &half.slot(term).0);
                    let record = self.occurrences(&name)?;
                    // A record changes before its write is applied: what it says then nobody else can see yet.
                    if watch.entered(&name) != Explained::No {
                        return Ok(None);
                    }
                    count = count.saturating_add(record.map_or(0, |occurrences| occurrences.live()));
                }
                count
            }
            (Access::Range(range), Half::Range(_)) => {
                let mut rows = RangeRows::begin(self, collection, range, None).await?;
                let mut count = 0_u64;
                while let Some(further) = rows.next().await? {
                    count = count.saturating_add(further.len() as u64);
                }
                count
            }
            _ => return Ok(None),
        };
        Ok((marks.is_as_planned(&part) && !self.intents.in_doubt()).then_some(count))
    }

    /// How a query would run.
    pub(super) async fn explain(
        &self,
        ns: &arras_service::store::Namespace,
        query: &Query,
        aggregates: &[Aggregate],
    ) -> Result<Explanation, ServiceError> {
        let Some(collection) = self.collection(ns) else {
            return Ok(Explanation {
                steps: vec!["the collection does not exist: nothing is asked of the server".into()],
                ..Explanation::default()
            });
        };
        let indexes = states(&collection, query.hint.as_ref(), &self.settings.schema)?;
        let statistics = self.statistics(&collection)?;
        let known = Known::new(self, &collection, statistics.document_count);
        let planner = Planner {
            scan: scan_policy(&collection, &self.settings.schema),
            leakage_ratio: self.leakage_ratio(&collection),
            entries: &known,
            declared: self.declares_queries(&collection),
            ..Planner::new(&indexes, &statistics)
        };
        if let Some(plan) = planner.plan_aggregates(query.filter.expr(), aggregates) {
            return Ok(arras_planner::explain::of_aggregates(&plan, &indexes));
        }
        let limit = query.limit.map(|limit| limit.saturating_add(query.skip));
        let request = Request { filter: query.filter.expr(), sort: &query.sort, limit };
        Ok(arras_planner::explain::of(&planner.plan(request)?, &indexes))
    }

    /// Remakes, behind the results, the circuits they used.
    pub(super) fn repair(&self, repair: arras_schemes::arx_range::Repair) {
        tokio::spawn(async move {
            if let Err(error) = repair.run().await {
                // The trees concerned are remade whole before their next use.
                tracing::debug!(%error, "a repair did not reach the server");
            }
        });
    }
}

/// How often the facts of each index had risen before a plan was made.
struct Marks(Vec<(IndexId, u64)>);

impl Marks {
    fn of<C: ServerChannel>(collection: &Collection<C>) -> Self {
        Self(collection.parts().iter().map(|part| (part.id, part.facts.raised())).collect())
    }

    /// Whether an index has had one exact entry for each document since, as a plan that counts entries takes for granted.
    fn is_as_planned<C>(&self, part: &Part<C>) -> bool {
        part.facts.now().none() && self.0.contains(&(part.id, part.facts.raised()))
    }
}

/// A count as MongoDB types it.
fn count_value(count: u64) -> Bson {
    i32::try_from(count).map_or_else(|_| Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)), Bson::Int32)
}
