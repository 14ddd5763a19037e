//! `listDatabases` and `dropDatabase`.

use super::reads;
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::CommandResult;
use arras_service::store::{Namespace, Store};
use bson::{Bson, doc};

/// Lists databases. The proxy does not know how many bytes their ciphertexts take on the other side: the
/// sizes, which some drivers insist on, are zero.
pub(crate) async fn list<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.ignore(&["listDatabases", "authorizedDatabases"]);
    let filter = reads::filter(&mut arguments, "filter", context.now)?;
    let name_only = arguments.boolean("nameOnly")?.unwrap_or(false);
    arguments.finish()?;
    let mut names = context.deadline.read(context.store().databases()).await?;
    names.sort_unstable();
    let mut databases = Vec::new();
    for name in names {
        let entry = doc! { "name": name.as_str(), "sizeOnDisk": 0_i64, "empty": false };
        if filter.matches(&entry)? {
            databases.push(Bson::Document(if name_only {
                doc! { "name": name }
            } else {
                entry
            }));
        }
    }
    let mut reply = doc! { "databases": databases };
    if !name_only {
        reply.extend(doc! { "totalSize": 0_i64, "totalSizeMb": 0_i64 });
    }
    Ok(reply)
}

/// Drops every collection of a database.
pub(crate) async fn drop<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.ignore(&["dropDatabase"]);
    arguments.finish()?;
    let collections = context.store().collections(context.database).await?;
    if collections.is_empty() {
        return Ok(doc! {});
    }
    for collection in collections {
        let namespace = Namespace { database: context.database.to_owned(), collection };
        context.store().drop_collection(&namespace).await?;
    }
    Ok(doc! { "dropped": context.database })
}
