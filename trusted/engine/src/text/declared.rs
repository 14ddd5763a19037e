//! Text indexes that the schema declares.

use super::TextIndexId;
use crate::catalog::{IndexRecord, TextRecord};
use crate::channel::ServerChannel;
use crate::collection::Collection;
use crate::declared::CalledFor;
use crate::{Shared, error};
use arras_planner::schema::{CollectionSchema, Schema, TextSchema};
use arras_service::store::{IndexDefinition, Namespace};
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use rand::Rng;
use std::sync::Arc;

/// How the index of a schema is asked for, if it declares one of a collection.
fn of<'s>(schema: &'s Schema, ns: &Namespace) -> Option<(&'s TextSchema, IndexDefinition)> {
    let text = schema.collection(&ns.database, &ns.collection)?.text.as_ref()?;
    Some((text, text.request()))
}

/// The text index that a schema calls for, unless one of `there` is the same, whatever it is called.
pub(crate) fn lacking<'r>(
    schema: &Schema,
    ns: &Namespace,
    mut there: impl Iterator<Item = &'r IndexDefinition>,
) -> Option<CalledFor> {
    let (text, wanted) = of(schema, ns)?;
    let same = |request: &IndexDefinition| request.key == wanted.key && request.options == wanted.options;
    (!there.any(same)).then(|| CalledFor::Text(text.clone()))
}

/// True if an index was made for a schema that declares it no more, or otherwise.
pub(crate) fn is_left(declared: Option<&CollectionSchema>, request: &IndexDefinition) -> bool {
    let wanted = declared.and_then(|schema| schema.text.as_ref()).map(TextSchema::request);
    arras_planner::text::is_text(request)
        && request.name == arras_planner::schema::TEXT_INDEX
        && wanted.as_ref() != Some(request)
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// The text index of a collection that is made now, with nothing in it.
    ///
    /// # Errors
    /// There is no service, or it cannot be reached.
    pub(crate) async fn text_of_new_collection(
        &self,
        ns: &Namespace,
    ) -> Result<Option<IndexRecord>, ServiceError> {
        let Some((_, request)) = of(&self.settings.schema, ns) else { return Ok(None) };
        let text = self.text_record(&request).await?;
        let mut index = IndexRecord::new(&request, Vec::new()).with_text(Some(text));
        index.ready = true;
        Ok(Some(index))
    }

    /// What the schema calls for of a collection's text, and is not there.
    pub(crate) fn text_called_for(&self, collection: &Collection) -> Option<CalledFor> {
        let indexes = collection.indexes();
        lacking(&self.settings.schema, &collection.ns, indexes.iter().map(|index| &index.request))
    }

    /// Makes what [`Self::text_called_for`] says.
    ///
    /// # Errors
    /// As [`Self::new_text`]; another text index is there.
    pub(crate) async fn make_declared_text(
        &self,
        collection: &Arc<Collection>,
        declared: &TextSchema,
    ) -> Result<(), ServiceError> {
        if let Some(index) = collection.indexes().iter().find(|index| index.text.is_some()) {
            let message = format!(
                "text index '{0}' is there, and not as the schema declares it: drop it (dropIndex(\"{0}\")), or declare it as it is",
                index.request.name
            );
            return Err(error::of(Fault::IndexOptionsConflict, message));
        }
        self.create_index(collection, declared.request(), Vec::new()).await
    }

    /// The record of a new text index.
    ///
    /// # Errors
    /// There is no service, or it cannot be reached.
    pub(super) async fn text_record(&self, request: &IndexDefinition) -> Result<TextRecord, ServiceError> {
        let has_text =
            |collection: &Arc<Collection>| collection.indexes().iter().any(|index| index.text.is_some());
        if !self.all_collections().iter().any(has_text)
            && let Some(service) = &self.settings.text
        {
            // Nothing that it may have lost is missed.
            self.forget_texts(&**service)?;
        }
        let mut id = TextIndexId::default();
        self.settings.random.rng().fill_bytes(&mut id);
        let index = self.text_index(id, request)?;
        index.ready().await?;
        Ok(TextRecord { id, fingerprint: index.fingerprint() })
    }
}
