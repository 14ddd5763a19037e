//! Files that are not what the engine wrote.

use std::ops::{Bound, ControlFlow};
use std::path::Path;

use super::history;
use crate::{Direction, Durability, Embedded, Read, Storage, StorageError, Table, Write};

const COMMITS: u64 = 60;

fn file(directory: &Path) -> std::path::PathBuf {
    directory.join("arras.redb")
}

/// The file of a store closed cleanly, and of one whose process ended without closing it.
fn images() -> [Vec<u8>; 2] {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    for number in 1..=COMMITS {
        history::commit(&store, number).unwrap();
    }
    let unclean = std::fs::read(file(directory.path())).unwrap();
    drop(store);
    [std::fs::read(file(directory.path())).unwrap(), unclean]
}

/// Opens the store in `image`, reads everything, writes something and closes it again.
fn exercise(image: &[u8]) -> Result<(), StorageError> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(file(directory.path()), image).unwrap();
    let store = Embedded::open(directory.path())?;
    let reader = store.read()?;
    let everything = (Bound::Unbounded, Bound::Unbounded);
    for table in [Table("left"), Table("right"), Table("number")] {
        for direction in [Direction::Ascending, Direction::Descending] {
            reader.scan(
                table,
                everything,
                direction,
                &mut |_, _| ControlFlow::Continue(()),
            )?;
        }
        for slot in 0..40_u64 {
            reader.get(table, &slot.to_be_bytes())?;
        }
    }
    drop(reader);
    let mut writer = store.write()?;
    writer.delete_prefix(Table("left"), &[0])?;
    writer.put(Table("right"), b"new", &[1; 20_000])?;
    writer.commit(Durability::Durable)
}

fn is_damage(outcome: &Result<(), StorageError>) -> bool {
    matches!(outcome, Err(StorageError::Damaged(_)))
}

#[test]
fn foreign_and_cut_files_are_told() {
    let [clean, unclean] = images();
    exercise(&clean).unwrap();
    exercise(&unclean).unwrap();
    for (name, image) in [
        ("empty", Vec::new()),
        ("text", b"this is not a database\n".repeat(1000)),
        ("zeros", vec![0; clean.len()]),
        ("one byte", clean[..1].to_vec()),
        ("half a header", clean[..100].to_vec()),
        ("header alone", clean[..4096].to_vec()),
        ("cut in half", clean[..clean.len() / 2].to_vec()),
        ("unclean, cut in half", unclean[..unclean.len() / 2].to_vec()),
    ] {
        let outcome = exercise(&image);
        assert!(is_damage(&outcome), "{name}: {outcome:?}");
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let mut seed = 3_u64;
    for (name, image) in ["clean", "unclean"].into_iter().zip(images()) {
        for round in 0..60_u64 {
            let mut image = image.clone();
            // The header, then anywhere.
            let reach = if round < 20 { 320 } else { image.len() };
            for _ in 0..=round % 4 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let position = (seed >> 16) as usize % reach;
                image[position] ^= ((seed >> 8) as u8).max(1);
            }
            let outcome = exercise(&image);
            assert!(
                outcome.is_ok() || is_damage(&outcome),
                "{name} {round}: {outcome:?}"
            );
        }
    }
}

#[test]
fn verification_finds_every_flip_in_a_value() {
    let [clean, _] = images();
    // The content of the last commit fills its pages with a pattern easy to find.
    let mixed = COMMITS.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let position = clean
        .windows(16)
        .position(|window| window == [mixed, mixed].concat())
        .unwrap();
    let verify = |image: &[u8]| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(file(directory.path()), image).unwrap();
        Embedded::open(directory.path()).and_then(|mut store| store.verify())
    };
    verify(&clean).unwrap();
    let mut flipped = clean.clone();
    flipped[position] ^= 1;
    let outcome = verify(&flipped);
    assert!(is_damage(&outcome), "{outcome:?}");
}

#[test]
fn a_directory_is_open_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    assert!(matches!(
        Embedded::open(directory.path()),
        Err(StorageError::InUse)
    ));
    history::commit(&store, 1).unwrap();
    drop(store);
    assert_eq!(
        history::check(&Embedded::open(directory.path()).unwrap()),
        1,
        "closing keeps relaxed commits"
    );
}

#[test]
fn an_unusable_directory_is_the_environments_fault() {
    let directory = tempfile::tempdir().unwrap();
    let occupied = directory.path().join("file");
    std::fs::write(&occupied, b"").unwrap();
    assert!(matches!(
        Embedded::open(&occupied),
        Err(StorageError::Environment(_))
    ));
}

#[test]
fn a_crash_while_creating_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("arras.redb.new"), b"half").unwrap();
    drop(Embedded::open(directory.path()).unwrap());
    assert!(!directory.path().join("arras.redb.new").exists());
}
