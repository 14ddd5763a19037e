//! `count`.

use super::reads;
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_service::store::{Namespace, Query, Store};
use bson::{Bson, doc};

/// Reads the command.
pub(super) fn parse<S: Store>(
    context: &Context<'_, S>,
    mut arguments: Arguments,
) -> Result<(Namespace, Query), CommandError> {
    arguments.refuse(&["collation"])?;
    arguments.ignore(&["fields"]); // drivers of old sent it; counting never used it
    let namespace = context.namespace(&mut arguments)?;
    let query = Query {
        skip: arguments.unsigned("skip")?.unwrap_or(0),
        // A negative limit is the same limit, a relic of the protocol before commands.
        limit: arguments.integer("limit")?.map(i64::unsigned_abs).filter(|limit| *limit > 0),
        ..reads::matching(reads::filter(&mut arguments, "query", context.now)?, reads::hint(&mut arguments)?)
    };
    arguments.finish()?;
    Ok((namespace, query))
}

/// Counts the documents that match.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, arguments: Arguments) -> CommandResult {
    let (namespace, query) = parse(context, arguments)?;
    let count = context.deadline.read(context.store().count(&namespace, query)).await?;
    Ok(doc! { "n": number(count) })
}

/// A count in the smallest of MongoDB's integer types that holds it.
pub(super) fn number(count: u64) -> Bson {
    match i32::try_from(count) {
        Ok(count) => Bson::Int32(count),
        Err(_) => Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}
