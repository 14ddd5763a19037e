#![allow(clippy::unwrap_used)]

use super::*;
use arras_service::store::Relief;

fn write(spill: &Arc<SpillFile>, records: &[Vec<u8>]) -> Arc<dyn Run> {
    let mut writer = Spilling(Arc::clone(spill)).run().unwrap();
    for record in records {
        writer.append(record).unwrap();
    }
    writer.finish().unwrap()
}

fn read(run: &Arc<dyn Run>) -> Vec<Vec<u8>> {
    let mut reader = Arc::clone(run).reader();
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

fn records(count: usize, seed: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| vec![u8::try_from((i + seed) % 251).unwrap(); (i * 7919 + seed) % 90_000]).collect()
}

#[test]
fn runs_are_read_back_side_by_side_and_their_room_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let spill = SpillFile::new(directory.path().to_path_buf(), u64::MAX, &mut rand::rng());
    let (first, second) = (records(40, 1), records(3, 2));
    let (one, two) = (write(&spill, &first), write(&spill, &second));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file has no name");
    assert_eq!((read(&one), read(&two)), (first.clone(), second.clone()));
    assert_eq!(read(&one), first, "and again");
    drop(one);
    let count = spill.file().1;
    let third = write(&spill, &first);
    assert_eq!(spill.file().1, count);
    assert_eq!((read(&third), read(&two)), (first, second));
    drop((two, third));
    assert!(spill.file().0.is_none());
    assert!(read(&write(&spill, &[])).is_empty());
}

#[test]
fn the_disk_has_no_plaintext_and_what_is_changed_there_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let spill = SpillFile::new(directory.path().to_path_buf(), u64::MAX, &mut rand::rng());
    let run = write(&spill, &[vec![b'x'; 100_000]]);
    let file = spill.file().0.unwrap();
    let mut all = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut all, 0).unwrap();
    assert!(!all.windows(16).any(|window| window == [b'x'; 16]));
    // Two blocks of one run in each other's place.
    let slot = usize::try_from(SLOT_BYTES).unwrap();
    file.write_all_at(&all[..slot], SLOT_BYTES).unwrap();
    file.write_all_at(&all[slot..2 * slot], 0).unwrap();
    assert_eq!(Arc::clone(&run).reader().next().unwrap_err().code, 14031);
    drop(run);
}

/// Runs that somebody can do without.
struct Idle(std::sync::Mutex<Vec<Arc<dyn Run>>>);

impl Relief for Idle {
    fn relieve(&self) -> bool {
        self.0.lock().unwrap().pop().is_some()
    }
}

#[test]
fn where_there_is_no_room_what_is_idle_gives_way_and_then_who_asks() {
    let directory = tempfile::tempdir().unwrap();
    let spill = SpillFile::new(directory.path().to_path_buf(), 10 * SLOT_BYTES, &mut rand::rng());
    let run = |blocks: usize| vec![vec![b'x'; blocks * BLOCK_BYTES - 4]];
    let (kept, idle) = (write(&spill, &run(4)), [3, 3].map(|blocks| write(&spill, &run(blocks))));
    let idle: Arc<dyn Relief> = Arc::new(Idle(std::sync::Mutex::new(idle.into())));
    spill.set_relief(Arc::downgrade(&idle));
    let third = write(&spill, &run(5));
    assert_eq!((read(&kept), read(&third)), (run(4), run(5)));
    let mut refused = Spilling(Arc::clone(&spill)).run().unwrap();
    assert_eq!(refused.append(&run(7)[0]).unwrap_err().code, 14031);
    drop((refused, third));
    assert_eq!(read(&write(&spill, &run(6))), run(6));
    assert_eq!(read(&kept), run(4));
}

#[test]
fn the_disk_has_back_what_many_no_longer_need() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let spill = SpillFile::new(directory.path().to_path_buf(), u64::MAX, &mut rand::rng());
    let many = vec![vec![b'x'; 1 << 20]; 80];
    let (first, kept, second) = (write(&spill, &many), write(&spill, &records(3, 2)), write(&spill, &many));
    let used = || spill.file().0.unwrap().metadata().unwrap().blocks() / 2 / 1024;
    assert!(used() >= 160, "{} MiB", used());
    drop(first);
    drop(second);
    assert!(used() < 80, "{} MiB", used());
    assert_eq!(read(&kept), records(3, 2));
    let count = spill.file().1;
    let again = write(&spill, &many);
    assert_eq!(spill.file().1, count, "holes are filled first");
    assert_eq!((read(&again), read(&kept)), (many, records(3, 2)));
}
