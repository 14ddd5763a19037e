//! Writes of more bytes than a request may have.

use crate::world::{World, namespace, run, with_array};
use arras_documents::limits;
use arras_lab::channel::Direct;
use arras_planner::terms::TERMS_MAX;
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Blob, Channel, CollectionId, OperationId, Refusal, codec, documents};
use arras_schemes::contract::Held;
use arras_schemes::padding::pad_in_proportion;
use arras_server::Backend;
use arras_service::store::Store;
use arras_storage::{Direction, Memory, Read, Storage, Table};
use bson::doc;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex};

/// Requests are cut here; what is refused is larger by what one step may be.
const REQUEST_BYTES: usize = 64 * 1024;
const FRAME_BYTES: usize = 2 * REQUEST_BYTES;
/// What a document's step has besides its values and where its entries are: names, seals, and what heads a request.
const SEALING_BYTES: usize = 512;

fn parts_kept(server: &Backend<Memory>) -> usize {
    let mut count = 0;
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let reader = server.store().read().expect("memory does not fail");
    reader
        .scan(Table("parts"), everything, Direction::Ascending, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })
        .expect("memory does not fail");
    count
}

#[test]
fn an_index_over_long_arrays_is_made_in_requests_that_can_be_sent() {
    run(async {
        let world = World::new(REQUEST_BYTES, FRAME_BYTES).await;
        let documents = (0..20).map(|id| with_array(id, 300)).collect();
        assert_eq!(world.insert(documents).await.expect("a write in parts"), 20);
        world.create_index(doc! { "values": 1 }).await.expect("an index");
        let wanted = with_array(7, 300).get_array("values").expect("an array")[250].clone();
        assert_eq!(world.ids(doc! { "values": wanted }).await, [7]);
        let range = doc! { "values": { "$gte": 0, "$lt": 100 } };
        assert_eq!(world.ids(range).await, (0..20).collect::<Vec<_>>());
        assert_eq!(parts_kept(&world.server), 0);
    });
}

#[test]
fn how_far_an_index_build_is_can_be_seen() {
    run(async {
        let world = World::new(REQUEST_BYTES, FRAME_BYTES).await;
        world.insert((0..20).map(|id| with_array(id, 300)).collect()).await.expect("documents");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (engine, builds) = (world.engine.clone(), Arc::clone(&seen));
        let watch = move || builds.lock().expect("a list").extend(engine.index_builds());
        *world.channel.watch.lock().expect("no watch") = Some(Box::new(watch));
        world.create_index(doc! { "values": 1 }).await.expect("an index");
        *world.channel.watch.lock().expect("a watch") = None;
        let seen = seen.lock().expect("a list");
        assert!(seen.iter().all(|build| build.total == 20 && build.done <= 20 && build.ns == namespace()));
        assert!(seen.iter().any(|build| build.done == 0), "its beginning");
        assert!(seen.iter().any(|build| build.done > 0 && build.done < 20), "its course");
        assert!(seen.windows(2).all(|pair| pair[0].done <= pair[1].done), "it goes on");
        assert_eq!(world.engine.index_builds(), [], "its end");
    });
}

#[test]
fn one_document_with_more_entries_than_a_request_holds_is_written_whole() {
    run(async {
        let length = 3000;
        let mut document = with_array(1, length);
        for field in ["others", "thirds"] {
            let values = document.get_array("values").expect("an array").clone();
            document.insert(field, values);
        }
        // The document itself is one step, longer than a request: its values, and where its entries are. It goes alone,
        // and nothing that is sent is longer.
        let held = 3 * usize::try_from(length).expect("a length") * Held::BYTES;
        let header = pad_in_proportion(vec![0; held], 64).len();
        let step = limits::check_built(&document).expect("a document") + header + SEALING_BYTES;
        assert!(step > 2 * REQUEST_BYTES, "{step} bytes");
        let world = World::new(REQUEST_BYTES, step).await;
        for field in ["values", "others", "thirds"] {
            world.create_index(doc! { field: 1 }).await.expect("an index");
        }
        let before = world.channel.requests.load(std::sync::atomic::Ordering::SeqCst);
        world.insert(vec![document.clone()]).await.expect("a write in parts");
        let requests = world.channel.requests.load(std::sync::atomic::Ordering::SeqCst) - before;
        assert!(requests > 3, "{requests} requests");
        let last = document.get_array("thirds").expect("an array")[2999].clone();
        assert_eq!(world.ids(doc! { "thirds": last }).await, [1]);
        assert_eq!(parts_kept(&world.server), 0);
    });
}

#[test]
fn an_array_of_more_than_ten_thousand_elements_is_indexed() {
    run(async {
        let world = World::new(1 << 24, 48 << 20).await;
        world.create_index(doc! { "values": 1 }).await.expect("an index");
        world.insert(vec![with_array(1, 10_001)]).await.expect("MongoDB has no such limit");
        assert_eq!(world.ids(doc! { "values": 1 }).await, [1]);
    });
}

#[test]
fn a_document_with_too_many_values_is_refused_by_name_and_nothing_stays_in_doubt() {
    run(async {
        let world = World::new(1 << 24, 48 << 20).await;
        world.create_index(doc! { "values": 1 }).await.expect("an index");
        let values: Vec<i32> = (0..i32::try_from(TERMS_MAX).expect("a small limit") + 1).collect();
        let refused = world.insert(vec![doc! { "_id": 1, "values": values }]).await;
        let error = refused.expect_err("over the limit");
        assert_eq!(arras_mongo::error::code_of(error.fault).0, 2);
        for word in ["'values'", &TERMS_MAX.to_string()] {
            assert!(error.message.contains(word), "{word} in {}", error.message);
        }
        assert!(!error.message.contains("parallel"), "{}", error.message);
        let arrays = |length: i32| (0..length).collect::<Vec<i32>>();
        world.create_index(doc! { "a": 1, "b": 1 }).await.expect("an index");
        let refused = world.insert(vec![doc! { "_id": 2, "a": arrays(1000), "b": arrays(1000) }]).await;
        assert_eq!(refused.expect_err("a million combinations").fault, arras_service::Fault::ParallelArrays);
        world.insert(vec![doc! { "_id": 3, "values": 5 }]).await.expect("nothing is in doubt");
        assert_eq!(world.ids(doc! { "values": 5 }).await, [3]);
    });
}

const COLLECTION: CollectionId = CollectionId([3; 8]);

fn upload(sequence: u64, part: u32, steps: &[Step]) -> write::Request {
    let operation = OperationId { epoch: 1, sequence };
    let steps = Blob(codec::encode(&steps));
    let finished_below = OperationId { epoch: 0, sequence: 0 };
    write::Request {
        operation: None,
        finished_below,
        acknowledged: 0,
        steps: vec![Step::Upload { operation, part, steps }],
    }
}

fn apply(sequence: u64, finished: u64, steps: Vec<Step>) -> write::Request {
    let finished_below = OperationId { epoch: 1, sequence: finished };
    write::Request {
        operation: Some(OperationId { epoch: 1, sequence }),
        finished_below,
        acknowledged: 0,
        steps,
    }
}

fn create() -> Vec<Step> {
    vec![Step::Documents(documents::Change::CreateCollection { collection: COLLECTION })]
}

fn delete(row: u8) -> Vec<Step> {
    let row = arras_protocol::RowId([row; 16]);
    vec![Step::Documents(documents::Change::Delete { collection: COLLECTION, row })]
}

/// What a server makes of parts: nothing until their write comes, then all of them, once.
#[test]
fn parts_change_nothing_until_their_write_comes() {
    run(async {
        let server = Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail"));
        let channel = Direct::new(Arc::clone(&server));
        let send = async |request| Channel::<Write>::call(&channel, request).await;
        let refusal = |answer: Result<write::Response, arras_protocol::ChannelError>| match answer {
            Err(arras_protocol::ChannelError::Refused(refusal)) => refusal,
            other => panic!("{other:?} in place of a refusal"),
        };
        let count = || async {
            let request = documents::Request::Count { collection: COLLECTION };
            Channel::<documents::Documents>::call(&channel, request).await
        };
        send(upload(5, 0, &create())).await.expect("a part");
        assert!(count().await.is_err(), "the collection is not there yet");
        // One of two is missing: nothing is applied, and the name is not used up.
        assert_eq!(refusal(send(apply(5, 0, vec![Step::Parts { count: 2 }])).await), Refusal::Incomplete);
        assert!(count().await.is_err(), "nothing was applied");
        send(upload(5, 1, &delete(1))).await.expect("a part");
        assert!(send(apply(5, 0, vec![Step::Parts { count: 2 }])).await.expect("whole").applied);
        assert!(count().await.is_ok());
        assert_eq!(parts_kept(&server), 0);
        // Late ones, and the write again.
        send(upload(5, 0, &create())).await.expect("no harm");
        assert_eq!(parts_kept(&server), 0);
        assert!(!send(apply(5, 0, vec![Step::Parts { count: 2 }])).await.expect("had").applied);
        // Parts of a write that never came go with what the proxy has finished with.
        send(upload(6, 0, &delete(2))).await.expect("a part");
        assert_eq!(parts_kept(&server), 1);
        send(apply(8, 7, delete(3))).await.expect("a write");
        assert_eq!(parts_kept(&server), 0);
        send(upload(6, 0, &delete(2))).await.expect("no harm");
        assert_eq!(parts_kept(&server), 0);
        // No parts in parts, and each kind in its own kind of write only.
        send(upload(9, 0, &[Step::Parts { count: 1 }])).await.expect("a part");
        assert!(matches!(
            refusal(send(apply(9, 7, vec![Step::Parts { count: 1 }])).await),
            Refusal::Malformed(_)
        ));
        let mut durable = upload(10, 0, &create());
        durable.operation = Some(OperationId { epoch: 1, sequence: 10 });
        assert!(matches!(refusal(send(durable).await), Refusal::Malformed(_)));
        let mut relaxed = apply(10, 7, vec![Step::Parts { count: 0 }]);
        relaxed.operation = None;
        assert!(matches!(refusal(send(relaxed).await), Refusal::Malformed(_)));
    });
}
