//! What the reading commands share: parsing queries, answering with a cursor.

use crate::answer::{Answer, BatchName, CursorBatch};
use crate::arguments::Arguments;
use crate::cursors::{Batches, OpenCursor};
use crate::dispatch::Context;
use crate::error::{AnswerResult, CommandError};
use arras_documents::filter::Filter;
use arras_documents::sort::{Direction, Sort};
use arras_service::store::{Namespace, Query, Store};
use bson::{Bson, DateTime, Document};

/// Documents in the first batch when the client asked for no number; MongoDB's own value.
const FIRST_BATCH: usize = 101;

/// Documents taken at a time for use in the proxy.
const DOCUMENTS_AT_A_TIME: usize = 1000;
/// Bytes of them, about.
const BYTES_AT_A_TIME: usize = 4 * 1024 * 1024;

/// How the client wants the result handed out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    /// Documents in the first batch; zero opens a cursor and returns none.
    pub(super) batch_size: Option<u64>,
    /// Close after the first batch.
    pub(super) single_batch: bool,
    /// Keep the cursor longer between batches.
    pub(super) patient: bool,
}

/// Parses a filter field; absent: every document. `now` is the command's.
pub(super) fn filter(arguments: &mut Arguments, name: &str, now: DateTime) -> Result<Filter, CommandError> {
    Ok(match arguments.document(name)? {
        Some(document) => Filter::parse_at(&document, now)?,
        None => Filter::all(),
    })
}

/// Parses a sort field.
pub(super) fn sort(arguments: &mut Arguments, name: &str) -> Result<Sort, CommandError> {
    let Some(specification) = arguments.document(name)? else {
        return Ok(Sort::default());
    };
    match natural(&specification) {
        Some(Some(direction)) => Ok(Sort::natural(direction)),
        Some(None) => Err(CommandError::bad_value(
            "$natural sort cannot be set to a value other than -1 or 1, nor combined",
        )),
        None => Ok(Sort::parse(&specification)?),
    }
}

/// Takes the `hint` field. `{$natural: 1}` asks for no index, which never changes a result.
pub(super) fn hint(arguments: &mut Arguments) -> Result<Option<Bson>, CommandError> {
    match arguments.take("hint") {
        None | Some(Bson::Null) => Ok(None),
        Some(Bson::Document(hint)) if hint.is_empty() => Ok(None),
        Some(Bson::Document(hint)) => match natural(&hint) {
            Some(Some(Direction::Forward)) => Ok(None),
            Some(_) => Err(CommandError::unsupported("a descending $natural hint; sort by {$natural: -1}")),
            None => Ok(Some(Bson::Document(hint))),
        },
        Some(Bson::String(name)) => Ok(Some(Bson::String(name))),
        Some(_) => Err(CommandError::failed_to_parse("Hint must be a string or an object")),
    }
}

/// What a document such as `{$natural: 1}` says; nothing if it does not speak of the natural order, no direction if it does so wrongly.
fn natural(document: &Document) -> Option<Option<Direction>> {
    let direction = document.get("$natural")?;
    let alone = crate::arguments::whole_number(direction).filter(|_| document.len() == 1);
    Some(match alone {
        Some(1) => Some(Direction::Forward),
        Some(-1) => Some(Direction::Backward),
        Some(_) | None => None,
    })
}

/// A query for every document that matches.
pub(super) fn matching(filter: Filter, hint: Option<Bson>) -> Query {
    Query { filter, sort: Sort::default(), skip: 0, limit: None, hint, allow_disk_use: true }
}

/// Answers with the first batch, and keeps a cursor if there is more.
pub(super) async fn first_batch<S: Store>(
    context: &Context<'_, S>,
    namespace: Namespace,
    mut batches: Batches<S::Cursor>,
    delivery: Delivery,
) -> AnswerResult {
    let size = delivery.batch_size.map_or(FIRST_BATCH, |size| usize::try_from(size).unwrap_or(usize::MAX));
    let batch = context.next_batch(&mut batches, Some(size), context.deadline).await?;
    let ns = format!("{}.{}", namespace.database, namespace.collection);
    let id = if batch.last || delivery.single_batch {
        0
    } else {
        context.server.cursors.open(OpenCursor {
            namespace,
            batches,
            patient: delivery.patient,
            time_left: context.deadline.time_left(),
        })?
    };
    Ok(Answer::Batch(CursorBatch { name: BatchName::First, documents: batch.documents, id, ns }))
}

/// The next documents, for use in the proxy; `None` at the end.
pub(super) async fn next_documents<S: Store>(
    context: &Context<'_, S>,
    batches: &mut Batches<S::Cursor>,
) -> Result<Option<Vec<Document>>, CommandError> {
    let documents =
        context.deadline.read(batches.next_documents(DOCUMENTS_AT_A_TIME, BYTES_AT_A_TIME)).await?;
    Ok((!documents.is_empty()).then_some(documents))
}
