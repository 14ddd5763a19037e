//! What the keeper of a stOPE tree sees is the same for two histories that agree on the order of what is present at the same
//! time (the paper's same-time security), but for bytes that are as good as random.

use super::support::{Counted, Sent, bytes, open, run, settings};
use crate::mope::node::Layout;
use crate::mope::{Kind, Tree};
use arras_protocol::mope::{Head, TreeChange};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// A step, by rank among the values that are present.
#[derive(Clone, Debug)]
enum Step {
    /// New values between two neighbours, or one that is there.
    Insert(prop::sample::Index, usize, bool),
    Remove(prop::sample::Index, usize),
    LookUp(prop::sample::Index, bool),
}

/// Chooses values of the given ranks, in its own way.
struct Chooser {
    present: BTreeMap<u64, u32>,
    /// Out of the gap's length, where a new value comes.
    part: fn(u64) -> u64,
}

impl Chooser {
    /// `count` values between the neighbours of a gap, with room beside them.
    fn between(&self, gap: usize, count: usize) -> Vec<u64> {
        let below = gap.checked_sub(1).and_then(|at| self.present.keys().nth(at)).copied().unwrap_or(0);
        let above = self.present.keys().nth(gap).copied().unwrap_or(u64::MAX);
        let length = (above - below) / (count as u64 + 1);
        if length < 4 {
            return Vec::new();
        }
        (0..count as u64).map(|at| below + at * length + 1 + (self.part)(length - 2)).collect()
    }

    fn rank(&self, at: usize) -> u64 {
        *self.present.keys().nth(at).unwrap()
    }
}

/// What the keeper sees, with every ciphertext, tag and digest replaced by the number of its first sight.
#[derive(Default)]
struct View {
    names: HashMap<Vec<u8>, usize>,
    seen: Vec<String>,
}

impl View {
    fn name(&mut self, random: &[u8]) -> usize {
        let next = self.names.len();
        *self.names.entry(random.to_vec()).or_insert(next)
    }

    fn head(&mut self, head: &Head) -> (Head, usize) {
        let digest = if head.digest == [0; 32] { usize::MAX } else { self.name(&head.digest) };
        (Head { digest: [0; 32], ..*head }, digest)
    }

    fn node(&mut self, layout: &Layout, bytes: &[u8]) -> String {
        let body = layout.decode(bytes).unwrap();
        let ciphertexts: Vec<usize> = body
            .ciphertexts
            .chunks(layout.ciphertext_bytes)
            .map(|ciphertext| self.name(ciphertext))
            .collect();
        let tags: Vec<usize> = body.tags.iter().map(|tag| self.name(tag)).collect();
        format!(
            "{} {ciphertexts:?} {:?} {:?} {:?} {tags:?}",
            body.level, body.labels, body.counts, body.children
        )
    }

    fn change(&mut self, layout: &Layout, change: &TreeChange) {
        let left: Vec<usize> = change.left.iter().map(|left| self.name(left.as_slice())).collect();
        let entered: Vec<(usize, u64)> =
            change.entered.iter().map(|(entered, label)| (self.name(entered.as_slice()), *label)).collect();
        let nodes: Vec<(u64, Option<String>)> = change
            .nodes
            .iter()
            .map(|(node, bytes)| (*node, bytes.as_ref().map(|bytes| self.node(layout, bytes.as_slice()))))
            .collect();
        let head = self.head(&change.head);
        let summaries = &change.summaries;
        self.seen.push(format!("{} {head:?} {nodes:?} {left:?} {summaries:?} {entered:?}", change.expected));
    }

    fn of(tree: &Tree<Counted>) -> Vec<String> {
        let mut view = Self::default();
        for sent in tree.store.sent.as_ref().unwrap().lock().unwrap().iter() {
            match sent {
                Sent::Fetch(fetch) => view.seen.push(format!("{fetch:?}")),
                Sent::Commit(change) => view.change(&tree.layout, change),
            }
        }
        view.seen
    }
}

/// Goes through a history with values chosen in one way; returns the view and the values at each step.
fn history(steps: &[Step], kind: Kind, verified: bool, part: fn(u64) -> u64) -> (Vec<String>, Vec<Vec<u64>>) {
    let store = Counted { sent: Some(std::sync::Arc::default()), ..Counted::default() };
    let tree = open(&store, settings(kind, verified));
    let mut chooser = Chooser { present: BTreeMap::new(), part };
    let mut chosen = Vec::new();
    for step in steps {
        let present = chooser.present.len();
        let values = match step {
            Step::Insert(at, _, true) if present > 0 => vec![chooser.rank(at.index(present))],
            Step::Insert(at, count, _) => chooser.between(at.index(present + 1), *count),
            Step::Remove(..) if present == 0 => Vec::new(),
            Step::Remove(at, count) => {
                let first = at.index(present);
                (first..present.min(first + count)).map(|at| chooser.rank(at)).collect()
            }
            Step::LookUp(at, true) if present > 0 => vec![chooser.rank(at.index(present))],
            Step::LookUp(at, _) => chooser.between(at.index(present + 1), 1),
        };
        match step {
            Step::Insert(..) => {
                run(tree.encode(&bytes(values.iter().copied()))).unwrap();
                values.iter().for_each(|value| *chooser.present.entry(*value).or_default() += 1);
            }
            Step::Remove(..) => {
                run(tree.remove(&bytes(values.iter().copied()))).unwrap();
                for value in &values {
                    *chooser.present.get_mut(value).unwrap() -= 1;
                }
                chooser.present.retain(|_, count| *count > 0);
            }
            Step::LookUp(..) => drop(run(tree.places(&bytes(values.iter().copied()))).unwrap()),
        }
        chosen.push(values);
    }
    (View::of(&tree), chosen)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let insert = (index(), 1..300_usize, prop::bool::weighted(0.2))
        .prop_map(|(at, count, old)| Step::Insert(at, count, old));
    let remove = (index(), 1..200_usize).prop_map(|(at, count)| Step::Remove(at, count));
    let look_up = (index(), any::<bool>()).prop_map(|(at, old)| Step::LookUp(at, old));
    prop::collection::vec(prop_oneof![2 => insert, 1 => remove, 1 => look_up], 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn histories_with_the_same_order_at_the_same_time_look_the_same(steps in steps(), verified: bool) {
        let low = history(&steps, Kind::Stope, verified, |length| length / 5);
        let high = history(&steps, Kind::Stope, verified, |length| length - 1);
        let unequal = low.1.iter().zip(&high.1).any(|(low, high)| low.len() != high.len());
        prop_assume!(!unequal, "a gap had no room in one of them");
        prop_assert_eq!(low.0, high.0);
    }
}

#[test]
fn the_view_shows_the_order_of_what_is_present_and_mope_more() {
    // 3 values, of which the middle one goes and another comes, above or below where it was.
    let view = |kind, back: u64| {
        let store = Counted { sent: Some(std::sync::Arc::default()), ..Counted::default() };
        let tree = open(&store, settings(kind, true));
        run(tree.encode(&bytes([10, 20, 30]))).unwrap();
        run(tree.remove(&bytes([20]))).unwrap();
        run(tree.encode(&bytes([back]))).unwrap();
        View::of(&tree)
    };
    assert_eq!(view(Kind::Stope, 15), view(Kind::Stope, 25));
    assert_eq!(view(Kind::Stope, 15), view(Kind::Stope, 20), "nor does the same value coming back look so");
    assert_ne!(view(Kind::Stope, 15), view(Kind::Stope, 35), "another order");
    assert_ne!(view(Kind::Mope, 15), view(Kind::Mope, 25), "in mOPE the middle one has stayed");
}
