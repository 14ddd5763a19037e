//! Parsing.
use super::Expr;
use crate::QueryError;
use bson::Document;
pub(super) fn document(filter: &Document) -> Result<Expr, QueryError> {
    if filter.is_empty() {
        Ok(Expr::Always)
    } else {
        Err(QueryError::unsupported("filters"))
    }
}
