//! The data service in plain memory: the baseline the encrypted one is compared with, and a stand-in for it
//! where only a front end is tested. No index speeds anything up but the one on `_id`; unique indexes are
//! enforced. Natural order is insertion order.

mod collection;

use arras_documents::limits;
use arras_service::explanation::Explanation;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Aggregate, CollectionSize, Cursor, DeleteStatement, FoundAndModified, IndexDefinition, InsertStatement,
    Inserted, Modification, Namespace, Query, Store, UpdateStatement, Updated, WriteFailure,
};
use arras_service::{Fault, ServiceError};
use bson::Document;
use collection::Collection;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Collections in memory.
#[derive(Debug, Default)]
pub struct PlainStore {
    collections: Mutex<BTreeMap<Namespace, Collection>>,
}

impl PlainStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, Collection>> {
        self.collections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Documents found, by value.
#[derive(Debug)]
pub struct PlainCursor {
    documents: VecDeque<Document>,
}

impl Cursor for PlainCursor {
    async fn next_batch(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Document>, ServiceError> {
        let mut batch = Vec::new();
        let mut bytes: usize = 0;
        while batch.len() < documents_max && bytes < bytes_max {
            let Some(document) = self.documents.pop_front() else {
                break;
            };
            bytes = bytes.saturating_add(limits::check_built(&document)?);
            batch.push(document);
        }
        Ok(batch)
    }
}

impl Store for PlainStore {
    type Cursor = PlainCursor;

    async fn databases(&self) -> Result<Vec<String>, ServiceError> {
        let names: BTreeSet<_> = self.lock().keys().map(|ns| ns.database.clone()).collect();
        Ok(names.into_iter().collect())
    }

    async fn collections(&self, database: &str) -> Result<Vec<String>, ServiceError> {
        let collections = self.lock();
        let here = collections.keys().filter(|ns| ns.database == database);
        Ok(here.map(|ns| ns.collection.clone()).collect())
    }

    async fn create_collection(&self, ns: &Namespace) -> Result<(), ServiceError> {
        let mut collections = self.lock();
        if collections.contains_key(ns) {
            let text = format!("Collection {} already exists.", full_name(ns));
            return Err(store_error(Fault::NamespaceExists, text));
        }
        collections.insert(ns.clone(), Collection::new(full_name(ns)));
        Ok(())
    }

    async fn drop_collection(&self, ns: &Namespace) -> Result<bool, ServiceError> {
        Ok(self.lock().remove(ns).is_some())
    }

    async fn size(&self, ns: &Namespace) -> Result<CollectionSize, ServiceError> {
        let document_count = self.lock().get(ns).map_or(0, Collection::document_count);
        Ok(CollectionSize { document_count })
    }

    async fn create_indexes(
        &self,
        ns: &Namespace,
        indexes: Vec<IndexDefinition>,
        _: Interrupt,
    ) -> Result<(usize, usize), ServiceError> {
        let mut collections = self.lock();
        let collection = collections.entry(ns.clone()).or_insert_with(|| Collection::new(full_name(ns)));
        indexes.iter().try_for_each(|index| collection.already_exists(index).map(drop))?;
        for (position, index) in indexes.iter().enumerate() {
            let before: Vec<_> = indexes.iter().take(position).collect();
            index.found_among(&before)?;
        }
        let before = collection.indexes().len();
        for index in indexes {
            collection.create_index(index)?;
        }
        Ok((before, collection.indexes().len()))
    }

    async fn indexes(&self, ns: &Namespace) -> Result<Vec<IndexDefinition>, ServiceError> {
        self.lock().get(ns).map(Collection::indexes).ok_or_else(|| namespace_not_found(ns))
    }

    async fn drop_index(&self, ns: &Namespace, name: &str) -> Result<(), ServiceError> {
        self.lock().get_mut(ns).ok_or_else(|| namespace_not_found(ns))?.drop_index(name)
    }

    async fn insert(&self, ns: &Namespace, statement: InsertStatement) -> Result<Inserted, ServiceError> {
        let InsertStatement { documents, ordered, interrupt: _ } = statement;
        let mut collections = self.lock();
        let collection = collections.entry(ns.clone()).or_insert_with(|| Collection::new(full_name(ns)));
        let mut inserted = Inserted::default();
        for (position, document) in documents.into_iter().enumerate() {
            match collection.insert(document.into_document()) {
                Ok(()) => inserted.count += 1,
                Err(error) => {
                    inserted.failures.push(WriteFailure { position, error });
                    if ordered {
                        break;
                    }
                }
            }
        }
        Ok(inserted)
    }

    async fn find(&self, ns: &Namespace, query: Query) -> Result<PlainCursor, ServiceError> {
        let documents = match self.lock().get(ns) {
            Some(collection) => collection.find(&query)?,
            None => Vec::new(),
        };
        Ok(PlainCursor { documents: documents.into() })
    }

    async fn count(&self, ns: &Namespace, query: Query) -> Result<u64, ServiceError> {
        match self.lock().get(ns) {
            Some(collection) => collection.count(&query),
            None => Ok(0),
        }
    }

    async fn aggregate(
        &self,
        _ns: &Namespace,
        _query: &Query,
        _aggregates: &[Aggregate],
    ) -> Result<Option<Document>, ServiceError> {
        Ok(None) // there is no index that holds aggregates
    }

    async fn update(&self, ns: &Namespace, statement: UpdateStatement) -> Result<Updated, ServiceError> {
        let mut collections = self.lock();
        let known = collections.contains_key(ns);
        if !known && statement.upsert.is_none() {
            return Ok(Updated::default());
        }
        collections.entry(ns.clone()).or_insert_with(|| Collection::new(full_name(ns))).update(&statement)
    }

    async fn delete(&self, ns: &Namespace, statement: DeleteStatement) -> Result<u64, ServiceError> {
        match self.lock().get_mut(ns) {
            Some(collection) => collection.delete(&statement.filter, statement.multi),
            None => Ok(0),
        }
    }

    async fn find_and_modify(
        &self,
        ns: &Namespace,
        query: Query,
        modification: Modification,
        _: Interrupt,
    ) -> Result<FoundAndModified, ServiceError> {
        let mut collections = self.lock();
        let upsert = matches!(modification, Modification::Update { upsert: Some(_), .. });
        if !collections.contains_key(ns) && !upsert {
            return Ok(FoundAndModified::default());
        }
        let collection = collections.entry(ns.clone()).or_insert_with(|| Collection::new(full_name(ns)));
        collection.find_and_modify(&query, modification)
    }

    async fn explain(
        &self,
        _ns: &Namespace,
        _query: Query,
        _aggregates: &[Aggregate],
    ) -> Result<Explanation, ServiceError> {
        Ok(Explanation {
            steps: vec!["read every document in memory".to_owned()],
            order: "sorted in memory, if an order is asked for".to_owned(),
            scan: true,
            ..Explanation::default()
        })
    }
}

fn full_name(ns: &Namespace) -> String {
    format!("{}.{}", ns.database, ns.collection)
}

fn namespace_not_found(ns: &Namespace) -> ServiceError {
    store_error(Fault::NamespaceNotFound, format!("ns does not exist: {}", full_name(ns)))
}

fn store_error(fault: Fault, message: impl Into<String>) -> ServiceError {
    ServiceError::new(fault, message)
}
