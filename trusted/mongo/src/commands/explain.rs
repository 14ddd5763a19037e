//! `explain`: the plan, its cost and what it would leak; and, if asked for, what running it took.

mod execution;

use super::{aggregate, count, delete, distinct, find, reads, update};
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_service::explanation::Explanation;
use arras_service::store::{Aggregate, AggregateFunction, Namespace, Query, Store};
use bson::{Bson, Document, doc};

/// Explains the command inside, and runs it if the verbosity asks for what that takes. A write is run as the read it
/// begins with: nothing is changed. Without a verbosity nothing is run, since running shows the server what it shows.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let command = arguments.document("explain")?.ok_or_else(|| arguments.missing("explain"))?;
    let verbosity = Verbosity::of(arguments.string("verbosity")?)?;
    arguments.finish()?;
    let name = command.keys().next().cloned().unwrap_or_default();
    let (name, _) = context.server.registry.find(&name).ok_or_else(|| {
        CommandError::new(59, "CommandNotFound", format!("Explain failed due to unknown command: {name}"))
    })?;
    let explained = explained(context, Arguments::new(name, command.clone(), Vec::new()))?;
    let mut reply = explain(context, explained, verbosity).await?;
    reply.insert("command", command);
    Ok(reply)
}

/// Explains an `aggregate` that said `explain: true`.
pub(super) async fn aggregation<S: Store>(
    context: &Context<'_, S>,
    aggregation: aggregate::Aggregation,
) -> CommandResult {
    explain(context, Explained::Aggregate(Box::new(aggregation)), Verbosity::QueryPlanner).await
}

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verbosity {
    /// The plan; nothing is run.
    QueryPlanner,
    /// What running it took, too.
    ExecutionStats,
    /// The same, and what running the others took: no other is ever run.
    AllPlansExecution,
}

impl Verbosity {
    fn of(name: Option<String>) -> Result<Self, CommandError> {
        match name.as_deref() {
            None | Some("queryPlanner") => Ok(Self::QueryPlanner),
            Some("executionStats") => Ok(Self::ExecutionStats),
            Some("allPlansExecution") => Ok(Self::AllPlansExecution),
            Some(other) => Err(CommandError::bad_value(format!("unknown verbosity '{other}'"))),
        }
    }
}

/// What a command reads, or begins with reading.
enum Explained {
    Find(Namespace, Query),
    Count(Namespace, Query),
    Aggregate(Box<aggregate::Aggregation>),
    Update(Namespace, Query),
    Delete(Namespace, Query),
}

impl Explained {
    fn namespace(&self) -> &Namespace {
        match self {
            Self::Aggregate(aggregation) => &aggregation.namespace,
            Self::Find(namespace, _)
            | Self::Count(namespace, _)
            | Self::Update(namespace, _)
            | Self::Delete(namespace, _) => namespace,
        }
    }

    fn query(&self) -> &Query {
        match self {
            Self::Aggregate(aggregation) => &aggregation.query,
            Self::Find(_, query)
            | Self::Count(_, query)
            | Self::Update(_, query)
            | Self::Delete(_, query) => query,
        }
    }

    /// What an index might answer alone.
    fn aggregates(&self) -> Vec<Aggregate> {
        match self {
            Self::Aggregate(aggregation) => aggregation.aggregates(),
            Self::Count(..) => vec![Aggregate { name: "n".to_owned(), function: AggregateFunction::Count }],
            Self::Find(..) | Self::Update(..) | Self::Delete(..) => Vec::new(),
        }
    }
}

/// Reads a command.
fn explained<S: Store>(
    context: &Context<'_, S>,
    mut arguments: Arguments,
) -> Result<Explained, CommandError> {
    match arguments.command() {
        "find" => find::parse(context, arguments).map(|find| Explained::Find(find.namespace, find.query)),
        "count" => {
            count::parse(context, arguments).map(|(namespace, query)| Explained::Count(namespace, query))
        }
        "distinct" => distinct::parse(context, arguments)
            .map(|distinct| Explained::Find(distinct.namespace, distinct.query)),
        "aggregate" => {
            arguments.ignore(&["explain"]);
            let mut with_cursor = arguments;
            with_cursor.default_document("cursor");
            Ok(Explained::Aggregate(Box::new(aggregate::parse(context, with_cursor)?)))
        }
        "update" => {
            let namespace = context.namespace(&mut arguments)?;
            let statement = update::statement(only_statement(&mut arguments, "updates")?, context.now)?;
            let limit = (!statement.multi).then_some(1);
            let query = reads::matching(statement.filter, statement.hint);
            Ok(Explained::Update(namespace, Query { limit, ..query }))
        }
        "delete" => {
            let namespace = context.namespace(&mut arguments)?;
            let statement = delete::statement(only_statement(&mut arguments, "deletes")?, context.now)?;
            let limit = (!statement.multi).then_some(1);
            let query = reads::matching(statement.filter, statement.hint);
            Ok(Explained::Delete(namespace, Query { limit, ..query }))
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

async fn explain<S: Store>(
    context: &Context<'_, S>,
    explained: Explained,
    verbosity: Verbosity,
) -> CommandResult {
    let (namespace, aggregates) = (explained.namespace(), explained.aggregates());
    let explain = context.store().explain(namespace, explained.query().clone(), &aggregates);
    let explanation = context.deadline.read(explain).await?;
    let mut reply = doc! {
        "explainVersion": "1",
        "queryPlanner": {
            "namespace": format!("{}.{}", namespace.database, namespace.collection),
            "winningPlan": winning_plan(&explanation),
            "rejectedPlans": [],
        },
    };
    if verbosity != Verbosity::QueryPlanner {
        let mut ran = execution::run(context, explained, &explanation).await?;
        if verbosity == Verbosity::AllPlansExecution {
            ran.insert("allPlansExecution", Bson::Array(Vec::new()));
        }
        reply.insert("executionStats", ran);
    }
    reply.insert("arras", explanation.to_document());
    Ok(reply)
}

/// The plan in the form tools that know MongoDB look for; the whole story is under `arras`.
fn winning_plan(explanation: &Explanation) -> Document {
    match explanation.indexes.first() {
        _ if explanation.scan => doc! { "stage": "COLLSCAN" },
        _ if explanation.on_record => doc! { "stage": "RECORD_STORE_FAST_COUNT" },
        None => doc! { "stage": "IDHACK" },
        Some(used) => doc! {
            "stage": "FETCH",
            "inputStage": { "stage": "IXSCAN", "indexName": used.name.as_str() },
        },
    }
}
