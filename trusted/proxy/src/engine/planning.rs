//! The planner's view of a collection, and what it answers from indexes alone.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::declared;
use super::index::{Half, LiveIndex, Part};
use super::read::Selection;
use super::{Shared, error};
use arras_documents::filter::Filter;
use arras_planner::cost::Statistics;
use arras_planner::explain::Explanation;
use arras_planner::physical::PhysicalIndex;
use arras_planner::plan::{AggregateOutput, IndexState, Plan, Planner, Request};
use arras_planner::schema::{ScanPolicy, Schema};
use arras_planner::store::{Aggregate, Query, StoreError};
use arras_storage::Storage;
use bson::{Bson, Document, doc};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The indexes of a collection as the planner may use them.
fn states<C: ServerChannel>(
    collection: &Collection<C>,
    hint: Option<&Bson>,
    schema: &Schema,
) -> Result<Vec<IndexState>, StoreError> {
    let indexes = collection.indexes();
    if let Some(hint) = hint {
        let known = is_hinted("_id_", &doc! { "_id": 1 }, hint)
            || is_natural(hint)
            || indexes.iter().any(|index| is_hinted(&index.request.name, &index.request.key, hint));
        if !known {
            let message = "error processing query: hint provided does not correspond to an existing index";
            return Err(error::of(2, "BadValue", message));
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
            multikey: part.multikey.load(Ordering::SeqCst),
            inexact: part.inexact.load(Ordering::SeqCst),
            sparse: part.sparse,
        }));
    }
    Ok(states)
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
    /// Plans a selection with the collection's indexes as they are.
    pub(super) fn plan(
        &self,
        collection: &Collection<C>,
        selection: Selection<'_>,
    ) -> Result<Plan, StoreError> {
        let indexes = states(collection, selection.hint, &self.settings.schema)?;
        let statistics = Statistics::default();
        let scan = scan_policy(collection, &self.settings.schema);
        let limit = selection.limit.map(|limit| limit.saturating_add(selection.skip));
        let request = Request { filter: selection.filter.expr(), sort: selection.sort, limit };
        Ok(Planner { indexes: &indexes, scan, statistics: &statistics }.plan(request)?)
    }

    /// Answers aggregates from a range index's sealed partials; `None` if no index covers them exactly.
    pub(super) async fn aggregate(
        &self,
        collection: &Arc<Collection<C>>,
        filter: &Filter,
        aggregates: &[Aggregate],
    ) -> Result<Option<Document>, StoreError> {
        let indexes = states(collection, None, &self.settings.schema)?;
        let statistics = Statistics::default();
        let planner = Planner { indexes: &indexes, scan: ScanPolicy::Allow, statistics: &statistics };
        let Some(plan) = planner.plan_aggregates(filter.expr(), aggregates) else {
            return Ok(None);
        };
        let Some(part) = collection.parts().into_iter().find(|part| part.id == plan.range.index) else {
            return Ok(None);
        };
        let (Half::Range(index), Some(bounds)) = (&part.half, plan.range.key_bounds(&part.physical)) else {
            return Ok(None);
        };
        let (sums, repair) = index.sums(bounds.lower, bounds.upper).await.map_err(error::index)?;
        self.repair(repair);
        let unplanned = part.multikey.load(Ordering::SeqCst) || part.inexact.load(Ordering::SeqCst);
        if unplanned || self.intents.in_doubt() {
            // A document of which the plan did not know was written in between and may be counted; or a write
            // whose outcome is open came between the totals and the boundary buckets.
            return Ok(None);
        }
        if sums.count == 0 {
            // MongoDB's $group makes no group of nothing: the front end's own aggregation says what that means.
            return Ok(None);
        }
        let value = |output: &AggregateOutput| match output {
            AggregateOutput::Count => count_value(sums.count),
            AggregateOutput::Sum(offset) => sums.sums.get(*offset).map_or(Bson::Int32(0), |sum| sum.finish()),
            AggregateOutput::Average(offset) => {
                sums.sums.get(*offset).map_or(Bson::Null, |sum| sum.average())
            }
        };
        let names = aggregates.iter().map(|aggregate| aggregate.name.clone());
        Ok(Some(names.zip(plan.outputs.iter().map(value)).collect()))
    }

    /// How a query would run.
    pub(super) async fn explain(
        &self,
        ns: &arras_planner::store::Namespace,
        query: &Query,
        aggregates: &[Aggregate],
    ) -> Result<Explanation, StoreError> {
        let Some(collection) = self.collection(ns) else {
            return Ok(Explanation {
                steps: vec!["the collection does not exist: nothing is asked of the server".into()],
                ..Explanation::default()
            });
        };
        let indexes = states(&collection, query.hint.as_ref(), &self.settings.schema)?;
        let statistics =
            Statistics { document_count: self.document_count(&collection)?, ..Statistics::default() };
        let scan = scan_policy(&collection, &self.settings.schema);
        let planner = Planner { indexes: &indexes, scan, statistics: &statistics };
        if let Some(plan) = planner.plan_aggregates(query.filter.expr(), aggregates) {
            return Ok(Explanation::of_aggregates(&plan, &indexes));
        }
        let limit = query.limit.map(|limit| limit.saturating_add(query.skip));
        let request = Request { filter: query.filter.expr(), sort: &query.sort, limit };
        Ok(Explanation::of(&planner.plan(request)?, &indexes))
    }

    /// Remakes, behind the results, the circuits they used.
    pub(super) fn repair(&self, repair: arras_client::arx_range::Repair) {
        tokio::spawn(async move {
            if let Err(error) = repair.run().await {
                // The trees concerned are remade whole before their next use.
                tracing::debug!(%error, "a repair did not reach the server");
            }
        });
    }
}

/// A count as MongoDB types it.
fn count_value(count: u64) -> Bson {
    i32::try_from(count).map_or_else(|_| Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)), Bson::Int32)
}
