//! Indexes in memory: the definition, and the keyed halves that serve it.

use super::catalog::{IndexPartRecord, IndexRecord};
use super::channel::ServerChannel;
use super::facts::LiveFacts;
use super::protocols::{self, Making};
use super::sample::LiveSample;
use super::text::LiveText;
use arras_keys::{Key, Purpose};
use arras_planner::physical::PhysicalIndex;
use arras_protocol::write::Step;
use arras_protocol::{IndexId, arx_eq, unique};
use arras_schemes::arx_eq::ArxEqIndex;
use arras_schemes::contract::Epochs;
use arras_schemes::contract::{EncryptedIndex, State};
use arras_schemes::error::IndexError;
use arras_schemes::random::Randomness;
use arras_schemes::unique::UniqueIndex;
use arras_service::store::IndexDefinition;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Parameters of ArxRange indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RangeSettings {
    /// `B`: mean entries a bucket, of indexes made from now on. An index keeps the one it was made with.
    pub bucket_factor: u64,
    /// `c`: separators of an index that the proxy keeps in the clear.
    pub top_nodes: usize,
    /// Trees of other protocols have nodes, places and messages of few entries, so that a few dozens have them split, merge
    /// and move: for whoever opens an engine to find faults in it. Not a matter of configuration.
    #[serde(skip)]
    pub small_trees: bool,
}

impl Default for RangeSettings {
    fn default() -> Self {
        Self { bucket_factor: 32, top_nodes: 1024, small_trees: false }
    }
}

/// An index the application asked for.
pub struct LiveIndex {
    /// The request.
    pub request: IndexDefinition,
    /// What was made for it. What else serves it is another index's: see [`super::declared`].
    pub parts: Vec<Arc<IndexPart>>,
    /// What a search service keeps of it, if it is a text index.
    pub text: Option<Arc<LiveText>>,
    /// False while it is being filled: written to, not read.
    pub ready: AtomicBool,
}

/// One encrypted index.
pub struct IndexPart {
    /// Its name on the server.
    pub id: IndexId,
    /// What it holds.
    pub physical: PhysicalIndex,
    /// Documents without any of its fields are left out.
    pub sparse: bool,
    /// What its documents are like.
    pub facts: LiveFacts,
    /// Some of its keys, for the planner.
    pub sample: LiveSample,
    /// See [`IndexPartRecord::bucket_factor`].
    pub bucket_factor: u64,
    /// The keyed half.
    pub half: Arc<dyn EncryptedIndex>,
}

/// The steps that make an empty index on the server.
///
/// # Errors
/// [`IndexError::Caller`] for a protocol that this build does not have.
pub fn create_steps<C: ServerChannel>(
    part: &IndexPartRecord,
    root: &Key,
    range: RangeSettings,
    random: &Randomness,
) -> Result<Vec<Step>, IndexError> {
    let index = part.id;
    Ok(match &part.physical {
        PhysicalIndex::Unique { .. } => vec![Step::Unique(unique::Change::CreateIndex { index })],
        PhysicalIndex::Eq { .. } => vec![Step::ArxEq(arx_eq::Change::CreateIndex { index })],
        PhysicalIndex::Range { .. } => {
            let key = root.child(Purpose::Index(&index.0));
            (protocols::row::<C>(part)?.create)(part, &key, range, random)?
        }
    })
}

/// The step that drops an index on the server; none for one that no build ever made there.
pub fn drop_step(part: &IndexPartRecord) -> Option<Step> {
    let index = part.id;
    match part.physical {
        PhysicalIndex::Unique { .. } => Some(Step::Unique(unique::Change::DropIndex { index })),
        PhysicalIndex::Eq { .. } => Some(Step::ArxEq(arx_eq::Change::DropIndex { index })),
        PhysicalIndex::Range { .. } => protocols::drop_step(part),
    }
}

/// What keyed halves are opened with.
pub struct Opening<'o, C> {
    /// The server.
    pub channel: &'o Arc<C>,
    /// Of all range indexes of the process.
    pub epochs: &'o Arc<Epochs>,
    /// Parameters of range indexes.
    pub range: RangeSettings,
    /// Records that changes of indexes left.
    pub state: &'o dyn State,
    /// Starts of the engine so far, this one included.
    pub starts: u64,
}

impl<C: ServerChannel> Opening<'_, C> {
    /// The keyed half of a part, its client state loaded.
    async fn half(&self, part: &IndexPartRecord, key: Key) -> Result<Arc<dyn EncryptedIndex>, IndexError> {
        let channel = Arc::clone(self.channel);
        Ok(match &part.physical {
            PhysicalIndex::Unique { .. } => Arc::new(UniqueIndex::new(channel, part.id, &key)),
            PhysicalIndex::Eq { .. } => Arc::new(ArxEqIndex::new(channel, part.id, &key)),
            PhysicalIndex::Range { .. } => {
                let epochs = Arc::clone(self.epochs);
                let (range, starts) = (self.range, self.starts);
                let random = self.state.randomness().clone();
                let making = Making { part: part.clone(), key, channel, epochs, range, starts, random };
                (protocols::row(part)?.open)(making, self.state).await?
            }
        })
    }

    /// Takes up a recorded index, without the facts of its documents and what a search service keeps of it.
    ///
    /// # Errors
    /// [`IndexError`] if a part's client state cannot be loaded from the server.
    pub async fn open(
        &self,
        record: &IndexRecord,
        request: IndexDefinition,
        root: &Key,
    ) -> Result<LiveIndex, IndexError> {
        let mut parts = Vec::with_capacity(record.parts.len());
        for part in &record.parts {
            let key = root.child(Purpose::Index(&part.id.0));
            parts.push(Arc::new(IndexPart {
                id: part.id,
                physical: part.physical.clone(),
                sparse: part.sparse,
                facts: LiveFacts::default(),
                sample: LiveSample::default(),
                bucket_factor: part.bucket_factor,
                half: self.half(part, key).await?,
            }));
        }
        Ok(LiveIndex { request, parts, text: None, ready: AtomicBool::new(record.ready) })
    }
}

#[cfg(test)]
pub(crate) mod tests;
