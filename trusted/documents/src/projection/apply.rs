//! Application of projections.

use super::{Action, Field, Mode, Projection};
use crate::error::location;
use crate::expression::part;
use crate::filter::{self, Filter};
use crate::pipeline::MEMORY_BYTES_MAX;
use crate::text::{self, TextCondition};
use crate::{QueryError, limits};
use bson::{Bson, Document};
use std::cell::Cell;

/// What the fields of a projection are computed from.
struct Source<'s> {
    mode: Mode,
    root: &'s Document,
    filter: Option<&'s Filter>,
    /// Bytes of what was computed for elements of arrays, which is computed anew for each.
    computed: Cell<usize>,
}

pub(super) fn project(
    projection: &Projection,
    document: &Document,
    filter: Option<&Filter>,
) -> Result<Document, QueryError> {
    let source = Source { mode: projection.mode, root: document, filter, computed: Cell::new(0) };
    source.document(document, &projection.fields)
}

impl Source<'_> {
    fn document(&self, document: &Document, fields: &[Field]) -> Result<Document, QueryError> {
        let mut out = Document::new();
        for (name, value) in document {
            match fields.iter().find(|field| field.name == *name) {
                None if self.mode == Mode::Include => {}
                None => {
                    out.insert(name.clone(), value.clone());
                }
                Some(field) => {
                    if let Some(value) = self.present(value, &field.action)? {
                        out.insert(name.clone(), value);
                    }
                }
            }
        }
        for field in fields {
            // `$addFields` has replaced what was there in its place.
            if self.mode == Mode::Add && document.contains_key(&field.name) {
                continue;
            }
            let value = match &field.action {
                Action::Compute(expression) => expression.evaluate(self.root)?,
                Action::TextScore(condition) => self.score(condition.as_ref())?,
                Action::Nested(children) if computes(children) && !document.contains_key(&field.name) => {
                    Some(Bson::Document(self.document(&Document::new(), children)?))
                }
                _ => None,
            };
            if let Some(value) = value {
                out.insert(field.name.clone(), value);
            }
        }
        Ok(out)
    }

    /// What a field that is there becomes.
    fn present(&self, value: &Bson, action: &Action) -> Result<Option<Bson>, QueryError> {
        Ok(match action {
            Action::Include => Some(value.clone()),
            Action::Exclude => None,
            Action::Nested(children) => self.nested(value, children)?,
            Action::Compute(expression) if self.mode == Mode::Add => expression.evaluate(self.root)?,
            Action::TextScore(condition) if self.mode == Mode::Add => self.score(condition.as_ref())?,
            // Computed fields come behind the included ones.
            Action::Compute(_) | Action::TextScore(_) => None,
            Action::Slice { position, count } => match value {
                Bson::Array(array) => Some(Bson::Array(part(array, *position, *count).to_vec())),
                other => Some(other.clone()),
            },
            Action::ElemMatch(test) => match value {
                Bson::Array(array) => filter::element_offset(test, array)?
                    .and_then(|offset| array.get(offset))
                    .map(|element| Bson::Array(vec![element.clone()])),
                _ => None,
            },
            Action::Positional(path) => match value {
                Bson::Array(array) => {
                    let offset = self.filter.and_then(|filter| filter.array_offset(self.root, path));
                    let element = offset.and_then(|offset| array.get(offset)).ok_or_else(|| {
                        location!(
                            51246,
                            "Executor error during find command :: caused by :: positional operator '.$' couldn't \
                             find a matching element in the array"
                        )
                    })?;
                    Some(Bson::Array(vec![element.clone()]))
                }
                other => Some(other.clone()),
            },
        })
    }

    /// The text score; none of a document that does not match, as a pipeline may have made one.
    fn score(&self, condition: Option<&TextCondition>) -> Result<Option<Bson>, QueryError> {
        let condition = condition.ok_or_else(text::no_score)?;
        Ok(condition.score(self.root)?.map(Bson::Double))
    }

    /// Counts what was made of an element.
    fn count(&self, made: &Bson) -> Result<(), QueryError> {
        let computed = self.computed.get().saturating_add(limits::value_bytes(made, limits::DEPTH_MAX)?);
        self.computed.set(computed);
        if computed > MEMORY_BYTES_MAX {
            let text = format!("a projection computed more than {MEMORY_BYTES_MAX} bytes for one document");
            return Err(QueryError::memory(text));
        }
        Ok(())
    }

    fn nested(&self, value: &Bson, children: &[Field]) -> Result<Option<Bson>, QueryError> {
        Ok(match value {
            Bson::Document(inner) => Some(Bson::Document(self.document(inner, children)?)),
            Bson::Array(array) => {
                let mut kept = Vec::with_capacity(array.len());
                let computes = computes(children);
                for element in array {
                    let made = self.nested(element, children)?;
                    if let (true, Some(made)) = (computes, &made) {
                        self.count(made)?;
                    }
                    kept.extend(made);
                }
                Some(Bson::Array(kept))
            }
            // A computed field below makes a document of what was none.
            _ if computes(children) => Some(Bson::Document(self.document(&Document::new(), children)?)),
            other => (self.mode != Mode::Include).then(|| other.clone()),
        })
    }
}

fn computes(fields: &[Field]) -> bool {
    fields.iter().any(|field| match &field.action {
        Action::Compute(_) | Action::TextScore(_) => true,
        Action::Nested(children) => computes(children),
        _ => false,
    })
}
