//! What the client keeps of its instances.

use super::instance::InstanceKeys;
use arras_keys::Key;
use arras_protocol::codec;
use arras_protocol::logarithmic_brc::InstanceId;
use arras_protocol::logarithmic_brc::cjjjkrs::Shape;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of the encoding.
const VERSION: u8 = 3;

/// What is kept of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) id: InstanceId,
    pub(super) records: u32,
    pub(super) shape: Shape,
    /// Whether it has one list only, of all its records.
    pub(super) flat: bool,
}

/// An instance and its keys.
pub(super) struct Instance {
    pub(super) facts: Facts,
    pub(super) keys: InstanceKeys,
}

/// The instances, from the oldest to the newest. Only the newest may be flat.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) instances: Vec<Arc<Instance>>,
    /// What the server keeps beside them until the next write: those that the last one replaced.
    pub(super) replaced: Vec<InstanceId>,
}

impl State {
    pub(super) fn ids(&self) -> Vec<InstanceId> {
        self.instances.iter().map(|instance| instance.facts.id).collect()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let facts: Vec<Facts> = self.instances.iter().map(|instance| instance.facts).collect();
        codec::encode(&(VERSION, facts, &self.replaced))
    }

    pub(super) fn decode(bytes: &[u8], [keywords, seals]: &[Key; 2]) -> Option<Self> {
        let (version, facts, replaced) = codec::decode::<(u8, Vec<Facts>, Vec<InstanceId>)>(bytes).ok()?;
        let ordered = facts.iter().rev().skip(1).all(|facts| !facts.flat);
        // Without fences a list could be denied.
        let sound =
            |facts: &Facts| facts.shape.checked().is_some() && (facts.flat || facts.shape.fence_bytes > 0);
        let sound = facts.iter().all(sound);
        if version != VERSION || !ordered || !sound {
            return None;
        }
        let instances = facts
            .into_iter()
            .map(|facts| Arc::new(Instance { facts, keys: InstanceKeys::new(keywords, seals, facts.id) }))
            .collect();
        Some(Self { instances, replaced })
    }
}
