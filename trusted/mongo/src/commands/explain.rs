//! `explain`: the plan, its cost and what it would leak, without running it.

use super::{aggregate, count, delete, distinct, find, reads, update};
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_planner::explain::Explanation;
use arras_planner::store::{Aggregate, Namespace, Query, Store};
use bson::{Document, doc};

/// Explains the command inside. The verbosity changes nothing: nothing is run.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let command = arguments.document("explain")?.ok_or_else(|| arguments.missing("explain"))?;
    if let Some(verbosity) = arguments.string("verbosity")?
        && !matches!(verbosity.as_str(), "queryPlanner" | "executionStats" | "allPlansExecution")
    {
        return Err(CommandError::bad_value(format!("unknown verbosity '{verbosity}'")));
    }
    arguments.finish()?;
    let name = command.keys().next().cloned().unwrap_or_default();
    let (name, _) = context.server.registry.find(&name).ok_or_else(|| {
        CommandError::new(59, "CommandNotFound", format!("Explain failed due to unknown command: {name}"))
    })?;
    let (namespace, query, aggregates) = target(context, Arguments::new(name, command.clone(), Vec::new()))?;
    let mut reply = explanation(context, &namespace, query, &aggregates).await?;
    reply.insert("command", command);
    Ok(reply)
}

/// Explains an `aggregate` that said `explain: true`.
pub(super) async fn aggregation<S: Store>(
    context: &Context<'_, S>,
    aggregation: aggregate::Aggregation,
) -> CommandResult {
    let aggregates = aggregation.aggregates();
    explanation(context, &aggregation.namespace, aggregation.query, &aggregates).await
}

/// The read a command begins with.
fn target<S: Store>(
    context: &Context<'_, S>,
    mut arguments: Arguments,
) -> Result<(Namespace, Query, Vec<Aggregate>), CommandError> {
    let plain = |(namespace, query)| (namespace, query, Vec::new());
    match arguments.command() {
        "find" => find::parse(context, arguments).map(|find| plain((find.namespace, find.query))),
        "count" => count::parse(context, arguments).map(plain),
        "distinct" => {
            distinct::parse(context, arguments).map(|distinct| plain((distinct.namespace, distinct.query)))
        }
        "aggregate" => {
            arguments.ignore(&["explain"]);
            let mut with_cursor = arguments;
            with_cursor.default_document("cursor");
            let aggregation = aggregate::parse(context, with_cursor)?;
            let aggregates = aggregation.aggregates();
            Ok((aggregation.namespace, aggregation.query, aggregates))
        }
        "update" => {
            let namespace = context.namespace(&mut arguments)?;
            let statement = update::statement(only_statement(&mut arguments, "updates")?)?;
            let limit = (!statement.multi).then_some(1);
            Ok(plain((namespace, Query { limit, ..reads::matching(statement.filter, None) })))
        }
        "delete" => {
            let namespace = context.namespace(&mut arguments)?;
            let (filter, multi) = delete::statement(only_statement(&mut arguments, "deletes")?)?;
            let limit = (!multi).then_some(1);
            Ok(plain((namespace, Query { limit, ..reads::matching(filter, None) })))
        }
        other => Err(CommandError::unsupported(format_args!("explaining '{other}'"))),
    }
}

fn only_statement(arguments: &mut Arguments, name: &str) -> Result<Document, CommandError> {
    let mut statements = arguments.documents(name)?.ok_or_else(|| arguments.missing(name))?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => Err(CommandError::new(16, "InvalidLength", "explained write batches must be of size 1")),
    }
}

async fn explanation<S: Store>(
    context: &Context<'_, S>,
    namespace: &Namespace,
    query: Query,
    aggregates: &[Aggregate],
) -> CommandResult {
    let explain = context.store().explain(namespace, query, aggregates);
    let explanation = context.deadline.read(explain).await?;
    Ok(doc! {
        "explainVersion": "1",
        "queryPlanner": {
            "namespace": format!("{}.{}", namespace.database, namespace.collection),
            "winningPlan": winning_plan(&explanation),
            "rejectedPlans": [],
        },
        "arras": explanation.to_document(),
    })
}

/// The plan in the form tools that know MongoDB look for; the whole story is under `arras`.
fn winning_plan(explanation: &Explanation) -> Document {
    match explanation.indexes.first() {
        _ if explanation.scan => doc! { "stage": "COLLSCAN" },
        None => doc! { "stage": "IDHACK" },
        Some(used) => doc! {
            "stage": "FETCH",
            "inputStage": { "stage": "IXSCAN", "indexName": used.name.as_str() },
        },
    }
}
