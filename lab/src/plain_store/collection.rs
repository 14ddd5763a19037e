//! One collection in memory.

use super::store_error;
use arras_documents::filter::{Expr, Filter, Test};
use arras_documents::shown::shown_document;
use arras_documents::update::{ArrayFilters, Update};
use arras_documents::{limits, order, path};
use arras_service::examined;
use arras_service::store::{
    FoundAndModified, IndexDefinition, Modification, Query, UpdateStatement, Updated,
};
use arras_service::{Fault, ServiceError};
use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Name of the index every collection has.
const ID_INDEX: &str = "_id_";

/// Documents by a number that counts insertions, and their indexes.
#[derive(Debug)]
pub(super) struct Collection {
    /// `database.collection`, for error texts.
    name: String,
    documents: BTreeMap<u64, Document>,
    next: u64,
    /// The one on `_id` first.
    indexes: Vec<Index>,
}

#[derive(Debug)]
struct Index {
    request: IndexDefinition,
    /// For a unique index: which document holds a key.
    holders: HashMap<Vec<u8>, u64>,
}

impl Collection {
    pub(super) fn new(name: String) -> Self {
        let request = IndexDefinition {
            name: ID_INDEX.to_owned(),
            key: doc! { "_id": 1 },
            unique: true,
            sparse: false,
            options: Document::new(),
        };
        let id_index = Index { request, holders: HashMap::new() };
        Self { name, documents: BTreeMap::new(), next: 0, indexes: vec![id_index] }
    }

    pub(super) fn document_count(&self) -> u64 {
        self.documents.len() as u64
    }

    pub(super) fn indexes(&self) -> Vec<IndexDefinition> {
        self.indexes.iter().map(|index| index.request.clone()).collect()
    }

    pub(super) fn create_index(&mut self, request: IndexDefinition) -> Result<(), ServiceError> {
        if let Some((path, kind)) = request.key.iter().find(|(_, kind)| matches!(kind, Bson::String(_))) {
            let text = format!("index kind {kind} on '{path}' is not supported");
            return Err(store_error(Fault::CannotCreateIndex, text));
        }
        if self.already_exists(&request)? {
            return Ok(());
        }
        let mut index = Index { request, holders: HashMap::new() };
        for (number, document) in &self.documents {
            for (key, values) in index.unique_keys(document)? {
                if index.holders.insert(key, *number).is_some() {
                    return Err(index.duplicate(&self.name, values));
                }
            }
        }
        self.indexes.push(index);
        Ok(())
    }

    /// Whether an identical index exists; an error if one exists that is nearly so.
    pub(super) fn already_exists(&self, request: &IndexDefinition) -> Result<bool, ServiceError> {
        if order::compare_documents(&request.key, &doc! { "_id": 1 }).is_eq() {
            return Ok(true);
        }
        let there: Vec<_> = self.indexes.iter().map(|index| &index.request).collect();
        Ok(request.found_among(&there)?.is_some())
    }

    pub(super) fn drop_index(&mut self, name: &str) -> Result<(), ServiceError> {
        if name == ID_INDEX {
            return Err(store_error(Fault::InvalidOptions, "cannot drop _id index"));
        }
        let position = self.indexes.iter().position(|index| index.request.name == name);
        let position = position.ok_or_else(|| {
            store_error(Fault::IndexNotFound, format!("index not found with name [{name}]"))
        })?;
        self.indexes.remove(position);
        Ok(())
    }

    pub(super) fn insert(&mut self, document: Document) -> Result<(), ServiceError> {
        limits::check_built(&document)?;
        let number = self.next;
        self.put(number, document)?;
        self.next += 1;
        Ok(())
    }

    /// Stores a document under a number, in place of the one there, or changes nothing.
    fn put(&mut self, number: u64, document: Document) -> Result<(), ServiceError> {
        let mut keys = Vec::with_capacity(self.indexes.len());
        for index in &self.indexes {
            let own = index.unique_keys(&document)?;
            let taken = own.iter().filter(|(key, _)| index.holders.get(key).is_some_and(|by| *by != number));
            if let Some((_, values)) = taken.min_by(|left, right| index.in_order(&left.1, &right.1)) {
                return Err(index.duplicate(&self.name, values.clone()));
            }
            keys.push(own);
        }
        self.remove(number);
        for (index, own) in self.indexes.iter_mut().zip(keys) {
            index.holders.extend(own.into_iter().map(|(key, _)| (key, number)));
        }
        self.documents.insert(number, document);
        Ok(())
    }

    fn remove(&mut self, number: u64) -> Option<Document> {
        let document = self.documents.remove(&number)?;
        for index in &mut self.indexes {
            // Keys of a stored document could be computed when it was stored.
            for (key, _) in index.unique_keys(&document).unwrap_or_default() {
                index.holders.remove(&key);
            }
        }
        Some(document)
    }

    /// Numbers of the documents a query means, in its order.
    fn select(&self, query: &Query) -> Result<Vec<u64>, ServiceError> {
        self.check_hint(query.hint.as_ref())?;
        let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
        let limit = query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        if query.sort.is_empty() {
            return self.matching(&query.filter, skip.saturating_add(limit)).map(|mut numbers| {
                numbers.drain(..skip.min(numbers.len()));
                numbers
            });
        }
        let mut keyed = Vec::new();
        for number in self.matching(&query.filter, usize::MAX)? {
            if let Some(document) = self.documents.get(&number) {
                keyed.push((query.sort.values(document)?, number));
            }
        }
        keyed.sort_by(|left, right| {
            let order = query.sort.compare_values(&left.0, &right.0);
            order.then_with(|| query.sort.compare_places(left.1, right.1))
        });
        Ok(keyed.into_iter().map(|(_, number)| number).skip(skip).take(limit).collect())
    }

    /// Numbers of the first `count_max` documents that match, in natural order.
    fn matching(&self, filter: &Filter, count_max: usize) -> Result<Vec<u64>, ServiceError> {
        if let Some(id) = id_wanted(filter) {
            let holders = self.indexes.first().map(|index| &index.holders);
            let number = holders.and_then(|holders| holders.get(&key_of(&[Some(id)])));
            examined::documents(number.iter().len());
            return Ok(number.copied().into_iter().take(count_max).collect());
        }
        let mut numbers = Vec::new();
        for (number, document) in &self.documents {
            if numbers.len() >= count_max {
                break;
            }
            examined::documents(1);
            if filter.matches(document)? {
                numbers.push(*number);
            }
        }
        Ok(numbers)
    }

    fn check_hint(&self, hint: Option<&Bson>) -> Result<(), ServiceError> {
        let known = |index: &Index| match hint {
            None => true,
            Some(Bson::String(name)) => index.request.name == *name,
            Some(Bson::Document(key)) => order::compare_documents(&index.request.key, key).is_eq(),
            Some(_) => false,
        };
        if self.indexes.iter().any(known) {
            return Ok(());
        }
        Err(store_error(Fault::BadValue, "hint provided does not correspond to an existing index"))
    }

    pub(super) fn find(&self, query: &Query) -> Result<Vec<Document>, ServiceError> {
        let numbers = self.select(query)?;
        Ok(numbers.iter().filter_map(|number| self.documents.get(number).cloned()).collect())
    }

    pub(super) fn count(&self, query: &Query) -> Result<u64, ServiceError> {
        Ok(self.select(query)?.len() as u64)
    }

    pub(super) fn delete(&mut self, filter: &Filter, multi: bool) -> Result<u64, ServiceError> {
        let numbers = self.matching(filter, if multi { usize::MAX } else { 1 })?;
        for number in &numbers {
            self.remove(*number);
        }
        Ok(numbers.len() as u64)
    }

    pub(super) fn update(&mut self, statement: &UpdateStatement) -> Result<Updated, ServiceError> {
        let UpdateStatement { filter, update, array_filters, multi, upsert, .. } = statement;
        let numbers = self.matching(filter, if *multi { usize::MAX } else { 1 })?;
        if numbers.is_empty()
            && let Some(new_id) = *upsert
        {
            let id = self.upsert(filter, (update, new_id), array_filters)?;
            return Ok(Updated { upserted: Some(id), ..Updated::default() });
        }
        let mut updated = Updated::default();
        for number in numbers {
            updated.matched += 1;
            updated.modified += u64::from(self.change(number, filter, update, array_filters)?);
        }
        Ok(updated)
    }

    /// Applies an update to one document; whether it is different now.
    fn change(
        &mut self,
        number: u64,
        filter: &Filter,
        update: &Update,
        array_filters: &ArrayFilters,
    ) -> Result<bool, ServiceError> {
        let Some(document) = self.documents.get(&number) else {
            return Ok(false);
        };
        match update.apply(document, Some(filter), array_filters)? {
            Some(changed) => self.put(number, changed.into_document()).map(|()| true),
            None => Ok(false),
        }
    }

    fn upsert(
        &mut self,
        filter: &Filter,
        (update, new_id): (&Update, ObjectId),
        array_filters: &ArrayFilters,
    ) -> Result<Bson, ServiceError> {
        let document = update.upsert_document(filter, array_filters, new_id)?.into_document();
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        self.insert(document)?;
        Ok(id)
    }

    pub(super) fn find_and_modify(
        &mut self,
        query: &Query,
        modification: Modification,
    ) -> Result<FoundAndModified, ServiceError> {
        let number = self.select(&Query { limit: Some(1), ..query.clone() })?.first().copied();
        match (number, modification) {
            (Some(number), Modification::Remove) => {
                Ok(FoundAndModified { document: self.remove(number), existing: true, upserted: None })
            }
            (Some(number), Modification::Update { update, array_filters, return_new, .. }) => {
                let before = self.documents.get(&number).cloned();
                self.change(number, &query.filter, &update, &array_filters)?;
                let document = if return_new { self.documents.get(&number).cloned() } else { before };
                Ok(FoundAndModified { document, existing: true, upserted: None })
            }
            (None, Modification::Update { update, array_filters, upsert: Some(new_id), return_new }) => {
                let id = self.upsert(&query.filter, (&update, new_id), &array_filters)?;
                let inserted = self.documents.last_key_value().map(|(_, document)| document.clone());
                let document = inserted.filter(|_| return_new);
                Ok(FoundAndModified { document, existing: false, upserted: Some(id) })
            }
            (None, _) => Ok(FoundAndModified::default()),
        }
    }
}

/// What a document holds in a unique index: bytes that identify the values, and the values.
type UniqueKey = (Vec<u8>, Vec<Bson>);

impl Index {
    /// The keys a document holds in a unique index, each with the values it is made of.
    fn unique_keys(&self, document: &Document) -> Result<Vec<UniqueKey>, ServiceError> {
        if !self.request.unique {
            return Ok(Vec::new());
        }
        let mut tuples: Vec<Vec<Option<&Bson>>> = vec![Vec::new()];
        for (path, _) in &self.request.key {
            let values = index_values(document, path);
            if tuples.len() > 1 && values.len() > 1 {
                // MongoDB pairs arrays of one parent and refuses others; here both are refused.
                let text = format!("cannot index parallel arrays: '{path}' and another");
                return Err(store_error(Fault::ParallelArrays, text));
            }
            let mut longer = Vec::with_capacity(tuples.len() * values.len());
            for tuple in &tuples {
                longer.extend(values.iter().map(|value| [tuple.as_slice(), &[*value]].concat()));
            }
            tuples = longer;
        }
        if self.request.sparse {
            tuples.retain(|tuple| tuple.iter().any(Option::is_some));
        }
        let owned =
            |tuple: Vec<Option<&Bson>>| tuple.into_iter().map(|v| v.cloned().unwrap_or(Bson::Null)).collect();
        Ok(tuples.into_iter().map(|tuple| (key_of(&tuple), owned(tuple))).collect())
    }

    /// How the values of two keys lie in it.
    fn in_order(&self, left: &[Bson], right: &[Bson]) -> Ordering {
        let pairs = left.iter().zip(right).zip(self.request.key.values());
        let compared = pairs.map(|((left, right), direction)| {
            let ordering = order::compare(left, right);
            if order::compare(direction, &Bson::Int32(0)).is_lt() { ordering.reverse() } else { ordering }
        });
        compared.fold(Ordering::Equal, Ordering::then)
    }

    fn duplicate(&self, collection: &str, values: Vec<Bson>) -> ServiceError {
        let named: Document = self.request.key.keys().cloned().zip(values).collect();
        let shown = shown_document(&named);
        let text = format!(
            "E11000 duplicate key error collection: {collection} index: {} dup key: {shown}",
            self.request.name
        );
        let details = doc! { "keyPattern": self.request.key.clone(), "keyValue": named };
        ServiceError { details: Some(Box::new(details)), ..store_error(Fault::DuplicateKey, text) }
    }
}

/// The different values of a document at a path, as an index sees them; `None`: missing.
fn index_values<'d>(document: &'d Document, path: &str) -> Vec<Option<&'d Bson>> {
    let mut seen = BTreeSet::new();
    let mut values = Vec::new();
    path::visit_index_values(document, path, &mut |value| {
        if seen.insert(key_of(&[value])) {
            values.push(value);
        }
    });
    values
}

/// Bytes that are equal for equal tuples and no others.
fn key_of(tuple: &[Option<&Bson>]) -> Vec<u8> {
    let parts: Vec<Vec<u8>> =
        tuple.iter().map(|value| order::canonical(value.unwrap_or(&Bson::Null))).collect();
    let mut key = Vec::new();
    for part in parts {
        key.extend_from_slice(&(part.len() as u64).to_le_bytes());
        key.extend_from_slice(&part);
    }
    key
}

/// The `_id` a filter asks for, if that is all it asks.
fn id_wanted(filter: &Filter) -> Option<&Bson> {
    match filter.expr() {
        Expr::Field { path, test: Test::Eq(id) } if path == "_id" => match id {
            Bson::Array(_) | Bson::RegularExpression(_) => None,
            id => Some(id),
        },
        _ => None,
    }
}
