//! `find`.

use super::reads::{self, Delivery};
use crate::arguments::Arguments;
use crate::cursors::{Batches, Shape};
use crate::dispatch::Context;
use crate::error::{AnswerResult, CommandError};
use arras_documents::projection::Projection;
use arras_service::store::{Namespace, Query, Store};

/// Options that would change what is returned.
const REFUSED: &[&str] = &[
    "awaitData",
    "collation",
    "let",
    "max",
    "min",
    "requestResumeToken",
    "resumeAfter",
    "returnKey",
    "showRecordId",
    "tailable",
];
/// Options that change nothing here.
const IGNORED: &[&str] =
    &["allowPartialResults", "includeQueryStatsMetrics", "maxScan", "oplogReplay", "readOnce"];

/// A parsed `find`.
pub(super) struct Find {
    pub(super) namespace: Namespace,
    pub(super) query: Query,
    pub(super) projection: Option<Projection>,
    pub(super) delivery: Delivery,
}

/// Reads the command.
pub(super) fn parse<S: Store>(
    context: &Context<'_, S>,
    mut arguments: Arguments,
) -> Result<Find, CommandError> {
    arguments.refuse(REFUSED)?;
    arguments.ignore(IGNORED);
    let namespace = context.namespace(&mut arguments)?;
    let query = Query {
        filter: reads::filter(&mut arguments, "filter", context.now)?,
        sort: reads::sort(&mut arguments, "sort")?,
        skip: arguments.unsigned("skip")?.unwrap_or(0),
        limit: arguments.unsigned("limit")?.filter(|limit| *limit > 0),
        hint: reads::hint(&mut arguments)?,
        allow_disk_use: arguments.boolean("allowDiskUse")?.unwrap_or(true),
    };
    let query = Query { sort: query.sort.scored_by(query.filter.text())?, ..query };
    let scored = |fields| Projection::parse_at(&fields, context.now)?.scored_by(query.filter.text());
    let projection = arguments.document("projection")?.map(scored).transpose()?;
    let delivery = Delivery {
        batch_size: arguments.unsigned("batchSize")?,
        single_batch: arguments.boolean("singleBatch")?.unwrap_or(false),
        patient: arguments.boolean("noCursorTimeout")?.unwrap_or(false),
    };
    arguments.finish()?;
    Ok(Find { namespace, query, projection: projection.filter(|fields| !fields.is_identity()), delivery })
}

/// Finds documents.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, arguments: Arguments) -> AnswerResult {
    let Find { namespace, query, projection, delivery } = parse(context, arguments)?;
    let shape = match projection {
        Some(projection) => Shape::Projected(Box::new((projection, query.filter.clone()))),
        None => Shape::Whole,
    };
    let limit = query.limit;
    let cursor = context.deadline.read(context.store().find(&namespace, query)).await?;
    reads::first_batch(context, namespace, Batches::of_store(cursor, shape, limit), delivery).await
}
