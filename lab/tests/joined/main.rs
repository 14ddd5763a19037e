//! Writers of one collection that wait for each other share one write; what each is told, and finds, is its own.
#![allow(clippy::unwrap_used)]

mod world;

use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_protocol::Refusal;
use arras_protocol::documents::Change;
use arras_protocol::write::{Request, Step};
use arras_service::interrupt::{Interrupt, Reason};
use arras_service::store::{InsertStatement, Inserted, Modification, Query, Store, UpdateStatement};
use arras_service::{Fault, ServiceError};
use bson::{Bson, doc};
use world::World;

/// MongoDB's code for a write that is not confirmed.
const IN_DOUBT: i32 = 64;

type Inserting = tokio::task::JoinHandle<Result<Inserted, ServiceError>>;

fn id_is(id: i32) -> Filter {
    Filter::parse(&doc! { "_id": id }).expect("a filter")
}

fn update(filter: Filter, update: bson::Document) -> UpdateStatement {
    UpdateStatement {
        filter,
        update: Update::parse(&Bson::Document(update)).expect("an update"),
        hint: None,
        array_filters: ArrayFilters::default(),
        multi: false,
        upsert: None,
        interrupt: Interrupt::default(),
    }
}

/// The code of what an insert of one document was refused with.
async fn refused(inserting: Inserting) -> Option<i32> {
    match inserting.await.expect("no panic") {
        Ok(inserted) => {
            inserted.failures.first().map(|failure| arras_mongo::error::code_of(failure.error.fault).0)
        }
        Err(error) => Some(arras_mongo::error::code_of(error.fault).0),
    }
}

#[tokio::test]
async fn writers_that_wait_share_one_write_and_one_commit_on_both_sides() {
    let world = World::new().await;
    world.insert(doc! { "_id": -1 }).await;
    let first = world.hold_up(doc! { "_id": 0 }).await;
    let (server_before, local_before) = world.commits();
    let before = world.channel.writes().len();
    let mut others = Vec::new();
    for id in 1..=15 {
        others.push(world.begin_insert(doc! { "_id": id }).await);
    }
    world.channel.open_gate();
    for inserting in std::iter::once(first).chain(others) {
        assert_eq!(refused(inserting).await, None);
    }
    // The first one was recorded and under way already.
    assert_eq!(world.channel.writes().len() - before, 1, "requests for the fifteen");
    let (server, local) = world.commits();
    assert_eq!((server - server_before, local - local_before), (2, 1));
    assert_eq!(world.ids().await, (-1..=15).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_duplicate_among_joined_writes_is_refused_alone() {
    let world = World::new().await;
    world.create_index(doc! { "u": 1 }, true).await;
    world.insert(doc! { "_id": 1, "u": 1 }).await;
    let first = world.hold_up(doc! { "_id": 2, "u": 2 }).await;
    let before = world.channel.writes().len();
    let others = [
        (doc! { "_id": 3, "u": 3 }, None),
        (doc! { "_id": 1, "u": 4 }, Some(11000)),
        (doc! { "_id": 5, "u": 2 }, Some(11000)),
        (doc! { "_id": 6, "u": 6 }, None),
        // Of the same write.
        (doc! { "_id": 7, "u": 6 }, Some(11000)),
        (doc! { "_id": 6, "u": 8 }, Some(11000)),
        (doc! { "_id": 9, "u": 9 }, None),
    ];
    let mut inserting = Vec::new();
    for (document, code) in others {
        inserting.push((world.begin_insert(document).await, code));
    }
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    for (position, (inserting, code)) in inserting.into_iter().enumerate() {
        assert_eq!(refused(inserting).await, code, "number {position}");
    }
    assert_eq!(world.channel.writes().len() - before, 1);
    assert_eq!(world.ids().await, [1, 2, 3, 6, 9]);
}

#[tokio::test]
async fn writes_of_one_document_see_each_other() {
    let world = World::new().await;
    world.insert(doc! { "_id": 1, "n": 0 }).await;
    world.insert(doc! { "_id": 2, "n": 0 }).await;
    let first = world.hold_up(doc! { "_id": 3, "n": 0 }).await;
    let mut updating = Vec::new();
    for _ in 0..5 {
        for id in [1, 2] {
            updating.push(world.begin_update(update(id_is(id), doc! { "$inc": { "n": 1 } })).await);
        }
    }
    // Deleted, inserted anew and updated: each as the one before left it.
    let deleting = world.begin_delete(id_is(1)).await;
    let again = world.begin_insert(doc! { "_id": 1, "n": 100 }).await;
    let last = world.begin_update(update(id_is(1), doc! { "$inc": { "n": 1 } })).await;
    // Those that match nothing.
    let no_match = Filter::parse(&doc! { "_id": 2, "n": -1 }).expect("a filter");
    let missed = world.begin_update(update(no_match.clone(), doc! { "$set": { "n": 7 } })).await;
    let not_deleted = world.begin_delete(no_match).await;
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    for updating in updating {
        let updated = updating.await.expect("no panic").expect("an update");
        assert_eq!((updated.matched, updated.modified), (1, 1));
    }
    assert_eq!(deleting.await.expect("no panic"), Ok(1));
    assert_eq!(refused(again).await, None);
    assert_eq!(last.await.expect("no panic").expect("an update").modified, 1);
    assert_eq!(missed.await.expect("no panic").expect("an update").matched, 0);
    assert_eq!(not_deleted.await.expect("no panic"), Ok(0));
    let found = world.documents().await;
    let n = |id: i32| {
        let document = found.iter().find(|d| d.get_i32("_id").is_ok_and(|found| found == id)).expect("there");
        document.get_i32("n").expect("a number")
    };
    assert_eq!((n(1), n(2), n(3)), (101, 5, 0));
}

/// What the indexes cannot take is known only when the whole write is put together.
#[tokio::test]
async fn a_document_that_an_index_cannot_take_is_refused_alone() {
    let world = World::new().await;
    world.create_index(doc! { "a": 1, "b": 1 }, false).await;
    let first = world.hold_up(doc! { "_id": 0 }).await;
    let before = world.begin_insert(doc! { "_id": 1, "a": 1 }).await;
    let many: Vec<i32> = (0..1000).collect();
    let too_many = world.begin_insert(doc! { "_id": 2, "a": many.clone(), "b": many }).await;
    let after = world.begin_insert(doc! { "_id": 3, "a": [1, 2], "b": 3 }).await;
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    assert_eq!(refused(before).await, None);
    assert_eq!(refused(too_many).await, Some(171));
    assert_eq!(refused(after).await, None);
    assert_eq!(world.ids().await, [0, 1, 3]);
}

/// A joined write that the server refuses whole is tried write by write.
#[tokio::test]
async fn what_the_server_refuses_is_the_writers_own() {
    fn inserts(request: &Request) -> usize {
        let is_insert = |step: &&Step| matches!(step, Step::Documents(Change::Put { insert: true, .. }));
        request.steps.iter().filter(is_insert).count()
    }
    fn too_large(request: &Request) -> bool {
        let large = |step: &Step| match step {
            Step::Documents(Change::Put { document, .. }) => document.values.len() > 10_000,
            _ => false,
        };
        request.steps.iter().any(large)
    }
    let world = World::new().await;
    world.insert(doc! { "_id": -1 }).await;
    world
        .channel
        .refuse(|request| (inserts(request) > 1 || too_large(request)).then(|| Refusal::Limit("one".into())));
    let first = world.hold_up(doc! { "_id": 0 }).await;
    let mut inserting = Vec::new();
    for id in 1..=4 {
        let text = if id == 2 { "x".repeat(20_000) } else { "x".to_owned() };
        inserting.push(world.begin_insert(doc! { "_id": id, "text": text }).await);
    }
    // Taken by one that is tried before it.
    inserting.push(world.begin_insert(doc! { "_id": 4, "text": "again" }).await);
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    let mut codes = Vec::new();
    for inserting in inserting {
        codes.push(refused(inserting).await);
    }
    assert_eq!(codes, [None, Some(8), None, None, Some(11000)]);
    assert_eq!(world.ids().await, [-1, 0, 1, 3, 4]);
}

/// One whose outcome is not known is completed as it was recorded: none of its writes is tried again.
#[tokio::test]
async fn a_joined_write_in_doubt_is_applied_once() {
    let world = World::new().await;
    for id in 1..=3 {
        world.insert(doc! { "_id": id, "n": 0 }).await;
    }
    let first = world.hold_up(doc! { "_id": 0, "n": 0 }).await;
    let mut updating = Vec::new();
    for id in 1..=3 {
        updating.push(world.begin_update(update(id_is(id), doc! { "$inc": { "n": 1 } })).await);
    }
    let inserting = world.begin_insert(doc! { "_id": 4, "n": 0 }).await;
    let before = world.channel.writes().len();
    // The first one's reply comes, the joined write's does not.
    world.channel.lose_all_replies_but(1);
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    for updating in updating {
        assert_eq!(updating.await.expect("no panic").expect_err("not known").fault, Fault::InDoubt);
    }
    assert_eq!(refused(inserting).await, Some(IN_DOUBT));
    world.channel.keep_replies();
    let found = world.documents().await;
    let n: Vec<_> = found.iter().map(|d| (d.get_i32("_id").ok(), d.get_i32("n").ok())).collect();
    assert_eq!(n, [(1, 1), (2, 1), (3, 1), (0, 0), (4, 0)].map(|(id, n)| (Some(id), Some(n))));
    // Sent once, and once again to learn its outcome.
    assert_eq!(world.channel.writes().len() - before, 2);
}

/// Whether an `_id` is taken is asked only where entries of indexes would show otherwise, or after it mattered.
#[tokio::test]
async fn inserts_without_indexes_ask_only_after_a_duplicate() {
    let world = World::new().await;
    world.insert(doc! { "_id": -1 }).await;
    let asked = world.channel.asked();
    let first = world.hold_up(doc! { "_id": 0 }).await;
    let mut inserting = Vec::new();
    for id in 1..=4 {
        inserting.push((world.begin_insert(doc! { "_id": id }).await, None));
    }
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    for (inserting, code) in inserting {
        assert_eq!(refused(inserting).await, code);
    }
    assert_eq!(world.channel.asked() - asked, 0, "looks at rows for five inserts");

    let first = world.hold_up(doc! { "_id": 5 }).await;
    let mut inserting = Vec::new();
    for (id, code) in [(6, None), (2, Some(11000)), (7, None), (5, Some(11000))] {
        inserting.push((world.begin_insert(doc! { "_id": id, "again": true }).await, code));
    }
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    for (position, (inserting, code)) in inserting.into_iter().enumerate() {
        assert_eq!(refused(inserting).await, code, "number {position}");
    }
    assert_eq!(world.channel.asked() - asked, 1, "looks at rows after a duplicate");
    let writes = world.channel.writes().len();
    assert_eq!(refused(world.begin_insert(doc! { "_id": 7 }).await).await, Some(11000));
    assert_eq!(world.channel.asked() - asked, 2, "who met a duplicate asks first");
    assert_eq!(world.channel.writes().len(), writes, "writes of what was known to be a duplicate");
    assert_eq!(world.ids().await, (-1..=7).collect::<Vec<_>>());
    assert!(world.documents().await.iter().filter(|found| found.contains_key("again")).count() == 2);
}

#[tokio::test]
async fn with_an_index_nothing_is_sent_of_a_duplicate() {
    let world = World::new().await;
    world.create_index(doc! { "a": 1 }, false).await;
    world.insert(doc! { "_id": 1, "a": 1 }).await;
    let writes = world.channel.writes().len();
    assert_eq!(refused(world.begin_insert(doc! { "_id": 1, "a": 2 }).await).await, Some(11000));
    assert_eq!(world.channel.writes().len(), writes);
}

/// One in doubt that did not ask may yet be refused, and its writer is told so.
#[tokio::test]
async fn an_insert_in_doubt_that_did_not_ask_says_so() {
    let world = World::new().await;
    world.insert(doc! { "_id": 1 }).await;
    world.channel.lose_all_replies_but(0);
    let error = world.begin_insert(doc! { "_id": 2 }).await.await.expect("no panic").expect_err("in doubt");
    assert_eq!(arras_mongo::error::code_of(error.fault).0, IN_DOUBT);
    assert!(error.message.contains("refused then if a document with its `_id` exists"), "{}", error.message);
    world.channel.keep_replies();
    assert_eq!(world.ids().await, [1, 2]);
}

/// What the proxy has on record of a value changes before the server applies the write: nobody else can see it yet.
#[tokio::test]
async fn a_count_by_an_equality_index_counts_no_write_that_is_not_applied() {
    let world = World::new().await;
    world.create_index(doc! { "a": 1 }, false).await;
    world.insert(doc! { "_id": 1, "a": 1 }).await;
    let filter = || Filter::parse(&doc! { "a": 1 }).expect("a filter");
    let first = world.hold_up(doc! { "_id": 2, "a": 1 }).await;
    let counting = world.begin_count(filter()).await;
    let was_answered = counting.is_finished();
    world.channel.open_gate();
    let count = counting.await.expect("no panic").expect("a count");
    // It may also wait for the write.
    assert_eq!(count, if was_answered { 1 } else { 2 });
    assert_eq!(refused(first).await, None);
    assert_eq!(world.begin_count(filter()).await.await.expect("no panic").expect("a count"), 2);
}

/// What an operation that was asked to end came to.
fn is_killed<T: std::fmt::Debug>(outcome: Result<T, ServiceError>) {
    assert_eq!(outcome.expect_err("an interruption").fault, Fault::Interrupted(Reason::Killed));
}

#[tokio::test]
async fn writes_that_wait_for_another_end_when_they_are_asked_to() {
    let world = World::new().await;
    world.insert(doc! { "_id": 1, "n": 1 }).await;
    let first = world.hold_up(doc! { "_id": 2 }).await;
    let interrupt = Interrupt::default();
    let change = doc! { "$set": { "n": 2 } };
    let of = |filter| UpdateStatement { interrupt: interrupt.clone(), ..update(filter, change.clone()) };
    let one = world.begin_update(of(id_is(1))).await;
    let many =
        world.begin_update(UpdateStatement { multi: true, ..of(Filter::parse(&doc! {}).unwrap()) }).await;
    let begin_insert = |ids: std::ops::Range<i32>| {
        let documents = ids.map(|id| doc! { "_id": id }).collect();
        let statement = InsertStatement::of(documents, true).expect("documents");
        let (engine, interrupt) = (world.engine.clone(), interrupt.clone());
        world.begin(async move {
            engine.insert(&world::namespace(), InsertStatement { interrupt, ..statement }).await
        })
    };
    let (inserted, further) = (begin_insert(3..4).await, begin_insert(4..9).await);
    let (engine, sign) = (world.engine.clone(), interrupt.clone());
    let modified = world
        .begin(async move {
            let sort = Sort::default();
            let filter = Filter::parse(&doc! { "n": 1 }).unwrap();
            let query = Query { filter, sort, skip: 0, limit: None, hint: None, allow_disk_use: true };
            engine.find_and_modify(&world::namespace(), query, Modification::Remove, sign).await
        })
        .await;
    interrupt.raise(Reason::Killed);
    // The one that they wait for is not done yet.
    is_killed(one.await.unwrap());
    is_killed(many.await.unwrap());
    is_killed(inserted.await.unwrap());
    is_killed(further.await.unwrap());
    is_killed(modified.await.unwrap());
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    assert_eq!(world.documents().await, [doc! { "_id": 1, "n": 1 }, doc! { "_id": 2 }]);
}

#[tokio::test]
async fn a_write_that_somebody_took_up_and_put_back_ends_when_it_is_asked_to() {
    let world = World::new().await;
    for id in 1..=12 {
        world.insert(doc! { "_id": id, "n": 1 }).await;
    }
    let first = world.hold_up(doc! { "_id": 0 }).await;
    let interrupt = Interrupt::default();
    let mut waiting = Vec::new();
    for id in 1..=12 {
        let change = update(id_is(id), doc! { "$set": { "n": 2 } });
        let change = UpdateStatement { interrupt: interrupt.clone(), ..change };
        waiting.push(world.begin_update(change).await);
    }
    // One of them takes up all, and reads one document after the other until its own is there.
    let permits = world.channel.read_sparsely();
    world.channel.open_gate();
    assert_eq!(refused(first).await, None);
    while world.channel.reads() == 0 {
        tokio::task::yield_now().await;
    }
    interrupt.raise(Reason::Killed);
    world.begin(async {}).await.await.unwrap();
    permits.add_permits(1000);
    let mut changed = 0;
    for one in waiting {
        match one.await.unwrap() {
            Ok(updated) => changed += updated.modified,
            killed => is_killed(killed),
        }
    }
    let documents = world.documents().await;
    let found = documents.iter().filter(|document| document.get_i32("n").is_ok_and(|n| n == 2)).count();
    assert_eq!(found as u64, changed);
}
