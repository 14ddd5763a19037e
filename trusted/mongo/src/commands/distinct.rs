//! `distinct`.

use super::reads;
use crate::arguments::Arguments;
use crate::cursors::{Batches, Shape};
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use crate::wire::DOCUMENT_BYTES_MAX;
use arras_documents::order;
use arras_documents::path::{self, LeafArray};
use arras_service::store::{Namespace, Query, Store};
use bson::{Bson, Document, doc};
use std::collections::HashSet;

/// A parsed `distinct`.
pub(super) struct Distinct {
    pub(super) namespace: Namespace,
    pub(super) query: Query,
    key: String,
}

/// Reads the command.
pub(super) fn parse<S: Store>(
    context: &Context<'_, S>,
    mut arguments: Arguments,
) -> Result<Distinct, CommandError> {
    arguments.refuse(&["collation"])?;
    let namespace = context.namespace(&mut arguments)?;
    let key = arguments.string("key")?.ok_or_else(|| arguments.missing("key"))?;
    path::check(&key)?;
    let query = reads::matching(reads::filter(&mut arguments, "query")?, reads::hint(&mut arguments)?);
    arguments.finish()?;
    Ok(Distinct { namespace, query, key })
}

/// The different values at a path, elements of arrays one by one, in the order they were first met.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, arguments: Arguments) -> CommandResult {
    let Distinct { namespace, query, key } = parse(context, arguments)?;
    let cursor = context.deadline.read(context.store().find(&namespace, query)).await?;
    let mut batches = Batches::of_store(cursor, Shape::Whole, None);
    let mut values = Values::default();
    while let Some(documents) = reads::next_documents(context, &mut batches).await? {
        for document in &documents {
            values.collect(document, &key)?;
        }
    }
    Ok(doc! { "values": values.list })
}

#[derive(Default)]
struct Values {
    seen: HashSet<Vec<u8>>,
    list: Vec<Bson>,
    /// Bytes of `seen`, about those of `list` as BSON.
    bytes: usize,
}

impl Values {
    fn collect(&mut self, document: &Document, key: &str) -> Result<(), CommandError> {
        path::any(document, key, LeafArray::Whole, &mut |found| {
            match found.value {
                None => {}
                Some(Bson::Array(elements)) => elements.iter().for_each(|element| self.add(element)),
                Some(value) => self.add(value),
            }
            false
        });
        if self.bytes > DOCUMENT_BYTES_MAX {
            return Err(CommandError::new(17217, "Location17217", "distinct too big, 16mb cap"));
        }
        Ok(())
    }

    fn add(&mut self, value: &Bson) {
        let identity = order::canonical(value);
        let bytes = identity.len();
        if self.seen.insert(identity) {
            self.bytes = self.bytes.saturating_add(bytes);
            self.list.push(value.clone());
        }
    }
}
