//! How a query runs, aggregates included: the one decision, for running it and for explaining it.

use super::{AggregatePlan, IndexState, Plan, PlanError, Planner, Request};
use crate::access::Access;
use arras_documents::filter::Expr;
use arras_service::store::{Aggregate, AggregateFunction};

/// How a query runs.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryPlan {
    /// One range index's sealed partials answer the aggregates; no document is read.
    Aggregates(AggregatePlan),
    /// Nothing but the number of all documents is asked for, which the store knows.
    AllCounted,
    /// The matches are counted by an index's entries, found by this plan's access; no document is read.
    EntriesCounted(Plan),
    /// The documents are read.
    Documents(Plan),
}

impl Planner<'_> {
    /// Plans a query of documents, or of aggregates over them.
    ///
    /// A store that finds at the end that a write came between, which entries and partials may not count rightly, reads
    /// the documents by [`Planner::plan`] instead.
    ///
    /// # Errors
    /// [`PlanError::NoIndex`]: the query needs a scan, and scans are refused.
    pub fn plan_query(&self, request: Request<'_>, aggregates: &[Aggregate]) -> Result<QueryPlan, PlanError> {
        let only_counts = !aggregates.is_empty()
            && aggregates.iter().all(|aggregate| matches!(aggregate.function, AggregateFunction::Count));
        if only_counts && matches!(request.filter, Expr::Always) {
            return Ok(QueryPlan::AllCounted);
        }
        if let Some(plan) = self.plan_aggregates(request.filter, aggregates) {
            return Ok(QueryPlan::Aggregates(plan));
        }
        if only_counts {
            // What is counted is all of it: a plan for the first so many may leave the index out.
            let whole = self.plan(Request { limit: None, ..request });
            if let Some(plan) = whole.ok().filter(|plan| counts_entries(plan, self.indexes)) {
                return Ok(QueryPlan::EntriesCounted(plan));
            }
        }
        self.plan(request).map(QueryPlan::Documents)
    }
}

/// Is there one entry of one index for each match?
fn counts_entries(plan: &Plan, indexes: &[IndexState]) -> bool {
    let index = match &plan.access {
        Access::Eq { index, .. } => index,
        Access::Range(range) => &range.index,
        Access::Rows { .. } | Access::Scan | Access::Text | Access::Union(_) | Access::Unique { .. } => {
            return false;
        }
    };
    let one_each = |state: &IndexState| !state.multikey && !state.inexact;
    plan.covers_filter && indexes.iter().any(|state| state.id == *index && one_each(state))
}
