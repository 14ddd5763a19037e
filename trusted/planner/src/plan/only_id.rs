//! The one query that needs no planning: a document by its `_id`.

use arras_documents::filter::{Expr, Test};
use arras_documents::order::{self, Class};
use bson::Bson;

/// The `_id` a filter asks for, if it asks for that alone: without a sort, [`super::Planner::plan`] would read the row of
/// this `_id` and nothing else, whatever indexes there are. `None` may also be said of such a filter, not the other way
/// round.
#[must_use]
pub fn only_id(filter: &Expr) -> Option<&Bson> {
    match filter {
        Expr::Field { path, test: Test::Eq(value) } if path == "_id" => {
            match order::class(value) {
                Class::Number
                | Class::String
                | Class::Object
                | Class::Binary
                | Class::ObjectId
                | Class::Boolean
                | Class::Date
                | Class::Timestamp => Some(value),
                // Not all that is equal to these has their row, or no document may have such an `_id`.
                Class::MinKey
                | Class::Undefined
                | Class::Null
                | Class::Array
                | Class::Regex
                | Class::DbPointer
                | Class::Code
                | Class::CodeWithScope
                | Class::MaxKey => None,
            }
        }
        Expr::And(parts) => match parts.as_slice() {
            [part] => only_id(part),
            _ => None,
        },
        Expr::Always
        | Expr::Never
        | Expr::Or(_)
        | Expr::Nor(_)
        | Expr::Field { .. }
        | Expr::Expression(_)
        | Expr::Text(_) => None,
    }
}
