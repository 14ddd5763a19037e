//! `currentOp` and `killOp`.

use crate::arguments::{self, Arguments};
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_documents::filter::Filter;
use arras_planner::store::Store;
use bson::{Document, doc};

/// Operations under way that match the conditions sent along.
pub(crate) async fn current<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.take("currentOp");
    arguments.ignore(&["$all", "$ownOps", "$truncateOps"]);
    let filter = Filter::parse(&arguments.rest())?;
    let mut listed: Vec<Document> = Vec::new();
    for operation in context.server.operations.list() {
        if filter.matches(&operation)? {
            listed.push(operation);
        }
    }
    Ok(doc! { "inprog": listed })
}

/// Asks an operation to end. As in MongoDB, one that has ended meanwhile is no error.
pub(crate) async fn kill<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let number = arguments.take("op").ok_or_else(|| arguments.missing("op"))?;
    arguments.ignore(&["comment"]);
    let number = arguments::whole_number(&number)
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| CommandError::type_mismatch("killOp: op must be the number of an operation"))?;
    context.server.operations.kill(number);
    Ok(doc! { "info": "attempting to kill op" })
}
