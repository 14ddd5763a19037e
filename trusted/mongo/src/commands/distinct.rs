//! `distinct`.

use super::reads;
use crate::arguments::Arguments;
use crate::cursors::{Batches, Shape};
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use crate::wire::DOCUMENT_BYTES_MAX;
use arras_documents::order;
use arras_documents::path::{self, LeafArray};
use arras_documents::spill::{Held, Workspace};
use arras_service::store::{Namespace, Query, Store};
use arras_service::{Fault, ServiceError};
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
    let query =
        reads::matching(reads::filter(&mut arguments, "query", context.now)?, reads::hint(&mut arguments)?);
    arguments.finish()?;
    Ok(Distinct { namespace, query, key })
}

/// The different values at a path, elements of arrays one by one, in the order they were first met.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, arguments: Arguments) -> CommandResult {
    let Distinct { namespace, query, key } = parse(context, arguments)?;
    let cursor = context.deadline.read(context.store().find(&namespace, query)).await?;
    let mut batches = Batches::of_store(cursor, Shape::Whole, None);
    let mut values = Values::new(&context.store().workspace(false));
    while let Some(documents) = reads::next_documents(context, &mut batches).await? {
        for document in &documents {
            values.collect(document, &key)?;
        }
    }
    Ok(doc! { "values": values.list })
}

struct Values {
    seen: HashSet<Vec<u8>>,
    list: Vec<Bson>,
    /// Bytes of `seen`, about those of `list` as BSON.
    bytes: usize,
    /// Of the budget for memory.
    held: Held,
}

impl Values {
    fn new(workspace: &Workspace) -> Self {
        Self { seen: HashSet::new(), list: Vec::new(), bytes: 0, held: Held::new(workspace) }
    }

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
        // Each is there as a value, which the budget counts as decoded, and as the bytes that it is known by.
        if !self.held.granted(self.bytes.saturating_add(self.bytes / 4)) {
            let message = "there is no memory left for further distinct values; try again when other operations have ended";
            return Err(ServiceError::new(Fault::MemoryExceeded, message).into());
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

#[cfg(test)]
mod tests {
    use super::*;
    use arras_documents::spill::Pool;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Has so many bytes left.
    struct Left(AtomicUsize);

    impl Pool for Left {
        fn take(&self, bytes: usize) -> bool {
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(bytes)).is_ok()
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_add(bytes, Ordering::SeqCst);
        }
    }

    #[test]
    fn values_are_of_the_budget_for_memory() {
        let left = Arc::new(Left(AtomicUsize::new(1 << 20)));
        let mut values = Values::new(&Workspace { pool: Some(left.clone()), ..Workspace::default() });
        let refused = (0..4000)
            .find_map(|at| values.collect(&doc! { "a": format!("{at} {}", "x".repeat(1000)) }, "a").err());
        assert_eq!(refused.map(|refused| refused.code), Some(146));
        assert!((500..1000).contains(&values.list.len()), "{} values of 1 kB", values.list.len());
        drop(values);
        assert_eq!(left.0.load(Ordering::SeqCst), 1 << 20);
    }
}
