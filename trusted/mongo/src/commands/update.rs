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
    // All are read before the first is done: a command that is malformed changes nothing.
    let sent = sent.into_iter().map(Sent::read).collect::<Result<Vec<_>, _>>()?;

    let total = sent.len();
    let mut errors = WriteErrors::default();
    let mut upserted = Vec::new();
    let (mut matched, mut modified) = (0_u64, 0_u64);
    for (position, sent) in sent.into_iter().enumerate() {
        if let Err(interrupted) = context.check() {
            errors.end(position, (ordered, total), interrupted)?;
            break;
        }
        let outcome = match sent.statement(context.now) {
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

/// One element of `updates`: which fields it has, and of what types. What its filter and its update say is not looked at.
struct Sent {
    filter: Document,
    update: Bson,
    array_filters: Option<Vec<Document>>,
    hint: Option<Bson>,
    multi: bool,
    upsert: bool,
}

impl Sent {
    fn read(fields: Document) -> Result<Self, CommandError> {
        let mut arguments = Arguments::of_statement("update.updates", fields);
        arguments.refuse(&["c", "collation", "sort"])?;
        let hint = reads::hint(&mut arguments)?;
        let filter = arguments.document("q")?.ok_or_else(|| arguments.missing("q"))?;
        let update = update_argument(arguments.take("u"), &arguments, "u")?;
        let array_filters = arguments.documents("arrayFilters")?;
        let multi = arguments.boolean("multi")?.unwrap_or(false);
        let upsert = arguments.boolean("upsert")?.unwrap_or(false);
        arguments.ignore(&["upsertSupplied"]);
        arguments.finish()?;
        Ok(Self { filter, update, array_filters, hint, multi, upsert })
    }

    /// What it says; `now` is the command's.
    fn statement(self, now: DateTime) -> Result<UpdateStatement, CommandError> {
        let Self { filter, update, array_filters, hint, multi, upsert } = self;
        let filter = Filter::parse_at(&filter, now)?;
        let update = Update::parse(&update)?;
        let array_filters = parsed_array_filters(array_filters)?;
        let upsert = upsert.then(ObjectId::new);
        if multi && update.is_replacement() {
            return Err(CommandError::failed_to_parse(
                "multi update is not supported for replacement-style update",
            ));
        }
        let interrupt = Interrupt::default();
        Ok(UpdateStatement { filter, hint, update, array_filters, multi, upsert, interrupt })
    }
}

/// Reads one element of `updates`; `now` is the command's.
pub(super) fn statement(fields: Document, now: DateTime) -> Result<UpdateStatement, CommandError> {
    Sent::read(fields)?.statement(now)
}

/// Reads an update: operators or a replacement. `$currentDate` is the time at which its statement is come to, as in MongoDB.
pub(super) fn parse_update(
    update: Option<Bson>,
    arguments: &Arguments,
    name: &str,
) -> Result<Update, CommandError> {
    Ok(Update::parse(&update_argument(update, arguments, name)?)?)
}

/// An update that is a document.
fn update_argument(update: Option<Bson>, arguments: &Arguments, name: &str) -> Result<Bson, CommandError> {
    match update {
        None => Err(arguments.missing(name)),
        Some(Bson::Array(_)) => Err(CommandError::unsupported(format_args!(
            "an update with an aggregation pipeline ('{name}' is an array); use update operators"
        ))),
        Some(update @ Bson::Document(_)) => Ok(update),
        Some(_) => Err(CommandError::failed_to_parse("Update argument must be either an object or an array")),
    }
}

/// Takes `arrayFilters`.
pub(super) fn array_filters(arguments: &mut Arguments) -> Result<ArrayFilters, CommandError> {
    parsed_array_filters(arguments.documents("arrayFilters")?)
}

fn parsed_array_filters(filters: Option<Vec<Document>>) -> Result<ArrayFilters, CommandError> {
    match filters {
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
