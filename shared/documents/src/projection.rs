//! Projections.

use crate::QueryError;
use crate::filter::Filter;
use bson::Document;

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {}

impl Projection {
    /// Reads the projection of a find: inclusion or exclusion, `$slice`, `$elemMatch`, positional `$`, expressions.
    ///
    /// # Errors
    /// 31253/31254 for mixed inclusion and exclusion, 31249/31250 for paths that collide, others as MongoDB.
    pub fn parse(specification: &Document) -> Result<Self, QueryError> {
        let _ = specification;
        Err(QueryError::unsupported("projection"))
    }

    /// Reads the argument of a `$project` stage.
    ///
    /// # Errors
    /// As [`Projection::parse`].
    pub fn parse_stage(specification: &Document) -> Result<Self, QueryError> {
        let _ = specification;
        Err(QueryError::unsupported("projection"))
    }

    /// True if every document is left as it is.
    pub fn is_identity(&self) -> bool {
        false
    }

    /// The top-level fields of a document it needs; none if it needs all.
    pub fn fields(&self) -> Option<Vec<String>> {
        None
    }

    /// The projected document. `filter` is the query's, for the positional `$`.
    ///
    /// # Errors
    /// Those of its expressions; 51246 for a positional `$` that matched nothing.
    pub fn apply(&self, document: &Document, filter: Option<&Filter>) -> Result<Document, QueryError> {
        let _ = filter;
        Ok(document.clone())
    }
}
