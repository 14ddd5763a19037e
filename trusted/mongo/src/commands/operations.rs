//! `currentOp` and `killOp`.

use crate::arguments::{self, Arguments};
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_documents::filter::Filter;
use arras_service::store::Store;
use bson::{Document, doc};

/// Operations under way that match the conditions sent along.
pub(crate) async fn current<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.take("currentOp");
    arguments.ignore(&["$all", "$ownOps", "$truncateOps"]);
    let filter = Filter::parse_at(&arguments.rest(), context.now)?;
    let mut listed: Vec<Document> = Vec::new();
    let builds = context.store().index_builds();
    for mut operation in context.server.operations.list() {
        // How far an index build is, as MongoDB says it.
        let builds_index = operation.get_document("command").is_ok_and(|c| c.contains_key("createIndexes"));
        let ns = operation.get_str("ns").unwrap_or_default();
        let build = builds.iter().find(|build| {
            builds_index && ns.split_once('.') == Some((&*build.ns.database, &*build.ns.collection))
        });
        if let Some(build) = build {
            let documents = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            operation.insert("msg", format!("Index Build: {} of {} documents", build.done, build.total));
            operation
                .insert("progress", doc! { "done": documents(build.done), "total": documents(build.total) });
        }
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
