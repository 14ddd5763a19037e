//! `collStats` and `dbStats`, as far as the proxy knows true numbers: how many, not how large.

use super::count::number;
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::CommandResult;
use arras_service::Fault;
use arras_service::store::{Namespace, Store};
use bson::doc;

/// `collStats`.
pub(crate) async fn collection<S: Store>(
    context: &Context<'_, S>,
    mut arguments: Arguments,
) -> CommandResult {
    arguments.ignore(&["scale"]);
    let namespace = context.namespace(&mut arguments)?;
    arguments.finish()?;
    let ns = format!("{}.{}", namespace.database, namespace.collection);
    let (documents, indexes) = size(context, &namespace).await?;
    Ok(doc! { "ns": ns, "count": number(documents), "nindexes": number(indexes), "capped": false })
}

/// `dbStats`.
pub(crate) async fn database<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.ignore(&["dbStats", "dbstats", "scale", "freeStorage"]);
    arguments.finish()?;
    let collections = context.deadline.read(context.store().collections(context.database)).await?;
    let collection_count = collections.len() as u64;
    let (mut objects, mut indexes) = (0_u64, 0_u64);
    for collection in collections {
        let namespace = Namespace { database: context.database.to_owned(), collection };
        let (documents, index_count) = size(context, &namespace).await?;
        objects = objects.saturating_add(documents);
        indexes = indexes.saturating_add(index_count);
    }
    Ok(doc! {
        "db": context.database,
        "collections": number(collection_count),
        "views": 0,
        "objects": number(objects),
        "indexes": number(indexes),
    })
}

/// Documents and indexes of a collection; none of either if there is no such collection.
async fn size<S: Store>(
    context: &Context<'_, S>,
    namespace: &Namespace,
) -> Result<(u64, u64), crate::error::CommandError> {
    let size = context.deadline.read(context.store().size(namespace)).await?;
    let indexes = match context.store().indexes(namespace).await {
        Ok(indexes) => indexes.len() as u64,
        Err(error) if error.fault == Fault::NamespaceNotFound => 0,
        Err(error) => return Err(error.into()),
    };
    Ok((size.document_count, indexes))
}
