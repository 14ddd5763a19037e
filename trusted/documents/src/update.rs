//! Updates: operators, replacements, pipelines.

use crate::filter::{Expr, Filter, Test};
use crate::limits::Measured;
use crate::pipeline::Pipeline;
use crate::{QueryError, clock, limits, order, path, timestamps};
use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document};

mod array_filters;
mod arrays;
mod change;
mod parse;
mod resolve;

pub use array_filters::ArrayFilters;
use change::Change;

/// A parsed update: operators, a replacement, or a pipeline.
#[derive(Clone, Debug)]
pub struct Update {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Operators(Vec<Change>),
    Pipeline(Pipeline),
    Replacement(Document),
}

/// What the changes of an update may refer to.
struct Context<'c> {
    /// The document as it was.
    original: &'c Document,
    filter: Option<&'c Filter>,
    array_filters: &'c ArrayFilters,
    inserting: bool,
}

impl Update {
    /// Reads an operator document, a replacement, or an array of pipeline stages. `$currentDate`, `$$NOW` and the empty
    /// timestamps of a replacement stand for the time of this call.
    ///
    /// # Errors
    /// 9 `FailedToParse` for unknown operators; 40 for conflicting paths; others as MongoDB.
    pub fn parse(update: &Bson) -> Result<Self, QueryError> {
        Self::parse_at(update, clock::now())
    }

    /// [`Update::parse`] with the time given.
    ///
    /// # Errors
    /// As [`Update::parse`].
    pub fn parse_at(update: &Bson, now: DateTime) -> Result<Self, QueryError> {
        limits::value_bytes(update, limits::DEPTH_MAX)?;
        let kind = match update {
            Bson::Document(operators)
                if operators.keys().next().is_some_and(|name| name.starts_with('$')) =>
            {
                Kind::Operators(parse::changes(operators, now)?)
            }
            Bson::Document(replacement) => {
                parse::check_replacement(replacement)?;
                let mut replacement = replacement.clone();
                timestamps::fill_empty(&mut replacement, now);
                Kind::Replacement(replacement)
            }
            Bson::Array(stages) => Kind::Pipeline(parse::pipeline(stages, now)?),
            _ => {
                return Err(QueryError::failed_to_parse(
                    "Update argument must be either an object or an array",
                ));
            }
        };
        Ok(Update { kind })
    }

    /// True for a replacement of whole documents (which may update only one).
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    /// True for a pipeline.
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
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
    ) -> Result<Option<Measured>, QueryError> {
        let context = Context { original: document, filter, array_filters, inserting: false };
        let updated = Measured::new(self.updated(document, &context)?)?;
        Ok((!order::identical_documents(document, &updated)).then_some(updated))
    }

    /// The document an upsert inserts: the equalities of the filter, the update (with `$setOnInsert`), and `new_id` as its
    /// `_id` if neither gave one.
    ///
    /// # Errors
    /// As [`Update::apply`]; 54 `NotSingleValueField` if the filter gives a field two values.
    pub fn upsert_document(
        &self,
        filter: &Filter,
        array_filters: &ArrayFilters,
        new_id: ObjectId,
    ) -> Result<Measured, QueryError> {
        let mut base = Document::new();
        let only_id = self.is_replacement();
        equalities(filter.expr(), only_id, &mut base)?;
        let context = Context { original: &base, filter: None, array_filters, inserting: true };
        let mut updated = self.updated(&base, &context)?;
        let id = updated.remove("_id").unwrap_or(Bson::ObjectId(new_id));
        storable_id(&id)?;
        Measured::new(with_id_first(Some(id), updated))
    }

    fn updated(&self, document: &Document, context: &Context<'_>) -> Result<Document, QueryError> {
        match &self.kind {
            Kind::Operators(changes) => {
                context.array_filters.check_used(changes)?;
                let mut updated = document.clone();
                change::apply_all(changes, &mut updated, context)?;
                check_id(document.get("_id"), updated.get("_id"), context)?;
                Ok(updated)
            }
            Kind::Replacement(replacement) => keeping_id(document, replacement.clone(), context),
            Kind::Pipeline(pipeline) => {
                let result = pipeline.run([document.clone()])?.pop().unwrap_or_default();
                keeping_id(document, result, context)
            }
        }
    }
}

/// A new version of a document under its old `_id`, which comes first.
fn keeping_id(old: &Document, mut new: Document, context: &Context<'_>) -> Result<Document, QueryError> {
    let id = match (old.get("_id"), new.get("_id")) {
        (Some(id), None) => Some(id.clone()),
        (before, after) => {
            if let (Some(before), Some(after)) = (before, after)
                && !order::equal(before, after)
            {
                return Err(QueryError::immutable(format!(
                    "After applying the update, the (immutable) field '_id' was found to have been altered to \
                     _id: {after}"
                )));
            }
            if before.is_none() {
                check_id(before, after, context)?;
            }
            // An equal number of another type changes nothing: the `_id` stays as it is stored.
            before.or(after).cloned()
        }
    };
    new.remove("_id");
    Ok(with_id_first(id, new))
}

fn with_id_first(id: Option<Bson>, rest: Document) -> Document {
    let mut document = Document::new();
    if let Some(id) = id {
        document.insert("_id", id);
    }
    document.extend(rest);
    document
}

/// That a value may be an `_id`, wherever it is from.
fn storable_id(id: &Bson) -> Result<(), QueryError> {
    let wrong = |message: String| Err(QueryError::new(53, "InvalidIdField", message));
    match id {
        Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined => {
            wrong(format!("The '_id' value cannot be of type {}", order::type_name(id)))
        }
        Bson::Document(fields) => match fields.keys().find(|name| name.starts_with('$')) {
            Some(name) => Err(QueryError::new(
                52,
                "DollarPrefixedFieldName",
                format!("_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."),
            )),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_id(before: Option<&Bson>, after: Option<&Bson>, context: &Context<'_>) -> Result<(), QueryError> {
    match (before, after) {
        (Some(before), Some(after)) if order::identical(before, after) => Ok(()),
        (None, None) => Ok(()),
        (None, Some(after)) if context.inserting => storable_id(after),
        _ => Err(QueryError::immutable(
            "Performing an update on the path '_id' would modify the immutable field '_id'",
        )),
    }
}

/// Collects what the filter says a matching document equals.
fn equalities(expr: &Expr, only_id: bool, base: &mut Document) -> Result<(), QueryError> {
    match expr {
        Expr::And(inner) => inner.iter().try_for_each(|expr| equalities(expr, only_id, base)),
        Expr::Or(inner) => match inner.as_slice() {
            [single] => equalities(single, only_id, base),
            _ => Ok(()),
        },
        Expr::Field { path, test } => {
            let value = match test {
                Test::Eq(value) => value,
                Test::In(values) => match &**values {
                    [single] => single,
                    _ => return Ok(()),
                },
                Test::All(tests) => match tests.as_slice() {
                    [Test::Eq(single)] => single,
                    _ => return Ok(()),
                },
                _ => return Ok(()),
            };
            if only_id && path != "_id" {
                return Ok(());
            }
            let components: Vec<&str> = path.split('.').collect();
            if path::exact(base, &components).is_some() {
                return Err(QueryError::new(
                    54,
                    "NotSingleValueField",
                    format!("cannot infer query fields to set, path '{path}' is matched twice"),
                ));
            }
            path::set(base, &components, value.clone())
        }
        Expr::Always | Expr::Never | Expr::Nor(_) | Expr::Expression(_) | Expr::Text(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
