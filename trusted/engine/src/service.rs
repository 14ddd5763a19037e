//! The data service that front ends call, over the engine.

use super::beside;
use super::channel::ServerChannel;
use super::cursor::EngineCursor;
use super::definition;
use super::text;
use super::{Engine, Shared, error};
use arras_documents::spill::Workspace;
use arras_service::examined::{self, Tally};
use arras_service::explanation::Explanation;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Aggregate, CollectionSize, DeleteStatement, FoundAndModified, IndexBuild, IndexDefinition,
    InsertStatement, Inserted, Modification, Namespace, Query, Relief, Store, UpdateStatement, Updated,
};
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::Document;
use std::future::Future;
use std::sync::{Arc, Weak};

impl<S: Storage, C: ServerChannel> Engine<S, C> {
    /// Runs an operation to its end even if the caller goes away: a write that is half done in memory would
    /// leave its outcome to the next one to find out.
    async fn run<T, F>(
        &self,
        operation: impl FnOnce(Arc<Shared<S, C>>) -> F + Send + 'static,
    ) -> Result<T, ServiceError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ServiceError>> + Send,
    {
        let shared = Arc::clone(&self.shared);
        to_its_end(async move {
            shared.settled().await?;
            operation(shared).await
        })
        .await
    }
}

impl<S: Storage, C: ServerChannel> Engine<S, C> {
    /// See [`Shared::settled_for_a_read`].
    async fn settled(&self) -> Result<(), ServiceError> {
        self.shared.settled_for_a_read().await
    }
}

/// Runs what is not to be given up half done.
async fn to_its_end<T: Send + 'static>(
    operation: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    let task = tokio::spawn(examined::counted(Tally::current(), operation));
    task.await
        .unwrap_or_else(|error| Err(error::of(Fault::Internal, format!("the operation failed: {error}"))))
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Completes writes whose outcome is unknown, to their end even if the read that waits for it is given up.
    pub(super) async fn settled_for_a_read(self: &Arc<Self>) -> Result<(), ServiceError> {
        self.standing()?;
        if self.intents.in_doubt() {
            let shared = Arc::clone(self);
            to_its_end(async move { shared.settled().await }).await?;
        }
        Ok(())
    }

    /// Runs a query to a cursor.
    async fn find(
        self: &Arc<Self>,
        ns: &Namespace,
        query: &Query,
    ) -> Result<EngineCursor<S, C>, ServiceError> {
        match self.collection(ns) {
            Some(collection) => EngineCursor::open(self, &collection, query).await,
            None => {
                text::refuse_without_collection(&query.filter)?;
                Ok(EngineCursor::empty(self))
            }
        }
    }

    async fn count(self: &Arc<Self>, ns: &Namespace, query: &Query) -> Result<u64, ServiceError> {
        let Some(collection) = self.collection(ns) else {
            text::refuse_without_collection(&query.filter)?;
            return Ok(0);
        };
        beside::drops(&collection, || self.count_matches(&collection, query)).await
    }
}

impl<S: Storage, C: ServerChannel> Engine<S, C> {
    /// Bytes that queries hold now from one step to the next, of the quarter of [`super::Settings::memory_bytes`] there is for
    /// that.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.shared.budget.held_bytes()
    }

    /// Changes of documents and of values' records that are kept of ended writes, for queries that lasted beside them.
    #[must_use]
    pub fn kept_changes(&self) -> usize {
        self.shared.intents.ledger.kept()
    }
}

impl<S: Storage, C: ServerChannel> Store for Engine<S, C> {
    type Cursor = EngineCursor<S, C>;

    fn workspace(&self, allow_disk_use: bool) -> Workspace {
        self.shared.workspace(allow_disk_use)
    }

    fn set_relief(&self, relief: Weak<dyn Relief>) {
        self.shared.spill.set_relief(relief);
    }

    async fn databases(&self) -> Result<Vec<String>, ServiceError> {
        self.shared.standing()?;
        let mut names: Vec<String> =
            self.shared.all_collections().iter().map(|collection| collection.ns.database.clone()).collect();
        names.dedup();
        Ok(names)
    }

    async fn collections(&self, database: &str) -> Result<Vec<String>, ServiceError> {
        self.shared.standing()?;
        let all = self.shared.all_collections();
        let of_database = all.iter().filter(|collection| collection.ns.database == database);
        Ok(of_database.map(|collection| collection.ns.collection.clone()).collect())
    }

    async fn create_collection(&self, ns: &Namespace) -> Result<(), ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.create_collection(&ns).await }).await
    }

    async fn drop_collection(&self, ns: &Namespace) -> Result<bool, ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.drop_collection(&ns).await }).await
    }

    async fn size(&self, ns: &Namespace) -> Result<CollectionSize, ServiceError> {
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
        indexes: Vec<IndexDefinition>,
        interrupt: Interrupt,
    ) -> Result<(usize, usize), ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.create_indexes(&ns, indexes, interrupt).await }).await
    }

    fn index_builds(&self) -> Vec<IndexBuild> {
        self.shared.builds.list()
    }

    async fn indexes(&self, ns: &Namespace) -> Result<Vec<IndexDefinition>, ServiceError> {
        self.shared.standing()?;
        let Some(collection) = self.shared.collection(ns) else {
            let message = format!("ns does not exist: {}.{}", ns.database, ns.collection);
            return Err(error::of(Fault::NamespaceNotFound, message));
        };
        Ok(definition::listed(&collection.indexes()))
    }

    async fn drop_index(&self, ns: &Namespace, name: &str) -> Result<(), ServiceError> {
        let (ns, name) = (ns.clone(), name.to_owned());
        self.run(move |shared| async move { shared.drop_index(&ns, &name).await }).await
    }

    async fn drop_all_indexes(&self, ns: &Namespace) -> Result<(), ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move { shared.drop_all_indexes(&ns).await }).await
    }

    async fn insert(&self, ns: &Namespace, statement: InsertStatement) -> Result<Inserted, ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let collection = shared.ensure_collection(&ns, &statement.interrupt).await?;
            shared.insert(&collection, statement).await
        })
        .await
    }

    async fn find(&self, ns: &Namespace, query: Query) -> Result<Self::Cursor, ServiceError> {
        self.settled().await?;
        self.shared.find(ns, &query).await
    }

    async fn count(&self, ns: &Namespace, query: Query) -> Result<u64, ServiceError> {
        self.settled().await?;
        self.shared.count(ns, &query).await
    }

    async fn aggregate(
        &self,
        ns: &Namespace,
        query: &Query,
        aggregates: &[Aggregate],
    ) -> Result<Option<Document>, ServiceError> {
        let (ns, query, aggregates) = (ns.clone(), query.clone(), aggregates.to_vec());
        self.run(move |shared| async move {
            let Some(collection) = shared.collection(&ns) else {
                return Ok(None);
            };
            shared.aggregate(&collection, &query, &aggregates).await
        })
        .await
    }

    async fn update(&self, ns: &Namespace, statement: UpdateStatement) -> Result<Updated, ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let collection = match shared.collection(&ns) {
                Some(collection) => collection,
                None if statement.upsert.is_some() => {
                    shared.ensure_collection(&ns, &statement.interrupt).await?
                }
                None => return Ok(Updated::default()),
            };
            shared.update(&collection, statement).await
        })
        .await
    }

    async fn delete(&self, ns: &Namespace, statement: DeleteStatement) -> Result<u64, ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let Some(collection) = shared.collection(&ns) else {
                return Ok(0);
            };
            shared.delete(&collection, &statement).await
        })
        .await
    }

    async fn find_and_modify(
        &self,
        ns: &Namespace,
        query: Query,
        modification: Modification,
        interrupt: Interrupt,
    ) -> Result<FoundAndModified, ServiceError> {
        let ns = ns.clone();
        self.run(move |shared| async move {
            let collection = match (shared.collection(&ns), &modification) {
                (Some(collection), _) => collection,
                (None, Modification::Update { upsert: Some(_), .. }) => {
                    shared.ensure_collection(&ns, &interrupt).await?
                }
                (None, _) => return Ok(FoundAndModified::default()),
            };
            shared.find_and_modify(&collection, &query, modification, &interrupt).await
        })
        .await
    }

    async fn explain(
        &self,
        ns: &Namespace,
        query: Query,
        aggregates: &[Aggregate],
    ) -> Result<Explanation, ServiceError> {
        let (ns, aggregates) = (ns.clone(), aggregates.to_vec());
        self.run(move |shared| async move { shared.explain(&ns, &query, &aggregates).await }).await
    }
}
