//! What every [`Storage`] must do, as assertions: call [`all`] from a test of the implementation.
//!
//! # Panics
//! Every function here panics where the store breaks the interface, and nowhere else.

use std::ops::{Bound, ControlFlow};
use std::sync::mpsc;

use crate::{Direction, Durability, KeyRange, Read, Storage, Table, Write, prefix_range, range::borrowed};

const LEFT: Table = Table("left");
const RIGHT: Table = Table("right");
const UNWRITTEN: Table = Table("unwritten");
const EVERYTHING: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Runs every check, each on a store that `empty` makes.
pub fn all<S: Storage>(mut empty: impl FnMut() -> S) {
    let checks: [fn(&S); 17] = [
        values_are_what_was_put,
        empty_keys_and_values_are_kept,
        many_keys_are_looked_up_in_their_order,
        scans_visit_every_kind_of_range,
        crossed_bounds_select_nothing,
        scans_stop_when_told,
        reads_nest_in_scans,
        deletion_tells_presence,
        prefixes_are_deleted_exactly,
        tables_are_apart,
        writers_see_their_own_changes,
        snapshots_stand_still,
        dropped_writers_leave_nothing,
        what_is_rolled_back_leaves_nothing,
        roll_backs_end_at_the_last_savepoint,
        writers_take_turns,
        large_values_survive,
    ];
    for check in checks {
        check(&empty());
    }
}

/// Entries in `range`, in the order visited.
///
/// # Panics
/// If the engine fails.
pub fn entries(
    view: &impl Read,
    table: Table,
    range: KeyRange<'_>,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    view.scan(table, range, direction, &mut |key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })
    .expect("scan");
    entries
}

fn keys(view: &impl Read, table: Table, range: KeyRange<'_>) -> Vec<Vec<u8>> {
    entries(view, table, range, Direction::Ascending).into_iter().map(|(key, _)| key).collect()
}

fn value(view: &impl Read, table: Table, key: &[u8]) -> Option<Vec<u8>> {
    let value = view.get(table, key).expect("get");
    assert_eq!(view.contains(table, key).expect("contains"), value.is_some());
    value.map(Vec::from)
}

fn load<S: Storage>(store: &S, table: Table, entries: &[(&[u8], &[u8])]) {
    let mut writer = store.write().expect("write");
    for (key, value) in entries {
        writer.put(table, key, value).expect("put");
    }
    writer.commit(Durability::Relaxed).expect("commit");
}

fn values_are_what_was_put<S: Storage>(store: &S) {
    assert_eq!(value(&store.read().expect("read"), LEFT, b"a"), None, "a table never written is empty");
    load(store, LEFT, &[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]);
    let reader = store.read().expect("read");
    assert_eq!(value(&reader, LEFT, b"a").as_deref(), Some(&b"3"[..]), "the last put wins");
    assert_eq!(value(&reader, LEFT, b"b").as_deref(), Some(&b"2"[..]));
    assert_eq!(value(&reader, LEFT, b"ab"), None);
    load(store, LEFT, &[(b"b", b"longer than before")]);
    assert_eq!(value(&store.read().expect("read"), LEFT, b"b").as_deref(), Some(&b"longer than before"[..]));
    assert!(!store.engine().is_empty());
}

fn empty_keys_and_values_are_kept<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"", b"at the empty key"), (b"k", b""), (b"\0", b"zero")]);
    let reader = store.read().expect("read");
    assert_eq!(value(&reader, LEFT, b"").as_deref(), Some(&b"at the empty key"[..]));
    assert_eq!(value(&reader, LEFT, b"k").as_deref(), Some(&b""[..]), "an empty value is not an absent one");
    assert_eq!(keys(&reader, LEFT, EVERYTHING), [&b""[..], b"\0", b"k"]);
    drop(reader);
    let mut writer = store.write().expect("write");
    assert!(writer.delete(LEFT, b"").expect("delete"));
    writer.commit(Durability::Durable).expect("commit");
    assert_eq!(value(&store.read().expect("read"), LEFT, b""), None);
}

/// The values of keys, until so many were handed over.
fn many(view: &impl Read, table: Table, keys: &[&[u8]], until: usize) -> Vec<Option<Vec<u8>>> {
    let mut values = Vec::new();
    let (mut asked, keys) = (0, keys.iter().map(|key| key.to_vec()));
    let mut counted = keys.inspect(|_| asked += 1);
    view.get_many(table, &mut counted, &mut |value| {
        values.push(value.map(Vec::from));
        if values.len() == until { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .expect("get many");
    drop(counted);
    assert_eq!(asked, values.len(), "a key is asked for when its value is wanted");
    values
}

fn many_keys_are_looked_up_in_their_order<S: Storage>(store: &S) {
    let keys = [&b"b"[..], b"", b"none", b"a", b"a"];
    let all = usize::MAX;
    assert_eq!(many(&store.read().expect("read"), UNWRITTEN, &keys, all), vec![None; 5]);
    load(store, RIGHT, &[(b"none", b"of the other table")]);
    load(store, LEFT, &[(b"a", b"1"), (b"b", b""), (b"", b"at the empty key")]);
    let put = |value: &[u8]| Some(value.to_vec());
    let expected = [put(b""), put(b"at the empty key"), None, put(b"1"), put(b"1")];
    let reader = store.read().expect("read");
    assert_eq!(many(&reader, LEFT, &keys, all), expected);
    assert_eq!(many(&reader, LEFT, &keys, 3), expected[..3]);
    assert!(many(&reader, LEFT, &[], all).is_empty());
    drop(reader);
    let mut writer = store.write().expect("write");
    assert_eq!(many(&writer, LEFT, &keys, all), expected, "without changes of its own");
    writer.put(LEFT, b"none", b"2").expect("put");
    assert!(writer.delete(LEFT, b"b").expect("delete"));
    let changed = [None, put(b"at the empty key"), put(b"2"), put(b"1"), put(b"1")];
    assert_eq!(many(&writer, LEFT, &keys, all), changed, "its own changes over what was there");
    assert_eq!(many(&writer, LEFT, &keys, 1), changed[..1]);
}

/// Bounds at, between, below and above the keys.
fn bounds() -> Vec<Bound<&'static [u8]>> {
    let mut bounds = vec![Bound::Unbounded];
    for key in [&b""[..], b"b", b"b\0", b"c", b"\xff", b"\xff\xff"] {
        bounds.extend([Bound::Included(key), Bound::Excluded(key)]);
    }
    bounds
}

fn within(key: &[u8], (low, high): KeyRange<'_>) -> bool {
    let above = match low {
        Bound::Unbounded => true,
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
    };
    let below = match high {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
    };
    above && below
}

fn scans_visit_every_kind_of_range<S: Storage>(store: &S) {
    let all: [&[u8]; 7] = [b"", b"a", b"b", b"b\0", b"bb", b"c", b"\xff"];
    load(store, LEFT, &all.map(|key| (key, key)));
    let reader = store.read().expect("read");
    for low in bounds() {
        for high in bounds() {
            let range = (low, high);
            let mut expected: Vec<_> =
                all.iter().filter(|key| within(key, range)).map(|key| (key.to_vec(), key.to_vec())).collect();
            assert_eq!(entries(&reader, LEFT, range, Direction::Ascending), expected, "{range:?}");
            expected.reverse();
            assert_eq!(
                entries(&reader, LEFT, range, Direction::Descending),
                expected,
                "{range:?} descending"
            );
        }
    }
    assert!(entries(&reader, UNWRITTEN, EVERYTHING, Direction::Descending).is_empty());
}

fn crossed_bounds_select_nothing<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"a", b""), (b"b", b""), (b"c", b"")]);
    let mut writer = store.write().expect("write");
    writer.put(LEFT, b"bb", b"").expect("put");
    for range in [
        (Bound::Included(&b"c"[..]), Bound::Included(&b"a"[..])),
        (Bound::Excluded(b"b"), Bound::Excluded(b"b")),
        (Bound::Included(b"b"), Bound::Excluded(b"b")),
        (Bound::Excluded(b"b"), Bound::Included(b"b")),
    ] {
        assert!(keys(&writer, LEFT, range).is_empty(), "{range:?}");
    }
    writer.commit(Durability::Relaxed).expect("commit");
}

fn scans_stop_when_told<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"a", b""), (b"c", b""), (b"e", b"")]);
    let mut writer = store.write().expect("write");
    for key in [b"b", b"d", b"f"] {
        writer.put(LEFT, key, b"").expect("put");
    }
    for direction in [Direction::Ascending, Direction::Descending] {
        for limit in 1..=6 {
            let mut visited = 0;
            let visit = &mut |_: &[u8], _: &[u8]| {
                visited += 1;
                if visited == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            writer.scan(LEFT, EVERYTHING, direction, visit).expect("scan");
            assert_eq!(visited, limit, "{direction:?}");
        }
    }
}

fn reads_nest_in_scans<S: Storage>(store: &S) {
    fn check(view: &impl Read) {
        let mut seen = Vec::new();
        view.scan(LEFT, EVERYTHING, Direction::Ascending, &mut |key, _| {
            seen.push((value(view, LEFT, key), keys(view, RIGHT, EVERYTHING).len()));
            ControlFlow::Continue(())
        })
        .expect("scan");
        assert_eq!(seen, [(Some(b"1".to_vec()), 1), (Some(b"2".to_vec()), 1)]);
    }
    load(store, LEFT, &[(b"a", b"1"), (b"b", b"2")]);
    load(store, RIGHT, &[(b"r", b"")]);
    check(&store.read().expect("read"));
    let mut writer = store.write().expect("write");
    writer.put(LEFT, b"b", b"2").expect("put");
    check(&writer);
}

fn deletion_tells_presence<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"old", b"")]);
    let mut writer = store.write().expect("write");
    assert!(writer.delete(LEFT, b"old").expect("delete"));
    assert!(!writer.delete(LEFT, b"old").expect("delete"), "deleted twice");
    assert!(!writer.delete(LEFT, b"never").expect("delete"));
    writer.put(LEFT, b"new", b"").expect("put");
    assert!(writer.delete(LEFT, b"new").expect("delete"), "put by the same transaction");
    writer.commit(Durability::Durable).expect("commit");
    assert!(keys(&store.read().expect("read"), LEFT, EVERYTHING).is_empty());
}

fn prefixes_are_deleted_exactly<S: Storage>(store: &S) {
    let all: [&[u8]; 8] = [b"", b"a", b"a\0", b"a\xff\xff", b"b", b"\xff", b"\xff\xff", b"\xff\xff\x01"];
    for (prefix, left) in [
        (&b"a"[..], &[0, 4, 5, 6, 7][..]),
        (b"a\xff", &[0, 1, 2, 4, 5, 6, 7]),
        (b"\xff\xff", &[0, 1, 2, 3, 4, 5]),
        (b"q", &[0, 1, 2, 3, 4, 5, 6, 7]),
        (b"", &[]),
    ] {
        load(store, LEFT, &all.map(|key| (key, &b"x"[..])));
        let remaining: Vec<_> = left.iter().map(|&position| all[position].to_vec()).collect();
        let matching: Vec<_> =
            all.iter().filter(|key| key.starts_with(prefix)).map(|key| key.to_vec()).collect();
        assert_eq!(keys(&store.read().expect("read"), LEFT, borrowed(&prefix_range(prefix))), matching);
        let mut writer = store.write().expect("write");
        let removed = writer.delete_prefix(LEFT, prefix, usize::MAX).expect("delete_prefix");
        assert_eq!(removed, matching.len() as u64, "{prefix:?}");
        assert_eq!(keys(&writer, LEFT, EVERYTHING), remaining, "{prefix:?}, inside the transaction");
        writer.commit(Durability::Relaxed).expect("commit");
        assert_eq!(keys(&store.read().expect("read"), LEFT, EVERYTHING), remaining, "{prefix:?}");
    }
}

fn tables_are_apart<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"a", b"left")]);
    load(store, RIGHT, &[(b"a", b"right"), (b"b", b"right")]);
    let mut writer = store.write().expect("write");
    assert_eq!(writer.delete_prefix(LEFT, b"", usize::MAX).expect("delete_prefix"), 1);
    writer.commit(Durability::Relaxed).expect("commit");
    assert_eq!(keys(&store.read().expect("read"), RIGHT, EVERYTHING), [b"a", b"b"]);
}

fn writers_see_their_own_changes<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]);
    let mut writer = store.write().expect("write");
    writer.put(LEFT, b"b", b"2").expect("put");
    writer.put(LEFT, b"bb", b"2").expect("put");
    writer.delete(LEFT, b"c").expect("delete");
    writer.put(LEFT, b"d", b"2").expect("put");
    let expected: Vec<(Vec<u8>, Vec<u8>)> = [(&b"a"[..], b"1"), (b"b", b"2"), (b"bb", b"2"), (b"d", b"2")]
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .to_vec();
    assert_eq!(entries(&writer, LEFT, EVERYTHING, Direction::Ascending), expected);
    assert_eq!(value(&writer, LEFT, b"c"), None);
    assert_eq!(value(&writer, LEFT, b"b").as_deref(), Some(&b"2"[..]));
    let reversed: Vec<_> = expected.iter().rev().cloned().collect();
    assert_eq!(entries(&writer, LEFT, EVERYTHING, Direction::Descending), reversed);
    writer.commit(Durability::Durable).expect("commit");
    assert_eq!(entries(&store.read().expect("read"), LEFT, EVERYTHING, Direction::Ascending), expected);
}

fn snapshots_stand_still<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"a", b"before"), (b"b", b"before")]);
    let before = store.read().expect("read");
    for durability in [Durability::Relaxed, Durability::Durable] {
        let mut writer = store.write().expect("write");
        writer.put(LEFT, b"a", b"after").expect("put");
        writer.delete(LEFT, b"b").expect("delete");
        writer.put(RIGHT, b"r", b"after").expect("put");
        let during = store.read().expect("a reader does not wait for the writer");
        assert_eq!(during.get(RIGHT, b"r").expect("get").is_some(), durability == Durability::Durable);
        writer.commit(durability).expect("commit");
    }
    assert_eq!(value(&before, LEFT, b"a").as_deref(), Some(&b"before"[..]));
    assert_eq!(keys(&before, LEFT, EVERYTHING).len(), 2);
    assert!(keys(&before, RIGHT, EVERYTHING).is_empty());
    let after = store.read().expect("read");
    assert_eq!(value(&after, LEFT, b"a").as_deref(), Some(&b"after"[..]));
    assert_eq!(keys(&after, LEFT, EVERYTHING).len(), 1);
}

fn dropped_writers_leave_nothing<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"a", b"kept")]);
    let mut writer = store.write().expect("write");
    writer.put(LEFT, b"a", b"dropped").expect("put");
    writer.put(RIGHT, b"b", b"dropped").expect("put");
    writer.delete_prefix(LEFT, b"", usize::MAX).expect("delete_prefix");
    drop(writer);
    store.write().expect("write").commit(Durability::Durable).expect("commit");
    let reader = store.read().expect("read");
    assert_eq!(value(&reader, LEFT, b"a").as_deref(), Some(&b"kept"[..]));
    assert_eq!(value(&reader, RIGHT, b"b"), None);
}

fn what_is_rolled_back_leaves_nothing<S: Storage>(store: &S) {
    load(store, LEFT, &[(b"a", b"stored"), (b"b", b"stored"), (b"pa", b"stored"), (b"pb", b"stored")]);
    let mut writer = store.write().expect("write");
    writer.put(LEFT, b"a", b"kept").expect("put");
    assert!(writer.delete(LEFT, b"pa").expect("delete"));
    writer.put(LEFT, b"c", b"kept").expect("put");
    let kept = entries(&writer, LEFT, EVERYTHING, Direction::Ascending);
    writer.savepoint();
    writer.put(LEFT, b"a", b"taken back").expect("put");
    writer.put(LEFT, b"a", b"taken back twice").expect("put");
    assert!(writer.delete(LEFT, b"b").expect("delete"));
    assert!(writer.delete(LEFT, b"c").expect("delete"));
    writer.put(LEFT, b"pa", b"there again").expect("put");
    writer.put(LEFT, b"d", b"new").expect("put");
    writer.put(RIGHT, b"r", b"in a table of its own").expect("put");
    assert_eq!(writer.delete_prefix(LEFT, b"p", usize::MAX).expect("delete_prefix"), 2);
    writer.roll_back();
    assert_eq!(entries(&writer, LEFT, EVERYTHING, Direction::Ascending), kept);
    assert!(keys(&writer, RIGHT, EVERYTHING).is_empty());
    writer.commit(Durability::Durable).expect("commit");
    let reader = store.read().expect("read");
    assert_eq!(entries(&reader, LEFT, EVERYTHING, Direction::Ascending), kept);
    assert!(keys(&reader, RIGHT, EVERYTHING).is_empty());
}

fn roll_backs_end_at_the_last_savepoint<S: Storage>(store: &S) {
    let mut writer = store.write().expect("write");
    writer.put(LEFT, b"before any", b"").expect("put");
    writer.roll_back();
    assert!(keys(&writer, LEFT, EVERYTHING).is_empty(), "without a savepoint nothing is left");
    for name in [b"1", b"2", b"3"] {
        writer.savepoint();
        writer.put(LEFT, name, b"").expect("put");
    }
    writer.roll_back();
    writer.roll_back();
    assert_eq!(keys(&writer, LEFT, EVERYTHING), [b"1", b"2"], "a second time takes nothing more back");
    writer.put(LEFT, b"4", b"").expect("put");
    writer.roll_back();
    writer.put(LEFT, b"5", b"").expect("put");
    writer.commit(Durability::Relaxed).expect("commit");
    assert_eq!(keys(&store.read().expect("read"), LEFT, EVERYTHING), [b"1", b"2", b"5"]);
}

/// Adds one to a counter from several threads, each read and write in one transaction: no addition may be lost.
/// A reader beside them must see both tables at the same count.
fn writers_take_turns<S: Storage>(store: &S) {
    const THREADS: u32 = 4;
    const ADDITIONS: u32 = 25;
    let count = |view: &S::Reader<'_>, table| {
        value(view, table, b"count").map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("4 bytes")))
    };
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let done = done.clone();
            scope.spawn(move || {
                for _ in 0..ADDITIONS {
                    let mut writer = store.write().expect("write");
                    let old = value(&writer, LEFT, b"count")
                        .map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("4 bytes")));
                    writer.put(LEFT, b"count", &(old + 1).to_be_bytes()).expect("put");
                    writer.put(RIGHT, b"count", &(old + 1).to_be_bytes()).expect("put");
                    writer.commit(Durability::Relaxed).expect("commit");
                }
                done.send(()).expect("the reader waits");
            });
        }
        drop(done);
        let mut last = 0;
        loop {
            let ended = matches!(finished.try_recv(), Err(mpsc::TryRecvError::Disconnected));
            let reader = store.read().expect("read");
            let seen = count(&reader, LEFT);
            assert_eq!(seen, count(&reader, RIGHT), "a commit was seen in part");
            assert!(seen >= last, "a later snapshot is older");
            last = seen;
            if ended {
                break;
            }
        }
        assert_eq!(last, THREADS * ADDITIONS);
    });
}

fn large_values_survive<S: Storage>(store: &S) {
    let large: Vec<u8> =
        (0..20 << 20).map(|position: u32| (position.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let long_key = vec![0x5A; 3000];
    load(store, LEFT, &[(b"large", &large), (&long_key, b"under a long key"), (b"z", b"neighbour")]);
    let reader = store.read().expect("read");
    assert!(value(&reader, LEFT, b"large").as_ref() == Some(&large), "20 MiB came back otherwise");
    assert_eq!(value(&reader, LEFT, &long_key).as_deref(), Some(&b"under a long key"[..]));
    drop(reader);
    load(store, LEFT, &[(b"large", b"small now")]);
    let reader = store.read().expect("read");
    assert_eq!(value(&reader, LEFT, b"large").as_deref(), Some(&b"small now"[..]));
    assert_eq!(value(&reader, LEFT, b"z").as_deref(), Some(&b"neighbour"[..]));
}
