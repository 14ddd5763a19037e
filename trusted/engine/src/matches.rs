//! The documents a selection may mean, pulled step by step: what is held is a step, and of an index's rows their
//! names.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::ledger::Watch;
use super::read::RangeRows;
use super::rows::Rows;
use super::scan::Scan;
use super::text::TextRows;
use super::values::Found;
use super::{Shared, error, slices};
use arras_documents::filter::{Expr, Filter};
use arras_planner::access::Access;
use arras_records::OpenDocument;
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use rand::seq::SliceRandom;
use std::sync::Arc;

/// Most documents of one step.
pub(super) const DOCUMENTS_PER_STEP: usize = 2000;

/// One of so many documents is a good part.
const GOOD_PART: u64 = 10;

/// Documents that match a filter, in no order, each once.
pub(super) struct Matches {
    collection: Arc<Collection>,
    filter: Arc<Filter>,
    origin: Origin,
    /// Of writes since before anything was asked.
    watch: Arc<Watch>,
    /// Documents the next step looks at: the more, the fewer of them matched so far.
    step: usize,
    /// It looks at as many as are wanted, whatever matched.
    is_steady: bool,
    /// Nobody else writes: what becomes of a row before it is read is explained by no write that is done.
    alone: bool,
}

/// Where documents come from.
enum Origin {
    Scan(Scan),
    /// Rows by index, then rows by `_id`. All are known before the first is asked for, since which of them came from
    /// one reply of an index is part of their order (Arx, §4.3); they are asked for in an order of their own.
    Rows {
        named: Named,
        next: usize,
    },
}

/// Rows that an access names.
struct Named {
    /// Those an index named: they have documents.
    by_index: Rows,
    /// Those of `_id`s, which need not exist.
    by_id: Rows,
    /// What equality and unique indexes answered.
    found: Vec<Found>,
    /// Nobody else writes.
    alone: bool,
}

impl Named {
    /// Asks an access that is no scan; none if a good part of the collection matches, and there is no memory for the names of its rows:
    /// then the collection is better read, and the filter is checked in any case.
    async fn open<S: Storage, C: ServerChannel>(
        shared: &Arc<Shared<S, C>>,
        collection: &Arc<Collection>,
        access: &Access,
        filter: &Filter,
        alone: bool,
    ) -> Result<Option<Self>, ServiceError> {
        if *access == Access::Text {
            let TextRows { found, untold } = shared.text_rows(collection, filter).await?;
            return Ok(Some(Self { by_index: found, by_id: untold, found: Vec::new(), alone }));
        }
        let (by_index, by_id) = (Rows::new(&shared.budget), Rows::new(&shared.budget));
        let mut named = Self { by_index, by_id, found: Vec::new(), alone };
        if let Err(error) = name_rows(shared, collection, access, &mut named).await {
            let met = (named.by_index.met() + named.by_id.met()) as u64;
            let is_good_part = met.saturating_mul(GOOD_PART) >= shared.document_count(collection)?;
            return if error.fault == Fault::MemoryExceeded && is_good_part { Ok(None) } else { Err(error) };
        }
        named.by_index.sort();
        let by_index = &named.by_index;
        named.by_id.retain(|row| by_index.binary_search(row).is_err());
        named.by_id.sort();
        Ok(Some(named))
    }
}

impl Matches {
    /// Asks an access for what it leads to. `alone`: the caller is the collection's writer.
    pub(super) async fn open<S: Storage, C: ServerChannel>(
        shared: &Arc<Shared<S, C>>,
        collection: &Arc<Collection>,
        access: &Access,
        filter: Arc<Filter>,
        alone: bool,
    ) -> Result<Self, ServiceError> {
        let watch = Arc::new(shared.intents.ledger.watch());
        let scan = || Origin::Scan(Scan::new(shared, collection, 1).alone(alone));
        let origin = if scans(access) {
            scan()
        } else {
            match Named::open(shared, collection, access, &filter, alone).await? {
                Some(named) => Origin::Rows { named, next: 0 },
                None => {
                    tracing::info!(collection = %collection.id_in_log(), "a scan, as there is no memory for the rows that an index names");
                    scan()
                }
            }
        };
        Ok(Self {
            collection: Arc::clone(collection),
            filter,
            origin,
            watch,
            step: 1,
            is_steady: false,
            alone,
        })
    }

    /// For who changes what matches: of what he leaves as it is the server is not to see that it matched.
    pub(super) fn keep_step(&mut self) {
        self.is_steady = true;
        self.step = 1;
    }

    /// Further matches, for somebody who wants about so many; perhaps none although more may follow. `None` at the
    /// end.
    pub(super) async fn next<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
        wanted: usize,
    ) -> Result<Option<Vec<OpenDocument>>, ServiceError> {
        let looked_at = self.step.max(wanted).clamp(1, DOCUMENTS_PER_STEP);
        if self.alone {
            self.watch_anew(shared);
        }
        let collection = &self.collection;
        let _step = shared.budget.step(looked_at, collection.lengths.mean()).await;
        let documents = match &mut self.origin {
            Origin::Scan(scan) => {
                scan.set_step(looked_at);
                let documents = scan.next(&*shared.channel).await?;
                if documents.is_empty() {
                    return Ok(None);
                }
                documents
            }
            Origin::Rows { named, next } => {
                let passed = named.by_index.len();
                let (rows, at, absent) = match next.checked_sub(passed) {
                    None => (&named.by_index, *next, Absent::Named(&self.watch)),
                    Some(at) => (&named.by_id, at, Absent::Allowed),
                };
                let asked = rows.get(at..at.saturating_add(looked_at).min(rows.len())).unwrap_or_default();
                if asked.is_empty() {
                    return Ok(None);
                }
                let (documents, served) = shared.read_some(collection, asked, absent).await?;
                *next += served;
                for found in &named.found {
                    found.check(collection, &documents)?;
                }
                documents
            }
        };
        let met = documents.len();
        let matched = matching(documents, &self.filter).await?;
        // A filter that few documents pass is better asked about many at a time, but not about twice as many as it takes.
        let few_pass = matched.len() * 2 < met && !self.is_steady;
        self.step = if few_pass { looked_at + looked_at / 2 + 1 } else { 1 };
        Ok(Some(matched))
    }
}

impl Matches {
    /// Sees the writes since before anything was asked; of who writes alone, those that are under way.
    pub(super) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Is the caller the collection's writer?
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// The collection's writer names each row once and has not changed it before it reads it: what it wrote so far explains
    /// nothing, and need not be kept.
    fn watch_anew<S: Storage, C: ServerChannel>(&mut self, shared: &Shared<S, C>) {
        self.watch = Arc::new(shared.intents.ledger.watch());
        if let Origin::Rows { named, .. } = &mut self.origin {
            named.found.iter_mut().for_each(|found| found.watch_anew(shared.intents.ledger.watch()));
        }
    }
}

/// The documents that match.
pub(super) async fn matching(
    documents: Vec<OpenDocument>,
    filter: &Arc<Filter>,
) -> Result<Vec<OpenDocument>, ServiceError> {
    if matches!(filter.expr(), Expr::Always) {
        return Ok(documents);
    }
    let filter = Arc::clone(filter);
    slices::run(documents, move |document| Ok(filter.matches(&document.document)?.then_some(document))).await
}

/// Whether an access comes to reading everything.
fn scans(access: &Access) -> bool {
    match access {
        Access::Scan => true,
        Access::Union(branches) => branches.iter().any(scans),
        Access::Eq { .. } | Access::Range(_) | Access::Rows { .. } | Access::Text | Access::Unique { .. } => {
            false
        }
    }
}

/// The rows an access names.
async fn name_rows<S: Storage, C: ServerChannel>(
    shared: &Arc<Shared<S, C>>,
    collection: &Arc<Collection>,
    access: &Access,
    named: &mut Named,
) -> Result<(), ServiceError> {
    match access {
        Access::Scan | Access::Text => {
            return Err(error::of(
                Fault::Internal,
                "a scan names no rows, and a search for words names them elsewhere",
            ));
        }
        Access::Union(branches) => {
            // Not in the order of the query, which may be that of its values.
            let mut branches: Vec<&Access> = branches.iter().collect();
            branches.shuffle(&mut shared.settings.random.rng());
            for branch in branches {
                Box::pin(name_rows(shared, collection, branch, named)).await?;
            }
        }
        Access::Range(range) => {
            let mut found = RangeRows::begin(shared, collection, range, None).await?;
            while let Some(further) = found.next().await? {
                named.by_index.extend(further.into_iter())?;
            }
        }
        Access::Rows { ids } => named.by_id.extend(ids.iter().map(|id| collection.sealer.row_id(id)))?,
        Access::Unique { index, values } | Access::Eq { index, values } => {
            let found = shared.rows_of_values(collection, *index, values, named.alone).await?;
            named.by_index.extend(found.rows.iter().copied())?;
            named.found.push(found);
        }
    }
    Ok(())
}
