//! What a front end may ask of the trusted side's data service, in logical terms: plaintext documents in,
//! plaintext documents out. Declared here so that front ends, which cannot see keys, depend on nothing that
//! can; implemented by `trusted/engine` over the encrypted indexes, and in plain memory as a baseline.

use crate::ID_INDEX;
use crate::error::{Fault, ServiceError};
use crate::explanation::Explanation;
use crate::interrupt::Interrupt;
use arras_documents::filter::Filter;
use arras_documents::limits::{self, Measured};
use arras_documents::order;
use arras_documents::shown::shown_document;
use arras_documents::sort::Sort;
use arras_documents::spill::Workspace;
use arras_documents::update::{ArrayFilters, Update};
use bson::oid::ObjectId;
use bson::{Bson, Document, RawDocumentBuf, doc};
use std::future::Future;
use std::sync::Weak;

/// A database and a collection in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// Database name.
    pub database: String,
    /// Collection name.
    pub collection: String,
}

/// A read: what to return, in which order, how much of it.
#[derive(Clone, Debug)]
pub struct Query {
    /// Which documents.
    pub filter: Filter,
    /// Order; natural (insertion) order if empty.
    pub sort: Sort,
    /// Documents to pass over.
    pub skip: u64,
    /// Most documents to return.
    pub limit: Option<u64>,
    /// Name or key pattern of the index to use; [`ServiceError`] if there is none such.
    pub hint: Option<Bson>,
    /// A sort that does not fit memory may use the disk; else it is [`Fault::DiskUseForbidden`].
    pub allow_disk_use: bool,
}

/// An index that is being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexBuild {
    /// Over which collection.
    pub ns: Namespace,
    /// Documents entered so far.
    pub done: u64,
    /// Documents there were when it began.
    pub total: u64,
}

/// An insert, update or delete that failed for one of its documents.
#[derive(Clone, Debug)]
pub struct WriteFailure {
    /// Position of the document (or statement) in the request.
    pub position: usize,
    /// What the front end reports for this one.
    pub error: ServiceError,
}

/// Outcome of an insert.
#[derive(Clone, Debug, Default)]
pub struct Inserted {
    /// How many are durably stored.
    pub count: u64,
    /// The others.
    pub failures: Vec<WriteFailure>,
}

/// An insert statement.
#[derive(Clone, Debug)]
pub struct InsertStatement {
    /// What is inserted; each has an `_id`.
    pub documents: Vec<Measured>,
    /// Stops at the first failure.
    pub ordered: bool,
    /// Ends it early, between two of its atomic parts.
    pub interrupt: Interrupt,
}

impl InsertStatement {
    /// Of these documents, which nobody interrupts.
    ///
    /// # Errors
    /// One of them is too large or too deep.
    pub fn of(documents: Vec<Document>, ordered: bool) -> Result<Self, ServiceError> {
        let documents = documents.into_iter().map(Measured::new).collect::<Result<_, _>>()?;
        Ok(Self { documents, ordered, interrupt: Interrupt::default() })
    }
}

/// An update statement.
#[derive(Clone, Debug)]
pub struct UpdateStatement {
    /// Which documents.
    pub filter: Filter,
    /// What to do with them.
    pub update: Update,
    /// Name or key of the index to go by; one that there is not is an error.
    pub hint: Option<Bson>,
    /// Conditions on the array elements that `$[identifier]` in the update stands for.
    pub array_filters: ArrayFilters,
    /// All of them, not only the first.
    pub multi: bool,
    /// Insert one if there is none: with this `_id`, if neither the filter nor the update gives one.
    pub upsert: Option<ObjectId>,
    /// Ends it early, between two of its atomic parts.
    pub interrupt: Interrupt,
}

/// A delete statement.
#[derive(Clone, Debug)]
pub struct DeleteStatement {
    /// Which documents.
    pub filter: Filter,
    /// Name or key of the index to go by; one that there is not is an error.
    pub hint: Option<Bson>,
    /// All of them, not only the first.
    pub multi: bool,
    /// Ends it early, between two of its atomic parts.
    pub interrupt: Interrupt,
}

/// Outcome of an update.
#[derive(Clone, Debug, Default)]
pub struct Updated {
    /// Documents that matched.
    pub matched: u64,
    /// Documents that are now different.
    pub modified: u64,
    /// `_id` of the document an upsert inserted.
    pub upserted: Option<Bson>,
}

/// What `findAndModify` does with the document it finds.
#[derive(Clone, Debug)]
pub enum Modification {
    /// Changes it.
    Update {
        /// How.
        update: Update,
        /// Conditions on the array elements that `$[identifier]` in the update stands for.
        array_filters: ArrayFilters,
        /// Insert if there is none: with this `_id`, if neither the filter nor the update gives one.
        upsert: Option<ObjectId>,
        /// Return the document after the change.
        return_new: bool,
    },
    /// Removes it.
    Remove,
}

/// Outcome of `findAndModify`.
#[derive(Clone, Debug, Default)]
pub struct FoundAndModified {
    /// The document, before or after as asked.
    pub document: Option<Document>,
    /// True if a document existed and was updated or removed.
    pub existing: bool,
    /// `_id` of the document an upsert inserted.
    pub upserted: Option<Bson>,
}

/// An index as the application asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexDefinition {
    /// Of its collection alone, such as `age_1`.
    pub name: String,
    /// Field to 1 or -1, in order. Other kinds ("text", "2dsphere", …) are refused by the store.
    pub key: Document,
    /// Values are unique.
    pub unique: bool,
    /// Documents without the field are not indexed.
    pub sparse: bool,
    /// Further options as sent (stored and listed back; refused if they would change results).
    pub options: Document,
}

impl IndexDefinition {
    /// Looks for this index among those there are, by MongoDB's rules: a name belongs to one index, and so do keys.
    /// The position of the one that is the same; [`Fault::IndexKeySpecsConflict`] if its name is another's,
    /// [`Fault::IndexOptionsConflict`] if it is there with other options or under another name.
    ///
    /// # Errors
    /// Those two.
    pub fn found_among(&self, there: &[&Self]) -> Result<Option<usize>, ServiceError> {
        let shown = |index: &Self| shown_document(&index.specification());
        let conflict = |fault, what: &str, other: &Self| {
            let text = format!("{what} Requested index: {}, existing index: {}", shown(self), shown(other));
            Err(ServiceError::new(fault, text))
        };
        if let Some(position) = there.iter().position(|other| other.name == self.name) {
            let other = there[position];
            if !self.has_keys_of(other) || !self.admits_as(other) {
                let what = "An existing index has the same name as the requested index. When index names are not specified, \
                            they are auto generated and can cause conflicts. Please refer to our documentation.";
                return conflict(Fault::IndexKeySpecsConflict, what, other);
            }
            if self.has_other_text_of(other) {
                let what = "An equivalent index already exists with the same name but different options.";
                return conflict(Fault::IndexOptionsConflict, what, other);
            }
            return Ok(Some(position));
        }
        let Some(other) = there.iter().find(|other| self.has_keys_of(other)) else { return Ok(None) };
        if !self.admits_as(other) {
            // MongoDB has both.
            let what =
                "Arras does not support two indexes on the same keys that differ in 'unique' or 'sparse'.";
            return conflict(Fault::IndexOptionsConflict, what, other);
        }
        if self.has_other_text_of(other) {
            let what = "An equivalent index already exists with a different name and options.";
            return conflict(Fault::IndexOptionsConflict, what, other);
        }
        let text = format!("Index already exists with a different name: {}", other.name);
        Err(ServiceError::new(Fault::IndexOptionsConflict, text))
    }

    /// As it is listed.
    #[must_use]
    pub fn specification(&self) -> Document {
        let mut listed = doc! { "v": 2, "key": self.key.clone(), "name": self.name.as_str() };
        // MongoDB does not say of the _id index that it is unique.
        if self.unique && self.name != ID_INDEX {
            listed.insert("unique", true);
        }
        if self.sparse {
            listed.insert("sparse", true);
        }
        listed.extend(self.options.clone());
        listed
    }

    fn has_keys_of(&self, other: &Self) -> bool {
        order::compare_documents(&self.key, &other.key).is_eq()
    }

    fn admits_as(&self, other: &Self) -> bool {
        (self.unique, self.sparse) == (other.unique, other.sparse)
    }

    /// What a text index takes of documents is an option. What is asked of an encrypted one is its store's to compare.
    fn has_other_text_of(&self, other: &Self) -> bool {
        self.key.values().any(|kind| kind.as_str() == Some("text")) && self.options != other.options
    }
}

/// A sum, average, minimum, maximum or count over a filter, by name of the result field.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Result field.
    pub name: String,
    /// Which function.
    pub function: AggregateFunction,
}

/// An aggregate that a range index can answer from sealed partials.
#[derive(Clone, Debug, PartialEq)]
pub enum AggregateFunction {
    /// Number of documents.
    Count,
    /// Sum of a field.
    Sum(String),
    /// Average of a field.
    Average(String),
}

/// Size of a collection, for `collStats` and `dbStats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionSize {
    /// Documents.
    pub document_count: u64,
}

/// A document as a cursor has it at hand.
#[derive(Clone, Debug, PartialEq)]
pub enum Fetched {
    /// Field by field.
    Decoded(Document),
    /// As BSON that is known to be well formed, within the limits of a stored document, and free of repeated names.
    Encoded(RawDocumentBuf),
}

impl Fetched {
    /// Its fields. An error only if what was called well formed is not.
    ///
    /// # Errors
    /// [`Fault::MalformedDocument`].
    pub fn into_document(self) -> Result<Document, ServiceError> {
        match self {
            Self::Decoded(document) => Ok(document),
            Self::Encoded(bytes) => Document::try_from(bytes).map_err(|_| {
                ServiceError::new(Fault::MalformedDocument, "a stored document does not decode")
            }),
        }
    }

    /// Bytes of it as BSON.
    ///
    /// # Errors
    /// As [`limits::check_built`].
    pub fn encoded_bytes(&self) -> Result<usize, ServiceError> {
        match self {
            Self::Decoded(document) => Ok(limits::check_built(document)?),
            Self::Encoded(bytes) => Ok(bytes.as_bytes().len()),
        }
    }
}

/// A result that is fetched in batches.
pub trait Cursor: Send + 'static {
    /// The next documents: at most `documents_max` and about `bytes_max` bytes (at least one document if any
    /// is left). Empty: the end.
    fn next_batch(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Vec<Document>, ServiceError>> + Send;

    /// The next documents, as [`Self::next_batch`], to be handed on as they are: a store that has them as BSON need not
    /// decode them.
    fn next_fetched(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Vec<Fetched>, ServiceError>> + Send {
        async move {
            let documents = self.next_batch(documents_max, bytes_max).await?;
            Ok(documents.into_iter().map(Fetched::Decoded).collect())
        }
    }

    /// Whether it keeps something on the disk that all queries share.
    fn is_on_disk(&self) -> bool {
        false
    }

    /// Waits for a turn on a processor, among all the heavy work on its store's documents; none if turns are not
    /// taken. It is to be given back after a few milliseconds.
    fn turn() -> impl Future<Output = Option<Turn>> + Send {
        async { None }
    }
}

/// A turn on a processor: see [`Cursor::turn`]. Given back when dropped.
pub struct Turn(Box<dyn Send>);

impl Turn {
    /// A turn that ends when `permit` is dropped.
    #[must_use]
    pub fn new(permit: impl Send + 'static) -> Self {
        Self(Box::new(permit))
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turn({} bytes)", size_of_val(&*self.0))
    }
}

/// Who keeps cursors for clients, and can do with fewer of them.
pub trait Relief: Send + Sync {
    /// Ends the cursor that has waited longest of those that keep something on the disk ([`Cursor::is_on_disk`]); false if
    /// there is none.
    fn relieve(&self) -> bool;
}

/// The data service. A collection that does not exist reads as empty and is made by the first write.
///
/// Dropping the future of a read (`find`, `count`, `aggregate`, `explain`, [`Cursor::next_batch`]) ends the read
/// soon; a write that has begun is ended by its [`Interrupt`] alone.
pub trait Store: Send + Sync + 'static {
    /// Its cursors.
    type Cursor: Cursor;

    /// What work on this store's documents may use: memory, and, if allowed and there is one, the disk.
    fn workspace(&self, allow_disk_use: bool) -> Workspace {
        let _ = allow_disk_use;
        Workspace::default()
    }
    /// Who is asked for room where the disk has none for what queries spill.
    fn set_relief(&self, relief: Weak<dyn Relief>) {
        let _ = relief;
    }
    /// Databases that have collections.
    fn databases(&self) -> impl Future<Output = Result<Vec<String>, ServiceError>> + Send;
    /// Collections of a database.
    fn collections(&self, database: &str) -> impl Future<Output = Result<Vec<String>, ServiceError>> + Send;
    /// Makes a collection. [`Fault::NamespaceExists`] if it exists.
    fn create_collection(&self, ns: &Namespace) -> impl Future<Output = Result<(), ServiceError>> + Send;
    /// Drops a collection; false if there was none.
    fn drop_collection(&self, ns: &Namespace) -> impl Future<Output = Result<bool, ServiceError>> + Send;
    /// Size of a collection.
    fn size(&self, ns: &Namespace) -> impl Future<Output = Result<CollectionSize, ServiceError>> + Send;

    /// Makes indexes over existing and future documents; returns how many there were before and after (the
    /// `_id` index included). An identical one is kept; [`Fault::IndexOptionsConflict`] or
    /// [`Fault::IndexKeySpecsConflict`] on a conflicting one. Interrupted, it takes back the one that it is filling; not
    /// because its client has gone.
    fn create_indexes(
        &self,
        ns: &Namespace,
        indexes: Vec<IndexDefinition>,
        interrupt: Interrupt,
    ) -> impl Future<Output = Result<(usize, usize), ServiceError>> + Send;
    /// Index builds under way.
    fn index_builds(&self) -> Vec<IndexBuild> {
        Vec::new()
    }
    /// Indexes of a collection, the `_id` index first. [`Fault::NamespaceNotFound`] if there is no collection.
    fn indexes(
        &self,
        ns: &Namespace,
    ) -> impl Future<Output = Result<Vec<IndexDefinition>, ServiceError>> + Send;
    /// Drops an index by name. [`Fault::IndexNotFound`]; [`Fault::InvalidOptions`] for the `_id` index.
    fn drop_index(&self, ns: &Namespace, name: &str)
    -> impl Future<Output = Result<(), ServiceError>> + Send;
    /// Drops all indexes but the one on `_id`, which loses its order if it was given one. [`Fault::NamespaceNotFound`]
    /// if there is no collection.
    fn drop_all_indexes(&self, ns: &Namespace) -> impl Future<Output = Result<(), ServiceError>> + Send {
        async {
            for index in self.indexes(ns).await? {
                if index.name != ID_INDEX {
                    self.drop_index(ns, &index.name).await?;
                }
            }
            Ok(())
        }
    }

    /// Inserts documents.
    fn insert(
        &self,
        ns: &Namespace,
        statement: InsertStatement,
    ) -> impl Future<Output = Result<Inserted, ServiceError>> + Send;
    /// Finds documents.
    fn find(
        &self,
        ns: &Namespace,
        query: Query,
    ) -> impl Future<Output = Result<Self::Cursor, ServiceError>> + Send;
    /// Number of documents that match (with the query's skip and limit).
    fn count(&self, ns: &Namespace, query: Query) -> impl Future<Output = Result<u64, ServiceError>> + Send;
    /// Answers aggregates over a filter from an index alone; `None` if no index covers it exactly.
    fn aggregate(
        &self,
        ns: &Namespace,
        query: &Query,
        aggregates: &[Aggregate],
    ) -> impl Future<Output = Result<Option<Document>, ServiceError>> + Send;
    /// Changes documents.
    fn update(
        &self,
        ns: &Namespace,
        statement: UpdateStatement,
    ) -> impl Future<Output = Result<Updated, ServiceError>> + Send;
    /// Removes the documents that match, or the first; how many.
    fn delete(
        &self,
        ns: &Namespace,
        statement: DeleteStatement,
    ) -> impl Future<Output = Result<u64, ServiceError>> + Send;
    /// Finds the first document in the query's order and changes or removes it. Interrupted, it ends before it changes
    /// anything.
    fn find_and_modify(
        &self,
        ns: &Namespace,
        query: Query,
        modification: Modification,
        interrupt: Interrupt,
    ) -> impl Future<Output = Result<FoundAndModified, ServiceError>> + Send;
    /// How a query would run (and, with `aggregates`, how they would be answered): index, rounds, cost,
    /// leakage.
    fn explain(
        &self,
        ns: &Namespace,
        query: Query,
        aggregates: &[Aggregate],
    ) -> impl Future<Output = Result<Explanation, ServiceError>> + Send;
}
