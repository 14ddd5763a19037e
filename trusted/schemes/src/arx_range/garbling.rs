//! Garbling, and the repair that brings new circuits to the server.

use super::directory::{Readiness, Ready};
use super::epoch::{Generation, LinkNonces};
use super::secrets::Place;
use crate::error::IndexError;
use arras_primitives::Block;
use arras_primitives::garble::{self, Comparator};
use arras_protocol::arx_range::{Change, Circuit, CircuitNonce, Side, Transition};
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Channel, IndexId, NodeId, OperationId};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Circuits garbled in lockstep and sent in one write: about 2 MB at a width of 16 bytes.
const BATCH_CIRCUITS: usize = 256;

/// A circuit to be garbled.
pub(super) struct GarbleItem {
    pub(super) node: NodeId,
    pub(super) side: Side,
    pub(super) separator: Place,
    pub(super) nonce: CircuitNonce,
    pub(super) left: Option<CircuitNonce>,
    pub(super) right: Option<CircuitNonce>,
}

/// Garbles circuits of one index, in lockstep.
pub(super) fn garble(generation: &Generation, index: IndexId, items: &[GarbleItem]) -> Vec<Step> {
    let labels: Vec<_> =
        items.iter().map(|item| generation.labels(item.nonce, item.separator.len() * 8)).collect();
    let comparators: Vec<Comparator<'_>> = items
        .iter()
        .zip(&labels)
        .map(|(item, labels)| Comparator {
            nonce: item.nonce.0,
            labels: &labels.inputs,
            carry: labels.carry,
            threshold: &item.separator,
        })
        .collect();
    let garbled = garble::garble(&generation.delta, &comparators);
    let mut steps = Vec::with_capacity(items.len());
    for ((item, labels), garbled) in items.iter().zip(&labels).zip(garbled) {
        let transition = |child: CircuitNonce, outcome: &Block| {
            let inputs = generation.labels(child, labels.inputs.len()).inputs;
            let rows = garble::seal_transition(&item.nonce.0, outcome, &labels.inputs, &inputs);
            Transition { child, rows: rows.into() }
        };
        let links = LinkNonces { own: item.nonce, left: item.left, right: item.right };
        let less = garble::other_label(&garbled.outcome, &generation.delta);
        let circuit = Circuit {
            nonce: item.nonce,
            right_select: garble::select_bit(&garbled.outcome),
            carry: labels.carry,
            left: item.left.map(|child| transition(child, &less)),
            right: item.right.map(|child| transition(child, &garbled.outcome)),
            gates: garbled.gates.into(),
            tag: generation.tag(index, item.node, item.side, &links),
        };
        steps.push(Step::ArxRange(Change::PutCircuit { index, node: item.node, side: item.side, circuit }));
    }
    steps
}

/// A repair that waits to be run.
type Work = Pin<Box<dyn Future<Output = Result<(), IndexError>> + Send>>;

/// What is left to do after an operation: to bring new circuits for those it used.
///
/// Holds the locks of the trees concerned: run it (in a task of its own, once the caller has its results), or drop
/// it; a tree whose repair was dropped or failed is garbled as a whole before its next use. An operation on the
/// same tree, and every change of the index, waits for it.
#[must_use = "run it after the results are returned: until then the trees it concerns are locked"]
pub struct Repair(Option<Work>);

impl std::fmt::Debug for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Repair(needed)" } else { "Repair(not needed)" })
    }
}

impl Repair {
    /// Nothing is to be done.
    pub fn none() -> Self {
        Self(None)
    }

    /// True if running it does something.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.0.is_some()
    }

    /// Runs the repair.
    ///
    /// # Errors
    /// [`IndexError`] if the server did not take the circuits. The index stays right: the trees concerned are
    /// garbled anew when they are next used.
    pub async fn run(self) -> Result<(), IndexError> {
        match self.0 {
            Some(work) => work.await,
            None => Ok(()),
        }
    }

    /// A repair of trees; `held` is dropped when it is over.
    pub(super) fn new<C: Channel<Write> + 'static>(
        channel: Arc<C>,
        index: IndexId,
        generation: Arc<Generation>,
        jobs: Vec<Job>,
        held: impl Send + 'static,
    ) -> Self {
        if jobs.is_empty() {
            return Self::none();
        }
        Self(Some(Box::pin(async move {
            let result = repair(&*channel, index, &generation, jobs).await;
            drop(held);
            result
        })))
    }
}

/// The repair of one tree. Its circuits come children first: the root's last.
pub(super) struct Job {
    pub(super) guard: OwnedMutexGuard<Readiness>,
    pub(super) items: Vec<GarbleItem>,
    /// The tree's readiness when its circuits have arrived.
    pub(super) ready: Ready,
}

async fn repair<C: Channel<Write>>(
    channel: &C,
    index: IndexId,
    generation: &Generation,
    jobs: Vec<Job>,
) -> Result<(), IndexError> {
    let mut batch: Vec<GarbleItem> = Vec::new();
    let mut complete: Vec<(OwnedMutexGuard<Readiness>, Ready)> = Vec::new();
    for job in jobs {
        for item in job.items {
            batch.push(item);
            if batch.len() >= BATCH_CIRCUITS {
                send(channel, garble(generation, index, &batch)).await?;
                batch.clear();
            }
        }
        complete.push((job.guard, job.ready));
        if batch.is_empty() {
            release(&mut complete);
        }
    }
    if !batch.is_empty() {
        send(channel, garble(generation, index, &batch)).await?;
    }
    release(&mut complete);
    Ok(())
}

fn release(complete: &mut Vec<(OwnedMutexGuard<Readiness>, Ready)>) {
    for (mut guard, ready) in complete.drain(..) {
        *guard = Some(ready);
    }
}

async fn send<C: Channel<Write>>(channel: &C, steps: Vec<Step>) -> Result<(), IndexError> {
    let finished_below = OperationId { epoch: 0, sequence: 0 };
    channel.call(write::Request { operation: None, finished_below, acknowledged: 0, steps }).await?;
    Ok(())
}
