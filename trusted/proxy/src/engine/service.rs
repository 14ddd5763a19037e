//! The data service that front ends call, over the engine.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::definition::id_index;
use super::read::{Selection, plain};
use super::scan::Scan;
use super::{Engine, Shared, error};
use arras_documents::filter::{Expr, Filter};
use arras_planner::access::Access;
use arras_planner::explain::Explanation;
use arras_planner::store::{
    Aggregate, CollectionSize, Cursor, FoundAndModified, IndexRequest, Inserted, Modification, Namespace,
    Query, Store, StoreError, UpdateStatement, Updated,
};
use arras_storage::Storage;
use bson::Document;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

/// Documents of one step of a streamed scan.
const DOCUMENTS_PER_STEP: u32 = 2000;
/// A scan without order of a collection larger than this is streamed in the order of the server's store rather
/// than held to be put in insertion order.
const STREAMED_ABOVE: u64 = 200_000;

/// Results of a query.
pub struct EngineCursor<S: Storage, C: ServerChannel> {
    shared: Arc<Shared<S, C>>,
    ready: VecDeque<Document>,
    /// Where a streamed scan stands, and its filter.
    scan: Option<(Scan<C>, Filter)>,
    /// Documents a streamed scan has yet to pass over.
    skip: u64,
}

impl<S: Storage, C: ServerChannel> Cursor for EngineCursor<S, C> {
    async fn next_batch(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Document>, StoreError> {
        self.shared.standing()?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < documents_max && bytes < bytes_max {
            if let Some(document) = self.ready.pop_front() {
                bytes += arras_documents::limits::check_built(&document)?;
                batch.push(document);
            } else if !self.advance().await? {
                break;
            }
        }
        Ok(batch)
    }
}

impl<S: Storage, C: ServerChannel> EngineCursor<S, C> {
    /// Reads on; false at the end.
    async fn advance(&mut self) -> Result<bool, StoreError> {
        let Some((scan, filter)) = &mut self.scan else {
            return Ok(false);
        };
        let documents = scan.next(&*self.shared.channel).await?;
        if documents.is_empty() {
            self.scan = None;
            return Ok(false);
        }
        for document in plain(documents) {
            if !filter.matches(&document)? {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
            } else {
                self.ready.push_back(document);
            }
        }
        Ok(true)
    }
}

impl<S: Storage, C: ServerChannel> Engine<S, C> {
    /// Runs an operation to its end even if the caller goes away: a write that is half done in memory would
    /// leave its outcome to the next one to find out.
    async fn run<T, F>(
        &self,
        operation: impl FnOnce(Arc<Shared<S, C>>) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move {
            shared.settled().await?;
            operation(shared).await
        });
        task.await.unwrap_or_else(|error| {
            Err(error::of(1, "InternalError", format!("the operation failed: {error}")))
        })
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Runs a query to a cursor.
    async fn find(self: &Arc<Self>, ns: &Namespace, query: &Query) -> Result<EngineCursor<S, C>, StoreError> {
        let cursor = |ready: Vec<Document>| EngineCursor {
            shared: Arc::clone(self),
            ready: ready.into(),
            scan: None,
            skip: 0,
        };
        let Some(collection) = self.collection(ns) else {
            return Ok(cursor(Vec::new()));
        };
        if self.is_streamed(&collection, query)? {
            let scan = Some((Scan::new(self, &collection, DOCUMENTS_PER_STEP), query.filter.clone()));
            return Ok(EngineCursor { scan, skip: query.skip, ..cursor(Vec::new()) });
        }
        Ok(cursor(plain(self.select(&collection, Selection::of(query)).await?)))
    }

    /// True for a scan whose results need no order and may be too many to hold.
    fn is_streamed(&self, collection: &Arc<Collection<C>>, query: &Query) -> Result<bool, StoreError> {
        if query.limit.is_some() || !query.sort.is_empty() {
            return Ok(false);
        }
        let plan = self.plan(collection, Selection::of(query))?;
        Ok(plan.access == Access::Scan && self.document_count(collection)? > STREAMED_ABOVE)
    }

    async fn count(&self, ns: &Namespace, query: &Query) -> Result<u64, StoreError> {
        let Some(collection) = self.collection(ns) else {
            return Ok(0);
        };
        if matches!(query.filter.expr(), Expr::Always) {
            let all = self.document_count(&collection)?;
            let left = all.saturating_sub(query.skip);
            return Ok(query.limit.map_or(left, |limit| left.min(limit)));
        }
        Ok(self.select(&collection, Selection::of(query)).await?.len() as u64)
    }
}

impl<S: Storage, C: ServerChannel> Store for Engine<S, C> {
    type Cursor = EngineCursor<S, C>;

    async fn databases(&self) -> Result<Vec<String>, StoreError> {
        self.shared.standing()?;
        let mut names: Vec<String> =
            self.shared.all_collections().iter().map(|collection| collection.ns.database.clone()).collect();
        names.dedup();
        Ok(names)
    }

    async fn collections(&self, database: &str) -> Result<Vec<String>, StoreError> {
        self.shared.standing()?;
        let all = self.shared.all_collections();
        let of_database = all.iter().filter(|collection| collection.ns.database == database);
        Ok(of_database.map(|collection| collection.ns.collection.clone()).collect())
    }

    async fn create_collection(&self, ns: &Namespace) -> Result<(), StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.create_collection(&ns).await }).await
    }

    async fn drop_collection(&self, ns: &Namespace) -> Result<bool, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.drop_collection(&ns).await }).await
    }

    async fn size(&self, ns: &Namespace) -> Result<CollectionSize, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let Some(collection) = shared.collection(&ns) else {
                return Ok(CollectionSize::default());
            };
            Ok(CollectionSize { document_count: shared.document_count(&collection)? })
        })
        .await
    }

    async fn create_indexes(
        &self,
        ns: &Namespace,
        indexes: Vec<IndexRequest>,
    ) -> Result<(usize, usize), StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.create_indexes(&ns, indexes).await }).await
    }

    async fn indexes(&self, ns: &Namespace) -> Result<Vec<IndexRequest>, StoreError> {
        self.shared.standing()?;
        let Some(collection) = self.shared.collection(ns) else {
            let message = format!("ns does not exist: {}.{}", ns.database, ns.collection);
            return Err(error::of(26, "NamespaceNotFound", message));
        };
        let made = collection.indexes();
        Ok([id_index()].into_iter().chain(made.iter().map(|index| index.request.clone())).collect())
    }

    async fn drop_index(&self, ns: &Namespace, name: &str) -> Result<(), StoreError> {
        let (ns, name) = (ns.clone(), name.to_owned());
        self.run(move |shared| async move { shared.drop_index(&ns, &name).await }).await
    }

    async fn insert(
        &self,
        ns: &Namespace,
        documents: Vec<Document>,
        ordered: bool,
    ) -> Result<Inserted, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let collection = shared.ensure_collection(&ns).await?;
            shared.insert(&collection, documents, ordered).await
        })
        .await
    }

    async fn find(&self, ns: &Namespace, query: Query) -> Result<Self::Cursor, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.find(&ns, &query).await }).await
    }

    async fn count(&self, ns: &Namespace, query: Query) -> Result<u64, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.count(&ns, &query).await }).await
    }

    async fn aggregate(
        &self,
        ns: &Namespace,
        filter: &Filter,
        aggregates: &[Aggregate],
    ) -> Result<Option<Document>, StoreError> {
        let (ns, filter, aggregates) = (ns.clone(), filter.clone(), aggregates.to_vec());
        self.run(move |shared| async move {
            let Some(collection) = shared.collection(&ns) else {
                return Ok(None);
            };
            shared.aggregate(&collection, &filter, &aggregates).await
        })
        .await
    }

    async fn update(&self, ns: &Namespace, statement: UpdateStatement) -> Result<Updated, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let collection = match shared.collection(&ns) {
                Some(collection) => collection,
                None if statement.upsert => shared.ensure_collection(&ns).await?,
                None => return Ok(Updated::default()),
            };
            shared.update(&collection, statement).await
        })
        .await
    }

    async fn delete(&self, ns: &Namespace, filter: Filter, multi: bool) -> Result<u64, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let Some(collection) = shared.collection(&ns) else {
                return Ok(0);
            };
            shared.delete(&collection, &filter, multi).await
        })
        .await
    }

    async fn find_and_modify(
        &self,
        ns: &Namespace,
        query: Query,
        modification: Modification,
    ) -> Result<FoundAndModified, StoreError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let collection = match (shared.collection(&ns), &modification) {
                (Some(collection), _) => collection,
                (None, Modification::Update { upsert: true, .. }) => shared.ensure_collection(&ns).await?,
                (None, _) => return Ok(FoundAndModified::default()),
            };
            shared.find_and_modify(&collection, &query, modification).await
        })
        .await
    }

    async fn explain(
        &self,
        ns: &Namespace,
        query: Query,
        aggregates: &[Aggregate],
    ) -> Result<Explanation, StoreError> {
        let (ns, aggregates) = (ns.clone(), aggregates.to_vec());
        self.run(move |shared| async move { shared.explain(&ns, &query, &aggregates).await }).await
    }
}
