//! Files that are not what the engine wrote.

use std::fs::Permissions;
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::PermissionsExt;
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
            reader.scan(table, everything, direction, &mut |_, _| ControlFlow::Continue(()))?;
        }
        for slot in 0..40_u64 {
            reader.get(table, &slot.to_be_bytes())?;
        }
    }
    drop(reader);
    let mut writer = store.write()?;
    writer.delete_prefix(Table("left"), &[0], usize::MAX)?;
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
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let position = (seed >> 16) as usize % reach;
                image[position] ^= ((seed >> 8) as u8).max(1);
            }
            let outcome = exercise(&image);
            assert!(outcome.is_ok() || is_damage(&outcome), "{name} {round}: {outcome:?}");
        }
    }
}

/// Flips a bit in every copy of the content of commit `number`, those that older pages still hold too.
fn flip_content(image: &mut [u8], number: u64) {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let pattern = [mixed, mixed].concat();
    let mut position = 0;
    while position + pattern.len() <= image.len() {
        if image[position..].starts_with(&pattern) {
            image[position] ^= 1;
            while image[position + 8..].starts_with(&mixed) {
                position += 8;
            }
        }
        position += 1;
    }
}

#[test]
fn a_flipped_bit_in_a_value_fails_its_read_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    for number in 1..=COMMITS {
        history::commit(&store, number).unwrap();
    }
    drop(store);
    let mut image = std::fs::read(file(directory.path())).unwrap();
    flip_content(&mut image, COMMITS);
    std::fs::write(file(directory.path()), &image).unwrap();
    let mut store = Embedded::open(directory.path()).unwrap();
    let reader = store.read().unwrap();
    let slot = |number: u64| (number % 40).to_be_bytes();
    assert!(is_damage(&reader.get(Table("left"), &slot(COMMITS)).map(drop)), "the read did not find it");
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let go_on = &mut |_: &[u8], _: &[u8]| ControlFlow::Continue(());
    assert!(is_damage(&reader.scan(Table("left"), everything, Direction::Ascending, go_on)));
    reader.get(Table("left"), &slot(COMMITS - 1)).unwrap().expect("put by the commit before");
    drop(reader);
    let scrubbed = store.scrub(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(!scrubbed.damaged.is_empty() && scrubbed.bytes == image.len() as u64, "{scrubbed:?}");
    assert!(is_damage(&store.verify().map(drop)), "verification did not find it");
    // Closed and opened again, it is found again.
    drop(store);
    let store = Embedded::open(directory.path()).unwrap();
    assert!(is_damage(&store.read().unwrap().get(Table("left"), &slot(COMMITS)).map(drop)), "once only");
    drop(store);
    std::fs::remove_file(directory.path().join("arras.sums")).unwrap();
    let outcome = Embedded::open(directory.path()).map(drop);
    assert!(is_damage(&outcome), "without sums, opening reads everything: {outcome:?}");
}

#[test]
fn a_sound_file_verifies() {
    for image in images() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(file(directory.path()), image).unwrap();
        Embedded::open(directory.path()).unwrap().verify().unwrap();
    }
}

/// Holds `docs/storage.md` to what it says: deletion does not wipe.
#[test]
fn deleted_values_stay_in_the_file_until_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    let secret = b"a value nobody should find again".repeat(100);
    let left = || {
        let image = std::fs::read(file(directory.path())).unwrap();
        image.windows(32).any(|window| window == &secret[..32])
    };
    let mut writer = store.write().unwrap();
    writer.put(Table("left"), b"key", &secret).unwrap();
    writer.commit(Durability::Durable).unwrap();
    // Closing brings it from the log to the engine's file.
    drop(store);
    let store = Embedded::open(directory.path()).unwrap();
    let mut writer = store.write().unwrap();
    assert!(writer.delete(Table("left"), b"key").unwrap());
    writer.commit(Durability::Durable).unwrap();
    assert!(left(), "the engine wipes after all: say so in docs/storage.md");
}

#[test]
fn a_directory_is_open_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    assert!(matches!(Embedded::open(directory.path()), Err(StorageError::InUse)));
    history::commit(&store, 1).unwrap();
    drop(store);
    assert_eq!(
        history::check(&Embedded::open(directory.path()).unwrap()),
        1,
        "closing keeps relaxed commits"
    );
}

#[test]
fn nobody_else_may_read_a_store_or_hold_its_lock() {
    let place = tempfile::tempdir().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let directory = place.path().join("made/here");
    drop(Embedded::open(&directory).unwrap());
    // What an earlier version left open.
    for open in [false, true] {
        if open {
            for (name, mode) in [("", 0o755), ("LOCK", 0o644), ("arras.redb", 0o644)] {
                set(&directory.join(name), mode);
            }
        }
        let store = Embedded::open(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
        for name in ["LOCK", "arras.redb"] {
            assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
        }
        drop(store);
    }
}

#[test]
fn an_unusable_directory_is_the_environments_fault() {
    let directory = tempfile::tempdir().unwrap();
    let occupied = directory.path().join("file");
    std::fs::write(&occupied, b"").unwrap();
    assert!(matches!(Embedded::open(&occupied), Err(StorageError::Environment(_))));
}

#[test]
fn a_crash_while_creating_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("arras.redb.new"), b"half").unwrap();
    drop(Embedded::open(directory.path()).unwrap());
    assert!(!directory.path().join("arras.redb.new").exists());
}

/// A directory whose file is gone is no new one: what lies beside it says that there was one.
#[test]
fn a_directory_that_has_lost_its_file_is_not_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    drop(Embedded::open(directory.path()).unwrap());
    std::fs::remove_file(directory.path().join("arras.redb")).unwrap();
    for _ in 0..2 {
        let error = Embedded::open(directory.path()).err().unwrap().to_string();
        assert!(error.contains("arras.redb is missing"), "{error}");
    }
}
