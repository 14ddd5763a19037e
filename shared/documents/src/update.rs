//! Updates.

use crate::QueryError;
use crate::filter::Filter;
use bson::{Bson, DateTime, Document};

/// A parsed update: operators, a replacement, or a pipeline.
#[derive(Clone, Debug)]
pub struct Update {}

/// Parsed `arrayFilters` of an update.
#[derive(Clone, Debug, Default)]
pub struct ArrayFilters {}

impl ArrayFilters {
    /// Reads the filters; each names one identifier.
    ///
    /// # Errors
    /// 9 `FailedToParse` for a filter without or with several identifiers, or a duplicate.
    pub fn parse(filters: &[Document]) -> Result<Self, QueryError> {
        let _ = filters;
        Ok(ArrayFilters {})
    }
}

impl Update {
    /// Reads an operator document, a replacement, or an array of pipeline stages. `$currentDate` and `$$NOW` stand
    /// for the time of this call.
    ///
    /// # Errors
    /// 9 `FailedToParse` for unknown operators; 40 for conflicting paths; others as MongoDB.
    pub fn parse(update: &Bson) -> Result<Self, QueryError> {
        Self::parse_at(update, DateTime::now())
    }

    /// [`Update::parse`] with the time given.
    ///
    /// # Errors
    /// As [`Update::parse`].
    pub fn parse_at(update: &Bson, now: DateTime) -> Result<Self, QueryError> {
        let _ = (update, now);
        Err(QueryError::unsupported("updates"))
    }

    /// True for a replacement of whole documents (which may update only one).
    pub fn is_replacement(&self) -> bool {
        false
    }

    /// The updated document; none if nothing changes. `filter` is the query's, for the positional `$`.
    ///
    /// # Errors
    /// As MongoDB: 2, 14 for operands that do not suit the stored value, 28, 40, 66 for a changed `_id`, and the
    /// limits of [`crate::limits::check_built`].
    pub fn apply(
        &self,
        document: &Document,
        filter: Option<&Filter>,
        array_filters: &ArrayFilters,
    ) -> Result<Option<Document>, QueryError> {
        let _ = (document, filter, array_filters);
        Ok(None)
    }

    /// The document an upsert inserts: the equalities of the filter, the update (with `$setOnInsert`), and a new
    /// `_id` if neither gave one.
    ///
    /// # Errors
    /// As [`Update::apply`].
    pub fn upsert_document(
        &self,
        filter: &Filter,
        array_filters: &ArrayFilters,
    ) -> Result<Document, QueryError> {
        let _ = (filter, array_filters);
        Err(QueryError::unsupported("updates"))
    }
}
