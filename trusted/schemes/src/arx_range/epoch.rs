//! Epochs: what makes sure that no circuit is ever opened twice, whatever crashes.
//!
//! A garbling is named by a nonce: AES, under a key of this process, of the epoch, which the proxy raises durably at
//! every start, and a counter that never falls while the process lives. So a nonce comes once, and a stored one does
//! not tell when it was made: a snapshot shows no history of walks. Labels, delta and link tags of an index are of one *generation*: they
//! derive from the epoch and from salt drawn anew when a generation begins. So a proxy whose own store was set
//! back (a restored backup) and which comes to an epoch again still makes labels nobody has seen.

use super::secrets::Secrets;
use crate::random::Randomness;
use arras_keys::Key;
use arras_primitives::Block;
use arras_primitives::garble::{delta_from, derive_labels, encode};
use arras_primitives::prf::Prf;
use arras_protocol::arx_range::{CircuitNonce, Links, Side};
use arras_protocol::{Blob, IndexId, NodeId};
use rand::Rng;
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

/// The proxy's source of circuit nonces, shared by its indexes.
#[derive(Debug)]
pub struct Epochs {
    /// Epoch, and the next counter in it.
    state: Mutex<(u64, u64)>,
    /// Permutes them into nonces: what is stored must not tell in which order it was made.
    permutation: Prf,
}

impl Epochs {
    /// Starts in an epoch in which no circuit was garbled before.
    #[must_use]
    pub fn new(epoch: u64) -> Self {
        Self::with(epoch, &Randomness::default())
    }

    /// The same, with a key from `random`.
    #[must_use]
    pub fn with(epoch: u64, random: &Randomness) -> Self {
        let mut material = Zeroizing::new([0; Key::BYTES]);
        random.rng().fill_bytes(&mut *material);
        let key = Key::take_from(&mut material);
        Self { state: Mutex::new((epoch, 0)), permutation: Prf::new(key.expose_16()) }
    }

    /// Goes on in a later epoch; without effect if `epoch` is not later. Indexes follow when told
    /// ([`super::ArxRange::new_epoch`]).
    pub fn raise(&self, epoch: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = state.0.max(epoch);
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// A nonce that was never given before.
    pub(super) fn next(&self) -> CircuitNonce {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (epoch, counter) = *state;
        state.1 += 1;
        let place = ((u128::from(epoch) << 64) | u128::from(counter)).to_be_bytes();
        CircuitNonce(self.permutation.block(&place))
    }
}

/// Labels for 0 of a circuit's inputs, and of its carry input.
pub(super) struct Labels {
    pub(super) inputs: Zeroizing<Vec<Block>>,
    pub(super) carry: Block,
}

/// What one generation of an index's circuits is made with.
pub(super) struct Generation {
    /// Counts generations of this index in this process: circuits of another do not chain with these.
    pub(super) number: u64,
    labels: Key,
    pub(super) delta: Zeroizing<Block>,
    tags: Prf,
}

impl Generation {
    pub(super) fn new(secrets: &Secrets, epoch: u64, salt: [u8; 16], number: u64) -> Self {
        let epoch = epoch.to_be_bytes();
        let label = &secrets.label;
        let delta = secrets.delta.derive(&[&epoch, &salt]);
        Self {
            number,
            labels: label.derive(&[b"labels", &epoch, &salt]),
            delta: Zeroizing::new(delta_from(delta.expose_16())),
            tags: Prf::new(label.derive(&[b"links", &epoch, &salt]).expose_16()),
        }
    }

    /// Labels of a garbling.
    pub(super) fn labels(&self, nonce: CircuitNonce, bits: usize) -> Labels {
        let (inputs, carry) = derive_labels(self.labels.expose_16(), &nonce.0, bits);
        Labels { inputs: Zeroizing::new(inputs), carry }
    }

    /// Active labels of `place`: the capability to walk it down from the circuit `nonce`. One place a nonce.
    pub(super) fn open(&self, nonce: CircuitNonce, place: &[u8]) -> Blob {
        let labels = self.labels(nonce, place.len() * 8);
        encode(&labels.inputs, &self.delta, place).into_flattened().into()
    }

    /// Tag of a circuit's links.
    pub(super) fn tag(&self, index: IndexId, node: NodeId, side: Side, links: &LinkNonces) -> [u8; 16] {
        let child = |child: Option<CircuitNonce>| match child {
            Some(CircuitNonce(nonce)) => [[1; 16], nonce].concat(),
            None => vec![0; 32],
        };
        let side = match side {
            Side::Lower => [0],
            Side::Upper => [1],
        };
        let parts: [&[u8]; 6] =
            [index.as_bytes(), node.as_bytes(), &side, &links.own.0, &child(links.left), &child(links.right)];
        self.tags.mac(&parts.concat())
    }

    /// True if these links are of this generation's circuit `own` at that node.
    pub(super) fn authentic(&self, index: IndexId, node: NodeId, side: Side, links: &Links) -> bool {
        let nonces = LinkNonces { own: links.nonce, left: links.left, right: links.right };
        arras_primitives::ct::equal(&self.tag(index, node, side, &nonces), &links.tag)
    }
}

/// The garblings a circuit connects.
pub(super) struct LinkNonces {
    pub(super) own: CircuitNonce,
    pub(super) left: Option<CircuitNonce>,
    pub(super) right: Option<CircuitNonce>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn nonces_come_once_and_show_neither_epoch_nor_order() {
        let epochs = Epochs::new(1);
        let nonces: Vec<[u8; 16]> = (0..1000).map(|_| epochs.next().0).collect();
        assert_eq!(nonces.iter().collect::<BTreeSet<_>>().len(), nonces.len());
        let rising = nonces.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&rising), "{rising} of 999 steps rise");
        let starts: BTreeSet<[u8; 8]> =
            nonces.iter().filter_map(|nonce| nonce.first_chunk().copied()).collect();
        assert!(starts.len() > 990);
    }

    #[test]
    fn an_epoch_that_comes_again_names_other_garblings() {
        let (first, second) = (Epochs::new(7), Epochs::new(7));
        assert_ne!(first.next(), second.next());
    }
}
