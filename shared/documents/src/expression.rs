//! The aggregation expression language.

use crate::QueryError;
use bson::{Bson, Document};

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expression {}

impl Expression {
    /// Reads an expression: a literal, a field path, an operator, or a document or array of expressions.
    ///
    /// # Errors
    /// 168 `InvalidPipelineOperator` names an unknown operator; others as MongoDB.
    pub fn parse(expression: &Bson) -> Result<Self, QueryError> {
        let _ = expression;
        Err(QueryError::unsupported("expressions"))
    }

    /// Its value for a document; none is a missing value.
    ///
    /// # Errors
    /// As MongoDB, for operands of wrong type and the like.
    pub fn evaluate(&self, document: &Document) -> Result<Option<Bson>, QueryError> {
        let _ = document;
        Ok(None)
    }

    /// The value if it is the same for every document.
    pub fn constant(&self) -> Option<&Bson> {
        None
    }

    /// The path if it is just that (`"$a.b"`).
    pub fn field_path(&self) -> Option<String> {
        None
    }

    /// The top-level fields of the document it may read; none if it may read all (`$$ROOT`).
    pub fn fields(&self) -> Option<Vec<String>> {
        None
    }
}

/// Whether a value counts as true: all but false, null, missing, undefined and zero.
pub fn truthy(value: Option<&Bson>) -> bool {
    match value {
        None | Some(Bson::Null | Bson::Undefined) => false,
        Some(Bson::Boolean(flag)) => *flag,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(Bson::Int32(number)) => *number != 0,
        Some(Bson::Int64(number)) => *number != 0,
        Some(Bson::Decimal128(number)) => !crate::decimal::Decimal::from(*number).is_zero(),
        Some(_) => true,
    }
}
