//! Indexes in memory: the definition, and the keyed halves that serve it.

use super::catalog::{IndexRecord, PartRecord};
use super::channel::ServerChannel;
use super::facts::LiveFacts;
use arras_keys::{Key, Purpose};
use arras_planner::physical::PhysicalIndex;
use arras_protocol::write::Step;
use arras_protocol::{IndexId, arx_eq, unique};
use arras_schemes::arx_eq::ArxEq;
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs};
use arras_schemes::contract::EncryptedIndex;
use arras_schemes::error::IndexError;
use arras_schemes::unique::UniqueLabels;
use arras_service::store::IndexRequest;
use rand::SeedableRng;
use rand::rngs::StdRng;
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
}

impl Default for RangeSettings {
    fn default() -> Self {
        Self { bucket_factor: 32, top_nodes: 1024 }
    }
}

/// An index the application asked for.
pub struct LiveIndex {
    /// The request.
    pub request: IndexRequest,
    /// What was made for it. What else serves it is another index's: see [`super::declared`].
    pub parts: Vec<Arc<Part>>,
    /// False while it is being filled: written to, not read.
    pub ready: AtomicBool,
}

/// One encrypted index.
pub struct Part {
    /// Its name on the server.
    pub id: IndexId,
    /// What it holds.
    pub physical: PhysicalIndex,
    /// Documents without any of its fields are left out.
    pub sparse: bool,
    /// What its documents are like.
    pub facts: LiveFacts,
    /// See [`PartRecord::bucket_factor`].
    pub bucket_factor: u64,
    /// The keyed half.
    pub half: Arc<dyn EncryptedIndex>,
}

/// Parameters of a range index; none for the others.
fn parameters(part: &PartRecord, top_nodes: usize) -> Option<ArxRangeParameters> {
    let PhysicalIndex::Range { aggregates, .. } = &part.physical else {
        return None;
    };
    Some(ArxRangeParameters {
        key_bytes: part.physical.key_bytes()?,
        bucket_factor: part.bucket_factor,
        top_nodes,
        sums: aggregates.as_ref().map_or(0, Vec::len),
        aggregates: aggregates.is_some(),
    })
}

/// The steps that make an empty index on the server.
pub fn create_steps(part: &PartRecord, root: &Key, top_nodes: usize) -> Vec<Step> {
    let index = part.id;
    match &part.physical {
        PhysicalIndex::Unique { .. } => vec![Step::Unique(unique::Change::CreateIndex { index })],
        PhysicalIndex::Eq { .. } => vec![Step::ArxEq(arx_eq::Change::CreateIndex { index })],
        PhysicalIndex::Range { .. } => {
            let key = root.child(Purpose::Index(&index.0));
            parameters(part, top_nodes)
                .map(|parameters| ArxRange::<()>::create(index, &key, parameters, &mut rand::rng()))
                .unwrap_or_default()
        }
    }
}

/// The step that drops an index on the server.
pub fn drop_step(part: &PartRecord) -> Step {
    let index = part.id;
    match part.physical {
        PhysicalIndex::Unique { .. } => Step::Unique(unique::Change::DropIndex { index }),
        PhysicalIndex::Eq { .. } => Step::ArxEq(arx_eq::Change::DropIndex { index }),
        PhysicalIndex::Range { .. } => Step::ArxRange(arras_protocol::arx_range::Change::DropIndex { index }),
    }
}

/// What keyed halves are opened with.
pub struct Opening<'o, C> {
    /// The server.
    pub channel: &'o Arc<C>,
    /// Of all range indexes of the process.
    pub epochs: &'o Arc<Epochs>,
    /// Separators of a range index that the proxy keeps in the clear.
    pub top_nodes: usize,
}

impl<C: ServerChannel> Opening<'_, C> {
    /// The keyed half of a part, its client state loaded.
    async fn half(&self, part: &PartRecord, key: &Key) -> Result<Arc<dyn EncryptedIndex>, IndexError> {
        Ok(match &part.physical {
            PhysicalIndex::Unique { .. } => Arc::new(UniqueLabels::new(part.id, key)),
            PhysicalIndex::Eq { .. } => Arc::new(ArxEq::new(part.id, key)),
            PhysicalIndex::Range { .. } => {
                let without_width = IndexError::Caller("a range index whose keys have no width");
                let parameters = parameters(part, self.top_nodes).ok_or(without_width)?;
                let mut rng = StdRng::from_rng(&mut rand::rng());
                let (channel, epochs) = (Arc::clone(self.channel), Arc::clone(self.epochs));
                ArxRange::open(channel, part.id, key, parameters, epochs, &mut rng).await?
            }
        })
    }

    /// Takes up a recorded index, without the facts of its documents.
    ///
    /// # Errors
    /// [`IndexError`] if a part's client state cannot be loaded from the server.
    pub async fn open(
        &self,
        record: &IndexRecord,
        request: IndexRequest,
        root: &Key,
    ) -> Result<LiveIndex, IndexError> {
        let mut parts = Vec::with_capacity(record.parts.len());
        for part in &record.parts {
            let key = root.child(Purpose::Index(&part.id.0));
            parts.push(Arc::new(Part {
                id: part.id,
                physical: part.physical.clone(),
                sparse: part.sparse,
                facts: LiveFacts::default(),
                bucket_factor: part.bucket_factor,
                half: self.half(part, &key).await?,
            }));
        }
        Ok(LiveIndex { request, parts, ready: AtomicBool::new(record.ready) })
    }
}
