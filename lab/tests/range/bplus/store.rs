//! Bulk load, creation, requests that break the rules, and a store that contradicts itself.

use super::Over;
use crate::body::{Pair, Subject, entries};
use crate::world::{INDEX, key, memory, prg, run};
use arras_lab::plain_scheme::PlainScheme;
use arras_protocol::Order;
use arras_protocol::bplus::{
    After, BPlus as Protocol, Bound, Change, ENTRIES_MAX, NewEntry, Placed, Request, Response, Revision,
    SealedEntry, Target, TieToken,
};
use arras_protocol::ore::{Scheme, Width};
use arras_protocol::{Blob, Channel, ChannelError, IndexId, Refusal};
use arras_schemes::IndexError;
use arras_schemes::bplus::StatefulBPlus;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::traits::RangeIndex;
use arras_storage::{Direction, Durability, Read, Storage, Table, Write};
use std::ops::{Bound as End, ControlFlow};

const PAGES: Table = Table("bplus_pages");

fn plain(page_bytes: u32) -> Over<fn(Width) -> PlainScheme> {
    Over { width: Width::Bits32, page_bytes, make: PlainScheme }
}

#[test]
fn a_loaded_tree_is_like_an_inserted_one_and_goes_on_as_one() {
    run(async {
        for count in [0_u64, 1, 2, 3, 4, 5, 9, 10, 11, 37, 38, 39, 40, 41, 200, 777] {
            let world = memory();
            let pair = Pair::open(&plain(176), &world).await;
            let items: Vec<_> = (0..count).map(|n| (1000 + n / 3, n as u8)).collect();
            pair.index.load(entries(pair.width, &items)).await.expect("loads");
            pair.list.insert(entries(pair.width, &items)).await.expect("a list does not fail");
            pair.check_all().await;
            let more: Vec<_> = (0..count).map(|n| (5000 + n, 0)).collect();
            pair.index.load(entries(pair.width, &more)).await.expect("loads after that");
            pair.list.insert(entries(pair.width, &more)).await.expect("a list does not fail");
            pair.insert(&[(900, 1), (1001, 77), (6000, 2)]).await;
            for item in items.iter().step_by(2) {
                pair.remove(&[*item]).await;
            }
            pair.check_all().await;
            pair.remove(&items).await;
            pair.remove(&more).await;
            pair.check_all().await;
        }
    });
}

#[test]
fn a_load_that_does_not_ascend_is_refused() {
    run(async {
        let world = memory();
        let pair = Pair::open(&plain(176), &world).await;
        pair.insert(&[(10, 1)]).await;
        let error = pair.index.load(entries(pair.width, &[(9, 1)])).await.expect_err("not greater");
        assert!(matches!(error, IndexError::Channel(ChannelError::Refused(Refusal::Malformed(_)))));
        pair.check_all().await;
    });
}

#[test]
fn pages_that_do_not_hold_three_entries_are_refused() {
    run(async {
        let world = memory();
        let error = plain(142).open(world.wire.clone()).await.expect_err("too small");
        assert!(error.to_string().contains("at least 143"), "{error}");
        assert!(plain((1 << 20) + 1).open(world.wire.clone()).await.is_err());
        plain(143).open(world.wire.clone()).await.expect("three entries");
        plain(143).open(world.wire.clone()).await.expect("is there");
        assert!(plain(144).open(world.wire.clone()).await.is_err(), "another page size");
    });
}

#[test]
fn a_stateful_scheme_does_not_open_what_it_does_not_know() {
    run(async {
        let world = memory();
        let open = || {
            StatefulBPlus::new(world.wire.clone(), INDEX, &key(), FhOpe::new(Width::Bits32), prg(1))
                .create(4096)
        };
        let index = open().await.expect("a new index");
        open().await.expect("still empty");
        index.insert(entries(Width::Bits32, &[(1, 1)])).await.expect("inserts");
        assert!(matches!(open().await, Err(IndexError::Caller(_))));
        index.drop_index().await.expect("drops");
        open().await.expect("a new index");
    });
}

async fn refused<S: Storage>(wire: &crate::world::Wire<S>, request: Request) -> Refusal {
    match Channel::<Protocol>::call(wire, request).await {
        Err(ChannelError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_that_break_the_rules_are_refused() {
    run(async {
        let world = memory();
        let pair = Pair::open(&plain(176), &world).await;
        pair.insert(&[(1, 1), (2, 2)]).await;
        let (index, blob, sealed) = (INDEX, |bytes: usize| Blob(vec![0; bytes]), SealedEntry([1; 32]));
        let entry = |query, stored| NewEntry { query: blob(query), stored: blob(stored), sealed, tie: None };
        let insert = |entries| Request::Change(Change::Insert { index, entries });
        let bound = |bytes| Bound { query: blob(bytes), after: None };
        let remove = |query| {
            let targets = vec![Target { query: blob(query), sealed, tie: None }];
            Request::Change(Change::Remove { index, targets })
        };
        let search = |lower, upper| Request::Search {
            index,
            version: 0,
            lower,
            upper,
            order: Order::Ascending,
            limit: None,
        };
        let revision = Revision { from: 0, to: 1, moves: blob(0), removed: Vec::new(), inserted: Vec::new() };
        let requests = [
            insert(vec![entry(3, 4)]),
            insert(vec![entry(4, 5)]),
            // Revisions, and looks for entries, are for schemes with state.
            Request::Change(Change::Revise { index, revision }),
            Request::Locate { index, version: 0, wanted: Vec::new() },
            // A key of ties is for schemes that have one.
            insert(vec![NewEntry { tie: Some(TieToken([1; 16])), ..entry(4, 4) }]),
            search(
                Bound { query: blob(4), after: Some(After { sealed, tie: Some(TieToken([1; 16])) }) },
                bound(4),
            ),
            remove(5),
            search(bound(3), bound(4)),
            search(bound(4), bound(0)),
            Request::Change(Change::CreateIndex {
                index: IndexId([9; 8]),
                scheme: Scheme::LewiWu { width: Width::Bits32, block_bits: 5 },
                page_bytes: 4096,
            }),
        ];
        for request in requests {
            let what = format!("{request:?}");
            assert!(matches!(refused(&world.wire, request).await, Refusal::Malformed(_)), "{what}");
        }
        let many = insert(vec![entry(4, 4); ENTRIES_MAX + 1]);
        assert!(matches!(refused(&world.wire, many).await, Refusal::Limit(_)));
        let unknown = Request::Load { index: IndexId([9; 8]), entries: Vec::new() };
        assert_eq!(refused(&world.wire, unknown).await, Refusal::UnknownIndex);
        pair.check_all().await;
    });
}

#[test]
fn revisions_must_be_whole_ascend_and_follow_the_last_one() {
    run(async {
        let world = memory();
        let (index, scheme) = (INDEX, Scheme::FhOpe(Width::Bits32));
        let create = Request::Change(Change::CreateIndex { index, scheme, page_bytes: 208 });
        Channel::<Protocol>::call(&world.wire, create).await.expect("creates");
        let revise = |from, to, moves: &[u64], removed: &[u64], inserted: &[u64]| {
            let placed = |number: &u64| Placed {
                stored: Blob(number.to_be_bytes().to_vec()),
                sealed: SealedEntry([*number as u8; 32]),
            };
            let moves: Vec<u8> = moves.iter().flat_map(|number| number.to_be_bytes()).collect();
            let [removed, inserted] = [removed, inserted].map(|list| list.iter().map(placed).collect());
            let revision = Revision { from, to, moves: moves.into(), removed, inserted };
            Request::Change(Change::Revise { index, revision })
        };
        let call = async |request| Channel::<Protocol>::call(&world.wire, request).await;
        assert_eq!(call(revise(0, 3, &[], &[], &[10, 20, 30])).await.expect("inserts"), Response::Done);
        let bad: [&[u64]; 3] = [&[10], &[10, 11, 10, 12], &[10, 13, 20, 12]];
        for moves in bad {
            let refusal = refused(&world.wire, revise(3, 4, moves, &[], &[])).await;
            assert!(matches!(refusal, Refusal::Malformed(_)), "{moves:?}");
        }
        for request in [
            revise(3, 3, &[], &[], &[40]),
            revise(3, 4, &[], &[11], &[]),
            // The entry of this name has another ciphertext.
            revise(3, 4, &[20, 21], &[20], &[]),
            // Another entry has this ciphertext.
            revise(3, 4, &[], &[], &[20]),
        ] {
            assert!(matches!(refused(&world.wire, request).await, Refusal::Malformed(_)));
        }
        // What comes late, or again, is told the version.
        for request in [
            revise(0, 3, &[], &[], &[10, 20, 30]),
            revise(2, 4, &[], &[], &[40]),
            Request::Locate { index, version: 0, wanted: Vec::new() },
        ] {
            assert_eq!(refused(&world.wire, request).await, Refusal::OtherVersion { version: 3 });
        }
        let bound = |number: u64| Bound { query: Blob(number.to_be_bytes().to_vec()), after: None };
        let search = |version| {
            let (lower, upper) = (bound(0), bound(u64::MAX));
            Request::Search { index, version, lower, upper, order: Order::Ascending, limit: None }
        };
        assert_eq!(refused(&world.wire, search(2)).await, Refusal::OtherVersion { version: 3 });
        let Response::Found { entries, .. } = call(search(3)).await.expect("searches") else { panic!() };
        assert_eq!(entries.len(), 3 * 40, "nothing of what was refused");
    });
}

/// Every page, damaged in several ways: an error or a bounded answer, and an end.
#[test]
fn a_damaged_store_is_found_out_or_does_no_harm() {
    run(async {
        let world = memory();
        let pair = Pair::open(&plain(176), &world).await;
        pair.insert(&(0..60).map(|n| (n, 1)).collect::<Vec<_>>()).await;
        let store = world.wire.backend().store();
        let mut pages = Vec::new();
        store
            .read()
            .expect("memory does not fail")
            .scan(PAGES, (End::Unbounded, End::Unbounded), Direction::Ascending, &mut |name, page| {
                pages.push((name.to_vec(), page.to_vec()));
                ControlFlow::Continue(())
            })
            .expect("memory does not fail");
        assert!(pages.len() > 10);
        let put = |name: &[u8], page: Option<&[u8]>| {
            let mut writer = store.write().expect("memory does not fail");
            match page {
                Some(page) => writer.put(PAGES, name, page).expect("memory does not fail"),
                None => drop(writer.delete(PAGES, name).expect("memory does not fail")),
            }
            writer.commit(Durability::Relaxed).expect("memory does not fail");
        };
        let mut found_out = 0;
        for (turn, (name, page)) in pages.iter().enumerate() {
            let other = &pages[(turn + 1) % pages.len()].1;
            let mut flipped = page.clone();
            flipped[3 + turn % (page.len() - 3)] ^= 0x80;
            let cut = &page[..page.len() - 1];
            for bad in [None, Some(other.as_slice()), Some(flipped.as_slice()), Some(cut), Some(&[][..])] {
                put(name, bad);
                let [low, high] = [0_u32, 59].map(|value| value.to_be_bytes().to_vec());
                for order in [Order::Ascending, Order::Descending] {
                    match pair.index.search(low.clone(), high.clone(), order, None).await {
                        Ok(found) => assert!(found.len() <= 60),
                        Err(_) => found_out += 1,
                    }
                }
                let _ = pair.index.insert(entries(pair.width, &[(30, 2)])).await;
                let _ = pair.index.remove(entries(pair.width, &[(30, 2), (7, 1)])).await;
                pages.iter().for_each(|(name, page)| put(name, Some(page)));
            }
        }
        assert!(found_out > pages.len(), "most damage shows: {found_out}");
    });
}
