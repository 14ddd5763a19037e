//! From a filter, a sort and a limit to the access that leaks least among those that keep the promise of a
//! regular index (Arx §7).
//!
//! Every access built here finds at least the documents that match. Among them:
//! 1. a scan is left only if nothing else serves a condition or the order, so that a query a regular index speeds up
//!    stays sped up; or if a query without an order asks for so few of so frequent a value that the scan soon ends;
//! 2. those *comparable* with the one that reads the fewest documents are kept: they read at most
//!    [`LEAKAGE_RATIO`] times as many (or what the schema says). How many an access reads is known from what the proxy
//!    keeps anyway ([`crate::cost::Entries`]), and guessed where it is not. A document read shows its row, so reading
//!    many to hide what a search shows is no gain;
//! 3. of the rest, the one whose search tells the declared [`Adversary`] least is taken: compared by the most telling
//!    [`arras_protocol::leakage::Pattern`] (so ArxEq before ArxRange). What a store shows by itself, and what changes show,
//!    the indexes that are there show whichever of them a query goes by: that decides when indexes are chosen
//!    ([`crate::kinds`]), not here. To a snapshot adversary all searches are alike;
//! 4. then the one that reads less, then the one that shows less beside, then the cheapest.
//!
//! Negations, `$exists`, `$type`, `$size`, `$mod`, bit tests, `$expr`, `$nor` and unanchored regular expressions
//! use no index. On a multikey index two conditions on one path may be met by different elements of an array, so
//! only one of them bounds a search there; `$elemMatch` is about one element and keeps its bounds together.

mod aggregate;
mod candidates;
mod choose;
mod merging;
mod only_id;
mod query;
mod selectivity;
#[cfg(test)]
mod tests;

pub use aggregate::{AggregateOutput, AggregatePlan};
pub(crate) use choose::is_served;
pub use only_id::only_id;
pub use query::QueryPlan;

use crate::access::{Access, IndexOrder};
use crate::adversary::Adversary;
use crate::conditions::Conditions;
use crate::cost::{Cost, Entries, Statistics, Unknown};
use crate::kinds::Tuning;
use crate::physical::PhysicalIndex;
use crate::schema::ScanPolicy;
use arras_documents::filter::Expr;
use arras_documents::sort::Sort;
use arras_protocol::IndexId;
use arras_protocol::leakage::{Leakage, Pattern};
use arras_service::store::Aggregate;
use arras_service::{Fault, ServiceError};

/// Most terms looked up for one filter.
pub const VALUES_MAX: usize = 10_000;

/// Most ranges searched, and most alternatives followed, for one filter. More values than that are searched in ranges
/// that hold several, and what lies between.
pub const RANGES_MAX: usize = 1000;

/// Most ranges read side by side in the order of a sort.
pub const MERGED_MAX: usize = 64;

/// How many times the documents of the plan that reads fewest one that leaks less may read, unless the schema says.
pub const LEAKAGE_RATIO: u32 = 2;

/// An index as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexState {
    /// Its name on the server.
    pub id: IndexId,
    /// Name of the application's index it was made for.
    pub name: String,
    /// What it is.
    pub index: PhysicalIndex,
    /// A document has several terms ([`crate::terms::Terms::multikey`]).
    pub multikey: bool,
    /// A key lost part of its value ([`crate::keys::KeyLayout`]).
    pub inexact: bool,
    /// Documents without any of its fields are not in it.
    pub sparse: bool,
    /// The settings in force for it.
    pub tuning: Tuning,
}

impl IndexState {
    /// One as it is when new.
    #[must_use]
    pub fn new(id: IndexId, name: String, index: PhysicalIndex) -> Self {
        let tuning = Tuning::default();
        Self { id, name, index, multikey: false, inexact: false, sparse: false, tuning }
    }

    /// What it leaks.
    #[must_use]
    pub fn leakage(&self) -> Leakage {
        self.index.leakage(self.tuning)
    }
}

/// A query to plan.
#[derive(Clone, Copy, Debug)]
pub struct Request<'q> {
    /// Which documents.
    pub filter: &'q Expr,
    /// In which order.
    pub sort: &'q Sort,
    /// How many documents are needed at most, those passed over included.
    pub limit: Option<u64>,
}

/// A collection as the planner sees it. To honour a hint, give only the indexes it allows.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'c> {
    /// Its indexes, all complete.
    pub indexes: &'c [IndexState],
    /// What to do with a filter no index serves.
    pub scan: ScanPolicy,
    /// See [`LEAKAGE_RATIO`].
    pub leakage_ratio: u32,
    /// What is known of its data.
    pub statistics: &'c Statistics,
    /// What is known of its indexes' entries.
    pub entries: &'c dyn Entries,
    /// A schema declares its queries, and narrows what a `createIndexes` builds.
    pub declared: bool,
    /// Who is not to learn from searches.
    pub adversary: Adversary,
}

/// How a query will run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the documents come from.
    pub access: Access,
    /// How far they come in the order of the sort. `None`: the store sorts them, or there is no sort.
    pub order: Option<IndexOrder>,
    /// The access is a scan that has enough matches after few documents: nothing is to be said against it.
    pub ends_early: bool,
    /// Everything the access finds matches (as far as is known; the store re-checks all the same).
    pub covers_filter: bool,
    /// Paths and operators the access does not answer.
    pub rechecked: Vec<(String, &'static str)>,
    /// What the search adds to what an attacker who watches knows, least telling first.
    pub leaks: Vec<Pattern>,
    /// An estimate.
    pub cost: Cost,
    /// The part of it before any document is read.
    pub search: Cost,
    /// For a scan: the index that would avoid it, in words.
    pub advice: Option<String>,
}

/// Why a query does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No index serves the filter, and the schema refuses scans.
    #[error("no index serves {operator}{}, and the schema refuses scans of this collection: {fix}", on(.field))]
    NoIndex {
        /// A field the query asks about; empty if it names none.
        field: String,
        /// The operator on it.
        operator: &'static str,
        /// What to do about it.
        fix: String,
    },
}

fn on(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(" on field '{field}'") }
}

impl From<PlanError> for ServiceError {
    fn from(error: PlanError) -> Self {
        Self::new(Fault::NoPlan, error.to_string())
    }
}

impl<'c> Planner<'c> {
    /// One that allows scans, and guesses what indexes hold.
    #[must_use]
    pub fn new(indexes: &'c [IndexState], statistics: &'c Statistics) -> Self {
        let (scan, leakage_ratio) = (ScanPolicy::Allow, LEAKAGE_RATIO);
        let adversary = Adversary::default();
        Self { indexes, scan, leakage_ratio, statistics, entries: &Unknown, declared: false, adversary }
    }
}

impl Planner<'_> {
    /// Plans a query.
    ///
    /// # Errors
    /// [`PlanError::NoIndex`]: the query needs a scan, and scans are refused.
    pub fn plan(&self, request: Request<'_>) -> Result<Plan, PlanError> {
        let conditions = Conditions::of(request.filter);
        choose::choose(self, &conditions, request)
    }

    /// Plans aggregates that one range index answers alone: its conditions are exactly a prefix of equalities and
    /// one interval, it has no array and no inexact key, and carries the sums asked for. `None`: there is
    /// no such index, and the documents have to be fetched.
    #[must_use]
    pub fn plan_aggregates(&self, filter: &Expr, aggregates: &[Aggregate]) -> Option<AggregatePlan> {
        aggregate::plan(self, &Conditions::of(filter), aggregates)
    }
}
