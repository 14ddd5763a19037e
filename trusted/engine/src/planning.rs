//! The planner's view of a collection, and what it answers from indexes alone.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::declared;
use super::definition::listed;
use super::index::{IndexPart, LiveIndex};
use super::known::Known;
use super::ledger::Explained;
use super::read::RangeRows;
use super::read::Selection;
use super::{Settings, Shared, error};
use arras_documents::accumulate;
use arras_documents::order;
use arras_documents::sort::Sort;
use arras_planner::access::Access;
use arras_planner::cost::Statistics;
use arras_planner::kinds::Tuning;
use arras_planner::physical::PhysicalIndex;
use arras_planner::plan::{
    AggregateOutput, AggregatePlan, IndexState, LEAKAGE_RATIO, Plan, PlanError, Planner, QueryPlan,
};
use arras_planner::schema::CollectionSchema;
use arras_planner::terms::equality_bytes;
use arras_protocol::IndexId;
use arras_schemes::contract::RangeSums;
use arras_schemes::contract::Serves;
use arras_service::examined;
use arras_service::explanation::Explanation;
use arras_service::store::{Aggregate, AggregateFunction, Query};
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::{Bson, Document, doc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The indexes of a collection as the planner may use them.
fn states(
    collection: &Collection,
    hint: Option<&Bson>,
    settings: &Settings,
) -> Result<Vec<IndexState>, ServiceError> {
    let schema = &settings.schema;
    let top_nodes = settings.range.top_nodes as u64;
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
        let wanted = |index: &Arc<LiveIndex>| declared::wanted(&collection.ns, &index.request, schema).ok();
        meant.filter_map(wanted).flatten().collect()
    });
    let usable = |index: &LiveIndex, part: &IndexPart| {
        let is_meant = |wanted: &PhysicalIndex| part.physical.implies(wanted);
        let is_hinted = |hint: &Bson| is_hinted(&index.request.name, &index.request.key, hint);
        let serves = || hinted.as_ref().is_some_and(|wanted| wanted.iter().any(is_meant));
        index.ready.load(Ordering::SeqCst) && (hint.is_none_or(is_hinted) || serves())
    };
    let mut states = Vec::new();
    for index in indexes.iter() {
        let parts = index.parts.iter().filter(|part| usable(index, part));
        states.extend(parts.map(|part| IndexState {
            multikey: part.facts.now().multikey > 0,
            inexact: part.facts.now().inexact > 0,
            sparse: part.sparse,
            tuning: Tuning { bucket_factor: part.bucket_factor, top_nodes },
            ..IndexState::new(part.id, index.request.name.clone(), part.physical.clone())
        }));
    }
    Ok(states)
}

/// The order that a hinted index gives to a query that asks for none.
pub(super) fn hinted_order(collection: &Collection, query: &Query) -> Option<Sort> {
    let hint = query.hint.as_ref().filter(|_| query.sort.is_empty())?;
    let listed = listed(&collection.indexes());
    let hinted = listed.into_iter().find(|index| is_hinted(&index.name, &index.key, hint))?;
    // A hashed index has none.
    Sort::parse(&hinted.key).ok()
}

fn is_hinted(name: &str, key: &Document, hint: &Bson) -> bool {
    match hint {
        Bson::String(hint) => hint == name,
        Bson::Document(hint) => order::compare_documents(hint, key).is_eq(),
        _ => false,
    }
}

/// `{$natural: 1}`: use no index.
fn is_natural(hint: &Bson) -> bool {
    matches!(hint, Bson::Document(hint) if hint.contains_key("$natural"))
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    fn statistics(&self, collection: &Collection) -> Result<Statistics, ServiceError> {
        let document_bytes = collection.lengths.mean().unwrap_or(Statistics::default().document_bytes);
        let document_count = self.document_count(collection)?;
        let mut distinct_values = BTreeMap::new();
        for part in collection.parts() {
            if let PhysicalIndex::Range { equal, range, .. } = &part.physical
                && equal.is_empty()
                && let Some(distinct) = part.sample.distinct(document_count)
            {
                distinct_values.insert(range.clone(), distinct);
            }
        }
        Ok(Statistics { document_count, document_bytes, distinct_values })
    }

    /// Asks the planner about a collection, with its indexes, its statistics and the settings as they are: the one place
    /// where a planner is made, for what runs and for what is explained.
    fn ask<T>(
        &self,
        collection: &Collection,
        hint: Option<&Bson>,
        question: impl FnOnce(&Planner<'_>) -> Result<T, PlanError>,
    ) -> Result<T, ServiceError> {
        let indexes = states(collection, hint, &self.settings)?;
        let statistics = self.statistics(collection)?;
        let known = Known::new(self, collection, statistics.document_count);
        let schema = &self.settings.schema;
        let declared = schema.collection(&collection.ns.database, &collection.ns.collection);
        let planner = Planner {
            scan: declared.map(|declared| declared.scan).unwrap_or_default(),
            leakage_ratio: declared.and_then(|declared| declared.leakage_ratio).unwrap_or(LEAKAGE_RATIO),
            entries: &known,
            declared: declared.is_some_and(CollectionSchema::declares_queries),
            adversary: declared.map_or(schema.adversary, |declared| declared.adversary),
            ..Planner::new(&indexes, &statistics)
        };
        Ok(question(&planner)?)
    }

    /// Plans a selection of documents.
    pub(super) fn plan(
        &self,
        collection: &Collection,
        selection: Selection<'_>,
    ) -> Result<Plan, ServiceError> {
        self.bind_text(collection, selection.filter)?;
        self.ask(collection, selection.hint, |planner| planner.plan(selection.request()))
    }

    /// Answers aggregates from a range index's sealed partials, or counts from any index; `None` if no index covers
    /// them exactly.
    pub(super) async fn aggregate(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        query: &Query,
        aggregates: &[Aggregate],
    ) -> Result<Option<Document>, ServiceError> {
        self.sample(collection).await;
        let marks = Marks::of(collection);
        let selection = Selection { sort: &Sort::default(), ..Selection::of(query) };
        let planned = self
            .ask(collection, selection.hint, |planner| planner.plan_query(selection.request(), aggregates));
        let plan = match planned? {
            QueryPlan::Aggregates(plan) => plan,
            QueryPlan::AllCounted | QueryPlan::EntriesCounted(_) => {
                let count = self.count_by_index(collection, selection).await?;
                let document = |count| {
                    aggregates.iter().map(|aggregate| (aggregate.name.clone(), count_value(count))).collect()
                };
                return Ok(count.filter(|count| *count > 0).map(document));
            }
            QueryPlan::Documents(_) => return Ok(None),
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
        collection: &Collection,
        plan: &AggregatePlan,
        marks: &Marks,
    ) -> Result<Option<RangeSums>, ServiceError> {
        let Some(part) = collection.parts().into_iter().find(|part| part.id == plan.range.index) else {
            return Ok(None);
        };
        let index = Arc::clone(&part.half).range();
        let (Some(index), Some(bounds)) = (index, plan.range.key_bounds(&part.physical)) else {
            return Ok(None);
        };
        let found = index.sums(bounds.lower, bounds.upper).await.map_err(error::index)?;
        let Some((sums, repair)) = found else { return Ok(None) };
        self.repair(repair);
        examined::entries(sums.opened);
        // A document of which the plan did not know was written in between and may be counted; or a write whose outcome
        // is open came between the totals and the boundary buckets.
        Ok((marks.is_as_planned(&part) && !self.intents.in_doubt()).then_some(sums))
    }

    /// How many documents match, whatever is to be passed over or left out, if it is known without reading them: by the
    /// proxy's own count of all, by an index's sealed partials, by the records of its values (nothing is asked of the
    /// server), or by its entries.
    pub(super) async fn count_by_index(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        selection: Selection<'_>,
    ) -> Result<Option<u64>, ServiceError> {
        self.sample(collection).await;
        let marks = Marks::of(collection);
        let count = [Aggregate { name: String::new(), function: AggregateFunction::Count }];
        let planned =
            self.ask(collection, selection.hint, |planner| planner.plan_query(selection.request(), &count));
        let plan = match planned? {
            QueryPlan::AllCounted => return self.document_count(collection).map(Some),
            QueryPlan::Aggregates(plan) => {
                return Ok(self.sums(collection, &plan, &marks).await?.map(|sums| sums.count));
            }
            QueryPlan::EntriesCounted(plan) => plan,
            QueryPlan::Documents(_) => return Ok(None),
        };
        let index = match &plan.access {
            Access::Eq { index, .. } => *index,
            Access::Range(range) => range.index,
            Access::Rows { .. } | Access::Scan | Access::Text | Access::Union(_) | Access::Unique { .. } => {
                return Ok(None);
            }
        };
        let Some(part) = collection.parts().into_iter().find(|part| part.id == index) else {
            return Ok(None);
        };
        if self.intents.in_doubt() {
            return Ok(None);
        }
        let count = match (&plan.access, part.half.serves()) {
            (Access::Eq { values, .. }, Serves::Equality) => match self.count_on_record(&part, values)? {
                Some(count) => count,
                None => return Ok(None),
            },
            (Access::Range(range), Serves::Range) => {
                let mut rows = RangeRows::begin(self, collection, range, None).await?;
                let mut count = 0_u64;
                while let Some(further) = rows.next().await? {
                    count = count.saturating_add(further.len() as u64);
                }
                count
            }
            (_, Serves::Unique | Serves::Equality | Serves::Range) => return Ok(None),
        };
        Ok((marks.is_as_planned(&part) && !self.intents.in_doubt()).then_some(count))
    }

    /// How many entries some values have by their records; none if a write of one of them is under way, or was.
    fn count_on_record(&self, part: &IndexPart, values: &[Vec<Bson>]) -> Result<Option<u64>, ServiceError> {
        let Some(half) = Arc::clone(&part.half).equality() else { return Ok(None) };
        // Values that are equal have one term.
        let terms: BTreeSet<Vec<u8>> = values.iter().map(|term| equality_bytes(term)).collect();
        let terms: Vec<Vec<u8>> = terms.into_iter().collect();
        let watch = self.intents.ledger.watch();
        let found = half.on_record(&terms, &*self.local).map_err(error::index)?;
        // A record changes before its write is applied: what it says then nobody else can see yet.
        let is_known = found.iter().all(|value| watch.entered(&value.name) == Explained::No);
        Ok(is_known.then(|| found.iter().fold(0_u64, |sum, value| sum.saturating_add(value.entries))))
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
        // Where documents are asked for, a hinted index gives them its order.
        let hinted = hinted_order(&collection, query).filter(|_| aggregates.is_empty());
        let selection = Selection { sort: hinted.as_ref().unwrap_or(&query.sort), ..Selection::of(query) };
        self.bind_text(&collection, selection.filter)?;
        self.sample(&collection).await;
        let indexes = collection.indexes();
        let text = indexes.iter().find(|index| index.text.is_some()).map(|index| index.request.name.as_str());
        self.ask(&collection, selection.hint, |planner| {
            let plan = planner.plan_query(selection.request(), aggregates)?;
            Ok(arras_planner::explain::of_query(&plan, planner.indexes, text))
        })
    }

    /// Remakes, behind the results, the circuits they used.
    pub(super) fn repair(&self, repair: arras_schemes::contract::Repair) {
        if !repair.is_needed() {
            return;
        }
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
    fn of(collection: &Collection) -> Self {
        Self(collection.parts().iter().map(|part| (part.id, part.facts.raised())).collect())
    }

    /// Whether an index has had one exact entry for each document since, as a plan that counts entries takes for granted.
    fn is_as_planned(&self, part: &IndexPart) -> bool {
        part.facts.now().none() && self.0.contains(&(part.id, part.facts.raised()))
    }
}

/// A count as MongoDB types it.
fn count_value(count: u64) -> Bson {
    i32::try_from(count).map_or_else(|_| Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)), Bson::Int32)
}

#[cfg(test)]
mod tests;
