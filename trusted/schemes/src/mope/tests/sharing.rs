//! Several clients of one tree, and what is left of a change that nobody finished.

use super::support::{Counted, Values, bytes, check, open, run, settings};
use crate::mope::{Kind, Place, Tree};

fn values(of: impl IntoIterator<Item = u64>) -> Values {
    bytes(of).into_iter().map(|value| (value, 1)).collect()
}

fn is_there(tree: &Tree<Counted>, value: u64) -> bool {
    matches!(run(tree.places(&bytes([value]))).unwrap()[0], Place::At(_))
}

#[test]
fn two_clients_take_turns_and_see_each_others_values() {
    for verified in [false, true] {
        let store = Counted::default();
        let (one, other) =
            (open(&store, settings(Kind::Mope, verified)), open(&store, settings(Kind::Mope, verified)));
        for value in 0..600 {
            let (writer, reader) = if value % 2 == 0 { (&one, &other) } else { (&other, &one) };
            run(writer.encode(&bytes([value * 7 % 1000]))).unwrap();
            assert!(is_there(reader, value * 7 % 1000));
        }
        check(&one, &values((0..600).map(|value| value * 7 % 1000)));
    }
}

#[test]
fn a_change_that_another_writer_overtook_is_worked_out_again() {
    let store = Counted::default();
    let (one, other) = (open(&store, settings(Kind::Mope, true)), open(&store, settings(Kind::Mope, true)));
    run(one.encode(&bytes(0..500))).unwrap();
    let mut staged = run(other.stage(&bytes([1000]), &[])).unwrap();
    run(one.encode(&bytes([2000]))).unwrap();
    let change = staged.take().unwrap();
    assert!(!store.store.kept().apply(change).unwrap());
    drop(staged);
    run(other.encode(&bytes([1000]))).unwrap();
    check(&other, &values((0..500).chain([1000, 2000])));
}

#[test]
fn a_dropped_change_may_have_been_applied_or_not() {
    for applied in [false, true] {
        for verified in [false, true] {
            let store = Counted::default();
            let tree = open(&store, settings(Kind::Mope, verified));
            run(tree.encode(&bytes(0..300))).unwrap();
            let mut staged = run(tree.stage(&bytes([777]), &[])).unwrap();
            let change = staged.take().unwrap();
            if applied {
                assert!(store.store.kept().apply(change).unwrap());
            }
            drop(staged);
            assert_eq!(is_there(&tree, 777), applied);
            run(tree.encode(&bytes([778]))).unwrap();
            check(&tree, &values((0..300).chain(applied.then_some(777)).chain([778])));
        }
    }
}

#[test]
fn readers_do_not_wait_for_a_staged_change_and_see_it_once_it_is_applied() {
    for verified in [false, true] {
        let store = Counted::default();
        let tree = open(&store, settings(Kind::Mope, verified));
        run(tree.encode(&bytes(0..5000))).unwrap();
        let mut staged = run(tree.stage(&bytes([9000]), &[])).unwrap();
        assert!(!is_there(&tree, 9000));
        let change = staged.take().unwrap();
        assert!(store.store.kept().apply(change).unwrap());
        assert!(is_there(&tree, 9000), "the store has it, though the writer does not know yet");
        let _ = staged.finish();
        store.rounds();
        assert!(is_there(&tree, 9000));
        assert_eq!(store.rounds(), 1, "and what was cached stays so");
    }
}

#[test]
fn a_value_takes_one_round_and_a_batch_no_more_than_the_tree_has_levels() {
    let store = Counted::default();
    let tree = open(&store, settings(Kind::Mope, true));
    run(tree.encode(&bytes((0..40_000).map(|value| value * 10)))).unwrap();
    store.rounds();
    for value in 0..200 {
        run(tree.encode(&bytes([value * 1999 + 1]))).unwrap();
        assert_eq!(store.rounds(), 1);
    }
    run(tree.encode(&bytes((0..20_000).map(|value| value * 20 + 3)))).unwrap();
    assert_eq!(store.rounds(), 1);
    let cold = open(&store, settings(Kind::Mope, true));
    run(cold.encode(&bytes((0..2000).map(|value| value * 200 + 7)))).unwrap();
    assert_eq!(store.rounds(), 3, "root, inner nodes, leaves");
}
