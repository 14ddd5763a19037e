//! `kill -9` of PostgreSQL, of one of its processes and of the client, at any point of new values and the rows that have
//! them: afterwards all that is kept agrees.

use super::world::{
    COLUMN, Loopback, Model, World, ciphertext, connect, names, settings, spread, until_waiting,
};
use arras_lab::seed::{below, prg};
use arras_postgres::mope::{Column, Connections, Examination, Protocol, Settings, TreeTables};
use arras_protocol::mope::{Fetch, TreeStore};
use arras_protocol::{Blob, ChannelError};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Client;

/// How many processes, and PostgreSQLs, are killed at random points.
const KILLS: u64 = 8;

/// What the connections of a process that is killed call themselves.
const KILLED: &str = "killed";

/// What the database is now, as a client half that starts finds it.
async fn load(connections: &Connections) -> Result<Model, ChannelError> {
    let examination = Examination::begin(connections.open().await?, Column::from(COLUMN)).await?;
    let fetched = examination.fetch(Fetch { root: true, ..Fetch::default() }).await?;
    // Tree and head are of one version: the node says which.
    let version = fetched.head.version;
    let root = (version > 0).then(|| Blob::from(version.to_be_bytes().to_vec()));
    assert_eq!(fetched.nodes, [root]);
    let mut model = Model { head: fetched.head, ..Model::default() };
    let mut above = 0;
    loop {
        let some = examination.entries(above, 1000).await?;
        let Some((_, last)) = some.last() else {
            return Ok(model);
        };
        above = *last;
        model.labels.extend(some.into_iter().map(|(name, label)| (name.as_slice().to_vec(), label)));
    }
}

/// The change that makes a place for a value, with a change of all labels where there is none.
fn placed(model: &mut Model, name: &str) -> arras_protocol::mope::TreeChange {
    let value = ciphertext(name);
    let below = model.labels.range(..value.clone()).next_back().map_or(0, |(_, label)| *label);
    let above = model.labels.range(value.clone()..).next().map_or(below + 8, |(_, label)| *label);
    if above - below > 1 {
        return model.change(Vec::new(), &[(name, below + (above - below) / 2)], &[]);
    }
    let (low, high) = (*model.labels.values().min().unwrap(), *model.labels.values().max().unwrap());
    // Up and down, and so overlapping what it comes from.
    let start = if low > 100 { 4 } else { 104 };
    let rank = model.labels.range(..value).count() as u64;
    model.change(vec![spread(low, high, start, 4)], &[(name, start + 4 * rank - 2)], &[])
}

/// Stores new values and rows without end, as a proxy does.
async fn work(connections: Arc<Connections>, application: Client, seed: u64) -> Result<(), String> {
    let mut random = prg(seed, "crashes");
    let tables = TreeTables::new(Arc::clone(&connections), Column::from(COLUMN));
    let mut model = load(&connections).await.map_err(|error| error.to_string())?;
    let number = Column::from(COLUMN).number();
    loop {
        let name = format!("{:08}", below(&mut random, 100_000_000));
        if !model.labels.contains_key(&ciphertext(&name)) {
            let applied =
                tables.commit(placed(&mut model, &name)).await.map_err(|error| error.to_string())?;
            assert!(applied, "nobody else changes the tree");
        }
        let statement = format!(
            "BEGIN; SELECT arras.mope_hold({number}); INSERT INTO t (name, label) SELECT n, arras.mope_order({number}, n) \
             FROM (VALUES ('{}'::bytea)) AS v (n); COMMIT",
            String::from_utf8(ciphertext(&name)).unwrap()
        );
        application.batch_execute(&statement).await.map_err(|error| error.to_string())?;
    }
}

/// All that must hold after a crash.
async fn agrees(world: &World) -> Model {
    // Connections of before are dead.
    let connections = Connections::new(world.settings.clone());
    let model = load(&connections).await.unwrap();
    assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
    assert_eq!(model.head.values, model.labels.len() as u64);
    let client = world.application().await;
    let by_label = world.ordered(&client).await;
    let by_name = names(&client.query("SELECT name FROM t ORDER BY name, id", &[]).await.unwrap());
    assert_eq!(by_label, by_name, "the order of labels is that of values");
    model
}

/// Waits until a PostgreSQL that ended all its processes takes connections again.
async fn until_it_answers(settings: &Settings) {
    while Connections::new(settings.clone()).open().await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until PostgreSQL has ended a connection, as it does with all when one of its processes was killed.
async fn until_it_ends(client: &Client) {
    while client.batch_execute("SELECT 1").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn random_pause(random: &mut arras_primitives::prg::Prg) {
    tokio::time::sleep(Duration::from_millis(20 + below(random, 180))).await;
}

#[tokio::test]
async fn postgresql_is_killed_at_random_points() {
    let mut world = World::new(Protocol::Mope).await;
    let mut random = prg(1, "when PostgreSQL is killed");
    let mut versions = 0;
    for round in 0..KILLS {
        let connections = Arc::new(Connections::new(world.settings.clone()));
        let application = connect(world.server.port(), "postgres").await;
        let backend: i32 = application.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let working = tokio::spawn(work(connections, application, round));
        random_pause(&mut random).await;
        if round % 2 == 0 {
            world.server.kill().unwrap();
            world.server.restart().unwrap();
        } else {
            let other = world.application().await;
            world.server.kill_backend(backend.cast_unsigned()).unwrap();
            until_it_ends(&other).await;
        }
        assert!(working.await.unwrap().is_err());
        until_it_answers(&world.settings).await;
        versions = agrees(&world).await.head.version;
    }
    assert!(versions > 0, "something was done in between");
}

#[tokio::test]
async fn the_client_is_killed_at_random_points() {
    let world = World::new(Protocol::Mope).await;
    let mut random = prg(2, "when the client is killed");
    let mut versions = 0;
    for round in 0..KILLS {
        let mut client = Command::new(std::env::current_exe().unwrap());
        client.args(["--exact", "mope::crashes::client_that_is_killed", "--ignored", "--nocapture"]);
        client
            .env("ARRAS_TEST_PORT", world.server.port().to_string())
            .env("ARRAS_TEST_ROUND", round.to_string());
        let mut client =
            client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let before = versions;
        // It has begun once it has changed something.
        while versions == before {
            assert_eq!(client.try_wait().unwrap(), None, "it does not end by itself");
            let observer = world.application().await;
            let asked = observer.query_one("SELECT version FROM arras.mope_column", &[]).await.unwrap();
            versions = asked.get::<_, i64>(0).cast_unsigned();
        }
        random_pause(&mut random).await;
        client.kill().unwrap();
        client.wait().unwrap();
        // What it had sent goes on to its end.
        let observer = world.application().await;
        let left = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{KILLED}'");
        while observer.query_one(&left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        versions = agrees(&world).await.head.version;
    }
}

/// The process that the test above kills.
#[tokio::test]
#[ignore = "a process that another test starts, and kills"]
async fn client_that_is_killed() {
    let port = std::env::var("ARRAS_TEST_PORT").unwrap().parse().unwrap();
    let round: u64 = std::env::var("ARRAS_TEST_ROUND").unwrap().parse().unwrap();
    let mut login = tokio_postgres::Config::new();
    login.user("postgres").dbname("postgres").application_name(KILLED);
    let long = Duration::from_secs(600);
    let settings = Settings { dial: Arc::new(Loopback(port)), login, deadline: long, patience: long };
    let application = connect(port, "postgres").await;
    application.batch_execute(&format!("SET application_name = '{KILLED}'")).await.unwrap();
    panic!("{:?}", work(Arc::new(Connections::new(settings)), application, 1000 + round).await);
}

/// Where a change is stopped when somebody is killed.
const STOPS: [&str; 5] = [
    "SELECT FROM arras.mope_column FOR UPDATE",
    "LOCK TABLE arras.mope_epoch IN SHARE MODE",
    "LOCK TABLE arras.mope_node IN SHARE MODE",
    "LOCK TABLE arras.mope_entry IN SHARE MODE",
    "SELECT FROM t FOR UPDATE",
];

#[tokio::test]
async fn a_change_that_is_killed_at_any_step_is_not_there() {
    let mut world = World::new(Protocol::Mope).await;
    let model = Model::store(&world.tables(), &[("a", 10), ("b", 11)]).await;
    let client = world.application().await;
    world.insert(&client, &["a", "b"]).await;
    for stop in STOPS {
        for kill_all in [true, false] {
            let stopper = world.waiting_application().await;
            stopper.batch_execute("BEGIN").await.unwrap();
            stopper.batch_execute(stop).await.unwrap();
            let tables = TreeTables::new(Arc::new(Connections::new(settings(&world.server))), world.column);
            let change = model.clone().change(vec![spread(10, 11, 100, 10)], &[("ab", 105)], &[]);
            let changing = tokio::spawn(async move { tables.commit(change).await });
            until_waiting(&stopper, 1).await;
            if kill_all {
                world.server.kill().unwrap();
                world.server.restart().unwrap();
            } else {
                let waiting = "SELECT DISTINCT pid FROM pg_locks WHERE NOT granted";
                let backend: i32 = stopper.query_one(waiting, &[]).await.unwrap().get(0);
                world.server.kill_backend(backend.cast_unsigned()).unwrap();
            }
            until_it_ends(&stopper).await;
            let failed = changing.await.unwrap().unwrap_err();
            assert!(failed.outcome_unknown(), "{stop}: {failed}");
            until_it_answers(&world.settings).await;
            let now = agrees(&world).await;
            assert_eq!((now.head, &now.labels), (model.head, &model.labels), "{stop}");
        }
    }
    // The connections of before are replaced.
    let tables = world.tables();
    let lost = tables.commit(model.clone().change(Vec::new(), &[("c", 20)], &[])).await;
    assert!(lost.as_ref().is_ok_and(|applied| *applied), "{lost:?}");
}
