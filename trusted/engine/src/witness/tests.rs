#![allow(clippy::unwrap_used)]

use super::*;

fn mark(epoch: u64, commits: u64) -> Mark {
    Mark { database: [7; 16], epoch, commits }
}

#[test]
fn a_state_from_before_what_was_seen_is_refused_by_the_next_process_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/one.witness");
    let witness = Witness::open(&path).unwrap();
    witness.check(mark(0, 0)).unwrap();
    witness.advance(mark(4, 10), false).unwrap();
    witness.acknowledged(25).unwrap();
    witness.acknowledged(20).unwrap();
    drop(witness);
    let witness = Witness::open(&path).unwrap();
    witness.check(mark(4, 25)).unwrap();
    witness.check(mark(5, 26)).unwrap();
    for older in [mark(3, 25), mark(4, 24), mark(3, 100)] {
        let refused = witness.check(older).unwrap_err();
        assert!(refused.to_string().contains("arras restore"), "{refused}");
    }
    // Declared: from then on the history goes on from there.
    witness.advance(mark(1 << 32, 12), true).unwrap();
    let witness = Witness::open(&path).unwrap();
    witness.check(mark(1 << 32, 12)).unwrap();
    witness.check(mark(1 << 32, 11)).unwrap_err();
}

#[test]
fn of_another_database_nothing_was_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.witness");
    let witness = Witness::open(&path).unwrap();
    witness.advance(mark(9, 9), false).unwrap();
    let other = Mark { database: [8; 16], epoch: 1, commits: 0 };
    witness.check(other).unwrap();
    witness.advance(other, false).unwrap();
    Witness::open(&path).unwrap().check(other).unwrap();
}

#[test]
fn what_is_no_witness_is_not_taken_for_an_absent_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.witness");
    for text in ["", "arras witness 1\n", "arras witness 1\ndatabase xyz\nepoch 1\ncommits 1\n"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(Witness::open(&path), Err(WitnessError::Damaged { .. })), "{text}");
    }
}
