//! The attacker who keeps everything: every circuit ever stored, every label ever sent. Opens with them whatever can
//! be opened, also circuits the server has replaced or was never asked to open, and fails the test if one comes to be
//! opened on two inputs: that would reveal delta.

use arras_primitives::Block;
use arras_primitives::garble::{self, Evaluation};
use arras_protocol::arx_range::{Bound, Change, Circuit, CircuitNonce, Request, Walk};
use arras_protocol::write::{self, Step};
use std::collections::HashMap;
use std::sync::Mutex;

#[derive(Default)]
struct Kept {
    circuits: HashMap<CircuitNonce, Circuit>,
    labels: HashMap<CircuitNonce, Vec<Block>>,
    opened: u64,
    put: usize,
}

/// What the attacker has.
#[derive(Default)]
pub(crate) struct Auditor(Mutex<Kept>);

impl Auditor {
    /// Circuits opened so far.
    pub(crate) fn opened(&self) -> u64 {
        self.0.lock().expect("no test panicked here").opened
    }

    /// Circuits sent so far.
    pub(crate) fn put(&self) -> usize {
        self.0.lock().expect("no test panicked here").put
    }

    /// Sees a search go out.
    pub(crate) fn search(&self, request: &Request) {
        let Request::Search { lower, upper, .. } = request else {
            return;
        };
        let mut kept = self.0.lock().expect("no test panicked here");
        for bound in std::iter::once(lower).chain(upper) {
            if let Bound::Walk(Walk { nonce, labels, .. }) = bound {
                let (labels, rest) = labels.as_slice().as_chunks::<16>();
                assert!(rest.is_empty());
                kept.gain(*nonce, labels.to_vec());
            }
        }
    }

    /// Sees a write go out.
    pub(crate) fn write(&self, request: &write::Request) {
        let mut kept = self.0.lock().expect("no test panicked here");
        for step in &request.steps {
            if let Step::ArxRange(Change::PutCircuit { circuit, .. }) = step {
                kept.put += 1;
                let old = kept.circuits.insert(circuit.nonce, circuit.clone());
                assert!(old.is_none_or(|old| old == *circuit), "a nonce names two garblings");
                if let Some(labels) = kept.labels.get(&circuit.nonce).cloned() {
                    kept.open(circuit.nonce, &labels);
                }
            }
        }
    }
}

impl Kept {
    /// Comes into the labels of one input of a circuit.
    fn gain(&mut self, nonce: CircuitNonce, labels: Vec<Block>) {
        match self.labels.get(&nonce) {
            Some(known) => assert!(*known == labels, "a circuit is opened on two inputs"),
            None => {
                self.labels.insert(nonce, labels.clone());
                self.open(nonce, &labels);
            }
        }
    }

    fn open(&mut self, nonce: CircuitNonce, labels: &[Block]) {
        let Some(circuit) = self.circuits.get(&nonce) else {
            return;
        };
        let evaluation =
            Evaluation { nonce: nonce.0, labels, carry: circuit.carry, gates: circuit.gates.as_slice() };
        let outcome = garble::evaluate(&[evaluation]).expect("stored circuits have the right form")[0];
        let right = garble::select_bit(&outcome) == circuit.right_select;
        let transition = if right { &circuit.right } else { &circuit.left };
        self.opened += 1;
        if let Some(transition) = transition {
            let child = transition.child;
            let active = garble::open_transition(&nonce.0, &outcome, transition.rows.as_slice(), labels)
                .expect("stored transitions have the right form");
            self.gain(child, active);
        }
    }
}
