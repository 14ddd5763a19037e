//! `insert`.

use super::count::number;
use super::writes::{self, WriteErrors};
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_documents::limits::Measured;
use arras_documents::timestamps;
use arras_service::store::{InsertStatement, Store};
use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};

/// Inserts documents.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let namespace = context.namespace(&mut arguments)?;
    let ordered = writes::ordered(&mut arguments)?;
    let sent = writes::statements(&mut arguments, "documents")?;
    arguments.finish()?;

    let mut errors = WriteErrors::default();
    let mut documents = Vec::with_capacity(sent.len());
    // Position in the request of each document that is passed on.
    let mut positions = Vec::with_capacity(sent.len());
    for (position, document) in sent.into_iter().enumerate() {
        match prepare(document, context.now) {
            Ok(document) => {
                documents.push(document);
                positions.push(position);
            }
            Err(error) => {
                errors.add(position, error);
                if ordered {
                    break;
                }
            }
        }
    }
    let mut count = 0;
    if !documents.is_empty() {
        let interrupt = context.operation.interrupt();
        let statement = InsertStatement { documents, ordered, interrupt };
        let inserted = context.store().insert(&namespace, statement).await?;
        count = inserted.count;
        if ordered && !inserted.failures.is_empty() {
            // What prepare() refused comes after the document the store stopped at: it was never reached.
            errors = WriteErrors::default();
        }
        for failure in inserted.failures {
            let position = positions.get(failure.position).copied().unwrap_or(failure.position);
            errors.add(position, failure.error.into());
        }
    }
    let mut reply = doc! { "n": number(count) };
    errors.attach(&mut reply);
    Ok(reply)
}

/// A document as it is stored: checked, with an `_id`, and that first.
fn prepare(mut document: Document, now: DateTime) -> Result<Measured, CommandError> {
    let id = match document.get("_id") {
        Some(id) => {
            check_id(id)?;
            id.clone()
        }
        None => Bson::ObjectId(ObjectId::new()),
    };
    if document.keys().next().map(String::as_str) != Some("_id") {
        let mut first = doc! { "_id": id };
        document.remove("_id");
        first.extend(document);
        document = first;
    }
    timestamps::fill_empty(&mut document, now);
    Ok(Measured::new(document)?)
}

fn check_id(id: &Bson) -> Result<(), CommandError> {
    let kind = match id {
        Bson::Array(_) => "an array",
        Bson::RegularExpression(_) => "a regex",
        Bson::Undefined => "undefined",
        Bson::Document(fields) => {
            return match fields.keys().find(|name| name.starts_with('$')) {
                None => Ok(()),
                Some(name) => Err(CommandError::new(
                    52,
                    "DollarPrefixedFieldName",
                    format!(
                        "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."
                    ),
                )),
            };
        }
        _ => return Ok(()),
    };
    Err(CommandError::bad_value(format!("can't use {kind} for _id")))
}
