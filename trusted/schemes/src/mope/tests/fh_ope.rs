//! FH-OPE: keys of occurrences against a sorted list, what of equality shows, and a keeper that lies about labels.

use super::support::{Counted, Values, bytes, check, open, open_small, run, settings};
use crate::error::IndexError;
use crate::mope::{Form, Kind, Place, Settings, Stored, Tree};
use crate::random::Randomness;
use arras_protocol::Blob;
use arras_protocol::mope::Label;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is in a tree: ciphertexts and whose they are.
type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

fn insert(tree: &Tree<Counted>, keys: &mut Keys, batch: &[Vec<u8>]) -> Vec<Stored> {
    let stored = run(tree.encode(batch)).unwrap();
    assert_eq!(stored.len(), batch.len());
    for (value, stored) in batch.iter().zip(&stored) {
        assert_eq!(&tree.value(&stored.ciphertext).unwrap(), value);
        assert!(keys.insert(stored.ciphertext.as_slice().to_vec(), value.clone()).is_none(), "a key twice");
    }
    stored
}

fn counted(keys: &Keys) -> Values {
    let mut values = Values::new();
    keys.values().for_each(|value| *values.entry(value.clone()).or_default() += 1);
    values
}

/// Checks all that is kept, and looks values up that are there and others.
fn look_up(tree: &Tree<Counted>, keys: &Keys, sought: &[Vec<u8>]) {
    let stored = check(tree, &counted(keys));
    let values: Vec<Vec<u8>> = stored.iter().map(|stored| tree.value(&stored.ciphertext).unwrap()).collect();
    let before = tree.store.store.kept().head;
    let places = run(tree.places(sought)).unwrap();
    assert_eq!(places.len(), sought.len());
    for (value, place) in sought.iter().zip(places) {
        let from = values.partition_point(|other| other < value);
        let until = values.partition_point(|other| other <= value);
        let below = from.checked_sub(1).map(|at| stored[at].clone());
        let above = stored.get(until).cloned();
        let expected = match from < until {
            true => {
                Place::Among { below, first: stored[from].clone(), last: stored[until - 1].clone(), above }
            }
            false => Place::Between { below, above },
        };
        assert_eq!(place, expected);
    }
    assert_eq!(tree.store.store.kept().head, before, "a look-up changes nothing");
    assert!(run(tree.holds(&stored)).unwrap().into_iter().all(|held| held));
    let wrong = stored.windows(2).map(|pair| Stored { label: pair[1].label, ..pair[0].clone() });
    assert!(run(tree.holds(&wrong.collect::<Vec<_>>())).unwrap().into_iter().all(|held| !held));
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u64>),
    /// Places among the keys that are there.
    Remove(Vec<prop::sample::Index>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let few = prop::collection::vec(0..6_u64, 1..4);
    let one = (0..6_u64, 1..700_usize).prop_map(|(value, times)| vec![value; times]);
    let many = prop::collection::vec(0..300_u64, 1..700);
    let insert = prop_oneof![3 => few, 1 => one, 2 => many].prop_map(Step::Insert);
    let remove = prop::collection::vec(any::<prop::sample::Index>(), 1..400).prop_map(Step::Remove);
    prop::collection::vec(prop_oneof![2 => insert, 1 => remove], 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_history_gives_what_a_sorted_list_has(
        steps in steps(), verified: bool, long: bool, small: bool,
    ) {
        let open = if small { open_small } else { open };
        let form = if long { Form::Text(9) } else { Form::Fixed(8) };
        let settings = Settings { form, kind: Kind::FrequencyHiding, verified };
        let tree = open(&Counted::default(), settings);
        let mut keys = Keys::new();
        for step in steps {
            match step {
                Step::Insert(new) => {
                    insert(&tree, &mut keys, &bytes(new));
                }
                Step::Remove(places) => {
                    let all: Vec<Vec<u8>> = keys.keys().cloned().collect();
                    let gone = places.iter().filter(|_| !all.is_empty()).map(|place| &all[place.index(all.len())]);
                    // Some of them twice.
                    let gone: Vec<Blob> = gone.map(|ciphertext| Blob(ciphertext.clone())).collect();
                    assert!(run(tree.remove_stored(&gone, Duration::ZERO)).unwrap());
                    gone.iter().for_each(|ciphertext| { keys.remove(ciphertext.as_slice()); });
                    // What has gone is passed over.
                    assert!(run(tree.remove_stored(&gone[..gone.len().min(3)], Duration::ZERO)).unwrap());
                }
            }
            check(&tree, &counted(&keys));
        }
        let sought = bytes((0..310).step_by(3).chain(0..7).chain([u64::MAX]));
        look_up(&tree, &keys, &sought);
        look_up(&open(&tree.store, settings), &keys, &sought[..9]);
    }
}

#[test]
fn equal_values_one_by_one_have_keys_of_their_own_at_random_places() {
    let tree = open(&Counted::default(), settings(Kind::FrequencyHiding, true));
    let mut keys = Keys::new();
    insert(&tree, &mut keys, &bytes([1, 1, 9, 9]));
    let mut labels: Vec<Blob> = Vec::new();
    for _ in 0..1500 {
        labels.push(insert(&tree, &mut keys, &bytes([5])).remove(0).ciphertext);
    }
    look_up(&tree, &keys, &bytes([0, 1, 4, 5, 6, 9, 10]));
    let label_of = |ciphertext: &Blob| tree.store.store.kept().table[ciphertext.as_slice()];
    let labels: Vec<Label> = labels.iter().map(label_of).collect();
    let rises = labels.windows(2).filter(|pair| pair[0] < pair[1]).count();
    // Of 1,500 in random order half, and eight deviations.
    assert!((500..1000).contains(&rises), "{rises}: in the order in which they came, or against it");
}

#[test]
fn every_order_of_equal_values_comes_about_in_a_batch_and_one_by_one() {
    for batch in [false, true] {
        let mut seen = BTreeSet::new();
        // One of six is missed with a probability of less than 10^-14.
        for _ in 0..200 {
            let tree = open(&Counted::default(), settings(Kind::FrequencyHiding, false));
            let values = bytes([7, 7, 7]);
            let stored: Vec<Stored> = if batch {
                run(tree.encode(&values)).unwrap()
            } else {
                values.iter().map(|value| run(tree.encode(&[value])).unwrap().remove(0)).collect()
            };
            let labels: Vec<Label> = stored.iter().map(|stored| stored.label).collect();
            let mut order = [0, 1, 2];
            order.sort_by_key(|at| labels[*at]);
            seen.insert(order);
        }
        assert_eq!(seen.len(), 6, "batch: {batch}");
    }
}

/// What the keeper has, ciphertexts and tags aside: labels, and lengths of nodes.
fn snapshot(values: &[u64]) -> (Vec<Label>, Vec<usize>) {
    let settings = settings(Kind::FrequencyHiding, true);
    let key = super::support::key();
    let store = Counted::default();
    let tree = Tree::open(store.clone(), &key, settings, None, Randomness::default()).unwrap();
    for part in values.chunks(400) {
        run(tree.encode(&bytes(part.iter().copied()))).unwrap();
    }
    let kept = store.store.kept();
    let mut lengths: Vec<usize> = kept.nodes.values().map(Blob::len).collect();
    lengths.sort_unstable();
    (kept.order.keys().copied().collect(), lengths)
}

#[test]
fn a_batch_of_equal_values_looks_as_one_of_different_values_does() {
    let different: Vec<u64> = (0..400).collect();
    assert_eq!(snapshot(&[3; 400]), snapshot(&different));
    assert_eq!(snapshot(&[0; 400]).0.len(), 400);
}

#[test]
fn a_label_of_another_key_is_found_out_when_a_key_is_removed() {
    let tree = open(&Counted::default(), settings(Kind::FrequencyHiding, true));
    let mut keys = Keys::new();
    let stored = insert(&tree, &mut keys, &bytes((0..600).map(|at| at / 100)));
    let [one, other] = [&stored[3], &stored[4]];
    tree.store.store.kept().table.insert(one.ciphertext.as_slice().into(), other.label);
    let removed = run(tree.remove_stored(std::slice::from_ref(&one.ciphertext), Duration::ZERO));
    assert!(matches!(removed, Err(IndexError::Contradicted(_))), "{removed:?}");
    tree.store.store.kept().table.insert(one.ciphertext.as_slice().into(), one.label);
    look_up(&tree, &keys, &bytes([0, 3, 7]));
}
