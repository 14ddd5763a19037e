#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use arras_storage::Memory;
use proptest::prelude::*;

const INDEX: IndexId = IndexId([7; 8]);

fn empty(page_bytes: u32) -> Memory {
    let store = Memory::new();
    answer(&store, Request::CreateIndex { index: INDEX, page_bytes }).unwrap();
    store
}

fn insert(version: u64, position: u32, entry: u8, rotation: u32) -> Request {
    Request::Insert { index: INDEX, version, position, entry: [entry; ENTRY_BYTES], rotation }
}

fn remove(version: u64, position: u32, rotation: u32) -> Request {
    Request::Remove { index: INDEX, version, position, rotation }
}

fn version(store: &Memory) -> u64 {
    header(&store.read().unwrap(), INDEX).map_or(0, |header| header.version)
}

fn read(store: &Memory, position: u32, count: u32) -> Result<Vec<u8>, Refusal> {
    match answer(store, Request::Entries { index: INDEX, version: version(store), position, count })? {
        Response::Entries(entries) => Ok(entries.0.chunks_exact(ENTRY_BYTES).map(|entry| entry[0]).collect()),
        _ => panic!("entries"),
    }
}

proptest! {
    /// Against a plain list: any edits and rotations, read from any position, over the end as well.
    #[test]
    fn the_array_is_that_of_a_list(
        page_bytes in 32_u32..200,
        edits in proptest::collection::vec((any::<bool>(), any::<u32>(), any::<u32>(), any::<u8>()), 1..60),
        from: u32,
    ) {
        let store = empty(page_bytes);
        let mut list: Vec<u8> = Vec::new();
        for ((is_insertion, place, rotation, entry), version) in edits.into_iter().zip(0..) {
            let length = list.len() as u32;
            if is_insertion || length == 0 {
                let (place, rotation) = (place % (length + 1), rotation % (length + 1));
                answer(&store, insert(version, place, entry, rotation)).unwrap();
                list.insert(place as usize, entry);
                list.rotate_right(rotation as usize);
            } else {
                let (place, rotation) = (place % length, rotation % (length - 1).max(1));
                answer(&store, remove(version, place, rotation)).unwrap();
                list.remove(place as usize);
                let turned = rotation as usize % list.len().max(1);
                list.rotate_right(turned);
            }
            let length = list.len() as u32;
            if length > 0 {
                prop_assert_eq!(&read(&store, 0, length).unwrap(), &list);
            }
        }
        let length = list.len() as u32;
        if length > 0 {
            let from = from % length;
            let expected: Vec<u8> =
                list.iter().cycle().skip(from as usize).take(list.len() + 2).copied().collect();
            prop_assert_eq!(read(&store, from, length + 2).unwrap(), expected);
            for (position, entry) in list.iter().enumerate() {
                let (version, position) = (version(&store), position as u32);
                let head = answer(&store, Request::Head { index: INDEX, version, position }).unwrap();
                prop_assert_eq!(head, Response::Head([*entry; HEAD_BYTES]));
            }
        }
        let begun = answer(&store, Request::Begin { index: INDEX }).unwrap();
        let head = list.first().map(|entry| [*entry; HEAD_BYTES]);
        prop_assert_eq!(begun, Response::Begun { version: version(&store), length, head });
        // No page is left over.
        let mut pages = 0;
        let all = (Bound::Unbounded, Bound::Unbounded);
        store.read().unwrap().scan(PAGES, all, Direction::Ascending, &mut |_, _| {
            pages += 1;
            ControlFlow::Continue(())
        }).unwrap();
        prop_assert_eq!(pages, list.len().div_ceil(page_bytes as usize / ENTRY_BYTES));
    }
}

#[test]
fn wrong_requests_change_nothing() {
    let store = empty(100);
    for length in 0..7 {
        answer(&store, insert(length.into(), length, length as u8, 0)).unwrap();
    }
    for version in [0, 6, 8] {
        for request in [
            insert(version, 0, 1, 0),
            remove(version, 0, 0),
            Request::Head { index: INDEX, version, position: 1 },
            Request::Entries { index: INDEX, version, position: 1, count: 1 },
        ] {
            assert_eq!(answer(&store, request), Ok(Response::Changed));
        }
    }
    for request in [
        insert(7, 8, 1, 0),
        insert(7, 0, 1, 8),
        remove(7, 7, 0),
        remove(7, 0, 6),
        Request::Head { index: INDEX, version: 7, position: 7 },
        Request::Entries { index: INDEX, version: 7, position: 7, count: 1 },
        Request::Entries { index: INDEX, version: 7, position: 0, count: 10 },
        Request::CreateIndex { index: INDEX, page_bytes: 99 },
    ] {
        assert!(matches!(answer(&store, request.clone()), Err(Refusal::Malformed(_))), "{request:?}");
    }
    assert_eq!(read(&store, 0, 7).unwrap(), [0, 1, 2, 3, 4, 5, 6]);
    for page_bytes in [0, 31, PAGE_BYTES_MAX + 1] {
        let create = Request::CreateIndex { index: IndexId([8; 8]), page_bytes };
        assert!(matches!(answer(&store, create), Err(Refusal::Limit(_))));
    }
    let unknown = Request::Head { index: IndexId([8; 8]), version: 0, position: 0 };
    assert_eq!(answer(&store, unknown), Err(Refusal::UnknownIndex));
}

#[test]
fn a_missing_or_short_page_is_damage() {
    for damaged_page in [None, Some(&[1_u8; 33][..]), Some(&[])] {
        let store = empty(64);
        for length in 0..7 {
            answer(&store, insert(length.into(), length, length as u8, 0)).unwrap();
        }
        let mut writer = store.write().unwrap();
        match damaged_page {
            Some(page) => writer.put(PAGES, &page_key(INDEX, 1), page).unwrap(),
            None => drop(writer.delete(PAGES, &page_key(INDEX, 1)).unwrap()),
        }
        writer.commit(Durability::Relaxed).unwrap();
        assert!(matches!(read(&store, 0, 7), Err(Refusal::Damaged(_))));
        assert!(matches!(answer(&store, insert(7, 3, 1, 2)), Err(Refusal::Damaged(_))));
        let third = Request::Head { index: INDEX, version: 7, position: 3 };
        assert!(matches!(answer(&store, third), Err(Refusal::Damaged(_))));
    }
}

#[test]
fn a_dropped_array_is_gone() {
    let store = empty(64);
    answer(&store, insert(0, 0, 1, 0)).unwrap();
    answer(&store, Request::DropIndex { index: INDEX }).unwrap();
    assert_eq!(read(&store, 0, 1), Err(Refusal::UnknownIndex));
    answer(&store, Request::CreateIndex { index: INDEX, page_bytes: 64 }).unwrap();
    assert!(matches!(read(&store, 0, 1), Err(Refusal::Malformed(_))));
}
