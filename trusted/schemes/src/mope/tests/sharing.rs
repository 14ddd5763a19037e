//! Several clients of one tree, and what is left of a change that nobody finished.

use super::support::{Counted, Values, bytes, check, key, open, run, settings};
use crate::error::IndexError;
use crate::mope::{Kind, Place, Stored, Tree};
use crate::random::Randomness;
use arras_protocol::ChannelError;
use arras_protocol::mope::{Fetch, Fetched, Round, TreeChange, TreeStore};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

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

/// Nothing is read of an empty tree that would show that it is another by now.
#[test]
fn a_client_that_found_a_tree_empty_asks_again() {
    for verified in [false, true] {
        let store = Counted::default();
        let (one, other) =
            (open(&store, settings(Kind::Mope, verified)), open(&store, settings(Kind::Mope, verified)));
        assert!(!is_there(&other, 5));
        run(one.encode(&bytes(0..10))).unwrap();
        assert!(is_there(&other, 5));
        assert!(matches!(
            &run(other.places(&bytes([20]))).unwrap()[0],
            Place::Between { below: Some(_), above: None }
        ));
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

/// A keeper far away: each round takes a turn of everybody. Some changes it cannot take.
struct Far {
    keeper: Counted,
    commits: AtomicUsize,
    fails_at: usize,
}

async fn a_turn_of_everybody() {
    let mut was_here = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut was_here, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl TreeStore for Far {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        Box::pin(async move {
            a_turn_of_everybody().await;
            self.keeper.fetch(fetch).await
        })
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(async move {
            a_turn_of_everybody().await;
            if self.commits.fetch_add(1, Ordering::Relaxed) == self.fails_at {
                return Err(ChannelError::Halted("not now".into()));
            }
            self.keeper.commit(change).await
        })
    }
}

/// Lets everybody go on in turns until all are done.
fn together<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<Pin<Box<_>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    while done.iter().any(Option::is_none) {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                *done = Some(result);
            }
        }
    }
    done.into_iter().map(Option::unwrap).collect()
}

/// Callers that each enter some values; what each is told, and how many changes that took.
fn entered(
    kind: Kind,
    callers: &[Vec<Vec<u8>>],
    fails_at: usize,
) -> (Counted, Vec<Result<Vec<Stored>, IndexError>>, usize) {
    let keeper = Counted::default();
    let far = Far { keeper: keeper.clone(), commits: AtomicUsize::new(0), fails_at };
    let tree = Tree::open(far, &key(), settings(kind, true), None, Randomness::default()).unwrap();
    let told = together(callers.iter().map(|values| tree.encode(values)));
    let commits = tree.store().commits.load(Ordering::Relaxed);
    (keeper, told, commits)
}

#[test]
fn callers_that_wait_for_their_turn_share_a_change() {
    let callers: Vec<Vec<Vec<u8>>> = (0..300).map(|at| bytes([at * 7, at, 5000])).collect();
    for (kind, most) in [(Kind::Mope, 3), (Kind::Stope, usize::MAX)] {
        let (keeper, told, commits) = entered(kind, &callers, usize::MAX);
        assert!(commits <= most, "{kind:?}: {commits}");
        let mut all = Values::new();
        callers.iter().flatten().for_each(|value| *all.entry(value.clone()).or_default() += 1);
        let tree = open(&keeper, settings(kind, true));
        check(&tree, &all);
        for (values, told) in callers.iter().zip(told) {
            for (value, stored) in values.iter().zip(told.unwrap()) {
                assert_eq!(tree.value(&stored.ciphertext).unwrap(), *value);
            }
        }
    }
}

#[test]
fn what_one_caller_cannot_enter_keeps_no_other_from_entering() {
    let mut callers: Vec<Vec<Vec<u8>>> = (0..50).map(|at| bytes([at])).collect();
    callers[20] = vec![vec![1; 7]];
    // Another's shared change fails, too: the first one by itself is the first change.
    for fails_at in [0, 1] {
        let (keeper, told, _) = entered(Kind::Mope, &callers, fails_at);
        let failed: Vec<usize> = (0..50).filter(|at| told[*at].is_err()).collect();
        assert_eq!(failed.len(), 2, "{failed:?}");
        assert!(matches!(told[20], Err(IndexError::Caller(_))));
        let other = failed.into_iter().find(|at| *at != 20).unwrap() as u64;
        assert!(matches!(told[other as usize], Err(IndexError::Channel(ChannelError::Halted(_)))));
        check(
            &open(&keeper, settings(Kind::Mope, true)),
            &values((0..50).filter(|value| *value != 20 && *value != other)),
        );
    }
}
