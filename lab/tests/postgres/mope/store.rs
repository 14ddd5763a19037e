//! What a keeper of a tree promises, kept by tables.

use super::world::{Model, World, ciphertext, spread};
use arras_postgres::mope::{Column, Protocol, TreeTables};
use arras_protocol::mope::{Fetch, Move, Summary, TreeStore};
use arras_protocol::{Blob, ChannelError, Refusal};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn rounds_answer_in_the_order_asked_and_changes_apply_at_their_version_only() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let empty = tables.fetch(Fetch { nodes: vec![1], root: true, ciphertexts: vec![] }).await.unwrap();
    assert_eq!((empty.head, empty.nodes), (Model::default().head, vec![None, None]));
    let mut model = Model::store(&tables, &[("a", 10), ("b", u64::MAX - 1), ("c", 1)]).await;
    let asked = Fetch {
        nodes: vec![9, 1],
        root: true,
        ciphertexts: ["c", "no", "b", "c"].iter().map(|name| Blob::from(ciphertext(name))).collect(),
    };
    let fetched = tables.fetch(asked).await.unwrap();
    let content = Some(Blob::from(1u64.to_be_bytes().to_vec()));
    assert_eq!(fetched.head, model.head);
    assert_eq!(fetched.nodes, [None, content.clone(), content]);
    assert_eq!(fetched.labels, [Some(1), None, Some(u64::MAX - 1), Some(1)]);
    let late = model.clone().change(Vec::new(), &[("d", 11)], &[]);
    assert!(tables.commit(model.change(Vec::new(), &[("e", 12)], &[])).await.unwrap());
    assert!(!tables.commit(late).await.unwrap());
    assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
    let unknown = TreeTables::new(Arc::clone(&world.connections), Column::from([0; 8]));
    let refused = unknown.fetch(Fetch::default()).await.unwrap_err();
    assert!(refused.to_string().contains("not registered"), "{refused}");
}

#[tokio::test]
async fn a_change_with_one_wrong_part_is_applied_in_none() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let model = Model::store(&tables, &[("a", 10), ("b", 20)]).await;
    // A label that is taken, a ciphertext that is, an end of the numbers.
    for entered in [("c", 20), ("a", 30), ("c", 0), ("c", u64::MAX)] {
        let change = model.clone().change(vec![spread(10, 10, 5, 1)], &[entered], &[]);
        let refused = tables.commit(change).await.unwrap_err();
        assert!(matches!(refused, ChannelError::Refused(Refusal::Storage(_))), "{refused}");
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn every_summary_comes_to_the_labels_that_the_client_computed_in_table_and_rows() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let client = world.application().await;
    client.batch_execute("CREATE TABLE \"Second one\" (\"its label\" bigint)").await.unwrap();
    arras_postgres::mope::store_in(&client, world.column, "\"Second one\"", "its label").await.unwrap();
    let mut model =
        Model::store(&tables, &[("a", 1), ("b", 2), ("c", 3), ("d", 1 << 63), ("e", u64::MAX - 1)]).await;
    world.insert(&client, &["e", "a", "d", "b", "c", "a"]).await;
    client.batch_execute("BEGIN").await.unwrap();
    world.hold(&client).await;
    let copy = "INSERT INTO \"Second one\" SELECT label FROM t UNION ALL SELECT NULL; COMMIT";
    client.batch_execute(copy).await.unwrap();
    let level = 62;
    let summaries = [
        vec![spread(1, u64::MAX - 1, 1, (u64::MAX - 2) / 4)],
        vec![spread(1, u64::MAX - 1, 7, 1)],
        // Overlapping what it comes from, upwards and downwards; two at once.
        vec![spread(7, 11, 8, 1), spread(8, 12, 4, 1)],
        vec![spread(4, 8, 1, u64::MAX / 5), spread(1, u64::MAX - 1, 3 << level, 1 << 40)],
        vec![Summary::Moves(vec![
            Move { low: 3 << level, high: (3 << level) + (1 << 40), start: 5, down: 10 },
            Move { low: (3 << level) + (2 << 40), high: u64::MAX - 1, start: 1 << 31, down: -3 },
        ])],
        vec![Summary::Moves(vec![Move { low: 1 << 30, high: u64::MAX - 1, start: 1 << 41, down: 1 }])],
    ];
    for summaries in summaries {
        let change = model.change(summaries, &[], &[]);
        assert!(tables.commit(change).await.unwrap());
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
        assert_eq!(world.ordered(&client).await, ["a", "a", "b", "c", "d", "e"]);
        let second = "SELECT count(*) FROM (SELECT \"its label\" FROM \"Second one\" EXCEPT ALL SELECT label FROM t) d";
        assert_eq!(client.query_one(second, &[]).await.unwrap().get::<_, i64>(0), 1, "NULL alone");
    }
}

#[tokio::test]
async fn who_waits_for_labels_says_who_holds_them_and_a_value_that_finds_room_does_not_wait() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables_with(|settings| settings.patience = Duration::from_millis(60));
    let mut model = Model::store(&tables, &[("a", 10), ("b", 11)]).await;
    let thinking = world.application().await;
    thinking.batch_execute("BEGIN").await.unwrap();
    world.hold(&thinking).await;
    thinking.execute(&world.insertion(), &[&ciphertext("a").as_slice()]).await.unwrap();
    let pid: i32 = thinking.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let before = model.clone();
    let change = model.change(vec![spread(10, 11, 100, 100)], &[("ab", 150)], &[]);
    let held = tables.commit(change.clone()).await.unwrap_err();
    assert!(!held.outcome_unknown());
    let text = held.to_string();
    assert!(text.contains(&format!("process {pid}, idle in transaction")), "{text}");
    // Others store new values meanwhile, and read.
    model = before;
    assert!(tables.commit(model.change(Vec::new(), &[("c", 20)], &[])).await.unwrap());
    let other = world.application().await;
    world.insert(&other, &["c", "b"]).await;
    assert_eq!(world.ordered(&other).await, ["b", "c"]);
    thinking.batch_execute("COMMIT").await.unwrap();
    let change = model.change(vec![spread(10, 20, 100, 100)], &[("ab", 150)], &[]);
    assert!(tables.commit(change).await.unwrap());
    assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
    assert_eq!(world.ordered(&other).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn one_round_is_of_one_version_while_changes_go_on() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let mut model = Model::store(&tables, &[("a", 1)]).await;
    let fetch = || Fetch { nodes: vec![1], root: true, ciphertexts: vec![Blob::from(ciphertext("a"))] };
    let changing = async {
        for _ in 0..200 {
            let at = model.labels.values().copied().next().unwrap();
            assert!(tables.commit(model.change(vec![spread(at, at, at + 1, 1)], &[], &[])).await.unwrap());
        }
    };
    let reading = async {
        loop {
            let fetched = tables.fetch(fetch()).await.unwrap();
            let content = Some(Blob::from(fetched.head.version.to_be_bytes().to_vec()));
            assert_eq!(fetched.nodes, [content.clone(), content]);
            assert_eq!(fetched.labels, [Some(fetched.head.version)]);
            if fetched.head.version == 201 {
                break;
            }
        }
    };
    tokio::join!(changing, reading);
}
