//! `findAndModify`.

use super::count::number;
use super::{reads, update, writes};
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_documents::filter::Filter;
use arras_documents::projection::Projection;
use arras_service::store::{Modification, Query, Store};
use bson::oid::ObjectId;
use bson::{Bson, DateTime, doc};

/// Finds the first document in an order and changes or removes it.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.refuse(&["collation", "let"])?;
    writes::ordered(&mut arguments)?;
    let namespace = context.namespace(&mut arguments)?;
    let filter = reads::filter(&mut arguments, "query", context.now)?;
    let sort = reads::sort(&mut arguments, "sort")?;
    let hint = reads::hint(&mut arguments)?;
    let sort = sort.scored_by(filter.text())?;
    let projection = projection(&mut arguments, &filter, context.now)?;
    let modification = modification(&mut arguments)?;
    arguments.finish()?;

    let removes = matches!(modification, Modification::Remove);
    let query = Query { filter: filter.clone(), sort, skip: 0, limit: Some(1), hint, allow_disk_use: true };
    context.check()?;
    let interrupt = context.operation.interrupt();
    let found = context.store().find_and_modify(&namespace, query, modification, interrupt).await?;

    let touched = found.existing || found.upserted.is_some();
    let mut last_error = doc! { "n": number(u64::from(touched)) };
    if !removes {
        last_error.insert("updatedExisting", found.existing);
    }
    if let Some(id) = found.upserted {
        last_error.insert("upserted", id);
    }
    let value = match (found.document, projection) {
        (None, _) => Bson::Null,
        (Some(document), None) => Bson::Document(document),
        (Some(document), Some(projection)) => Bson::Document(apply(&projection, &document, &filter)?),
    };
    Ok(doc! { "lastErrorObject": last_error, "value": value })
}

fn apply(
    projection: &Projection,
    document: &bson::Document,
    filter: &Filter,
) -> Result<bson::Document, CommandError> {
    Ok(projection.apply(document, Some(filter))?)
}

fn projection(
    arguments: &mut Arguments,
    filter: &Filter,
    now: DateTime,
) -> Result<Option<Projection>, CommandError> {
    let scored = |fields| Projection::parse_at(&fields, now)?.scored_by(filter.text());
    let fields = arguments.document("fields")?.map(scored).transpose()?;
    Ok(fields.filter(|fields| !fields.is_identity()))
}

fn modification(arguments: &mut Arguments) -> Result<Modification, CommandError> {
    let remove = arguments.boolean("remove")?.unwrap_or(false);
    let return_new = arguments.boolean("new")?.unwrap_or(false);
    let upsert = arguments.boolean("upsert")?.unwrap_or(false);
    let update = arguments.take("update").filter(|update| *update != Bson::Null);
    let array_filters = update::array_filters(arguments)?;
    let conflict = |text: &str| Err(CommandError::failed_to_parse(text));
    match (remove, update) {
        (true, Some(_)) => conflict("Cannot specify both an update and remove=true"),
        (true, None) if upsert => conflict("Cannot specify both upsert=true and remove=true"),
        (true, None) if return_new => conflict(
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
        ),
        (true, None) => Ok(Modification::Remove),
        (false, None) => conflict("Either an update or remove=true must be specified"),
        (false, update) => {
            let update = update::parse_update(update, arguments, "update")?;
            let upsert = upsert.then(ObjectId::new);
            Ok(Modification::Update { update, array_filters, upsert, return_new })
        }
    }
}
