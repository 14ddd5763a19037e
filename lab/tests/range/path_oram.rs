//! Path ORAM and the B+ tree in it, over the real server half.

use crate::body::Subject;
use crate::world::{INDEX, Reply, Wire, cases, key, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::leakage::Pattern;
use arras_protocol::leakage::path_oram::PATH_ORAM;
use arras_protocol::ore::Width;
use arras_protocol::path_oram::{PathOram, Request, Response, Shape, WriteBack};
use arras_protocol::{Channel, ChannelError, IndexId, Refusal, RowId};
use arras_schemes::IndexError;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::path_oram::{OramParameters, OramTree, OramTreeParameters};
use arras_schemes::traits::RangeIndex;
use arras_storage::{Direction, Durability, Read, Storage, Table, Write};
use proptest::prelude::*;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex};

/// Nodes of a handful of entries, so that small sets make high trees.
struct Small {
    width: Width,
    oram_levels: usize,
}

impl Small {
    fn parameters(&self) -> OramTreeParameters {
        let oram = OramParameters { cached_levels: 1, durable: false, ..OramParameters::of_blocks(150) };
        OramTreeParameters { key_bytes: self.width.bytes(), oram_levels: self.oram_levels, oram }
    }
}

impl Subject for Small {
    type Index<S: Storage> = OramTree<Wire<S>>;

    fn width(&self) -> Width {
        self.width
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        OramTree::create(wire, INDEX, &key(), self.parameters(), prg(1)).await
    }
}

range_tests!(of_32_bits, Small { width: Width::Bits32, oram_levels: 1 });
range_tests!(of_64_bits, Small { width: Width::Bits64, oram_levels: 9 });

fn call(wire: &Wire<impl Storage>, request: Request) -> Result<Response, ChannelError> {
    run(Channel::<PathOram>::call(wire, request))
}

/// A loaded tree of three levels, buckets of 4 bytes.
fn loaded(wire: &Wire<impl Storage>) -> Shape {
    let shape = Shape { levels: 3, cached_levels: 1, bucket_bytes: 4 };
    call(wire, Request::Create { index: INDEX, shape }).expect("a tree");
    let buckets = vec![1; 4 * (shape.end_place() - shape.first_place()) as usize];
    call(wire, Request::Load { index: INDEX, first: shape.first_place(), buckets: buckets.into() })
        .expect("loads");
    shape
}

fn access(epoch: u64, write: Option<(Vec<u32>, Vec<u8>)>, read: Vec<u32>) -> Request {
    let write = write.map(|(leaves, buckets)| WriteBack { leaves, buckets: buckets.into() });
    Request::Access { index: INDEX, epoch, write, read, durable: true }
}

fn refusal(result: Result<Response, ChannelError>) -> Refusal {
    match result {
        Err(ChannelError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_write_back_is_applied_once_and_in_turn() {
    let world = memory();
    let wire = &world.wire;
    loaded(wire);
    let path = |content: u8| Some((vec![5], vec![content; 12]));
    let read = |result: Result<Response, ChannelError>| match result.expect("answers") {
        Response::Paths(buckets) => buckets.0,
        Response::Done => panic!("no paths"),
    };
    assert_eq!(read(call(wire, access(0, None, vec![5]))), [1; 12]);
    assert_eq!(read(call(wire, access(1, path(2), vec![5]))), [2; 12], "written first, then read");
    assert_eq!(read(call(wire, access(1, path(2), vec![5]))), [2; 12], "the same once more");
    assert_eq!(read(call(wire, access(2, path(3), vec![0]))), [1; 12], "another path");
    // Late duplicates neither write nor tell.
    assert_eq!(refusal(call(wire, access(1, path(2), vec![5]))), Refusal::Finished);
    assert_eq!(refusal(call(wire, access(0, None, vec![5]))), Refusal::Finished);
    assert_eq!(read(call(wire, access(2, None, vec![5]))), [3; 12]);
    // A client that remembers more than the server.
    for ahead in [access(3, None, vec![5]), access(4, path(4), vec![5])] {
        assert!(matches!(refusal(call(wire, ahead)), Refusal::Damaged(_)));
    }
}

#[test]
fn malformed_requests_are_refused_and_change_nothing() {
    let world = memory();
    let wire = &world.wire;
    let other = IndexId([9; 8]);
    for request in [
        Request::Access { index: other, epoch: 0, write: None, read: vec![], durable: false },
        Request::Grow { index: other, levels: 1 },
        Request::Load { index: other, first: 1, buckets: vec![1].into() },
    ] {
        assert_eq!(refusal(call(wire, request)), Refusal::UnknownIndex);
    }
    let shape = Shape { levels: 3, cached_levels: 1, bucket_bytes: 4 };
    for shape in [
        Shape { levels: 200, ..shape },
        Shape { cached_levels: 4, ..shape },
        Shape { bucket_bytes: 0, ..shape },
        Shape { bucket_bytes: u32::MAX, ..shape },
    ] {
        let made = call(wire, Request::Create { index: INDEX, shape });
        assert!(matches!(refusal(made), Refusal::Malformed(_)));
    }
    call(wire, Request::Create { index: INDEX, shape }).expect("a tree");
    let early = call(wire, access(0, None, vec![1]));
    assert!(matches!(refusal(early), Refusal::Malformed(_)), "not loaded yet");
    loaded(wire);
    let everything = stored(wire);
    let load = |first, bytes| Request::Load { index: INDEX, first, buckets: vec![9; bytes].into() };
    for request in [
        access(0, None, vec![8]),
        access(1, Some((vec![8], vec![2; 12])), vec![]),
        access(1, Some((vec![1], vec![2; 11])), vec![]),
        access(1, Some((vec![1], vec![2; 16])), vec![]),
        access(1, Some((vec![1, 7], vec![2; 12])), vec![]),
        Request::Grow { index: INDEX, levels: 5 },
        Request::Grow { index: INDEX, levels: 2 },
        load(16, 4),
        load(u32::MAX, 8),
    ] {
        assert!(matches!(refusal(call(wire, request)), Refusal::Malformed(_)));
    }
    assert!(matches!(refusal(call(wire, access(0, None, vec![1; 65]))), Refusal::Limit(_)));
    // What is there already is not loaded again.
    call(wire, load(2, 8)).expect("no effect");
    call(wire, Request::Grow { index: INDEX, levels: 3 }).expect("no effect");
    assert_eq!(stored(wire), everything);
    call(wire, Request::Drop { index: INDEX }).expect("drops");
    call(wire, Request::Drop { index: INDEX }).expect("no effect");
    assert!(stored(wire).is_empty());
}

fn stored(wire: &Wire<impl Storage>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let reader = wire.backend().store().read().expect("no fault is planned");
    let mut found = Vec::new();
    for table in ["path_oram_heads", "path_oram_buckets"] {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader
            .scan(Table(table), everything, Direction::Ascending, &mut |name, value| {
                found.push((name.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .expect("no fault is planned");
    }
    found
}

fn entry(key: u32, row: u8) -> RangeEntry {
    RangeEntry { value: key.to_be_bytes().to_vec(), row: RowId([row; 16]), sums: Vec::new() }
}

/// What the server has after these keys are inserted one by one.
fn after(keys: impl Iterator<Item = u32>, seed: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let world = memory();
    let subject = Small { width: Width::Bits32, oram_levels: 1 };
    run(async {
        let tree = OramTree::create(world.wire.clone(), INDEX, &key(), subject.parameters(), prg(seed)).await;
        let tree = tree.expect("a tree");
        for key in keys {
            tree.insert(vec![entry(key, 1)]).await.expect("inserts");
        }
    });
    stored(&world.wire)
}

#[test]
fn a_snapshot_shows_sizes_alone() {
    let sizes = |stored: &[(Vec<u8>, Vec<u8>)]| -> Vec<(Vec<u8>, usize)> {
        stored.iter().map(|(name, value)| (name.clone(), value.len())).collect()
    };
    let ascending = after(0..100, 1);
    let scattered = after((0..100_u32).map(|key| key.wrapping_mul(0x9E37_79B9)), 1);
    assert_eq!(sizes(&ascending), sizes(&scattered), "whatever the keys");
    assert_eq!(ascending, after(0..100, 1), "a run replays from its seed");
    let again = after(0..100, 2);
    let contents = |stored: &[(Vec<u8>, Vec<u8>)]| {
        stored[1..].iter().map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let same =
        contents(&ascending).iter().zip(contents(&again)).filter(|(left, right)| *left == right).count();
    assert_eq!(same, 0, "no bucket looks alike under another seed");
}

#[test]
fn growth_shows_part_of_the_order_of_insertion_as_is_stated() {
    // Ascending keys leave leaves half full, so the ORAM grows earlier.
    let buckets = |keys: Vec<u32>| after(keys.into_iter(), 1).len();
    let shows = [130_u32, 140, 150].into_iter().any(|count| {
        let scattered = (0..count).map(|key| key.wrapping_mul(0x9E37_79B9));
        buckets((0..count).collect()) != buckets(scattered.collect())
    });
    assert!(shows);
    assert!(PATH_ORAM.update.contains(&Pattern::InsertionOrder));
}

#[test]
fn a_limit_shows_as_is_stated() {
    let world = memory();
    let subject = Small { width: Width::Bits32, oram_levels: 1 };
    let replies = |limit| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let seen_by_server = Arc::clone(&seen);
        run(async {
            let tree = subject.open(world.wire.clone()).await.expect("a tree");
            tree.insert((0..100).map(|key| entry(key, 1)).collect()).await.expect("inserts");
            world.wire.set_tamper(Some(Box::new(move |reply| {
                seen_by_server.lock().expect("no test panicked here").push(reply.len());
                Reply::Bytes(reply)
            })));
            tree.search(vec![0; 4], vec![255; 4], Order::Ascending, limit).await.expect("searches");
            world.wire.set_tamper(None);
        });
        let seen = seen.lock().expect("no test panicked here");
        seen.iter().sum::<usize>()
    };
    let [one, two, all] = [Some(1), Some(2), None].map(replies);
    assert_eq!(one, two, "a limit shows in leaves");
    assert!(2 * one < all, "bytes of one path and of all leaves' paths: {one} and {all}");
    assert!(PATH_ORAM.search.contains(&Pattern::Limit));
}

/// Puts values of one table back.
fn set_back(wire: &Wire<impl Storage>, table: &'static str, values: &[(Vec<u8>, Vec<u8>)]) {
    let mut writer = wire.backend().store().write().expect("no fault is planned");
    for (name, value) in values {
        writer.put(Table(table), name, value).expect("no fault is planned");
    }
    writer.commit(Durability::Durable).expect("no fault is planned");
}

#[test]
fn an_index_set_back_is_noticed() {
    let world = memory();
    let subject = Small { width: Width::Bits32, oram_levels: 1 };
    run(async {
        let tree = subject.open(world.wire.clone()).await.expect("a tree");
        let search = async || tree.search(vec![0; 4], vec![255; 4], Order::Ascending, None).await;
        for key in 0..40 {
            tree.insert(vec![entry(key, 1)]).await.expect("inserts");
        }
        let old = stored(&world.wire);
        for key in 40..60 {
            tree.insert(vec![entry(key, 1)]).await.expect("inserts");
        }
        let new = stored(&world.wire);
        // The head comes first.
        set_back(&world.wire, "path_oram_heads", &old[..1]);
        let found = search().await;
        assert!(
            matches!(&found, Err(IndexError::Channel(ChannelError::Refused(Refusal::Damaged(_))))),
            "{found:?}"
        );
        set_back(&world.wire, "path_oram_heads", &new[..1]);
        set_back(&world.wire, "path_oram_buckets", &old[1..]);
        let found = search().await;
        assert!(matches!(found, Err(IndexError::Open(_))), "{found:?}");
        // The request without an answer is sent again and writes again.
        set_back(&world.wire, "path_oram_heads", &new[..1]);
        set_back(&world.wire, "path_oram_buckets", &new[1..]);
        assert_eq!(search().await.expect("as it was").len(), 60);
    });
}

fn request() -> impl Strategy<Value = Request> {
    let leaves = || prop::collection::vec(0..10_u32, 0..4);
    let shape = (0..6_u8, 0..6_u8, 0..8_u32).prop_map(|(levels, cached_levels, bucket_bytes)| Shape {
        levels,
        cached_levels,
        bucket_bytes,
    });
    let bytes = || prop::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        (0..4_u64, prop::option::of((leaves(), bytes())), leaves())
            .prop_map(|(epoch, write, read)| access(epoch, write, read)),
        shape.prop_map(|shape| Request::Create { index: INDEX, shape }),
        Just(Request::Drop { index: INDEX }),
        (0..7_u8).prop_map(|levels| Request::Grow { index: INDEX, levels }),
        (prop_oneof![0..20_u32, any::<u32>()], bytes()).prop_map(|(first, bytes)| Request::Load {
            index: INDEX,
            first,
            buckets: bytes.into()
        }),
    ]
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn no_request_makes_the_server_panic_or_contradict_itself(
        requests in prop::collection::vec(request(), 1..40),
    ) {
        let world = memory();
        for request in requests {
            if let Err(error) = call(&world.wire, request) {
                let contradicts = matches!(&error, ChannelError::Refused(Refusal::Damaged(why)) if why.contains("bucket"));
                prop_assert!(matches!(error, ChannelError::Refused(_)) && !contradicts, "{}", error);
            }
        }
    }
}
