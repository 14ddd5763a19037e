//! `createIndexes`, `listIndexes` and `dropIndexes`.

use super::collections;
use super::reads;
use crate::arguments::{Arguments, whole_number};
use crate::cursors::Batches;
use crate::dispatch::Context;
use crate::error::{AnswerResult, CommandError, CommandResult};
use arras_documents::order;
use arras_service::ID_INDEX;
use arras_service::store::{IndexDefinition, Namespace, Store};
use bson::{Bson, Document, doc};

/// Most fields of an index.
const KEY_FIELDS_MAX: usize = 32;
/// Options that would change what a query returns or what a collection holds.
const REFUSED: &[&str] = &[
    "2dsphereIndexVersion",
    "bits",
    "bucketSize",
    "clustered",
    "collation",
    "expireAfterSeconds",
    "hidden",
    "max",
    "min",
    "partialFilterExpression",
    "prepareUnique",
    "wildcardProjection",
];

/// Options that a text index alone may have.
const OF_TEXT: &[&str] = &["default_language", "language_override", "textIndexVersion", "weights"];

/// Makes indexes.
pub(crate) async fn create<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.ignore(&["commitQuorum", "ignoreUnknownIndexOptions"]);
    let namespace = context.namespace(&mut arguments)?;
    let sent = arguments.documents("indexes")?.ok_or_else(|| arguments.missing("indexes"))?;
    arguments.finish()?;
    if sent.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one index to create"));
    }
    let requests = sent.into_iter().map(request).collect::<Result<Vec<_>, _>>()?;
    let collections = context.store().collections(&namespace.database).await?;
    let interrupt = context.operation.interrupt();
    let (before, after) = context.store().create_indexes(&namespace, requests, interrupt).await?;
    let mut reply = doc! {
        "numIndexesBefore": as_int32(before),
        "numIndexesAfter": as_int32(after),
        "createdCollectionAutomatically": !collections.contains(&namespace.collection),
    };
    if before == after {
        reply.insert("note", "all indexes already exist");
    }
    Ok(reply)
}

/// Reads one element of `indexes`.
fn request(fields: Document) -> Result<IndexDefinition, CommandError> {
    let mut arguments = Arguments::of_statement("createIndexes.indexes", fields);
    arguments.refuse(REFUSED)?;
    arguments.ignore(&["background", "dropDups", "ns"]);
    if let Some(version) = arguments.integer("v")?
        && !(1..=2).contains(&version)
    {
        let text = format!("Invalid index specification: cannot create an index of version {version}");
        return Err(CommandError::new(67, "CannotCreateIndex", text));
    }
    let required = |name: &str| {
        let text = format!("The '{name}' field is a required property of an index specification");
        CommandError::failed_to_parse(text)
    };
    let key = arguments.document("key")?.ok_or_else(|| required("key"))?;
    let name = arguments.string("name")?.ok_or_else(|| required("name"))?;
    check_key(&key)?;
    if name.is_empty() || name == "*" {
        return Err(CommandError::new(67, "CannotCreateIndex", format!("index name '{name}' is not valid")));
    }
    let unique = arguments.boolean("unique")?.unwrap_or(false);
    let sparse = arguments.boolean("sparse")?.unwrap_or(false);
    let mut options = Document::new();
    if let Some(engine) = arguments.document("storageEngine")? {
        options.insert("storageEngine", engine);
    }
    if key.values().any(|kind| kind.as_str() == Some("text")) {
        options.extend(
            OF_TEXT.iter().filter_map(|option| Some(((*option).to_owned(), arguments.take(option)?))),
        );
    }
    arguments.refuse(OF_TEXT)?;
    arguments.finish()?;
    Ok(IndexDefinition { name, key, unique, sparse, options })
}

fn check_key(key: &Document) -> Result<(), CommandError> {
    let refused = |text: String| Err(CommandError::new(67, "CannotCreateIndex", text));
    if key.is_empty() {
        return refused("Index keys cannot be an empty object.".to_owned());
    }
    if key.len() > KEY_FIELDS_MAX {
        return Err(CommandError::new(13103, "Location13103", "too many compound keys"));
    }
    for (path, direction) in key {
        match direction {
            Bson::String(_) => {} // a kind of index; the store knows which it has
            Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => {
                if whole_number(direction) == Some(0) {
                    return refused(format!("Values in the index key pattern cannot be 0: '{path}'"));
                }
            }
            _ => {
                return refused(format!(
                    "Values in v:2 index key pattern cannot be of type {}: '{path}'",
                    order::type_name(direction)
                ));
            }
        }
    }
    Ok(())
}

/// Lists the indexes of a collection.
pub(crate) async fn list<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> AnswerResult {
    arguments.ignore(&["includeBuildUUIDs", "includeIndexBuildInfo"]);
    let namespace = context.namespace(&mut arguments)?;
    let delivery = collections::delivery(&mut arguments)?;
    arguments.finish()?;
    let indexes = context.deadline.read(context.store().indexes(&namespace)).await?;
    let described = indexes.iter().map(IndexDefinition::specification).collect();
    reads::first_batch(context, namespace, Batches::of_list(described), delivery).await
}

/// Drops indexes by name, by key, or all but the one on `_id`, which loses its order with them.
pub(crate) async fn drop<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    let namespace = context.namespace(&mut arguments)?;
    let which = arguments.take("index").ok_or_else(|| arguments.missing("index"))?;
    arguments.finish()?;
    let indexes = context.store().indexes(&namespace).await?;
    let mut reply = doc! { "nIndexesWas": as_int32(indexes.len()) };
    if which == Bson::String("*".to_owned()) {
        context.store().drop_all_indexes(&namespace).await?;
        reply.insert("msg", "non-_id indexes dropped for collection");
        return Ok(reply);
    }
    let names = named(&which, &indexes)?;
    for name in &names {
        if name == ID_INDEX {
            return Err(CommandError::new(72, "InvalidOptions", "cannot drop _id index"));
        }
        if !indexes.iter().any(|index| index.name == *name) {
            return Err(not_found(&namespace, name));
        }
    }
    for name in &names {
        context.store().drop_index(&namespace, name).await?;
    }
    Ok(reply)
}

fn not_found(namespace: &Namespace, name: &str) -> CommandError {
    let text =
        format!("index not found with name [{name}] in {}.{}", namespace.database, namespace.collection);
    CommandError::new(27, "IndexNotFound", text)
}

/// The names of the indexes a `dropIndexes` means that does not mean all.
fn named(which: &Bson, indexes: &[IndexDefinition]) -> Result<Vec<String>, CommandError> {
    match which {
        Bson::String(name) => Ok(vec![name.clone()]),
        Bson::Document(key) => {
            let found = indexes.iter().find(|index| order::compare_documents(&index.key, key).is_eq());
            let text = || format!("can't find index with key: {key}");
            found
                .map(|index| vec![index.name.clone()])
                .ok_or_else(|| CommandError::new(27, "IndexNotFound", text()))
        }
        Bson::Array(names) => names
            .iter()
            .map(|name| match name {
                Bson::String(name) => Ok(name.clone()),
                _ => Err(CommandError::type_mismatch("dropIndexes: 'index' must hold only strings")),
            })
            .collect(),
        _ => Err(CommandError::type_mismatch("dropIndexes: 'index' must be a string, an object or an array")),
    }
}

fn as_int32(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
