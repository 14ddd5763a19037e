//! Which rows a text index finds, and which it has still to be told of.

use super::{LiveText, UNTOLD};
use crate::apply::Revision;
use crate::channel::ServerChannel;
use crate::collection::Collection;
use crate::fetch::Absent;
use crate::local::Change;
use crate::mutations::Mutation;
use crate::rows::Rows;
use crate::scan::Scan;
use crate::{Shared, builds, error};
use arras_documents::filter::Filter;
use arras_protocol::RowId;
use arras_service::ServiceError;
use arras_storage::{Durability, Storage};
use bson::Document;
use std::sync::Arc;

/// Documents that the service is told of at a time.
const DOCUMENTS_PER_STEP: u32 = 500;

/// What a write changes of a text index.
pub(crate) struct TextWrite {
    text: Arc<LiveText>,
    changes: Vec<(RowId, Option<Document>)>,
}

/// Candidates of a search.
pub(crate) struct TextRows {
    /// The service has them: they have documents.
    pub(crate) found: Rows,
    /// It was not told what became of them: they may have none.
    pub(crate) untold: Rows,
}

fn untold_name(text: &LiveText, row: RowId) -> Vec<u8> {
    [text.id.as_slice(), row.0.as_slice()].concat()
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// What revisions change of the collection's text index, if anything. From now on the rows are untold.
    pub(crate) fn text_write(
        &self,
        collection: &Collection,
        revisions: &[Revision],
    ) -> Result<Option<TextWrite>, ServiceError> {
        let Some(text) = collection.text() else { return Ok(None) };
        let index = text.index()?;
        let differs = |revision: &&Revision| {
            let old = revision.old.as_ref().map(|old| &old.document);
            index.differs(old, revision.new.as_deref())
        };
        let changes: Vec<(RowId, Option<Document>)> = revisions
            .iter()
            .filter(differs)
            .map(|revision| (revision.row, revision.new.as_deref().cloned()))
            .collect();
        if changes.is_empty() {
            return Ok(None);
        }
        text.untold().extend(changes.iter().map(|(row, _)| *row));
        Ok(Some(TextWrite { text, changes }))
    }

    /// The changes of the proxy's store that go with a write's intent.
    pub(crate) fn untold_records(&self, write: &TextWrite) -> Vec<Change> {
        if self.settings.mutations.has(Mutation::UntoldNotRecorded) {
            return Vec::new();
        }
        let rows = write.changes.iter().map(|(row, _)| untold_name(&write.text, *row));
        rows.map(|name| self.local.set_as_named(UNTOLD, name, &())).collect()
    }

    /// Tells the service of a write that is applied. If it cannot be told now, it will be: the write stands.
    pub(crate) async fn tell_text(&self, collection: &Collection, write: TextWrite) {
        if let Err(error) = self.tell(&write.text, write.changes).await {
            let collection = collection.id_in_log();
            tracing::warn!(%collection, %error, "the text index will be told of a write later");
        }
    }

    async fn tell(
        &self,
        text: &LiveText,
        changes: Vec<(RowId, Option<Document>)>,
    ) -> Result<(), ServiceError> {
        let rows: Vec<RowId> = changes.iter().map(|(row, _)| *row).collect();
        text.index()?.update(changes).await?;
        let told = rows.iter().map(|row| self.local.unset_as_named(UNTOLD, untold_name(text, *row)));
        // If this is lost they are told again.
        self.record_texts(told.collect(), Durability::Relaxed)?;
        let mut untold = text.untold();
        for row in &rows {
            untold.remove(row);
        }
        Ok(())
    }

    /// Sees that the collection's text index, if it has one, can be told of a write, and tells it what it was not told. The
    /// caller holds the write lock, and nothing is in doubt.
    ///
    /// # Errors
    /// The service cannot be reached: nothing of the write is recorded.
    pub(crate) async fn mend_text(&self, collection: &Collection) -> Result<(), ServiceError> {
        let Some(text) = collection.text() else { return Ok(()) };
        let ready = async {
            text.index()?.ready().await?;
            loop {
                let most = DOCUMENTS_PER_STEP as usize;
                let rows: Vec<RowId> = text.untold().iter().take(most).copied().collect();
                if rows.is_empty() {
                    return Ok(());
                }
                let documents = self.read_rows(collection, &rows, Absent::Allowed).await?;
                let mut changes: Vec<(RowId, Option<Document>)> = Vec::with_capacity(rows.len());
                let mut documents = documents.into_iter().peekable();
                // Both ascend.
                for row in rows {
                    let found = documents.next_if(|document| document.row == row);
                    changes.push((row, found.map(|found| found.document)));
                }
                self.tell(&text, changes).await?;
            }
        };
        ready.await.map_err(error::not_recorded)
    }

    /// The candidates for a filter with a `$text`.
    pub(crate) async fn text_rows(
        &self,
        collection: &Collection,
        filter: &Filter,
    ) -> Result<TextRows, ServiceError> {
        let (Some(text), Some(condition)) = (collection.text(), filter.text()) else {
            return Err(super::required());
        };
        let mut rows = TextRows { found: Rows::new(&self.budget), untold: Rows::new(&self.budget) };
        // Before the search: what it was not told of by then it may not find.
        let untold: Vec<RowId> = text.untold().iter().copied().collect();
        rows.untold.extend(untold.into_iter())?;
        let found = text.index()?.search(condition.clone()).await?;
        rows.found.extend(found.into_iter())?;
        rows.found.sort();
        rows.untold.sort();
        let untold = &rows.untold;
        rows.found.retain(|row| untold.binary_search(row).is_err());
        Ok(rows)
    }

    /// Tells the service of all documents of a collection. The caller holds the write lock.
    pub(crate) async fn fill_text(
        &self,
        collection: &Arc<Collection>,
        text: &LiveText,
    ) -> Result<(), ServiceError> {
        let index = text.index()?;
        let build: builds::Build<'_> = self.builds.begin(&collection.ns, self.document_count(collection)?);
        let mut scan = Scan::new(self, collection, DOCUMENTS_PER_STEP);
        loop {
            let documents = scan.next(&*self.channel).await?;
            if documents.is_empty() {
                return Ok(());
            }
            let done = documents.len() as u64;
            let mut changes = Vec::with_capacity(documents.len());
            for found in documents {
                index.check(&found.document)?;
                if index.differs(None, Some(&found.document)) {
                    changes.push((found.row, Some(found.document)));
                }
            }
            if !changes.is_empty() {
                self.tell(text, changes).await?;
            }
            build.advance(done)?;
        }
    }
}
