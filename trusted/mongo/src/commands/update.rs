//! `update`.

use super::count::number;
use super::reads;
use super::writes::{self, WriteErrors};
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_documents::filter::Filter;
use arras_documents::update::{ArrayFilters, Update};
use arras_service::interrupt::Interrupt;
use arras_service::store::{Store, UpdateStatement};
use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};

/// Changes documents, statement by statement.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.refuse(&["let"])?;
    let namespace = context.namespace(&mut arguments)?;
    let ordered = writes::ordered(&mut arguments)?;
    let sent = writes::statements(&mut arguments, "updates")?;
    arguments.finish()?;

    let total = sent.len();
    let mut errors = WriteErrors::default();
    let mut upserted = Vec::new();
    let (mut matched, mut modified) = (0_u64, 0_u64);
    for (position, fields) in sent.into_iter().enumerate() {
        if let Err(interrupted) = context.check() {
            errors.end(position, (ordered, total), interrupted)?;
            break;
        }
        let outcome = match statement(fields, context.now) {
            Ok(statement) => {
                let statement = UpdateStatement { interrupt: context.operation.interrupt(), ..statement };
                context.store().update(&namespace, statement).await.map_err(CommandError::from)
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(outcome) => {
                matched = matched.saturating_add(outcome.matched);
                modified = modified.saturating_add(outcome.modified);
                if let Some(id) = outcome.upserted {
                    upserted.push(Bson::Document(doc! { "index": number(position as u64), "_id": id }));
                }
            }
            Err(error) => errors.add(position, error),
        }
        if ordered && !errors.is_empty() {
            break;
        }
    }
    let mut reply = doc! { "n": number(matched.saturating_add(upserted.len() as u64)) };
    if !upserted.is_empty() {
        reply.insert("upserted", upserted);
    }
    reply.insert("nModified", number(modified));
    errors.attach(&mut reply);
    Ok(reply)
}

/// Reads one element of `updates`; `now` is the command's.
pub(super) fn statement(fields: Document, now: DateTime) -> Result<UpdateStatement, CommandError> {
    let mut arguments = Arguments::of_statement("update.updates", fields);
    arguments.refuse(&["c", "collation", "sort"])?;
    let hint = reads::hint(&mut arguments)?;
    let filter = match arguments.document("q")? {
        Some(filter) => Filter::parse_at(&filter, now)?,
        None => return Err(arguments.missing("q")),
    };
    let update = parse_update(arguments.take("u"), &arguments, "u")?;
    let array_filters = array_filters(&mut arguments)?;
    let multi = arguments.boolean("multi")?.unwrap_or(false);
    let upsert = arguments.boolean("upsert")?.unwrap_or(false).then(ObjectId::new);
    arguments.ignore(&["upsertSupplied"]);
    arguments.finish()?;
    if multi && update.is_replacement() {
        return Err(CommandError::failed_to_parse(
            "multi update is not supported for replacement-style update",
        ));
    }
    let interrupt = Interrupt::default();
    Ok(UpdateStatement { filter, hint, update, array_filters, multi, upsert, interrupt })
}

/// Reads an update: operators or a replacement. `$currentDate` is the time at which its statement is come to, as in MongoDB.
pub(super) fn parse_update(
    update: Option<Bson>,
    arguments: &Arguments,
    name: &str,
) -> Result<Update, CommandError> {
    match update {
        None => Err(arguments.missing(name)),
        Some(Bson::Array(_)) => Err(CommandError::unsupported(format_args!(
            "an update with an aggregation pipeline ('{name}' is an array); use update operators"
        ))),
        Some(update @ Bson::Document(_)) => Ok(Update::parse(&update)?),
        Some(_) => Err(CommandError::failed_to_parse("Update argument must be either an object or an array")),
    }
}

/// Takes `arrayFilters`.
pub(super) fn array_filters(arguments: &mut Arguments) -> Result<ArrayFilters, CommandError> {
    match arguments.documents("arrayFilters")? {
        Some(filters) => Ok(ArrayFilters::parse(&filters)?),
        None => Ok(ArrayFilters::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_says_of_which_documents() {
        for fields in
            [doc! { "u": { "x": 1 } }, doc! { "q": null, "u": { "$set": { "x": 1 } }, "multi": true }]
        {
            assert!(statement(fields.clone(), DateTime::now()).is_err(), "{fields}");
        }
        assert!(statement(doc! { "q": {}, "u": { "x": 1 } }, DateTime::now()).is_ok());
    }
}
