//! `getMore` and `killCursors`.

use crate::answer::{Answer, BatchName, CursorBatch};
use crate::arguments::Arguments;
use crate::deadline::Deadline;
use crate::dispatch::{self, Context};
use crate::error::{AnswerResult, CommandError, CommandResult};
use arras_service::store::{Namespace, Store};
use bson::{Bson, doc};

/// The next batch of a cursor.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> AnswerResult {
    let id = match arguments.take("getMore") {
        Some(Bson::Int64(id)) => id,
        _ => {
            return Err(CommandError::type_mismatch("Field 'getMore' must be of type long"));
        }
    };
    let collection = arguments.string("collection")?.ok_or_else(|| arguments.missing("collection"))?;
    let size = arguments.unsigned("batchSize")?.filter(|size| *size > 0);
    arguments.refuse(&["term", "lastKnownCommittedOpTime"])?;
    arguments.finish()?;
    let namespace = read_namespace(context.database, collection)?;
    let mut checked_out = context.server.cursors.check_out(id, &namespace)?;
    let cursor = checked_out.cursor()?;
    let deadline = Deadline::within(cursor.time_left);
    let size = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let batch = context.next_batch(&mut cursor.batches, size, deadline).await?;
    cursor.time_left = deadline.time_left();
    let id = if batch.last {
        0
    } else {
        checked_out.give_back();
        id
    };
    let ns = format!("{}.{}", namespace.database, namespace.collection);
    Ok(Answer::Batch(CursorBatch { name: BatchName::Next, documents: batch.documents, id, ns }))
}

/// Ends cursors.
pub(crate) async fn kill<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let collection = arguments.string("killCursors")?.ok_or_else(|| arguments.missing("killCursors"))?;
    let cursors = arguments.array("cursors")?.ok_or_else(|| arguments.missing("cursors"))?;
    arguments.finish()?;
    let namespace = read_namespace(context.database, collection)?;
    let mut killed = Vec::new();
    let mut not_found = Vec::new();
    for cursor in cursors {
        let Bson::Int64(id) = cursor else {
            return Err(CommandError::type_mismatch("killCursors: a cursor id must be of type long"));
        };
        let list = if context.server.cursors.kill(id, &namespace) { &mut killed } else { &mut not_found };
        list.push(Bson::Int64(id));
    }
    Ok(doc! {
        "cursorsKilled": killed,
        "cursorsNotFound": not_found,
        "cursorsAlive": Vec::<Bson>::new(),
        "cursorsUnknown": Vec::<Bson>::new(),
    })
}

/// The namespace of a cursor: also the ones of commands that list things, which no collection can have.
fn read_namespace(database: &str, collection: String) -> Result<Namespace, CommandError> {
    if collection.starts_with("$cmd.") {
        return Ok(Namespace { database: database.to_owned(), collection });
    }
    dispatch::namespace(database, collection)
}
