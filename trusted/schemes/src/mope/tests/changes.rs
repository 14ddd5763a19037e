//! Insertions, deletions and look-ups against a sorted map.

use super::support::{Counted, Values, bytes, check, every, open, open_small, run, settings};
use crate::error::IndexError;
use crate::mope::{Form, Kind, Place, Settings, Tree};
use proptest::prelude::*;
use std::ops::Bound;

/// Enters values, in the tree and in the map.
fn insert(tree: &Tree<Counted>, values: &mut Values, batch: &[Vec<u8>]) {
    let stored = run(tree.encode(batch)).unwrap();
    assert_eq!(stored.len(), batch.len());
    for value in batch {
        *values.entry(value.clone()).or_default() += 1;
    }
    for (value, stored) in batch.iter().zip(stored) {
        assert_eq!(run(tree.places(&[value])).unwrap(), [Place::At(stored)]);
    }
}

fn remove(tree: &Tree<Counted>, values: &mut Values, batch: &[Vec<u8>]) {
    run(tree.remove(batch)).unwrap();
    for value in batch {
        let count = values.get_mut(value).unwrap();
        *count -= 1;
        if *count == 0 {
            values.remove(value);
        }
    }
}

/// Look-ups of values that are there and of others.
fn look_up(tree: &Tree<Counted>, values: &Values, sought: &[Vec<u8>]) {
    let stored = check(tree, values);
    let rank =
        |value: &Vec<u8>| values.range::<Vec<u8>, _>((Bound::Unbounded, Bound::Excluded(value))).count();
    let before = tree.store.store.kept().head;
    for (value, place) in sought.iter().zip(run(tree.places(sought)).unwrap()) {
        let rank = rank(value);
        let expected = if values.contains_key(value) {
            Place::At(stored[rank].clone())
        } else {
            let below = rank.checked_sub(1).map(|below| stored[below].clone());
            Place::Between { below, above: stored.get(rank).cloned() }
        };
        assert_eq!(place, expected);
    }
    assert_eq!(tree.store.store.kept().head, before, "a look-up changes nothing");
}

#[test]
fn an_empty_tree_has_no_neighbours_and_becomes_empty_again() {
    for settings in every() {
        let tree = open(&Counted::default(), settings);
        let nothing: [&[u8]; 0] = [];
        assert_eq!(run(tree.encode(&nothing)).unwrap(), []);
        look_up(&tree, &Values::new(), &bytes([0, 5, u64::MAX]));
        let mut values = Values::new();
        insert(&tree, &mut values, &bytes(0..1000));
        if settings.kind == Kind::Stope {
            remove(&tree, &mut values, &bytes(0..1000));
            look_up(&tree, &values, &bytes([3]));
            insert(&tree, &mut values, &bytes([4]));
        } else {
            run(tree.remove(&bytes(0..1000))).unwrap();
        }
        check(&tree, &values);
    }
}

#[test]
fn what_is_not_there_is_not_removed_and_other_lengths_are_refused() {
    let tree = open(&Counted::default(), settings(Kind::Stope, true));
    run(tree.encode(&bytes([1, 1, 2]))).unwrap();
    for removed in [bytes([3]), bytes([2, 2])] {
        assert!(matches!(run(tree.remove(&removed)), Err(IndexError::Caller(_))));
    }
    assert!(matches!(run(tree.encode(&[[1; 7]])), Err(IndexError::Caller(_))));
    check(&tree, &Values::from([(bytes([1])[0].clone(), 2), (bytes([2])[0].clone(), 1)]));
}

#[test]
fn nodes_whose_siblings_all_go_are_joined_with_the_next_of_their_level() {
    for verified in [false, true] {
        for kept in [7, 40, 130, 300, 999] {
            let tree = open_small(&Counted::default(), settings(Kind::Stope, verified));
            let mut values = Values::new();
            for from in (0..1000).step_by(100) {
                insert(&tree, &mut values, &bytes(from..from + 100));
            }
            remove(&tree, &mut values, &bytes((0..1000).filter(|value| value % kept != 0)));
            look_up(&tree, &values, &bytes([0, 1, kept, kept + 1, 1000]));
        }
    }
}

#[test]
fn a_client_that_saw_all_of_an_inner_node_go_looks_up_what_is_beside_it() {
    let tree = open_small(&Counted::default(), settings(Kind::Stope, false));
    let mut values = Values::new();
    insert(&tree, &mut values, &bytes(0..1000));
    for from in (0..8).rev().map(|part| 125 * part) {
        remove(&tree, &mut values, &bytes(from..from + 125));
        look_up(&tree, &values, &bytes((0..1001).step_by(10)));
    }
}

#[test]
fn a_replaced_last_occurrence_keeps_the_key_and_one_that_comes_back_is_new() {
    let tree = open(&Counted::default(), settings(Kind::Stope, false));
    let first = run(tree.encode(&bytes([1, 2, 3]))).unwrap();
    let staged = run(tree.stage(&bytes([2]), &bytes([2]))).unwrap();
    assert_eq!(staged.stored(), &first[1..2]);
    drop(staged);
    run(tree.remove(&bytes([2]))).unwrap();
    let again = run(tree.encode(&bytes([2]))).unwrap();
    assert_ne!(again[0].ciphertext, first[1].ciphertext, "a fresh nonce");
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u64>),
    /// Places among the values that are there.
    Remove(Vec<prop::sample::Index>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let few = prop::collection::vec(0..4000_u64, 1..4);
    let run = (any::<u32>(), 1..600_u64)
        .prop_map(|(from, length)| (0..length).map(|at| u64::from(from) + at).collect::<Vec<_>>());
    let many = prop::collection::vec(0..4000_u64, 1..700);
    let all = prop::collection::vec(any::<u64>(), 1..300);
    let insert = prop_oneof![3 => few, 1 => run, 2 => many, 1 => all].prop_map(Step::Insert);
    let remove = prop::collection::vec(any::<prop::sample::Index>(), 1..500).prop_map(Step::Remove);
    prop::collection::vec(prop_oneof![2 => insert, 1 => remove], 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_history_gives_what_a_sorted_map_has(
        steps in steps(), verified: bool, stope: bool, small: bool,
    ) {
        let kind = if stope { Kind::Stope } else { Kind::Mope };
        let open = if small { open_small } else { open };
        let tree = open(&Counted::default(), settings(kind, verified));
        let mut values = Values::new();
        for step in steps {
            match step {
                Step::Insert(new) => insert(&tree, &mut values, &bytes(new)),
                Step::Remove(_) if !stope || values.is_empty() => {}
                Step::Remove(places) => {
                    let mut left = values.clone();
                    let mut gone = Vec::new();
                    for place in places {
                        if left.is_empty() {
                            break;
                        }
                        let value = left.keys().nth(place.index(left.len())).unwrap().clone();
                        let count = left.get_mut(&value).unwrap();
                        *count -= 1;
                        if *count == 0 {
                            left.remove(&value);
                        }
                        gone.push(value);
                    }
                    remove(&tree, &mut values, &gone);
                }
            }
            check(&tree, &values);
        }
        let sought: Vec<u64> = (0..4000).step_by(7).chain([u64::MAX]).collect();
        look_up(&tree, &values, &bytes(sought));
        // A client that remembers nothing finds the same.
        let other = open(&tree.store, settings(kind, verified));
        look_up(&other, &values, &bytes([0, 17, 4001]));
    }

    #[test]
    fn mixed_changes_of_one_stage_are_applied_together(
        first in prop::collection::btree_set(0..900_u64, 1..600),
        gone in prop::collection::btree_set(0..900_u64, 0..600),
        come in prop::collection::vec(0..900_u64, 0..600),
    ) {
        let tree = open(&Counted::default(), settings(Kind::Stope, true));
        let mut values = Values::new();
        let first: Vec<u64> = first.into_iter().collect();
        insert(&tree, &mut values, &bytes(first.iter().copied()));
        let gone: Vec<u64> = gone.into_iter().filter(|value| first.contains(value)).collect();
        let mut staged = run(tree.stage(&bytes(come.iter().copied()), &bytes(gone.iter().copied()))).unwrap();
        let before = tree.store.store.kept().head;
        if let Some(change) = staged.take() {
            prop_assert!(tree.store.store.kept().apply(change).unwrap());
        } else {
            prop_assert!(come == gone || come.is_empty() && gone.is_empty() || tree.store.store.kept().head == before);
        }
        let stored = staged.finish();
        prop_assert_eq!(stored.len(), come.len());
        for value in bytes(gone) {
            *values.get_mut(&value).unwrap() -= 1;
        }
        for value in bytes(come) {
            *values.entry(value).or_default() += 1;
        }
        values.retain(|_, count| *count > 0);
        check(&tree, &values);
    }

    #[test]
    fn long_values_and_texts_work_the_same(
        texts in prop::collection::vec("[ab]{0,9}", 1..400), kind: bool,
    ) {
        let kind = if kind { Kind::Mope } else { Kind::Stope };
        let values_of: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
        let tree = open(&Counted::default(), Settings { form: Form::Text(9), kind, verified: true });
        let mut values = Values::new();
        for batch in values_of.chunks(60) {
            insert(&tree, &mut values, batch);
        }
        let sought: Vec<Vec<u8>> = values.keys().map(|text| [&text[..text.len().min(8)], b"a"].concat()).collect();
        look_up(&tree, &values, &sought);
    }
}
