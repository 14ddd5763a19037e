//! `aggregate`: as much of the pipeline as possible becomes the store's query, or an aggregate an encrypted
//! index answers by itself; the rest runs here, over decrypted documents.

use super::count::number;
use super::explain;
use super::reads::{self, Delivery};
use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::cursors::{Batches, Shape};
use crate::dispatch::Context;
use crate::error::{AnswerResult, CommandError};
use crate::slices::{self, Turns};
use arras_documents::QueryError;
use arras_documents::filter::{Expr, Filter};
use arras_documents::limits;
use arras_documents::pipeline::{Group, Pipeline, Stage};
use arras_documents::spill::{Pause, Spool, SpoolReader, Workspace};
use arras_service::store::{Aggregate, AggregateFunction, Namespace, Query, Store};
use bson::{Bson, Document, doc};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Batches of documents on their way to a pipeline at a time.
const BATCHES_AHEAD: usize = 1;
/// Most documents of such a batch.
const DOCUMENTS_PER_BATCH: usize = 1000;
/// Bytes of such a batch, about.
const BYTES_PER_BATCH: usize = 4 * 1024 * 1024;
/// Name, impossible for a field of a group, under which the store is asked how many documents there are.
const GROUP_SIZE: &str = "$count";

/// A parsed `aggregate`.
pub(super) struct Aggregation {
    pub(super) namespace: Namespace,
    /// What the store is asked.
    pub(super) query: Query,
    /// What is left to do here.
    rest: Vec<Stage>,
    delivery: Delivery,
    explain: bool,
}

impl Aggregation {
    /// The aggregates an index might answer, if the first stage left is a group of that kind.
    pub(super) fn aggregates(&self) -> Vec<Aggregate> {
        match self.rest.first() {
            Some(Stage::Group(group)) => whole_group(group).map_or_else(Vec::new, |whole| whole.aggregates),
            Some(Stage::Count(name)) => {
                vec![Aggregate { name: name.clone(), function: AggregateFunction::Count }]
            }
            _ => Vec::new(),
        }
    }
}

/// Reads the command.
pub(super) fn parse<S: Store>(
    context: &Context<'_, S>,
    mut arguments: Arguments,
) -> Result<Aggregation, CommandError> {
    arguments.refuse(&["collation", "exchange", "fromMongos", "let", "needsMerge", "resumeAfter"])?;
    arguments.ignore(&["bypassDocumentValidation"]);
    let allow_disk_use = arguments.boolean("allowDiskUse")?.unwrap_or(true);
    let target = arguments.take("aggregate");
    let namespace = match target {
        Some(Bson::String(collection)) => crate::dispatch::namespace(context.database, collection)?,
        _ => return Err(CommandError::unsupported("an aggregation without a collection")),
    };
    let stages = arguments.documents("pipeline")?.ok_or_else(|| arguments.missing("pipeline"))?;
    let explain = arguments.boolean("explain")?.unwrap_or(false);
    let delivery = match arguments.document("cursor")? {
        Some(cursor) => {
            let mut cursor = Arguments::of_statement("aggregate.cursor", cursor);
            let batch_size = cursor.unsigned("batchSize")?;
            cursor.finish()?;
            Delivery { batch_size, ..Delivery::default() }
        }
        None if explain => Delivery::default(),
        None => {
            let text = "The 'cursor' option is required, except for aggregate with the explain argument";
            return Err(CommandError::failed_to_parse(text));
        }
    };
    let hint = reads::hint(&mut arguments)?;
    arguments.finish()?;
    let pipeline = Pipeline::parse_at(&stages, context.now)?;
    let (query, rest) = push_down(pipeline.stages().to_vec(), hint);
    let query = Query { allow_disk_use, ..query };
    Ok(Aggregation { namespace, query, rest, delivery, explain })
}

/// Runs a pipeline.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, arguments: Arguments) -> AnswerResult {
    let aggregation = parse(context, arguments)?;
    if aggregation.explain {
        return explain::aggregation(context, aggregation).await.map(Answer::Document);
    }
    let (namespace, delivery) = (aggregation.namespace.clone(), aggregation.delivery);
    let batches = batches(context, aggregation).await?;
    reads::first_batch(context, namespace, batches, delivery).await
}

/// The results of a pipeline.
pub(super) async fn batches<S: Store>(
    context: &Context<'_, S>,
    aggregation: Aggregation,
) -> Result<Batches<S::Cursor>, CommandError> {
    let Aggregation { namespace, query, mut rest, .. } = aggregation;
    if let Some(documents) = answered_by_store(context, &namespace, &query, rest.first()).await? {
        rest.remove(0);
        return Ok(Batches::of_list(Pipeline::from_stages(rest).run(documents)?));
    }
    let limit = query.limit;
    let workspace = context.store().workspace(query.allow_disk_use);
    let cursor = context.deadline.read(context.store().find(&namespace, query)).await?;
    Ok(if rest.is_empty() {
        Batches::of_store(cursor, Shape::Whole, limit)
    } else if rest.iter().all(sees_one_document) {
        // No limit here: it is on what the store returns, which an $unwind may multiply.
        Batches::of_store(cursor, Shape::Staged(Pipeline::from_stages(rest)), None)
    } else {
        let source = Batches::of_store(cursor, Shape::Whole, limit);
        Batches::of_spool(
            context.deadline.read(run_over(source, Pipeline::from_stages(rest), workspace)).await?,
        )
    })
}

/// Splits a pipeline into the query its first stages are and the stages left. Exact: what a stage means never
/// depends on whether it was moved.
fn push_down(stages: Vec<Stage>, hint: Option<Bson>) -> (Query, Vec<Stage>) {
    let mut conditions = Vec::new();
    let mut query = reads::matching(Filter::all(), hint);
    let mut stages = stages.into_iter().peekable();
    while let Some(stage) = stages.next_if(|stage| becomes_query(stage, &query)) {
        match stage {
            Stage::Match(filter) => conditions.push(filter.expr().clone()),
            Stage::Sort(sort) => query.sort = sort,
            Stage::Skip(count) => {
                query.skip = query.skip.saturating_add(count);
                query.limit = query.limit.map(|limit| limit.saturating_sub(count));
            }
            Stage::Limit(count) => {
                query.limit = Some(query.limit.map_or(count, |limit| limit.min(count)));
            }
            _ => {}
        }
    }
    query.filter = match conditions.len() {
        0 => Filter::all(),
        1 => Filter::from_expr(conditions.swap_remove(0)),
        _ => Filter::from_expr(Expr::And(conditions)),
    };
    (query, stages.collect())
}

/// Whether a stage can follow the ones already in `query`, which does its parts in the order filter, sort,
/// skip, limit.
fn becomes_query(stage: &Stage, query: &Query) -> bool {
    let whole = query.skip == 0 && query.limit.is_none();
    match stage {
        Stage::Match(_) => whole,
        Stage::Sort(_) => whole && query.sort.is_empty(),
        // A skip past the limit would make it zero; leave that oddity to the pipeline.
        Stage::Skip(count) => query.limit.is_none_or(|limit| *count < limit),
        Stage::Limit(count) => *count > 0,
        _ => false,
    }
}

/// Whether a stage turns each document into results without looking at others.
fn sees_one_document(stage: &Stage) -> bool {
    matches!(
        stage,
        Stage::AddFields(_) | Stage::Match(_) | Stage::Project(_) | Stage::ReplaceRoot(_) | Stage::Unwind(_)
    )
}

/// A `$group` of all documents into one, of counts, sums and averages only.
struct WholeGroup {
    id: Bson,
    aggregates: Vec<Aggregate>,
}

/// Recognises such a group.
fn whole_group(group: &Group) -> Option<WholeGroup> {
    let id = group.id.constant()?.clone();
    let aggregate = |field: &arras_documents::pipeline::GroupField| {
        let function = match (field.operator, field.argument.constant(), field.argument.field_path()) {
            ("$count", ..) | ("$sum", Some(Bson::Int32(1)), _) => AggregateFunction::Count,
            ("$sum", None, Some(path)) => AggregateFunction::Sum(path),
            ("$avg", None, Some(path)) => AggregateFunction::Average(path),
            _ => return None,
        };
        Some(Aggregate { name: field.name.clone(), function })
    };
    let aggregates = group.fields.iter().map(aggregate).collect::<Option<Vec<_>>>()?;
    (!aggregates.is_empty()).then_some(WholeGroup { id, aggregates })
}

/// Asks the store for what the next stage computes; `None` if the documents themselves are needed.
async fn answered_by_store<S: Store>(
    context: &Context<'_, S>,
    namespace: &Namespace,
    query: &Query,
    stage: Option<&Stage>,
) -> Result<Option<Vec<Document>>, CommandError> {
    match stage {
        Some(Stage::Count(name)) => {
            let count = count(context, namespace, query).await?;
            Ok(Some(if count == 0 { vec![] } else { vec![doc! { name: number(count) }] }))
        }
        Some(Stage::Group(group)) => match whole_group(group) {
            Some(whole) => group_answered_by_store(context, namespace, query, &whole).await,
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

async fn group_answered_by_store<S: Store>(
    context: &Context<'_, S>,
    namespace: &Namespace,
    query: &Query,
    whole: &WholeGroup,
) -> Result<Option<Vec<Document>>, CommandError> {
    let only_counts = whole.aggregates.iter().all(|aggregate| aggregate.function == AggregateFunction::Count);
    let answers = if only_counts {
        let count = number(count(context, namespace, query).await?);
        let mut answers = doc! { GROUP_SIZE: count.clone() };
        answers.extend(whole.aggregates.iter().map(|aggregate| (aggregate.name.clone(), count.clone())));
        answers
    } else if query.skip == 0 && query.limit.is_none() {
        let mut asked = whole.aggregates.clone();
        asked.push(Aggregate { name: GROUP_SIZE.to_owned(), function: AggregateFunction::Count });
        let answer = context.store().aggregate(namespace, query, &asked);
        let Some(answers) = context.deadline.read(answer).await? else {
            return Ok(None);
        };
        answers
    } else {
        return Ok(None);
    };
    if answers.get(GROUP_SIZE).and_then(crate::arguments::whole_number) == Some(0) {
        return Ok(Some(vec![])); // no documents, no group
    }
    let mut result = doc! { "_id": whole.id.clone() };
    for aggregate in &whole.aggregates {
        result.insert(aggregate.name.clone(), answers.get(&aggregate.name).cloned().unwrap_or(Bson::Null));
    }
    Ok(Some(vec![result]))
}

async fn count<S: Store>(
    context: &Context<'_, S>,
    namespace: &Namespace,
    query: &Query,
) -> Result<u64, CommandError> {
    let unordered = Query { sort: arras_documents::sort::Sort::default(), ..query.clone() };
    context.deadline.read(context.store().count(namespace, unordered)).await
}

/// Runs a pipeline over everything a store returns, on a thread where computing does not hold up other
/// connections; documents wait in the store, not here.
async fn run_over<C: arras_service::store::Cursor>(
    mut source: Batches<C>,
    pipeline: Pipeline,
    workspace: Workspace,
) -> Result<SpoolReader, CommandError> {
    let (sender, mut receiver) = mpsc::channel::<Option<Vec<Document>>>(BATCHES_AHEAD);
    let waiting = Arc::new(());
    let turns = Turns::<C>::new(&waiting);
    let pause: Arc<dyn Pause> = turns.clone();
    // The result outlives the work: it must not keep the turn that this ended in.
    let mut result = Spool::new(workspace.clone(), "the result of an aggregation");
    let workspace = Workspace { pause: Some(pause), ..workspace };
    let computed = slices::on_own_thread(move || {
        let mut ended = false;
        let batches = std::iter::from_fn(|| {
            if ended {
                return None;
            }
            turns.give_back();
            match receiver.blocking_recv() {
                Some(Some(batch)) => Some(Ok(batch)),
                Some(None) => None,
                // Nobody waits for the result any more.
                None => {
                    ended = true;
                    Some(Err(slices::ended()))
                }
            }
        });
        let documents = batches.flat_map(|batch: Result<Vec<Document>, QueryError>| match batch {
            Ok(batch) => batch.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        let documents = documents.map(|document| turns.go_on().and(document));
        for made in pipeline.stream_in(documents, &workspace) {
            turns.go_on()?;
            let made = made?;
            limits::check_built(&made)?;
            result.push(made)?;
        }
        result.finish()
    })?;
    loop {
        let batch = source.next_documents(DOCUMENTS_PER_BATCH, BYTES_PER_BATCH).await?;
        let last = batch.is_empty();
        // A pipeline that has seen enough, or failed, hangs up.
        if sender.send((!last).then_some(batch)).await.is_err() || last {
            break;
        }
    }
    let result = computed.await;
    drop(waiting);
    match result {
        Ok(result) => Ok(result?),
        Err(_) => Err(slices::failed()),
    }
}

#[cfg(test)]
mod tests;
