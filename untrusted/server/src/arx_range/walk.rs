//! Walks: input labels in at the root, a bucket out at the end, nothing learnt but the way.

use super::store::{View, damaged, parse_circuit};
use arras_primitives::Block;
use arras_primitives::garble::{self, Evaluation};
use arras_protocol::arx_range::{Bound, CircuitNonce, CircuitRef, PathStep, Side, TreeNode, Walk};
use arras_protocol::{NodeId, Refusal};
use arras_storage::Read;
use bytes::Bytes;

/// Deepest walk. A treap of 2^40 nodes is about a hundred deep; what is deeper runs in circles.
const DEPTH_MAX: usize = 4096;

/// Where a bound led.
pub(super) struct End {
    /// The bucket.
    pub(super) bucket: NodeId,
    /// The way there.
    pub(super) path: Vec<PathStep>,
}

/// A walk under way.
struct Walker<'a> {
    side: Side,
    both_sides: bool,
    /// The bucket it is in if it goes left from here on.
    bucket: NodeId,
    node: NodeId,
    nonce: CircuitNonce,
    labels: Vec<Block>,
    path: Vec<PathStep>,
    walk: &'a Walk,
}

/// What a walker stands before: the node's structure, and its circuit as it is stored.
type Stand = (TreeNode, Bytes);

/// Finds where bounds lead, walking side by side.
pub(super) fn find<R: Read>(view: &View<'_, R>, bounds: &[&Bound]) -> Result<Vec<End>, Refusal> {
    let mut walkers = Vec::new();
    let mut ends: Vec<Option<End>> = Vec::new();
    for (position, bound) in bounds.iter().enumerate() {
        match bound {
            Bound::Bucket(bucket) => ends.push(Some(End { bucket: *bucket, path: Vec::new() })),
            Bound::Walk(walk) => {
                ends.push(None);
                walkers.push((position, Walker::start(view, walk)?));
            }
        }
    }
    while !walkers.is_empty() {
        step(view, &mut walkers, &mut ends)?;
    }
    ends.into_iter().map(|end| end.ok_or_else(|| damaged("a walk without an end"))).collect()
}

/// Takes every walker one node down; those that reach an end leave.
fn step<R: Read>(
    view: &View<'_, R>,
    walkers: &mut Vec<(usize, Walker<'_>)>,
    ends: &mut [Option<End>],
) -> Result<(), Refusal> {
    let (records, stored) = walkers
        .iter()
        .map(|(_, walker)| walker.stand(view))
        .collect::<Result<(Vec<TreeNode>, Vec<Bytes>), Refusal>>()?;
    let circuits = walkers
        .iter()
        .zip(&stored)
        .map(|((_, walker), stored)| walker.expected(parse_circuit(stored)?))
        .collect::<Result<Vec<CircuitRef<'_>>, Refusal>>()?;
    let evaluations: Vec<Evaluation<'_>> = walkers
        .iter()
        .zip(&circuits)
        .map(|((_, walker), circuit)| Evaluation {
            nonce: walker.nonce.0,
            labels: &walker.labels,
            carry: circuit.carry,
            gates: circuit.gates,
        })
        .collect();
    let outcomes = garble::evaluate(&evaluations).map_err(|_| damaged("a circuit's gates"))?;
    let mut going = Vec::with_capacity(walkers.len());
    for ((((position, mut walker), record), circuit), outcome) in
        walkers.drain(..).zip(records).zip(circuits).zip(outcomes)
    {
        if walker.go(view, record, &circuit, &outcome)? {
            going.push((position, walker));
        } else if let Some(end) = ends.get_mut(position) {
            *end = Some(End { bucket: walker.bucket, path: walker.path });
        }
    }
    *walkers = going;
    Ok(())
}

impl<'a> Walker<'a> {
    fn start<R: Read>(view: &View<'_, R>, walk: &'a Walk) -> Result<Self, Refusal> {
        let (labels, rest) = walk.labels.as_slice().as_chunks::<16>();
        if labels.len() != view.bits() || !rest.is_empty() {
            return Err(Refusal::Malformed("labels do not fit the key's width".into()));
        }
        Ok(Self {
            side: walk.side,
            both_sides: walk.both_sides,
            bucket: walk.before,
            node: walk.root,
            nonce: walk.nonce,
            labels: labels.to_vec(),
            path: Vec::new(),
            walk,
        })
    }

    /// Reads the node the walker has come to.
    fn stand<R: Read>(&self, view: &View<'_, R>) -> Result<Stand, Refusal> {
        if self.path.len() >= DEPTH_MAX {
            return Err(damaged("a walk that does not end"));
        }
        let record = match view.node(self.node)? {
            Some(record) => record,
            None if self.node == self.walk.root => return Err(Refusal::Stale { node: self.node }),
            None => return Err(damaged("a child is missing")),
        };
        match view.circuit(self.node, self.side)? {
            Some(circuit) => Ok((record, circuit)),
            None => Err(Refusal::Stale { node: self.node }),
        }
    }

    /// A node's circuit, which must be the one the labels are for.
    fn expected<'c>(&self, circuit: CircuitRef<'c>) -> Result<CircuitRef<'c>, Refusal> {
        if circuit.nonce == self.nonce { Ok(circuit) } else { Err(Refusal::Stale { node: self.node }) }
    }

    /// Goes where the outcome says; false at the end.
    fn go<R: Read>(
        &mut self,
        view: &View<'_, R>,
        record: TreeNode,
        circuit: &CircuitRef<'_>,
        outcome: &Block,
    ) -> Result<bool, Refusal> {
        let went_right = garble::select_bit(outcome) == circuit.right_select;
        let links = Some(circuit.links());
        let other = |side| match self.both_sides {
            true => {
                view.circuit(self.node, side)?.map(|stored| Ok(parse_circuit(&stored)?.links())).transpose()
            }
            false => Ok::<_, Refusal>(None),
        };
        let (lower, upper) = match self.side {
            Side::Lower => (links, other(Side::Upper)?),
            Side::Upper => (other(Side::Lower)?, links),
        };
        let (child, transition) = if went_right {
            self.bucket = self.node;
            (record.right, circuit.right)
        } else {
            (record.left, circuit.left)
        };
        let stale = Refusal::Stale { node: self.node };
        self.path.push(PathStep { node: self.node, record, went_right, lower, upper });
        match (child, transition) {
            (Some(child), Some(transition)) => {
                self.labels = garble::open_transition(&self.nonce.0, outcome, transition.rows, &self.labels)
                    .map_err(|_| damaged("a circuit's transition"))?;
                self.node = child;
                self.nonce = transition.child;
                Ok(true)
            }
            (None, None) => Ok(false),
            // Circuit and structure are of different times.
            _ => Err(stale),
        }
    }
}
