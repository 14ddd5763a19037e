//! `create`, `drop` and `listCollections`.

use super::reads::{self, Delivery};
use crate::arguments::Arguments;
use crate::cursors::Batches;
use crate::dispatch::Context;
use crate::error::{AnswerResult, CommandError, CommandResult};
use arras_service::Fault;
use arras_service::store::{Namespace, Store};
use bson::{Document, doc};

/// Kinds of collections there are not, and rules that would not be kept.
const REFUSED: &[&str] = &[
    "capped",
    "changeStreamPreAndPostImages",
    "clusteredIndex",
    "collation",
    "encryptedFields",
    "expireAfterSeconds",
    "indexOptionDefaults",
    "max",
    "pipeline",
    "size",
    "storageEngine",
    "timeseries",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];

/// Makes a collection.
pub(crate) async fn create<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.refuse(REFUSED)?;
    // Every collection has the index on _id, and only there MongoDB lets a client describe it.
    arguments.ignore(&["idIndex", "flags"]);
    let namespace = context.namespace(&mut arguments)?;
    arguments.finish()?;
    context.store().create_collection(&namespace).await?;
    Ok(doc! {})
}

/// Drops a collection. As since MongoDB 7.0, one that does not exist is no error.
pub(crate) async fn drop<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let namespace = context.namespace(&mut arguments)?;
    arguments.finish()?;
    let index_count = match context.store().indexes(&namespace).await {
        Ok(indexes) => indexes.len(),
        Err(error) if error.fault == Fault::NamespaceNotFound => return Ok(doc! {}),
        Err(error) => return Err(error.into()),
    };
    if !context.store().drop_collection(&namespace).await? {
        return Ok(doc! {});
    }
    Ok(doc! {
        "nIndexesWas": i32::try_from(index_count).unwrap_or(i32::MAX),
        "ns": format!("{}.{}", namespace.database, namespace.collection),
    })
}

/// Lists the collections of a database.
pub(crate) async fn list<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> AnswerResult {
    arguments.ignore(&["listCollections", "authorizedCollections"]);
    let filter = reads::filter(&mut arguments, "filter", context.now)?;
    let name_only = arguments.boolean("nameOnly")?.unwrap_or(false);
    let delivery = delivery(&mut arguments)?;
    arguments.finish()?;
    let mut names = context.deadline.read(context.store().collections(context.database)).await?;
    names.sort_unstable();
    let mut found = Vec::new();
    for name in names {
        let entry = doc! {
            "name": name,
            "type": "collection",
            "options": {},
            "info": { "readOnly": false },
            "idIndex": { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
        };
        if filter.matches(&entry)? {
            found.push(if name_only { name_and_type(&entry) } else { entry });
        }
    }
    let namespace =
        Namespace { database: context.database.to_owned(), collection: "$cmd.listCollections".to_owned() };
    reads::first_batch(context, namespace, Batches::of_list(found), delivery).await
}

fn name_and_type(entry: &Document) -> Document {
    entry
        .iter()
        .filter(|(name, _)| *name == "name" || *name == "type")
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

/// Takes the `cursor` field of a listing command.
pub(super) fn delivery(arguments: &mut Arguments) -> Result<Delivery, CommandError> {
    let Some(cursor) = arguments.document("cursor")? else {
        return Ok(Delivery { batch_size: Some(u64::MAX), ..Delivery::default() });
    };
    let mut cursor = Arguments::of_statement("cursor", cursor);
    let batch_size = cursor.unsigned("batchSize")?;
    cursor.finish()?;
    Ok(Delivery { batch_size: batch_size.or(Some(u64::MAX)), ..Delivery::default() })
}
