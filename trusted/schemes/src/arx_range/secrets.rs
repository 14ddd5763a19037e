//! What an index's key makes: places, separators, priorities, and the sealing of records.

use super::ArxRangeParameters;
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::prf::Prf;
use arras_protocol::{Blob, IndexId, NodeId, RowId};

/// Bytes of the tie-break that tells equal keys apart.
pub(super) const TIE_BYTES: usize = 4;

/// Where an entry stands: its key, then its tie-break. What circuits compare.
pub(super) type Place = Box<[u8]>;

/// What a sealed record is: part of its associated data.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Added,
    Bucket,
    Head,
    Node,
    Top,
}

impl Kind {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Added => b"arx_range added",
            Self::Bucket => b"arx_range bucket",
            Self::Head => b"arx_range head",
            Self::Node => b"arx_range node",
            Self::Top => b"arx_range top",
        }
    }
}

/// Functions of an index's key that do not depend on the epoch.
pub(super) struct Secrets {
    pub(super) index: IndexId,
    pub(super) parameters: ArxRangeParameters,
    seal: Aead,
    separators: Prf,
    priorities: Prf,
    ties: Prf,
    /// What generations derive from.
    pub(super) label: Key,
    pub(super) delta: Key,
}

impl Secrets {
    pub(super) fn new(index: IndexId, keys: &Key, parameters: ArxRangeParameters) -> Self {
        let prf = |purpose| Prf::new(keys.child(purpose).expose_16());
        Self {
            index,
            parameters,
            seal: Aead::new(keys.child(Purpose::ArxRangeSeal).expose()),
            separators: prf(Purpose::ArxRangeSeparator),
            priorities: prf(Purpose::ArxRangePriority),
            ties: prf(Purpose::ArxRangeTie),
            label: keys.child(Purpose::ArxRangeLabel),
            delta: keys.child(Purpose::ArxRangeDelta),
        }
    }

    /// Where `row` stands under a value.
    pub(super) fn place(&self, value: &[u8], row: RowId) -> Place {
        let tie = self.ties.block(row.as_bytes());
        value.iter().chain(tie.iter().take(TIE_BYTES)).copied().collect()
    }

    /// True for one place in `bucket_factor`. Never for the lowest place of all, so that every separator has a
    /// place below it.
    pub(super) fn is_separator(&self, place: &[u8]) -> bool {
        let factor = self.parameters.bucket_factor.max(1);
        first_u64(self.separators.mac(place)).is_multiple_of(factor) && place.iter().any(|byte| *byte != 0)
    }

    /// Treap priority of a separator.
    pub(super) fn priority(&self, separator: &[u8]) -> u64 {
        first_u64(self.priorities.mac(separator))
    }

    fn associated(&self, kind: Kind, node: NodeId) -> Vec<u8> {
        [kind.name(), self.index.as_bytes(), node.as_bytes()].concat()
    }

    /// Seals a record of a node.
    pub(super) fn seal(&self, kind: Kind, node: NodeId, nonce: &[u8; NONCE_BYTES], plaintext: &[u8]) -> Blob {
        self.seal.seal(nonce, &self.associated(kind, node), plaintext).into()
    }

    /// Opens a record of a node.
    pub(super) fn open(&self, kind: Kind, node: NodeId, sealed: &Blob) -> Result<Vec<u8>, OpenFailed> {
        self.seal.open(&self.associated(kind, node), sealed.as_slice()).map_err(|_| OpenFailed)
    }
}

fn first_u64(block: [u8; 16]) -> u64 {
    let (halves, _) = block.as_chunks::<8>();
    u64::from_be_bytes(halves[0])
}

/// The place just below; `None` below the lowest.
pub(super) fn place_before(place: &[u8]) -> Option<Place> {
    let mut before: Place = place.into();
    for byte in before.iter_mut().rev() {
        if *byte == 0 {
            *byte = u8::MAX;
        } else {
            *byte -= 1;
            return Some(before);
        }
    }
    None
}
