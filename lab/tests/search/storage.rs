//! Each storage service behind the host, as its own software.

use arras_host::store::cassandra::{CassandraStore, Ring};
use arras_host::store::redis::{PATIENCE, RedisStore};
use arras_host::store::{Store, conformance};
use arras_lab::private_cassandra::PrivateCassandra;
use arras_lab::private_redis::PrivateRedis;
use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};
use std::time::Duration;

#[tokio::test]
async fn redis_keeps_what_it_is_given() {
    let redis = PrivateRedis::start().unwrap();
    let store = RedisStore::connect(&redis.urls(), "arras", PATIENCE).await.unwrap();
    conformance::a_service_keeps_what_it_is_given(&store).await;
    // Of the entries one was removed; of state the head, a record and two checkpoints are left, and the set of their names.
    assert_eq!(redis.said(0, &["dbsize"]).trim(), "1004");
}

#[tokio::test]
async fn a_cluster_of_redis_keeps_what_it_is_given_and_spreads_it() {
    let redis = PrivateRedis::start_cluster().unwrap();
    let store = RedisStore::connect(&redis.urls(), "arras", PATIENCE).await.unwrap();
    conformance::a_service_keeps_what_it_is_given(&store).await;
    for place in 0..3 {
        let keys: usize = redis.said(place, &["dbsize"]).trim().parse().unwrap();
        assert!(keys > 200, "server {place} has {keys} of 1004 keys");
    }
}

/// Two hosts that begin on one storage would write over each other's records: the second is told.
pub(crate) async fn is_begun_by_one<S: Store>(store: &S) {
    let begin = async |byte: u8| store.begin(vec![byte; 100].into()).await;
    begin(1).await.unwrap();
    begin(1).await.unwrap();
    let told = begin(2).await.unwrap_err().to_string();
    assert!(told.contains("another host"), "{told}");
    assert_eq!(store.load(StateName::Log(1)).await.unwrap(), Some(vec![1; 100]));
    // Its records are in a checkpoint by now.
    store.save(StateName::Head, vec![3; 10].into()).await.unwrap();
    store.forget(5).await.unwrap();
    assert!(begin(2).await.is_err());
}

#[tokio::test]
async fn redis_is_begun_by_one_host() {
    let redis = PrivateRedis::start().unwrap();
    is_begun_by_one(&RedisStore::connect(&redis.urls(), "arras", PATIENCE).await.unwrap()).await;
}

/// How many commands of a name a server has had.
fn commands(redis: &PrivateRedis, place: usize, name: &str) -> u64 {
    let said = redis.said(place, &["info", "commandstats"]);
    let begin = format!("cmdstat_{name}:calls=");
    let line = said.lines().find_map(|line| line.strip_prefix(&begin));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or_default()
}

/// A batch goes to a cluster by its parts: keys of many slots in one command would be a command each.
#[tokio::test]
async fn a_batch_is_a_command_for_each_part_of_a_cluster() {
    let redis = PrivateRedis::start_cluster().unwrap();
    let store = RedisStore::connect(&redis.urls(), "arras", PATIENCE).await.unwrap();
    let label = |number: u16| [number.to_le_bytes().to_vec(), vec![5; LABEL_BYTES - 2]].concat();
    let labels: Vec<u8> = (0..8192).flat_map(label).collect();
    let entries: Vec<u8> =
        (0..8192).flat_map(|number| [label(number), vec![6; SEALED_BYTES]].concat()).collect();
    store.put(entries.into()).await.unwrap();
    assert!(store.get(labels.clone().into()).await.unwrap() == [6; SEALED_BYTES].repeat(8192));
    store.remove(labels.into()).await.unwrap();
    for name in ["mset", "mget", "unlink"] {
        let sent: u64 = (0..3).map(|place| commands(&redis, place, name)).sum();
        assert_eq!(sent, 128, "{name}");
    }
}

async fn connect(cassandra: &PrivateCassandra, replicas: u8) -> CassandraStore {
    let ring = Ring { nodes: cassandra.nodes(), keyspace: "search".into(), replicas };
    CassandraStore::connect(&ring).await.unwrap()
}

#[tokio::test]
async fn one_node_of_cassandra_keeps_what_it_is_given() {
    let cassandra = PrivateCassandra::start(1).unwrap();
    let store = connect(&cassandra, 1).await;
    conformance::a_service_keeps_what_it_is_given(&store).await;
    let ring = Ring { nodes: cassandra.nodes(), keyspace: "begun".into(), replicas: 1 };
    is_begun_by_one(&CassandraStore::connect(&ring).await.unwrap()).await;
    let odd = Ring { nodes: cassandra.nodes(), keyspace: "a; DROP".into(), replicas: 1 };
    assert!(CassandraStore::connect(&odd).await.err().unwrap().to_string().contains("keyspace"));
}

/// Two of three are a majority: a lost node is not noticed, in the middle of writes.
#[tokio::test]
async fn three_nodes_of_cassandra_keep_what_they_are_given_though_one_is_lost() {
    let mut cassandra = PrivateCassandra::start(3).unwrap();
    let store = connect(&cassandra, 3).await;
    conformance::a_service_keeps_what_it_is_given(&store).await;
    let entries = |round: u8| -> Vec<u8> {
        let entry = |number: u8| [&[number, round], &[round; ENTRY_BYTES - 2][..]].concat();
        (0..=255).flat_map(entry).collect()
    };
    for round in 0..8 {
        if round == 3 {
            cassandra.kill(2).unwrap();
        }
        store.put(entries(round).into()).await.unwrap();
    }
    for round in 0..8 {
        let entries = entries(round);
        let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
        let labels: Vec<u8> = entries.iter().flat_map(|entry| entry[..LABEL_BYTES].to_vec()).collect();
        let expected: Vec<u8> = entries.iter().flat_map(|entry| entry[LABEL_BYTES..].to_vec()).collect();
        assert!(store.get(labels.into()).await.unwrap() == expected, "round {round}");
    }
}

/// How long tests wait for a server that they take away: not as long as those in earnest.
const IMPATIENCE: Duration = Duration::from_secs(8);

/// A lost server is an error of what lies there, never an answer that there is nothing; the others answer.
#[tokio::test]
async fn a_lost_server_of_a_cluster_is_an_error() {
    let mut redis = PrivateRedis::start_cluster().unwrap();
    let store = RedisStore::connect(&redis.urls(), "arras", IMPATIENCE).await.unwrap();
    let labels: Vec<[u8; LABEL_BYTES]> = (0..100_u8).map(|byte| [byte; LABEL_BYTES]).collect();
    let entries: Vec<u8> =
        labels.iter().flat_map(|label| [&label[..], &[1; SEALED_BYTES]].concat()).collect();
    assert_eq!(entries.len(), 100 * ENTRY_BYTES);
    store.put(entries.into()).await.unwrap();
    redis.kill(1).unwrap();
    assert!(store.get(labels.concat().into()).await.is_err());
    let (mut found, mut refused) = (0, 0);
    for label in labels {
        match store.get(Blob(label.to_vec())).await {
            Ok(entry) if entry == [1; SEALED_BYTES] => found += 1,
            Ok(other) => panic!("{other:?}"),
            Err(_) => refused += 1,
        }
        if found > 0 && refused > 0 {
            break;
        }
    }
    assert!(found > 0 && refused > 0, "{found} found, {refused} refused");
}

/// How often servers are lost, and how often what they hold is asked for until it is there.
const ROUNDS: u8 = 2;
const TRIES: usize = 20;

/// Servers that were lost and are back are used again, by whoever had used them before, however often.
#[tokio::test]
async fn servers_that_were_lost_are_used_again() {
    let entries = |round: u8| -> Blob {
        (0..=255_u8)
            .flat_map(|number| [&[number; LABEL_BYTES][..], &[round; SEALED_BYTES]].concat())
            .collect::<Vec<u8>>()
            .into()
    };
    let labels =
        || -> Blob { (0..=255_u8).flat_map(|number| [number; LABEL_BYTES]).collect::<Vec<u8>>().into() };
    for (mut redis, lost) in
        [(PrivateRedis::start().unwrap(), 0), (PrivateRedis::start_cluster().unwrap(), 1)]
    {
        let store = RedisStore::connect(&redis.urls(), "arras", IMPATIENCE).await.unwrap();
        for round in 1..=ROUNDS {
            // Else what was acknowledged may be gone with the process: the log is written behind a flush that is under way.
            assert_eq!(redis.said(lost, &["config", "set", "appendfsync", "always"]).trim(), "OK");
            store.put(entries(round)).await.unwrap();
            redis.kill(lost).unwrap();
            let (put, got) = tokio::join!(store.put(entries(round)), store.get(labels()));
            assert!(put.is_err() && got.is_err(), "round {round}: {put:?}");
            redis.start_again(lost).unwrap();
            let mut tries = (0..TRIES).map(|_| store.get(labels()));
            let found = loop {
                let tried = tries.next().expect("the servers are used again").await;
                if let Ok(found) = tried {
                    break found;
                }
            };
            assert!(found == [round; SEALED_BYTES].repeat(256), "round {round}");
        }
    }
}

/// A server that hangs is an error after a while, by itself and as one of a cluster: nobody waits for it for ever.
#[tokio::test]
async fn a_server_that_hangs_is_an_error() {
    let entries =
        || -> Blob { (0..=255_u8).flat_map(|number| [number; ENTRY_BYTES]).collect::<Vec<u8>>().into() };
    for redis in [PrivateRedis::start().unwrap(), PrivateRedis::start_cluster().unwrap()] {
        let store = RedisStore::connect(&redis.urls(), "arras", Duration::from_secs(2)).await.unwrap();
        store.put(entries()).await.unwrap();
        redis.halt(0).unwrap();
        let error = store.put(entries()).await.unwrap_err();
        assert!(error.to_string().contains("Redis"), "{error}");
    }
}
